"""Switches: shared buffer, PFC, ECN and service of classes (docs/semantics.md 3)."""

from __future__ import annotations

from collections import deque

import numpy as np

from emunet._core.rows import (
    EVENT_ARRIVE,
    EVENT_DROP,
    EVENT_MARK,
    EVENT_PAUSE_RX,
    EVENT_PAUSE_TX,
    EVENT_RESUME_TX,
    PACKET_DATA,
    PFC_RESTORED,
    PFC_STORM,
    PG_HEADROOM,
    PG_SHARED,
    POOL_HEADROOM,
    POOL_SHARED,
    QUEUE,
)
from emunet.plan.schema import MARK_WHEN, N_CLASS
from emunet.twin.agenda import CONTROL, DEPARTURE, IDLE, SAMPLE
from emunet.twin.node import (
    CHANGE,
    EXPIRY,
    N_PAUSE_TIMER,
    REFRESH,
    WATCHDOG,
    Node,
    World,
)
from emunet.twin.port import SLOT_BYTES, Held, Packet, Port
from emunet.twin.watermark import PERIODIC, SINCE_START, Level, Schedule

DEQUEUE, ENQUEUE, SOJOURN = range(len(MARK_WHEN))
"""When a port marks: `port_ecn_when`."""

QUEUE_SAMPLE, MEASURE, CLEAR = range(3)
"""Numbers of the events of kind SAMPLE."""


def _limits(static_bytes: np.ndarray, alpha: np.ndarray, index: int) -> list[tuple[int, float]]:
    """A threshold for each class: a static limit (below 0: dynamic) and alpha."""
    return [
        (int(b), float(a)) for b, a in zip(static_bytes[index], alpha[index], strict=True)
    ]


