"""Sender half of a connection: sending, acknowledgement, loss, timeout (semantics 4.1, 4.3)."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from emunet._core.channel cimport packet_lost
from emunet._core.congestion cimport policy_call
from emunet._core.connection cimport (TIMER_CC, TIMER_RTO, TIMER_START, bit_clear, bit_first,
                                      bit_get, bit_set, connection_timer, host_port_schedule,
                                      inflight, may_send, paced_purge, paced_push, payload_before,
                                      payload_of, psn_expand, ready_push, send_acked,
                                      send_activate, send_due, send_find, send_free, send_marked)
from emunet._core.memory cimport heap_push, link_push, rows_add, table_remove
from emunet._core.port cimport log_packet, packet_bits, packet_kind, packet_marked, port_serialise
from emunet._core.rng cimport draw
from emunet._core.types cimport (CAUSE_NACK, CAUSE_REORDER, CAUSE_TIMEOUT, CNP, DATA, EV_DEPART,
                                 FAULT_PSN, FLAG_LAST, FLAG_RTX, FOREVER, HOOK_ACK, HOOK_CNP,
                                 HOOK_LOSS, HOOK_START, HOOK_TIMER, IDLE, NACK, NIL, PACED,
                                 SLOT_BYTES, WAIT_FAILED, FlowRow, Host, Packet, Port, Release,
                                 SendHalf, Sim, Thread, UnfinishedRow, check, unlikely)


cdef inline void host_emit(Sim* sim, Thread* th, Host* h, int32_t port, Packet* packet,
                           int64_t start_ps) noexcept nogil:
    """Start a packet's transmission on an idle host port."""
    cdef Port* p = &sim.port[port]
    if unlikely(sim.log_on):
        log_packet(sim, th, start_ps, h.node, port - h.port_start, EV_DEPART, packet, 0)
    if start_ps > th.activity_ps:
        th.activity_ps = start_ps
    p.busy_until_ps = start_ps + port_serialise(p, start_ps, packet.bytes)
    p.n_tx += 1
    p.n_tx_bytes += packet.bytes
    if not (unlikely(sim.channel != NULL) and packet_lost(sim, th, port, packet, start_ps)):
        link_push(sim, th, port, packet, p.busy_until_ps + p.flight_ps)


cdef inline void rto_arm(Sim* sim, Thread* th, Host* h, SendHalf* q, int64_t now_ps) noexcept nogil:
    """(Re)start the retransmission timer; one listed entry follows the deadline lazily."""
    q.rto_ps = now_ps + sim.rto_ps
    if not q.rto_listed:
        q.rto_listed = 1
        heap_push(th, &h.timers, q.rto_ps, connection_timer(q.conn, TIMER_RTO),
                  <uint32_t>(q - h.send))


cdef inline uint32_t frame_bytes(int64_t payload_bytes, bint first) noexcept nogil:
    """WRITE data over IPv4: headers, padding, RETH in a message's first packet (semantics 1.1)."""
    cdef int64_t n = 62 + ((payload_bytes + 3) & ~<int64_t>3) + (16 if first else 0)
    return <uint32_t>(n if n > 64 else 64)


