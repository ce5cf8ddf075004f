"""``emunet check``: everything that `run` would refuse, without running."""

from __future__ import annotations

import click

from emunet.cli.options import json_option, set_option


@click.command(name="check")
@click.argument("scenario", type=click.Path())
@set_option
@json_option
def command(scenario: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a scenario and the files that it names."""
    from emunet.cli.output import print_json, print_pairs, warn
    from emunet.dryrun import needs
    from emunet.run import prepare

    prepared = prepare(scenario, set=overrides)
    for text in prepared.warnings:
        warn(text)
    found = needs(prepared)
    if as_json:
        print_json({"ok": True, **found.numbers, "warnings": prepared.warnings})
    else:
        print_pairs(found.lines)
        print("ok")
