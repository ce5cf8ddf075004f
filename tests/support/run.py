"""Runs of an engine from the first message to the end, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.plan.schema import Plan

FOREVER = 10**15
ROWS = ("flows", "events", "queues", "pfc", "periodic")


class Message(NamedTuple):
    """One message, as `Engine.submit` takes them column by column."""

    src: int
    dst: int
    size_bytes: int
    start_ps: int = 0
    klass: int = 3
    base_rtt_ps: int = 10_000_000


DTYPES = ("i4", "i4", "i8", "i8", "u1", "i8")


def columns(messages: Sequence[Message]) -> list[np.ndarray]:
    """Messages as the columns of `Engine.submit`, ids left out."""
    values = list(zip(*messages, strict=True)) or [()] * len(DTYPES)
    return [np.array(v, t) for v, t in zip(values, DTYPES, strict=True)]


def submit(engine: Any, messages: Sequence[Message], first_id: int = 0) -> None:
    """Hand messages to an engine, numbered in order."""
    ids = np.arange(first_id, first_id + len(messages), dtype=np.int64)
    engine.submit(ids, *columns(messages))


@dataclass
class Result:
    """What a run gave: its reason, all rows in order, and the counters at its end."""

    reason: int
    now_ps: int
    flows: np.ndarray
    events: np.ndarray
    queues: np.ndarray
    pfc: np.ndarray
    periodic: np.ndarray
    watermarks: np.ndarray
    ports: dict[str, np.ndarray]
    switches: dict[str, np.ndarray]
    totals: dict[str, int]
    unfinished: np.ndarray

    def flow_ps(self, flow: int, kind: int = R.FLOW_RX_DONE) -> int:
        """When a message was delivered (or acknowledged, or failed)."""
        return int(self.flow_row(flow, kind)["time_ps"])

    def flow_row(self, flow: int, kind: int = R.FLOW_RX_DONE) -> np.void:
        """The one row of a message of this kind."""
        found = self.flows[(self.flows["flow"] == flow) & (self.flows["kind"] == kind)]
        assert len(found) == 1, f"flow {flow}: {len(found)} rows of kind {kind}"
        return found[0]

    def rx_ps(self) -> np.ndarray:
        """Delivery times of all delivered messages, by message."""
        done = self.flows[self.flows["kind"] == R.FLOW_RX_DONE]
        return done["time_ps"][np.argsort(done["flow"], kind="stable")]

    def select(self, **where: int) -> np.ndarray:
        """Events whose fields have these values, in time order."""
        return select(self.events, **where)

    def times(self, **where: int) -> list[int]:
        """Times of those events."""
        return self.select(**where)["time_ps"].tolist()


def select(rows: np.ndarray, **where: int) -> np.ndarray:
    """Rows whose fields have these values."""
    keep = np.ones(len(rows), bool)
    for name, value in where.items():
        keep &= rows[name] == value
    return rows[keep]


def finish(engine: Any, *, until_ps: int = FOREVER,
           step: Callable[[Any], tuple[int, int]] | None = None,
           before: Iterable[dict[str, np.ndarray]] = ()) -> Result:
    """Run an engine to its end, or to `until_ps`, draining whenever it stops.

    Parameters
    ----------
    step : callable, optional
        Gives (until, windows) of the next call of `run`; None: as far as it goes.
    before : iterable of dict
        What was drained earlier.
    """
    pieces = list(before)
    while True:
        target, windows = (until_ps, 0) if step is None else step(engine)
        target = min(target, until_ps)
        reason = engine.run(target, windows)
        pieces.append(engine.drain())
        at_end = reason == R.UNTIL and target == until_ps
        if at_end or reason not in (R.UNTIL, R.PAUSED):
            break
    rows = {name: np.concatenate([piece[name] for piece in pieces]) for name in ROWS}
    totals = engine.totals()
    held = reason == R.UNTIL or totals["queued_packets"] > 0
    watermarks = engine.watermarks(engine.now_ps if held else engine.moved_ps)
    return Result(reason, engine.now_ps, ports=engine.ports(), switches=engine.switches(),
                  totals=totals, unfinished=engine.unfinished(), watermarks=watermarks, **rows)


def run(plan: Plan, messages: Sequence[Message], *, until_ps: int = FOREVER, log: bool = True,
        expect: int | None = R.DONE, **options: Any) -> Result:
    """Submit everything, run to the end, expect the reason given."""
    engine = load_engine()(plan, log_events=log, **options)
    submit(engine, messages)
    result = finish(engine, until_ps=until_ps)
    if expect is not None:
        assert result.reason == expect, R.REASONS[result.reason]
    return result


COUNTED_FOR_SPEED = ("events",)
"""Totals that say how the engine worked, not what happened: the drained engine has fewer events."""


def differences(a: Result, b: Result, rows: Sequence[str] = ROWS) -> list[str]:
    """Names of what two results do not have in common; empty: equal bit for bit."""
    found = []
    if a.reason != b.reason:
        found.append(f"reason {R.REASONS[a.reason]} != {R.REASONS[b.reason]}")
    found += [name for name in rows
              if getattr(a, name).tobytes() != getattr(b, name).tobytes()]
    for part in ("ports", "switches"):
        x, y = getattr(a, part), getattr(b, part)
        found += [f"{part}.{name}" for name in x if x[name].tobytes() != y[name].tobytes()]
    found += [f"totals.{name}" for name in a.totals
              if name not in COUNTED_FOR_SPEED and a.totals[name] != b.totals[name]]
    found += [name for name in ("unfinished", "watermarks")
              if getattr(a, name).tobytes() != getattr(b, name).tobytes()]
    return found
