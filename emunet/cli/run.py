"""``emunet run``: the main job."""

from __future__ import annotations

from typing import Any

import click

from emunet.cli.options import run_options


@click.command(name="run")
@click.argument("scenario", type=click.Path())
@run_options
def command(scenario: str, **options: Any) -> int:
    """Run a scenario, packet by packet, and print the result."""
    from emunet.cli.execute import execute

    return execute(scenario, **options)
