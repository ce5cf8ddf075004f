"""A switch: forwarding, output queues drained on touch, pause frames, samples (semantics 3).

Departures are not events. A port that is touched at time t first commits every departure that
starts, and releases every byte whose last bit has left, strictly before t: no packet can have
joined in between. Only while a group is in XOFF are departures events, so that XON is sent in time.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from emunet._core.buffer cimport (ADMIT, ADMIT_XOFF, HEADROOM_XOFF, REJECT, admission_test,
                                  charged_bytes, group_charge, group_release)
from emunet._core.channel cimport packet_lost, pause_send
from emunet._core.due cimport due_pop, due_push, due_sink
from emunet._core.memory cimport (heap_pop, heap_push, heap_time, link_pop, link_push, pool_give,
                                  pool_take, rows_add)
from emunet._core.port cimport (log_packet, log_pause, packet_class, packet_dst, packet_kind,
                                pause_clear, pause_receive, pfc_row, port_serialise)
from emunet._core.rng cimport choose, draw_unit
from emunet._core.schedule cimport class_to_serve
from emunet._core.types cimport (CHANGE_BIT, DATA, EV_ARRIVE, EV_DEPART, EV_DROP, EV_MARK,
                                 EV_PAUSE_RX, EV_PAUSE_TX, EV_RESUME_RX, EV_RESUME_TX, FAULT_PORT,
                                 FAULT_QUEUE, FAULT_ROUTE, FAULT_TIME, FOREVER, KIND_ARRIVAL,
                                 KIND_CONTROL, KIND_DEPARTURE, KIND_SAMPLE, KIND_TIMER,
                                 MARK_DEQUEUE, MARK_ENQUEUE, NIL, N_CLASS, PFC_RESTORED, PFC_STORM,
                                 ROUTE_BLOCK, ROUTE_LOCAL, ROUTE_TABLE, Due, Group, LinkRx, Packet,
                                 Port, PortCold, Queue, QueueRow, Route, Sim, Slot, Switch, Thread,
                                 Watch, broken, check, prefetch, unlikely, wide)
from emunet._core.watchdog cimport (N_SWITCH_TIMER, TIMER_EXPIRY, TIMER_REFRESH, TIMER_WATCHDOG,
                                    switch_timer_id, watch_arm, watch_begin, watch_end,
                                    watch_storm)
from emunet._core.watermark cimport headroom_move, switch_clear, switch_measure


cdef inline int32_t route_port(Sim* sim, Thread* th, Route* route, uint32_t dst,
                               uint32_t key) noexcept nogil:
    """Local out-port towards a host: the only one, or the hash's choice among equals; -1: none."""
    cdef int32_t first, n, group, entry
    cdef uint32_t offset
    cdef int64_t attach
    if route.kind == ROUTE_BLOCK:
        if <int32_t>dst >= route.host_lo and <int32_t>dst < route.host_hi:
            offset = dst - <uint32_t>route.host_lo
            group = (offset >> route.block_shift if route.block_shift >= 0
                     else offset // <uint32_t>route.block)
            first = route.down_start + group * route.down_par
            n = route.down_par
        else:
            first = route.up_start
            n = route.up_count
        if broken(th, n > 0, FAULT_ROUTE):
            return -1
        if n > 1:
            first += choose(route.salt, key, dst, n)
        return first
    if route.kind == ROUTE_TABLE:
        entry = sim.route_set[route.row + sim.host_rack[dst]]
        if entry == ROUTE_LOCAL:
            attach = sim.cold[sim.node_port_start[dst]].peer
            return <int32_t>(attach - sim.node_port_start[sim.port_node[attach]])
        if unlikely(entry < 0):
            check(th, sim.n_change > 0, FAULT_ROUTE)
            return -1
        first = sim.set_start[entry]
        n = sim.set_start[entry + 1] - first
        if n > 1:
            first += choose(route.salt, key, dst, n)
        return sim.set_port[first]
    return 0


# --------------------------------------------------------------------------------------- departures

cdef inline int64_t port_due(Port* p) noexcept nogil:
    """Next thing that happens at a port by itself."""
    return p.tx_end_ps if p.tx_end_ps < p.next_start_ps else p.next_start_ps


cdef inline void port_watch(Sim* sim, Thread* th, Switch* sw, int32_t local) noexcept nogil:
    """While departures are events: list the port's next one."""
    cdef int64_t due = port_due(&sim.port[sw.port_start + local])
    if due < sim.window_end_ps:
        due_push(sim, th, sw.node, due, KIND_DEPARTURE, local)


cdef inline void port_wake(Port* p, int64_t now_ps) noexcept nogil:
    """A packet or a resume may have made a departure possible, or a pause impossible."""
    if not p.nonempty & ~p.paused:
        p.next_start_ps = FOREVER
    elif p.next_start_ps == FOREVER:
        p.next_start_ps = now_ps if now_ps > p.busy_until_ps else p.busy_until_ps


cdef inline void group_xon(Sim* sim, Thread* th, Switch* sw, int32_t local, uint8_t klass,
                           int64_t now_ps) noexcept nogil:
    """Leave XOFF and say so; `local` is the in-port of the group."""
    cdef int32_t port = sw.port_start + local
    cdef Group* g = &sim.group[port * N_CLASS + klass]
    g.xoff = 0
    g.refresh_ps = FOREVER
    sw.n_xoff -= 1
    if unlikely(sim.log_on):
        log_pause(sim, th, now_ps, sw.node, local, EV_RESUME_TX, klass, g.bytes)
    pfc_row(th, now_ps, port, klass, 0)
    port_drain(sim, th, sw, local, now_ps)
    pause_send(sim, th, port, klass, False, now_ps)
    if sw.n_xoff:
        port_watch(sim, th, sw, local)


cdef inline void port_release(Sim* sim, Thread* th, Switch* sw, int32_t local) noexcept nogil:
    """The last bit of the packet in transmission has left."""
    cdef int32_t port = sw.port_start + local
    cdef Port* p = &sim.port[port]
    cdef int32_t klass = p.tx_class
    cdef int64_t frame_bytes = p.tx_bytes
    cdef int64_t end = p.tx_end_ps
    cdef Queue* q = &sim.queue[port * N_CLASS + klass]
    cdef int32_t in_port = p.tx_in_port
    cdef int32_t group = (sw.port_start + in_port) * N_CLASS + klass
    cdef Group* g = &sim.group[group]
    cdef wide held = <wide>frame_bytes * (end - p.tx_admit_ps)
    q.bytes -= frame_bytes
    p.egress_bytes -= frame_bytes
    check(th, q.bytes >= 0 and p.egress_bytes >= 0, FAULT_QUEUE)
    q.byte_ps += held
    g.byte_ps += held
    p.tx_end_ps = FOREVER
    if unlikely(group_release(sw, th, g, &sim.headroom[group], klass, frame_bytes, end)):
        group_xon(sim, th, sw, in_port, klass, end)


cdef inline void mark_packet(
    Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet, int64_t excess, int64_t ramp,
    int64_t queue_bytes, int64_t now_ps
) noexcept nogil:
    """RED step: `excess` above where marking starts, `ramp` to where it is certain (3.3)."""
    cdef int32_t port = sw.port_start + local
    cdef PortCold* cold = &sim.cold[port]
    cdef double u
    if excess <= ramp:
        u = draw_unit(sim.key_mark, <uint64_t>port, <uint64_t>cold.n_mark_draw)
        cold.n_mark_draw += 1
        if not u < cold.mark_slope * <double>excess:
            return
    packet.dst_bits |= <uint32_t>1 << 31
    cold.n_marked += 1
    th.totals.marked += 1
    if unlikely(sim.log_on):
        log_packet(sim, th, now_ps, sw.node, local, EV_MARK, packet, queue_bytes)


cdef inline void mark_leaving(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet,
                              int64_t queue_bytes, int64_t now_ps) noexcept nogil:
    """RED step at a port that marks by its queue at departure, or by the time waited."""
    cdef PortCold* cold = &sim.cold[sw.port_start + local]
    cdef int64_t value = queue_bytes if cold.mark_when == MARK_DEQUEUE else now_ps - packet.time_ps
    if value > cold.mark_above:
        mark_packet(sim, th, sw, local, packet, value - cold.mark_above,
                    cold.kmax_bytes - cold.mark_above, queue_bytes, now_ps)


cdef inline void mark_joining(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet,
                              int64_t queue_bytes, int64_t now_ps) noexcept nogil:
    """RED step on the bytes of a queue with the packet that joins it, where the port marks then."""
    cdef PortCold* cold = &sim.cold[sw.port_start + local]
    if (cold.mark_when == MARK_ENQUEUE and queue_bytes > cold.mark_above
            and packet_kind(packet) == DATA):
        mark_packet(sim, th, sw, local, packet, queue_bytes - cold.mark_above,
                    cold.kmax_bytes - cold.mark_above, queue_bytes, now_ps)


cdef inline void port_depart(Sim* sim, Thread* th, Switch* sw, int32_t local) noexcept nogil:
    """Start the departure that is due on an idle port: choose, mark, emit (semantics 3.3)."""
    cdef int32_t port = sw.port_start + local
    cdef Port* p = &sim.port[port]
    cdef int64_t start = p.next_start_ps
    cdef int32_t klass = class_to_serve(sim, sw, port, p.nonempty & ~p.paused)
    cdef Queue* q = &sim.queue[port * N_CLASS + klass]
    cdef uint32_t index = q.head
    cdef Slot* slot = &sw.pool.slots[index]
    cdef Packet* packet = &slot.packet
    cdef int64_t ser
    check(th, start >= p.busy_until_ps and p.tx_end_ps == FOREVER, FAULT_PORT)
    if start > th.activity_ps:
        th.activity_ps = start
    q.head = slot.next
    if q.head == NIL:
        p.nonempty &= ~(1 << klass)
        if unlikely(sw.strict != 255):
            sim.deficit[port * N_CLASS + klass] = 0
    if q.bytes > p.kmin_bytes and packet_kind(packet) == DATA:
        mark_leaving(sim, th, sw, local, packet, q.bytes, start)
    if unlikely(sim.log_on):
        log_packet(sim, th, start, sw.node, local, EV_DEPART, packet, q.bytes)
    ser = port_serialise(p, start, packet.bytes)
    p.busy_until_ps = start + ser
    p.tx_end_ps = start + ser
    p.tx_admit_ps = packet.time_ps
    p.tx_bytes = slot.bytes
    p.tx_in_port = packet.in_port
    p.tx_class = klass
    p.n_tx += 1
    p.n_tx_bytes += packet.bytes
    p.next_start_ps = p.busy_until_ps if p.nonempty & ~p.paused else FOREVER
    if not (unlikely(sim.channel != NULL) and packet_lost(sim, th, port, packet, start)):
        link_push(sim, th, port, packet, p.busy_until_ps + p.flight_ps)
    pool_give(&sw.pool, index)


cdef inline void port_drain(Sim* sim, Thread* th, Switch* sw, int32_t local,
                            int64_t now_ps) noexcept nogil:
    """Commit every departure that starts, release every byte that has left, strictly before now."""
    cdef Port* p = &sim.port[sw.port_start + local]
    while True:
        if p.tx_end_ps < now_ps:
            port_release(sim, th, sw, local)
        if p.next_start_ps >= now_ps:
            return
        port_depart(sim, th, sw, local)


cdef inline void switch_drain(Sim* sim, Thread* th, Switch* sw, int64_t now_ps) noexcept nogil:
    """Drain every port, unless it has been done for this instant."""
    cdef int32_t i
    if sw.drained_ps >= now_ps:
        return
    sw.drained_ps = now_ps
    for i in range(sw.n_port):
        if port_due(&sim.port[sw.port_start + i]) < now_ps:
            port_drain(sim, th, sw, i, now_ps)


cdef inline void port_event(Sim* sim, Thread* th, Switch* sw, int32_t local,
                            int64_t now_ps) noexcept nogil:
    """End of a transmission, start of the next, as an event (a listed one may be out of date)."""
    cdef Port* p = &sim.port[sw.port_start + local]
    if p.tx_end_ps == now_ps:
        port_release(sim, th, sw, local)
    if p.next_start_ps == now_ps:
        port_depart(sim, th, sw, local)
    if sw.n_xoff:
        port_watch(sim, th, sw, local)


# ----------------------------------------------------------------------------------------- arrivals

cdef inline void group_xoff(Sim* sim, Thread* th, Switch* sw, int32_t local, uint8_t klass,
                            int64_t now_ps) noexcept nogil:
    """Enter XOFF and say so; from the first group on, departures are events."""
    cdef int32_t port = sw.port_start + local, i
    cdef Group* g = &sim.group[port * N_CLASS + klass]
    g.xoff = 1
    sw.n_xoff += 1
    if unlikely(sim.log_on):
        log_pause(sim, th, now_ps, sw.node, local, EV_PAUSE_TX, klass, g.bytes)
    pfc_row(th, now_ps, port, klass, 1)
    port_drain(sim, th, sw, local, now_ps)
    pause_send(sim, th, port, klass, True, now_ps)
    g.refresh_ps = now_ps + sim.cold[port].pause_ps // 2
    heap_push(th, &sw.timers, g.refresh_ps, switch_timer_id(local, klass, TIMER_REFRESH), 0)
    if sw.n_xoff == 1:
        switch_drain(sim, th, sw, now_ps)
        for i in range(sw.n_port):
            port_watch(sim, th, sw, i)
    else:
        port_watch(sim, th, sw, local)


cdef inline void switch_drop(
    Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet, Group* g, int64_t now_ps
) noexcept nogil:
    """Count a packet that is refused, at its in-port."""
    cdef PortCold* cold = &sim.cold[sw.port_start + local]
    cdef bint lossless = (sw.lossless >> sw.class_of[packet_class(packet)]) & 1
    cold.n_drop += 1
    cold.n_drop_bytes += packet.bytes
    cold.n_drop_lossless += lossless
    th.totals.dropped += 1
    th.totals.dropped_lossless += lossless
    if unlikely(sim.log_on):
        log_packet(sim, th, now_ps, sw.node, local, EV_DROP, packet, g.bytes)


cdef inline void packet_unrouted(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet,
                                 Group* g, int64_t now_ps) noexcept nogil:
    """Count a packet that has no way on, at its in-port."""
    sim.cold[sw.port_start + local].n_unrouted += 1
    th.totals.unrouted += 1
    if unlikely(sim.log_on):
        switch_drain(sim, th, sw, now_ps)
        log_packet(sim, th, now_ps, sw.node, local, EV_DROP, packet, g.bytes)


cdef inline bint admit_hard(
    Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet, Group* g, int verdict,
    int64_t growth, int64_t now_ps
) noexcept nogil:
    """Admission of a packet that does not simply fit; whether it is admitted."""
    cdef int klass = sw.class_of[packet_class(packet)]
    cdef int64_t room = sim.cold[sw.port_start + local].headroom_bytes
    cdef int64_t size = charged_bytes(sw, packet.bytes)
    cdef bint fits = (g.headroom_bytes + size <= room
                      and sw.headroom_bytes + size <= sw.headroom_limit_bytes)
    if verdict == REJECT or (verdict == HEADROOM_XOFF and g.bytes == 0 and not fits):
        switch_drop(sim, th, sw, local, packet, g, now_ps)
        return False
    if verdict == ADMIT_XOFF:
        group_charge(sw, g, size, growth)
        group_xoff(sim, th, sw, local, klass, now_ps)
        return True
    if fits:
        g.bytes += size
        headroom_move(sw, g, &sim.headroom[(sw.port_start + local) * N_CLASS + klass], size,
                      now_ps)
    if verdict == HEADROOM_XOFF:
        group_xoff(sim, th, sw, local, klass, now_ps)
    if not fits:
        switch_drop(sim, th, sw, local, packet, g, now_ps)
    return fits


cdef inline void watermark_groups(Sim* sim, Thread* th, Switch* sw, Group* g,
                                  int64_t now_ps) noexcept nogil:
    """Exact maxima of group and pools: look exactly only when the stale value beats the record.

    Headroom is never stale: while there is any, departures are events.
    """
    if g.bytes - g.headroom_bytes > g.watermark_bytes or sw.used_bytes > sw.pool_watermark_bytes:
        switch_drain(sim, th, sw, now_ps)
        if g.bytes - g.headroom_bytes > g.watermark_bytes:
            g.watermark_bytes = g.bytes - g.headroom_bytes
        if sw.used_bytes > sw.pool_watermark_bytes:
            sw.pool_watermark_bytes = sw.used_bytes
    if unlikely(g.headroom_bytes):
        g.headroom_watermark_bytes = max(g.headroom_watermark_bytes, g.headroom_bytes)
        sw.headroom_watermark_bytes = max(sw.headroom_watermark_bytes, sw.headroom_bytes)


cdef inline void queue_join(
    Sim* sim, Thread* th, Switch* sw, int32_t local, int klass, Packet* packet, int64_t size,
    int32_t in_port, int64_t now_ps
) noexcept nogil:
    """Append an admitted packet that takes `size` bytes to its queue, on a drained port."""
    cdef int32_t port = sw.port_start + local
    cdef Port* p = &sim.port[port]
    cdef Queue* q = &sim.queue[port * N_CLASS + klass]
    cdef uint32_t index = pool_take(th, &sw.pool)
    cdef Slot* slot
    if unlikely(index == NIL):
        return
    slot = &sw.pool.slots[index]
    slot.packet = packet[0]
    slot.packet.time_ps = now_ps
    slot.packet.in_port = in_port
    slot.next = NIL
    slot.bytes = size
    if (p.nonempty >> klass) & 1:
        sw.pool.slots[q.tail].next = index
    else:
        q.head = index
        p.nonempty |= 1 << klass
    q.tail = index
    q.bytes += size
    p.egress_bytes += size
    if q.bytes > q.watermark_bytes:
        q.watermark_bytes = q.bytes
    if p.egress_bytes > p.watermark_bytes:
        p.watermark_bytes = p.egress_bytes
    if p.next_start_ps == FOREVER:
        port_wake(p, now_ps)
        if sw.n_xoff:
            port_watch(sim, th, sw, local)


cdef inline void switch_arrive(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet,
                               int64_t now_ps) noexcept nogil:
    """A packet has come through the pipeline: route, admit, enqueue."""
    cdef int klass = sw.class_of[packet_class(packet)]
    cdef int32_t out = route_port(sim, th, &sw.route, packet_dst(packet), packet.key)
    cdef Group* g = &sim.group[(sw.port_start + local) * N_CLASS + klass]
    cdef Queue* q = &sim.queue[(sw.port_start + out) * N_CLASS + klass]
    cdef int verdict
    cdef int64_t growth = 0, size = charged_bytes(sw, packet.bytes)
    if unlikely(out < 0) or (unlikely(sim.n_change)
                             and sim.channel[sw.port_start + out].closed):
        packet_unrouted(sim, th, sw, local, packet, g, now_ps)
        return
    if watch_storm(sim, sw, out, klass) and not sw.forward:
        storm_refuse(sim, th, sw, local, packet, g, now_ps)
        return
    port_drain(sim, th, sw, out, now_ps)
    verdict = admission_test(sw, g, q.bytes, klass, size, &growth)
    if verdict == ADMIT:
        group_charge(sw, g, size, growth)
    else:
        if sw.drained_ps < now_ps and sw.n_xoff == 0:
            # stale counters are too high: only the exact ones may refuse
            switch_drain(sim, th, sw, now_ps)
            verdict = admission_test(sw, g, q.bytes, klass, size, &growth)
        if verdict == ADMIT:
            group_charge(sw, g, size, growth)
        elif not admit_hard(sim, th, sw, local, packet, g, verdict, growth, now_ps):
            return
    if unlikely(sim.arrivals_seen):
        if sim.log_on:
            switch_drain(sim, th, sw, now_ps)
            log_packet(sim, th, now_ps, sw.node, local, EV_ARRIVE, packet, g.bytes)
        mark_joining(sim, th, sw, out, packet, q.bytes + size, now_ps)
    watermark_groups(sim, th, sw, g, now_ps)
    queue_join(sim, th, sw, out, klass, packet, size, local, now_ps)


# ------------------------------------------------------------------------------------------- storms

cdef inline void storm_drop(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet,
                            Group* g, int64_t now_ps) noexcept nogil:
    """Count a packet that the watchdog drops, at its in-port."""
    cdef PortCold* cold = &sim.cold[sw.port_start + local]
    cold.n_drop += 1
    cold.n_drop_bytes += packet.bytes
    cold.n_drop_watchdog += 1
    th.totals.dropped += 1
    th.totals.dropped_watchdog += 1
    if unlikely(sim.log_on):
        log_packet(sim, th, now_ps, sw.node, local, EV_DROP, packet, g.bytes)


cdef inline void storm_refuse(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* packet,
                              Group* g, int64_t now_ps) noexcept nogil:
    """A packet has arrived for a queue in a storm."""
    if unlikely(sim.log_on):
        switch_drain(sim, th, sw, now_ps)
    storm_drop(sim, th, sw, local, packet, g, now_ps)


cdef inline void storm_flush(Sim* sim, Thread* th, Switch* sw, int32_t local, int klass,
                             int64_t now_ps) noexcept nogil:
    """Drop what a queue holds, first in first out; the packet in transmission is out already."""
    cdef int32_t port = sw.port_start + local, in_port, group
    cdef Port* p = &sim.port[port]
    cdef Queue* q = &sim.queue[port * N_CLASS + klass]
    cdef uint32_t index
    cdef Slot slot
    cdef Group* g
    cdef wide held
    if not (p.nonempty >> klass) & 1:
        return
    p.nonempty &= ~(1 << klass)
    if sim.deficit != NULL:
        sim.deficit[port * N_CLASS + klass] = 0
    index = q.head
    q.head = NIL
    while index != NIL:
        slot = sw.pool.slots[index]
        pool_give(&sw.pool, index)
        index = slot.next
        in_port = slot.packet.in_port
        group = (sw.port_start + in_port) * N_CLASS + klass
        g = &sim.group[group]
        storm_drop(sim, th, sw, in_port, &slot.packet, g, now_ps)
        held = <wide>slot.bytes * (now_ps - slot.packet.time_ps)
        q.bytes -= slot.bytes
        p.egress_bytes -= slot.bytes
        q.byte_ps += held
        g.byte_ps += held
        if group_release(sw, th, g, &sim.headroom[group], klass, slot.bytes, now_ps):
            group_xon(sim, th, sw, in_port, klass, now_ps)


cdef inline void storm_begin(Sim* sim, Thread* th, Switch* sw, int32_t local, uint8_t klass,
                             int64_t now_ps) noexcept nogil:
    """A pause has lasted for the detection time: it is obeyed no longer."""
    cdef int32_t port = sw.port_start + local
    switch_drain(sim, th, sw, now_ps)
    if now_ps > th.activity_ps:
        th.activity_ps = now_ps
    sw.n_watch -= 1
    sw.n_storm += 1
    sim.watch[port * N_CLASS + klass].storm = 1
    watch_arm(sim, th, sw, local, klass, now_ps + sw.restore_ps)
    pfc_row(th, now_ps, port, klass, PFC_STORM)
    if not sw.forward:
        storm_flush(sim, th, sw, local, klass, now_ps)
    if pause_clear(sim, port, klass, now_ps) and unlikely(sim.log_on):
        log_pause(sim, th, now_ps, sw.node, local, EV_RESUME_RX, klass, 0)
    port_wake(&sim.port[port], now_ps)


cdef inline void storm_pause(Sim* sim, Thread* th, Switch* sw, int32_t local, uint8_t klass,
                             int64_t now_ps) noexcept nogil:
    """XOFF in a storm: it is only counted, and puts the end off."""
    sim.cold[sw.port_start + local].n_pause_rx += 1
    watch_arm(sim, th, sw, local, klass, now_ps + sw.restore_ps)
    if unlikely(sim.log_on):
        log_pause(sim, th, now_ps, sw.node, local, EV_PAUSE_RX, klass, 0)


cdef inline void storm_end(Sim* sim, Thread* th, Switch* sw, int32_t local, uint8_t klass,
                           int64_t now_ps) noexcept nogil:
    """No XOFF has come for the restoration time: pauses are obeyed again."""
    cdef Watch* w = &sim.watch[(sw.port_start + local) * N_CLASS + klass]
    sw.n_storm -= 1
    w.storm = 0
    w.due_ps = FOREVER
    pfc_row(th, now_ps, sw.port_start + local, klass, PFC_RESTORED)


# -------------------------------------------------------------------- link control, timers, samples

cdef inline void switch_control(Sim* sim, Thread* th, Switch* sw, int32_t local, Packet* frame,
                                int64_t now_ps) noexcept nogil:
    """XOFF or XON has arrived."""
    cdef int32_t port = sw.port_start + local
    cdef uint8_t klass = packet_class(frame)
    cdef bint on = frame.conn != 0, changed
    if watch_storm(sim, sw, local, klass):
        if on:
            storm_pause(sim, th, sw, local, klass, now_ps)
        return
    port_drain(sim, th, sw, local, now_ps)
    changed = pause_receive(sim, port, klass, on, now_ps)
    if on:
        heap_push(th, &sw.timers, sim.cold[port].pause_until_ps[klass],
                  switch_timer_id(local, klass, TIMER_EXPIRY), 0)
    if changed and on:
        watch_begin(sim, th, sw, local, klass, now_ps)
    elif changed:
        watch_end(sim, sw, local, klass)
    if unlikely(sim.log_on) and (on or changed):
        log_pause(sim, th, now_ps, sw.node, local, EV_PAUSE_RX if on else EV_RESUME_RX, klass, 0)
    port_wake(&sim.port[port], now_ps)
    if sw.n_xoff:
        port_watch(sim, th, sw, local)


cdef inline void switch_timer(Sim* sim, Thread* th, Switch* sw, uint64_t id,
                              int64_t now_ps) noexcept nogil:
    """Pause expiry, XOFF refresh or watchdog; one that events have overtaken does nothing."""
    cdef int32_t local = <int32_t>(id // N_SWITCH_TIMER) // N_CLASS
    cdef uint8_t klass = (id // N_SWITCH_TIMER) & 7
    cdef int32_t port = sw.port_start + local
    cdef Group* g
    if id % N_SWITCH_TIMER == TIMER_WATCHDOG:
        if sim.watch[port * N_CLASS + klass].due_ps != now_ps:
            return
        if sim.watch[port * N_CLASS + klass].storm:
            storm_end(sim, th, sw, local, klass, now_ps)
        else:
            storm_begin(sim, th, sw, local, klass, now_ps)
    elif id % N_SWITCH_TIMER == TIMER_REFRESH:
        g = &sim.group[port * N_CLASS + klass]
        if g.refresh_ps != now_ps:
            return
        if unlikely(sim.log_on):
            log_pause(sim, th, now_ps, sw.node, local, EV_PAUSE_TX, klass, g.bytes)
        port_drain(sim, th, sw, local, now_ps)
        pause_send(sim, th, port, klass, True, now_ps)
        g.refresh_ps = now_ps + sim.cold[port].pause_ps // 2
        heap_push(th, &sw.timers, g.refresh_ps, id, 0)
    else:
        if sim.cold[port].pause_until_ps[klass] != now_ps:
            return
        port_drain(sim, th, sw, local, now_ps)
        if pause_clear(sim, port, klass, now_ps):
            watch_end(sim, sw, local, klass)
            if unlikely(sim.log_on):
                log_pause(sim, th, now_ps, sw.node, local, EV_RESUME_RX, klass, 0)
        port_wake(&sim.port[port], now_ps)
    if sw.n_xoff:
        port_watch(sim, th, sw, local)


cdef inline bint port_sampled(Sim* sim, int32_t port) noexcept nogil:
    """Whether a port's bytes differ from its last row, or may come to."""
    return sim.sample_mask[port] and (sim.port[port].egress_bytes != sim.cold[port].sampled_bytes
                                      or port_due(&sim.port[port]) != FOREVER)


cdef inline void switch_sample(Sim* sim, Thread* th, Switch* sw, int64_t now_ps) noexcept nogil:
    """One row for each sampled port whose bytes have changed."""
    cdef int32_t i, port
    cdef QueueRow* row
    for i in range(sw.n_port):
        port = sw.port_start + i
        if sim.sample_mask[port] and sim.port[port].egress_bytes != sim.cold[port].sampled_bytes:
            row = <QueueRow*>rows_add(th, &th.queues)
            if row == NULL:
                return
            row.time_ps = now_ps
            row.queue_bytes = sim.port[port].egress_bytes
            row.port = port
            row.pad = 0
            sim.cold[port].sampled_bytes = sim.port[port].egress_bytes


cdef inline void switch_look(Sim* sim, Thread* th, Switch* sw, int64_t now_ps) noexcept nogil:
    """Sample queues, measure occupancies, clear watermarks: what this instant is for."""
    switch_drain(sim, th, sw, now_ps)
    if sw.sample_ps == now_ps:
        switch_sample(sim, th, sw, now_ps)
        sw.sample_ps += sim.sample_every_ps
    if sw.measure_ps == now_ps:
        switch_measure(sim, th, sw)
        sw.measure_ps += sim.measure_every_ps
    if sim.clear_ps == now_ps:
        switch_clear(sim, th, sw, now_ps)
    sw.look_ps = sw.sample_ps if sw.sample_ps < sw.measure_ps else sw.measure_ps


# ------------------------------------------------------------------------------------------- window

cdef inline void switch_begin(Sim* sim, Thread* th, Switch* sw) noexcept nogil:
    """List the heads of all sources that are due in this window."""
    cdef int32_t i
    cdef LinkRx* rx = &sim.rx[sw.port_start]
    cdef int64_t end = sim.window_end_ps
    th.heap_n = 0
    for i in range(sw.n_port):
        if rx[i].head_ps < end:
            prefetch(&rx[i].ring[rx[i].head & rx[i].mask])
            due_push(sim, th, sw.node, rx[i].head_ps, KIND_ARRIVAL, i)
    if unlikely(sw.n_control):
        rx += sim.n_port
        for i in range(sw.n_port):
            if rx[i].head_ps < end:
                due_push(sim, th, sw.node, rx[i].head_ps, KIND_CONTROL, i)
    if unlikely(sw.n_xoff):
        for i in range(sw.n_port):
            port_watch(sim, th, sw, i)


cdef inline int64_t switch_end(Sim* sim, Thread* th, Switch* sw) noexcept nogil:
    """Drain up to the window's end; the node's next work."""
    cdef int32_t i
    cdef int64_t due = heap_time(&sw.timers), t
    cdef bint sampled = False, held = False
    for i in range(sw.n_port):
        if port_due(&sim.port[sw.port_start + i]) < sim.window_end_ps:
            port_drain(sim, th, sw, i, sim.window_end_ps)
        t = port_due(&sim.port[sw.port_start + i])
        if t < due:
            due = t
        held |= t != FOREVER or sim.port[sw.port_start + i].nonempty != 0
        t = sim.rx[sw.port_start + i].head_ps
        if t < due:
            due = t
        if sim.sample_every_ps and port_sampled(sim, sw.port_start + i):
            sampled = True
    if unlikely(sw.n_control):
        for i in range(sw.n_port):
            t = sim.rx[sim.n_port + sw.port_start + i].head_ps
            if t < due:
                due = t
    if sampled and sw.sample_ps < due:
        due = sw.sample_ps
    if held and sw.measure_ps < due:
        due = sw.measure_ps
    return due


cdef inline void switch_source(Sim* sim, Thread* th, Switch* sw, Due top) noexcept nogil:
    """Handle the first listed source and list its next."""
    cdef LinkRx* rx
    cdef Packet packet
    if top.kind == KIND_ARRIVAL:
        rx = &sim.rx[sw.port_start + top.port]
        packet = rx.ring[rx.head & rx.mask]
        link_pop(rx)
        if rx.head_ps < sim.window_end_ps:
            prefetch(&rx.ring[(rx.head + 1) & rx.mask])
            top.time_ps = rx.head_ps
            due_sink(sim, th, sw.node, top)
        else:
            due_pop(sim, th, sw.node)
        if packet.time_ps > th.activity_ps:
            th.activity_ps = packet.time_ps
        switch_arrive(sim, th, sw, top.port, &packet, packet.time_ps)
    elif top.kind == KIND_DEPARTURE:
        due_pop(sim, th, sw.node)
        port_event(sim, th, sw, top.port, top.time_ps)
    else:
        rx = &sim.rx[sim.n_port + sw.port_start + top.port]
        packet = rx.ring[rx.head & rx.mask]
        link_pop(rx)
        sw.n_control -= 1
        due_pop(sim, th, sw.node)
        if rx.head_ps < sim.window_end_ps:
            due_push(sim, th, sw.node, rx.head_ps, KIND_CONTROL, top.port)
        switch_control(sim, th, sw, top.port, &packet, packet.time_ps)


cdef inline int64_t look_due(Sim* sim, Switch* sw, int64_t from_ps) noexcept nogil:
    """First instant from `from_ps` on at which the switch is sampled, measured or cleared.

    A window with a clear begins with it.
    """
    if sw.sample_ps < from_ps:
        sw.sample_ps = (from_ps - 1) // sim.sample_every_ps * sim.sample_every_ps
        sw.sample_ps += sim.sample_every_ps
    if sw.measure_ps < from_ps:
        sw.measure_ps = (from_ps - 1) // sim.measure_every_ps * sim.measure_every_ps
        sw.measure_ps += sim.measure_every_ps
    if sim.clear_ps != FOREVER:
        return sim.clear_ps
    return sw.sample_ps if sw.sample_ps < sw.measure_ps else sw.measure_ps


cdef inline int64_t switch_window(Sim* sim, Thread* th, Switch* sw,
                                  int64_t start_ps) noexcept nogil:
    """Handle all that is due at a switch before the window's end; its next work."""
    cdef Due top
    cdef int64_t now = start_ps if start_ps < sim.clear_ps else sim.clear_ps
    switch_begin(sim, th, sw)
    sw.look_ps = look_due(sim, sw, now)
    sw.busy = 1
    while True:
        if th.heap_n:
            top = th.heap[0]
        else:
            top.time_ps = FOREVER
            top.kind = KIND_DEPARTURE
            top.port = 0
        if unlikely(sw.timers.n) and (sw.timers.items[0].time_ps < top.time_ps or (
                sw.timers.items[0].time_ps == top.time_ps and top.kind > KIND_TIMER)):
            top.time_ps = sw.timers.items[0].time_ps
            top.kind = KIND_TIMER
        if sw.look_ps < top.time_ps or (sw.look_ps == top.time_ps and top.kind > KIND_SAMPLE):
            top.time_ps = sw.look_ps
            top.kind = KIND_SAMPLE
        if top.time_ps >= sim.window_end_ps:
            break
        check(th, top.time_ps >= now, FAULT_TIME)
        now = top.time_ps
        th.totals.events += 1
        if top.kind == KIND_TIMER:
            switch_timer_pop(sim, th, sw)
        elif top.kind == KIND_SAMPLE:
            switch_look(sim, th, sw, now)
        else:
            switch_source(sim, th, sw, top)
    return switch_end(sim, th, sw)


cdef inline void switch_timer_pop(Sim* sim, Thread* th, Switch* sw) noexcept nogil:
    """The first listed timer."""
    cdef uint64_t id = sw.timers.items[0].id
    cdef int64_t now = sw.timers.items[0].time_ps
    heap_pop(&sw.timers)
    if unlikely(id >> CHANGE_BIT):
        sim.change(sim, th, sw.node, <int32_t>id, now)
    else:
        switch_timer(sim, th, sw, id, now)
