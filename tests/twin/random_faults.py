"""Seeded faults for a plan: links that go down, ports found down, rates and routes that change."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
from plans import GBPS, US

from emunet.plan.routes import next_hops
from emunet.plan.schema import (
    CHANGE_DOWN,
    CHANGE_RATE,
    CHANGE_ROUTE,
    CHANGE_UP,
    NO_LIMIT,
    ROUTE_NONE,
    ROUTE_UNREACHABLE,
    Plan,
    make_plan,
)


def with_faults(plan: Plan, rng: random.Random) -> Plan:
    """The plan with a few faults; what nodes know need not fit what has happened."""
    rows = _Rows(plan)
    down: dict[int, list[tuple[int, int]]] = defaultdict(list)
    changes: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for _ in range(rng.randint(1, 3)):
        port = rng.randrange(plan.n_port)
        begin = rng.choice([0, 10 * US, rng.randint(0, 80 * US)])
        end = rng.choice([NO_LIMIT, begin + 2 * US, begin + rng.randint(1, 60 * US)])
        for p in (port, int(plan.port_peer[port]))[: rng.randint(1, 2)]:
            if not down[p] or down[p][-1][1] < begin:
                down[p].append((begin, end))
            _known(plan, p, begin, end, rng, changes)
    for _ in range(rng.randint(0, 6)):
        node = rng.randrange(plan.n_node)
        if plan.node_route_kind[node] != ROUTE_NONE:
            row = rows.add(node, rng)
            changes[node].append((rng.randint(0, 90 * US), CHANGE_ROUTE, -1, row))
    for _ in range(rng.randint(0, 3)):
        port = rng.randrange(plan.n_port)
        node = int(plan.port_node[port])
        rate = rng.choice([10 * GBPS, 25 * GBPS, 425 * GBPS])
        local = port - int(plan.node_port_start[node])
        changes[node].append((rng.randint(0, 90 * US), CHANGE_RATE, local, rate))
    return _plan(plan, rows, down, changes)


def _known(
    plan: Plan,
    port: int,
    begin: int,
    end: int,
    rng: random.Random,
    changes: dict[int, list[tuple[int, int, int, int]]],
) -> None:
    """The port's node notices, sooner or later."""
    node = int(plan.port_node[port])
    local = port - int(plan.node_port_start[node])
    later = rng.choice([0, 1 * US, 7 * US])
    changes[node].append((begin + later, CHANGE_DOWN, local, 0))
    if end < NO_LIMIT:
        changes[node].append((end + later, CHANGE_UP, local, 0))


class _Rows:
    """The plan's route rows and those that are added; each host is a rack."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.entries = plan.route_set.tolist()
        self.sets = [
            tuple(plan.set_port[a:b].tolist())
            for a, b in zip(plan.set_start[:-1], plan.set_start[1:], strict=True)
        ]

    def add(self, node: int, rng: random.Random) -> int:
        """A row that lacks some of the node's ports, and perhaps whole destinations."""
        at = len(self.entries)
        bad = rng.random() < 0.3
        for dst in range(self.plan.n_host):
            ports = () if dst == node else tuple(next_hops(self.plan.arrays, node, dst).tolist())
            kept = tuple(p for p in ports if rng.random() < 0.7)
            kept = kept or (() if bad else ports)
            if kept and kept not in self.sets:
                self.sets.append(kept)
            self.entries.append(self.sets.index(kept) if kept else ROUTE_UNREACHABLE)
        return at


def _plan(
    plan: Plan,
    rows: _Rows,
    down: dict[int, list[tuple[int, int]]],
    changes: dict[int, list[tuple[int, int, int, int]]],
) -> Plan:
    spans = [span for p in range(plan.n_port) for span in sorted(down.get(p, ()))]
    steps = [step for n in range(plan.n_node) for step in sorted(changes.get(n, ()))]
    arrays = {
        **plan.arrays,
        "host_rack": np.arange(plan.n_host),
        "route_set": np.array(rows.entries, int),
        "set_start": np.cumsum([0] + [len(s) for s in rows.sets]),
        "set_port": np.array([p for s in rows.sets for p in s], int),
        "port_down_start": np.cumsum([0] + [len(down.get(p, ())) for p in range(plan.n_port)]),
        "down_from_ps": np.array([a for a, _ in spans], int),
        "down_until_ps": np.array([b for _, b in spans], int),
        "node_change_start": np.cumsum([0] + [len(changes.get(n, ())) for n in range(plan.n_node)]),
        **{
            name: np.array([step[i] for step in steps], int)
            for i, name in enumerate(("change_ps", "change_kind", "change_port", "change_value"))
        },
    }
    return make_plan(arrays, plan.scalars, plan.names, plan.congestion, plan.congestion_digest)