cdef inline void send_data(Sim* sim, Thread* th, Host* h, SendHalf* q,
                           int64_t now_ps) noexcept nogil:
    """Put the connection's next data packet on the wire and find its next place."""
    cdef int32_t port = h.port_start + q.port
    cdef uint32_t psn = q.next
    cdef int64_t payload
    cdef double line = sim.cold[port].rate_bps
    cdef uint32_t flags = 0
    cdef Packet packet
    if sim.selective and q.sr_n_marked:
        psn = bit_first(sim, send_marked(sim, h, q), q.una, q.next)
        bit_clear(sim, send_marked(sim, h, q), psn)
        q.sr_n_marked -= 1
    payload = payload_of(sim, q, psn)
    check(th, psn >= q.una and psn < q.n_packet and payload > 0, FAULT_PSN)
    if psn == q.next:
        q.next += 1
    q.sr_inflight_bytes += payload
    if psn < q.sent_end:
        flags |= FLAG_RTX
        q.n_rtx += 1
        th.totals.retransmitted += 1
    else:
        q.sent_end = psn + 1
    if psn == q.n_packet - 1:
        flags |= FLAG_LAST
    packet.time_ps = 0
    packet.conn = q.conn
    packet.dst_bits = packet_bits(q.dst, DATA, q.klass, 0)
    packet.psn_flags = (psn & 0xFFFFFF) | (flags << 24)
    packet.stamp_ns = <uint32_t>(now_ps // 1000)
    packet.key = <uint16_t>(draw(sim.key_spray, q.conn, q.n_sent) >> 48) if sim.spray else q.key
    packet.aux = 0
    packet.bytes = frame_bytes(payload, psn == 0)
    packet.in_port = 0
    q.n_sent += 1
    th.totals.data += 1
    host_emit(sim, th, h, port, &packet, now_ps)
    if q.rto_ps == FOREVER:
        rto_arm(sim, th, h, q, now_ps)
    q.paced_from_ps = now_ps
    q.paced_bytes = packet.bytes + SLOT_BYTES
    q.next_send_ps = send_due(q, line)
    if may_send(sim, q):
        if q.next_send_ps <= sim.port[port].busy_until_ps:
            ready_push(sim, h, q)
        else:
            paced_push(sim, th, h, q)


cdef inline void flow_failed(Sim* sim, Thread* th, Host* h, SendHalf* q) noexcept nogil:
    """Remember a flow given up, for the list of unfinished ones.

    How much its receiver has is not for the sender to know: `Engine.unfinished` looks it up.
    """
    cdef UnfinishedRow* row = <UnfinishedRow*>rows_add(th, &th.failed)
    if row == NULL:
        return
    row.flow = q.conn
    row.until_ps = -1
    row.delivered_bytes = 0
    row.size_bytes = q.size_bytes
    row.src = h.node
    row.dst = <int32_t>q.dst
    row.port = -1
    row.wait = WAIT_FAILED


cdef inline void send_leave(Sim* sim, Thread* th, Host* h, SendHalf* q, int32_t kind,
                            int64_t now_ps) noexcept nogil:
    """Finished or failed: write the row, leave the table, the receiver half goes `linger` later."""
    cdef FlowRow* row = <FlowRow*>rows_add(th, &th.flows)
    cdef Release* release = <Release*>rows_add(th, &th.releases)
    if row == NULL or release == NULL:
        th.flows.n -= row != NULL
        th.releases.n -= release != NULL
        return
    row.time_ps = now_ps
    row.flow = q.conn
    row.node = h.node
    row.kind = kind
    row.retransmitted = q.n_rtx
    row.timeouts = q.n_timeout
    row.nacks = q.n_nack
    row.cnps = q.n_cnp
    row.marked = 0
    row.out_of_order = 0
    row.duplicates = 0
    row.pad = 0
    release.time_ps = now_ps + sim.linger_ps
    release.host = q.dst
    release.conn = q.conn
    table_remove(&h.send_table, q.conn)
    if kind == 1:
        th.totals.flows_finished += 1
    else:
        th.totals.flows_failed += 1
    if kind == 2:
        flow_failed(sim, th, h, q)
    q.gone = 1
    q.conn = NIL
    if q.where == PACED:
        q.where = IDLE
        paced_purge(h, &sim.host_port[h.port_start + q.port])
        host_port_schedule(sim, h.port_start + q.port, now_ps)
    if q.where == IDLE:
        send_free(h, q)


# --------------------------------------------------------------------------------- acknowledgements

cdef inline int64_t ack_gbn(Sim* sim, SendHalf* q, uint32_t e) noexcept nogil:
    """Cumulative acknowledgement up to e; newly acknowledged payload."""
    cdef int64_t acked
    if e <= q.una:
        return 0
    acked = payload_before(sim, q, e) - payload_before(sim, q, q.una)
    q.una = e
    if q.next < e:
        q.next = e
    q.retries = 0
    return acked


cdef inline int64_t ack_one(Sim* sim, Host* h, SendHalf* q, uint32_t psn) noexcept nogil:
    """Note one PSN in [una, next) as received; its payload if that is news."""
    cdef uint64_t* acked = send_acked(sim, h, q)
    cdef uint64_t* marked = send_marked(sim, h, q)
    cdef int64_t payload
    if bit_get(sim, acked, psn):
        return 0
    payload = payload_of(sim, q, psn)
    bit_set(sim, acked, psn)
    if bit_get(sim, marked, psn):
        bit_clear(sim, marked, psn)
        q.sr_n_marked -= 1
    else:
        q.sr_inflight_bytes -= payload
    return payload


cdef inline int64_t ack_sr(Sim* sim, Host* h, SendHalf* q, uint32_t e, uint32_t aux) noexcept nogil:
    """Cumulative plus one selective acknowledgement; newly acknowledged payload."""
    cdef int64_t acked = 0
    cdef uint32_t psn = q.una
    while psn < e:
        acked += ack_one(sim, h, q, psn)
        bit_clear(sim, send_acked(sim, h, q), psn)
        psn += 1
    if e > q.una:
        q.una = e
    if e > q.sr_highest:
        q.sr_highest = e
    if aux != 65535:
        psn = e + aux
        if psn >= q.una and psn < q.next:
            acked += ack_one(sim, h, q, psn)
        if psn + 1 > q.sr_highest:
            q.sr_highest = psn + 1
    if acked > 0:
        q.retries = 0
    return acked


cdef inline bint mark_lost(Sim* sim, Host* h, SendHalf* q, uint32_t psn) noexcept nogil:
    """Mark one PSN for retransmission unless it is acknowledged or marked; whether it was news."""
    if bit_get(sim, send_acked(sim, h, q), psn) or bit_get(sim, send_marked(sim, h, q), psn):
        return False
    bit_set(sim, send_marked(sim, h, q), psn)
    q.sr_n_marked += 1
    q.sr_inflight_bytes -= payload_of(sim, q, psn)
    return True


cdef inline bint loss_by_order(Sim* sim, Host* h, SendHalf* q) noexcept nogil:
    """Mark what was overtaken by more than the tolerated reordering; whether anything was."""
    cdef bint lost = False
    if q.sr_scan < q.una:
        q.sr_scan = q.una
    while q.sr_scan + sim.sr_reorder + 1 < q.sr_highest:
        lost = mark_lost(sim, h, q, q.sr_scan) or lost
        q.sr_scan += 1
    return lost


cdef inline void send_response(Sim* sim, Thread* th, Host* h, Packet* response,
                               int64_t now_ps) noexcept nogil:
    """An ACK, NACK or CNP has reached the sender."""
    cdef SendHalf* q = send_find(h, response.conn)
    cdef uint32_t kind = packet_kind(response), e
    cdef int64_t acked, rtt
    if q == NULL:
        th.totals.stale += 1
        return
    if kind == CNP:
        q.n_cnp += 1
        policy_call(sim, th, h, q, HOOK_CNP, now_ps, 0, 0, 0, 0, -1)
        send_activate(sim, th, h, q, now_ps)
        return
    e = psn_expand(response.psn_flags & 0xFFFFFF, q.una)
    if sim.selective:
        acked = ack_sr(sim, h, q, e, response.aux)
    else:
        acked = ack_gbn(sim, q, e)
    if kind == NACK:
        q.n_nack += 1
    if q.una >= q.n_packet:
        send_leave(sim, th, h, q, 1, now_ps)
        return
    if acked > 0:
        if inflight(sim, q) > 0:
            rto_arm(sim, th, h, q, now_ps)
        else:
            q.rto_ps = FOREVER
    if sim.selective:
        if loss_by_order(sim, h, q):
            policy_call(sim, th, h, q, HOOK_LOSS, now_ps, 0, 0, 0, CAUSE_REORDER, -1)
    elif kind == NACK and q.next > q.una:
        q.next = q.una
        policy_call(sim, th, h, q, HOOK_LOSS, now_ps, 0, 0, 0, CAUSE_NACK, -1)
    if kind != NACK:
        rtt = <int64_t>(<uint32_t>(now_ps // 1000) - response.stamp_ns) * 1000
        policy_call(sim, th, h, q, HOOK_ACK, now_ps, rtt, acked, packet_marked(response), 0, -1)
    send_activate(sim, th, h, q, now_ps)


# ------------------------------------------------------------------------------------------- timers

cdef inline void send_timeout(Sim* sim, Thread* th, Host* h, SendHalf* q,
                              int64_t now_ps) noexcept nogil:
    """The listed retransmission timer: follow the deadline, or act on it."""
    cdef uint32_t psn
    q.rto_listed = 0
    if q.rto_ps == FOREVER:
        return
    if q.rto_ps > now_ps:
        q.rto_listed = 1
        heap_push(th, &h.timers, q.rto_ps, connection_timer(q.conn, TIMER_RTO),
                  <uint32_t>(q - h.send))
        return
    q.rto_ps = FOREVER
    if inflight(sim, q) <= 0:
        return
    if now_ps > th.activity_ps:
        th.activity_ps = now_ps
    q.retries += 1
    q.n_timeout += 1
    th.totals.timeouts += 1
    if q.retries > sim.max_retries:
        send_leave(sim, th, h, q, 2, now_ps)
        return
    if sim.selective:
        for psn in range(q.una, q.next):
            mark_lost(sim, h, q, psn)
        q.sr_scan = q.next
    else:
        q.next = q.una
    policy_call(sim, th, h, q, HOOK_LOSS, now_ps, 0, 0, 0, CAUSE_TIMEOUT, -1)
    send_activate(sim, th, h, q, now_ps)


cdef inline void send_timer(Sim* sim, Thread* th, Host* h, uint32_t conn, int number,
                            int64_t now_ps) noexcept nogil:
    """A timer of a connection; one whose connection is gone, or that was set anew, does nothing."""
    cdef SendHalf* q = send_find(h, conn)
    cdef int k
    if q == NULL:
        return
    if number == TIMER_RTO:
        send_timeout(sim, th, h, q, now_ps)
        return
    if number == TIMER_START:
        q.started = 1
        q.rate_bps = sim.cold[h.port_start + q.port].rate_bps
        policy_call(sim, th, h, q, HOOK_START, now_ps, 0, 0, 0, 0, -1)
    else:
        k = number - TIMER_CC
        if q.timer_ps[k] != now_ps:
            return
        q.timer_ps[k] = FOREVER
        policy_call(sim, th, h, q, HOOK_TIMER, now_ps, 0, 0, 0, 0, k)
    if now_ps > th.activity_ps:
        th.activity_ps = now_ps
    send_activate(sim, th, h, q, now_ps)
