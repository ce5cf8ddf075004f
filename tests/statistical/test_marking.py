"""Marking probability and the spread of hashes, over many draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.fabric import BARE, plan_of, spokes, step_ecn, trunks
from support.oracle import GBPS, MARK, US, unit_draw
from support.run import Message, Result, run

from emunet._core import rows as R

MTU = 256
FRAME = MTU + 62
SEED = 11


def ramp(n_packet: int, kmin: int, kmax: int, pmax: float) -> tuple[np.ndarray, Result]:
    """Depth and mark of every departure while two senders fill a link's queue and it empties."""
    plan = plan_of(
        spokes([400 * GBPS] * 3),
        BARE,
        mtu_bytes=MTU,
        ecn=step_ecn(kmin, kmax, pmax),
        buffer_bytes=10**9,
        alpha=8.0,
        ack_every=1000,
        seed=SEED,
    )
    kinds = (1 << R.EVENT_DEPART) | (1 << R.EVENT_MARK)
    result = run(
        plan,
        [Message(0, 2, n_packet * MTU), Message(1, 2, n_packet * MTU)],
        event_filter=(kinds, -1, 1 << 32),
    )
    rows = result.select(node=3, port=2, kind=R.EVENT_DEPART)
    assert len(rows) == 2 * n_packet
    assert result.totals["pause_frames"] == 0
    return rows, result


def expected_share(depth: np.ndarray, kmin: int, kmax: int, pmax: float) -> np.ndarray:
    """RED with HPCC's and DCQCN's step: 0 up to kmin, linear to pmax at kmax, 1 above."""
    share = pmax * (depth - kmin) / (kmax - kmin)
    return np.where(depth <= kmin, 0.0, np.where(depth > kmax, 1.0, share))


def deviation(marks: np.ndarray, share: np.ndarray) -> float:
    """How many standard deviations the number of marks is from its expectation."""
    return float((marks.sum() - share.sum()) / np.sqrt((share * (1 - share)).sum()))


def test_marks_come_with_the_probability_of_their_queue_depth() -> None:
    """K15: 0 up to kmin, pmax (q - kmin) / (kmax - kmin) up to kmax, 1 above.

    Marks agree within 3 sigma over more than 1e5 draws. So they do in each of ten slices of depth
    (4 sigma each, as there are ten). A slope that is 4 % off would be more than 3 sigma out.
    """
    n = 100_000
    peak = n * FRAME
    kmin, kmax, pmax = peak // 5, peak * 9 // 10, 0.4
    rows, result = ramp(n, kmin, kmax, pmax)
    depth, marked = rows["occupancy"], rows["flags"] & 1
    assert (marked[depth <= kmin] == 0).all() and (depth <= kmin).sum() > 1000
    assert (marked[depth > kmax] == 1).all() and (depth > kmax).sum() > 1000
    drawn = (depth > kmin) & (depth <= kmax)
    assert drawn.sum() > 100_000
    share = expected_share(depth, kmin, kmax, pmax)
    assert abs(deviation(marked[drawn], share[drawn])) < 3
    for low in np.linspace(kmin, kmax, 11)[:-1]:
        part = drawn & (depth > low) & (depth <= low + (kmax - kmin) / 10)
        assert part.sum() > 5000
        assert abs(deviation(marked[part], share[part])) < 4
    for wrong in (0.96, 1.04):
        assert abs(deviation(marked[drawn], wrong * share[drawn])) > 3
    assert result.totals["marked_packets"] == int(marked.sum())
    assert len(result.select(kind=R.EVENT_MARK)) == int(marked.sum())


