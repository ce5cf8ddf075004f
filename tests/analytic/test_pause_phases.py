"""Pauses that arrive at any moment of a transmission: what other simulators got wrong.

Three defects known from other simulators: no pause frame is sent by a port that is itself paused,
so that two such ports wait for ever; XON is ignored until the pause runs out; a frame is lost when
a pause arrives during its transmission. `support.pauses` says, from the rows of the events and by
arithmetic, when every frame must start and arrive; here the moment at which pauses arrive moves
over a whole frame, in steps and to the picosecond at its ends.
"""

from __future__ import annotations

import pytest
from support.fabric import altered, plan_of, spokes, trunks
from support.oracle import FIRST, FULL, GAP, GBPS, MTU, US, pause_ps
from support.pauses import (
    assert_nothing_is_lost,
    assert_obeyed,
    assert_pause_frames_arrive,
    paused_spans,
)
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.schema import Plan

pytestmark = pytest.mark.checked

RATE = 400 * GBPS
FRAME_PS = (FULL + GAP) * 20
FIRST_PS = (FIRST + GAP) * 20
N_STEP = 12

PHASES = sorted(
    {step * FRAME_PS // N_STEP for step in range(N_STEP + 1)}
    | {1, FRAME_PS - 1}
)
"""Where in a frame a pause acts: every twelfth of it, its ends, and 1 ps inside of them."""

N_HELD = 6
"""Packets whose arrival makes a group send XOFF; one less lets it send XON."""

POOL = 2 * (N_HELD - 1) * FULL + 2 * 16
"""With alpha 1 a group of x bytes is above its threshold if 2 x > POOL: six packets are, five not.

The first packet of a message is 16 bytes longer.
"""

LATENCY = {
    "switch_latency_ps": 0,
    "nic_latency_ps": 0,
    "switch_pause_latency_ps": 0,
    "nic_pause_latency_ps": 0,
}


def rate_that_takes(frame_bytes: int, ps: int) -> int:
    """Rate at which a frame takes this long, rounded up to whole picoseconds."""
    return -(-(frame_bytes + GAP) * 8 * 10**12 // ps)


def settings(n_port: int, **values: int) -> dict[str, int]:
    headroom = 300_000
    return {
        "buffer_bytes": POOL + n_port * headroom,
        "headroom_bytes": headroom,
        "alpha": 1.0,
        "xon_offset_bytes": 0,
        **LATENCY,
        **values,
    }


def slow_receiver(plan: Plan, host: int, xon_after_ps: int) -> Plan:
    """A receiver whose first packet has left so long after the one that makes a group pause.

    Packets reach the switch FRAME_PS apart; the sixth of them is 5 FRAME_PS after the first.
    """
    rates = plan.port_rate_bps.copy()
    port = int(plan.port_peer[plan.node_port_start[host]])
    rates[port] = rate_that_takes(FIRST, (N_HELD - 1) * FRAME_PS + xon_after_ps)
    return altered(plan, port_rate_bps=rates)


def assert_all_delivered(result: Result) -> None:
    totals = result.totals
    assert totals["dropped_packets"] == totals["retransmitted_packets"] == 0
    assert totals["out_of_order_packets"] == 0
    assert totals["flows_finished"] == totals["flows_submitted"]


XON_AFTER = [1, FRAME_PS // 3, FRAME_PS - 1, 3 * FRAME_PS]
"""First release after the first XOFF. In less than a frame nothing arrives meanwhile, and it is XON

at once; otherwise all that is under way comes into headroom, which has to be emptied first.
"""


@pytest.mark.parametrize("xon_after_ps", XON_AFTER)
def test_a_host_obeys_pauses_at_every_phase_of_its_frame(xon_after_ps: int) -> None:
    """K10, IEEE 802.1Qbb: a host finishes its frame, sends none while paused, resumes with XON.

    XOFF is decided when the sixth packet is in the switch, which is 1 us after its last bit has
    left the host; the pause acts 1680 ps (the pause frame), 1 us and the response later. So the
    response moves it over the host's frames. The first XON follows the first XOFF by 1 ps (both
    act within one frame, and cost nothing), by parts of a frame, or by many frames.
    """
    acted = set()
    for phase in PHASES:
        # 2 us and 1680 ps are 23 frames and 79,800 ps: from there to the next frame, and on
        response_ps = (-(2 * US + 84 * 20)) % FRAME_PS + phase
        plan = plan_of(spokes([RATE] * 2), **settings(2, nic_pause_latency_ps=response_ps))
        plan = slow_receiver(plan, 1, xon_after_ps)
        result = run(plan, [Message(0, 1, 80 * MTU)])
        host, port = 0, int(plan.port_peer[0])
        assert_all_delivered(result)
        assert assert_pause_frames_arrive(result, plan, port) > 4
        last = result.times(node=0, kind=R.EVENT_DEPART)[-1]
        assert_obeyed(result, plan, host, last + 1)
        assert_nothing_is_lost(result, plan, host)
        first = paused_spans(result, plan, host)[0][0]
        acted.add((first - FIRST_PS) % FRAME_PS)
        on, off = result.pfc["time_ps"][:2].tolist()
        assert (off - on == xon_after_ps) == (xon_after_ps < FRAME_PS)
    assert acted == {phase % FRAME_PS for phase in PHASES}


@pytest.mark.parametrize("xon_after_ps", XON_AFTER)
def test_a_switch_obeys_pauses_at_every_phase_of_its_frame(xon_after_ps: int) -> None:
    """K10, IEEE 802.1Qbb: the same for the port of a switch that is paused by the next switch.

    Two hosts keep the left switch's port to the right one busy; the right one has a slow receiver.
    The left switch has room for everything, so that it pauses nobody.
    """
    for phase in PHASES:
        response_ps = (-(2 * US + 84 * 20)) % FRAME_PS + phase
        plan = plan_of(
            trunks(2, 1, [RATE]), **settings(3, switch_pause_latency_ps=response_ps)
        )
        plan = slow_receiver(plan, 2, xon_after_ps)
        plan = altered(plan, switch_shared_bytes=[10**9, POOL], switch_buffer_bytes=[2 * 10**9] * 2)
        result = run(plan, [Message(h, 2, 60 * MTU) for h in (0, 1)])
        trunk = int(plan.node_port_start[3]) + 2
        assert_all_delivered(result)
        assert assert_pause_frames_arrive(result, plan, int(plan.port_peer[trunk])) > 4
        packets = result.select(node=3, port=2, kind=R.EVENT_DEPART)
        assert len(packets) == 120
        # both hosts have sent everything before the right switch lets a tenth of it through
        assert_obeyed_from_first(result, plan, trunk, int(packets["time_ps"][-1]) + 1)
        assert_nothing_is_lost(result, plan, trunk)
        assert set(result.pfc["port"].tolist()) == {int(plan.port_peer[trunk])}


def assert_obeyed_from_first(result: Result, plan: Plan, port: int, until_ps: int) -> None:
    """As `assert_obeyed`, for a port that is idle until its first packet."""
    node = int(plan.port_node[port])
    local = port - int(plan.node_port_start[node])
    first = result.times(node=node, port=local, kind=R.EVENT_DEPART)[0]
    assert first == FIRST_PS + US
    shifted = result.events.copy()
    shifted["time_ps"] -= first
    moved = Result(**{**vars(result), "events": shifted, "now_ps": result.now_ps - first})
    assert_obeyed(moved, plan, port, until_ps - first)


def test_ports_that_are_paused_send_pause_frames_at_every_phase() -> None:
    """K10, IEEE 802.3 annex 31B: with both ends paused, each sends its XOFF and XON when due.

    Host 0 sends to the slow host 3 behind the right switch, host 2 to the slow host 1 behind the
    left one. Both ends of the cable between the switches pause each other, again and again; the
    second message starts a part of a frame later, so that the frames of one direction meet those of
    the other at every phase. All pause frames arrive when arithmetic says, also those that a
    paused port sends, of which there are some at each phase; and all ends before a pause runs out.
    """
    for phase in PHASES:
        plan = plan_of(trunks(2, 2, [RATE]), **settings(3))
        for host in (1, 3):
            plan = slow_receiver(plan, host, 2 * FRAME_PS)
        # the groups of the hosts have their own room: only the switches pause each other
        result = run(plan, [Message(0, 3, 60 * MTU), Message(2, 1, 60 * MTU, phase)])
        ends = [int(plan.node_port_start[node]) + 2 for node in (4, 5)]
        assert_all_delivered(result)
        n_while_paused = 0
        for port in ends:
            assert assert_pause_frames_arrive(result, plan, port) >= 4
            assert_nothing_is_lost(result, plan, port)
            spans = paused_spans(result, plan, port)
            decided = result.select(node=int(plan.port_node[port]), port=2)
            for row in decided[(decided["kind"] == R.EVENT_PAUSE_TX)
                               | (decided["kind"] == R.EVENT_RESUME_TX)]:  # fmt: skip
                n_while_paused += any(a <= row["time_ps"] < b for a, b in spans)
        assert n_while_paused > 0, phase
        assert result.totals["pause_frames"] == result.totals["resume_frames"]
        assert int(result.rx_ps().max()) < pause_ps(RATE)


def test_a_pause_that_ends_within_the_frame_costs_nothing() -> None:
    """Semantics 3.4: XOFF and XON 1 ps apart hold back only a frame that is due between them.

    The pause frame of XON follows that of XOFF on the link, so it acts 1680 ps later. If XOFF acts
    at the start of a frame, this frame is late by that; in the middle of one, nothing is.
    """
    for phase in (0, FRAME_PS // 2):
        response_ps = (-(2 * US + 84 * 20)) % FRAME_PS + phase
        plan = plan_of(spokes([RATE] * 2), **settings(2, nic_pause_latency_ps=response_ps))
        result = run(slow_receiver(plan, 1, 1), [Message(0, 1, 60 * MTU)])
        acts = result.times(node=0, kind=R.EVENT_PAUSE_RX)[0]
        assert result.times(node=0, kind=R.EVENT_RESUME_RX)[0] == acts + 84 * 20
        due = next(t for t in (FIRST_PS + k * FRAME_PS for k in range(60)) if t >= acts)
        starts = result.times(node=0, kind=R.EVENT_DEPART)
        late = 84 * 20 if phase == 0 else 0
        assert next(s for s in starts if s >= acts) == due + late
