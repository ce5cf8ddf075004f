"""Thresholds of a switch to the byte: equal is on one side, one byte more or less on the other."""

from __future__ import annotations

import pytest
from support.fabric import BARE, LOSSY, plan_of, spokes
from support.oracle import FIRST, FULL, GBPS, MTU, US
from support.run import Message, Result, run

from emunet._core import rows as R

pytestmark = pytest.mark.checked

HEADROOM = 100_000


def held(n: int) -> int:
    """Frame bytes of the first n packets of a message."""
    return FIRST + (n - 1) * FULL


def filled(n: int, *, pool: int, lossless: bool, alpha: float = 1.0, reserved: int = 0) -> Result:
    """n packets from a host of 400G into a switch from which nothing leaves meanwhile (10 Mb/s).

    The first packet is in transmission all the time, and so is charged. A cable of 1 us and 84 ns
    a packet: the n-th is in the switch before n * 84 ns + 1 us, and the first leaves after 3.3 ms.
    """
    plan = plan_of(
        spokes([400 * GBPS, GBPS // 100]),
        BARE if lossless else LOSSY,
        alpha=alpha,
        reserved_bytes=reserved,
        headroom_bytes=HEADROOM,
        buffer_bytes=pool + 2 * 8 * reserved + (2 * HEADROOM if lossless else 0),
    )
    assert int(plan.switch_shared_bytes[0]) == pool
    return run(plan, [Message(0, 1, n * MTU)], until_ps=20 * US, expect=R.UNTIL)


@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("n", [2, 7])
def test_xoff_comes_above_its_threshold_not_at_it(n: int, alpha: float) -> None:
    """Semantics 3.2, lossless 1: XOFF if shared(g) > T(c), this packet charged, not if equal.

    After n packets of x bytes in all T = int(alpha (S - x)). With the least pool S for which T is x
    or more, the n-th packet sends no XOFF and the next does; with one byte less the n-th does.
    """
    x = held(n)
    least = next(pool for pool in range(x, 9 * x) if int(alpha * float(pool - x)) >= x)
    for less, at in ((0, n + 1), (1, n)):
        result = filled(n + 1, pool=least - less, lossless=True, alpha=alpha)
        assert result.select(kind=R.EVENT_PAUSE_TX)["occupancy"].tolist() == [held(at)]


@pytest.mark.parametrize("n", [1, 6])
def test_a_lossy_packet_is_admitted_up_to_the_threshold(n: int) -> None:
    """Semantics 3.2, lossy: admitted if q + b <= T(c), the packet itself not yet charged.

    With alpha 1 and q bytes in the pool that is q + b <= S - q: exactly for S = 2 q + b.
    """
    q = held(n)
    for less, admitted in ((0, n + 1), (1, n)):
        result = filled(n + 3, pool=2 * q + FULL - less, lossless=False)
        drops = result.select(kind=R.EVENT_DROP)
        assert drops["psn"].tolist() == list(range(admitted, n + 3))
        assert set(drops["occupancy"].tolist()) == {held(admitted)}


@pytest.mark.parametrize("reserved", [0, 5_000])
def test_the_threshold_is_cut_to_whole_bytes(reserved: int) -> None:
    """Semantics 3.2: T = int(alpha * float(S - used)), truncated; alpha 0.3 is not exact in binary.

    The least pool in which the n-th packet is admitted by that formula, and one byte less.
    """
    n, alpha = 5, 0.3
    q = held(n - 1)

    def fits(pool: int) -> bool:
        used = max(0, q - reserved)
        return q + FULL <= reserved + int(alpha * float(pool - used))

    least = next(pool for pool in range(q, 10 * q) if fits(pool))
    for less, admitted in ((0, n), (1, n - 1)):
        result = filled(n, pool=least - less, lossless=False, alpha=alpha, reserved=reserved)
        assert len(result.select(kind=R.EVENT_DROP)) == n - admitted, less


@pytest.mark.parametrize("offset", [0, 3000, 3001])
def test_xon_comes_at_its_threshold(offset: int) -> None:
    """Semantics 3.2, release: XON when shared(g) + offset <= T(c), that is when equal, too.

    Ten packets of 41,596 B: XOFF at the seventh, three go to headroom and are the first to be given
    back. With alpha 1 XON comes when x + offset <= S - x. S = 2 * 6 * 4158 + offset makes that
    exact when six packets are left; one byte less, and it comes at five.
    """
    for less, left in ((0, 6), (1, 5)):
        pool = 2 * 6 * FULL + offset - less
        plan = plan_of(
            spokes([400 * GBPS, 10 * GBPS]),
            alpha=1.0,
            buffer_bytes=pool + 2 * HEADROOM,
            headroom_bytes=HEADROOM,
            xon_offset_bytes=offset,
        )
        result = run(plan, [Message(0, 1, 10 * MTU)])
        in_port = int(plan.node_port_start[2])
        n_xoff = 7 if offset else 6
        (xoff,) = result.select(kind=R.EVENT_PAUSE_TX)["occupancy"].tolist()
        (xon,) = result.select(kind=R.EVENT_RESUME_TX)["occupancy"].tolist()
        assert xoff == held(n_xoff)
        assert xon == left * FULL
        headroom = int(result.ports["headroom_watermark_bytes"][in_port, 3])
        assert headroom == (10 - n_xoff) * FULL


@pytest.mark.parametrize("n", [3, 9])
def test_a_lossless_pool_takes_its_last_byte(n: int) -> None:
    """Semantics 3.2, lossless 1: into the pool while used' <= S; the one that does not fit goes on.

    With a large alpha the pool is the limit. For S of exactly n packets the n-th fits, and the next
    sends XOFF and goes to headroom; one byte less, and the n-th does.
    """
    for less, fits in ((0, n), (1, n - 1)):
        result = filled(n + 1, pool=held(n) - less, lossless=True, alpha=1000.0)
        # XOFF comes with T as well once the pool is nearly full, but not before the n-th
        xoff = result.select(kind=R.EVENT_PAUSE_TX)["occupancy"].tolist()
        assert int(result.switches["pool_watermark_bytes"][0]) == held(fits)
        assert int(result.ports["headroom_watermark_bytes"][2, 3]) == (n + 1 - fits) * FULL
        assert xoff and result.totals["dropped_packets"] == 0
