"""The native engine: one object is one simulation.

`run` is one nogil block of windows and returns a reason; nothing here raises on a packet's account.
See docs/semantics.md for what is computed and docs/walkthrough.md for the calls.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from hashlib import blake2b

import numpy as np

from emunet._core import rows as R
from emunet._core.fabric import HOOKS
from emunet.errors import EngineError

from emunet._core.connection cimport TIMER_START, connection_timer, recv_free, send_free
from emunet._core.fabric cimport Fabric
from emunet._core.faults cimport host_choice, node_change
from emunet._core.memory cimport heap_push, table_find, table_put, table_reserve
from emunet._core.rng cimport draw
from emunet._core.save cimport Stream, sim_exchange, stream_close
from emunet._core.sim cimport (node_due, recv_epsn, recv_new, send_new, send_waiting, sim_active,
                               sim_due, thread_merge, window_edge, window_run, work_left)
from emunet._core.types cimport *
from emunet._core.waits cimport switch_waits
from emunet._core.watermark cimport (CLEAR_PERIODIC, N_PORT_OBJECT, PG_HEADROOM, PG_SHARED,
                                     POOL_HEADROOM, POOL_SHARED, QUEUE, headroom_time,
                                     held_byte_ps, object_index, pool_index, since_start,
                                     watermark_row)

cdef enum:
    DONE = 0
    UNTIL = 1
    PAUSED = 2
    PLUGIN_FAILED = 3
    STUCK = 4
    NO_MEMORY = 5
    FAULT = 6
    ROWS_WAITING = 1 << 20     # rows after which `run` returns to let them be drained
    SEAL_BYTES = 16

FAULTS = {
    FAULT_TIME: "time went back at a node",
    FAULT_QUEUE: "queue bytes below zero",
    FAULT_GROUP: "group bytes below zero",
    FAULT_POOL: "shared pool use below zero",
    FAULT_LINK: "a link's packets out of order",
    FAULT_WINDOW: "a packet due in the window in which it was sent",
    FAULT_PORT: "a departure from a busy port",
    FAULT_PSN: "sequence numbers out of order",
    FAULT_RATE: "a rate that is not a number",
    FAULT_ROUTE: "no route to a destination",
}


cdef class Engine(Fabric):
    """One simulation of a Plan.

    Parameters
    ----------
    plan : emunet.plan.schema.Plan
    threads : int
        Threads that share the nodes of a window. Results do not depend on it.
    window_ps : int
        Length of a window, at most the plan's lookahead; 0: the lookahead. Results do not depend
        on it.
    sample_every_ps : int
        Period of queue samples; 0: none.
    sample_port_mask : uint8[n_port] or None
        Ports to sample; None: all switch ports.
    log_events : bool
        Keep packet events.
    event_filter : (int, int, int) or None
        Bit mask of event kinds, first flow, end of flows: only these are kept.
    measure_every_ps : int
        Period of the samples behind the p99 of watermarks; 0: none.
    periodic_ps : int
        Length of the intervals of periodic watermarks; 0: none.
    clear_user_ps, clear_persistent_ps : sequence of int
        When these watermarks are cleared.
    """

    cdef readonly int64_t now_ps
    cdef readonly int64_t n_window
    cdef int64_t n_submitted
    cdef int64_t cleared_ps        # last clear; 0: none

    # ----------------------------------------------------------------------------------------- work

    def submit(self, ids, src, dst, size_bytes, start_ps, klass, base_rtt_ps):
        """Add messages; each starts at its own time, not before `now_ps`.

        Parameters
        ----------
        ids : int64[n]
            Message numbers, each used once, below 2^32 - 1.
        src, dst : int32[n]
            Hosts.
        size_bytes, start_ps, base_rtt_ps : int64[n]
        klass : uint8[n]
            Priority class.

        Raises
        ------
        ValueError
            A message that the engine cannot take; those before it have been added.
        """
        cdef int64_t[::1] v_id = np.ascontiguousarray(ids, dtype=np.int64)
        cdef int32_t[::1] v_src = np.ascontiguousarray(src, dtype=np.int32)
        cdef int32_t[::1] v_dst = np.ascontiguousarray(dst, dtype=np.int32)
        cdef int64_t[::1] v_size = np.ascontiguousarray(size_bytes, dtype=np.int64)
        cdef int64_t[::1] v_start = np.ascontiguousarray(start_ps, dtype=np.int64)
        cdef uint8_t[::1] v_class = np.ascontiguousarray(klass, dtype=np.uint8)
        cdef int64_t[::1] v_rtt = np.ascontiguousarray(base_rtt_ps, dtype=np.int64)
        cdef int64_t i, n = v_id.shape[0], mtu = self.sim.mtu_bytes
        cdef Sim* sim = &self.sim
        if {len(v_src), len(v_dst), len(v_size), len(v_start), len(v_class), len(v_rtt)} != {n}:
            raise ValueError(f"messages: the columns are not all of length {n}, that of ids")
        for i in range(n):
            if not (0 <= v_src[i] < sim.n_host and 0 <= v_dst[i] < sim.n_host
                    and v_src[i] != v_dst[i]):
                raise ValueError(f"message {v_id[i]}: {v_src[i]} -> {v_dst[i]} "
                                 "is not a pair of different hosts")
            if (not (0 < v_size[i] <= (<int64_t>1 << 32) * mtu - mtu)
                    or v_start[i] < self.now_ps or v_class[i] >= N_CLASS):
                raise ValueError(f"message {v_id[i]}: size {v_size[i]}, start {v_start[i]} "
                                 f"(now {self.now_ps}), class {v_class[i]}")
            if (not 0 <= v_id[i] < NIL
                    or table_find(&sim.hosts[v_src[i]].send_table, <uint32_t>v_id[i]) != NIL
                    or table_find(&sim.hosts[v_dst[i]].recv_table, <uint32_t>v_id[i]) != NIL):
                raise ValueError(f"message {v_id[i]}: not a free message number")
            if not self._connect(<uint32_t>v_id[i], v_src[i], v_dst[i], v_size[i], v_start[i],
                                 v_class[i], v_rtt[i]):
                raise MemoryError("engine: no memory for more messages")
            self.n_submitted += 1

    cdef bint _connect(
        self, uint32_t conn, int32_t src, int32_t dst, int64_t size, int64_t start, uint8_t klass,
        int64_t base_rtt
    ):
        """Both halves of a connection that carries one message; False without memory."""
        cdef Sim* sim = &self.sim
        cdef Host* a = &sim.hosts[src]
        cdef Host* b = &sim.hosts[dst]
        cdef SendHalf* q
        cdef RecvHalf* r
        cdef Thread* th = self.threads
        cdef int k
        if not table_reserve(th, &a.send_table) or not table_reserve(th, &b.recv_table):
            return False
        q = send_new(sim, th, a)
        if q == NULL:
            return False
        r = recv_new(sim, th, b)
        if r != NULL:
            heap_push(th, &a.timers, start, connection_timer(conn, TIMER_START),
                      <uint32_t>(q - a.send))
        if th.no_memory:
            send_free(a, q)
            if r != NULL:
                recv_free(b, r)
            return False
        q.conn = r.conn = conn
        q.dst = dst
        r.src = src
        q.size_bytes = r.size_bytes = size
        q.n_packet = r.n_packet = <uint32_t>((size + sim.mtu_bytes - 1) // sim.mtu_bytes)
        q.klass = r.klass = klass
        q.key = <uint16_t>(draw(sim.key_entropy, (<uint64_t>src << 32) | <uint64_t>dst, conn) >> 48)
        r.key = <uint16_t>(draw(sim.key_entropy, (<uint64_t>dst << 32) | <uint64_t>src, conn) >> 48)
        q.port = host_choice(sim, a, dst, q.key)
        r.port = host_choice(sim, b, src, r.key)
        q.rate_bps = sim.cold[a.port_start + q.port].rate_bps
        q.window_bytes = FOREVER
        q.rto_ps = FOREVER
        q.base_rtt_ps = base_rtt
        r.last_cnp_ps = -1
        for k in range(N_TIMER):
            q.timer_ps[k] = FOREVER
        table_put(&a.send_table, conn, <uint32_t>(q - a.send))
        table_put(&b.recv_table, conn, <uint32_t>(r - b.recv))
        node_due(sim, src, start)
        return True

    def run(self, int64_t until_ps, int64_t max_windows=0):
        """Handle the events before `until_ps`; the reason for returning is one of `rows.REASONS`.

        Raises
        ------
        EngineError
            An audit of the checked build has failed.
        """
        cdef int reason
        with nogil:
            reason = self._windows(until_ps, max_windows if max_windows > 0 else FOREVER)
        if reason == FAULT:
            raise EngineError(f"broken audit: {self._fault_text()} "
                              f"in the window before {self.now_ps} ps")
        return reason

    cdef int _windows(self, int64_t until_ps, int64_t budget) noexcept nogil:
        """At most `budget` windows, none beyond `until_ps`; the reason for returning."""
        cdef Sim* sim = &self.sim
        cdef int64_t t, end, quiet, clear
        cdef int32_t n
        cdef int reason
        sim.change = node_change
        while True:
            t = sim_due(sim)
            quiet = self._activity() + self.hold_ps
            clear = self._next_clear(self.cleared_ps, &sim.clear_mask)
            sim.clear_ps = FOREVER
            if clear <= t and clear < until_ps and self._lasts(clear, quiet, until_ps):
                t = self.cleared_ps = sim.clear_ps = clear
                clear = self._next_clear(clear, NULL)
            elif t == FOREVER or (t >= quiet and quiet < until_ps and not work_left(sim, False)):
                if t != FOREVER and quiet > self.now_ps:
                    self.now_ps = quiet
                return DONE if self._open_flows() == 0 else STUCK
            elif (t >= until_ps or clear <= t) and not work_left(sim, True):
                return DONE if self._open_flows() == 0 else STUCK
            elif t >= until_ps:
                if until_ps > self.now_ps:
                    self.now_ps = until_ps
                return UNTIL
            end = t + self.window_ps if t < FOREVER - self.window_ps else FOREVER
            if end > until_ps:
                end = until_ps
            if t < quiet < end:
                end = quiet
            if end > clear:
                end = clear
            sim.window += 1
            sim.window_end_ps = end
            n = sim_active(sim, self.active)
            window_run(sim, self.threads, self.n_thread, self.active, n)
            window_edge(sim, self.threads, self.n_thread, self.active, n)
            self.now_ps = end
            self.n_window += 1
            reason = self._after()
            if reason >= 0:
                return reason
            budget -= 1
            if budget == 0:
                return PAUSED

    cdef int64_t _next_clear(self, int64_t after_ps, int32_t* mask) noexcept nogil:
        """First clear after a time, FOREVER without any; `mask` is set to what it clears."""
        cdef int64_t due = FOREVER, t
        cdef int32_t kind, kinds = 0
        cdef int64_t low, high, middle
        for kind in range(3):
            t = FOREVER
            if 1 << kind == CLEAR_PERIODIC:
                if self.periodic_ps:
                    t = (after_ps // self.periodic_ps + 1) * self.periodic_ps
            else:
                low, high = 0, self.n_clear[kind]
                while low < high:
                    middle = (low + high) // 2
                    if self.clears[kind][middle] <= after_ps:
                        low = middle + 1
                    else:
                        high = middle
                if low < self.n_clear[kind]:
                    t = self.clears[kind][low]
            if t < due:
                due = t
                kinds = 0
            if t == due:
                kinds |= 1 << kind
        if mask != NULL:
            mask[0] = kinds
        return due

    cdef bint _lasts(self, int64_t time_ps, int64_t quiet_ps, int64_t until_ps) noexcept nogil:
        """Whether the run has not ended before a time at which nothing but a clear is due."""
        if work_left(&self.sim, False):
            return True
        return (time_ps < quiet_ps or until_ps <= quiet_ps) and work_left(&self.sim, True)

    cdef int _after(self) noexcept nogil:
        """What a window's end may ask for: -1 nothing, else a reason to return."""
        cdef int t
        cdef int64_t waiting = 0
        for t in range(self.n_thread):
            if self.threads[t].no_memory:
                return NO_MEMORY
            if self.threads[t].fault:
                return FAULT
            if self.threads[t].failure.time_ps != FOREVER:
                return PLUGIN_FAILED
            waiting += (self.threads[t].flows.n + self.threads[t].log.n
                        + self.threads[t].queues.n + self.threads[t].pfc.n
                        + self.threads[t].periodic.n)
        return PAUSED if waiting >= ROWS_WAITING else -1

    cdef int64_t _activity(self) noexcept nogil:
        """Time of the last event that was not link control, ps."""
        cdef int t
        cdef int64_t last = 0
        for t in range(self.n_thread):
            if self.threads[t].activity_ps > last:
                last = self.threads[t].activity_ps
        return last

    cdef int64_t _open_flows(self) noexcept nogil:
        """Messages submitted that have neither finished nor failed."""
        cdef int t
        cdef int64_t n = self.n_submitted
        for t in range(self.n_thread):
            n -= self.threads[t].totals.flows_finished + self.threads[t].totals.flows_failed
        return n

    def _fault_text(self):
        cdef int t
        return ", ".join(FAULTS[self.threads[t].fault] for t in range(self.n_thread)
                         if self.threads[t].fault)

    # -------------------------------------------------------------------------------------- results

    cdef object _take(self, size_t offset, dtype, order):
        """Rows of all threads in canonical order; they are gone from the engine."""
        cdef int t
        cdef Rows* rows
        cdef int64_t n = 0, at = 0
        cdef char* target
        for t in range(self.n_thread):
            n += (<Rows*>(<char*>&self.threads[t] + offset)).n
        out = np.empty(n, dtype=dtype)
        if n == 0:
            return out
        target = <char*><uintptr_t>out.ctypes.data
        for t in range(self.n_thread):
            rows = <Rows*>(<char*>&self.threads[t] + offset)
            memcpy(target + at, rows.data, rows.n * rows.row_bytes)
            at += rows.n * rows.row_bytes
            rows.n = 0
        keys = [-out[name[1:]].astype(np.int64) if name[0] == "-" else out[name]
                for name in reversed(order)]
        return out[np.lexsort(keys)]

    def drain(self):
        """Rows since the last call, each kind in its canonical order.

        Returns
        -------
        dict of str to numpy.ndarray
            "flows" (FLOW_ROW), "events" (EVENT_ROW), "queues" (QUEUE_ROW), "pfc" (PFC_ROW),
            "periodic" (PERIODIC_ROW).
        """
        cdef Thread* th = self.threads
        return {
            "flows": self._take(<char*>&th.flows - <char*>th, R.FLOW_ROW,
                                ("time_ps", "node", "flow", "kind")),
            "events": self._take(<char*>&th.log - <char*>th, R.EVENT_ROW, R.EVENT_ORDER),
            "queues": self._take(<char*>&th.queues - <char*>th, R.QUEUE_ROW, ("time_ps", "port")),
            "pfc": self._take(<char*>&th.pfc - <char*>th, R.PFC_ROW,
                              ("time_ps", "port", "klass", "-on")),
            "periodic": self._take(<char*>&th.periodic - <char*>th, R.PERIODIC_ROW,
                                   ("time_ps", *R.WATERMARK_ORDER)),
        }

    def ports(self):
        """Counters of every port: `rows.PORT_COUNTERS`, `rows.CLASS_COUNTERS`, `queue_byte_ps`."""
        cdef Sim* sim = &self.sim
        cdef int32_t i, c, n = sim.n_port, first = sim.node_port_start[sim.n_host]
        cdef int64_t at
        cdef PortCold* cold
        cdef Group* g
        out = {name: np.zeros(n, dtype=np.int64) for name in R.PORT_COUNTERS}
        out |= {name: np.zeros((n, N_CLASS), dtype=np.int64) for name in R.CLASS_COUNTERS}
        out["queue_byte_ps"] = np.zeros(n, dtype=np.float64)
        cdef int64_t[::1] tx = out["tx_packets"], tx_bytes = out["tx_bytes"]
        cdef int64_t[::1] marked = out["marked_packets"], drops = out["dropped_packets"]
        cdef int64_t[::1] drop_bytes = out["dropped_bytes"], pause_tx = out["pause_tx"]
        cdef int64_t[::1] lossless = out["dropped_lossless_packets"], resume_tx = out["resume_tx"]
        cdef int64_t[::1] watchdog = out["dropped_watchdog_packets"]
        cdef int64_t[::1] pause_rx = out["pause_rx"], paused_ps = out["paused_ps"]
        cdef int64_t[::1] watermark = out["watermark_bytes"]
        cdef int64_t[:, ::1] queue = out["queue_watermark_bytes"], pg = out["pg_watermark_bytes"]
        cdef int64_t[:, ::1] headroom = out["headroom_watermark_bytes"]
        cdef int64_t[::1] lost = out["lost_packets"], lost_bytes = out["lost_bytes"]
        cdef int64_t[::1] lost_pauses = out["lost_pauses"], unrouted = out["unrouted_packets"]
        cdef int64_t[::1] down = out["down_packets"], down_bytes = out["down_bytes"]
        cdef int64_t[::1] flushed = out["flushed_packets"]
        for i in range(n):
            cold = &sim.cold[i]
            tx[i] = sim.port[i].n_tx
            tx_bytes[i] = sim.port[i].n_tx_bytes
            watermark[i] = sim.port[i].watermark_bytes
            marked[i] = cold.n_marked
            drops[i] = cold.n_drop
            drop_bytes[i] = cold.n_drop_bytes
            lossless[i] = cold.n_drop_lossless
            unrouted[i] = cold.n_unrouted
            flushed[i] = cold.n_flushed
            watchdog[i] = cold.n_drop_watchdog
            pause_tx[i] = cold.n_pause_tx
            resume_tx[i] = cold.n_resume_tx
            pause_rx[i] = cold.n_pause_rx
            paused_ps[i] = self._paused(i)
            if sim.channel != NULL:
                lost[i] = sim.channel[i].n_lost
                lost_bytes[i] = sim.channel[i].n_lost_bytes
                lost_pauses[i] = sim.channel[i].n_lost_pause
                down[i] = sim.channel[i].n_down
                down_bytes[i] = sim.channel[i].n_down_bytes
            for c in range(N_CLASS if i >= first else 0):
                g = &sim.group[i * N_CLASS + c]
                at = object_index(sim, i, c, 0)
                queue[i, c] = since_start(sim, at + QUEUE,
                                          sim.queue[i * N_CLASS + c].watermark_bytes)
                pg[i, c] = since_start(sim, at + PG_SHARED, g.watermark_bytes)
                headroom[i, c] = since_start(sim, at + PG_HEADROOM, g.headroom_watermark_bytes)
        self._queue_times(out["queue_byte_ps"])
        return out

    def _queue_times(self, double[::1] byte_ps):
        """Time integral of the bytes of every switch port up to now."""
        cdef int32_t i, port, c
        cdef Switch* sw
        cdef wide total
        cdef wide* held
        for i in range(self.sim.n_switch):
            sw = &self.sim.switches[i]
            held = self._held(sw)
            for port in range(sw.n_port):
                total = 0
                for c in range(N_CLASS):
                    total += held[port * N_CLASS + c]
                byte_ps[sw.port_start + port] = <double>total
            free(held)

    cdef wide* _held(self, Switch* sw) except NULL:
        """Time integrals of a switch's queues, then of its groups; to be freed."""
        cdef int64_t n = sw.n_port * N_CLASS
        cdef wide* held = <wide*>malloc(2 * n * sizeof(wide) + 1)
        if held == NULL:
            raise MemoryError("engine: no memory for the watermarks")
        held_byte_ps(&self.sim, sw, self.now_ps, held, held + n)
        return held

    cdef int64_t _paused(self, int32_t port):
        """Time a port has been paused up to now, summed over its classes, ps."""
        cdef PortCold* cold = &self.sim.cold[port]
        cdef int64_t total = cold.paused_ps
        cdef int c
        for c in range(N_CLASS):
            if (self.sim.port[port].paused >> c) & 1:
                total += self.now_ps - cold.paused_since_ps[c]
        return total

    def switches(self):
        """Counters of every switch: `rows.SWITCH_COUNTERS`."""
        cdef int32_t i
        cdef Sim* sim = &self.sim
        cdef Switch* sw
        out = {name: np.zeros(sim.n_switch, dtype=np.int64) for name in R.SWITCH_COUNTERS}
        cdef int64_t[::1] shared = out["pool_watermark_bytes"]
        cdef int64_t[::1] headroom = out["headroom_pool_watermark_bytes"]
        for i in range(sim.n_switch):
            sw = &sim.switches[i]
            shared[i] = since_start(sim, pool_index(sim, sw, POOL_SHARED),
                                    sw.pool_watermark_bytes)
            headroom[i] = since_start(sim, pool_index(sim, sw, POOL_HEADROOM),
                                      sw.headroom_watermark_bytes)
        return out

    def watermarks(self, int64_t end_ps):
        """Every object that has held a byte: `rows.WATERMARK_ROW`, in `rows.WATERMARK_ORDER`.

        Parameters
        ----------
        end_ps : int
            Simulated time: p99 is over the sampling instants before it.
        """
        cdef Sim* sim = &self.sim
        cdef int64_t n = 0, every = sim.measure_every_ps
        cdef int64_t n_instant = (end_ps - 1) // every if every and end_ps > 0 else 0
        cdef int32_t i
        parts = [np.empty(0, dtype=R.WATERMARK_ROW)]
        for i in range(sim.n_switch):
            parts.append(self._watermarks_of(&sim.switches[i], n_instant))
        out = np.concatenate(parts)
        return out[np.lexsort([out[name] for name in reversed(R.WATERMARK_ORDER)])]

    cdef object _watermarks_of(self, Switch* sw, int64_t n_instant):
        """Rows of one switch."""
        cdef Sim* sim = &self.sim
        cdef int32_t port, c, what
        cdef int64_t n = 0, at, width = sw.n_port * N_CLASS
        cdef wide* held = self._held(sw)
        cdef wide shared = 0, headroom = 0, part
        cdef bint reserved = False
        out = np.zeros(N_PORT_OBJECT * width + 2, dtype=R.WATERMARK_ROW)
        cdef WatermarkRow* row = <WatermarkRow*><uintptr_t>out.ctypes.data
        for port in range(sw.port_start, sw.port_start + sw.n_port):
            for c in range(N_CLASS):
                at = (port - sw.port_start) * N_CLASS + c
                part = headroom_time(sim, port * N_CLASS + c, self.now_ps)
                headroom += part
                shared += held[width + at] - part
                for what in range(N_PORT_OBJECT):
                    if watermark_row(sim, self.threads, sw, what, port, c, n_instant, &row[n]):
                        row[n].byte_ps = <double>(
                            held[at] if what == QUEUE else
                            held[width + at] - part if what == PG_SHARED else part)
                        n += 1
        free(held)
        for c in range(N_CLASS):
            reserved |= sw.reserved_bytes[c] != 0
        if watermark_row(sim, self.threads, sw, POOL_SHARED, -1, -1, n_instant, &row[n]):
            row[n].byte_ps = <double>shared
            if reserved:
                row[n].byte_ps = (<double>(<wide>sw.measured_bytes * sim.measure_every_ps)
                                  if sim.measure_every_ps else -1.0)
            n += 1
        if watermark_row(sim, self.threads, sw, POOL_HEADROOM, -1, -1, n_instant, &row[n]):
            row[n].byte_ps = <double>headroom
            n += 1
        return out[:n].copy()

    def totals(self):
        """Sums over the whole simulation: `rows.TOTALS`.

        Raises
        ------
        EngineError
            Packets put in are not packets delivered, dropped, in flight and queued.
        """
        cdef Sim* sim = &self.sim
        cdef int32_t i, t
        cdef int64_t hops = 0, flight = 0, queued = 0, paused = 0
        cdef Totals* s
        names = [name for name in R.TOTALS]
        out = dict.fromkeys(names, 0)
        for i in range(sim.n_port):
            hops += sim.port[i].n_tx
            flight += <uint32_t>(sim.tx[i].tail - sim.rx[sim.cold[i].peer].head)
            paused += self._paused(i)
        for i in range(sim.n_host):
            queued += sim.hosts[i].pool.n_used
        for i in range(sim.n_switch):
            queued += sim.switches[i].pool.n_used
        for t in range(self.n_thread):
            s = &self.threads[t].totals
            for name, value in (
                ("data_packets", s.data), ("ack_packets", s.ack), ("nack_packets", s.nack),
                ("cnp_packets", s.cnp), ("retransmitted_packets", s.retransmitted),
                ("delivered_packets", s.delivered), ("dropped_packets", s.dropped),
                ("dropped_lossless_packets", s.dropped_lossless), ("lost_packets", s.lost),
                ("down_packets", s.down), ("unrouted_packets", s.unrouted),
                ("flushed_packets", s.flushed),
                ("dropped_watchdog_packets", s.dropped_watchdog),
                ("marked_packets", s.marked),
                ("out_of_order_packets", s.out_of_order), ("duplicate_packets", s.duplicate),
                ("stale_packets", s.stale), ("timeouts", s.timeouts),
                ("pause_frames", s.pause_frames), ("resume_frames", s.resume_frames),
                ("flows_delivered", s.flows_delivered), ("flows_finished", s.flows_finished),
                ("flows_failed", s.flows_failed), ("events", s.events),
            ):
                out[name] += value
        out |= {"packet_hops": hops, "in_flight_packets": flight, "queued_packets": queued,
                "paused_ps": paused, "flows_submitted": self.n_submitted}
        injected = (out["data_packets"] + out["ack_packets"] + out["nack_packets"]
                    + out["cnp_packets"])
        gone = out["delivered_packets"] + sum(
            out[f"{cause}_packets"] for cause in R.LOSSES)
        if injected != gone + flight + queued:
            raise EngineError(
                f"broken audit: {injected} packets put in, {out['delivered_packets']} delivered, "
                f"{gone - out['delivered_packets']} dropped or lost, "
                f"{flight} in flight, {queued} queued")
        return out

    def unfinished(self):
        """Messages not finished and what each waits for: `rows.UNFINISHED_ROW`, by message."""
        cdef int32_t i, t
        cdef uint32_t k
        cdef int64_t j
        cdef UnfinishedRow row
        cdef Leftover* left
        found = []
        leftovers = {}
        for i in range(self.sim.n_host):
            for k in range(self.sim.hosts[i].send_capacity):
                if self.sim.hosts[i].send[k].conn != NIL:
                    send_waiting(&self.sim, &self.sim.hosts[i], &self.sim.hosts[i].send[k],
                                 self.now_ps, &row)
                    found.append(_unfinished_tuple(&row))
        for t in range(self.n_thread):
            for j in range(self.threads[t].leftovers.n):
                left = &(<Leftover*>self.threads[t].leftovers.data)[j]
                leftovers[left.conn] = left.epsn
        for t in range(self.n_thread):
            for j in range(self.threads[t].failed.n):
                row = (<UnfinishedRow*>self.threads[t].failed.data)[j]
                # one that is neither there nor left over was whole when it was forgotten
                epsn = leftovers.get(row.flow, NIL)
                row.delivered_bytes = min(row.size_bytes,
                                          recv_epsn(&self.sim.hosts[row.dst], row.flow, epsn)
                                          * self.sim.mtu_bytes)
                found.append(_unfinished_tuple(&row))
        return np.array(sorted(found), dtype=R.UNFINISHED_ROW)

    def waits(self):
        """Groups in XOFF and the paused ports that they wait for: `rows.WAITS_ROW`.

        Only groups of which nothing can leave, or come, by itself (semantics 6.1).
        """
        cdef int32_t i, c
        cdef Switch* sw
        cdef uint8_t[:, ::1] marks
        parts = [np.empty(0, dtype=R.WAITS_ROW)]
        for i in range(self.sim.n_switch):
            sw = &self.sim.switches[i]
            for c in range(N_CLASS if sw.n_xoff else 0):
                if not (sw.lossless >> c) & 1:
                    continue
                found = np.zeros((sw.n_port, sw.n_port), dtype=np.uint8)
                marks = found
                switch_waits(&self.sim, sw, c, &marks[0, 0])
                pairs = np.argwhere(found)
                part = np.empty(len(pairs), dtype=R.WAITS_ROW)
                part["node"], part["klass"] = sw.node, c
                part["in_port"], part["out_port"] = (sw.port_start + pairs).T
                parts.append(part)
        return np.concatenate(parts)

    @property
    def failure(self):
        """The earliest failing policy call after PLUGIN_FAILED, None otherwise.

        A dict of flow, time_ps, hook, ctx, state.
        """
        cdef int t
        cdef Failure* f = NULL
        cdef Failure* g
        for t in range(self.n_thread):
            g = &self.threads[t].failure
            if g.time_ps != FOREVER and (f == NULL or (g.time_ps, g.node) < (f.time_ps, f.node)):
                f = g
        if f == NULL:
            return None
        return {"flow": f.flow, "time_ps": f.time_ps, "hook": HOOKS[f.hook],
                "ctx": (<char*>&f.ctx)[:sizeof(Ctx)],
                "state": (<char*>f.state)[:self.plan.congestion.state_dtype.itemsize]}

    @property
    def moved_ps(self):
        """Time of the last event that was not link control, ps."""
        return self._activity()

    @property
    def threads_used(self):
        """Threads that share the nodes of a window."""
        return self.n_thread

    # --------------------------------------------------------------------------------------- saving

    def save(self):
        """The whole state as bytes, between two calls of `run` and after `drain`.

        Raises
        ------
        EngineError
            Rows have not been drained, or a policy has failed.
        MemoryError
        """
        cdef Stream stream
        if self._after() >= 0 or any(len(a) for a in self.drain().values()):
            raise EngineError("save: drain the rows first; a failed run cannot be saved")
        memset(&stream, 0, sizeof(Stream))
        stream.writing = True
        self._exchange(&stream)
        data = b"" if stream.failed else (<char*>stream.data)[:stream.n]
        stream_close(&stream)
        if not data:
            raise MemoryError("engine: no memory to save the state")
        return self.plan.digest.encode() + _seal(data) + data

    @classmethod
    def restore(cls, plan, bytes data, **options):
        """Engine that goes on from `save`; `options` as for a new one (threads, sampling, log).

        Raises
        ------
        EngineError
            The bytes were saved from another plan, or are not what was saved.
        """
        cdef Engine engine = cls(plan, **options)
        cdef Stream stream
        head = plan.digest.encode()
        if data[:len(head)] != head:
            raise EngineError("restore: saved from another plan (or by another version)")
        seal, body = data[len(head):len(head) + SEAL_BYTES], data[len(head) + SEAL_BYTES:]
        if seal != _seal(body):
            raise EngineError("restore: the saved state is cut short or damaged")
        memset(&stream, 0, sizeof(Stream))
        stream.data = <char*>body
        stream.capacity = len(body)
        engine._exchange(&stream)
        if stream.failed or stream.n != stream.capacity:
            raise EngineError("restore: the saved state is of another version")
        return engine

    cdef void _exchange(self, Stream* stream):
        """Write the state to a stream, or read it; thread 0 takes over the others' sums."""
        cdef int t
        cdef int64_t* own[4]
        for t in range(1, self.n_thread):
            if not thread_merge(&self.threads[0], &self.threads[t]):
                stream.failed = True
        own[:] = [&self.now_ps, &self.n_window, &self.n_submitted, &self.cleared_ps]
        sim_exchange(stream, &self.sim, &self.threads[0], own, 4)


