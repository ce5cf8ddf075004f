"""Ctrl-C during a run: the first asks the loop to stop after its turn, the second stops it."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While entered, the first SIGINT only sets `requested`; the next raises `KeyboardInterrupt`.

    A plain `KeyboardInterrupt` could strike between draining the engine and writing its rows, and
    lose them. Outside the main thread signals cannot be handled, and nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None
        self._installed = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._installed:
            # None: the handler before was not set from Python.
            signal.signal(signal.SIGINT, self._before or signal.SIG_DFL)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
