"""Hosts: which packet a NIC sends next, and the life of connections (docs/semantics.md 4)."""

from __future__ import annotations

import heapq
from collections import deque

from emunet._core.rows import (
    EVENT_ARRIVE,
    FLOW_FAILED,
    FLOW_RX_DONE,
    FLOW_TX_DONE,
    PACKET_ACK,
    PACKET_CNP,
    PACKET_DATA,
    PACKET_NACK,
)
from emunet.plan.schema import N_CLASS, RECOVERY_GBN, Plan
from emunet.twin.agenda import DEPARTURE, IDLE, TIMER
from emunet.twin.node import CHANGE, N_PAUSE_TIMER, Node, World
from emunet.twin.port import Packet, Port
from emunet.twin.receiver import Receiver
from emunet.twin.sender import RELEASE, START, GoBackN, SelectiveRepeat, Sender

RESPONSE_TOTALS = {
    PACKET_ACK: "ack_packets",
    PACKET_NACK: "nack_packets",
    PACKET_CNP: "cnp_packets",
}


class HostPort(Port):
    """A port of a NIC and what waits for it."""

    def __init__(self, plan: Plan, index: int) -> None:
        super().__init__(plan, index)
        self.responses: list[deque[Packet]] = [deque() for _ in range(N_CLASS)]
        self.rings: list[deque[Sender]] = [deque() for _ in range(N_CLASS)]
        self.pacing: list[tuple[int, int, Sender]] = []  # heap by (next_send, connection)

    def insert(self, sender: Sender, limit_ps: int) -> None:
        """Put a connection at the end of its ring if its time is near, else into the heap."""
        if sender.next_send_ps <= limit_ps:
            sender.listed = "ring"
            self.rings[sender.klass].append(sender)
        else:
            sender.listed = "heap"
            heapq.heappush(self.pacing, (sender.next_send_ps, sender.flow, sender))

    def wake(self, now: int) -> None:
        """Move connections whose time has come from the pacing heap to their rings."""
        while self.pacing and self.pacing[0][0] <= now:
            sender = heapq.heappop(self.pacing)[2]
            sender.listed = "ring"
            self.rings[sender.klass].append(sender)

    def remove(self, sender: Sender) -> None:
        """Forget a connection wherever it waits."""
        if sender.listed == "ring":
            self.rings[sender.klass].remove(sender)
        elif sender.listed == "heap":
            self.pacing = [item for item in self.pacing if item[2] is not sender]
            heapq.heapify(self.pacing)
        sender.listed = ""

    def next_sender(self, klass: int, now: int) -> Sender | None:
        """Take the first of a ring that may still send; those before it leave the ring.

        One whose rate fell while it waited goes to the pacing heap.
        """
        ring = self.rings[klass]
        while ring:
            sender = ring.popleft()
            sender.listed = ""
            if sender.may_send():
                if sender.next_send_ps <= now:
                    return sender
                self.insert(sender, now)
        return None