class Switch(Node):
    """A switch. Arrays are by (local port, class); ingress counters make up a priority group."""

    def __init__(
        self, world: World, node: int, sampled: list[bool], schedule: Schedule | None = None
    ) -> None:
        super().__init__(world, node, Port)
        plan, index, shape = world.plan, node - world.plan.n_host, (len(self.ports), N_CLASS)
        self.schedule = schedule or Schedule()
        self.levels: dict[tuple[int, int, int], Level] = {}  # by (object, local port, class)
        self.sampled = [port for port in self.ports if sampled[port.index]]
        self.shared_pool_bytes = int(plan.switch_shared_bytes[index])
        self.cell_bytes = int(plan.switch_cell_bytes[index])
        self.group_limit = _limits(plan.switch_group_limit_bytes, plan.switch_group_alpha, index)
        self.queue_limit = _limits(plan.switch_queue_limit_bytes, plan.switch_queue_alpha, index)
        self.quantum_bytes = [int(b) for b in plan.switch_quantum_bytes[index]]
        self.reserved_bytes = [int(b) for b in plan.switch_reserved_bytes[index]]
        self.lossless = [bool(plan.switch_lossless[index] >> c & 1) for c in range(N_CLASS)]
        self.headroom_limit_bytes = [
            int(plan.port_headroom_bytes[port.index]) for port in self.ports
        ]
        self.headroom_pool_bytes = int(plan.switch_headroom_bytes[index])
        self.class_of = [int(c) for c in plan.switch_class_of[index]]
        self.xon_offset_bytes = int(plan.switch_xon_offset_bytes[index])
        self.queue: list[list[deque[Held]]] = [
            [deque() for _ in range(N_CLASS)] for _ in self.ports
        ]
        self.queue_bytes = np.zeros(shape, int).tolist()
        self.group_bytes = np.zeros(shape, int).tolist()
        self.headroom_bytes = np.zeros(shape, int).tolist()
        self.deficit_bytes = np.zeros(shape, int).tolist()
        self.turn = [0 for _ in self.ports]  # class whose turn it is
        self.turn_begun = [False for _ in self.ports]
        self.xoff = np.zeros(shape, bool).tolist()
        self.used_bytes = 0  # shared pool
        self.detect_ps = int(plan.switch_watchdog_detect_ps[index])
        self.restore_ps = int(plan.switch_watchdog_restore_ps[index])
        self.forward = bool(plan.switch_watchdog_forward[index])
        self.storm = np.zeros(shape, bool).tolist()

    # accounting

    def shared_bytes(self, i: int, c: int, more: int = 0) -> int:
        """What a group takes of the shared pool, or would take with more bytes in it."""
        return max(
            0, self.group_bytes[i][c] + more - self.headroom_bytes[i][c] - self.reserved_bytes[c]
        )

    def charged_bytes(self, packet: Packet) -> int:
        """What a packet takes of the buffer: whole cells."""
        return -(-packet.bytes // self.cell_bytes) * self.cell_bytes

    def threshold_bytes(self, limit: tuple[int, float]) -> int:
        """A static limit, or alpha times what is free."""
        static, alpha = limit
        if static >= 0:
            return static
        return int(alpha * float(max(0, self.shared_pool_bytes - self.used_bytes)))

    def charge_group(self, i: int, c: int, bytes: int, headroom_bytes: int) -> None:
        """Add bytes to a group (negative: take them), some of them in headroom."""
        self.used_bytes -= self.shared_bytes(i, c)
        self.group_bytes[i][c] += bytes
        self.headroom_bytes[i][c] += headroom_bytes
        self.used_bytes += self.shared_bytes(i, c)

    def admit(self, i: int, o: int, packet: Packet, now: int) -> bool:
        """Charge a packet that has arrived, or refuse it; XOFF is decided here."""
        c, b = self.class_of[packet.klass], self.charged_bytes(packet)
        growth = self.shared_bytes(i, c, b) - self.shared_bytes(i, c)
        fits_pool = self.used_bytes + growth <= self.shared_pool_bytes
        room = self.reserved_bytes[c] + self.threshold_bytes(self.queue_limit[c])
        if self.queue_bytes[o][c] + b > room:
            return False
        if not self.lossless[c]:
            group_room = self.threshold_bytes(self.group_limit[c])
            fits = fits_pool and self.shared_bytes(i, c, b) <= group_room
            if fits:
                self.charge_group(i, c, b, 0)
            return fits
        if not self.xoff[i][c]:
            if fits_pool:
                self.charge_group(i, c, b, 0)
                if self.shared_bytes(i, c) > self.threshold_bytes(self.group_limit[c]):
                    self.send_xoff(i, c, now)
                return True
            if self.group_bytes[i][c] == 0 and not self.fits_headroom(i, c, b):
                return False  # nothing will be released that could end a pause
        fits = self.fits_headroom(i, c, b)
        if fits:
            self.charge_group(i, c, b, b)
        if not self.xoff[i][c]:
            self.send_xoff(i, c, now)
        return fits

    def fits_headroom(self, i: int, c: int, bytes: int) -> bool:
        """Whether a group, and all groups together, have room left in headroom."""
        pool_bytes = sum(sum(of_port) for of_port in self.headroom_bytes)
        return (
            self.headroom_bytes[i][c] + bytes <= self.headroom_limit_bytes[i]
            and pool_bytes + bytes <= self.headroom_pool_bytes
        )

    def egress_bytes(self, port: Port) -> int:
        """Bytes of all classes of an out-port, the packet in transmission included."""
        return sum(self.queue_bytes[port.local])

    def touched(self, i: int, o: int, c: int, now: int) -> list[Level]:
        """What a packet from one port to another changes, brought up to date."""
        outside_bytes = self.group_bytes[i][c] - self.headroom_bytes[i][c]
        bytes_now = {
            (QUEUE, o, c): self.queue_bytes[o][c],
            (PG_SHARED, i, c): outside_bytes,
            (PG_HEADROOM, i, c): self.headroom_bytes[i][c],
            (POOL_SHARED, -1, -1): self.used_bytes,
            (POOL_HEADROOM, -1, -1): sum(map(sum, self.headroom_bytes)),
        }
        levels = []
        for key, value in bytes_now.items():
            levels.append(self.levels.setdefault(key, Level()))
            levels[-1].move(value, now)
        return levels

    def note_watermarks(self, i: int, out: Port, c: int, now: int) -> None:
        """Raise the maxima that an admission can raise; measure at the next sampling instant."""
        out.count["watermark_bytes"] = max(out.count["watermark_bytes"], self.egress_bytes(out))
        for level in self.touched(i, out.local, c, now):
            level.note()
        every = self.schedule.measure_every_ps
        if every:
            self.arm_look(max(1, -(-now // every)) * every, MEASURE)

    def maximum_bytes(self, what: int, port: int = -1, c: int = -1) -> int:
        """Greatest bytes of an object since the start."""
        level = self.levels.get((what, port, c))
        return 0 if level is None else level.maxima[SINCE_START]

    def release(self, port: Port, now: int) -> None:
        """The last bit of the packet in transmission has left."""
        held = port.sending
        if held is None or now < port.sending_end_ps:
            return
        port.sending = None
        self.discharge(port, held, now)

    def discharge(self, port: Port, held: Held, now: int) -> None:
        """A packet has left a port's queue and its group."""
        i, b = held.in_port, self.charged_bytes(held.packet)
        c = self.class_of[held.packet.klass]
        self.queue_bytes[port.local][c] -= b
        self.charge_group(i, c, -b, -min(b, self.headroom_bytes[i][c]) if self.xoff[i][c] else 0)
        self.touched(i, port.local, c, now)
        if self.xoff[i][c] and self.headroom_bytes[i][c] == 0:
            shared = self.shared_bytes(i, c)
            threshold = self.threshold_bytes(self.group_limit[c])
            if shared == 0 or shared + self.xon_offset_bytes <= threshold:
                self.send_xon(i, c, now)

    # pauses

    def send_xoff(self, i: int, c: int, now: int) -> None:
        """Pause a class of the peer of an in-port, for the first time."""
        self.xoff[i][c] = True
        self.world.records.pfc.append((now, self.ports[i].index, c, 1, 0))
        self.repeat_xoff(i, c, now)

    def repeat_xoff(self, i: int, c: int, now: int) -> None:
        """Send XOFF, and arm its repetition."""
        port = self.ports[i]
        port.count["pause_tx"] += 1
        self.world.records.totals["pause_frames"] += 1
        self.world.records.pause_event(now, self.node, i, EVENT_PAUSE_TX, c, self.group_bytes[i][c])
        self.transmit_pause(port, c, True, now)
        self.world.agenda.arm(
            now + port.pause_ps // 2, self.pause_timer(port, c, REFRESH), effort=CONTROL
        )

    def send_xon(self, i: int, c: int, now: int) -> None:
        """Let the peer of an in-port send a class again."""
        port = self.ports[i]
        self.xoff[i][c] = False
        port.count["resume_tx"] += 1
        self.world.records.totals["resume_frames"] += 1
        self.world.records.pfc.append((now, port.index, c, 0, 0))
        self.world.records.pause_event(
            now, self.node, i, EVENT_RESUME_TX, c, self.group_bytes[i][c]
        )
        self.transmit_pause(port, c, False, now)
        self.world.agenda.cancel(self.pause_timer(port, c, REFRESH))

    # watchdog

    def receive_pause(self, port: Port, klass: int, on: bool, now: int) -> None:
        if self.storm[port.local][klass]:
            if on:
                port.count["pause_rx"] += 1
                self.world.records.pause_event(now, self.node, port.local, EVENT_PAUSE_RX, klass, 0)
                self.arm_restoration(port, klass, now)
            return
        was = port.paused[klass]
        super().receive_pause(port, klass, on, now)
        if self.detect_ps and on and not was:
            self.world.agenda.arm(now + self.detect_ps, self.pause_timer(port, klass, WATCHDOG))

    def unpause(self, port: Port, klass: int, now: int) -> None:
        super().unpause(port, klass, now)
        self.world.agenda.cancel(self.pause_timer(port, klass, WATCHDOG))

    def begin_storm(self, port: Port, c: int, now: int) -> None:
        """A pause has lasted for the detection time: it is obeyed no longer."""
        o = port.local
        self.world.moved_ps = now
        self.storm[o][c] = True
        self.world.records.pfc.append((now, port.index, c, PFC_STORM, 0))
        if not self.forward:
            queue, self.queue[o][c] = self.queue[o][c], deque()
            if queue:
                self.deficit_bytes[o][c] = 0
            for held in queue:
                self.world.records.totals["queued_packets"] -= 1
                self.drop(self.ports[held.in_port], held.packet, now, storm=True)
                self.discharge(port, held, now)
        self.unpause(port, c, now)
        self.arm_restoration(port, c, now)

    def arm_restoration(self, port: Port, c: int, now: int) -> None:
        """The storm ends the restoration time from now, unless XOFF comes before."""
        timer = self.pause_timer(port, c, WATCHDOG)
        self.world.agenda.arm(now + self.restore_ps, timer, effort=CONTROL)

    def end_storm(self, port: Port, c: int, now: int) -> None:
        """No XOFF has come for the restoration time: pauses are obeyed again."""
        self.storm[port.local][c] = False
        self.world.records.pfc.append((now, port.index, c, PFC_RESTORED, 0))

    # events

    def receive(self, port: Port, packet: Packet, now: int) -> None:
        i, c = port.local, self.class_of[packet.klass]
        choice = self.route(packet.dst, packet.key)
        if choice < 0 or choice in self.closed:
            self.lose(port, packet, "unrouted", now)
            return
        out = self.ports[choice]
        if self.storm[out.local][c] and not self.forward:
            self.drop(port, packet, now, storm=True)
            return
        if not self.admit(i, out.local, packet, now):
            self.drop(port, packet, now)
            return
        self.queue_bytes[out.local][c] += self.charged_bytes(packet)
        self.note_watermarks(i, out, c, now)
        self.queue[out.local][c].append(Held(packet, i, now))
        self.world.records.totals["queued_packets"] += 1
        self.world.records.packet_event(
            now, self.node, i, EVENT_ARRIVE, packet, self.group_bytes[i][c]
        )
        queue_bytes = self.queue_bytes[out.local][c]
        self.mark(ENQUEUE, out, packet, queue_bytes, queue_bytes, now)
        self.plan_departure(out, now)

    def drop(self, port: Port, packet: Packet, now: int, storm: bool = False) -> None:
        """Account for a packet that found no room, or that the watchdog drops."""
        c, totals = self.class_of[packet.klass], self.world.records.totals
        lossless = self.lossless[c] and not storm
        port.count["dropped_watchdog_packets"] += storm
        totals["dropped_watchdog_packets"] += storm
        port.count["dropped_packets"] += 1
        port.count["dropped_bytes"] += packet.bytes
        port.count["dropped_lossless_packets"] += lossless
        totals["dropped_packets"] += 1
        totals["dropped_lossless_packets"] += lossless
        self.world.records.packet_event(
            now, self.node, port.local, EVENT_DROP, packet, self.group_bytes[port.local][c]
        )

    def lose(self, port: Port, packet: Packet, cause: str, now: int) -> None:
        """Account for a packet that has come in by a port and has no way out of the switch."""
        port.count[f"{cause}_packets"] += 1
        self.world.records.totals[f"{cause}_packets"] += 1
        group_bytes = self.group_bytes[port.local][self.class_of[packet.klass]]
        self.world.records.packet_event(
            now, self.node, port.local, EVENT_DROP, packet, group_bytes
        )

    def flush(self, port: Port, now: int) -> None:
        """Drop all that waits at a port, class by class; what is being sent goes on."""
        waiting = [held for queue in self.queue[port.local] for held in queue]
        for c, queue in enumerate(self.queue[port.local]):
            queue.clear()
            self.deficit_bytes[port.local][c] = 0
        for held in waiting:
            self.world.records.totals["queued_packets"] -= 1
            self.lose(self.ports[held.in_port], held.packet, "flushed", now)
            self.discharge(port, held, now)
        self.plan_departure(port, now)

    def fire(self, entity: int, number: int, now: int) -> None:
        c, what = divmod(number, N_PAUSE_TIMER)
        if entity == CHANGE:
            self.change(number, now)
        elif what == EXPIRY:
            self.unpause(self.ports[entity], c, now)
        elif what == WATCHDOG and self.storm[entity][c]:
            self.end_storm(self.ports[entity], c, now)
        elif what == WATCHDOG:
            self.begin_storm(self.ports[entity], c, now)
        else:
            self.repeat_xoff(entity + len(self.ports), c, now)

    def depart(self, port: Port, now: int) -> None:
        self.release(port, now)
        ready = self.ready_classes(port)
        if now >= port.busy_until_ps and ready:
            self.start_transmission(port, self.choose_class(port, ready), now)
        self.plan_departure(port, now)

    def ready_classes(self, port: Port) -> list[int]:
        """Classes that are not paused and have a packet."""
        return [c for c in range(N_CLASS) if self.queue[port.local][c] and not port.paused[c]]

    def choose_class(self, port: Port, ready: list[int]) -> int:
        """Highest strict class, else that of the others whose deficit covers its first packet."""
        strict = [c for c in ready if not self.quantum_bytes[c]]
        if strict:
            return max(strict)
        o = port.local
        while True:
            c = self.turn[o]
            if c in ready:
                if not self.turn_begun[o]:
                    self.deficit_bytes[o][c] += self.quantum_bytes[c]
                    self.turn_begun[o] = True
                need = self.queue[o][c][0].packet.bytes + SLOT_BYTES
                if need <= self.deficit_bytes[o][c]:
                    self.deficit_bytes[o][c] -= need
                    return c
            self.turn[o] = (self.turn[o] - 1) % N_CLASS
            self.turn_begun[o] = False

    def start_transmission(self, port: Port, c: int, now: int) -> None:
        """Send the first packet of a class."""
        held = self.queue[port.local][c].popleft()
        packet, queue_bytes = held.packet, self.queue_bytes[port.local][c]
        if not self.queue[port.local][c]:
            self.deficit_bytes[port.local][c] = 0
        self.mark(DEQUEUE, port, packet, queue_bytes, queue_bytes, now)
        self.mark(SOJOURN, port, packet, now - held.admitted_ps, queue_bytes, now)
        self.world.records.totals["queued_packets"] -= 1
        port.sending = held
        port.sending_end_ps = self.transmit(port, packet, now, queue_bytes)

    def mark(
        self, when: int, port: Port, packet: Packet, value: int, queue_bytes: int, now: int
    ) -> None:
        """Mark a data packet, if its port marks at this moment, by bytes or time waited."""
        if packet.kind != PACKET_DATA or self.world.plan.port_ecn_when[port.index] != when:
            return
        if self.decide_mark(port, when, value):
            packet.marked = True
            port.count["marked_packets"] += 1
            self.world.records.totals["marked_packets"] += 1
            self.world.records.packet_event(
                now, self.node, port.local, EVENT_MARK, packet, queue_bytes
            )

    def decide_mark(self, port: Port, when: int, value: int) -> bool:
        """Whether a data packet gets a congestion mark."""
        plan, p = self.world.plan, port.index
        low, high = int(plan.port_ecn_kmin_bytes[p]), int(plan.port_ecn_kmax_bytes[p])
        if when == SOJOURN:
            low, high = int(plan.port_ecn_tmin_ps[p]), int(plan.port_ecn_tmax_ps[p])
        if value <= low:
            return False
        if value > high:
            return True
        unit = self.world.draws.mark_unit(p, port.mark_draws)
        port.mark_draws += 1
        slope = float(plan.port_ecn_pmax[p]) / float(high - low)
        return unit < slope * float(value - low)

    def plan_departure(self, port: Port, now: int) -> None:
        if port.sending is not None:
            self.arm_departure(port, port.sending_end_ps)
        elif self.ready_classes(port):
            self.arm_departure(port, max(now, port.busy_until_ps))
        else:
            self.world.agenda.cancel((self.node, DEPARTURE, port.local, 0))

    # samples and clears

    def arm_look(self, time_ps: int, number: int) -> None:
        """Sample, measure or clear at a time."""
        self.world.agenda.arm(time_ps, (self.node, SAMPLE, 0, number), effort=IDLE)

    def arm_clear(self, after_ps: int) -> None:
        """Clear when the schedule next wants it."""
        time_ps = self.schedule.next_clear_ps(after_ps)
        if time_ps is not None:
            self.arm_look(time_ps, CLEAR)

    def look(self, number: int, now: int) -> None:
        if number == QUEUE_SAMPLE:
            self.sample(now)
        elif number == MEASURE:
            self.measure(now)
        else:
            self.clear(now)

    def sample(self, now: int) -> None:
        """Note queues that have changed since the last sample."""
        for port in self.sampled:
            queue_bytes = self.egress_bytes(port)
            if queue_bytes != port.sampled_bytes:
                port.sampled_bytes = queue_bytes
                self.world.records.queues.append((now, queue_bytes, port.index, 0))

    def measure(self, now: int) -> None:
        """Count what is held, and come back as long as anything is."""
        for level in self.levels.values():
            if level.bytes:
                level.sample()
        if any(map(any, self.queue_bytes)):
            self.arm_look(now + self.schedule.measure_every_ps, MEASURE)

    def clear(self, now: int) -> None:
        """Begin the maxima anew whose time it is, and report those of the interval."""
        cleared = self.schedule.cleared(now)
        for key, level in self.levels.items():
            for kind in cleared:
                was = level.clear(kind)
                if kind == PERIODIC and was:
                    self.world.records.periodic.append((now, was, *self.place(key)))
        self.arm_clear(now)

    def place(self, key: tuple[int, int, int]) -> tuple[int, int, int, int]:
        """`object`, `node`, `port` and `klass` of a row."""
        what, port, c = key
        return what, self.node, port if port < 0 else self.ports[port].index, c

    def sample_due(self) -> bool:
        """Whether the next sample will have something to note."""
        return any(self.egress_bytes(port) != port.sampled_bytes for port in self.sampled)
