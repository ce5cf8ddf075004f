"""The whole simulation: taking and giving memory, one window, its edge, the next window."""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from emunet._core.connection cimport (TIMER_CC, TIMER_RTO, TIMER_START, connection_timer, inflight,
                                      payload_before)
from emunet._core.host cimport host_window
from emunet._core.memory cimport heap_push, rows_move, table_find
from emunet._core.switch cimport port_due, port_sampled, switch_window
from emunet._core.types cimport (CHANGE_BIT, FOREVER, NIL, N_CLASS, WAIT_ACK, WAIT_ACK_LOST,
                                 WAIT_PACING, WAIT_PAUSED, WAIT_START, WAIT_WINDOW, EventRow,
                                 FlowRow, Host, HostPort, Leftover, LinkRx, LinkTx, PeriodicRow,
                                 PfcRow, PortCold, QueueRow, RecvHalf, Release, SendHalf, Sim,
                                 Switch, Table, Thread, Timer, Totals, UnfinishedRow)
from emunet._core.watermark cimport clear_idle, n_object

cdef enum:
    NODES_PER_BLOCK = 64


cdef inline void thread_init(Thread* th) noexcept nogil:
    """Empty row arrays, each of its kind, and no failure."""
    memset(th, 0, sizeof(Thread))
    th.flows.row_bytes = sizeof(FlowRow)
    th.log.row_bytes = sizeof(EventRow)
    th.queues.row_bytes = sizeof(QueueRow)
    th.pfc.row_bytes = sizeof(PfcRow)
    th.periodic.row_bytes = sizeof(PeriodicRow)
    th.releases.row_bytes = sizeof(Release)
    th.failed.row_bytes = sizeof(UnfinishedRow)
    th.leftovers.row_bytes = sizeof(Leftover)
    th.dirty.row_bytes = sizeof(uint32_t)
    th.retired.row_bytes = sizeof(void*)
    th.failure.time_ps = FOREVER
    th.failure.node = FOREVER


cdef inline void thread_close(Thread* th) noexcept nogil:
    """Give back a thread's row arrays, its event heap and the rings that it has replaced."""
    cdef int64_t i
    for i in range(th.retired.n):
        free((<void**>th.retired.data)[i])
    free(th.flows.data)
    free(th.log.data)
    free(th.queues.data)
    free(th.pfc.data)
    free(th.periodic.data)
    free(th.releases.data)
    free(th.failed.data)
    free(th.leftovers.data)
    free(th.dirty.data)
    free(th.retired.data)
    free(th.heap)


