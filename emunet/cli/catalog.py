"""``emunet catalog``: devices that a scenario can name."""

from __future__ import annotations

import click

from emunet.cli.options import json_option


@click.group(name="catalog")
def command() -> None:
    """Look at the catalogue of devices."""


@command.command(name="switches")
@json_option
def switches(as_json: bool) -> None:
    """List the switches, for `switch: {model: NAME}`."""
    from emunet import catalog
    from emunet.cli.output import print_json

    entries = [catalog.entry("switches", name) for name in catalog.names("switches")]
    if as_json:
        print_json({"switches": [catalog.as_dict(entry) for entry in entries]})
        return
    from emunet.report import make_console
    from emunet.report.catalog import print_entries

    print_entries(entries, make_console())


@command.command(name="show")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Print every value of a device with its source and class of evidence."""
    from emunet import catalog
    from emunet.cli.output import print_json

    entry = catalog.find(name)
    if as_json:
        print_json(catalog.as_dict(entry))
        return
    from emunet.report import make_console
    from emunet.report.catalog import print_entry

    print_entry(entry, make_console())
