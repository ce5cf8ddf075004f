"""A host: its NIC ports, timers, arrivals and departures in one window (semantics 4)."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from emunet._core.connection cimport (host_port_schedule, may_send, paced_purge,
                                      paced_push, ready_pop, ready_push, send_free)
from emunet._core.memory cimport heap_pop, heap_push, heap_time, link_pop, pool_give
from emunet._core.port cimport (log_packet, log_pause, packet_class, packet_kind, pause_clear,
                                pause_receive)
from emunet._core.receiver cimport recv_data
from emunet._core.rng cimport tie_before
from emunet._core.sender cimport host_emit, send_data, send_response, send_timer
from emunet._core.types cimport (CHANGE_BIT, DATA, EV_ARRIVE, EV_PAUSE_RX, EV_RESUME_RX, FAULT_TIME,
                                 KIND_ARRIVAL, KIND_CONTROL, KIND_DEPARTURE, KIND_TIMER, NIL,
                                 N_CLASS, Host, HostPort, LinkRx, Packet, Port, SendHalf, Sim,
                                 Thread, check, highest_bit, unlikely)


cdef inline void host_depart(Sim* sim, Thread* th, Host* h, int32_t port,
                             int64_t now_ps) noexcept nogil:
    """Departure instant of an idle port: pick a packet, if there is one that may go."""
    cdef HostPort* hp = &sim.host_port[port]
    cdef Port* p = &sim.port[port]
    cdef SendHalf* q
    cdef uint32_t index, mask
    cdef int klass
    while hp.paced.n and hp.paced.items[0].time_ps <= now_ps:
        q = &h.send[hp.paced.items[0].slot]
        heap_pop(&hp.paced)
        ready_push(sim, h, q)
        paced_purge(h, hp)
    while True:
        mask = (hp.ready_mask | hp.resp_mask) & ~p.paused
        if mask == 0:
            break
        klass = highest_bit(mask)
        if (hp.resp_mask >> klass) & 1:
            index = hp.resp_head[klass]
            hp.resp_head[klass] = h.pool.slots[index].next
            if hp.resp_head[klass] == NIL:
                hp.resp_mask &= ~(1 << klass)
            host_emit(sim, th, h, port, &h.pool.slots[index].packet, now_ps)
            pool_give(&h.pool, index)
            break
        q = ready_pop(sim, h, hp, klass)
        if may_send(sim, q):
            if q.next_send_ps <= now_ps:
                send_data(sim, th, h, q, now_ps)
                break
            paced_push(sim, th, h, q)    # its rate fell while it waited for its turn
        if q.gone:
            send_free(h, q)
    host_port_schedule(sim, port, now_ps)


cdef inline void host_arrive(Sim* sim, Thread* th, Host* h, int32_t local, Packet* packet,
                             int64_t now_ps) noexcept nogil:
    """A packet has come through the NIC: data to its receiver half, responses to their sender."""
    if unlikely(sim.log_on):
        log_packet(sim, th, now_ps, h.node, local, EV_ARRIVE, packet, 0)
    if now_ps > th.activity_ps:
        th.activity_ps = now_ps
    th.totals.delivered += 1
    if packet_kind(packet) == DATA:
        recv_data(sim, th, h, packet, now_ps)
    else:
        send_response(sim, th, h, packet, now_ps)


cdef inline void host_control(Sim* sim, Thread* th, Host* h, int32_t local, Packet* frame,
                              int64_t now_ps) noexcept nogil:
    """XOFF or XON has arrived."""
    cdef int32_t port = h.port_start + local
    cdef uint8_t klass = packet_class(frame)
    cdef bint on = frame.conn != 0, changed = pause_receive(sim, port, klass, on, now_ps)
    if on:
        heap_push(th, &h.timers, sim.cold[port].pause_until_ps[klass],
                  <uint64_t>(local * N_CLASS + klass), 0)
    if unlikely(sim.log_on) and (on or changed):
        log_pause(sim, th, now_ps, h.node, local, EV_PAUSE_RX if on else EV_RESUME_RX, klass, 0)
    host_port_schedule(sim, port, now_ps)


cdef inline void host_timer(Sim* sim, Thread* th, Host* h) noexcept nogil:
    """The first listed timer."""
    cdef uint64_t id = h.timers.items[0].id
    cdef int64_t now = h.timers.items[0].time_ps
    cdef int32_t local, port
    cdef uint8_t klass
    heap_pop(&h.timers)
    if unlikely(id >> CHANGE_BIT):
        sim.change(sim, th, h.node, <int32_t>id, now)
        return
    if id >> 40:
        send_timer(sim, th, h, <uint32_t>(id >> 3), id & 7, now)
        return
    local = <int32_t>(id >> 3)
    klass = id & 7
    port = h.port_start + local
    if sim.cold[port].pause_until_ps[klass] == now and pause_clear(sim, port, klass, now):
        if unlikely(sim.log_on):
            log_pause(sim, th, now, h.node, local, EV_RESUME_RX, klass, 0)
        host_port_schedule(sim, port, now)


cdef inline int64_t host_next(Sim* sim, Host* h, int* kind, int32_t* local) noexcept nogil:
    """Time, kind and port of the host's next event (semantics 2)."""
    cdef int64_t best = heap_time(&h.timers), t
    cdef int32_t i, k, port
    kind[0] = KIND_TIMER
    local[0] = 0
    for i in range(h.n_port):
        port = h.port_start + i
        for k in range(3):
            if k == 0:
                t = sim.rx[port].head_ps
            elif k == 1:
                t = sim.host_port[port].departure_ps
            elif h.n_control:
                t = sim.rx[sim.n_port + port].head_ps
            else:
                break
            if t > best:
                continue
            if t < best or host_before(
                sim, h, t,
                KIND_ARRIVAL if k == 0 else (KIND_DEPARTURE if k == 1 else KIND_CONTROL), i,
                kind[0], local[0]
            ):
                best = t
                kind[0] = KIND_ARRIVAL if k == 0 else (KIND_DEPARTURE if k == 1 else KIND_CONTROL)
                local[0] = i
    return best


cdef inline bint host_before(
    Sim* sim, Host* h, int64_t time_ps, int kind, int32_t local, int other_kind,
    int32_t other_local
) noexcept nogil:
    """Whether one event goes before another of its instant: by kind, then by the ports' tie."""
    if kind != other_kind:
        return kind < other_kind
    return tie_before(sim, h.node, time_ps, local, other_local)


cdef inline int64_t host_window(Sim* sim, Thread* th, Host* h, int64_t start_ps) noexcept nogil:
    """Handle all that is due at a host before the window's end; its next work."""
    cdef int64_t t, now = start_ps
    cdef int kind
    cdef int32_t local = 0
    cdef LinkRx* rx
    cdef Packet packet
    while True:
        t = host_next(sim, h, &kind, &local)
        if t >= sim.window_end_ps:
            return t
        check(th, t >= now, FAULT_TIME)
        now = t
        th.totals.events += 1
        if kind == KIND_ARRIVAL:
            rx = &sim.rx[h.port_start + local]
            packet = rx.ring[rx.head & rx.mask]
            link_pop(rx)
            host_arrive(sim, th, h, local, &packet, t)
        elif kind == KIND_DEPARTURE:
            host_depart(sim, th, h, h.port_start + local, t)
        elif kind == KIND_TIMER:
            host_timer(sim, th, h)
        else:
            rx = &sim.rx[sim.n_port + h.port_start + local]
            packet = rx.ring[rx.head & rx.mask]
            link_pop(rx)
            h.n_control -= 1
            host_control(sim, th, h, local, &packet, t)
