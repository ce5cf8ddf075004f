"""Rows in which two runs differ, table by table."""

from __future__ import annotations

from typing import Any

import numpy as np

from emunet._core.rows import TOTALS
from emunet.trace.schema import datasets_of
from emunet.trace.tables import TABLES, Tables

NOT_RESULTS = ("events",)
"""Totals that count the work of an engine, not what happened."""

FIRST_ROWS = 3
"""Differing rows that are written out, of each table."""

FIRST_COLUMNS = 4
"""Differing columns that are written out, of each row."""

_BLOCK = 1 << 18


def differences(stored: Tables, again: Tables) -> list[str]:
    """One line for each table in which two runs differ: how many rows, and the first few of them.

    Looked at is everything that stands in the tables, also what the digest does not cover: the
    messages as they were submitted, and what the unfinished ones waited for.

    Parameters
    ----------
    stored, again : Tables
        Of each value, that of `stored` is named first: ``flow 3: fct_rx_ps 1, again 9``.
    """
    lines = [_of_table(stored, again, group) for group in TABLES]
    return [line for line in [*lines, _of_totals(stored.totals, again.totals)] if line]


def _of_totals(stored: dict[str, int], again: dict[str, int]) -> str:
    names = [name for name in TOTALS if name not in NOT_RESULTS]
    different = [
        f"{name} {stored.get(name)}, again {again.get(name)}"
        for name in names
        if stored.get(name) != again.get(name)
    ]
    return f"totals that differ: {'; '.join(different)}" if different else ""


def _of_table(stored: Tables, again: Tables, group: str) -> str:
    n_stored, n_again = stored.source.length(group), again.source.length(group)
    n = min(n_stored, n_again)
    mask = np.zeros(n, bool)
    first: dict[int, list[str]] = {}
    present = set(stored.source.datasets(group)) & set(again.source.datasets(group))
    for spec in datasets_of(group):
        if spec.name in present:
            column = again.source.read(group, spec.name)
            _compare(stored, group, spec.name, column[:n], mask, first)
    said = [f"{n_stored:,} rows, again {n_again:,}"] if n_stored != n_again else []
    n_different = int(np.count_nonzero(mask))
    if n_different:
        rows = [_row(stored, group, row, first[row]) for row in sorted(first)[:FIRST_ROWS]]
        more = "; ..." if n_different > len(rows) else ""
        plural = "row differs" if n_different == 1 else "rows differ"
        said.append(f"{n_different:,} {plural}: {'; '.join(rows)}{more}")
    return f"{group}: {'; '.join(said)}" if said else ""


def _compare(
    stored: Tables,
    group: str,
    name: str,
    again: np.ndarray,
    mask: np.ndarray,
    first: dict[int, list[str]],
) -> None:
    """Mark the rows in which a column differs, and write out the first few.

    The first rows of the table are among the first rows of its columns.
    """
    n_written = 0
    for start in range(0, len(again), _BLOCK):
        block = again[start : start + _BLOCK]
        values = stored.source.read(group, name, start, start + len(block))
        unequal = values != block
        different = unequal.reshape(len(block), -1).any(axis=1)
        mask[start : start + len(block)] |= different
        for i in np.flatnonzero(different)[: FIRST_ROWS - n_written].tolist():
            n_written += 1
            said = f"{name} {_value(values[i], unequal[i])}, again {_value(block[i], unequal[i])}"
            first.setdefault(start + i, []).append(said)


def _value(value: Any, unequal: Any) -> str:
    """A number, or those of a row of numbers that differ."""
    if np.ndim(value) == 0:
        return str(value.item())
    return ", ".join(f"[{k}] {value[k].item()}" for k in np.flatnonzero(unequal))


def _row(run: Tables, group: str, row: int, said: list[str]) -> str:
    shown = [*said[:FIRST_COLUMNS], *["..."] * (len(said) > FIRST_COLUMNS)]
    return f"{_name(run, group, row)}: {', '.join(shown)}"


def _name(run: Tables, group: str, row: int) -> str:
    if group == "flows":
        return f"flow {row}"
    if group == "ports" and row < run.plan.n_port:
        return f"port {row} ({run.port_name(row)})"
    return f"row {row}"
