"""What `run` and `replay` share: run, then print the result."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from emunet.cli.failures import INTERRUPTED, OK

if TYPE_CHECKING:
    from emunet.run import FinishedRun


def execute(scenario: Any, *, as_json: bool, quiet: bool, dry_run: bool, **options: Any) -> int:
    """Run a scenario as the options of `run_options` say; the exit code."""
    from emunet import progress
    from emunet.cli.dry import show_dry_run
    from emunet.cli.output import warn
    from emunet.run import run

    options["set"] = options.pop("overrides")
    if dry_run:
        kept = {name: options[name] for name in ("cc", "seed", "until", "set", "twin")}
        return show_dry_run(scenario, as_json=as_json, **kept)
    result = run(scenario, progress=progress.for_terminal(quiet), **options)
    _show(result, options["out"], as_json, quiet)
    for text in (*result.notes, *result.warnings):
        warn(text)
    return _exit_code(result)


def _show(result: FinishedRun, out: str | None, as_json: bool, quiet: bool) -> None:
    """One JSON object, or the table and the trace's path."""
    from emunet.cli.output import print_json

    if as_json:
        print_json({**result.summary, "trace": out, "notes": result.notes})
    elif not quiet:
        from emunet.report import make_console, print_result

        print_result(result.summary, make_console())
        if out:
            print(out)


def _exit_code(result: FinishedRun) -> int:
    """Exit code of a run that came to its end; why flows are unfinished goes to stderr."""
    from emunet.cli.output import warn
    from emunet.errors import RunIncomplete
    from emunet.report import unfinished_reasons

    if result.reason == "interrupted":
        warn("interrupted; these are the results so far")
        return INTERRUPTED
    flows = result.summary["flows"]
    if not flows["unfinished"]:
        return OK
    words = f"{flows['unfinished']} of {flows['total']} flows unfinished"
    circles = [f"deadlock: {found['cycle']}" for found in result.summary["deadlocks"]]
    failure = RunIncomplete(words, [*circles, *unfinished_reasons(result)])
    with suppress(OSError):
        print(failure, file=sys.stderr)
    return failure.exit_code
