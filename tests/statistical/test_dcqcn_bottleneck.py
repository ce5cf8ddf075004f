"""DCQCN end to end: senders, marks, CNPs and rates on one bottleneck, as its paper says."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from support.fabric import plan_of, policy, spokes, step_ecn, trunks
from support.oracle import FULL, GAP, GBPS, MS, MTU, US
from support.run import Message, run, submit

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.plan.switches import Ecn

BLOCK = 10 * MS
WIRE = (FULL + GAP) / MTU
"""Slot bytes for each byte of payload."""


@dataclass(frozen=True)
class Setting:
    """A parameter set with the rate, marking and CNP interval that it is meant for."""

    set_name: str
    rate_bps: int
    ecn: Ecn
    cnp_interval_ps: int
    settled_ps: int
    end_ps: int
    params: tuple[tuple[str, float], ...] = ()


PAPER = Setting("paper", 40 * GBPS, step_ecn(5_000, 200_000, 0.01), 50 * US, 200 * MS, 600 * MS)
"""Zhu et al., section 5: 40 Gb/s, 5 KB, 200 KB, 1 %, a CNP every 50 us."""

HPCC = Setting("alibaba", 100 * GBPS, step_ecn(400_000, 1_600_000, 0.2), 4 * US, 500 * MS, 900 * MS)
"""Li et al., run.py: 100 KB and 400 KB per 25 Gb/s, 0.2."""

STRAWMAN = Setting(
    "paper", 40 * GBPS, step_ecn(40_000, 40_000, 1.0), 50 * US, 200 * MS, 600 * MS,
    (("byte_counter_bytes", 150_000), ("increase_period_ps", 1500 * US)),
)  # fmt: skip
"""Zhu et al., section 5.2: the values of QCN and DCTCP, which the paper starts from and rejects."""


@dataclass(frozen=True)
class Shares:
    """Of two senders in blocks of time: payload delivered in slot bytes, parts of the link's rate.

    `carried` is what the link sent, of any kind.
    """

    each: np.ndarray
    carried: np.ndarray


def from_nine_to_one(setting: Setting, seed: int) -> Shares:
    """Two senders that meet at one receiver, the second at first with a ninth of its own link.

    It shares that link with eight messages, which end within about 70 ms.
    """
    n_other, rate = 8, setting.rate_bps
    first, receiver = 1 + n_other, 2 + n_other
    plan = plan_of(
        trunks(1 + n_other, 2 + n_other, [rate], rate),
        congestion=policy("dcqcn", setting.set_name, **dict(setting.params)),
        ecn=setting.ecn,
        cnp_interval_ps=setting.cnp_interval_ps,
        seed=seed,
        buffer_bytes=10**8,
        alpha=8.0,
    )
    endless = 10**12
    sources = [first, 0]
    work = [Message(src, receiver, endless, base_rtt_ps=8 * US) for src in sources]
    # eight ninths of the link for 55 ms
    size = int(rate / 8 * 0.055 / 9)
    work += [Message(i, receiver + i, size, base_rtt_ps=8 * US) for i in range(1, 1 + n_other)]
    engine = load_engine()(plan)
    submit(engine, work)
    port = int(plan.port_peer[plan.node_port_start[receiver]])
    delivered, carried = [np.zeros(2)], [0]
    for until_ps in range(BLOCK, setting.end_ps + 1, BLOCK):
        assert engine.run(until_ps) == R.UNTIL
        engine.drain()
        waiting = engine.unfinished()
        delivered.append(waiting["delivered_bytes"][waiting["flow"] < 2].astype(float))
        ports = engine.ports()
        carried.append(int(ports["tx_bytes"][port] + GAP * ports["tx_packets"][port]))
    assert engine.totals()["pause_frames"] == engine.totals()["dropped_packets"] == 0
    of_rate = 8e12 / BLOCK / rate
    return Shares(np.diff(delivered, axis=0) * WIRE * of_rate, np.diff(carried) * of_rate)


def jain(rates: np.ndarray) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything."""
    return float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("setting", [PAPER, HPCC], ids=lambda s: s.set_name)
