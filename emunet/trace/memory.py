"""The trace of a run without a file: the same columns, kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emunet.trace.flows import Columns
from emunet.trace.recorder import Recorder
from emunet.trace.schema import RESULT_COLUMNS, Dataset


class MemoryTrace(Recorder):
    """A recorder that is its own `Source`: about 100 bytes for each message, and all rows.

    Use it like a `TraceWriter`; it has nothing to clean up.
    """

    name = ""

    def __init__(self) -> None:
        super().__init__()
        self._attrs: dict[str, dict[str, Any]] = {}
        self._arrays: dict[tuple[str, str], np.ndarray] = {}
        self._lists: dict[tuple[str, str], list[str]] = {}
        self._columns: dict[str, tuple[Dataset, ...]] = {}
        self._pieces: dict[str, list[Columns]] = {}
        self._blocks: dict[int, Columns] = {}

    def __enter__(self) -> MemoryTrace:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.digest:
            self._flows.finish()

    # Recorder

    def abandon(self) -> None:
        """See `Recorder.abandon`: memory needs no closing."""

    def _attributes(self, group: str, values: Mapping[str, Any]) -> None:
        self._attrs.setdefault(group, {}).update(values)

    def _texts(self, group: str, name: str, value: str | list[str]) -> None:
        self._lists[group, name] = [value] if isinstance(value, str) else list(value)

    def _array(self, group: str, name: str, value: np.ndarray) -> None:
        self._arrays[group, name] = value.copy()

    def _table(self, group: str, columns: Sequence[Dataset], chunk: int = 0) -> None:
        self._columns[group] = tuple(columns)
        self._pieces[group] = []

    def _append(self, group: str, columns: Columns) -> None:
        self._pieces[group].append(columns)

    def _place(self, group: str, first: int, columns: Columns) -> None:
        self._blocks[first] = columns

    # Source

    def length(self, group: str) -> int:
        if group not in self._columns:
            return max((len(a) for (g, _), a in self._arrays.items() if g == group), default=0)
        first = self._columns[group][0].name
        n = sum(len(piece[first]) for piece in self._pieces[group])
        return (
            min(n, sum(len(b["status"]) for b in self._blocks.values())) if group == "flows" else n
        )

    def datasets(self, group: str) -> list[str]:
        results = (
            [s.name for s in RESULT_COLUMNS] if group == "flows" and group in self._columns else []
        )
        return [
            *(s.name for s in self._columns.get(group, ())),
            *results,
            *(n for g, n in [*self._arrays, *self._lists] if g == group),
        ]

    def read(self, group: str, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        if (group, name) in self._arrays:
            return self._arrays[group, name][start:stop]
        for spec in self._columns[group]:
            if spec.name == name:
                return self._joined(group, spec)[start:stop]
        spec = next(s for s in RESULT_COLUMNS if s.name == name)
        blocks = [self._blocks[first][name] for first in sorted(self._blocks)]
        return np.concatenate([np.empty(0, spec.dtype), *blocks])[start:stop]

    def texts(self, group: str, name: str) -> list[str]:
        return self._lists.get((group, name), [])

    def attributes(self, group: str) -> dict[str, Any]:
        return dict(self._attrs.get(group, {}))

    def close(self) -> None:
        """Nothing to give back."""

    def _joined(self, group: str, spec: Dataset) -> np.ndarray:
        """One column of a table; the pieces are merged once and stay merged."""
        pieces = self._pieces[group]
        if len(pieces) > 1:
            pieces[:] = [
                {s.name: np.concatenate([p[s.name] for p in pieces]) for s in self._columns[group]}
            ]
        return pieces[0][spec.name] if pieces else np.empty(0, spec.dtype)
