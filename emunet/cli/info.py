"""``emunet info``: what is installed and how it was built."""

from __future__ import annotations

import click

from emunet.cli.options import json_option


@click.command(name="info")
@json_option
def command(as_json: bool) -> None:
    """Print version, build of the engine, libraries and machine."""
    from emunet.cli.output import print_json, print_pairs
    from emunet.info import build_facts, hdf5_version, machine_facts

    facts = {**build_facts(), "hdf5": hdf5_version(), **machine_facts()}
    if as_json:
        print_json(facts)
    else:
        print_pairs(facts.items())
