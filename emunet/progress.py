"""Progress of a run: a bar on a terminal, plain lines elsewhere, or nothing. Always on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from emunet.units import format_time

LINE_EVERY_S = 10.0
"""Wall-clock time between two plain lines."""

SHORTEST_ESTIMATE_S = 1.0
"""No estimate of the time left before this much has passed."""


@dataclass(frozen=True)
class Status:
    """Where a run stands.

    Attributes
    ----------
    now_ps : int
        Simulated time.
    flows_done, flows_total : int
        Messages delivered, and in the workload; a total of -1 is unknown.
    packet_hops, packet_hops_expected : int
        Carried so far, and estimated for the whole run (0: unknown).
    cpu_s, wall_s : float
        Time spent in the loop.
    """

    now_ps: int = 0
    flows_done: int = 0
    flows_total: int = -1
    packet_hops: int = 0
    packet_hops_expected: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0

    @property
    def fraction(self) -> float | None:
        """Share of the work that is done, from 0 to 1; None if it cannot be told."""
        if self.packet_hops_expected > 0:
            return min(1.0, self.packet_hops / self.packet_hops_expected)
        if self.flows_total > 0:
            return min(1.0, self.flows_done / self.flows_total)
        return None

    @property
    def left_s(self) -> float | None:
        """Wall-clock time still needed at the present pace; None if it cannot be told yet."""
        fraction = self.fraction
        if not fraction or self.wall_s < SHORTEST_ESTIMATE_S:
            return None
        return self.wall_s * (1.0 - fraction) / fraction

    @property
    def rate(self) -> float:
        """Packet-hops per CPU-second."""
        return self.packet_hops / self.cpu_s if self.cpu_s > 0 else 0.0

    def words(self) -> str:
        """``t = 1.2 ms, 12/128 flows, 8.1 M packet-hops/s, 3 s left``."""
        flows = (
            f"{self.flows_done}/{self.flows_total}"
            if self.flows_total >= 0
            else f"{self.flows_done}"
        )
        left = self.left_s
        eta = f", {format_seconds(left)} left" if left is not None else ""
        speed = f"{self.rate / 1e6:.2f} M packet-hops/s"
        return f"t = {format_time(self.now_ps, 4)}, {flows} flows, {speed}{eta}"


class Progress(Protocol):
    """What `emunet.run` tells while it runs."""

    def update(self, status: Status) -> None:
        """The run stands at `status`; called a few times a second."""

    def warn(self, text: str) -> None:
        """Something to know at once has come up."""

    def close(self) -> None:
        """The run has ended."""


class Silent:
    """Shows nothing."""

    def update(self, status: Status) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing: the result says it."""

    def close(self) -> None:
        """Nothing."""


class Lines:
    """A plain line every `every_s` seconds, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None, every_s: float = LINE_EVERY_S) -> None:
        self._stream = stream or sys.stderr
        self._every_s = every_s
        self._next_s = time.monotonic() + every_s

    def update(self, status: Status) -> None:
        """Print the line if it is due."""
        if time.monotonic() >= self._next_s:
            # a log on a full disk is no reason to end a run
            with suppress(OSError):
                print(status.words(), file=self._stream, flush=True)
            self._next_s = time.monotonic() + self._every_s

    def warn(self, text: str) -> None:
        """Print it."""
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing: the last words are the result's."""


class Bar:
    """A bar that rewrites its line."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar: Any = RichProgress(
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.fields[words]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("run", total=None, words="")
        self._bar.start()

    def update(self, status: Status) -> None:
        """Redraw."""
        fraction = status.fraction
        total = 1.0 if fraction is not None else None
        self._bar.update(self._task, total=total, completed=fraction or 0.0, words=status.words())

    def warn(self, text: str) -> None:
        """Print it above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def for_terminal(quiet: bool = False) -> Progress:
    """The bar if stderr is a terminal, plain lines if not, nothing if `quiet`."""
    if quiet:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()


def format_seconds(seconds: float) -> str:
    """``0.62 s``, ``45 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
