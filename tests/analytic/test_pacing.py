"""Pacing to the picosecond: when packets start, and who goes first at one instant."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fabric import plan_of, policy, spokes, written_policy
from support.oracle import FIRST, FULL, GAP, GBPS, MTU, NS, US, gaps
from support.run import Message, Result, run

from emunet._core import rows as R

pytestmark = pytest.mark.checked

LINE = 400 * GBPS
JUST_BELOW = float(LINE - 1)
"""So close to line rate that the gap asked for is the packet's own time."""


def paced(rate_bps: float, messages: list[Message], n_host: int = 3) -> Result:
    """Messages by way of `fixed` at a rate."""
    congestion = policy("fixed", None, rate_bps=rate_bps)
    return run(plan_of(spokes([LINE] * n_host), congestion=congestion), messages)


def starts(result: Result, node: int = 0, **where: int) -> list[int]:
    """When the data packets of a host start."""
    return result.times(node=node, kind=R.EVENT_DEPART, packet=R.PACKET_DATA, **where)


@pytest.mark.parametrize("rate_bps", [1e9, 25e9, 33.3e9, 123_456_789_012.5, 399e9, JUST_BELOW])
def test_packets_start_a_gap_apart(rate_bps: float) -> None:
    """Semantics 4.1: next_send = s + int((b + 20) * 8e12 / rate), cut to whole ps.

    From start to start, whatever the link does in between; the last packet is as long as it is.
    """
    n = 12
    result = paced(rate_bps, [Message(0, 1, (n - 1) * MTU + 100, 5 * NS)])
    first = int((FIRST + GAP) * 8e12 / rate_bps)
    others = int((FULL + GAP) * 8e12 / rate_bps)
    found = starts(result)
    assert found[0] == 5 * NS
    assert gaps(found) == [first] + [others] * (n - 2)
    assert others >= (FULL + GAP) * 20


@pytest.mark.parametrize("rate_bps", [400e9, 1e13, 0.0])
def test_at_line_rate_there_is_no_gap(rate_bps: float) -> None:
    """Semantics 4.1: next_send = s if rate >= line rate: packets start as the link becomes free."""
    found = starts(paced(rate_bps, [Message(0, 1, 5 * MTU)]))
    assert gaps(found) == [(FIRST + GAP) * 20] + [(FULL + GAP) * 20] * 3


def test_a_rate_is_of_each_connection() -> None:
    """Semantics 4.1: pacing is a connection's own; n of them have n times the rate."""
    n, k = 5, 4
    messages = [Message(0, 1 + i % 2, n * MTU, i * 10 * NS) for i in range(k)]
    result = paced(10e9, messages)
    first, others, slot = (FIRST + GAP) * 800, (FULL + GAP) * 800, (FIRST + GAP) * 20
    for flow in range(k):
        for i, gap in enumerate(gaps(starts(result, flow=flow))):
            # late at most by a packet of each other connection, and never early
            assert 0 <= gap - (others if i else first) <= (k - 1) * slot


def test_due_when_the_link_is_free_keeps_its_place() -> None:
    """Semantics 4.1: to the end of the ring if next_send <= busy_until, also if equal.

    A connection whose gap is exactly its packet's time stays in the ring, so another that starts
    during its first packet comes after its second. Had it gone to the pacing heap, the other would
    come first.
    """
    messages = [Message(0, 1, 4 * MTU), Message(0, 2, 4 * MTU, 10 * NS)]
    result = paced(JUST_BELOW, messages)
    data = result.select(node=0, kind=R.EVENT_DEPART, packet=R.PACKET_DATA)
    assert gaps(data["time_ps"].tolist())[:3] == [83_880, 83_560, 83_880]
    assert data["flow"].tolist() == [0, 0, 1, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_connections_due_at_one_instant_go_by_number(order: tuple[int, ...]) -> None:
    """Semantics 2.1, 4.1: starts and pacing at one instant go by (next_send, connection).

    Three messages that start together, whatever the order of their receivers; the first packets
    go by number, and so do the second ones, due 84, 168 ns apart.
    """
    messages = [Message(0, 1 + order[i], 2 * MTU) for i in range(3)]
    result = paced(20e9, messages, n_host=5)
    data = result.select(node=0, kind=R.EVENT_DEPART, packet=R.PACKET_DATA)
    assert data["flow"].tolist() == [0, 1, 2, 0, 1, 2]
    wait_ps = int((FIRST + GAP) * 8e12 / 20e9)
    slot = (FIRST + GAP) * 20
    assert data["time_ps"].tolist() == [0, slot, 2 * slot, wait_ps, wait_ps + slot,
                                        wait_ps + 2 * slot]  # fmt: skip


TURN = '''
"""One rate from the start, another from 1 us on.

Source: none; a test of when a change acts.
"""
import numpy as np
PARAMS = ()
STATE = np.dtype([])
CLAIMS = ("the change acts on the packet that waits",)


def start(ctx, params, state, out):
    out.rate_bps = {before}
    out.timer_ps[0] = 1_000_000


def timer(ctx, params, state, out):
    out.rate_bps = {after}
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [(4e9, 4e11), (4e9, 40e9), (4e9, 5e9), (20e9, 4e9), (1e6, 4e11), (4e9, 1e9)],
)
def test_a_change_of_rate_moves_the_packet_that_waits(
    tmp_path: Path, before: float, after: float
) -> None:
    """Semantics 4.1: next_send follows the rate, counted from the start of the last packet.

    So do the packet schedulers of RDMA NICs as simulated elsewhere (`RdmaHw::ChangeRate` of HPCC's
    ns-3 moves a queue pair's next time by the difference of the gaps). A rate of 1 Mb/s, that of a
    single moment, would otherwise hold a connection for 33 ms.
    """
    congestion = written_policy(tmp_path / "turn.py", TURN.format(before=before, after=after))
    result = run(plan_of(spokes([LINE] * 2), congestion=congestion), [Message(0, 1, 4 * MTU)])
    size = {True: FIRST + GAP, False: FULL + GAP}
    expected, now = [0], 0
    while len(expected) < 4:
        first = len(expected) == 1
        gap = {rate: int(size[first] * 8e12 / rate) if rate < LINE else 0
               for rate in (before, after)}  # fmt: skip
        due = now + gap[before] if now + gap[before] <= US else max(US, now + gap[after])
        now = max(due, now + size[first] * 20)
        expected.append(now)
    assert starts(result) == expected


def test_a_rate_that_falls_in_the_ring_holds_the_next_packet(tmp_path: Path) -> None:
    """Semantics 4.1: a connection whose turn comes before its next_send gives the turn away.

    Two connections at line rate take turns; one falls to 4 Gb/s at 1 us, wherever it stands in the
    ring, and the other has the link alone from the end of the packet then on its way.
    """
    text = TURN.format(before=4e11, after="4e9 if ctx.size_bytes == 40 * 4096 else 4e11")
    congestion = written_policy(tmp_path / "turn.py", text)
    result = run(
        plan_of(spokes([LINE] * 3), congestion=congestion),
        [Message(0, 1, 40 * MTU), Message(0, 2, 60 * MTU)],
    )
    slow = starts(result, flow=0)
    held = next(i for i, gap in enumerate(gaps(slow)) if gap > US)
    assert slow[held] <= US < slow[held] + 2 * (FULL + GAP) * 20
    assert slow[held + 1] - slow[held] == int((FULL + GAP) * 8e12 / 4e9)
    assert set(gaps(starts(result, flow=1))[13:]) == {(FULL + GAP) * 20}
