"""Ends a command whose engine does not return.

Python runs a signal's handler between two steps of the main thread, so never while native code is
caught in a loop. The numbers of signals come through a pipe, too, and a thread that reads it acts.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from emunet.interrupt import SIGNALS

PATIENCE_S = 1.0
"""Wall-clock time that the engine has to return in after the second signal."""


class Watch:
    """From its making to `stop`, both in the main thread, waits for a second signal in vain.

    Parameters
    ----------
    turn : threading.Lock
        Whoever holds it may touch the run; the main thread does except in the engine.
    give_up : callable
        Ends the process; called in the watching thread, with `turn` held.
    """

    def __init__(self, turn: threading.Lock, give_up: Callable[[], None]) -> None:
        self._turn, self._give_up = turn, give_up
        self._back = threading.Event()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="emunet-watch", daemon=True)
        self._thread.start()

    def back(self) -> None:
        """The main thread has come back from the engine."""
        self._back.set()

    def stop(self) -> None:
        """The run has ended."""
        signal.set_wakeup_fd(self._before)
        os.close(self._write)
        self._back.set()
        self._thread.join()
        os.close(self._read)

    def _watch(self) -> None:
        n_signal = 0
        while number := os.read(self._read, 1):
            n_signal += number[0] in SIGNALS
            if n_signal < 2:
                continue
            self._back.clear()
            if not self._back.wait(PATIENCE_S) and self._turn.acquire(blocking=False):
                self._give_up()
