"""Bounds of packet filters, against the filters themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from emunet._core.rows import EVENT_KINDS, EVENT_ROW
from emunet.scenario.where import compile_where
from emunet.scenario.where_bounds import EVERYTHING, event_bounds

ROWS = np.zeros(len(EVENT_KINDS) * 12, EVENT_ROW)
ROWS["kind"], ROWS["flow"] = np.array(
    list(itertools.product(range(len(EVENT_KINDS)), range(-1, 11)))
).T


@pytest.mark.parametrize(
    "text",
    [
        "",
        "flow == 3",
        "3 == flow",
        "flow == 3 and kind == 'drop'",
        "flow == 3 or flow == 7",
        "flow in (2, 9, 4)",
        "kind in ('mark', 'drop')",
        "not flow == 3",
        "flow != 3",
        "2 < flow <= 5",
        "flow < 4 and kind != 'mark'",
        "flow > 8 or kind == 'arrive'",
        "flow == -1",
        "flow < -5",
        "flow >= 0 and (kind == 'pause_tx' or flow <= 1)",
        "node == 3 and psn < 5",
        "kind not in ('mark', 'drop')",
        "5 > flow",
    ],
)
def test_bounds_never_lose_an_event(text: str) -> None:
    """Claim: whatever an expression chooses lies within its bounds, for all kinds and 12 flows."""
    kinds, start, end = event_bounds(text)
    inside = ((kinds >> ROWS["kind"].astype(int)) & 1).astype(bool)
    inside &= (ROWS["flow"] >= start) & (ROWS["flow"] < end)
    chosen = compile_where(text)(ROWS)
    assert not np.any(chosen & ~inside)


def test_bounds_are_tight_where_it_matters() -> None:
    """Claim: the common filters, one flow and one kind, reach the engine exactly."""
    assert event_bounds("flow == 3") == (EVERYTHING.kinds, 3, 4)
    assert event_bounds("kind == 'drop'").kinds == 1 << EVENT_KINDS.index("drop")
