"""The twin against times worked out by hand from docs/semantics.md: drops, marks, recovery,
hooks.

Most scenarios send from host 0 at 400 Gb/s (20 ps/B) through a switch to host 1 at 100 Gb/s (80
ps/B), cables of 50 ns and no other latency. Data of a full packet is 62 + 4096 = 4158 frame
bytes, 4174 for the first, with 20 more on the wire: 83,560 (83,880) ps on the first hop, 334,240
(335,520) on the second. Packet k reaches the switch at A_k = 133,880 + 83,560 k; if all were
admitted the second hop would end at E_k = 469,400 + 334,240 k. A response of 66 B takes 6,880 ps
at 100 and 1,720 ps at 400 Gb/s, so it reaches host 0 6,880 + 1,720 + 100,000 = 108,600 after it
was queued.
"""

from __future__ import annotations

import numpy as np
import pytest
from plans import GBPS, US, Message, Policy, line, star, submit
from test_twin_timing import FOREVER, run_all, times

from emunet._core.rows import (
    DONE,
    EVENT_ARRIVE,
    EVENT_DEPART,
    EVENT_DROP,
    EVENT_MARK,
    FLOW_FAILED,
    FLOW_RX_DONE,
    FLOW_TX_DONE,
    PACKET_ACK,
    PACKET_CNP,
    PACKET_DATA,
    PACKET_NACK,
    PLUGIN_FAILED,
    WAIT_FAILED,
)
from emunet.plan.schema import PATH_SPRAY, RECOVERY_SR
from emunet.plugin.slots import CTX
from emunet.twin import TwinEngine

NO_LATENCY = {
    "switch_latency_ps": 0,
    "nic_latency_ps": 0,
    "switch_pause_latency_ps": 0,
    "nic_pause_latency_ps": 0,
}
FAST_SLOW = [400 * GBPS, 100 * GBPS]


def flow_times(rows) -> dict[tuple[int, int], int]:
    """Time of each (flow, kind) row."""
    return {(int(r["flow"]), int(r["kind"])): int(r["time_ps"]) for r in rows["flows"]}


def test_lossy_drops_are_recovered_by_nack_then_by_timeout() -> None:
    """Semantics 3.2 and 4.2-4.3: with alpha 1 and a pool of 17,000 B a lossy packet needs queue
    + 4158 <= 17,000 - used.

    Packets 0, 1 fit (8332 <= 12,826); 2, 3, 4 come before E_0 and do not (12,490 > 8668); 5
    comes at 551,680 > E_0 and fits. It is at host 1 at E_2 + 50,000 = 1,187,880, ahead of 2: a
    NACK, at host 0 at 1,296,480, which sends 2..5 again at once. They reach the switch 133,560
    later and 83,560 apart; 2 and 3 fit, 4 and 5 come before the second hop is done with 2 at
    1,764,280, and do not. Packet 3 is done at 2,098,520, delivered 50,000 later, its ACK at host
    0 at 2,257,120, so the timer goes off 10 us later. 4 and 5 then fit: 12,257,120 + 133,560 + 2
    * 334,240 + 50,000 = 13,109,160 at the receiver, the last ACK 108,600 later.
    """
    plan = star(
        FAST_SLOW,
        50_000,
        shared_bytes=17_000,
        alpha=1.0,
        lossless_classes=(),
        rto_ps=10 * US,
        **NO_LATENCY,
    )
    engine, rows = run_all(plan, [Message(0, 1, 6 * 4096, klass=0)])
    events = rows["events"]
    assert times(events, kind=EVENT_DROP) == [301_000, 384_560, 468_120, 1_597_160, 1_680_720]
    assert times(events, kind=EVENT_ARRIVE, node=0, packet=PACKET_NACK) == [1_296_480]
    again = [t for t in times(events, kind=EVENT_DEPART, node=0) if t > 501_680]
    resent = [1_296_480 + 83_560 * k for k in range(4)]
    assert again == [*resent, 12_257_120, 12_257_120 + 83_560]
    assert flow_times(rows) == {(0, FLOW_RX_DONE): 13_109_160, (0, FLOW_TX_DONE): 13_217_760}
    sender = rows["flows"][rows["flows"]["kind"] == FLOW_TX_DONE][0]
    assert (sender["retransmitted"], sender["timeouts"], sender["nacks"]) == (6, 1, 1)
    receiver = rows["flows"][rows["flows"]["kind"] == FLOW_RX_DONE][0]
    assert (receiver["nacks"], receiver["out_of_order"], receiver["duplicates"]) == (1, 1, 0)
    totals = engine.totals()
    assert totals["data_packets"] == 12
    assert totals["dropped_packets"] == 5 and totals["dropped_lossless_packets"] == 0
    ports = engine.ports()
    assert ports["dropped_packets"].sum() == 5
    assert ports["dropped_bytes"][plan.node_port_start[2]] == 5 * 4158


