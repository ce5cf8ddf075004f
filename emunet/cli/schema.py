"""``emunet schema``: the scenario format for editors and other programs."""

from __future__ import annotations

import click


@click.command(name="schema")
def command() -> None:
    """Print the JSON schema of scenario files."""
    from emunet.cli.output import print_json
    from emunet.scenario import json_schema

    print_json(json_schema())