def test_each_mark_is_the_draw_of_its_port_and_number() -> None:
    """Semantics 1.2, 3.3: draw d of a port is counter-based: every mark can be told beforehand."""
    n, kmin, kmax, pmax = 2000, 50_000, 400_000, 0.5
    rows, _ = ramp(n, kmin, kmax, pmax)
    slope = pmax / float(kmax - kmin)
    port, d, told = 5, 0, []
    for q in rows["occupancy"].tolist():
        if kmin < q <= kmax:
            told.append(unit_draw(SEED, MARK, port, d) < slope * (q - kmin))
            d += 1
        else:
            told.append(q > kmax)
    assert d > 1000
    assert (rows["flags"] & 1).astype(bool).tolist() == told


@pytest.mark.parametrize("window", [8, 32])
def test_a_constant_queue_is_marked_at_a_constant_rate(window: int) -> None:
    """K15 at a fixed depth: a window of W packets into a slower link holds the queue there.

    Its marks are binomial. 400G into 10G: in steady state a packet departs as an acknowledgement
    releases the next, so the depth at departures is one value; the share of marks there is within 3
    sigma of its probability.
    """
    kmin, kmax, pmax = 0, 64 * FRAME, 0.5
    plan = plan_of(
        spokes([400 * GBPS, 10 * GBPS], 10_000),
        BARE,
        mtu_bytes=MTU,
        ecn=step_ecn(kmin, kmax, pmax),
        recovery="sr",
        sr_window_packets=window if window >= 64 else 64,
        seed=SEED,
    )
    from support.fabric import policy

    plan = plan_of(
        spokes([400 * GBPS, 10 * GBPS], 10_000),
        BARE,
        congestion=policy("fixed", None, window_bytes=window * MTU),
        mtu_bytes=MTU,
        ecn=step_ecn(kmin, kmax, pmax),
        seed=SEED,
    )
    n = 50_000
    kinds = 1 << R.EVENT_DEPART
    result = run(plan, [Message(0, 1, n * MTU)], event_filter=(kinds, -1, 1 << 32))
    rows = result.select(node=2, port=1, kind=R.EVENT_DEPART)[100:-100]
    (depth,) = set(rows["occupancy"].tolist())
    assert 1 < depth // FRAME <= window and depth % FRAME == 0
    share = np.full(len(rows), pmax * (depth - kmin) / (kmax - kmin))
    assert abs(deviation(rows["flags"] & 1, share)) < 3
    assert abs(deviation(rows["flags"] & 1, 1.1 * share)) > 3


def spread(counts: Sequence[int]) -> float:
    """Chi-square of counts against equal shares, less its degrees of freedom, in sigmas."""
    seen = np.asarray(counts, float)
    expected = seen.sum() / len(seen)
    chi2 = ((seen - expected) ** 2 / expected).sum()
    dof = len(seen) - 1
    return float((chi2 - dof) / np.sqrt(2 * dof))


@pytest.mark.parametrize("path", ["ecmp", "spray"])
def test_hashes_spread_evenly_over_parallel_links(path: str) -> None:
    """Semantics 1.2: over 8 parallel links flows (ECMP) or packets (spray) spread evenly.

    They do so like independent uniform draws: chi-square with 7 degrees of freedom, within 4
    standard deviations (14.97) above and not below its least value by more than its mean.
    """
    n, per_flow = 16, 4
    plan = plan_of(
        trunks(n, n, [100 * GBPS] * 8),
        BARE,
        path=path,
        recovery="sr",
        seed=SEED,
    )
    work = [
        Message(i, n + (i + k) % n, per_flow * 4096, k * 10 * US)
        for k in range(200)
        for i in range(n)
    ]
    result = run(plan, work, log=False)
    first = int(plan.node_port_start[2 * n]) + n
    packets = result.ports["tx_packets"][first : first + 8]
    assert int(packets.sum()) == len(work) * per_flow
    units = packets if path == "spray" else packets / per_flow
    assert spread(units) < 4
    assert (units > 0).all()
    # flows stay whole under ECMP: every link carries a multiple of a message's packets
    assert bool((packets % per_flow == 0).all()) == (path == "ecmp")
