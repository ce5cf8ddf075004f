"""Links that go down, switches that restart, rates that change: to the packet and picosecond."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from support.fabric import BARE, spokes
from support.oracle import FULL, GBPS, MTU, US
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.compile import compile_scenario, compile_topology
from emunet.plan.schema import Plan
from emunet.scenario import Fault, Routing, parse_scenario

pytestmark = pytest.mark.checked

SLOT = FULL + 20
SER = SLOT * 20    # ps at 400 Gb/s
LEAVES = """
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 1, rate: 400Gbps, delay: 1us}
transport: {path: spray, recovery: sr, rto: 50us, max_retries: 1000}
"""
FIRST, LAST, DETECTION, CONVERGENCE = 100 * US, 300 * US, 20 * US, 30 * US
ROUTING = f"routing: {{detection: {DETECTION // US}us, convergence: {CONVERGENCE // US}us}}\n"
OUT = ROUTING + "faults: [{from: leaf0, to: spine1, start: 100us, end: 300us}]\n"
LEAF0, LEAF1, SPINE1 = 2, 3, 5


def plan_of(text: str) -> Plan:
    """Plan of a scenario."""
    return compile_scenario(parse_scenario(text)).plan


def port_to(plan: Plan, node: int, peer: int) -> int:
    """Local index of the port of a node that leads to another."""
    ports = np.arange(plan.node_port_start[node], plan.node_port_start[node + 1])
    return int(np.flatnonzero(plan.port_node[plan.port_peer[ports]] == peer)[0])


def departures(plan: Plan, result: Result, node: int, peer: int) -> np.ndarray:
    """When data packets left for a node."""
    port = port_to(plan, node, peer)
    return result.select(kind=R.EVENT_DEPART, node=node, port=port,
                         packet=R.PACKET_DATA)["time_ps"]


def within(times: np.ndarray, begin: int, end: int) -> int:
    """How many times are in [begin, end)."""
    return int(((times >= begin) & (times < end)).sum())


def test_lost_is_what_is_on_the_link() -> None:
    """Semantics 1.3: a frame is on its link from s to s + ser + delay; those that meet the outage
    are lost, no others, whatever the default detection of 1 ms has not noticed.
    """
    fault = Fault(**{"from": "switch0", "to": "host1", "start": "10us", "end": "12us"})
    plan = compile_topology(
        spokes([400 * GBPS] * 2), BARE, faults=[fault], routing=Routing(), recovery="sr",
        rto_ps=50 * US,
    ).plan  # fmt: skip
    result = run(plan, [Message(0, 1, 1000 * MTU)])
    sent = departures(plan, result, 2, 1)
    lost = result.select(kind=R.EVENT_LOST, node=2, packet=R.PACKET_DATA)["time_ps"]
    exposed = sent[(sent < 12 * US) & (sent + SER + US > 10 * US)]
    assert lost.tolist() == exposed.tolist()
    # an interval of 3 us and one frame, less than a frame more or less
    assert abs(len(lost) - (3 * US + SER) / SER) < 1
    assert result.ports["down_packets"][3] == len(lost)
    assert result.ports["down_bytes"][3] == len(lost) * FULL
    # the way back is down too: ACKs of host 1
    assert result.totals["down_packets"] == len(lost) + result.ports["down_packets"][1]
    assert result.ports["down_packets"][1] > 0
    assert result.totals["lost_packets"] == 0 and result.totals["flows_finished"] == 1


def test_each_side_reroutes_when_it_knows() -> None:
    """docs/faults.md: the leaf at the dead link stops using it after `detection`, the far leaf
    after `detection + convergence`; what comes to the spine in between has no way on.
    """
    plan = plan_of(LEAVES + OUT)
    result = run(plan, [Message(0, 1, 10_000 * MTU), Message(1, 0, 10_000 * MTU)])
    near, far = departures(plan, result, LEAF0, SPINE1), departures(plan, result, LEAF1, SPINE1)
    known, all_know = FIRST + DETECTION, FIRST + DETECTION + CONVERGENCE
    back, all_back = LAST + DETECTION, LAST + DETECTION + CONVERGENCE
    assert within(near, FIRST, known) > 50 and within(near, known, back) == 0
    assert within(far, known, all_know) > 50 and within(far, all_know, all_back) == 0
    assert within(near, back, 10**12) > 50
    assert within(far, all_back, 10**12) > 50
    # of the far leaf's packets for the dead link, those that reach the spine before it knows are
    # lost on the link or flushed, the others have no way on
    flight = 2 * US + 600_000
    stranded = within(far, known - flight + 2 * US, all_know)
    assert abs(result.totals["unrouted_packets"] - stranded) < 2 * US / SER
    assert result.ports["unrouted_packets"].sum() == result.totals["unrouted_packets"]
    assert result.totals["flows_finished"] == 2


def test_one_way_out_of_order_is_avoided_both_ways() -> None:
    """Semantics 3.6: with one direction down nothing is lost on the other, yet both ends and all
    nodes take the link out of use.
    """
    plan = plan_of(LEAVES + OUT.replace("end: 300us", "one_way: true"))
    result = run(plan, [Message(0, 1, 10_000 * MTU), Message(1, 0, 10_000 * MTU)])
    assert result.select(kind=R.EVENT_LOST, node=SPINE1).size == 0
    assert result.select(kind=R.EVENT_LOST, node=LEAF0).size > 50
    for node in (LEAF0, LEAF1):
        later = FIRST + DETECTION + CONVERGENCE
        assert within(departures(plan, result, node, SPINE1), later, 10**12) == 0
    assert result.totals["flows_finished"] == 2


def test_after_repair_all_is_as_before() -> None:
    """Equal links: messages that start after the last node knows take as long as without faults."""
    messages = [Message(0, 1, 100 * MTU, 500 * US), Message(1, 0, 50 * MTU, 501 * US)]
    whole, repaired = (run(plan_of(LEAVES + text), messages) for text in ("", OUT))
    assert whole.rx_ps().tolist() == repaired.rx_ps().tolist()
    assert whole.events.tobytes() == repaired.events.tobytes()


def test_a_short_outage_is_never_known() -> None:
    """docs/faults.md: one that lasts less than `detection` changes no route, one as long does."""
    for lasts, changes in ((19, 0), (20, 1)):
        plan = plan_of(LEAVES + OUT.replace("end: 300us", f"end: {100 + lasts}us"))
        assert (len(plan.change_ps) > 0) == changes
        assert len(plan.down_from_ps) == 2


def test_a_restart_loses_what_the_switch_holds() -> None:
    """Arrivals less departures before the restart are what it holds, and what is flushed; the rest
    is lost on its links, and everything is sent again.
    """
    at = 40 * US
    fault = Fault(**{"node": "switch0", "start": "40us", "end": "60us"})
    plan = compile_topology(
        spokes([400 * GBPS] * 4), BARE, faults=[fault], routing=Routing(detection="1us"),
        recovery="sr", rto_ps=100 * US, lossless_classes=(),
    ).plan  # fmt: skip
    messages = [Message(h, 3, 1000 * MTU) for h in range(3)]
    result = run(plan, messages)
    came = result.select(kind=R.EVENT_ARRIVE, node=4)["time_ps"]
    left = result.select(kind=R.EVENT_DEPART, node=4)["time_ps"]
    assert result.totals["flushed_packets"] == (came <= at - 1).sum() - (left < at).sum()
    assert result.totals["flushed_packets"] > 100
    assert within(left, at, 60 * US) == 0
    assert result.totals["flows_finished"] == 3


def test_a_flush_frees_the_buffer() -> None:
    """Semantics 3.6: what is dropped at a dead port is released from its groups: their senders,
    paused until then, are resumed at that instant.
    """
    fault = Fault(**{"from": "switch0", "to": "host2", "start": "20us", "end": "30us"})
    plan = compile_topology(
        spokes([400 * GBPS] * 3), BARE, faults=[fault], routing=Routing(detection="5us"),
        buffer_bytes=1_500_000, recovery="sr", rto_ps=100 * US,
    ).plan  # fmt: skip
    result = run(plan, [Message(h, 2, 1000 * MTU) for h in range(2)])
    xon = result.pfc[result.pfc["on"] == 0]["time_ps"]
    assert within(xon, 25 * US, 25 * US + 1) == 2
    assert within(xon, 24 * US, 25 * US) < 2
    assert result.totals["flushed_packets"] > 20
    assert result.totals["dropped_packets"] == 0 and result.totals["flows_finished"] == 2


@pytest.mark.parametrize("at_us", [0, 7, 33])
def test_a_port_that_slows_down(at_us: int) -> None:
    """Closed form: packets that start before the change take SLOT * 20 ps, the others four times as
    long; the last one arrives a serialisation and two cables later.
    """
    fault = Fault(**{"from": "host0", "to": "switch0", "rate": "100Gbps", "start": at_us * US})
    plan = compile_topology(
        spokes([400 * GBPS] * 2), BARE, faults=[fault], routing=Routing()
    ).plan
    n = 1000
    result = run(plan, [Message(0, 1, n * MTU)])
    first = (FULL + 16 + 20) * 20    # with RETH
    if at_us == 0:
        fast, sent = 0, 4 * (first + (n - 1) * SER)
    else:
        fast = 1 + -(-(at_us * US - first) // SER)
        sent = first + (fast - 1) * SER + (n - fast) * 4 * SER
    assert result.flow_ps(0) == sent + US + SER + US
    back = Fault(**{"from": "host0", "to": "switch0", "rate": "100Gbps", "start": at_us * US,
                    "end": (at_us + 50) * US})
    plan = compile_topology(
        spokes([400 * GBPS] * 2), BARE, faults=[back], routing=Routing()
    ).plan
    again = run(plan, [Message(0, 1, n * MTU)])
    # 50 us at a quarter of the rate cost three quarters of them, to a slow packet
    whole = first + (n - 1) * SER + US + SER + US
    assert abs(again.flow_ps(0) - whole - 0.75 * 50 * US) < 4 * SER


DUAL = """
topology:
  kind: explicit
  hosts: [a, b]
  switches: [s0, s1, s2]
  links:
    - {a: a, b: s0, rate: 100Gbps, delay: 1us}
    - {a: a, b: s1, rate: 100Gbps, delay: 1us}
    - {a: s0, b: s2, rate: 100Gbps, delay: 1us}
    - {a: s1, b: s2, rate: 100Gbps, delay: 1us}
    - {a: s2, b: b, rate: 100Gbps, delay: 1us}
