"""The one place where exceptions become messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import click

from emunet.cli import streams
from emunet.errors import EmunetError
from emunet.interrupt import AT_ONCE, EXIT_CODE

OK, INTERNAL, INPUT_FILE, DIFFERENT, INTERRUPTED = 0, 1, 3, 5, EXIT_CODE
"""Exit codes that are decided here; `EmunetError` and click bring theirs along."""

DEBUG_VARIABLE = "EMUNET_DEBUG"


@dataclass
class Session:
    """What a failure must know of the command's options: whether the answer is to be JSON."""

    json: bool = False


def call(command: click.Command, args: Sequence[str] | None) -> int:
    """Run `command` and give the exit code.

    What goes wrong is printed: on stderr, and with ``--json`` as one object on stdout, too. With
    ``EMUNET_DEBUG=1`` exceptions pass through, so that their traceback is seen.
    """
    streams.occupy()
    session = Session()
    AT_ONCE.answer = lambda said: _answer(INTERRUPTED, said) if session.json else ""
    try:
        status = command.main(args, prog_name="emunet", standalone_mode=False, obj=session)
        sys.stdout.flush()
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return _failed(session, error.exit_code, error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _failed(session, INTERRUPTED, "interrupted", say=True)
    except SystemExit:
        # Libraries leave like this when the reader of our output has gone (`| head`).
        return streams.settle(INTERNAL)
    except Exception as error:
        if isinstance(error, OSError) and streams.refused(error):
            return _unwritable(error)
        if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
            raise
        return _failed(session, *describe(error), say=True)
    return streams.settle(status if isinstance(status, int) else OK)


def describe(error: Exception) -> tuple[int, str]:
    """Exit code and text of an exception."""
    if isinstance(error, EmunetError):
        return error.exit_code, str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return INPUT_FILE, f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return INTERNAL, "out of memory; `emunet run --dry-run` estimates what a scenario needs"
    return INTERNAL, (
        f"internal error: {type(error).__name__}: {error}\n"
        f"This is a defect of emunet; {DEBUG_VARIABLE}=1 shows the traceback to report."
    )


def _failed(session: Session, code: int, message: str, say: bool = False) -> int:
    with suppress(OSError):
        if say:
            print(message, file=sys.stderr)
    with suppress(OSError):
        if session.json:
            print(_answer(code, message), end="")
    return streams.settle(code)


def _unwritable(error: OSError) -> int:
    """The output cannot be written: quietly, if its reader has gone."""
    if error.errno != errno.EPIPE:
        with suppress(OSError):
            print(f"standard output: {error.strerror}", file=sys.stderr)
    return streams.settle(INTERNAL)


def _answer(code: int, message: str) -> str:
    """The JSON object that stands for a failure."""
    return json.dumps({"error": message, "exit_code": code}, indent=2) + "\n"
