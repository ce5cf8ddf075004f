"""Priority flow control to the picosecond: XOFF, XON, refreshes, and how much headroom it takes."""

from __future__ import annotations

import pytest
from support.fabric import BARE, altered, plan_of, spokes, trunks
from support.oracle import FIRST, FULL, GAP, GBPS, MTU, NS, PAUSE, US, frames, pause_ps
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.compile import compile_topology

pytestmark = pytest.mark.checked

LATENCY = {
    "switch_latency_ps": 500 * NS,
    "nic_latency_ps": 300 * NS,
    "switch_pause_latency_ps": 300 * NS,
    "nic_pause_latency_ps": 300 * NS,
}


def pool(shared_bytes: int, headroom_bytes: int, n_port: int) -> dict[str, int]:
    """Settings that leave this shared pool beside the headroom of one lossless class."""
    return {
        "buffer_bytes": shared_bytes + n_port * headroom_bytes,
        "headroom_bytes": headroom_bytes,
        "alpha": 1.0,
    }


def test_xoff_and_xon_as_worked_out_by_hand() -> None:
    """Semantics 3.2, 3.4 by hand: XOFF and XON decided and in effect, bytes queued, completion.

    400G (20 ps a byte) into 100G (80), cables of 1 us, switch 500 ns, NIC and pauses 300 ns; pool
    60,000, alpha 1: XOFF when the group holds x > 60,000 - x. Packet k is in the switch at A_k =
    1,583,880 + 83,560 k and has left at E_k = 1,919,400 + 334,240 k.

    At A_7 the group holds 29,106 (packet 0 has left), at A_8 33,264 > 26,736: XOFF at 2,252,360.
    The reverse link is idle; 84 bytes take 1680, and after 1.3 us the host is paused at 3,554,040,
    with packet 42 in transmission (begun at 3,509,840). Packets 9 .. 42 go to headroom; at A_42
    eight of them have left (2 .. 9; packet 1 went while headroom was empty): 26 * 4158 = 108,108.
    XON needs headroom 0 and x + 3000 <= 60,000 - x: 28,500 or less, that is 6 packets, so 37 have
    left: E_36 = 13,952,040. It acts at the host 1,301,680 later, 15,253,720. By then 43 packets
    have been sent; the other 6 are in the switch 1,583,560 after that and later than E_42 =
    15,957,480, so they take 6 * 334,240 from then and 1.3 us.
    """
    plan = plan_of(spokes([400 * GBPS, 100 * GBPS]), **pool(60_000, 200_000, 2), **LATENCY)
    result = run(plan, [Message(0, 1, 49 * MTU)])
    in_port = int(plan.node_port_start[2])
    assert result.pfc[["time_ps", "port", "klass", "on"]].tolist() == [
        (2_252_360, in_port, 3, 1),
        (13_952_040, in_port, 3, 0),
    ]
    xoff = result.select(kind=R.EVENT_PAUSE_TX)[["time_ps", "port", "occupancy", "bytes"]]
    assert xoff.tolist() == [(2_252_360, 0, 33_264, PAUSE)]
    assert result.select(kind=R.EVENT_RESUME_TX)["occupancy"].tolist() == [6 * FULL]
    assert result.times(node=0, kind=R.EVENT_PAUSE_RX) == [3_554_040]
    assert result.times(node=0, kind=R.EVENT_RESUME_RX) == [15_253_720]
    starts = result.times(node=0, kind=R.EVENT_DEPART)
    assert starts[42:44] == [3_509_840, 15_253_720]
    assert int(result.ports["paused_ps"][0]) == 15_253_720 - 3_554_040
    assert result.totals["paused_ps"] == 11_699_680
    assert int(result.ports["pg_watermark_bytes"][in_port, 3]) == 33_264
    assert int(result.ports["headroom_watermark_bytes"][in_port, 3]) == 108_108
    assert int(result.switches["pool_watermark_bytes"][0]) == 33_264
    counts = [int(result.ports[k][p]) for k, p in
              (("pause_tx", in_port), ("resume_tx", in_port), ("pause_rx", 0))]  # fmt: skip
    assert counts == [1, 1, 1]
    assert result.flow_ps(0) == 15_253_720 + 1_583_560 + 6 * 334_240 + 1_300_000
    assert result.totals["dropped_packets"] == 0