transport: {recovery: sr, rto: 50us, max_retries: 1000}
"""


def test_a_host_with_two_cables_moves_its_connections() -> None:
    """HPN (SIGCOMM 2024): a NIC with two ports survives one; the connections of the dead port go to
    the other after `detection`, and back when it works again.
    """
    text = DUAL + ROUTING + "faults: [{from: a, to: s0, start: 100us, end: 300us}]\n"
    plan = plan_of(text)
    result = run(plan, [Message(0, 1, 300 * MTU) for _ in range(8)])
    ways = [departures(plan, result, 0, peer) for peer in (2, 3)]
    flows = [set(result.select(kind=R.EVENT_DEPART, node=0, port=p,
                               packet=R.PACKET_DATA)["flow"].tolist()) for p in (0, 1)]
    known, back = FIRST + DETECTION, LAST + DETECTION
    assert within(ways[0], known, back) == 0 < within(ways[0], FIRST, known)
    assert within(ways[1], known, back) > 100
    assert flows[0] and flows[0] < flows[1] and len(flows[1]) == 8
    assert result.totals["flows_finished"] == 8


def test_drawn_times_are_exponential() -> None:
    """Renewal theory: in a time T there are T / (up + down) outages, with variance of at most that
    number, and the link is down for down / (up + down) of the time; each link has its own.
    """
    text = LEAVES + ROUTING + (
        "faults: [{from: leaf*, to: spine*, mean_up: 300us, mean_down: 100us, end: 2s}]\n"
    )
    plan = plan_of(text)
    n = np.diff(plan.port_down_start)
    ports = np.flatnonzero(n)
    assert len(ports) == 8    # four links, both ways
    begin, end = plan.down_from_ps, plan.down_until_ps
    spans = []
    for port in ports:
        first, last = plan.port_down_start[port : port + 2]
        expected = 2_000_000 / 400
        assert abs(n[port] - expected) < 4 * sqrt(expected)
        share = (end[first:last] - begin[first:last]).sum() / (2_000_000 * US)
        # the mean of n exponential times has a relative error of 1 / sqrt(n), twice
        assert abs(share - 0.25) < 4 * 0.25 * sqrt(2 / expected)
        spans.append(begin[first:last].tobytes())
    assert len(set(spans)) == 4
    assert plan_of(text).digest == plan.digest
    assert plan_of("seed: 2\n" + text).digest != plan.digest
