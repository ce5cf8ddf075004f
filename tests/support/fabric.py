"""Plans for tests of the engine, by way of `compile_topology`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from emunet.plan.compile import compile_topology
from emunet.plan.fabric import Settings
from emunet.plan.schema import Plan, make_plan
from emunet.plan.switches import Ecn
from emunet.topology.core import Topology
from emunet.topology.explicit import Cable, explicit
from support.oracle import GBPS, US

BARE = Settings(
    switch_latency_ps=0,
    nic_latency_ps=0,
    switch_pause_latency_ps=0,
    nic_pause_latency_ps=0,
    ecn=None,
)
"""No latency but that of cables, no marking."""

LOSSY = replace(BARE, lossless_classes=())
"""The same without PFC."""


def plan_of(topology: Topology, settings: Settings = BARE, congestion: Any = None,
            **knobs: Any) -> Plan:
    """Plan of a topology; `knobs` are fields of `Settings`."""
    return compile_topology(topology, settings, congestion=congestion, **knobs).plan


def spokes(rates_bps: Sequence[int], delay_ps: int | Sequence[int] = US) -> Topology:
    """Hosts around one switch: one rate (and delay) for each host's cable."""
    n = len(rates_bps)
    delays = [delay_ps] * n if isinstance(delay_ps, int) else list(delay_ps)
    cables = [Cable(i, n, rate, delay)
              for i, (rate, delay) in enumerate(zip(rates_bps, delays, strict=True))]
    return explicit([f"host{i}" for i in range(n)], ["switch0"], cables)


def chain(rates_bps: Sequence[int], delay_ps: int = US) -> Topology:
    """Two hosts, len(rates) links between them, a switch at every joint; 0 sends to 1."""
    n_switch = len(rates_bps) - 1
    nodes = [0, *range(2, 2 + n_switch), 1]
    cables = [Cable(a, b, rate, delay_ps)
              for a, b, rate in zip(nodes, nodes[1:], rates_bps, strict=False)]
    return explicit(["a", "b"], [f"s{i}" for i in range(n_switch)], cables)


def trunks(n_left: int, n_right: int, trunk_bps: Sequence[int], rate_bps: int = 400 * GBPS,
           delay_ps: int = US) -> Topology:
    """Hosts at two switches joined by parallel links."""
    n = n_left + n_right
    cables = [Cable(h, n if h < n_left else n + 1, rate_bps, delay_ps) for h in range(n)]
    cables += [Cable(n, n + 1, rate, delay_ps) for rate in trunk_bps]
    return explicit([f"host{i}" for i in range(n)], ["left", "right"], cables)


def altered(plan: Plan, **values: Any) -> Plan:
    """The plan with arrays or scalars replaced, for what a scenario refuses."""
    arrays = {name: np.asarray(values.pop(name, a)) for name, a in plan.arrays.items()}
    scalars = {name: values.pop(name, v) for name, v in plan.scalars.items()}
    assert not values, f"not in the plan: {sorted(values)}"
    return make_plan(arrays, scalars, plan.names, plan.congestion, plan.congestion_digest)


def step_ecn(kmin_bytes: int, kmax_bytes: int, pmax: float) -> Ecn:
    """The same thresholds on every port."""
    return Ecn(kmin_bytes, kmax_bytes, pmax)


def policy(name: str, set_name: str | None = None, **params: float) -> Any:
    """A congestion policy of the catalogue, or of a file."""
    from emunet.plugin import load

    return load("congestion", name, set_name, params)


def written_policy(path: Path, body: str) -> Any:
    """A congestion policy from source text, written to `path`."""
    path.write_text(body)
    return policy(str(path))
