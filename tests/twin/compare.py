"""Runs two engines over the same plan and messages, and says where they first differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from plans import Message, submit

from emunet._core.rows import EVENT_KINDS, PACKET_KINDS, PAUSED, REASONS, UNTIL
from emunet.plan.schema import Plan
from emunet.twin import TwinEngine

MakeEngine = Callable[..., Any]

CONTEXT_ROWS = 5
"""How many rows before the first difference are shown, of the node where it is."""


@dataclass
class Outcome:
    """All that an engine has to say about a run."""

    reason: int
    rows: dict[str, np.ndarray]
    ports: dict[str, np.ndarray]
    switches: dict[str, np.ndarray]
    totals: dict[str, int]
    unfinished: np.ndarray
    watermarks: np.ndarray


def run_engine(engine: Any, messages: list[Message], until_ps: int) -> Outcome:
    """Submit all messages, run to the end or until a time, and collect everything."""
    submit(engine, messages)
    parts = []
    while True:
        reason = engine.run(until_ps)
        parts.append(engine.drain())
        if reason != PAUSED:
            break
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    totals = engine.totals()
    held = reason == UNTIL or totals["queued_packets"] > 0
    watermarks = engine.watermarks(engine.now_ps if held else engine.moved_ps)
    return Outcome(
        reason, rows, engine.ports(), engine.switches(), totals, engine.unfinished(), watermarks
    )


def compare(
    make_native: MakeEngine,
    plan: Plan,
    messages: list[Message],
    until_ps: int,
    make_twin: MakeEngine = TwinEngine,
    **options: Any,
) -> list[str]:
    """Run both engines with the event log on, and list what differs.

    Parameters
    ----------
    make_native, make_twin : callable
        Called with the plan and the options of an engine.
    plan : Plan
    messages : list of Message
    until_ps : int
    options
        For both engines, such as `sample_every_ps`.

    Returns
    -------
    list of str
        One text for each thing that differs, the first differing event with its context first;
        empty if the engines agree in everything but `events` of the totals.
    """
    outcomes = [
        run_engine(make(plan, log_events=True, **options), messages, until_ps)
        for make in (make_native, make_twin)
    ]
    return differences(*outcomes)


def differences(a: Outcome, b: Outcome) -> list[str]:
    """What differs between two outcomes, in words."""
    found = []
    if a.reason != b.reason:
        found.append(f"reason: {REASONS[a.reason]} against {REASONS[b.reason]}")
    for name in ("events", "flows", "queues", "pfc", "periodic"):
        found += _first_row(name, a.rows[name], b.rows[name])
    found += _first_row("unfinished", a.unfinished, b.unfinished)
    found += _first_row("watermarks", a.watermarks, b.watermarks)
    for name in ("ports", "switches"):
        found += _arrays(name, getattr(a, name), getattr(b, name))
    for key in sorted(set(a.totals) | set(b.totals)):
        if key != "events" and a.totals.get(key) != b.totals.get(key):
            found.append(f"totals[{key}]: {a.totals.get(key)} against {b.totals.get(key)}")
    return found


def _first_row(name: str, a: np.ndarray, b: np.ndarray) -> list[str]:
    """The first row that differs, with the rows before it at its node."""
    n = min(len(a), len(b))
    unequal = np.flatnonzero(a[:n] != b[:n])
    if not len(unequal) and len(a) == len(b):
        return []
    i = int(unequal[0]) if len(unequal) else n
    pair = [rows[i] if i < len(rows) else None for rows in (a, b)]
    lines = [f"{name}: {len(a)} rows against {len(b)}, first different row {i}"]
    if {"node", "time_ps"} <= set(a.dtype.names or ()):
        # The earlier of the two is the one that the other side lacks.
        first = min((row for row in pair if row is not None), key=lambda row: int(row["time_ps"]))
        before = a[:i][a["node"][:i] == first["node"]][-CONTEXT_ROWS:]
        lines += [f"    before  {describe(row)}" for row in before]
    lines += [
        f"    {side}  {'no row' if row is None else describe(row)}"
        for side, row in zip(("first ", "second"), pair, strict=True)
    ]
    return ["\n".join(lines)]


def describe(row: np.void) -> str:
    """A row as text, events in words."""
    names = row.dtype.names or ()
    if "packet" not in names:
        return " ".join(f"{name}={row[name]}" for name in names if name != "pad")
    return (
        f"t={row['time_ps']} node={row['node']} port={row['port']} {EVENT_KINDS[row['kind']]} "
        f"{PACKET_KINDS[row['packet']]} flow={row['flow']} psn={row['psn']} class={row['klass']} "
        f"bytes={row['bytes']} occupancy={row['occupancy']} flags={row['flags']}"
    )


def _arrays(name: str, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> list[str]:
    """Arrays that differ, with the first few places where they do."""
    found = []
    for key in sorted(set(a) | set(b)):
        if key not in a or key not in b:
            found.append(f"{name}[{key}]: missing on one side")
        elif not np.array_equal(a[key], b[key]):
            places = (
                np.argwhere(a[key] != b[key])[:4].tolist() if a[key].shape == b[key].shape else []
            )
            values = [
                f"{place}: {a[key][tuple(place)]} against {b[key][tuple(place)]}"
                for place in places
            ]
            found.append(f"{name}[{key}]: " + "; ".join(values or ["shapes"]))
    return found
