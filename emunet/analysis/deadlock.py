"""Deadlocks of pauses: groups that wait for one another in a circle (docs/semantics.md 6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from emunet.plan.schema import N_CLASS, Plan
from emunet.trace.tables import Tables

Cycle = tuple[tuple[int, int, int], ...]
"""In-port, out-port (global numbers) and class of each group; each waits for the next."""


def deadlocked(waits: np.ndarray, port_peer: np.ndarray) -> np.ndarray:
    """Rows of the groups of which nothing will ever leave.

    A group lives if a port that it waits for is paused by a group that lives, or that has no row.
    Living ones are taken away until all that are left wait for such as are left: the greatest set
    that keeps itself closed.

    Parameters
    ----------
    waits : WAITS_ROW array
        As ``Engine.waits()`` gives them.
    port_peer : int[n_port]
        Port at the other end of each link.
    """
    while True:
        group = waits["in_port"].astype(np.int64) * N_CLASS + waits["klass"]
        pauser = port_peer[waits["out_port"]].astype(np.int64) * N_CLASS + waits["klass"]
        lives = ~np.isin(pauser, group)
        if not lives.any():
            return waits
        waits = waits[~np.isin(group, group[lives])]


def cycles(waits: np.ndarray, port_peer: np.ndarray) -> list[Cycle]:
    """A circle of each knot of deadlocked groups, the shortest through its first group.

    Groups are in order of port and class, and so are the circles; equally short ones are settled by
    the smallest ports.
    """
    edges: dict[tuple[int, int], list[tuple[int, tuple[int, int]]]] = {}
    for _, klass, in_port, out_port in np.sort(deadlocked(waits, port_peer)).tolist():
        edges.setdefault((in_port, klass), []).append((out_port, (int(port_peer[out_port]), klass)))
    found: list[Cycle] = []
    settled: set[tuple[int, int]] = set()
    for first in sorted(edges):
        if first in settled:
            continue
        cycle = _shortest(edges, first)
        if cycle:
            found.append(cycle)
            settled |= {group for group in _reach(edges, first) if first in _reach(edges, group)}
    return found


def _reach(edges: Mapping[Any, list], first: tuple[int, int]) -> set[tuple[int, int]]:
    """Groups for which one waits, directly or not."""
    seen: set[tuple[int, int]] = set()
    left = [first]
    while left:
        for _, group in edges[left.pop()]:
            if group not in seen:
                seen.add(group)
                left.append(group)
    return seen


def _shortest(edges: Mapping[Any, list], first: tuple[int, int]) -> Cycle:
    """The shortest circle through a group; empty without one."""
    came: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    layer = [first]
    while layer and first not in came:
        following = []
        for group in layer:
            for out_port, target in edges[group]:
                if target not in came:
                    came[target] = group, out_port
                    following.append(target)
        layer = following
    if first not in came:
        return ()
    steps: list[tuple[int, int, int]] = []
    at = first
    while not steps or at != first:
        at, out_port = came[at]
        steps.append((at[0], out_port, at[1]))
    return tuple(reversed(steps))


def cycle_text(plan: Plan, out_ports: list[int], klass: int) -> str:
    """``s0:2 → s1:2 → s0:2 (class 3)``: the ports that are paused, each by the node that follows.

    The one after a port names the port for which its peer waits in turn.
    """
    nodes = plan.port_node[[*out_ports, out_ports[0]]].tolist()
    locals_ = [p - int(plan.node_port_start[n]) for p, n in zip(out_ports, nodes, strict=False)]
    names = [f"{plan.names[n]}:{i}" for n, i in zip(nodes, [*locals_, locals_[0]], strict=True)]
    return f"{' → '.join(names)} (class {klass})"


def deadlocks(run: Tables) -> list[dict[str, Any]]:
    """What a run was found in: ``{time_ps, klass, cycle}`` of each circle, in order of time.

    `time_ps` is when it was seen first, at most `record.deadlocks` after it closed.
    """
    c = run.columns("deadlocks")
    found = []
    for number in np.unique(c["cycle"]):
        rows = np.flatnonzero(c["cycle"] == number)
        klass = int(c["klass"][rows[0]])
        text = cycle_text(run.plan, c["out_port"][rows].tolist(), klass)
        found.append({"time_ps": int(c["time_ps"][rows[0]]), "klass": klass, "cycle": text})
    return found
