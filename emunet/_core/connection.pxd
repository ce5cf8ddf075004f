"""Connections of a host: sender and receiver halves, bitmaps, places in ring and pacing heap."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from emunet._core.memory cimport (heap_pop, heap_push, heap_time, rows_add, table_find,
                                  table_remove)
from emunet._core.types cimport (FOREVER, IDLE, NIL, PACED, READY, Host, HostPort, Leftover, Port,
                                 RecvHalf, SendHalf, Sim, Thread, lowest_bit64)

cdef enum:                   # timers of a connection; docs/semantics.md 2.1
    TIMER_START = 0
    TIMER_RTO = 1
    TIMER_CC = 2             # and the next three


cdef inline uint64_t connection_timer(uint32_t conn, int number) noexcept nogil:
    """Order of a connection's timer; the host's pause expiries (port * 8 + class) come first."""
    return (<uint64_t>1 << 40) + (<uint64_t>conn << 3) + <uint64_t>number


cdef inline SendHalf* send_find(Host* h, uint32_t conn) noexcept nogil:
    """Sender half of a connection, NULL if it is gone; the last one found is tried first."""
    cdef uint32_t slot = h.last_send
    if slot < h.send_capacity and h.send[slot].conn == conn:
        return &h.send[slot]
    slot = table_find(&h.send_table, conn)
    if slot == NIL:
        return NULL
    h.last_send = slot
    return &h.send[slot]


cdef inline RecvHalf* recv_find(Host* h, uint32_t conn) noexcept nogil:
    """Receiver half of a connection, NULL if it is gone; the last one found is tried first."""
    cdef uint32_t slot = h.last_recv
    if slot < h.recv_capacity and h.recv[slot].conn == conn:
        return &h.recv[slot]
    slot = table_find(&h.recv_table, conn)
    if slot == NIL:
        return NULL
    h.last_recv = slot
    return &h.recv[slot]


cdef inline void send_free(Host* h, SendHalf* q) noexcept nogil:
    """Give a slot back; its connection is out of the table already."""
    q.conn = NIL
    q.ready_next = h.send_free
    h.send_free = <uint32_t>(q - h.send)


cdef inline void recv_free(Host* h, RecvHalf* r) noexcept nogil:
    """Give a slot back; its connection is out of the table already."""
    r.conn = NIL
    r.src = h.recv_free
    h.recv_free = <uint32_t>(r - h.recv)


cdef inline void recv_forget(Thread* th, Host* h, int64_t now_ps) noexcept nogil:
    """Forget the receiver halves whose time has come, but for what a message given up had."""
    cdef uint32_t conn, slot
    cdef Leftover* left
    while heap_time(&h.releases) <= now_ps:
        conn = <uint32_t>h.releases.items[0].id
        heap_pop(&h.releases)
        slot = table_find(&h.recv_table, conn)
        if slot != NIL:
            table_remove(&h.recv_table, conn)
            if h.recv[slot].epsn < h.recv[slot].n_packet:
                left = <Leftover*>rows_add(th, &th.leftovers)
                if left != NULL:
                    left.conn = conn
                    left.epsn = h.recv[slot].epsn
            recv_free(h, &h.recv[slot])


cdef inline uint32_t psn_expand(uint32_t wire, uint32_t near) noexcept nogil:
    """The PSN nearest to `near` with these low 24 bits."""
    cdef int32_t ahead = <int32_t>((wire - near) << 8) >> 8
    return near + <uint32_t>ahead


cdef inline int64_t payload_before(Sim* sim, SendHalf* q, uint32_t psn) noexcept nogil:
    """Payload of all packets before a PSN."""
    return q.size_bytes if psn >= q.n_packet else <int64_t>psn * sim.mtu_bytes


cdef inline int64_t payload_of(Sim* sim, SendHalf* q, uint32_t psn) noexcept nogil:
    """Payload of one packet, bytes: a whole MTU but for the last."""
    return q.size_bytes - <int64_t>psn * sim.mtu_bytes if psn == q.n_packet - 1 else sim.mtu_bytes


cdef inline int64_t inflight(Sim* sim, SendHalf* q) noexcept nogil:
    """Payload sent and neither acknowledged nor taken for lost, bytes."""
    if sim.selective:
        return q.sr_inflight_bytes
    return payload_before(sim, q, q.next) - payload_before(sim, q, q.una)


cdef inline bint may_send(Sim* sim, SendHalf* q) noexcept nogil:
    """Whether there is a packet to send and the windows allow it; pacing is not asked."""
    if q.gone or not q.started:
        return False
    if sim.selective:
        if q.sr_n_marked == 0 and (q.next >= q.n_packet or q.next - q.una >= sim.sr_window):
            return False
    elif q.next >= q.n_packet:
        return False
    return inflight(sim, q) < q.window_bytes


# ---------------------------------------------------------------------- bitmaps of selective repeat

cdef inline uint64_t* send_acked(Sim* sim, Host* h, SendHalf* q) noexcept nogil:
    """Bitmap of the packets in the window that have been acknowledged."""
    return h.send_bits + <int64_t>(q - h.send) * (2 * (sim.sr_window >> 6))


cdef inline uint64_t* send_marked(Sim* sim, Host* h, SendHalf* q) noexcept nogil:
    """Bitmap of the packets in the window that are taken for lost, to be sent again."""
    return send_acked(sim, h, q) + (sim.sr_window >> 6)


cdef inline uint64_t* recv_seen(Sim* sim, Host* h, RecvHalf* r) noexcept nogil:
    """Bitmap of the packets in the window that have been received."""
    return h.recv_bits + <int64_t>(r - h.recv) * (sim.sr_window >> 6)


cdef inline bint bit_get(Sim* sim, uint64_t* bits, uint32_t psn) noexcept nogil:
    """Bit of a PSN; bitmaps are rings of one window, indexed by the PSN's low bits."""
    cdef uint32_t i = psn & (sim.sr_window - 1)
    return (bits[i >> 6] >> (i & 63)) & 1


