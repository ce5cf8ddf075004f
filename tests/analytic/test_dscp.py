"""What a switch makes of a packet's DSCP decides whether it is paused, dropped, and before whom it
goes."""

from __future__ import annotations

import pytest
from support.fabric import BARE, spokes
from support.oracle import GBPS, MTU, US
from support.run import Message, Result, run

from emunet.plan.compile import compile_scenario, compile_topology
from emunet.plan.schema import Plan
from emunet.scenario import parse_scenario

pytestmark = pytest.mark.checked

STAR = "topology: {kind: star, hosts: 3, rate: 100Gbps, delay: 1us}\n"


def class_of(text: str) -> list[int]:
    """The map of the first switch of a scenario."""
    plan = compile_scenario(parse_scenario(STAR + text)).plan
    return plan.switch_class_of[0].tolist()


def test_the_defaults_change_nothing() -> None:
    """RFC 2474: a class selector's class is its upper three bits; 26 and 48, the NICs' defaults for
    RoCE and CNPs, give 3 and 6 likewise.
    """
    assert class_of("") == list(range(8))
    assert parse_scenario(STAR).transport.dscp_of(3) == 26


def test_the_two_maps_are_joined() -> None:
    """Claim: class of the host -> DSCP (`transport.dscp`) -> class of the switch (`switch.dscp`),
    for groups of switches too."""
    assert class_of("switch: {dscp: {26: 5}}\n") == [0, 1, 2, 5, 4, 5, 6, 7]
    assert class_of("transport: {dscp: {3: 40, 1: 63}}\n") == [0, 7, 2, 5, 4, 5, 6, 7]
    both = "transport: {dscp: {3: 40}}\nswitches: [{where: switch*, dscp: {40: 2}}]\n"
    assert class_of(both) == [0, 1, 2, 2, 4, 2, 6, 7]


def incast(classes: dict[int, int], lossless: tuple[int, ...] = (3,)) -> tuple[Plan, Result]:
    """Two hosts send class 3 to a third through a switch with a small buffer."""
    class_map = tuple(classes.get(c, c) for c in range(8))
    plan = compile_topology(
        spokes([100 * GBPS] * 3), BARE, buffer_bytes=700_000, class_of=class_map,
        lossless_classes=lossless, rto_ps=50 * US, recovery="sr", max_retries=1000,
    ).plan  # fmt: skip
    return plan, run(plan, [Message(h, 2, 500 * MTU) for h in (0, 1)])


def test_a_forgotten_map_makes_a_lossless_class_lossy() -> None:
    """The misconfiguration that operators fear: with RoCE's DSCP in a class without PFC packets are
    dropped and nobody is paused; with the right map nobody drops.
    """
    _, right = incast({})
    _, wrong = incast({3: 0})
    assert right.totals["dropped_packets"] == 0 < right.totals["pause_frames"]
    assert wrong.totals["dropped_packets"] > 0 == wrong.totals["pause_frames"]
    assert wrong.ports["dropped_lossless_packets"].sum() == 0


def test_a_pause_of_the_wrong_class_stops_nobody() -> None:
    """802.1Qbb pauses a class by its number: kept in class 5 of the switch, packets of class 3 of
    the host go on after XOFF, fill the headroom and are lost in a lossless class.
    """
    _, wrong = incast({3: 5}, lossless=(5,))
    assert wrong.totals["pause_frames"] > 0
    assert wrong.totals["dropped_lossless_packets"] > 0
    assert set(wrong.pfc["klass"].tolist()) == {5}
    # its number is that of no class in which the hosts send
    assert wrong.ports["pause_rx"].sum() > 0
