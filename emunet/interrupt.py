"""Ctrl-C or SIGTERM: in a run the first asks the loop to stop after its turn, the second stops.

Elsewhere on the command line, they end the process where it stands.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from emunet.watch import Watch

SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_CODE = 130


class Interrupts:
    """While entered, the first signal only sets `requested`; the next raises `KeyboardInterrupt`.

    SIGTERM, which schedulers send some time before they kill, counts like Ctrl-C.

    A plain `KeyboardInterrupt` could strike between draining the engine and writing its rows, and
    lose them. Outside the main thread signals cannot be handled, and nothing changes.

    Parameters
    ----------
    abandon : callable
        Closes what the run writes, in another thread, if the engine does not return after the
        second signal. Only on the command line, whose process ends with it.
    """

    def __init__(self, abandon: Callable[[], None]) -> None:
        self.requested = False
        self._abandon = abandon
        self._again = self._away = False
        self._turn = threading.Lock()
        self._turn.acquire()
        self._watch: Watch | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
            if AT_ONCE.installed:
                from emunet.watch import Watch

                self._watch = Watch(self._turn, self._give_up)
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
        if self._watch is not None:
            self._watch.stop()

    @contextmanager
    def away(self) -> Iterator[None]:
        """While entered, the main thread is in native code, and does not touch what it writes.

        A second signal then raises at the end. If the run has been abandoned, there is no end.
        """
        self._away = True
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()
            self._away = False
            if self._watch is not None:
                self._watch.back()
        if self._again:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._again = self.requested
        self.requested = True
        if self._again and not self._away:
            raise KeyboardInterrupt

    def _give_up(self) -> None:
        said = "interrupted: the engine does not return: does a policy loop for ever?"
        try:
            self._abandon()
        except Exception as error:
            said += f"\n{error}"
        AT_ONCE.leave(said)


class AtOnce:
    """Ends the process at a signal, without unwinding; for the command line, never for a library.

    `KeyboardInterrupt` can strike in the midst of an import or of a callback whose exceptions are
    printed and ignored. So nothing is raised unless a run's file holds results: then the error
    passes through the writer, which closes the file. A file without results is removed.

    Attributes
    ----------
    answer : callable, optional
        Gives what to print on stdout, from what is said on stderr.
    installed : bool
        This process is the command line.
    """

    def __init__(self) -> None:
        self.answer: Callable[[str], str] | None = None
        self.installed = False

    def install(self) -> None:
        """Handle signals from now on, except those that the parent process has switched off."""
        self.installed = True
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
        self.leave("interrupted")

    def leave(self, said: str) -> NoReturn:
        """End the process, from any thread."""
        with suppress(OSError):
            os.write(2, f"\n{said}\n".encode())
            if self.answer is not None:
                os.write(1, self.answer(said).encode())
        os._exit(EXIT_CODE)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """Say nothing of a Ctrl-C that struck where nothing can be raised."""
    if not issubclass(found.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(found)


AT_ONCE = AtOnce()
"""The command line's."""