def test_a_message_fails_after_its_retries() -> None:
    """Semantics 4.3: with max_retries 2 and nothing ever admitted, the third timeout gives the
    message up.

    A pool of 4000 B admits no data packet. Sent at 0, again at each timeout: 10 us, 20 us; at 30
    us retries = 3 > 2.
    """
    plan = star(
        FAST_SLOW,
        50_000,
        shared_bytes=4000,
        alpha=1.0,
        lossless_classes=(),
        rto_ps=10 * US,
        max_retries=2,
        **NO_LATENCY,
    )
    engine, rows = run_all(plan, [Message(0, 1, 4096, klass=0)])
    assert times(rows["events"], kind=EVENT_DEPART, node=0) == [0, 10 * US, 20 * US]
    assert flow_times(rows) == {(0, FLOW_FAILED): 30 * US}
    assert rows["flows"]["timeouts"].tolist() == [3]
    left = engine.unfinished()
    assert left["wait"].tolist() == [WAIT_FAILED]
    assert engine.totals()["flows_failed"] == 1


def test_no_headroom_drops_in_a_lossless_class() -> None:
    """Semantics 3.2: a group in XOFF takes what still comes into headroom; what finds none is a
    flagged drop.

    With alpha 1 and a pool of 20,000 B the third packet's 12,490 B exceed 20,000 - 12,490: XOFF
    at A_2 = 301,000. It reaches host 0 1,680 + 50,000 later, during packet 4; headroom of 5000 B
    takes packet 3 only.
    """
    plan = star(
        FAST_SLOW,
        50_000,
        shared_bytes=20_000,
        alpha=1.0,
        headroom_bytes=5000,
        rto_ps=10 * US,
        **NO_LATENCY,
    )
    engine, rows = run_all(plan, [Message(0, 1, 6 * 4096)])
    assert times(rows["events"], kind=EVENT_DROP)[0] == 133_880 + 4 * 83_560
    assert engine.totals()["dropped_lossless_packets"] == engine.totals()["dropped_packets"] >= 1
    ports = engine.ports()
    assert ports["headroom_watermark_bytes"][plan.node_port_start[2], 3] == 4158
    assert ports["pg_watermark_bytes"][plan.node_port_start[2], 3] == 12_490


def test_a_marked_packet_gives_one_cnp_that_overtakes_its_ack() -> None:
    """Semantics 3.3, 4.2: q > kmax marks; the receiver queues a CNP (class 6), then the ACK
    (class 3), served in that order.

    Two hosts send one packet each to host 2 at the same instant; when the first leaves the
    switch the queue holds 8348 > 5000 B: marked; the second finds 4174 <= kmin: not. The first
    is at host 2 at 2,967,760. The CNP takes 98 * 20 = 1960 ps a hop: at the switch at 4,469,720,
    at its host at 5,771,680. The ACK starts behind it at 2,969,720, is at the switch at
    4,471,440, waits until 4,471,680 and is at the host at 5,773,400.
    """
    calls = []

    def cnp(ctx, params, state, out):
        calls.append((ctx.now_ps, ctx.inflight_bytes, ctx.timer))

    plan = star([400 * GBPS] * 3, kmin_bytes=4174, kmax_bytes=5000, congestion=Policy({"cnp": cnp}))
    engine, rows = run_all(plan, [Message(0, 2, 4096), Message(1, 2, 4096)])
    events = rows["events"]
    assert times(events, kind=EVENT_MARK) == [1_583_880]
    marked = int(events[events["kind"] == EVENT_MARK]["flow"][0])
    assert times(events, kind=EVENT_ARRIVE, node=marked, packet=PACKET_CNP) == [5_771_680]
    assert times(events, kind=EVENT_ARRIVE, node=marked, packet=PACKET_ACK) == [5_773_400]
    assert calls == [(5_771_680, 4096, -1)]
    rx = rows["flows"][(rows["flows"]["kind"] == FLOW_RX_DONE) & (rows["flows"]["flow"] == marked)][
        0
    ]
    assert (rx["marked"], rx["cnps"]) == (1, 1)
    assert engine.totals()["marked_packets"] == engine.totals()["cnp_packets"] == 1