def struct_bytes():
    """Memory of an idle engine and of what moves in it, bytes: docs/performance.md.

    Returns
    -------
    dict of str to int
        "host" and "host_port", "switch" and "switch_port" (a port with its two link directions,
        packets and control), "flow" (both halves with table entries and start timer; without the
        policy's state and bitmaps), "packet_on_link", "packet_in_queue".
    """
    cdef int64_t port = sizeof(Port) + sizeof(PortCold) + 2 * (sizeof(LinkTx) + sizeof(LinkRx))
    return {
        "host": sizeof(Host) + sizeof(int64_t) + sizeof(int32_t),
        "host_port": port + sizeof(HostPort),
        "switch": sizeof(Switch) + sizeof(int64_t) + sizeof(int32_t),
        "switch_port": port + N_CLASS * (sizeof(Queue) + sizeof(Group) + sizeof(HeadroomTime)
                                         + N_PORT_OBJECT * sizeof(void*)),
        "flow": sizeof(SendHalf) + sizeof(RecvHalf) + 4 * 2 * sizeof(uint32_t) + sizeof(Timer),
        "packet_on_link": sizeof(Packet),
        "packet_in_queue": sizeof(Slot),
    }


cdef bytes _seal(data):
    """Digest of a saved state, which the engine would trust to the byte."""
    return blake2b(data, digest_size=SEAL_BYTES).digest()


cdef tuple _unfinished_tuple(UnfinishedRow* row):
    """Fields in the order of `rows.UNFINISHED_ROW`."""
    return (row.flow, row.until_ps, row.delivered_bytes, row.size_bytes,
            row.src, row.dst, row.port, row.wait)
