"""``emunet verify``: is a trace what its scenario gives?"""

from __future__ import annotations

import click

from emunet.cli.failures import DIFFERENT, INTERRUPTED, OK
from emunet.cli.options import MOST_THREADS, json_option, quiet_option


@click.command(name="verify")
@click.argument("trace", type=click.Path())
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    default=1,
    show_default=True,
    help="Threads of the engine.",
)
@click.option("--no-run", is_flag=True, help="Check the books of the file only.")
@json_option
@quiet_option
def command(trace: str, threads: int, no_run: bool, as_json: bool, quiet: bool) -> int:
    """Check that a trace's books balance, then run its scenario again and compare all results.

    Exit code 5 if the results differ, the books do not balance, or the data is not what the run
    wrote; 130 if the second run was interrupted.
    """
    from emunet import progress
    from emunet.cli.output import print_json
    from emunet.verify import verify

    found = verify(trace, threads=threads, again=not no_run, progress=progress.for_terminal(quiet))
    if as_json:
        print_json(
            {
                "ok": found.ok,
                "digest": found.digest,
                "digest_again": found.digest_again,
                "problems": found.problems,
            }
        )
    elif not quiet or not found.ok:
        print("\n".join(found.lines()))
    if found.interrupted:
        return INTERRUPTED
    return OK if found.ok else DIFFERENT
