"""Sender halves of connections: go-back-N and selective repeat (docs/semantics.md 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emunet._core.rows import PACKET_ACK, PACKET_CNP, PACKET_DATA, PACKET_NACK
from emunet.plan.schema import NO_LIMIT, PATH_SPRAY
from emunet.plugin.slots import CANCEL, N_TIMER, NACK, REORDER, TIMEOUT
from emunet.twin.agenda import TIMER, Key
from emunet.twin.port import NO_AUX, SLOT_BYTES, Packet, data_frame_bytes

if TYPE_CHECKING:
    from emunet.twin.host import Host, HostPort

START, RETRANSMISSION, CONGESTION, RELEASE = 0, 1, 2, 6
"""Numbers of a connection's timers; congestion control has four from CONGESTION on."""


class Sender:
    """Sender half of a connection: one message from this host."""

    def __init__(
        self,
        host: Host,
        lane: HostPort,
        flow: int,
        dst: int,
        size_bytes: int,
        klass: int,
        base_rtt_ps: int,
    ) -> None:
        plan = host.world.plan
        self.host, self.lane = host, lane
        self.flow, self.dst, self.size_bytes, self.klass = flow, dst, size_bytes, klass
        self.base_rtt_ps = base_rtt_ps
        self.mtu_bytes = int(plan.mtu_bytes)
        self.n = -(-size_bytes // self.mtu_bytes)
        self.key = host.world.draws.entropy_key(host.node, dst, flow)
        self.started = False
        self.una = 0  # lowest PSN not acknowledged
        self.next = 0  # next PSN to send for the first time, or again after a rewind
        self.sent_end = 0  # one above the highest PSN ever sent
        self.transmissions = 0
        self.deadline_ps: int | None = None  # of the retransmission timer; None: off
        self.retries = 0
        self.next_send_ps = 0
        self.paced_from_ps = 0  # start of the last data packet
        self.paced_bytes = 0  # with preamble and gap; 0: none sent yet
        self.listed = ""  # "ring", "heap" or nowhere
        self.rate_bps = float(lane.rate_bps)
        self.window_bytes = NO_LIMIT
        self.state = host.world.congestion.new_state()
        self.retransmitted = self.timeouts = self.nacks = self.cnps = 0

    @property
    def line_rate_bps(self) -> int:
        """Rate of the port by which it sends."""
        return self.lane.rate_bps

    # arithmetic

    def payload_bytes(self, psn: int) -> int:
        return min(self.mtu_bytes, self.size_bytes - psn * self.mtu_bytes)

    def bytes_below(self, psn: int) -> int:
        """Payload of all packets before one."""
        return min(psn * self.mtu_bytes, self.size_bytes)

    # what the two recoveries do differently

    @property
    def inflight_bytes(self) -> int:
        raise NotImplementedError

    def has_packet(self) -> bool:
        """Whether there is a packet to send, window aside."""
        raise NotImplementedError

    def take(self) -> int:
        """PSN to send now."""
        raise NotImplementedError

    def acknowledge(self, e: int, aux: int) -> int:
        """Note what a response acknowledges, and give the payload of what is new."""
        raise NotImplementedError

    def find_loss(self, kind: int, now: int) -> None:
        """React to what a response says about lost packets."""
        raise NotImplementedError

    def rewind(self) -> None:
        """Take everything in flight as lost."""
        raise NotImplementedError

    # what they share

    def may_send(self) -> bool:
        return self.started and self.has_packet() and self.inflight_bytes < self.window_bytes

    def start(self, now: int) -> None:
        self.started = True
        self.rate_bps = float(self.line_rate_bps)
        self.next_send_ps = now
        self.hook("start", now)
        self.host.offer(self, now)

    def due_ps(self) -> int:
        """When the packet after the last one may start, by the present rate."""
        if self.rate_bps >= self.line_rate_bps:
            return self.paced_from_ps
        return self.paced_from_ps + int(self.paced_bytes * 8e12 / self.rate_bps)

    def emit(self, now: int) -> Packet:
        """The next data packet, whose transmission starts now."""
        world = self.host.world
        psn = self.take()
        again = psn < self.sent_end
        self.sent_end = max(self.sent_end, psn + 1)
        spray = world.plan.path == PATH_SPRAY
        key = world.draws.spray_key(self.flow, self.transmissions) if spray else self.key
        self.transmissions += 1
        self.retransmitted += again
        world.records.totals["data_packets"] += 1
        world.records.totals["retransmitted_packets"] += again
        if self.deadline_ps is None:
            self.set_deadline(now + world.plan.rto_ps)
        frame_bytes = data_frame_bytes(self.payload_bytes(psn), first=psn == 0)
        self.paced_from_ps, self.paced_bytes = now, frame_bytes + SLOT_BYTES
        self.next_send_ps = self.due_ps()
        return Packet(
            PACKET_DATA,
            self.flow,
            self.dst,
            self.klass,
            psn,
            frame_bytes,
            key,
            now // 1000 % 2**32,
            retransmission=again,
            last=psn == self.n - 1,
        )

    def receive(self, response: Packet, now: int) -> None:
        """Handle an ACK, NACK or CNP."""
        if response.kind == PACKET_CNP:
            self.cnps += 1
            self.hook("cnp", now)
            self.host.offer(self, now)
            return
        self.nacks += response.kind == PACKET_NACK
        acked_bytes = self.acknowledge(response.psn, response.aux)
        if self.una == self.n:
            self.host.finish(self, now)
            return
        if acked_bytes > 0:
            self.retries = 0
            self.set_deadline(
                now + self.host.world.plan.rto_ps if self.inflight_bytes > 0 else None
            )
        self.find_loss(response.kind, now)
        if response.kind == PACKET_ACK:
            rtt_ps = (now // 1000 - response.stamp_ns) % 2**32 * 1000
            self.hook("ack", now, rtt_ps=rtt_ps, acked_bytes=acked_bytes, marked=response.marked)
        self.host.offer(self, now)

    def timer(self, number: int) -> Key:
        """Key of one of the connection's timers."""
        return self.host.node, TIMER, self.flow, number

    def set_deadline(self, deadline_ps: int | None) -> None:
        self.deadline_ps = deadline_ps
        agenda = self.host.world.agenda
        if deadline_ps is None:
            agenda.cancel(self.timer(RETRANSMISSION))
        else:
            agenda.arm(deadline_ps, self.timer(RETRANSMISSION))

    def fire(self, number: int, now: int) -> None:
        """Handle one of the connection's timers."""
        if number == START:
            self.start(now)
        elif number == RETRANSMISSION:
            self.time_out(now)
        else:
            self.hook("timer", now, timer=number - CONGESTION)
            self.host.offer(self, now)

    def time_out(self, now: int) -> None:
        self.deadline_ps = None
        if self.inflight_bytes == 0:
            return
        self.retries += 1
        self.timeouts += 1
        self.host.world.records.totals["timeouts"] += 1
        if self.retries > self.host.world.plan.max_retries:
            self.host.fail(self, now)
            return
        self.rewind()
        self.hook("loss", now, cause=TIMEOUT)
        self.host.offer(self, now)

    def hook(self, name: str, now: int, **context: Any) -> None:
        """Let the policy decide, and set its timers."""
        agenda = self.host.world.agenda
        rate_bps = self.rate_bps
        decisions = self.host.world.congestion.call(name, self, now, **context)
        if self.rate_bps != rate_bps and self.paced_bytes > 0:
            self.next_send_ps = self.due_ps()
            if self.listed == "heap":
                self.lane.remove(self)
        for k, value_ps in enumerate(decisions):
            if value_ps >= 0:
                # Timers of this very instant may have run already, so the next one is the first.
                agenda.arm(now + max(value_ps, 1), self.timer(CONGESTION + k))
            elif value_ps == CANCEL:
                agenda.cancel(self.timer(CONGESTION + k))

    def disarm(self) -> None:
        """Cancel every timer."""
        for number in range(CONGESTION + N_TIMER):
            self.host.world.agenda.cancel(self.timer(number))


class GoBackN(Sender):
    """In flight is [una, next); a loss sends all of it again."""

    @property
    def inflight_bytes(self) -> int:
        return self.bytes_below(self.next) - self.bytes_below(self.una)

    def has_packet(self) -> bool:
        return self.next < self.n

    def take(self) -> int:
        self.next += 1
        return self.next - 1

    def acknowledge(self, e: int, aux: int) -> int:
        if e <= self.una:
            return 0
        acked_bytes = self.bytes_below(e) - self.bytes_below(self.una)
        self.una = e
        self.next = max(self.next, e)
        return acked_bytes

    def find_loss(self, kind: int, now: int) -> None:
        if kind == PACKET_NACK and self.next > self.una:
            self.rewind()
            self.hook("loss", now, cause=NACK)

    def rewind(self) -> None:
        self.next = self.una


class SelectiveRepeat(Sender):
    """In flight is what has been sent and is neither acknowledged nor marked for retransmission."""

    def __init__(
        self,
        host: Host,
        lane: HostPort,
        flow: int,
        dst: int,
        size_bytes: int,
        klass: int,
        base_rtt_ps: int,
    ) -> None:
        super().__init__(host, lane, flow, dst, size_bytes, klass, base_rtt_ps)
        self.window_packets = int(host.world.plan.sr_window_packets)
        self.reorder_packets = int(host.world.plan.sr_reorder_packets)
        self.acknowledged: set[int] = set()  # at or above una
        self.lost: set[int] = set()  # marked for retransmission
        self.flying_bytes = 0
        self.highest = -1  # highest PSN known to have arrived
        self.scan = 0  # first PSN not yet judged by its distance from `highest`

    @property
    def inflight_bytes(self) -> int:
        return self.flying_bytes

    def has_packet(self) -> bool:
        return bool(self.lost) or (
            self.next < self.n and self.next - self.una < self.window_packets
        )

    def take(self) -> int:
        if self.lost:
            psn = min(self.lost)
            self.lost.remove(psn)
        else:
            psn = self.next
            self.next += 1
        self.flying_bytes += self.payload_bytes(psn)
        return psn

    def acknowledge(self, e: int, aux: int) -> int:
        answered = [e + aux] if aux != NO_AUX else []
        acked_bytes = 0
        for psn in [*range(self.una, e), *answered]:
            if psn < self.una or psn in self.acknowledged:
                continue
            acked_bytes += self.payload_bytes(psn)
            self.acknowledged.add(psn)
            if psn in self.lost:
                self.lost.remove(psn)
            else:
                self.flying_bytes -= self.payload_bytes(psn)
        self.una = max(self.una, e)
        self.acknowledged = {psn for psn in self.acknowledged if psn >= self.una}
        self.highest = max(self.highest, e - 1, *answered)
        return acked_bytes

    def find_loss(self, kind: int, now: int) -> None:
        found = False
        while self.scan + self.reorder_packets < self.highest:
            psn = self.scan
            self.scan += 1
            if psn >= self.una and psn not in self.acknowledged and psn not in self.lost:
                self.lost.add(psn)
                self.flying_bytes -= self.payload_bytes(psn)
                found = True
        if found:
            self.hook("loss", now, cause=REORDER)

    def rewind(self) -> None:
        self.lost = {psn for psn in range(self.una, self.next) if psn not in self.acknowledged}
        self.flying_bytes = 0
        self.scan = self.next