class Host(Node):
    """A host with its connections."""

    ports: list[HostPort]  # type: ignore[assignment]

    def __init__(self, world: World, node: int) -> None:
        super().__init__(world, node, HostPort)
        self.senders: dict[int, Sender] = {}
        self.receivers: dict[int, Receiver] = {}
        self.failed: list[Sender] = []
        self.leftovers: dict[int, int] = {}  # bytes that receivers had when they were forgotten

    # connections

    def open_sender(
        self, flow: int, dst: int, size_bytes: int, start_ps: int, klass: int, base_rtt_ps: int
    ) -> None:
        """Accept a message for sending."""
        recovery = GoBackN if self.world.plan.recovery == RECOVERY_GBN else SelectiveRepeat
        key = self.world.draws.entropy_key(self.node, dst, flow)
        lane = self.ports[max(0, self.route(dst, key))]
        self.senders[flow] = recovery(self, lane, flow, dst, size_bytes, klass, base_rtt_ps)
        self.world.agenda.arm(start_ps, self.senders[flow].timer(START))

    def open_receiver(self, flow: int, src: int, size_bytes: int, klass: int) -> None:
        """Expect a message."""
        key = self.world.draws.entropy_key(self.node, src, flow)
        self.receivers[flow] = Receiver(
            self, self.ports[max(0, self.route(src, key))], flow, src, size_bytes, klass
        )

    def deliver(self, receiver: Receiver, now: int) -> None:
        """The last byte of a message is here."""
        r = receiver
        self.world.records.totals["flows_delivered"] += 1
        self.world.records.flows.append(
            (
                now,
                r.flow,
                self.node,
                FLOW_RX_DONE,
                0,
                0,
                r.nacks,
                r.cnps,
                r.marked,
                r.out_of_order,
                r.duplicates,
                0,
            )
        )

    def finish(self, sender: Sender, now: int) -> None:
        """The last acknowledgement is here."""
        self.world.records.totals["flows_finished"] += 1
        self._close(sender, FLOW_TX_DONE, now)

    def fail(self, sender: Sender, now: int) -> None:
        """Give a message up."""
        self.world.records.totals["flows_failed"] += 1
        self.failed.append(sender)
        self._close(sender, FLOW_FAILED, now)

    def _close(self, sender: Sender, kind: int, now: int) -> None:
        s = sender
        self.world.records.flows.append(
            (now, s.flow, self.node, kind, s.retransmitted, s.timeouts, s.nacks, s.cnps, 0, 0, 0, 0)
        )
        s.disarm()
        s.lane.remove(s)
        del self.senders[s.flow]
        self.plan_departure(s.lane, now)
        release = (s.dst, TIMER, s.flow, RELEASE)
        self.world.agenda.arm(now + self.world.plan.linger_ps, release, effort=IDLE)

    def rerouted(self, now: int) -> None:
        """Connections that choose another port now go there, and so do their responses."""
        for flow in sorted(self.senders):
            sender = self.senders[flow]
            lane = self.ports[max(0, self.route(sender.dst, sender.key))]
            if lane is not sender.lane:
                sender.lane.remove(sender)
                self.plan_departure(sender.lane, now)
                sender.lane = lane
                self.offer(sender, now)
        for receiver in self.receivers.values():
            receiver.lane = self.ports[max(0, self.route(receiver.src, receiver.key))]

    # events

    def receive(self, port: Port, packet: Packet, now: int) -> None:
        totals = self.world.records.totals
        totals["delivered_packets"] += 1
        self.world.records.packet_event(now, self.node, port.local, EVENT_ARRIVE, packet, 0)
        half = (self.receivers if packet.kind == PACKET_DATA else self.senders).get(packet.flow)
        if half is None:
            totals["stale_packets"] += 1
        else:
            half.receive(packet, now)

    def fire(self, entity: int, number: int, now: int) -> None:
        if entity < 0:
            self.unpause(self.ports[entity], number // N_PAUSE_TIMER, now)
        elif entity == CHANGE:
            self.change(number, now)
        elif number == RELEASE:
            self.leftovers[entity] = self.receivers.pop(entity).delivered_bytes
        else:
            self.world.moved_ps = now
            self.senders[entity].fire(number, now)

    def depart(self, port: Port, now: int) -> None:
        lane = self.ports[port.local]
        if now >= lane.busy_until_ps:
            lane.wake(now)
            for klass in reversed(range(N_CLASS)):
                if not lane.paused[klass] and self._serve(lane, klass, now):
                    break
        self.plan_departure(lane, now)

    def _serve(self, lane: HostPort, klass: int, now: int) -> bool:
        """Send one packet of a class, responses first; false if it has none."""
        if lane.responses[klass]:
            self.world.records.totals["queued_packets"] -= 1
            self.transmit(lane, lane.responses[klass].popleft(), now, 0)
            return True
        sender = lane.next_sender(klass, now)
        if sender is None:
            return False
        self.transmit(lane, sender.emit(now), now, 0)
        if sender.may_send():
            lane.insert(sender, lane.busy_until_ps)
        return True

    # what waits for a port

    def queue_response(self, lane: HostPort, response: Packet, now: int) -> None:
        """Let a response wait for its turn."""
        self.world.records.totals[RESPONSE_TOTALS[response.kind]] += 1
        self.world.records.totals["queued_packets"] += 1
        lane.responses[response.klass].append(response)
        self.plan_departure(lane, now)

    def offer(self, sender: Sender, now: int) -> None:
        """List a connection that has become able to send."""
        lane = sender.lane
        if not sender.listed and sender.may_send():
            lane.insert(sender, max(now, lane.busy_until_ps))
        self.plan_departure(lane, now)

    def plan_departure(self, port: Port, now: int) -> None:
        lane = self.ports[port.local]
        idle_ps = max(now, lane.busy_until_ps)
        if any(not lane.paused[c] and (lane.responses[c] or lane.rings[c]) for c in range(N_CLASS)):
            self.arm_departure(lane, idle_ps)
        elif lane.pacing:
            self.arm_departure(lane, max(idle_ps, lane.pacing[0][0]))
        else:
            self.world.agenda.cancel((self.node, DEPARTURE, lane.local, 0))
