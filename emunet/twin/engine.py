"""The twin engine: one queue of events, with the interface of the native engine."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from emunet._core.rows import (
    CLASS_COUNTERS,
    DONE,
    PAUSED,
    PG_HEADROOM,
    PG_SHARED,
    PLUGIN_FAILED,
    POOL_HEADROOM,
    POOL_SHARED,
    PORT_COUNTERS,
    QUEUE,
    STUCK,
    SWITCH_COUNTERS,
    UNFINISHED_ROW,
    UNTIL,
    WAIT_ACK,
    WAIT_ACK_LOST,
    WAIT_FAILED,
    WAIT_PACING,
    WAIT_PAUSED,
    WAIT_START,
    WAIT_WINDOW,
    WAITS_ROW,
    WATERMARK_ROW,
)
from emunet.plan.schema import N_CLASS, Plan
from emunet.twin.agenda import ARRIVAL, CONTROL, LINK_CONTROL, SAMPLE, TIMER, WORK, Event
from emunet.twin.congestion import PolicyFailed
from emunet.twin.host import Host
from emunet.twin.node import EXPIRY, Node, World
from emunet.twin.records import Records
from emunet.twin.sender import START, Sender
from emunet.twin.switch import QUEUE_SAMPLE, Switch
from emunet.twin.waits import waits
from emunet.twin.watermark import PERSISTENT, SINCE_START, USER, Level, Schedule

MOST_PACKETS = (1 << 32) - 1
"""Packets of a message; also the first number that no message has."""

EVENTS_PER_WINDOW = 1000
"""What `max_windows` counts, as the twin has no windows."""


class TwinEngine:
    """One simulation.

    Parameters
    ----------
    plan : Plan
        Fabric and policies.
    threads, window_ps, flow_hint : int
        Taken for the sake of the common interface; they have no meaning here.
    sample_every_ps : int
        Period of the queue samples; 0: none.
    sample_port_mask : uint8[n_port], optional
        Ports to sample; all switch ports without it.
    log_events : bool
        Keep packet events.
    event_filter : tuple of (int, int, int), optional
        Bit mask of event kinds, first flow, end (exclusive) of flows of the events to keep.
    measure_every_ps : int
        Period of the samples behind the p99 of watermarks; 0: none.
    periodic_ps : int
        Length of the intervals of periodic watermarks; 0: none.
    clear_user_ps, clear_persistent_ps : sequence of int
        When these watermarks are cleared.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        threads: int = 1,
        window_ps: int = 0,
        sample_every_ps: int = 0,
        sample_port_mask: np.ndarray | None = None,
        log_events: bool = False,
        event_filter: tuple[int, int, int] | None = None,
        flow_hint: int = 0,
        measure_every_ps: int = 0,
        periodic_ps: int = 0,
        clear_user_ps: Sequence[int] = (),
        clear_persistent_ps: Sequence[int] = (),
    ) -> None:
        if plan.linger_ps < plan.lookahead_ps:
            raise ValueError(
                f"plan: linger_ps {plan.linger_ps}; "
                f"at least the lookahead of {plan.lookahead_ps} is needed"
            )
        self.plan = plan
        self.now_ps = 0
        self.failure: dict[str, Any] | None = None
        self.sample_every_ps = sample_every_ps
        self._world = World(plan, Records(log_events, event_filter))
        mask = np.ones(plan.n_port) if sample_port_mask is None else sample_port_mask
        sampled = [bool(m) and sample_every_ps > 0 for m in mask]
        self._hosts = [Host(self._world, node) for node in range(plan.n_host)]
        schedule = Schedule(measure_every_ps, periodic_ps, clear_user_ps, clear_persistent_ps)
        self._switches = [
            Switch(self._world, node, sampled, schedule) for node in range(plan.n_host, plan.n_node)
        ]
        self._nodes: list[Node] = [*self._hosts, *self._switches]
        # Long after the last movement a pause that has not ended is refreshed for ever.
        self._hold_ps = 2 * max(port.pause_ps for port in self._world.ports)
        for switch in self._switches:
            switch.arm_clear(0)
            if switch.sampled:
                switch.arm_look(sample_every_ps, QUEUE_SAMPLE)

    def submit(
        self,
        ids: np.ndarray,
        src: np.ndarray,
        dst: np.ndarray,
        size_bytes: np.ndarray,
        start_ps: np.ndarray,
        klass: np.ndarray,
        base_rtt_ps: np.ndarray,
    ) -> None:
        """Hand over messages; each starts at its own time, not before `now_ps`.

        Parameters
        ----------
        ids : int64[n]
            Message numbers, each used once, below 2^32 - 1.
        src, dst : int32[n]
            Hosts.
        size_bytes, start_ps, base_rtt_ps : int64[n], bytes and ps
        klass : uint8[n]
            Priority class.

        Raises
        ------
        ValueError
            A message that the engine cannot take; those before it have been added.
        """
        columns = (ids, src, dst, size_bytes, start_ps, klass, base_rtt_ps)
        for row in zip(*(np.asarray(column).tolist() for column in columns), strict=True):
            flow, source, target, size, start, priority, base_rtt = row
            wrong = self._wrong(flow, source, target, size, start, priority)
            if wrong:
                raise ValueError(f"message {flow}: {wrong}")
            self._hosts[target].open_receiver(flow, source, size, priority)
            self._hosts[source].open_sender(flow, target, size, start, priority, base_rtt)
            self._world.records.totals["flows_submitted"] += 1

    def _wrong(
        self, flow: int, src: int, dst: int, size_bytes: int, start_ps: int, klass: int
    ) -> str:
        """Why a message cannot be taken, as the native engine says it; empty if it can."""
        n_host, mtu = len(self._hosts), int(self.plan.mtu_bytes)
        if not (0 <= src < n_host and 0 <= dst < n_host and src != dst):
            return f"{src} -> {dst} is not a pair of different hosts"
        if (
            not 0 < size_bytes <= MOST_PACKETS * mtu
            or start_ps < self.now_ps
            or not 0 <= klass < N_CLASS
        ):
            return f"size {size_bytes}, start {start_ps} (now {self.now_ps}), class {klass}"
        in_use = flow in self._hosts[src].senders or flow in self._hosts[dst].receivers
        if in_use or not 0 <= flow < MOST_PACKETS:
            return "not a free message number"
        return ""

    # running

    def run(self, until_ps: int, max_windows: int = 0) -> int:
        """Handle the events before a time, and say why it stopped.

        Parameters
        ----------
        until_ps : int
            First instant that is not handled.
        max_windows : int
            Stop at the first end of an instant after this many thousand events; 0: never.
        """
        agenda = self._world.agenda
        budget = max_windows * EVENTS_PER_WINDOW
        handled = 0
        while self.failure is None:
            time_ps = agenda.next_time_ps()
            if self._ended(time_ps, until_ps):
                return STUCK if any(host.senders for host in self._hosts) else DONE
            if time_ps is None or time_ps >= until_ps:
                self.now_ps = max(self.now_ps, until_ps)
                return UNTIL
            if max_windows and handled >= budget:
                return PAUSED
            while agenda.next_time_ps() == time_ps and self.failure is None:
                self._handle(agenda.pop())
                handled += 1
            self.now_ps = time_ps + 1
        return PLUGIN_FAILED

    def _ended(self, time_ps: int | None, until_ps: int) -> bool:
        """Whether nothing is left: no work, no sample to note, no pause that can still end."""
        pending = self._world.agenda.pending
        if pending[WORK] > 0 or any(switch.sample_due() for switch in self._switches):
            return False
        if pending[CONTROL] == 0:
            return True
        end_ps = self._world.moved_ps + self._hold_ps
        if time_ps is None or time_ps < end_ps or until_ps < end_ps:
            return False
        self.now_ps = max(self.now_ps, end_ps)
        return True

    def _handle(self, event: Event) -> None:
        now, node = event.time_ps, self._nodes[event.node]
        self._world.records.totals["events"] += 1
        try:
            if event.kind == LINK_CONTROL:
                klass, on = event.load[1]
                node.receive_pause(node.ports[event.entity], klass, on, now)
            elif event.kind == TIMER:
                node.fire(event.entity, event.number, now)
            elif event.kind == ARRIVAL:
                self._world.records.totals["in_flight_packets"] -= 1
                self._world.moved_ps = now
                node.receive(node.ports[event.entity], event.load[1], now)
            elif event.kind == SAMPLE:
                self._look(now, event)
            else:
                node.depart(node.ports[event.entity], now)
        except PolicyFailed as stop:
            self.failure = stop.failure

    def _look(self, now: int, event: Event) -> None:
        switch = self._switches[event.node - self.plan.n_host]
        switch.look(event.number, now)
        if event.number == QUEUE_SAMPLE:
            switch.arm_look(now + self.sample_every_ps, QUEUE_SAMPLE)

    # results

    def drain(self) -> dict[str, np.ndarray]:
        """Rows since the last call: "flows", "events", "queues", "pfc", "periodic"."""
        return self._world.records.drain()

    @property
    def moved_ps(self) -> int:
        """Time of the last event that was not link control, ps."""
        return self._world.moved_ps

    def ports(self) -> dict[str, np.ndarray]:
        """Counters by global port, and by port and class."""
        ports = self._world.ports
        table = {
            name: np.array([port.count[name] for port in ports], np.int64) for name in PORT_COUNTERS
        }
        table["paused_ps"] = np.array([port.paused_ps(self.now_ps) for port in ports], np.int64)
        table["queue_byte_ps"] = np.zeros(len(ports), np.float64)
        for name in CLASS_COUNTERS:
            table[name] = np.zeros((len(ports), N_CLASS), np.int64)
        for switch in self._switches:
            for port in switch.ports:
                p = port.index
                levels = [switch.levels.get((QUEUE, port.local, c)) for c in range(N_CLASS)]
                table["queue_byte_ps"][p] = float(sum(map(self._byte_ps, levels)))
                for name, what in zip(
                    CLASS_COUNTERS, (QUEUE, PG_SHARED, PG_HEADROOM), strict=True
                ):
                    table[name][p] = [
                        switch.maximum_bytes(what, port.local, c) for c in range(N_CLASS)
                    ]
        return table

    def _byte_ps(self, level: Level | None) -> int:
        """Time integral of a level up to now."""
        if level is None:
            return 0
        return level.byte_ps + level.bytes * (self.now_ps - level.since_ps)

    def switches(self) -> dict[str, np.ndarray]:
        """Counters by switch."""
        return {
            name: np.array([s.maximum_bytes(what) for s in self._switches], np.int64)
            for name, what in zip(SWITCH_COUNTERS, (POOL_SHARED, POOL_HEADROOM), strict=True)
        }

    def watermarks(self, end_ps: int) -> np.ndarray:
        """Maxima, p99 and time integral of every object that has held a byte.

        Parameters
        ----------
        end_ps : int
            Simulated time: p99 is over the sampling instants before it.
        """
        rows = []
        for switch in self._switches:
            every = switch.schedule.measure_every_ps
            n_instant = max(0, end_ps - 1) // every if every else 0
            for key, level in switch.levels.items():
                if level.maxima[SINCE_START]:
                    byte_ps = float(self._byte_ps(level))
                    if key[0] == POOL_SHARED and any(switch.reserved_bytes):
                        sampled = sum(b * n for b, n in level.samples.items())
                        byte_ps = float(sampled * every) if every else -1.0
                    kinds = [level.maxima[kind] for kind in (SINCE_START, USER, PERSISTENT)]
                    p99_bytes = level.p99_bytes(n_instant)
                    rows.append((*switch.place(key), *kinds, p99_bytes, byte_ps))
        return np.array(sorted(rows), WATERMARK_ROW)

    def totals(self) -> dict[str, int]:
        """Counters of the whole fabric."""
        totals = dict(self._world.records.totals)
        totals["paused_ps"] = sum(port.paused_ps(self.now_ps) for port in self._world.ports)
        return {name: int(value) for name, value in totals.items()}

    def unfinished(self) -> np.ndarray:
        """Messages whose sender lacks the last acknowledgement, and what each waits for."""
        rows = []
        for host in self._hosts:
            given_up = ((s, -1, -1, WAIT_FAILED) for s in host.failed)
            waiting = ((s, *self._wait(s)) for s in host.senders.values())
            for s, until_ps, port, wait in (*given_up, *waiting):
                peer = self._hosts[s.dst]
                half = peer.receivers.get(s.flow)
                delivered_bytes = half.delivered_bytes if half else peer.leftovers[s.flow]
                rows.append(
                    (s.flow, until_ps, delivered_bytes, s.size_bytes, host.node, s.dst, port, wait)
                )
        return np.array(sorted(rows), UNFINISHED_ROW)

    def waits(self) -> np.ndarray:
        """Groups in XOFF and the paused ports that they wait for: `rows.WAITS_ROW`."""
        return np.array(waits(self._world, self._switches), WAITS_ROW)

    def _wait(self, sender: Sender) -> tuple[int, int, int]:
        """Until when, at which port and for what an unfinished message waits."""
        s, armed_ps = sender, self._world.agenda.armed_ps
        deadline_ps = -1 if s.deadline_ps is None else s.deadline_ps
        if not s.started:
            return armed_ps(s.timer(START)), -1, WAIT_START
        if self._hosts[s.dst].receivers[s.flow].epsn == s.n:
            return deadline_ps, -1, WAIT_ACK_LOST
        if not s.may_send():
            return deadline_ps, -1, WAIT_WINDOW if s.inflight_bytes >= s.window_bytes else WAIT_ACK
        if s.lane.paused[s.klass]:
            expiry = s.host.pause_timer(s.lane, s.klass, EXPIRY)
            return armed_ps(expiry), s.lane.index, WAIT_PAUSED
        return max(s.next_send_ps, self.now_ps), -1, WAIT_PACING

    # saving

    def save(self) -> bytes:
        """The whole state; the plan and its policy are not part of it."""
        file = io.BytesIO()
        _Pickler(file, self.plan, self._world.congestion).dump(self.__dict__)
        return file.getvalue()

    @classmethod
    def restore(cls, plan: Plan, data: bytes, **options: object) -> TwinEngine:
        """An engine that goes on where `save` was called; it keeps the options of then."""
        engine = cls.__new__(cls)
        engine.__dict__.update(_Unpickler(io.BytesIO(data), plan).load())
        return engine


class _Pickler(pickle.Pickler):
    """Leaves out what the restoring side has already."""

    def __init__(self, file: io.BytesIO, plan: Plan, congestion: object) -> None:
        super().__init__(file)
        self.known = {id(plan): "plan", id(congestion): "congestion"}

    def persistent_id(self, obj: object) -> str | None:
        return self.known.get(id(obj))


class _Unpickler(pickle.Unpickler):
    """Puts the plan and its policy back."""

    def __init__(self, file: io.BytesIO, plan: Plan) -> None:
        super().__init__(file)
        from emunet.twin.congestion import Congestion

        self.known = {"plan": plan, "congestion": Congestion(plan)}

    def persistent_load(self, name: str) -> object:
        return self.known[name]
