"""Known diseases of lossless Ethernet and hashing show up as they do in networks, to the number."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.fabric import BARE, altered, plan_of, spokes, trunks
from support.oracle import FIRST, FULL, GAP, GBPS, MTU, US
from support.pauses import paused_spans
from support.run import Message, run

from emunet._core import rows as R
from emunet.plan.schema import Plan
from emunet.topology import Topology
from emunet.topology.explicit import Cable, explicit
from emunet.topology.fat_tree import fat_tree

pytestmark = pytest.mark.checked

SLOT_PS = (FULL + GAP) * 20
"""A full packet at 400 Gb/s."""

POOL, HEADROOM = 200_000, 150_000


def pool(n_port: int) -> dict[str, int | float]:
    """Alpha 1: alone, a group sends XOFF when it holds more than half of the pool."""
    return {
        "buffer_bytes": POOL + n_port * HEADROOM, "headroom_bytes": HEADROOM, "alpha": 1.0,
    }  # fmt: skip


def slowed(plan: Plan, host: int, rate_bps: int) -> Plan:
    """A slow link from its switch to a host."""
    rates = plan.port_rate_bps.copy()
    rates[int(plan.port_peer[plan.node_port_start[host]])] = rate_bps
    return altered(plan, port_rate_bps=rates)


@pytest.mark.parametrize("start_us", [6, 9, 12, 20, 40])
def test_a_victim_waits_behind_a_pause_that_is_not_its_own(start_us: int) -> None:
    """IEEE 802.1Qbb's known weakness: head-of-line blocking. A flow to an idle host waits as well.

    Host 0 sends to the slow host 2; the cable between the switches, of the hosts' rate, gets
    paused. A message of one packet goes from host 1 to host 3, whose link nobody else uses. At the
    left switch it waits for as long as the port is paused meanwhile, and for what is sent before it
    (frames on the way to host 2), and nowhere else: its completion time is that of an idle network
    and this. Without flow control on the cable it waits at most for what is queued in front.
    """
    start = start_us * US
    plan = slowed(plan_of(trunks(2, 2, [400 * GBPS]), **pool(3)), 2, 25 * GBPS)
    victim = Message(1, 3, MTU, start)
    alone = run(plan, [victim]).flow_ps(0) - start
    result = run(plan, [Message(0, 2, 200 * MTU), victim])
    trunk = int(plan.node_port_start[4]) + 2
    passing = result.select(node=4, flow=1)
    arrived = int(passing[passing["kind"] == R.EVENT_ARRIVE]["time_ps"][0])
    left = int(passing[passing["kind"] == R.EVENT_DEPART]["time_ps"][0])
    paused = sum(max(0, min(b, left) - max(a, arrived))
                 for a, b in paused_spans(result, plan, trunk))  # fmt: skip
    ahead = result.select(node=4, port=2, kind=R.EVENT_DEPART, flow=0)["time_ps"]
    # a frame that had begun before is counted by its end, and may reach into the pause
    begun = int(((ahead > arrived - SLOT_PS) & (ahead <= arrived)).sum())
    between = int(((ahead > arrived) & (ahead < left)).sum())
    waited = left - arrived
    assert paused + between * SLOT_PS <= waited + 2 * SLOT_PS
    assert waited <= paused + (between + begun + 1) * SLOT_PS
    assert result.flow_ps(1) - start == alone + waited
    assert result.totals["dropped_packets"] == 0
    assert paused > 100 * SLOT_PS
    open_cable = slowed(
        plan_of(trunks(2, 2, [400 * GBPS]), BARE, buffer_bytes=10**9, alpha=8.0), 2, 25 * GBPS
    )
    free = run(open_cable, [Message(0, 2, 200 * MTU), victim])
    assert free.totals["pause_frames"] == 0
    assert free.flow_ps(1) - start <= alone + 2 * SLOT_PS


def test_a_victim_gets_no_more_than_a_flow_of_the_hot_port() -> None:
    """Head-of-line blocking, long flows: in a paused cable, all its flows get the same rate.

    Two hosts send to a receiver of 100G and a third to an idle one, all over one cable of 400G. It
    is paused so that 100G come out for the receiver. Its packets are of the three hosts in turn,
    for the left switch fills up and pauses all three alike. So the victim gets what each of the two
    gets: 50G of its 400, and its message takes 8 times as long as alone. Without pauses the cable
    is shared by three hosts of its own rate: 3 times. Within 15 and 5 %, as pauses let packets go
    in bursts as long as half the pool, a hundredth of the message.
    """
    n = 1500
    plan = slowed(plan_of(trunks(3, 2, [400 * GBPS]), **pool(4)), 3, 100 * GBPS)
    messages = [Message(0, 3, 4 * n * MTU), Message(1, 3, 4 * n * MTU), Message(2, 4, n * MTU)]
    alone = run(plan, [Message(2, 4, n * MTU)], log=False).flow_ps(0)
    result = run(plan, messages, until_ps=16 * alone, expect=R.UNTIL, log=False)
    assert result.totals["dropped_packets"] == 0
    assert 8 * 0.85 <= result.flow_ps(2) / alone <= 8 * 1.15
    deep = slowed(
        plan_of(trunks(3, 2, [400 * GBPS]), BARE, buffer_bytes=10**9, alpha=8.0), 3, 100 * GBPS
    )
    free = run(deep, messages, until_ps=16 * alone, expect=R.UNTIL, log=False)
    assert free.totals["pause_frames"] == 0
    assert 3 * 0.95 <= free.flow_ps(2) / alone <= 3 * 1.05


def line_of_switches(n_switch: int) -> Topology:
    """A host at each end of a line of switches."""
    nodes = [0, *range(2, 2 + n_switch), 1]
    cables = [Cable(a, b, 400 * GBPS, US) for a, b in pairwise(nodes)]
    return explicit(["a", "b"], [f"s{i}" for i in range(n_switch)], cables)


def test_pauses_spread_hop_by_hop_towards_the_sender() -> None:
    """Congestion spreading: a switch whose way out is paused fills up and pauses the one before it.

    Five switches in a line, a sender of 400G, a receiver of 10 Gb/s. With alpha 1 a group alone in
    its pool sends XOFF when n packets exceed half of it: n = 25. The last switch is fed at 400G and
    lets out one packet in 40 slots. Any other passes packets on as they come, until the pause from
    the next one acts; then it holds one packet in transmission or none, and gets one more in each
    slot: XOFF follows between n - 1 and n + 1 slots later. The pause frame takes 1680 ps, and 1 us.
    """
    n_switch = 5
    plan = slowed(plan_of(line_of_switches(n_switch), **pool(2)), 1, 10 * GBPS)
    n_packet = 60 * n_switch + 200
    result = run(plan, [Message(0, 1, n_packet * MTU)], until_ps=60 * US, expect=R.UNTIL)
    n = POOL // 2 // FULL + 1
    first = {}
    for row in result.pfc[result.pfc["on"] == 1]:
        first.setdefault(int(plan.port_node[row["port"]]) - 2, int(row["time_ps"]))
    assert sorted(first) == list(range(n_switch))
    last = n_switch - 1
    transit = (FIRST + GAP) * 20 * n_switch + n_switch * US
    left_out = n // 40 + 1
    assert transit + (n - 2) * SLOT_PS <= first[last] <= transit + (n + left_out) * SLOT_PS
    for hop in range(last - 1, -1, -1):
        acts = first[hop + 1] + 84 * 20 + US
        assert acts + (n - 1) * SLOT_PS <= first[hop] <= acts + (n + 1) * SLOT_PS, hop
    # all the way to the host, which stops
    held = int(result.ports["paused_ps"][0])
    assert held == result.now_ps - (first[0] + 84 * 20 + US)
    assert result.totals["dropped_packets"] == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tiers_hash_each_with_a_salt_of_its_own(seed: int) -> None:
    """Hash polarisation: with one salt on all switches the second tier would use 1 path in 4.

    In a fat tree of eight ports a ToR and an aggregation switch choose among four ports each, by
    the same key and destination (semantics 1.2). With one salt both would choose the same number,
    and only the cores 0, 5, 10 and 15 of 16 carry traffic. Each node of emunet has a salt of its
    own (there is no way to set one), so all 16 carry, evenly within five standard deviations.
    """
    n = 2000
    plan = plan_of(fat_tree(8, 400 * GBPS, US), BARE, seed=seed, buffer_bytes=10**9, alpha=8.0)
    messages = [Message(i % 16, 16 + i * 7 % 112, 64, i * US // 10) for i in range(n)]
    result = run(plan, messages)
    core0 = 128 + 32 + 32
    rows = result.select(kind=R.EVENT_DEPART, packet=R.PACKET_DATA)
    at_core = rows[rows["node"] >= core0]["node"] - core0
    carried = np.bincount(at_core, minlength=16)
    assert len(carried) == 16 and int(carried.sum()) == n
    assert abs(carried - n / 16).max() <= 5 * (n / 16) ** 0.5


def test_an_incast_ends_when_the_last_hop_has_carried_it_whatever_the_paths() -> None:
    """Incast: no load balancing helps where one link carries all; the floor is met by both.

    k senders on other leaves, one receiver: all has arrived when its link has carried k messages
    without a gap, counted from the first packet. Hash and spraying give the same time to within a
    packet for each sender (who comes first, and whose packet is the last).
    """
    k, size = 24, 100 * MTU
    ends = []
    for path in ("ecmp", "spray"):
        knobs = {"path": path, "recovery": "sr", "sr_reorder_packets": 1023}
        plan = plan_of(fat_tree(4, 100 * GBPS, US), BARE, buffer_bytes=10**9, alpha=8.0, **knobs)
        # hosts 4 .. 15 send two messages each to host 0
        result = run(plan, [Message(4 + i % 12, 0, size, i) for i in range(k)], log=False)
        ends.append(int(result.rx_ps().max()))
    slot = (FULL + GAP) * 80
    path_ps = 6 * US + 6 * slot
    floor = k * (100 * slot + 16 * 80) + path_ps
    for end in ends:
        assert floor - 2 * slot <= end <= floor + k * slot


def test_a_star_has_no_victim() -> None:
    """Head-of-line blocking needs a shared queue: at one switch with output queues there is none.

    A hot receiver pauses its two senders, and a third pair of hosts at the same switch goes on.
    """
    plan = slowed(plan_of(spokes([400 * GBPS] * 5), **pool(5)), 2, 25 * GBPS)
    victim = Message(3, 4, 100 * MTU, 10 * US)
    alone = run(plan, [victim], log=False).flow_ps(0)
    hot = [Message(h, 2, 200 * MTU) for h in (0, 1)]
    result = run(plan, [*hot, victim], log=False)
    assert result.totals["pause_frames"] > 2
    assert result.flow_ps(2) == alone
