"""Receiver halves of connections (docs/semantics.md 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emunet._core.rows import PACKET_ACK, PACKET_CNP, PACKET_NACK
from emunet.plan.schema import RECOVERY_GBN
from emunet.twin.port import CNP_BYTES, NO_AUX, RESPONSE_BYTES, Packet

if TYPE_CHECKING:
    from emunet.twin.host import Host, HostPort


class Receiver:
    """Receiver half of a connection: one message to this host."""

    def __init__(
        self, host: Host, lane: HostPort, flow: int, src: int, size_bytes: int, klass: int
    ) -> None:
        plan = host.world.plan
        self.host, self.lane = host, lane
        self.flow, self.src, self.size_bytes, self.klass = flow, src, size_bytes, klass
        self.mtu_bytes = int(plan.mtu_bytes)
        self.n = -(-size_bytes // self.mtu_bytes)
        self.key = host.world.draws.entropy_key(host.node, src, flow)
        self.epsn = 0  # lowest PSN not received
        self.received: set[int] = set()  # selective repeat: PSNs at or above epsn
        self.unacked = 0  # accepted since the last ACK
        self.nacked = False  # a NACK for epsn is out
        self.last_cnp_ps: int | None = None
        self.nacks = self.cnps = self.marked = self.out_of_order = self.duplicates = 0

    @property
    def delivered_bytes(self) -> int:
        """Payload received in order."""
        return min(self.epsn * self.mtu_bytes, self.size_bytes)

    def receive(self, data: Packet, now: int) -> None:
        """Handle a data packet."""
        plan = self.host.world.plan
        self.marked += data.marked
        if (
            data.marked
            and "cnp" in self.host.world.congestion.hooks
            and (self.last_cnp_ps is None or now - self.last_cnp_ps >= plan.cnp_interval_ps)
        ):
            self.last_cnp_ps = now
            self.cnps += 1
            self.respond(PACKET_CNP, data, now)
        if plan.recovery == RECOVERY_GBN:
            self.go_back_n(data, now)
        else:
            self.selective_repeat(data, now)

    def go_back_n(self, data: Packet, now: int) -> None:
        """Accept only the expected packet."""
        if data.psn > self.epsn:
            self.count_out_of_order()
            if not self.nacked:
                self.nacked = True
                self.nacks += 1
                self.respond(PACKET_NACK, data, now)
        elif data.psn < self.epsn:
            self.count_duplicate()
            self.respond(PACKET_ACK, data, now)
        else:
            self.epsn += 1
            self.nacked = False
            self.accept(data, now, at_once=False)

    def selective_repeat(self, data: Packet, now: int) -> None:
        """Accept any packet inside the window."""
        psn = data.psn
        if psn < self.epsn or psn in self.received:
            self.count_duplicate()
            self.respond(PACKET_ACK, data, now)
        elif psn < self.epsn + self.host.world.plan.sr_window_packets:
            in_order = psn == self.epsn
            if not in_order:
                self.count_out_of_order()
            self.received.add(psn)
            while self.epsn in self.received:
                self.received.remove(self.epsn)
                self.epsn += 1
            self.accept(data, now, at_once=not in_order)

    def accept(self, data: Packet, now: int, at_once: bool) -> None:
        """Complete the message if this was its last packet, and acknowledge if it is time."""
        self.unacked += 1
        complete = self.epsn == self.n
        if complete:
            self.host.deliver(self, now)
        if at_once or complete or self.unacked >= self.host.world.plan.ack_every:
            self.unacked = 0
            self.respond(PACKET_ACK, data, now)

    def count_out_of_order(self) -> None:
        self.out_of_order += 1
        self.host.world.records.totals["out_of_order_packets"] += 1

    def count_duplicate(self) -> None:
        self.duplicates += 1
        self.host.world.records.totals["duplicate_packets"] += 1

    def respond(self, kind: int, data: Packet, now: int) -> None:
        """Queue a response to a data packet."""
        plan = self.host.world.plan
        cnp = kind == PACKET_CNP
        aux = data.psn - self.epsn
        if aux < 0 or cnp or plan.recovery == RECOVERY_GBN:
            aux = NO_AUX
        self.host.queue_response(
            self.lane,
            Packet(
                kind,
                self.flow,
                self.src,
                plan.cnp_class if cnp else self.klass,
                0 if cnp else self.epsn,
                CNP_BYTES if cnp else RESPONSE_BYTES,
                self.key,
                data.stamp_ns,
                data.marked,
                aux=aux,
            ),
            now,
        )