cdef inline bint thread_merge(Thread* into, Thread* th) noexcept nogil:
    """Move a thread's sums and what is left of failed flows to another's; False without memory."""
    cdef int64_t i
    cdef int64_t* a = <int64_t*>&into.totals
    cdef int64_t* b = <int64_t*>&th.totals
    if not (rows_move(into, &into.failed, &th.failed)
            and rows_move(into, &into.leftovers, &th.leftovers)):
        return False
    for i in range(<int64_t>(sizeof(Totals) // sizeof(int64_t))):
        a[i] += b[i]
        b[i] = 0
    if th.activity_ps > into.activity_ps:
        into.activity_ps = th.activity_ps
    return True


cdef inline void table_close(Table* table) noexcept nogil:
    """Give back a table's memory."""
    free(table.keys)
    free(table.slots)


cdef inline void sim_close(Sim* sim) noexcept nogil:
    """Give back what hangs on nodes and links (the arrays themselves are the engine's)."""
    cdef int32_t i
    cdef int64_t k
    cdef Host* h
    for i in range(sim.n_host):
        h = &sim.hosts[i]
        free(h.send)
        free(h.recv)
        free(h.cc_state)
        free(h.send_bits)
        free(h.recv_bits)
        table_close(&h.send_table)
        table_close(&h.recv_table)
        free(h.timers.items)
        free(h.releases.items)
        free(h.pool.slots)
    for i in range(sim.node_port_start[sim.n_host] if sim.n_node else 0):
        free(sim.host_port[i].paced.items)
    for i in range(sim.n_switch):
        free(sim.switches[i].pool.slots)
        free(sim.switches[i].timers.items)
    for i in range(2 * sim.n_port):
        free(sim.tx[i].ring)
    if sim.tally != NULL:
        for k in range(n_object(sim)):
            if sim.tally[k] != NULL:
                free(sim.tally[k].counts)
            free(sim.tally[k])


# ---------------------------------------------------------------------------- halves of connections

cdef inline void* grown(Thread* th, void* p, int64_t size) noexcept nogil:
    """Memory of `size` bytes that takes over what p holds; NULL without memory, p stays."""
    cdef void* larger = realloc(p, size)
    if larger == NULL:
        th.no_memory = 1
    return larger


cdef inline SendHalf* send_new(Sim* sim, Thread* th, Host* h) noexcept nogil:
    """A cleared sender half; NULL without memory. Only between windows."""
    cdef uint32_t n, i, words = 2 * (sim.sr_window >> 6), slot
    cdef void* p
    cdef SendHalf* q
    if h.send_free == NIL:
        n = 2 * h.send_capacity if h.send_capacity else 2
        p = grown(th, h.send, n * sizeof(SendHalf))
        if p == NULL:
            return NULL
        h.send = <SendHalf*>p
        if sim.cc_state_bytes:
            p = grown(th, h.cc_state, n * sim.cc_state_bytes)
            if p == NULL:
                return NULL
            h.cc_state = <uint8_t*>p
        if sim.selective:
            p = grown(th, h.send_bits, n * words * sizeof(uint64_t))
            if p == NULL:
                return NULL
            h.send_bits = <uint64_t*>p
        for i in range(h.send_capacity, n):
            h.send[i].conn = NIL
            h.send[i].ready_next = i + 1 if i + 1 < n else NIL
        h.send_free = h.send_capacity
        h.send_capacity = n
    slot = h.send_free
    q = &h.send[slot]
    h.send_free = q.ready_next
    memset(q, 0, sizeof(SendHalf))
    if sim.cc_state_bytes:
        memset(h.cc_state + <int64_t>slot * sim.cc_state_bytes, 0, sim.cc_state_bytes)
    if sim.selective:
        memset(h.send_bits + <int64_t>slot * words, 0, words * sizeof(uint64_t))
    return q


cdef inline RecvHalf* recv_new(Sim* sim, Thread* th, Host* h) noexcept nogil:
    """A cleared receiver half; NULL without memory. Only between windows."""
    cdef uint32_t n, i, words = sim.sr_window >> 6, slot
    cdef void* p
    cdef RecvHalf* r
    if h.recv_free == NIL:
        n = 2 * h.recv_capacity if h.recv_capacity else 2
        p = grown(th, h.recv, n * sizeof(RecvHalf))
        if p == NULL:
            return NULL
        h.recv = <RecvHalf*>p
        if sim.selective:
            p = grown(th, h.recv_bits, n * words * sizeof(uint64_t))
            if p == NULL:
                return NULL
            h.recv_bits = <uint64_t*>p
        for i in range(h.recv_capacity, n):
            h.recv[i].conn = NIL
            h.recv[i].src = i + 1 if i + 1 < n else NIL
        h.recv_free = h.recv_capacity
        h.recv_capacity = n
    slot = h.recv_free
    r = &h.recv[slot]
    h.recv_free = r.src
    memset(r, 0, sizeof(RecvHalf))
    if sim.selective:
        memset(h.recv_bits + <int64_t>slot * words, 0, words * sizeof(uint64_t))
    return r


# ------------------------------------------------------------------------------------------ windows

cdef inline void node_due(Sim* sim, int32_t node, int64_t time_ps) noexcept nogil:
    """A node has work at a time. Only between windows."""
    if time_ps < sim.due_ps[node]:
        sim.due_ps[node] = time_ps
        if time_ps < sim.block_due_ps[node // NODES_PER_BLOCK]:
            sim.block_due_ps[node // NODES_PER_BLOCK] = time_ps


cdef inline void block_refresh(Sim* sim, int32_t block) noexcept nogil:
    """Earliest work of a block anew from its nodes."""
    cdef int32_t i, end = (block + 1) * NODES_PER_BLOCK
    cdef int64_t best = FOREVER
    if end > sim.n_node:
        end = sim.n_node
    for i in range(block * NODES_PER_BLOCK, end):
        if sim.due_ps[i] < best:
            best = sim.due_ps[i]
    sim.block_due_ps[block] = best


cdef inline int64_t sim_due(Sim* sim) noexcept nogil:
    """Time of the earliest work anywhere."""
    cdef int32_t i
    cdef int64_t best = FOREVER
    for i in range(sim.n_block):
        if sim.block_due_ps[i] < best:
            best = sim.block_due_ps[i]
    return best


cdef inline int32_t sim_active(Sim* sim, int32_t* active) noexcept nogil:
    """Nodes with work before the window's end, ascending; how many."""
    cdef int32_t block, i, end, n = 0
    for block in range(sim.n_block):
        if sim.block_due_ps[block] >= sim.window_end_ps:
            continue
        end = (block + 1) * NODES_PER_BLOCK
        if end > sim.n_node:
            end = sim.n_node
        for i in range(block * NODES_PER_BLOCK, end):
            if sim.due_ps[i] < sim.window_end_ps:
                active[n] = i
                n += 1
    return n


cdef inline void node_window(Sim* sim, Thread* th, int32_t node) noexcept nogil:
    """One node's share of a window, and when it has work next."""
    cdef int64_t due = sim.due_ps[node]
    if node < sim.n_host:
        sim.due_ps[node] = host_window(sim, th, &sim.hosts[node], due)
    else:
        sim.due_ps[node] = switch_window(sim, th, &sim.switches[node - sim.n_host], due)


cdef inline void window_run(Sim* sim, Thread* threads, int n_thread, int32_t* active,
                            int32_t n_active) noexcept nogil:
    """One window: nodes one after another, or shared among threads."""
    cdef int32_t i
    if n_thread == 1 or n_active < 2 * n_thread:
        for i in range(n_active):
            node_window(sim, threads, active[i])
    else:
        for i in prange(n_active, num_threads=n_thread, schedule="dynamic", chunksize=8):
            node_window(sim, &threads[threadid()], active[i])


cdef inline void link_publish(Sim* sim, uint32_t link) noexcept nogil:
    """Let the receiver see what the sender has written in this window."""
    cdef LinkTx* tx = &sim.tx[link]
    cdef bint control = link >= <uint32_t>sim.n_port
    cdef LinkRx* rx = &sim.rx[tx.rx]
    cdef int32_t node = sim.port_node[tx.rx - sim.n_port if control else tx.rx]
    cdef uint32_t fresh = tx.tail - rx.tail
    rx.ring = tx.ring
    rx.mask = tx.mask
    rx.tail = tx.tail
    if rx.head_ps == FOREVER:
        rx.head_ps = rx.ring[rx.head & rx.mask].time_ps
        node_due(sim, node, rx.head_ps)
    if control:
        if node < sim.n_host:
            sim.hosts[node].n_control += fresh
        else:
            sim.switches[node - sim.n_host].n_control += fresh


cdef inline void window_edge(Sim* sim, Thread* threads, int n_thread, int32_t* active,
                             int32_t n_active) noexcept nogil:
    """After all nodes: next work of each, links made visible, receiver halves told to go.

    A clear meets the switches that had no work in this window here: nothing happens at them.
    """
    cdef int32_t i, t, block = -1
    cdef int64_t k
    cdef Thread* th
    cdef Release* release
    if sim.clear_ps != FOREVER:
        for i in range(sim.n_switch):
            clear_idle(sim, threads, &sim.switches[i])
    for i in range(n_active):
        if active[i] // NODES_PER_BLOCK != block:
            block = active[i] // NODES_PER_BLOCK
            block_refresh(sim, block)
    for t in range(n_thread):
        th = &threads[t]
        for k in range(th.dirty.n):
            link_publish(sim, (<uint32_t*>th.dirty.data)[k])
        th.dirty.n = 0
        for k in range(th.releases.n):
            release = &(<Release*>th.releases.data)[k]
            heap_push(th, &sim.hosts[release.host].releases, release.time_ps, release.conn, 0)
        th.releases.n = 0
        for k in range(th.retired.n):
            free((<void**>th.retired.data)[k])
        th.retired.n = 0


# ------------------------------------------------------------------------------------------ the end

cdef inline bint host_timer_live(Sim* sim, Host* h, Timer* timer, bint control) noexcept nogil:
    """Whether a listed timer will do something; `control`: pause expiries count."""
    cdef uint32_t slot
    cdef SendHalf* q
    cdef PortCold* cold
    cdef int number = timer.id & 7
    if timer.id >> CHANGE_BIT:
        return False
    if not timer.id >> 40:
        cold = &sim.cold[h.port_start + (timer.id >> 3)]
        return control and cold.pause_until_ps[timer.id & 7] == timer.time_ps
    slot = table_find(&h.send_table, <uint32_t>(timer.id >> 3))
    if slot == NIL:
        return False
    q = &h.send[slot]
    if number == TIMER_START:
        return True
    if number == TIMER_RTO:
        return q.rto_ps != FOREVER
    return q.timer_ps[number - TIMER_CC] == timer.time_ps


cdef inline bint departure_left(Sim* sim, Host* h, int32_t port) noexcept nogil:
    """Whether a host's port has a departure before it; connections that are gone have none."""
    cdef HostPort* hp = &sim.host_port[port]
    cdef uint32_t slot
    cdef int c
    if hp.departure_ps == FOREVER:
        return False
    if hp.paced.n or hp.resp_mask & ~sim.port[port].paused:
        return True
    for c in range(N_CLASS):
        if not ((hp.ready_mask & ~sim.port[port].paused) >> c) & 1:
            continue
        slot = hp.ready_head[c]
        while slot != NIL:
            if not h.send[slot].gone:
                return True
            slot = h.send[slot].ready_next
    return False


cdef inline bint host_left(Sim* sim, Host* h, bint control) noexcept nogil:
    """Whether a host has work; `control`: link control counts."""
    cdef int32_t port
    cdef uint32_t i
    for port in range(h.port_start, h.port_start + h.n_port):
        if sim.rx[port].head_ps != FOREVER or departure_left(sim, h, port):
            return True
        if control and sim.rx[sim.n_port + port].head_ps != FOREVER:
            return True
    for i in range(h.timers.n):
        if host_timer_live(sim, h, &h.timers.items[i], control):
            return True
    return False


cdef inline bint switch_left(Sim* sim, Switch* sw, bint control) noexcept nogil:
    """Whether a switch has work; `control`: link control counts.

    Queued packets of a paused class are no work.
    """
    cdef int32_t port, c
    if sw.n_watch or (control and sw.n_storm):
        return True
    for port in range(sw.port_start, sw.port_start + sw.n_port):
        if sim.rx[port].head_ps != FOREVER or port_due(&sim.port[port]) != FOREVER:
            return True
        if sim.sample_every_ps and port_sampled(sim, port):
            return True
        if not control:
            continue
        if sim.rx[sim.n_port + port].head_ps != FOREVER or sim.port[port].paused:
            return True
        for c in range(N_CLASS):
            if sim.group[port * N_CLASS + c].xoff:
                return True
    return False


cdef inline int64_t start_time(Host* h, uint32_t conn) noexcept nogil:
    """When a listed connection starts, ps; -1 if its start is not listed."""
    cdef uint32_t i
    for i in range(h.timers.n):
        if h.timers.items[i].id == connection_timer(conn, TIMER_START):
            return h.timers.items[i].time_ps
    return -1


cdef inline int64_t recv_epsn(Host* h, uint32_t conn, int64_t gone) noexcept nogil:
    """Expected PSN of a receiver half; `gone` if it has been forgotten."""
    cdef uint32_t slot = table_find(&h.recv_table, conn)
    return h.recv[slot].epsn if slot != NIL else gone


cdef inline void send_waiting(
    Sim* sim, Host* h, SendHalf* q, int64_t now_ps, UnfinishedRow* row
) noexcept nogil:
    """What a sender half waits for: the first WAIT_* that applies (rows.py), and until when."""
    cdef uint32_t epsn = <uint32_t>recv_epsn(&sim.hosts[q.dst], q.conn, q.n_packet)
    cdef int32_t port = h.port_start + q.port
    row.flow = q.conn
    row.until_ps = q.rto_ps if q.rto_ps != FOREVER else -1
    row.delivered_bytes = payload_before(sim, q, epsn)
    row.size_bytes = q.size_bytes
    row.src = h.node
    row.dst = <int32_t>q.dst
    row.port = -1
    if not q.started:
        row.wait = WAIT_START
        row.until_ps = start_time(h, q.conn)
    elif epsn >= q.n_packet:
        row.wait = WAIT_ACK_LOST
    elif inflight(sim, q) >= q.window_bytes:
        row.wait = WAIT_WINDOW
    elif not (q.sr_n_marked or (
            q.next < q.n_packet and (not sim.selective or q.next - q.una < sim.sr_window))):
        row.wait = WAIT_ACK
    elif (sim.port[port].paused >> q.klass) & 1:
        row.wait = WAIT_PAUSED
        row.until_ps = sim.cold[port].pause_until_ps[q.klass]
        row.port = port
    else:
        row.wait = WAIT_PACING
        row.until_ps = q.next_send_ps if q.next_send_ps > now_ps else now_ps


cdef inline bint work_left(Sim* sim, bint control) noexcept nogil:
    """Whether anything is left to do anywhere (semantics 6); overtaken timers are nothing."""
    cdef int32_t i
    for i in range(sim.n_host):
        if host_left(sim, &sim.hosts[i], control):
            return True
    for i in range(sim.n_switch):
        if switch_left(sim, &sim.switches[i], control):
            return True
    return False
