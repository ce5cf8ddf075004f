"""Receiver half of a connection: acceptance, ACK, NACK, CNP (semantics 4.2)."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from emunet._core.connection cimport (bit_clear, bit_get, bit_set, host_port_schedule, psn_expand,
                                      recv_find, recv_forget, recv_seen)
from emunet._core.memory cimport pool_take, rows_add
from emunet._core.port cimport packet_bits, packet_marked
from emunet._core.types cimport (ACK, ACK_BYTES, CNP, CNP_BYTES, NACK, NIL, FlowRow, Host,
                                 HostPort, Packet, RecvHalf, Sim, Thread, unlikely)

cdef enum:
    NO_PSN = 65535


cdef inline void response_queue(
    Sim* sim, Thread* th, Host* h, RecvHalf* r, Packet* data, uint32_t kind, int64_t aux,
    int64_t now_ps
) noexcept nogil:
    """Queue an ACK, NACK or CNP that answers a data packet."""
    cdef int32_t port = h.port_start + r.port
    cdef HostPort* hp = &sim.host_port[port]
    cdef uint32_t klass = sim.cnp_class if kind == CNP else r.klass
    cdef uint32_t index = pool_take(th, &h.pool)
    cdef Packet* p
    if unlikely(index == NIL):
        return
    h.pool.slots[index].next = NIL
    p = &h.pool.slots[index].packet
    p.time_ps = now_ps
    p.conn = r.conn
    p.dst_bits = packet_bits(r.src, kind, klass, packet_marked(data))
    p.psn_flags = 0 if kind == CNP else r.epsn & 0xFFFFFF
    p.stamp_ns = data.stamp_ns
    p.key = r.key
    p.aux = <uint16_t>aux
    p.bytes = CNP_BYTES if kind == CNP else ACK_BYTES
    p.in_port = 0
    if (hp.resp_mask >> klass) & 1:
        h.pool.slots[hp.resp_tail[klass]].next = index
    else:
        hp.resp_head[klass] = index
        hp.resp_mask |= 1 << klass
    hp.resp_tail[klass] = index
    host_port_schedule(sim, port, now_ps)
    if kind == ACK:
        th.totals.ack += 1
    elif kind == NACK:
        th.totals.nack += 1
        r.n_nack += 1
    else:
        th.totals.cnp += 1
        r.n_cnp += 1


cdef inline void recv_complete(Thread* th, Host* h, RecvHalf* r, int64_t now_ps) noexcept nogil:
    """The last byte of the message is in memory."""
    cdef FlowRow* row = <FlowRow*>rows_add(th, &th.flows)
    th.totals.flows_delivered += 1
    if row == NULL:
        return
    row.time_ps = now_ps
    row.flow = r.conn
    row.node = h.node
    row.kind = 0
    row.retransmitted = 0
    row.timeouts = 0
    row.nacks = r.n_nack
    row.cnps = r.n_cnp
    row.marked = r.n_marked
    row.out_of_order = r.n_ooo
    row.duplicates = r.n_dup
    row.pad = 0


cdef inline void recv_gbn(Sim* sim, Thread* th, Host* h, RecvHalf* r, Packet* data, uint32_t psn,
                          int64_t now_ps) noexcept nogil:
    """Go-back-N: in order or not at all."""
    if psn == r.epsn:
        r.epsn += 1
        r.nacked = 0
        r.unacked += 1
        if r.epsn == r.n_packet:
            recv_complete(th, h, r, now_ps)
        if r.unacked >= sim.ack_every or r.epsn == r.n_packet:
            r.unacked = 0
            response_queue(sim, th, h, r, data, ACK, NO_PSN, now_ps)
    elif psn > r.epsn:
        r.n_ooo += 1
        th.totals.out_of_order += 1
        if not r.nacked:
            r.nacked = 1
            response_queue(sim, th, h, r, data, NACK, NO_PSN, now_ps)
    else:
        r.n_dup += 1
        th.totals.duplicate += 1
        response_queue(sim, th, h, r, data, ACK, NO_PSN, now_ps)


cdef inline void recv_sr(Sim* sim, Thread* th, Host* h, RecvHalf* r, Packet* data, uint32_t psn,
                         int64_t now_ps) noexcept nogil:
    """Selective repeat: anything inside the window, in any order."""
    cdef uint64_t* seen = recv_seen(sim, h, r)
    cdef bint in_order = psn == r.epsn
    if psn < r.epsn or (psn - r.epsn < sim.sr_window and bit_get(sim, seen, psn)):
        r.n_dup += 1
        th.totals.duplicate += 1
        response_queue(sim, th, h, r, data, ACK, psn - r.epsn if psn >= r.epsn else NO_PSN, now_ps)
        return
    if psn - r.epsn >= sim.sr_window:
        th.totals.stale += 1
        return
    bit_set(sim, seen, psn)
    r.unacked += 1
    if not in_order:
        r.n_ooo += 1
        th.totals.out_of_order += 1
    while r.epsn < r.n_packet and bit_get(sim, seen, r.epsn):
        bit_clear(sim, seen, r.epsn)
        r.epsn += 1
    if r.epsn == r.n_packet:
        recv_complete(th, h, r, now_ps)
    if not in_order or r.unacked >= sim.ack_every or r.epsn == r.n_packet:
        r.unacked = 0
        response_queue(sim, th, h, r, data, ACK, psn - r.epsn if psn >= r.epsn else NO_PSN, now_ps)


cdef inline void recv_data(Sim* sim, Thread* th, Host* h, Packet* data,
                           int64_t now_ps) noexcept nogil:
    """A data packet has reached its host."""
    cdef RecvHalf* r
    cdef uint32_t psn
    recv_forget(th, h, now_ps)
    r = recv_find(h, data.conn)
    if r == NULL:
        th.totals.stale += 1
        return
    if packet_marked(data):
        r.n_marked += 1
        if sim.cnp_wanted and (r.last_cnp_ps < 0 or now_ps - r.last_cnp_ps >= sim.cnp_interval_ps):
            r.last_cnp_ps = now_ps
            response_queue(sim, th, h, r, data, CNP, NO_PSN, now_ps)
    psn = psn_expand(data.psn_flags & 0xFFFFFF, r.epsn)
    if sim.selective:
        recv_sr(sim, th, h, r, data, psn, now_ps)
    else:
        recv_gbn(sim, th, h, r, data, psn, now_ps)