cdef inline void bit_set(Sim* sim, uint64_t* bits, uint32_t psn) noexcept nogil:
    cdef uint32_t i = psn & (sim.sr_window - 1)
    bits[i >> 6] |= <uint64_t>1 << (i & 63)


cdef inline void bit_clear(Sim* sim, uint64_t* bits, uint32_t psn) noexcept nogil:
    cdef uint32_t i = psn & (sim.sr_window - 1)
    bits[i >> 6] &= ~(<uint64_t>1 << (i & 63))


cdef inline uint32_t bit_first(Sim* sim, uint64_t* bits, uint32_t start,
                               uint32_t end) noexcept nogil:
    """First PSN in [start, end) whose bit is set, `end` if there is none."""
    cdef uint32_t psn = start, i
    cdef uint64_t word
    while psn < end:
        i = psn & (sim.sr_window - 1)
        word = bits[i >> 6] >> (i & 63)
        if word:
            psn += lowest_bit64(word)
            return psn if psn < end else end
        psn += 64 - (i & 63)
    return end


# -------------------------------------------------------------------------- places of a sender half

cdef inline void host_port_schedule(Sim* sim, int32_t port, int64_t now_ps) noexcept nogil:
    """Next departure instant of a host's port (semantics 4.1)."""
    cdef HostPort* hp = &sim.host_port[port]
    cdef Port* p = &sim.port[port]
    cdef int64_t due
    if (hp.ready_mask | hp.resp_mask) & ~p.paused:
        due = now_ps
    elif hp.paced.n:
        due = hp.paced.items[0].time_ps
    else:
        hp.departure_ps = FOREVER
        return
    hp.departure_ps = due if due > p.busy_until_ps else p.busy_until_ps


