"""Ctrl-C or SIGTERM in a run: the first asks the loop to stop after its turn, the second stops."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


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
            for number in (signal.SIGINT, signal.SIGTERM):
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