def test_two_flows_converge_to_equal_rates(setting: Setting, seed: int) -> None:
    """K14 (Zhu et al., section 5 and 6): from unequal rates two flows come to R / 2, within 5 %.

    They start at about nine to one. From 200 ms on (500 ms at the slower increase of the other
    set) the mean rate of each over 400 ms is within R / 2 +- 5 %. That makes Jain's index at least
    (0.95 + 1.05)^2 / (2 (0.95^2 + 1.05^2)) = 0.9975, and the use of the link at least 0.95; it is
    at most 1, plus the one packet whose end a block may count with the next.
    """
    shares = from_nine_to_one(setting, seed)
    start = shares.each[1:5].mean(axis=0)
    assert start[0] > 5 * start[1], f"seed {seed}"
    settled = shares.each[setting.settled_ps // BLOCK :].mean(axis=0)
    assert (abs(settled - 0.5) <= 0.025).all(), f"seed {seed}: {settled}"
    assert 0.9975 <= jain(settled) <= 1
    used = shares.carried[setting.settled_ps // BLOCK :]
    assert 0.95 <= used.mean() <= 1, f"seed {seed}"
    slot = (FULL + 16 + GAP) * 8e12 / setting.rate_bps / BLOCK
    assert (used <= 1 + slot).all(), f"seed {seed}"


@pytest.mark.parametrize("setting", [PAPER, HPCC], ids=lambda s: s.set_name)
def test_the_difference_shrinks_without_turning_back(setting: Setting) -> None:
    """Zhu et al., 5.1: the difference of two rates decays, block of 100 ms by block.

    Once within the 5 % it wanders; until then each block's difference is less than the last one's.
    """
    each = from_nine_to_one(setting, 1).each
    gaps = (each[:, 0] - each[:, 1]).reshape(-1, 10).mean(axis=1)
    outside = [gap for gap in gaps if gap > 0.05]
    assert len(outside) >= 1 and gaps[0] == max(gaps)
    assert all(b < a for a, b in pairwise(outside)), gaps
    assert abs(gaps[-1]) <= 0.05


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_strawman_does_not_converge(seed: int) -> None:
    """Zhu et al., section 5.2: with QCN's byte counter and DCTCP's step the flows stay unequal.

    A byte counter (150 KB) that beats the timer (1.5 ms) raises the faster flow more often. This is
    the differential of the test above: a fabric that made any two flows equal would fail here.
    """
    shares = from_nine_to_one(STRAWMAN, seed)
    settled = shares.each[STRAWMAN.settled_ps // BLOCK :].mean(axis=0)
    assert settled[0] - settled[1] > 0.1, f"seed {seed}: {settled}"


def test_without_marks_the_line_rate_is_kept() -> None:
    """Policy's claim: without CNPs the line rate is never left; flows end as without control."""
    work = [Message(0, 2, 4_000_000), Message(1, 2, 4_000_000)]
    outcomes = []
    for congestion in (policy("dcqcn", "paper"), None):
        plan = plan_of(
            spokes([40 * GBPS] * 3), congestion=congestion, buffer_bytes=10**8, alpha=8.0
        )
        outcomes.append(run(plan, work, log=False))
    assert outcomes[0].flows.tobytes() == outcomes[1].flows.tobytes()
    assert outcomes[0].totals["cnp_packets"] == outcomes[0].totals["marked_packets"] == 0


@pytest.mark.parametrize("n_flow", [2, 4, 8])
def test_a_settled_queue_stays_in_the_marking_range(n_flow: int) -> None:
    """Zhu et al., section 6: DCQCN keeps the queue low and the link busy, however many flows share.

    Above kmax (200 KB) every packet is marked. Settled rates exceed the link's by at most one step
    each, 40 Mb/s, which is 275 B in the 55 us of a step; and at most one packet of each sender
    comes at an instant. So no sample is above kmax by more than a packet for each flow; and some
    are above kmin, or nothing would be marked. Without control the queue is fifty times that.
    """
    rate = PAPER.rate_bps
    peaks = {}
    for congestion in ("dcqcn", "none"):
        plan = plan_of(
            spokes([rate] * (n_flow + 1)),
            congestion=policy("dcqcn", "paper") if congestion == "dcqcn" else None,
            ecn=PAPER.ecn, cnp_interval_ps=PAPER.cnp_interval_ps, buffer_bytes=10**8, alpha=8.0,
        )  # fmt: skip
        engine = load_engine()(plan, sample_every_ps=10 * US)
        submit(engine, [Message(i, n_flow, 10**11, base_rtt_ps=8 * US) for i in range(n_flow)])
        engine.run(40 * MS)
        engine.drain()
        port = int(plan.port_peer[plan.node_port_start[n_flow]])
        before = int(engine.ports()["tx_packets"][port])
        engine.run(80 * MS)
        samples = engine.drain()["queues"]
        peaks[congestion] = int(samples["queue_bytes"][samples["port"] == port].max(initial=0))
        carried = int(engine.ports()["tx_packets"][port]) - before
        busy = carried * (FULL + GAP) * 8e12 / rate / (40 * MS)
        slot = (FULL + GAP) * 8e12 / rate / (40 * MS)
        assert 0.95 <= busy <= 1 + slot, (congestion, busy)
    assert 5_000 < peaks["dcqcn"] <= 200_000 + n_flow * FULL < 10**7 < peaks["none"]
