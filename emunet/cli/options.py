"""Options that several commands share, and their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from emunet.cli.failures import Session

MOST_THREADS = 256
"""Threads that the engine takes; a test compares. Its own number comes with heavy imports."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Time(click.ParamType):
    """A simulated time with its unit, as integer picoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``2ms`` -> 2000000000."""
        from emunet.units import parse_time

        if isinstance(value, int):
            return value
        try:
            return parse_time(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


def _note_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    ctx.ensure_object(Session).json = value
    return value


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=_note_json,
    help="Print exactly one JSON object on stdout.",
)

quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="No progress and no table; warnings and errors only."
)

set_option = click.option(
    "--set",
    "overrides",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change one value of the scenario: --set switch.buffer=16MB. Repeatable.",
)

FILE = click.Path(exists=True, dir_okay=False)


def run_options(command: Command) -> Command:
    """The options of `run` and `replay`."""
    for option in reversed(
        (
            click.option(
                "-o",
                "--out",
                metavar="OUT.h5",
                type=click.Path(dir_okay=False),
                help="Write the trace here.",
            ),
            click.option(
                "--force",
                is_flag=True,
                help="Replace OUT.h5 if it exists; never what the run reads.",
            ),
            set_option,
            click.option(
                "--cc",
                metavar="NAME|FILE.py",
                help="Congestion control: a shipped one, or your own file.",
            ),
            click.option("--seed", type=click.IntRange(min=0), help="Seed of every random draw."),
            click.option(
                "--threads",
                type=click.IntRange(1, MOST_THREADS),
                default=1,
                show_default=True,
                help="Threads of the engine; results do not depend on it.",
            ),
            click.option(
                "--until", type=Time(), metavar="TIME", help="Stop before this simulated time: 2ms."
            ),
            click.option("--twin", is_flag=True, help="Run on the slow plain-Python engine."),
            json_option,
            click.option(
                "-n",
                "--dry-run",
                is_flag=True,
                help="Check, print what the run would need, and stop.",
            ),
            quiet_option,
        )
    ):
        command = option(command)
    return command