def test_cnps_keep_their_distance() -> None:
    """Semantics 4.2: at most one CNP per connection and cnp_interval, and none unless the policy
    wants them.

    Six packets arrive at host 1 at E_k + 50,000, 334,240 apart, all but the last two marked
    (queues of more than two packets): with an interval of 700 ns the 1st and the 4th give CNPs.
    """

    def nothing(ctx, params, state, out):
        pass

    for policy, cnps in ((Policy({"cnp": nothing}), 2), (Policy({"ack": nothing}), 0), (None, 0)):
        plan = star(
            FAST_SLOW,
            50_000,
            kmin_bytes=0,
            kmax_bytes=0,
            cnp_interval_ps=700_000,
            congestion=policy,
            **NO_LATENCY,
        )
        engine, rows = run_all(plan, [Message(0, 1, 6 * 4096)])
        sent = times(rows["events"], kind=EVENT_DEPART, node=1, packet=PACKET_CNP)
        assert sent == [519_400, 519_400 + 3 * 334_240][:cnps]
        assert engine.totals()["marked_packets"] == 6


def test_hooks_see_what_they_should() -> None:
    """Semantics 4.4 and 4.1: contexts of start, timer and ack, whose rtt counts whole
    nanoseconds from the data's stamp.

    Two packets; the first ACK is at the sender at 2,967,760 + 2,803,440 = 5,771,200 ps: rtt
    5,771 ns. The second finishes the message and calls no hook. Timer 2 was armed for 1 ps by a
    value of 0.
    """
    calls = []

    def note(name):
        def hook(ctx, params, state, out):
            state.n_call += 1
            calls.append(
                (
                    name,
                    ctx.now_ps,
                    ctx.rtt_ps,
                    ctx.acked_bytes,
                    ctx.inflight_bytes,
                    ctx.una_bytes,
                    ctx.next_bytes,
                    ctx.timer,
                    state.n_call,
                )
            )
            if name == "start":
                out.timer_ps[2] = 0
                out.timer_ps[1] = 5 * US
                assert ctx.rate_bps == ctx.line_rate_bps == 400e9
                assert ctx.window_bytes == 2**63 - 1
                assert (
                    ctx.bdp_bytes == 6 * 50_000 and ctx.mtu_bytes == 4096 and ctx.size_bytes == 5000
                )
            if name == "timer" and ctx.timer == 2:
                out.timer_ps[1] = -2

        return hook

    policy = Policy({name: note(name) for name in ("start", "ack", "timer")}, [("n_call", "i8")])
    run_all(star([400 * GBPS] * 2, congestion=policy), [Message(0, 1, 5000)])
    assert calls == [
        ("start", 0, 0, 0, 0, 0, 0, -1, 1),
        ("timer", 1, 0, 0, 4096, 0, 4096, 2, 2),
        ("ack", 5_771_200, 5_771_000, 4096, 904, 4096, 5000, -1, 3),
    ]


def test_a_failing_hook_stops_the_run() -> None:
    """Contract of Engine.run: a policy that raises ends it with PLUGIN_FAILED and says where."""

    def ack(ctx, params, state, out):
        raise ZeroDivisionError

    engine = TwinEngine(star([400 * GBPS] * 2, congestion=Policy({"ack": ack})))
    submit(engine, [Message(0, 1, 5000)])
    assert engine.run(FOREVER) == PLUGIN_FAILED
    assert engine.failure is not None
    assert (engine.failure["flow"], engine.failure["hook"]) == (0, "ack")
    ctx = np.frombuffer(engine.failure["ctx"], CTX)[0]
    assert engine.failure["time_ps"] == ctx["now_ps"] == 5_771_200
    assert engine.run(FOREVER) == PLUGIN_FAILED


def reordering_line(size_packets: int, slow: list[int], **settings):
    """A line of two trunks, 1 us and 3 us, with a seed for which only these packets take the
    slow one.
    """
    for seed in range(1, 2000):
        plan = line(
            1,
            1,
            [(400 * GBPS, US), (400 * GBPS, 3 * US)],
            seed=seed,
            path=PATH_SPRAY,
            recovery=RECOVERY_SR,
            **settings,
        )
        engine = TwinEngine(plan, log_events=True)
        submit(engine, [Message(0, 1, size_packets * 4096)])
        engine.run(3 * US)
        events = engine.drain()["events"]
        sent = events[(events["node"] == 2) & (events["kind"] == EVENT_DEPART)]
        if sent["psn"][sent["port"] == 2].tolist() == slow and len(sent) == size_packets:
            return plan
    pytest.fail("no such seed")


