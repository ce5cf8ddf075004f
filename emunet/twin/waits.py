"""Which groups in XOFF wait for which paused ports (docs/semantics.md 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

from emunet.plan.schema import N_CLASS
from emunet.twin.agenda import ARRIVAL, LINK_CONTROL
from emunet.twin.node import World
from emunet.twin.port import Port
from emunet.twin.switch import Switch

Place = tuple[int, int, int]
"""Node, local port and class of what is on its way to there."""


def waits(world: World, switches: Sequence[Switch]) -> list[tuple[int, int, int, int]]:
    """Node, class, in-port and out-port: a group of which nothing can leave, and a paused port
    behind which it has packets.
    """
    if not any(any(map(any, switch.xoff)) for switch in switches):
        return []
    packets, resumes = _under_way(world)
    rows = []
    for switch in switches:
        for port in switch.ports:
            for c in range(N_CLASS):
                if switch.xoff[port.local][c] and _shut(world, port, c, packets, resumes):
                    outs = _behind(switch, port.local, c)
                    rows += [(switch.node, c, port.index, out) for out in outs]
    return sorted(rows)


def _under_way(world: World) -> tuple[set[Place], set[Place]]:
    """Where packets, and where XON frames, are going to arrive."""
    packets, resumes = set(), set()
    for event in world.agenda.heap:
        if event.kind == ARRIVAL:
            packets.add((event.node, event.entity, event.load[1].klass))
        elif event.kind == LINK_CONTROL:
            klass, on = event.load[1]
            if not on:
                resumes.add((event.node, event.entity, klass))
    return packets, resumes


def _shut(world: World, port: Port, c: int, packets: set[Place], resumes: set[Place]) -> bool:
    """Whether the peer of a group in XOFF obeys, and nothing under way changes either."""
    peer = world.ports[port.peer]
    return (
        peer.paused[c]
        and (port.node, port.local, c) not in packets
        and (peer.node, peer.local, c) not in resumes
    )


def _behind(switch: Switch, i: int, c: int) -> list[int]:
    """Paused ports behind which a group's packets are; none if any of them can leave."""
    found = []
    for out in switch.ports:
        sending = out.sending
        if sending is not None and (sending.in_port, sending.packet.klass) == (i, c):
            return []
        if any(held.in_port == i for held in switch.queue[out.local][c]):
            if not out.paused[c]:
                return []
            found.append(out.index)
    return found
