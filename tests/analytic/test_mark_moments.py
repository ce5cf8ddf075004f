"""Marking at departure, at arrival, by the time waited: the packets that Lindley's rule says."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabric import BARE, chain
from support.oracle import FULL, GBPS, MTU, US
from support.run import Message, run

from emunet._core import rows as R
from emunet.plan.compile import compile_topology
from emunet.plan.schema import NO_LIMIT
from emunet.plan.switches import Ecn
from emunet.scenario import parse_scenario

pytestmark = pytest.mark.checked

N = 200
FAST, SLOW = 20, 80    # ps for a byte at 400 and 100 Gb/s


def waits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrival, start of transmission and frame bytes of a message's packets at the slow port.

    Lindley 1952: a packet starts when it has come and the one before it has left.
    """
    size = np.full(N, FULL)
    size[0] += 16
    come = np.cumsum((size + 20) * FAST) + US
    start = np.empty(N, np.int64)
    free = 0
    for i in range(N):
        start[i] = max(come[i], free)
        free = start[i] + (size[i] + 20) * SLOW
    return come, start, size


def marked(ecn: Ecn) -> list[int]:
    """PSNs that are marked on the way from a fast link to a slow one."""
    plan = compile_topology(
        chain([400 * GBPS, 100 * GBPS]), BARE, ecn=ecn, buffer_bytes=10**8, lossless_classes=(),
    ).plan  # fmt: skip
    result = run(plan, [Message(0, 1, N * MTU)])
    assert result.totals["dropped_packets"] == 0
    return sorted(result.select(kind=R.EVENT_MARK)["psn"].tolist())


def step(kmin_bytes: int, when: str) -> Ecn:
    """Every packet above so many bytes."""
    return Ecn(kmin_bytes, kmin_bytes + 1, 1.0, None, when)


@pytest.mark.parametrize("kmin", [0, 5_000, 50_000, 300_000])
def test_at_arrival_and_at_departure(kmin: int) -> None:
    """At arrival the queue holds all that have come and not left, at departure all that have come
    since: both with the packet itself. The same threshold marks early packets of a burst only at
    departure, late ones at arrival too.
    """
    come, start, size = waits()
    end = start + (size + 20) * SLOW
    at_arrival = [i for i in range(N) if size[: i + 1][end[: i + 1] >= come[i]].sum() > kmin]
    at_departure = [i for i in range(N) if size[i:][come[i:] <= start[i]].sum() > kmin]
    assert marked(step(kmin, "enqueue")) == at_arrival
    assert marked(step(kmin, "dequeue")) == at_departure
    assert kmin == 0 or at_arrival != at_departure


@pytest.mark.parametrize("tmin_us", [0, 1, 10, 40])
def test_by_the_time_waited(tmin_us: int) -> None:
    """TCN (Bai et al., CoNEXT 2016): a packet that has waited longer than T is marked."""
    come, start, _ = waits()
    expected = np.flatnonzero(start - come > tmin_us * US).tolist()
    none = int(NO_LIMIT)
    found = marked(Ecn(none, none, 1.0, None, "sojourn", tmin_us * US, tmin_us * US))
    assert found == expected and 0 < len(found) < N


def test_a_ramp_over_time_marks_in_proportion() -> None:
    """RED on the time waited: the expected number of marks is the sum of the probabilities, within
    4 sigma of independent draws.
    """
    come, start, _ = waits()
    waited = start - come
    p = np.clip(0.5 * waited / (40 * US), 0, 0.5)
    p[waited > 40 * US] = 1
    none = int(NO_LIMIT)
    found = marked(Ecn(none, none, 0.5, None, "sojourn", 0, 40 * US))
    assert abs(len(found) - p.sum()) < 4 * np.sqrt((p * (1 - p)).sum())


def test_the_scenario_says_when() -> None:
    """Claim: `ecn: {when: ...}` reaches the plan, thresholds of time do not grow with the rate."""
    from emunet.plan.compile import compile_scenario

    text = (
        "topology: {{kind: star, hosts: 2, rate: 400Gbps}}\nswitch: {{ecn: {}}}\n"
    )
    for ecn, when, kmin, tmin in (
        ("{kmin: 10KB, kmax: 20KB, when: enqueue}", 1, 10_000, NO_LIMIT),
        ("{tmin: 5us, when: sojourn}", 2, NO_LIMIT, 5 * US),
        ("{kmin: 10KB, kmax: 20KB}", 0, 10_000, NO_LIMIT),
    ):
        plan = compile_scenario(parse_scenario(text.format(ecn))).plan
        port = int(plan.node_port_start[2])
        assert plan.port_ecn_when[port] == when
        assert plan.port_ecn_kmin_bytes[port] == kmin
        assert plan.port_ecn_tmin_ps[port] == plan.port_ecn_tmax_ps[port] == tmin
