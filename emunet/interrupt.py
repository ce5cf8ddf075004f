"""Ctrl-C or SIGTERM: in a run the first asks the loop to stop after its turn, the second stops.

Elsewhere on the command line, they end the process where it stands.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_CODE = 130


class Interrupts:
    """While entered, the first signal only sets `requested`; the next raises `KeyboardInterrupt`.

    SIGTERM, which schedulers send some time before they kill, counts like Ctrl-C.

    A plain `KeyboardInterrupt` could strike between draining the engine and writing its rows, and
    lose them. Outside the main thread signals cannot be handled, and nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None: the handler before was not set from Python.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class AtOnce:
    """Ends the process at a signal, without unwinding; for the command line, never for a library.

    `KeyboardInterrupt` can strike in the midst of an import or of a callback whose exceptions are
    printed and ignored. So nothing is raised unless a run's file holds results: then the error
    passes through the writer, which closes the file. A file without results is removed.

    Attributes
    ----------
    answer : callable, optional
        Gives what to print on stdout.
    """

    def __init__(self) -> None:
        self.answer: Callable[[], str] | None = None

    def install(self) -> None:
        """Handle signals from now on, except those that the parent process has switched off."""
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)
        sys.unraisablehook = _unraisable

    def ignore(self) -> None:
        """Let signals no longer change the exit code, which is known."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        under_way = getattr(sys.modules.get("emunet.trace.writer"), "UNDER_WAY", {})
        if any(under_way.values()):
            raise KeyboardInterrupt
        for path in list(under_way):
            with suppress(OSError):
                path.unlink()
        self._leave()

    def _leave(self) -> NoReturn:
        with suppress(OSError):
            os.write(2, b"\ninterrupted\n")
            if self.answer is not None:
                os.write(1, self.answer().encode())
        os._exit(EXIT_CODE)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """Say nothing of a Ctrl-C that struck where nothing can be raised."""
    if not issubclass(found.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(found)


AT_ONCE = AtOnce()
"""The command line's."""
