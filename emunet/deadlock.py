"""Looking for deadlocks while a run goes on, at fixed simulated times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emunet._core.rows import DEADLOCK_ROW
from emunet.analysis.deadlock import Cycle, cycle_text, cycles
from emunet.units import format_time

if TYPE_CHECKING:
    from emunet.plan.schema import Plan


class DeadlockWatch:
    """Finds circles of pauses (docs/semantics.md 6.1), each once as long as it lasts.

    Parameters
    ----------
    plan : Plan
    every_ps : int
        Simulated time between two looks; 0: only when told to.

    Attributes
    ----------
    next_ps : int
        When to look next; later than anything if not at all.
    warnings : list of str
        A line for each circle found so far.
    """

    NEVER_PS = 1 << 62

    def __init__(self, plan: Plan, every_ps: int) -> None:
        self._plan = plan
        self._every_ps = every_ps if plan.switch_lossless.any() else 0
        self.next_ps = self._every_ps or self.NEVER_PS
        self.warnings: list[str] = []
        self._present: set[Cycle] = set()
        self._n_found = 0

    def look(self, engine: Any, now_ps: int) -> np.ndarray:
        """Rows of circles that were not there at the last look: DEADLOCK_ROW array."""
        if self._every_ps:
            self.next_ps = (now_ps // self._every_ps + 1) * self._every_ps
        waits = engine.waits()
        if not len(waits):
            self._present.clear()
            return np.empty(0, DEADLOCK_ROW)
        present = cycles(waits, self._plan.port_peer)
        rows: list[tuple[int, ...]] = []
        for cycle in present:
            if cycle not in self._present:
                rows += self._rows(cycle, now_ps)
        self._present = set(present)
        return np.array(rows, DEADLOCK_ROW)

    def _rows(self, cycle: Cycle, now_ps: int) -> list[tuple[int, ...]]:
        outs, klass = [out for _, out, _ in cycle], cycle[0][2]
        said = cycle_text(self._plan, outs, klass)
        self.warnings.append(f"deadlock at {format_time(now_ps)}: {said}")
        node = self._plan.port_node
        rows: list[tuple[int, ...]] = [
            (now_ps, self._n_found, position, int(node[out]), in_port, out, klass)
            for position, (in_port, out, _) in enumerate(cycle)
        ]
        self._n_found += 1
        return rows
