"""Frames put on links, which may lose them: down, two states, and bit errors (semantics 1.3).

Gilbert, "Capacity of a Burst-Noise Channel", 1960; Elliott, 1963.
"""

from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

from emunet._core.memory cimport link_push
from emunet._core.port cimport log_packet, packet_bits, port_serialise
from emunet._core.rng cimport draw_unit
from emunet._core.types cimport (EV_LOST, FOREVER, PAUSE, PAUSE_BYTES, Channel, Packet, Port,
                                 PortCold, Sim, Thread, unlikely)


cdef inline bint channel_down(Sim* sim, int32_t port, int64_t start_ps,
                              int64_t end_ps) noexcept nogil:
    """Whether the link is down while a frame is on it, sent from `start_ps` to `end_ps`."""
    cdef Channel* ch = &sim.channel[port]
    cdef int32_t last = sim.down_start[port + 1]
    while ch.next_down < last and sim.down_until_ps[ch.next_down] <= start_ps:
        ch.next_down += 1
    return ch.next_down < last and sim.down_from_ps[ch.next_down] < end_ps + ch.delay_ps


cdef inline bint channel_loses(Sim* sim, int32_t port, int64_t frame_bytes,
                               int64_t start_ps) noexcept nogil:
    """Whether a frame whose transmission starts now does not arrive; the channel's state moves."""
    cdef Channel* ch = &sim.channel[port]
    cdef double p = ch.loss_bad if ch.bad else ch.loss_good
    cdef double move = ch.to_good if ch.bad else ch.to_bad
    cdef bint lost = False
    if start_ps < ch.start_ps or start_ps >= ch.end_ps:
        return False
    if ch.bit_log < 0.0:
        p = 1.0 - (1.0 - p) * exp(<double>(8 * frame_bytes) * ch.bit_log)
    if p > 0.0:
        lost = draw_unit(sim.key_loss, <uint64_t>port, <uint64_t>ch.n_draw) < p
        ch.n_draw += 1
    if move > 0.0:
        if draw_unit(sim.key_loss, <uint64_t>port, <uint64_t>ch.n_draw) < move:
            ch.bad = not ch.bad
        ch.n_draw += 1
    return lost


cdef inline bint packet_lost(Sim* sim, Thread* th, int32_t port, Packet* packet,
                             int64_t start_ps) noexcept nogil:
    """Whether a packet is lost on its link, which it occupies already; it is counted."""
    cdef Channel* ch = &sim.channel[port]
    cdef int32_t node
    if channel_down(sim, port, start_ps, sim.port[port].busy_until_ps):
        ch.n_down += 1
        ch.n_down_bytes += packet.bytes
        th.totals.down += 1
    elif channel_loses(sim, port, packet.bytes, start_ps):
        ch.n_lost += 1
        ch.n_lost_bytes += packet.bytes
        th.totals.lost += 1
    else:
        return False
    if sim.log_on:
        node = sim.port_node[port]
        log_packet(sim, th, start_ps, node, port - sim.node_port_start[node], EV_LOST, packet, 0)
    return True


cdef inline void pause_send(Sim* sim, Thread* th, int32_t port, uint8_t klass, bint on,
                            int64_t now_ps) noexcept nogil:
    """Put XOFF or XON on a port drained up to now: after the frame being sent, before all data."""
    cdef Port* p = &sim.port[port]
    cdef PortCold* cold = &sim.cold[port]
    cdef Packet frame
    cdef int64_t start = now_ps if now_ps > p.busy_until_ps else p.busy_until_ps
    p.busy_until_ps = start + port_serialise(p, start, PAUSE_BYTES)
    if p.next_start_ps != FOREVER and p.next_start_ps < p.busy_until_ps:
        p.next_start_ps = p.busy_until_ps
    frame.conn = on
    frame.dst_bits = packet_bits(0, PAUSE, klass, 0)
    frame.psn_flags = 0
    frame.stamp_ns = 0
    frame.key = 0
    frame.aux = 0
    frame.bytes = PAUSE_BYTES
    frame.in_port = 0
    if unlikely(sim.channel != NULL) and (
            channel_down(sim, port, start, p.busy_until_ps)
            or channel_loses(sim, port, PAUSE_BYTES, start)):
        sim.channel[port].n_lost_pause += 1
    else:
        link_push(sim, th, sim.n_port + port, &frame, p.busy_until_ps + cold.pause_flight_ps)
    if on:
        cold.n_pause_tx += 1
        th.totals.pause_frames += 1
    else:
        cold.n_resume_tx += 1
        th.totals.resume_frames += 1
