"""One packet lost: who sends what again, and when it is over.

Host 0 sends at 100 Gb/s (80 ps a byte) to host 1 at 400 (20 ps a byte), so the switch holds one of
its packets at a time. Host 2 sends single packets to host 1 too, aimed at the switch just before a
chosen packet of host 0. In a lossy class with alpha 1 and a pool of 6000 B, a packet of 4158 B is
admitted alone (4158 <= 6000) and dropped beside one of 2078 B (6236 > 6000 - 2078): exactly one
packet is lost, at a known time.
"""

from __future__ import annotations

import pytest
from support.fabric import LOSSY, plan_of, spokes
from support.oracle import ACK, GBPS, MTU, NS, US, cross, data_frame, frames, slot_ps
from support.run import Message, Result, run

from emunet._core import rows as R

pytestmark = pytest.mark.checked

RATES = [100 * GBPS, 400 * GBPS, 400 * GBPS]
POOL = 6000
SPOILER = 2000
RTO = 400 * US


def path(delay_ps: int) -> list[tuple[int, int]]:
    """Links of host 0's data."""
    return [(RATES[0], delay_ps), (RATES[1], delay_ps)]


def path_back(delay_ps: int) -> list[tuple[int, int]]:
    """Links of its acknowledgements."""
    return [(RATES[1], delay_ps), (RATES[0], delay_ps)]


def spoil(at_switch_ps: int, delay_ps: int, dst: int = 1, size_bytes: int = SPOILER) -> Message:
    """A message of host 2 in the switch from 10 ns before a time on (towards host 1: for 42 ns)."""
    ser_ps = slot_ps(data_frame(size_bytes, first=True), RATES[2])
    return Message(2, dst, size_bytes, at_switch_ps - 10 * NS - delay_ps - ser_ps)


def with_drop(size_bytes: int, delay_ps: int, at_switch_ps: list[int], **knobs: object) -> Result:
    """A message of host 0 that loses whatever arrives at the switch at these times."""
    plan = plan_of(
        spokes(RATES, delay_ps), LOSSY, alpha=1.0, buffer_bytes=POOL, rto_ps=RTO, **knobs
    )
    messages = [Message(0, 1, size_bytes), *(spoil(t, delay_ps) for t in at_switch_ps)]
    result = run(plan, messages)
    drops = result.select(kind=R.EVENT_DROP)
    assert drops["flow"].tolist() == [0] * len(at_switch_ps)
    assert drops["time_ps"].tolist() == at_switch_ps
    return result


def arrivals(sizes: list[int], links: list[tuple[int, int]], start_ps: int = 0) -> list[int]:
    """When packets sent back to back from `start_ps` have crossed links."""
    return cross([start_ps] * len(sizes), sizes, links)


@pytest.mark.parametrize("lost", [1, 7, 18])
def test_go_back_n_sends_the_rest_again(lost: int) -> None:
    """K17: with packet i of n dropped, all n sent before the news, go-back-N sends n - i again.

    The receiver discards i+1 .. n-1 and sends one NACK, for i+1, on which the sender goes back.
    """
    n, delay_ps = 20, 10 * US
    sizes = frames(n * MTU)
    at_switch = arrivals(sizes, path(delay_ps)[:1])
    result = with_drop(n * MTU, delay_ps, [at_switch[lost]])
    assert result.select(kind=R.EVENT_DROP)["psn"].tolist() == [lost]
    sender, receiver = result.flow_row(0, R.FLOW_TX_DONE), result.flow_row(0)
    assert sender["retransmitted"] == n - lost
    assert receiver["out_of_order"] == n - lost - 1
    assert sender["nacks"] == receiver["nacks"] == 1
    assert sender["timeouts"] == receiver["duplicates"] == 0
    ahead = arrivals(sizes, path(delay_ps))[lost + 1]
    nack = cross([ahead], [ACK], path_back(delay_ps))[0]
    again = arrivals(sizes[lost:], path(delay_ps), nack)
    assert result.flow_ps(0) == again[-1]


@pytest.mark.parametrize("lost", [1, 30])
def test_go_back_n_sends_again_what_was_in_flight(lost: int) -> None:
    """K17, news in time: sent again is what had been sent when the NACK came, i .. next-1, no more.

    A frame that has begun is finished first; a NACK at the very end of one is in time for the next.
    """
    n, delay_ps = 60, US
    sizes = frames(n * MTU)
    ends = arrivals(sizes, [(RATES[0], 0)])
    at_switch = [end + delay_ps for end in ends]
    result = with_drop(n * MTU, delay_ps, [at_switch[lost]])
    ahead = arrivals(sizes, path(delay_ps))[lost + 1]
    nack = cross([ahead], [ACK], path_back(delay_ps))[0]
    sent = sum(end - slot_ps(b, RATES[0]) < nack for end, b in zip(ends, sizes, strict=True))
    assert lost + 1 < sent < n
    assert result.flow_row(0, R.FLOW_TX_DONE)["retransmitted"] == sent - lost
    again = arrivals(sizes[lost:], path(delay_ps), max(nack, ends[sent - 1]))
    assert result.flow_ps(0) == again[-1]


