"""The command line: one file per command, no logic, heavy imports inside the commands."""

from __future__ import annotations

import importlib

import click

from emunet import __version__

COMMANDS = {
    "run": "emunet.cli.run",
    "replay": "emunet.cli.replay",
    "check": "emunet.cli.check",
    "schema": "emunet.cli.schema",
    "topo": "emunet.cli.topo",
    "catalog": "emunet.cli.catalog",
    "trace": "emunet.cli.trace",
    "watermarks": "emunet.cli.watermarks",
    "verify": "emunet.cli.verify",
    "info": "emunet.cli.info",
}
"""Commands in the order of the help text, and the module whose `command` each is."""


class Commands(click.Group):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None."""
        if cmd_name not in COMMANDS:
            from emunet.errors import did_you_mean

            ctx.fail(
                f"no such command: {cmd_name!r}; {did_you_mean(cmd_name, COMMANDS)}".rstrip("; ")
            )
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def emunet() -> None:
    """Packet-level emulation of RDMA data-centre fabrics.

    Exit codes: 0 done; 1 internal error or unwritable output; 2 usage, scenario or text of a
    policy; 3 input file, or a policy that failed while running; 4 flows left unfinished; 5
    comparison failed; 130 interrupted (Ctrl-C or SIGTERM), partial results kept.
    """