def test_a_pause_frame_waits_for_the_frame_in_transmission() -> None:
    """Semantics 3.4: a pause frame starts when the frame being sent ends, before all waiting data.

    As above, but host 2 sends two full packets to host 0, the first of which starts on the reverse
    link 1 ps before XOFF is decided. XOFF comes at A_7 now, as 4174 bytes of another group leave
    55,826 - x: x = 29,106 > 26,720. The pause frame starts when that packet ends, 83,879 later, and
    the second packet after it.
    """
    rates = [400 * GBPS, 100 * GBPS, 400 * GBPS]
    plan = plan_of(spokes(rates), **pool(60_000, 200_000, 3), **LATENCY)
    xoff_ps = 1_583_880 + 7 * 83_560
    noise_ps = xoff_ps - 1 - (1_500_000 + (FIRST + GAP) * 20)
    result = run(plan, [Message(0, 1, 49 * MTU), Message(2, 0, 2 * MTU, noise_ps)])
    assert result.times(kind=R.EVENT_PAUSE_TX)[0] == xoff_ps
    noise = result.select(node=3, port=0, kind=R.EVENT_DEPART, packet=R.PACKET_DATA)
    noise_end_ps = xoff_ps - 1 + (FIRST + GAP) * 20
    assert noise["time_ps"].tolist() == [xoff_ps - 1, noise_end_ps + 84 * 20]
    assert result.times(node=0, kind=R.EVENT_PAUSE_RX)[0] == noise_end_ps + 84 * 20 + 1_300_000


def test_refreshes_come_every_half_pause() -> None:
    """Semantics 3.4: while a group stays in XOFF the frame is repeated every half of 65,535 quanta.

    That is from decision to decision. A receiver of 1 Gb/s keeps the group of a sender of 400 in
    XOFF for many times 41,942 ns. Every repetition is counted and sent, and the host stays paused
    from the first frame to XON. The message has as many packets as were sent before the pause
    acted, so that there is no second XOFF.
    """
    half_ps = pause_ps(400 * GBPS) // 2
    assert half_ps == 41_942_400
    plan = plan_of(spokes([400 * GBPS, GBPS]), **pool(60_000, 200_000, 2), **LATENCY)
    # XOFF at A_7 (nothing has left): 2,168,800; it acts 1,301,680 later, when packet 41 has begun
    result = run(plan, [Message(0, 1, 42 * MTU)])
    (on, off) = result.pfc["time_ps"].tolist()
    n = (off - 1 - on) // half_ps
    assert n > 10
    expected = [on + k * half_ps for k in range(n + 1)]
    assert result.times(kind=R.EVENT_PAUSE_TX) == expected
    assert int(result.ports["pause_rx"][0]) == result.totals["pause_frames"] == n + 1
    assert result.totals["resume_frames"] == 1
    flight_ps = 84 * 20 + 1_300_000
    received = result.times(node=0, kind=R.EVENT_PAUSE_RX)
    # an ACK may be in transmission when a repetition is decided: 86 bytes at most
    waits = [at - (sent + flight_ps) for at, sent in zip(received, expected, strict=True)]
    assert waits[0] == 0 and all(0 <= w < 86 * 20 for w in waits)
    resumed = result.times(node=0, kind=R.EVENT_RESUME_RX)
    assert int(result.ports["paused_ps"][0]) == resumed[0] - received[0]