def test_selective_repeat_takes_packets_in_any_order() -> None:
    """Semantics 4.2: packet 0 on a slow path is overtaken by 1 and 2, which are kept and
    answered with epsn 0.

    Packets leave the first switch as they come: 1,583,880, then 83,560 apart from 1,667,440. On
    the slow trunk 0 is at the second switch at 1,583,880 + 83,880 + 3.5 us = 5,167,760, on the
    fast one 1 is at 1,667,440 + 83,560 + 1.5 us = 3,251,000, 2 83,560 later. One hop of 83,560
    (83,880 for 0) + 1.3 us more: 4,634,560, 4,718,120, 6,551,640.
    """
    plan = reordering_line(3, [0])
    engine, rows = run_all(plan, [Message(0, 1, 3 * 4096)])
    events = rows["events"]
    at_host = [4_634_560, 4_718_120, 6_551_640]
    assert times(events, kind=EVENT_ARRIVE, node=1, packet=PACKET_DATA) == at_host
    acks = events[(events["node"] == 1) & (events["packet"] == PACKET_ACK)]
    assert acks["time_ps"].tolist() == at_host
    assert acks["psn"].tolist() == [0, 0, 3]
    rx = rows["flows"][rows["flows"]["kind"] == FLOW_RX_DONE][0]
    assert rx["time_ps"] == at_host[-1]
    assert (rx["out_of_order"], rx["duplicates"]) == (2, 0)
    assert engine.totals()["retransmitted_packets"] == 0


def test_selective_repeat_repeats_what_seems_lost() -> None:
    """Semantics 4.3: an ACK of packet 2 puts 0 beyond a reordering of 1: it is sent again, and
    its first copy comes first.

    The loss hook runs once, with cause 2, when the ACK of 2 arrives; the second copy is a
    duplicate.
    """
    causes = []

    def loss(ctx, params, state, out):
        causes.append((ctx.cause, ctx.inflight_bytes, ctx.next_bytes))

    plan = reordering_line(3, [0], sr_reorder_packets=1, congestion=Policy({"loss": loss}))
    engine, rows = run_all(plan, [Message(0, 1, 3 * 4096)])
    assert causes == [(2, 0, 3 * 4096)]
    events = rows["events"]
    answered = times(events, kind=EVENT_ARRIVE, node=0, packet=PACKET_ACK)
    assert times(events, kind=EVENT_DEPART, node=0, packet=PACKET_DATA)[3] == answered[1]
    assert engine.totals()["retransmitted_packets"] == 1
    assert engine.totals()["duplicate_packets"] + engine.totals()["stale_packets"] >= 1


def test_saving_changes_nothing() -> None:
    """An engine restored in mid-run ends with the rows and counters of one that was never saved."""

    def ack(ctx, params, state, out):
        state.n_ack += 1
        out.rate_bps = ctx.line_rate_bps / (1 + state.n_ack % 3)

    policy = Policy({"ack": ack}, [("n_ack", "i8")])
    plan = star(
        FAST_SLOW,
        50_000,
        shared_bytes=17_000,
        alpha=1.0,
        lossless_classes=(),
        rto_ps=10 * US,
        congestion=policy,
        **NO_LATENCY,
    )
    messages = [Message(0, 1, 20 * 4096, klass=0), Message(1, 0, 3 * 4096, klass=0)]
    whole, rows = run_all(plan, messages, sample_every_ps=100_000)
    engine = TwinEngine(plan, log_events=True, sample_every_ps=100_000)
    submit(engine, messages)
    for until_ps in range(400_000, 3_000_000, 400_000):
        engine.run(until_ps)
        engine = TwinEngine.restore(plan, engine.save())
    assert engine.run(FOREVER) == DONE
    again = engine.drain()
    assert all(
        (rows[name] == again[name]).all() and len(rows[name]) == len(again[name]) for name in rows
    )
    assert whole.totals() == engine.totals()


def test_slices_of_a_run_change_nothing() -> None:
    """Semantics 2.2: results never depend on where a run is interrupted, by time or by number of
    events.
    """
    plan = star(
        FAST_SLOW,
        50_000,
        shared_bytes=17_000,
        alpha=1.0,
        lossless_classes=(),
        rto_ps=10 * US,
        **NO_LATENCY,
    )
    messages = [Message(0, 1, 200 * 4096, klass=0), Message(1, 0, 300 * 4096, klass=0)]
    whole, rows = run_all(plan, messages)
    engine = TwinEngine(plan, log_events=True)
    submit(engine, messages)
    parts = []
    until_ps = 0
    while True:
        until_ps += 333_333
        reason = engine.run(until_ps, max_windows=1)
        parts += engine.drain()["events"].tolist()
        if reason == DONE:
            break
    assert parts == rows["events"].tolist()
    assert engine.totals() == whole.totals()