cdef inline void ready_push(Sim* sim, Host* h, SendHalf* q) noexcept nogil:
    """To the end of the class's ring."""
    cdef HostPort* hp = &sim.host_port[h.port_start + q.port]
    cdef uint32_t slot = <uint32_t>(q - h.send)
    q.where = READY
    q.ready_next = NIL
    if (hp.ready_mask >> q.klass) & 1:
        h.send[hp.ready_tail[q.klass]].ready_next = slot
    else:
        hp.ready_head[q.klass] = slot
        hp.ready_mask |= 1 << q.klass
    hp.ready_tail[q.klass] = slot


cdef inline SendHalf* ready_pop(Sim* sim, Host* h, HostPort* hp, int klass) noexcept nogil:
    """First of the class's ring, which must not be empty."""
    cdef SendHalf* q = &h.send[hp.ready_head[klass]]
    hp.ready_head[klass] = q.ready_next
    if q.ready_next == NIL:
        hp.ready_mask &= ~(1 << klass)
    q.where = IDLE
    return q


cdef inline void ready_remove(Host* h, HostPort* hp, SendHalf* q) noexcept nogil:
    """Out of the class's ring, in which it is."""
    cdef uint32_t slot = <uint32_t>(q - h.send), before = NIL, at = hp.ready_head[q.klass]
    while at != slot:
        before = at
        at = h.send[at].ready_next
    if before == NIL:
        hp.ready_head[q.klass] = q.ready_next
    else:
        h.send[before].ready_next = q.ready_next
    if q.ready_next == NIL:
        hp.ready_tail[q.klass] = before
    if hp.ready_head[q.klass] == NIL:
        hp.ready_mask &= ~(1 << q.klass)
    q.where = IDLE


cdef inline void paced_push(Sim* sim, Thread* th, Host* h, SendHalf* q) noexcept nogil:
    """Into the port's pacing heap, until `next_send_ps`."""
    q.where = PACED
    heap_push(th, &sim.host_port[h.port_start + q.port].paced, q.next_send_ps, q.conn,
              <uint32_t>(q - h.send))


cdef inline void paced_purge(Host* h, HostPort* hp) noexcept nogil:
    """Drop entries that their connections have given up, so that the first one is valid."""
    cdef SendHalf* q
    while hp.paced.n:
        q = &h.send[hp.paced.items[0].slot]
        if (q.where == PACED and q.conn == hp.paced.items[0].id
                and q.next_send_ps == hp.paced.items[0].time_ps):
            return
        heap_pop(&hp.paced)


cdef inline int64_t send_due(SendHalf* q, double line_bps) noexcept nogil:
    """When the packet after the last one may start, by the present rate."""
    if q.rate_bps >= line_bps:
        return q.paced_from_ps
    return q.paced_from_ps + <int64_t>(<double>q.paced_bytes * 8e12 / q.rate_bps)


cdef inline void send_repace(Sim* sim, Host* h, SendHalf* q, double line_bps) noexcept nogil:
    """The rate has changed: `next_send` moves, and a place in the pacing heap is given up.

    `send_activate`, which follows every hook, places the connection anew.
    """
    if q.paced_bytes == 0:
        return
    q.next_send_ps = send_due(q, line_bps)
    if q.where == PACED:
        q.where = IDLE
        paced_purge(h, &sim.host_port[h.port_start + q.port])


cdef inline void send_activate(Sim* sim, Thread* th, Host* h, SendHalf* q,
                               int64_t now_ps) noexcept nogil:
    """A connection may have become able to send."""
    cdef int32_t port = h.port_start + q.port
    cdef int64_t free_ps
    if q.where == IDLE and may_send(sim, q):
        free_ps = sim.port[port].busy_until_ps
        if q.next_send_ps <= (now_ps if now_ps > free_ps else free_ps):
            ready_push(sim, h, q)
        else:
            paced_push(sim, th, h, q)
        host_port_schedule(sim, port, now_ps)
