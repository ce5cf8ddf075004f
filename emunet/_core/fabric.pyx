"""What a simulation is made of: the structs of nodes, ports and threads, filled in from a Plan."""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free

from math import gcd, log1p

import numpy as np

from emunet._core import MOST_THREADS

from emunet._core.faults cimport change_arm
from emunet._core.rng cimport draw, purpose_key
from emunet._core.sim cimport node_due, sim_close, thread_close, thread_init
from emunet._core.types cimport *
from emunet._core.watermark cimport n_object

HOOKS = ("start", "ack", "cnp", "loss", "timer")


cdef void* _array(int64_t n, size_t size) except NULL:
    """Zeroed memory for n items of `size` bytes; at least one, so that it is never NULL."""
    cdef void* p = calloc(n if n > 0 else 1, size)
    if p == NULL:
        raise MemoryError(f"engine: no memory for {n} x {size} bytes")
    return p


cdef class Fabric:
    """Base of the engine: takes memory, loads the Plan, gives the memory back.

    The parameters are those of `emunet._core.engine.Engine`.
    """

    def __cinit__(
        self, plan, *, int threads=1, int64_t window_ps=0, int64_t sample_every_ps=0,
        sample_port_mask=None, bint log_events=False, event_filter=None,
        int64_t measure_every_ps=0, int64_t periodic_ps=0, clear_user_ps=(),
        clear_persistent_ps=()
    ):
        cdef int t
        if threads < 1 or threads > MOST_THREADS:
            raise ValueError(f"threads: {threads}; allowed are 1 to {MOST_THREADS}")
        if window_ps < 0 or window_ps > plan.lookahead_ps:
            raise ValueError(f"window_ps: {window_ps}; "
                             f"allowed are 0 to the lookahead of {plan.lookahead_ps}")
        self.plan = plan
        self.keep = []
        self.window_ps = window_ps or plan.lookahead_ps
        self.n_thread = threads
        self.threads = <Thread*>_array(threads, sizeof(Thread))
        for t in range(threads):
            thread_init(&self.threads[t])
        self._load_scalars(log_events, event_filter)
        self._load_nodes()
        self._load_ports()
        self._load_marks()
        self._load_channels()
        self._load_changes()
        self._load_policy()
        self._load_samples(sample_every_ps, sample_port_mask)
        self._load_watermarks(measure_every_ps, periodic_ps, clear_user_ps, clear_persistent_ps)

    def __dealloc__(self):
        cdef int t
        if self.sim.tx != NULL and self.sim.host_port != NULL:
            sim_close(&self.sim)
        if self.threads != NULL:
            for t in range(self.n_thread):
                thread_close(&self.threads[t])
        free(self.threads)
        free(self.active)
        free(self.sim.port)
        free(self.sim.cold)
        free(self.queue_memory)
        free(self.group_memory)
        free(self.deficit_memory)
        free(self.sim.channel)
        free(self.headroom_memory)
        free(self.watch_memory)
        free(self.sim.tally)
        free(self.sim.peak)
        free(self.sim.tx)
        free(self.sim.rx)
        free(self.sim.switches)
        free(self.sim.hosts)
        free(self.sim.host_port)
        free(self.sim.due_ps)
        free(self.sim.block_due_ps)

    # ---------------------------------------------------------------------------------------- setup

    cdef void* _pin(self, name, dtype) except NULL:
        """Address of a plan array, kept alive."""
        array = np.ascontiguousarray(getattr(self.plan, name), dtype=dtype)
        if array.size == 0:
            array = np.zeros(1, dtype=dtype)
        self.keep.append(array)
        return <void*><uintptr_t>array.ctypes.data

    cdef object _copy(self, name, dtype):
        """A plan array that memoryviews can take: theirs are read-only."""
        return np.ascontiguousarray(getattr(self.plan, name), dtype=dtype).copy()

    def _load_scalars(self, log_events, event_filter):
        cdef Sim* sim = &self.sim
        plan = self.plan
        sim.n_host = plan.n_host
        sim.n_node = plan.n_node
        sim.n_switch = sim.n_node - sim.n_host
        sim.n_port = plan.n_port
        if sim.n_host >= 1 << 24:
            raise ValueError(f"plan: {sim.n_host} hosts; the engine addresses {(1 << 24) - 1}")
        if not 0 < plan.mtu_bytes <= 65_000:
            raise ValueError(f"plan: mtu_bytes {plan.mtu_bytes}; a frame has at most 65,535 bytes")
        window = plan.sr_window_packets
        if not 64 <= window <= MOST_SR_WINDOW or window & (window - 1):
            raise ValueError(f"plan: sr_window_packets {window}; "
                             f"a power of two from 64 to {MOST_SR_WINDOW} is needed")
        sim.mtu_bytes = plan.mtu_bytes
        sim.rto_ps = plan.rto_ps
        if plan.linger_ps < plan.lookahead_ps:
            raise ValueError(f"plan: linger_ps {plan.linger_ps}; "
                             f"at least the lookahead of {plan.lookahead_ps} is needed")
        sim.linger_ps = plan.linger_ps
        sim.cnp_interval_ps = plan.cnp_interval_ps
        sim.ack_every = plan.ack_every
        sim.max_retries = plan.max_retries
        sim.sr_window = plan.sr_window_packets
        sim.sr_reorder = plan.sr_reorder_packets
        sim.spray = plan.path == 1
        sim.selective = plan.recovery == 1
        sim.cnp_class = plan.cnp_class
        sim.ties_by_port = plan.ties == 1
        seed = plan.seed & 0xFFFFFFFFFFFFFFFF
        sim.key_tie = purpose_key(seed, 1)
        sim.key_mark = purpose_key(seed, 3)
        sim.key_entropy = purpose_key(seed, 4)
        sim.key_spray = purpose_key(seed, 5)
        sim.key_loss = purpose_key(seed, 9)
        sim.log_on = log_events
        sim.log_kinds, sim.log_flow_lo, sim.log_flow_hi = (
            (0xFFFF, -1, FOREVER) if event_filter is None else event_filter)
        sim.window = 1

    cdef void _load_route(self, Route* route, int32_t node):
        """A node's part of the plan's routes, with the salt of its hash."""
        cdef int64_t block
        plan = self.plan
        block = max(1, plan.node_block[node])
        route.kind = plan.node_route_kind[node]
        route.host_lo = plan.node_host_lo[node]
        route.host_hi = plan.node_host_hi[node]
        route.block = block
        route.block_shift = int(block).bit_length() - 1 if block & (block - 1) == 0 else -1
        route.down_start = plan.node_down_start[node]
        route.down_par = plan.node_down_par[node]
        route.up_start = plan.node_up_start[node]
        route.up_count = plan.node_up_count[node]
        route.row = plan.node_table_row[node]
        route.salt = draw(purpose_key(plan.seed & 0xFFFFFFFFFFFFFFFF, 2), <uint64_t>node, 0)

    def _load_nodes(self):
        cdef Sim* sim = &self.sim
        cdef int32_t i, c
        cdef Switch* sw
        cdef Host* h
        plan = self.plan
        sim.node_port_start = <int32_t*>self._pin("node_port_start", np.int32)
        sim.port_node = <int32_t*>self._pin("port_node", np.int32)
        sim.host_rack = <int32_t*>self._pin("host_rack", np.int32)
        sim.route_set = <int32_t*>self._pin("route_set", np.int32)
        sim.set_start = <int32_t*>self._pin("set_start", np.int32)
        sim.set_port = <int32_t*>self._pin("set_port", np.int32)
        sim.hosts = <Host*>_array(sim.n_host, sizeof(Host))
        sim.switches = <Switch*>_array(sim.n_switch, sizeof(Switch))
        for i in range(sim.n_host):
            h = &sim.hosts[i]
            h.node = i
            h.port_start = sim.node_port_start[i]
            h.n_port = sim.node_port_start[i + 1] - h.port_start
            if h.n_port > 255:
                raise ValueError(f"plan: host {i} has {h.n_port} ports; the engine allows 255")
            h.send_free = h.recv_free = h.pool.free = NIL
            self._load_route(&h.route, i)
        for i in range(sim.n_switch):
            sw = &sim.switches[i]
            sw.node = sim.n_host + i
            sw.port_start = sim.node_port_start[sw.node]
            sw.n_port = sim.node_port_start[sw.node + 1] - sw.port_start
            if sw.n_port > 1 << 16:
                raise ValueError(f"plan: switch {i} has {sw.n_port} ports; "
                                 f"the engine allows {1 << 16}")
            sw.shared_bytes = plan.switch_shared_bytes[i]
            sw.xon_offset_bytes = plan.switch_xon_offset_bytes[i]
            sw.detect_ps = plan.switch_watchdog_detect_ps[i]
            sw.restore_ps = plan.switch_watchdog_restore_ps[i]
            sw.forward = plan.switch_watchdog_forward[i]
            sw.lossless = plan.switch_lossless[i]
            sw.headroom_limit_bytes = plan.switch_headroom_bytes[i]
            sw.cell_bytes = plan.switch_cell_bytes[i]
            sw.pool.free = NIL
            sw.drained_ps = -1
            for c in range(N_CLASS):
                sw.class_of[c] = plan.switch_class_of[i, c]
                sw.reserved_bytes[c] = plan.switch_reserved_bytes[i, c]
                sw.group_alpha[c] = plan.switch_group_alpha[i, c]
                sw.queue_alpha[c] = plan.switch_queue_alpha[i, c]
                sw.group_limit_bytes[c] = plan.switch_group_limit_bytes[i, c]
                sw.queue_limit_bytes[c] = plan.switch_queue_limit_bytes[i, c]
                sw.quantum_bytes[c] = plan.switch_quantum_bytes[i, c]
                sw.group_limited |= (sw.group_limit_bytes[c] < FOREVER) << c
                sw.queue_limited |= (sw.queue_limit_bytes[c] < FOREVER) << c
                sw.strict |= (sw.quantum_bytes[c] == 0) << c
            self._load_route(&sw.route, sw.node)
        sim.n_block = (sim.n_node + 63) // 64
        sim.due_ps = <int64_t*>_array(sim.n_node, sizeof(int64_t))
        sim.block_due_ps = <int64_t*>_array(sim.n_block, sizeof(int64_t))
        self.active = <int32_t*>_array(sim.n_node, sizeof(int32_t))
        for i in range(sim.n_node):
            sim.due_ps[i] = FOREVER
        for i in range(sim.n_block):
            sim.block_due_ps[i] = FOREVER

    def _load_ports(self):
        cdef Sim* sim = &self.sim
        cdef int32_t i, c, peer, first = sim.node_port_start[sim.n_host]
        cdef Port* p
        cdef PortCold* cold
        cdef int64_t[::1] rates = self._copy("port_rate_bps", np.int64)
        cdef int64_t[::1] delays = self._copy("port_delay_ps", np.int64)
        cdef int64_t[::1] latency = self._copy("port_rx_latency_ps", np.int64)
        cdef int64_t[::1] pause_latency = self._copy("port_pause_latency_ps", np.int64)
        cdef int32_t[::1] peers = self._copy("port_peer", np.int32)
        cdef int64_t[::1] headroom = self._copy("port_headroom_bytes", np.int64)
        sim.port = <Port*>_array(sim.n_port, sizeof(Port))
        sim.cold = <PortCold*>_array(sim.n_port, sizeof(PortCold))
        sim.host_port = <HostPort*>_array(first, sizeof(HostPort))
        # hosts' ports come first, without queues and groups: these arrays begin at the switch ports
        self.queue_memory = <Queue*>_array((sim.n_port - first) * N_CLASS, sizeof(Queue))
        self.group_memory = <Group*>_array((sim.n_port - first) * N_CLASS, sizeof(Group))
        self.headroom_memory = <HeadroomTime*>_array((sim.n_port - first) * N_CLASS,
                                                     sizeof(HeadroomTime))
        sim.queue = self.queue_memory - first * N_CLASS
        sim.group = self.group_memory - first * N_CLASS
        sim.headroom = self.headroom_memory - first * N_CLASS
        if np.any(self.plan.switch_quantum_bytes):
            self.deficit_memory = <int64_t*>_array((sim.n_port - first) * N_CLASS, sizeof(int64_t))
            sim.deficit = self.deficit_memory - first * N_CLASS
        if np.any(self.plan.switch_watchdog_detect_ps):
            self.watch_memory = <Watch*>_array((sim.n_port - first) * N_CLASS, sizeof(Watch))
            sim.watch = self.watch_memory - first * N_CLASS
            for i in range((sim.n_port - first) * N_CLASS):
                self.watch_memory[i].due_ps = FOREVER
        sim.tx = <LinkTx*>_array(2 * sim.n_port, sizeof(LinkTx))
        sim.rx = <LinkRx*>_array(2 * sim.n_port, sizeof(LinkRx))
        for i in range(sim.n_port):
            p = &sim.port[i]
            cold = &sim.cold[i]
            peer = peers[i]
            p.next_start_ps = p.tx_end_ps = FOREVER
            common = gcd(8_000_000_000_000, rates[i])
            p.ser_n = 8_000_000_000_000 // common
            p.ser_d = rates[i] // common
            p.flight_ps = delays[i] + latency[peer]
            cold.peer = peer
            sim.tx[i].rx = peer
            sim.tx[sim.n_port + i].rx = sim.n_port + peer
            cold.rate_bps = <double>rates[i]
            cold.pause_flight_ps = delays[i] + pause_latency[peer]
            cold.pause_ps = PAUSE_QUANTA * 512 * 10 ** 12 // int(rates[i])
            cold.headroom_bytes = headroom[i]
            self.hold_ps = max(self.hold_ps, 2 * cold.pause_ps)
            for c in range(N_CLASS):
                cold.pause_until_ps[c] = FOREVER
                if i >= first:
                    sim.group[i * N_CLASS + c].refresh_ps = FOREVER
            if i < first:
                sim.host_port[i].departure_ps = FOREVER
            sim.rx[i].head_ps = sim.rx[sim.n_port + i].head_ps = FOREVER

    def _load_marks(self):
        """When and above what ports mark."""
        cdef Sim* sim = &self.sim
        cdef int32_t i
        cdef PortCold* cold
        cdef int64_t[::1] kmin = self._copy("port_ecn_kmin_bytes", np.int64)
        cdef int64_t[::1] kmax = self._copy("port_ecn_kmax_bytes", np.int64)
        cdef int64_t low, high
        cdef int64_t[::1] tmin = self._copy("port_ecn_tmin_ps", np.int64)
        cdef int64_t[::1] tmax = self._copy("port_ecn_tmax_ps", np.int64)
        cdef uint8_t[::1] when = self._copy("port_ecn_when", np.uint8)
        cdef double[::1] pmax = self._copy("port_ecn_pmax", np.float64)
        sim.arrivals_seen = sim.log_on or bool(np.any(self.plan.port_ecn_when == MARK_ENQUEUE))
        for i in range(sim.n_port):
            cold = &sim.cold[i]
            cold.mark_when = when[i]
            low, high = kmin[i], kmax[i]
            if when[i] == MARK_SOJOURN:
                low, high = tmin[i], tmax[i]
            sim.port[i].kmin_bytes = (low if when[i] == MARK_DEQUEUE
                                      else -1 if when[i] == MARK_SOJOURN else FOREVER)
            cold.mark_above = low
            cold.kmax_bytes = high
            cold.mark_slope = pmax[i] / <double>(high - low) if high > low else 0.0

    def _load_channels(self):
        """Links that lose frames or are down, if there are any."""
        cdef Sim* sim = &self.sim
        cdef int32_t i
        cdef Channel* ch
        plan = self.plan
        sim.n_change = len(plan.change_ps)
        if not (np.any(plan.port_loss_end_ps) or len(plan.down_from_ps) or sim.n_change):
            return
        sim.down_start = <int32_t*>self._pin("port_down_start", np.int32)
        sim.down_from_ps = <int64_t*>self._pin("down_from_ps", np.int64)
        sim.down_until_ps = <int64_t*>self._pin("down_until_ps", np.int64)
        sim.channel = <Channel*>_array(sim.n_port, sizeof(Channel))
        for i in range(sim.n_port):
            ch = &sim.channel[i]
            ch.start_ps = plan.port_loss_start_ps[i]
            ch.end_ps = plan.port_loss_end_ps[i]
            ch.loss_good, ch.loss_bad = plan.port_loss[i]
            ch.to_bad, ch.to_good = plan.port_loss_change[i]
            ch.bit_log = log1p(-plan.port_bit_error[i])
            ch.delay_ps = plan.port_delay_ps[i]
            ch.next_down = sim.down_start[i]

    def _load_changes(self):
        """What nodes change when, if anything: each waits for its first change."""
        cdef Sim* sim = &self.sim
        cdef int32_t node
        if not sim.n_change:
            return
        sim.change_start = <int32_t*>self._pin("node_change_start", np.int32)
        sim.change_ps = <int64_t*>self._pin("change_ps", np.int64)
        sim.change_kind = <uint8_t*>self._pin("change_kind", np.uint8)
        sim.change_port = <int32_t*>self._pin("change_port", np.int32)
        sim.change_value = <int64_t*>self._pin("change_value", np.int64)
        for node in range(sim.n_node):
            change_arm(sim, self.threads, node, sim.change_start[node])
            if sim.change_start[node] < sim.change_start[node + 1]:
                node_due(sim, node, sim.change_ps[sim.change_start[node]])

    def _load_policy(self):
        cdef Sim* sim = &self.sim
        policy = self.plan.congestion
        if policy is None:
            return
        addresses = policy.addresses()
        self.keep.append(policy)
        for k, name in enumerate(HOOKS):
            sim.hook[k] = <Hook><uintptr_t>(addresses.get(name) or 0)
        sim.cnp_wanted = sim.hook[HOOK_CNP] != NULL
        sim.cc_params = self._pin("cc_params", np.uint8)
        # states are aligned to 8 bytes, whatever the policy's dtype
        sim.cc_state_bytes = (policy.state_dtype.itemsize + 7) // 8 * 8
        if sim.cc_state_bytes > 256:
            raise ValueError(f"policy {policy.name}: a state of {policy.state_dtype.itemsize} "
                             "bytes; at most 256 are allowed")

    def _load_samples(self, int64_t every_ps, mask):
        cdef Sim* sim = &self.sim
        cdef int32_t i, first = sim.node_port_start[sim.n_host]
        if every_ps < 0:
            raise ValueError(f"sample_every_ps: {every_ps}; it must not be negative")
        sim.sample_every_ps = every_ps
        chosen = np.zeros(max(1, sim.n_port), dtype=np.uint8)
        chosen[first:sim.n_port] = 1 if mask is None else np.asarray(mask, dtype=np.uint8)[first:]
        self.keep.append(chosen)
        sim.sample_mask = <uint8_t*><uintptr_t>chosen.ctypes.data
        for i in range(sim.n_switch):
            sim.switches[i].sample_ps = every_ps if every_ps else FOREVER

    def _load_watermarks(self, int64_t measure_every_ps, int64_t periodic_ps, *clears):
        """Memory for what is measured and cleared."""
        cdef Sim* sim = &self.sim
        cdef int32_t i
        if measure_every_ps < 0 or periodic_ps < 0:
            raise ValueError(f"measure_every_ps: {measure_every_ps}, periodic_ps: {periodic_ps}; "
                             "they must not be negative")
        sim.measure_every_ps = measure_every_ps
        self.periodic_ps = periodic_ps
        for i in range(2):
            times = np.unique(np.asarray(clears[i], dtype=np.int64))
            self.n_clear[i] = len(times)
            if len(times) and times[0] <= 0:
                raise ValueError(f"a clear at {times[0]} ps; times are above 0")
            self.keep.append(times)
            self.clears[i] = <int64_t*><uintptr_t>times.ctypes.data
        if measure_every_ps:
            sim.tally = <Tally**>_array(n_object(sim), sizeof(void*))
        if periodic_ps or self.n_clear[0] or self.n_clear[1]:
            sim.peak = <Peak*>_array(n_object(sim), sizeof(Peak))
        sim.clear_ps = FOREVER
        for i in range(sim.n_switch):
            sim.switches[i].measure_ps = measure_every_ps if measure_every_ps else FOREVER
