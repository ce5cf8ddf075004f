"""Standard streams that cannot be written: closed before the start, a full disk, no reader."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

OUT, ERR = 1, 2
_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)


def occupy() -> None:
    """Let no file that is opened later have the number of a standard stream that is closed.

    What is written to a closed output fails as it would in other programs (bad file descriptor);
    what is written to closed errors is lost, and does not go to the output instead.
    """
    for number, name, mode in ((0, "stdin", "r"), (OUT, "stdout", "w"), (ERR, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_WRONLY if number == ERR else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def refused(error: OSError) -> bool:
    """Whether it is the standard output that could not be written."""
    if error.filename is not None:
        return False
    return error.errno in _UNWRITABLE or not _flushed(OUT)


def settle(code: int) -> int:
    """Write what waits; the exit code, or 1 if the output cannot be written after all.

    What cannot be written is dropped, so that the end of the process does not try again.
    """
    if not _flushed(ERR):
        _drop(ERR)
    if _flushed(OUT):
        return code
    _drop(OUT)
    return code or 1


def _flushed(number: int) -> bool:
    stream = sys.stdout if number == OUT else sys.stderr
    try:
        stream.flush()
    except (OSError, ValueError):
        return False
    return True


def _drop(number: int) -> None:
    """Send a stream to nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