@pytest.mark.parametrize("lost", [1, 7, 14])
@pytest.mark.parametrize("reorder", [1, 4])
def test_selective_repeat_sends_one_packet_again(lost: int, reorder: int) -> None:
    """K17: selective repeat sends exactly the lost packet again.

    Packet i counts as lost when a packet above i + reorder is acknowledged. Everything else has
    arrived by then, so the message is complete when the repetition arrives.
    """
    n, delay_ps = 20, 10 * US
    sizes = frames(n * MTU)
    at_switch = arrivals(sizes, path(delay_ps)[:1])
    result = with_drop(
        n * MTU, delay_ps, [at_switch[lost]], recovery="sr", sr_reorder_packets=reorder
    )
    sender, receiver = result.flow_row(0, R.FLOW_TX_DONE), result.flow_row(0)
    assert sender["retransmitted"] == 1
    assert receiver["out_of_order"] == n - lost - 1
    assert receiver["duplicates"] == sender["timeouts"] == sender["nacks"] == 0
    telling = arrivals(sizes, path(delay_ps))[lost + reorder + 1]
    acked = cross([telling], [ACK], path_back(delay_ps))[0]
    assert result.flow_ps(0) == arrivals([sizes[lost]], path(delay_ps), acked)[0]


@pytest.mark.parametrize("recovery", ["gbn", "sr"])
@pytest.mark.parametrize("n_drop", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 10])
def test_a_lost_last_packet_is_recovered_by_the_timer_only(
    n: int, n_drop: int, recovery: str
) -> None:
    """K18: nothing tells of a lost last packet but the timer.

    It runs from the last ACK that found the packet in flight: deadline = arrival of ACK(n-2) + RTO
    (the packet's own start + RTO if n is 1); the repetition goes out at the deadline, and the next
    deadline is RTO later.
    """
    delay_ps = US
    sizes = frames((n - 1) * MTU + 3000)
    there, back = path(delay_ps), path_back(delay_ps)
    first_time = arrivals(sizes, there[:1])[-1]
    armed = 0
    if n > 1:
        acked = cross(arrivals(sizes, there)[:-1], [ACK] * (n - 1), back)
        armed = acked[-1]
    sent_again = [armed + k * RTO for k in range(1, n_drop + 1)]
    lost_at = [first_time] + [arrivals([sizes[-1]], there[:1], t)[0] for t in sent_again[:-1]]
    result = with_drop((n - 1) * MTU + 3000, delay_ps, lost_at, recovery=recovery)
    sender, receiver = result.flow_row(0, R.FLOW_TX_DONE), result.flow_row(0)
    assert sender["timeouts"] == sender["retransmitted"] == n_drop
    assert sender["nacks"] == receiver["out_of_order"] == receiver["duplicates"] == 0
    assert result.flow_ps(0) == arrivals([sizes[-1]], there, sent_again[-1])[0]


@pytest.mark.parametrize("recovery", ["gbn", "sr"])
def test_a_lost_acknowledgement_costs_a_duplicate(recovery: str) -> None:
    """Semantics 4.2, 4.3: if the last ACK is lost, the receiver has all.

    The timer sends the last packet once more, as a duplicate. The switch drops the ACK because a
    full packet of host 2 is in the queue towards host 0: 4174 + 66 > 6000 - 4174.
    """
    delay_ps = US
    size = 3000
    data = arrivals(frames(size), path(delay_ps))[0]
    ack_at = cross([data], [ACK], path_back(delay_ps)[:1])[0]
    plan = plan_of(
        spokes(RATES, delay_ps),
        LOSSY,
        alpha=1.0,
        buffer_bytes=POOL,
        rto_ps=RTO,
        recovery=recovery,
    )
    result = run(plan, [Message(0, 1, size), spoil(ack_at, delay_ps, dst=0, size_bytes=MTU)])
    drop = result.select(kind=R.EVENT_DROP)
    assert drop[["flow", "packet", "time_ps"]].tolist() == [(0, R.PACKET_ACK, ack_at)]
    assert result.flow_ps(0) == data
    assert result.flow_row(0)["duplicates"] == 0
    assert result.totals["duplicate_packets"] == 1
    again = arrivals(frames(size), path(delay_ps), RTO)[0]
    assert result.flow_ps(0, R.FLOW_TX_DONE) == cross([again], [ACK], path_back(delay_ps))[0]
    assert result.flow_row(0, R.FLOW_TX_DONE)["timeouts"] == 1