def headroom_case(gbps: int, delay_ps: int, headroom_bytes: int) -> tuple[Result, int, int]:
    """The most that can arrive after XOFF: result, number of packets after it, time of XOFF.

    Host 0 sends without a gap to a receiver so slow that nothing leaves meanwhile. At packet 6 the
    group holds 29,122 bytes; a full packet of host 2, admitted 1 ps before, makes the threshold
    60,000 - 4174 - 29,122 = 26,704: XOFF. That packet has just begun on the reverse link, so the
    pause frame waits for nearly all of it.
    """
    rate = gbps * GBPS
    ps = 8000 // gbps
    plan = plan_of(
        spokes([rate, GBPS // 10, rate], delay_ps),
        **pool(60_000, headroom_bytes, 3),
        **LATENCY | {"nic_latency_ps": 1000 * NS},
    )
    starts = [0] + [(FIRST + GAP + j * (FULL + GAP)) * ps for j in range(400)]
    sizes = frames(400 * MTU)
    arrivals = [
        s + (b + GAP) * ps + delay_ps + 500 * NS for s, b in zip(starts, sizes, strict=False)
    ]
    xoff_ps = arrivals[6]
    noise_ps = xoff_ps - 1 - ((FIRST + GAP) * ps + delay_ps + 500 * NS)
    paused_ps = xoff_ps - 1 + (FIRST + GAP + 84) * ps + delay_ps + 300 * NS
    n_after = sum(a > xoff_ps and s < paused_ps for s, a in zip(starts, arrivals, strict=False))
    result = run(
        plan, [Message(0, 1, 400 * MTU), Message(2, 0, MTU, noise_ps)],
        until_ps=paused_ps + 10 * US + delay_ps, expect=R.UNTIL,
    )  # fmt: skip
    assert result.pfc["time_ps"].tolist() == [xoff_ps]
    assert result.times(node=0, kind=R.EVENT_PAUSE_RX) == [paused_ps]
    return result, n_after, xoff_ps


@pytest.mark.parametrize(("gbps", "delay_ps"), [(400, US), (400, 100 * NS), (100, 5 * US)])
def test_headroom_of_the_worst_case_is_enough_and_a_byte_less_is_not(
    gbps: int, delay_ps: int
) -> None:
    """K9: with headroom for exactly the packets that can arrive after XOFF nothing is lost.

    With one byte less one packet is. The packets are those that arrive after XOFF and began before
    the pause acted: propagation both ways, the pipeline, the response, a frame in transmission at
    either end and the pause frame itself. The headroom that a scenario gets by itself covers N of
    them in slot bytes and one that finds the pool full, and less than N + 2 and the RETH.
    """
    _, n, _ = headroom_case(gbps, delay_ps, 2_000_000)
    enough, _, _ = headroom_case(gbps, delay_ps, n * FULL)
    assert enough.totals["dropped_packets"] == 0
    assert int(enough.ports["headroom_watermark_bytes"][3, 3]) == n * FULL
    short, _, _ = headroom_case(gbps, delay_ps, n * FULL - 1)
    assert short.totals["dropped_lossless_packets"] == 1
    drop = short.select(kind=R.EVENT_DROP)
    assert drop["psn"].tolist() == [6 + n]
    assert int(short.ports["headroom_watermark_bytes"][3, 3]) == (n - 1) * FULL
    latency = LATENCY | {"nic_latency_ps": 1000 * NS}
    own = compile_topology(spokes([gbps * GBPS] * 3, delay_ps), BARE, **latency).plan
    given = int(own.port_headroom_bytes[3])
    assert n * (FULL + GAP) <= given <= (n + 2) * (FULL + GAP) + 17


def test_both_ends_paused_still_send_pause_frames() -> None:
    """K10: a port that is itself paused still sends XOFF and XON; nothing is lost, everything ends.

    Two hosts at each of two switches send to the slow host of the other side, so both ends of the
    cable between the switches are paused at times that overlap.
    """
    plan = plan_of(
        trunks(3, 3, [400 * GBPS]),
        **pool(200_000, 400_000, 4),
        **LATENCY,
    )
    slow = plan.port_rate_bps.copy()
    for host in (2, 5):
        port = int(plan.port_peer[plan.node_port_start[host]])
        slow[port] = 40 * GBPS
    plan = altered(plan, port_rate_bps=slow)
    messages = [Message(s, d, 500_000) for s, d in ((0, 5), (1, 5), (3, 2), (4, 2))]
    result = run(plan, messages)
    assert result.totals["dropped_packets"] == 0
    assert result.totals["flows_finished"] == 4
    assert result.totals["pause_frames"] >= result.totals["resume_frames"] > 0
    n_paused_sends = 0
    for node, peer in ((6, 7), (7, 6)):
        sent = result.select(node=node, port=3)
        spans = paused_spans(sent)
        for row in sent[(sent["kind"] == R.EVENT_PAUSE_TX) | (sent["kind"] == R.EVENT_RESUME_TX)]:
            at = int(row["time_ps"])
            if any(a < at < b for a, b in spans):
                n_paused_sends += 1
        arrived = result.times(node=peer, port=3, kind=R.EVENT_PAUSE_RX)
        decided = result.times(node=node, port=3, kind=R.EVENT_PAUSE_TX)
        # a frame of data in transmission, or two pause frames before it
        assert all(
            84 * 20 <= a - d - 1_300_000 <= (FIRST + GAP + 3 * 84) * 20
            for a, d in zip(arrived, decided, strict=True)
        )
    assert n_paused_sends > 0


def paused_spans(events: object) -> list[tuple[int, int]]:
    """Intervals in which a port's class is paused, from its pause_rx and resume_rx rows."""
    spans, since = [], None
    for row in events:
        if row["kind"] == R.EVENT_PAUSE_RX and since is None:
            since = int(row["time_ps"])
        elif row["kind"] == R.EVENT_RESUME_RX and since is not None:
            spans.append((since, int(row["time_ps"])))
            since = None
    return spans
