"""Marks over a million draws, and two queue depths on either side of each threshold."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabric import plan_of, policy, spokes, step_ecn
from support.oracle import GBPS, MARK, unit_draw
from support.run import Message, run
from test_marking import FRAME, MTU, SEED, deviation, expected_share, ramp

from emunet._core import rows as R


def test_a_million_draws_agree_with_the_ramp() -> None:
    """K15 (RED with HPCC's and DCQCN's step): over 10^6 draws marks are within 3 sigma.

    p = 0 up to kmin, pmax (q - kmin) / (kmax - kmin) up to kmax, 1 above. The variance of the sum
    is that of the independent draws, so a slope that is 1.2 % off lies beyond 3 sigma, either way.
    """
    n = 800_000
    peak = n * FRAME
    kmin, kmax, pmax = peak // 20, peak * 19 // 20, 0.3
    rows, _ = ramp(n, kmin, kmax, pmax)
    depth, marked = rows["occupancy"], rows["flags"] & 1
    drawn = (depth > kmin) & (depth <= kmax)
    assert drawn.sum() > 1_000_000
    share = expected_share(depth[drawn], kmin, kmax, pmax)
    assert abs(deviation(marked[drawn], share)) < 3, f"seed {SEED}"
    for wrong in (0.988, 1.012):
        assert abs(deviation(marked[drawn], wrong * share)) > 3
    assert not marked[depth <= kmin].any() and marked[depth > kmax].all()
    assert (depth <= kmin).sum() > 10_000 and (depth > kmax).sum() > 10_000


def held_depth(window: int, kmin: int, kmax: int, pmax: float) -> tuple[int, float, int]:
    """A queue held at one depth by a window: depth, share of marks, number of departures."""
    plan = plan_of(
        spokes([400 * GBPS, 10 * GBPS], 10_000),
        congestion=policy("fixed", None, window_bytes=window * MTU),
        mtu_bytes=MTU,
        ecn=step_ecn(kmin, kmax, pmax),
        seed=SEED,
    )
    n = 4000
    result = run(plan, [Message(0, 1, n * MTU)], event_filter=(1 << R.EVENT_DEPART, -1, 1 << 32))
    rows = result.select(node=2, port=1, kind=R.EVENT_DEPART)[100:-100]
    (depth,) = set(rows["occupancy"].tolist())
    return int(depth), float((rows["flags"] & 1).mean()), len(rows)


@pytest.mark.parametrize("window", [4, 20])
def test_thresholds_are_met_to_the_byte(window: int) -> None:
    """Semantics 3.3: no mark if q <= kmin, certain if q > kmax; at q = kmax the draw has pmax.

    A queue held at one depth q, with each threshold at q - 1, q and q + 1.
    """
    depth, _, _ = held_depth(window, 10**9, 10**9, 1.0)
    far = 100 * depth
    share = {k: held_depth(window, depth + k, far, 1.0)[1] for k in (-1, 0, 1)}
    assert share[0] == share[1] == 0
    # one byte above kmin: probability 1 / (far - kmin)
    assert share[-1] < 0.01
    step = {k: held_depth(window, depth + k, depth + k, 1.0)[1] for k in (-1, 0, 1)}
    assert step == {-1: 1.0, 0: 0.0, 1: 0.0}
    pmax = 0.4
    for k in (-1, 0, 1):
        found, marks, n = held_depth(window, 0, depth + k, pmax)
        assert found == depth
        if k == -1:
            assert marks == 1.0
            continue
        expected = pmax * depth / (depth + k)
        assert abs(marks - expected) < 3.3 * np.sqrt(expected * (1 - expected) / n), f"seed {SEED}"


@pytest.mark.parametrize("step", [False, True])
def test_draws_are_made_between_the_thresholds_only(step: bool) -> None:
    """Semantics 1.2, 3.3: draw d of a port is used for the d-th packet that needs one, none other.

    Both thresholds are depths that occur. At q = kmin nothing is drawn; at q = kmax it is. One draw
    too many or too few would shift all marks after it, so every mark can be told beforehand.
    """
    n, pmax = 1500, 0.6
    kmin, kmax = 150 * FRAME, (150 if step else 1200) * FRAME
    rows, _ = ramp(n, kmin, kmax, pmax)
    depth = rows["occupancy"].tolist()
    assert depth.count(kmin) > 1 and depth.count(kmax) > 1
    port, d, told = 5, 0, []
    for q in depth:
        told.append(q > kmax)
        if kmin < q <= kmax:
            told[-1] = unit_draw(SEED, MARK, port, d) < pmax / float(kmax - kmin) * (q - kmin)
            d += 1
    assert (d == 0) == step
    assert (rows["flags"] & 1).astype(bool).tolist() == told
