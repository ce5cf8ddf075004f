"""The twin against times worked out by hand from docs/semantics.md: pauses, their repetition,
and deadlock.

As in test_twin_loss.py, host 0 sends at 400 Gb/s through a switch to a slower host 1, cables of
50 ns and no other latency: packet k (4158 frame bytes, 4174 the first) reaches the switch at A_k
= 133,880 + 83,560 k. With alpha 1 and a pool of 20,000 B two packets (8332) stay within their
threshold of 20,000 - used, three (12,490) do not.
"""

from __future__ import annotations

from plans import GBPS, US, Message, Policy, star, submit
from random_plans import deadlock_case
from test_twin_loss import NO_LATENCY
from test_twin_timing import FOREVER, run_all, times

from emunet._core.rows import (
    DONE,
    EVENT_DEPART,
    EVENT_PAUSE_RX,
    EVENT_PAUSE_TX,
    EVENT_RESUME_RX,
    EVENT_RESUME_TX,
    STUCK,
    UNTIL,
    WAIT_PAUSED,
)
from emunet.twin import TwinEngine

TIGHT = {
    "shared_bytes": 20_000,
    "alpha": 1.0,
    "headroom_bytes": 10_000,
    "xon_offset_bytes": 1000,
    **NO_LATENCY,
}


def test_a_pause_and_its_end() -> None:
    """Semantics 3.2 to 3.4, two pauses with every time and counter.

    XOFF is decided at A_2 = 301,000, takes 84 * 20 = 1680 ps and is at host 0 at 352,680, during
    packet 4 (334,560 to 418,120); packets 3 and 4 go to headroom (8316 B). To host 1 at 100 Gb/s
    packet 0 is done at E_0 = 469,400, the others 334,240 apart. E_0 takes 4174 from headroom,
    E_1 the remaining 4142 (group 12,474 > 20,000 - 12,474), E_2 leaves 8316 with 8316 + 1000 <=
    11,684: XON at 1,137,880, at host 0 at 1,189,560, which then sends packet 5. That comes
    133,560 later, at 1,323,120, and makes the group 12,474 again: XOFF, without headroom; E_3 =
    1,472,120 leaves 8316.
    """
    plan = star([400 * GBPS, 100 * GBPS], 50_000, **TIGHT)
    engine, rows = run_all(plan, [Message(0, 1, 6 * 4096)])
    events = rows["events"]
    assert times(events, kind=EVENT_PAUSE_TX) == [301_000, 1_323_120]
    assert times(events, kind=EVENT_PAUSE_RX) == [352_680, 1_374_800]
    assert times(events, kind=EVENT_RESUME_TX) == [1_137_880, 1_472_120]
    assert times(events, kind=EVENT_RESUME_RX) == [1_189_560, 1_523_800]
    assert times(events, kind=EVENT_DEPART, node=0)[4:] == [334_560, 1_189_560]
    pauses = events[events["flow"] == -1]
    assert pauses["occupancy"].tolist() == [12_490, 0, 8316, 0, 12_474, 0, 8316, 0]
    port = int(plan.node_port_start[2])
    assert rows["pfc"].tolist() == [
        (301_000, port, 3, 1, 0),
        (1_137_880, port, 3, 0, 0),
        (1_323_120, port, 3, 1, 0),
        (1_472_120, port, 3, 0, 0),
    ]
    ports = engine.ports()
    assert ports["paused_ps"].tolist() == [836_880 + 149_000, 0, 0, 0]
    assert ports["headroom_watermark_bytes"][port, 3] == 8316
    assert ports["pg_watermark_bytes"][port, 3] == 12_490
    assert engine.totals()["dropped_packets"] == 0


def test_a_long_pause_is_repeated() -> None:
    """Semantics 3.4: XOFF lasts 65535 * 512 bit times, 83,884,800 ps at 400 Gb/s, and is
    repeated every half of it.

    To host 1 at 1 Gb/s packet 0 takes 33,552,000, the others 33,424,000 ps: E_2 = 133,880 +
    33,552,000 + 2 * 33,424,000 = 100,533,880 is the XON. In between 41,942,400 ps pass twice
    after 301,000.
    """
    plan = star([400 * GBPS, GBPS], 50_000, **TIGHT)
    engine, rows = run_all(plan, [Message(0, 1, 5 * 4096)])
    events = rows["events"]
    sent = [301_000, 301_000 + 41_942_400, 301_000 + 2 * 41_942_400]
    assert times(events, kind=EVENT_PAUSE_TX) == sent
    assert times(events, kind=EVENT_PAUSE_RX) == [t + 51_680 for t in sent]
    assert times(events, kind=EVENT_RESUME_TX) == [100_533_880]
    assert len(rows["pfc"]) == 2
    totals = engine.totals()
    assert (totals["pause_frames"], totals["resume_frames"]) == (3, 1)
    assert totals["paused_ps"] == 100_533_880 - 301_000


def test_a_pause_frame_goes_before_data() -> None:
    """Semantics 3.4: a frame in transmission is finished, then the pause frame goes, then data;
    it delays both.

    Host 1 sends one long packet to host 0 as well, which is in transmission on the way to host 0
    when XOFF is decided; so the pause frame starts at the end of that packet.
    """
    plan = star([400 * GBPS, 100 * GBPS], 50_000, **TIGHT)
    _, rows = run_all(plan, [Message(0, 1, 6 * 4096), Message(1, 0, 4096, start_ps=5_000, klass=0)])
    events = rows["events"]
    back = times(events, kind=EVENT_DEPART, node=2, flow=1)[0]
    assert back == 5_000 + 4194 * 80 + 50_000
    started = times(events, kind=EVENT_PAUSE_TX)[0]
    assert started == 301_000 and back > started
    assert times(events, kind=EVENT_PAUSE_RX)[0] == 301_000 + 1680 + 50_000
    late = Message(1, 0, 4096, klass=0)
    _, rows = run_all(plan, [Message(0, 1, 6 * 4096, start_ps=100_000), late])
    events = rows["events"]
    back = times(events, kind=EVENT_DEPART, node=2, flow=1)[0]
    decided = times(events, kind=EVENT_PAUSE_TX)[0]
    assert back == 4194 * 80 + 50_000 and decided == 401_000 and decided - back < 4194 * 20
    assert times(events, kind=EVENT_PAUSE_RX)[0] == back + 4194 * 20 + 1680 + 50_000


def test_an_empty_group_that_finds_no_room_is_not_paused() -> None:
    """Semantics 3.2: with the pool full and no headroom, a packet of an empty group is dropped
    and no XOFF is sent.

    A pool of 4000 B is too small for any data packet; nothing of the group would ever be
    released to end a pause.
    """
    plan = star(
        [400 * GBPS, 100 * GBPS],
        50_000,
        rto_ps=10 * US,
        max_retries=1,
        **{**TIGHT, "shared_bytes": 4000, "headroom_bytes": 0},
    )
    engine, _ = run_all(plan, [Message(0, 1, 4096)])
    totals = engine.totals()
    assert (totals["pause_frames"], totals["dropped_lossless_packets"], totals["flows_failed"]) == (
        0,
        2,
        1,
    )


def test_a_cycle_of_pauses_is_found() -> None:
    """Semantics 6: when every switch of a cycle waits for the next, no packet ever moves again, and
    the run ends STUCK two longest pauses after the last movement.

    Each trunk of the ring would have to carry two streams at line rate, so all groups fill up and
    pause one another. Timeouts rewind what was sent; then all wait at their hosts for the end of
    a pause. The last thing to happen is the start of the later messages, at 300 us.
    """
    case = deadlock_case()
    engine = TwinEngine(case.plan, log_events=True)
    submit(engine, case.messages)
    assert engine.run(200 * US) == UNTIL
    assert engine.run(case.until_ps) == STUCK
    left = engine.unfinished()
    assert left["wait"].tolist() == [WAIT_PAUSED] * len(case.messages)
    assert (left["port"] >= 0).all() and (left["until_ps"] > engine.now_ps).all()
    assert engine.totals()["queued_packets"] > 0
    events = engine.drain()["events"]
    assert events["time_ps"][events["flow"] >= 0].max() < 300 * US
    assert engine.now_ps == 300 * US + 2 * (65535 * 512 * 10**12 // (100 * GBPS))
    assert engine.run(case.until_ps) == STUCK


def test_priorities_are_paused_one_by_one() -> None:
    """Semantics 3.4: a pause holds its class only; another class of the same connection pair
    goes on.
    """
    plan = star([400 * GBPS, 100 * GBPS], 50_000, **TIGHT)
    _, rows = run_all(
        plan, [Message(0, 1, 12 * 4096), Message(0, 1, 100, start_ps=400_000, klass=5)]
    )
    events = rows["events"]
    paused, resumed = times(events, kind=EVENT_PAUSE_RX)[0], times(events, kind=EVENT_RESUME_RX)[0]
    assert paused < times(events, kind=EVENT_DEPART, node=0, flow=1)[0] < resumed


def test_pausing_policyless_and_with_hooks_alike() -> None:
    """A policy whose hooks decide nothing leaves every row as it is without one."""

    def nothing(ctx, params, state, out):
        pass

    rows = []
    for policy in (None, Policy(dict.fromkeys(("start", "ack", "loss", "timer"), nothing))):
        plan = star([400 * GBPS, 100 * GBPS], 50_000, congestion=policy, **TIGHT)
        engine = TwinEngine(plan, log_events=True)
        submit(engine, [Message(0, 1, 60 * 4096)])
        assert engine.run(FOREVER) == DONE
        rows.append(engine.drain()["events"])
    assert rows[0].tolist() == rows[1].tolist()
