"""What nodes change when a fault begins, ends, or becomes known (semantics 3.6)."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from emunet._core.buffer cimport group_release
from emunet._core.connection cimport (host_port_schedule, paced_purge, ready_remove,
                                      send_activate)
from emunet._core.memory cimport heap_pop, heap_push, heap_remove, pool_give
from emunet._core.port cimport log_packet
from emunet._core.rng cimport choose
from emunet._core.switch cimport group_xon, port_drain, port_watch
from emunet._core.types cimport (CHANGE_BIT, EV_DROP, FOREVER, IDLE, NIL, N_CLASS, READY,
                                 ROUTE_TABLE, Group, Heap, Host, Port, Queue, RecvHalf, SendHalf,
                                 Sim, Slot, Switch, Thread, unlikely, wide)

cdef enum:                   # as in plan/schema.py
    CHANGE_ROUTE = 0
    CHANGE_UP = 1
    CHANGE_DOWN = 2
    CHANGE_RATE = 3


cdef inline void change_arm(Sim* sim, Thread* th, int32_t node, int32_t number) noexcept nogil:
    """Wait for a change of the plan, if it is this node's."""
    cdef Heap* timers = (&sim.hosts[node].timers if node < sim.n_host
                         else &sim.switches[node - sim.n_host].timers)
    if number < sim.change_start[node + 1]:
        heap_push(th, timers, sim.change_ps[number],
                  (<uint64_t>1 << CHANGE_BIT) | <uint32_t>number, 0)


cdef inline void port_rate(Sim* sim, int32_t port, int64_t rate_bps) noexcept nogil:
    """Frames that start from now on have this rate; the duration of its pauses stays."""
    cdef Port* p = &sim.port[port]
    cdef int64_t bits = 8000000000000, a = bits, b = rate_bps, rest
    while b:
        rest = a % b
        a = b
        b = rest
    p.ser_n = bits // a
    p.ser_d = rate_bps // a
    p.carry = 0
    sim.cold[port].rate_bps = <double>rate_bps


# ----------------------------------------------------------------------------------------- switches

cdef inline void queue_flush(Sim* sim, Thread* th, Switch* sw, int32_t port, int klass,
                             int64_t now_ps) noexcept nogil:
    """Drop all packets of a class that wait at a port."""
    cdef Queue* q = &sim.queue[port * N_CLASS + klass]
    cdef uint32_t index = q.head, following
    cdef int32_t group, in_port
    cdef Slot* slot
    cdef Group* g
    cdef wide held
    cdef int64_t size
    while index != NIL:
        slot = &sw.pool.slots[index]
        following = slot.next
        in_port = slot.packet.in_port
        size = slot.bytes
        group = (sw.port_start + in_port) * N_CLASS + klass
        g = &sim.group[group]
        sim.cold[sw.port_start + in_port].n_flushed += 1
        th.totals.flushed += 1
        if unlikely(sim.log_on):
            log_packet(sim, th, now_ps, sw.node, in_port, EV_DROP, &slot.packet, g.bytes)
        held = <wide>size * (now_ps - slot.packet.time_ps)
        q.bytes -= size
        sim.port[port].egress_bytes -= size
        q.byte_ps += held
        g.byte_ps += held
        pool_give(&sw.pool, index)
        if group_release(sw, th, g, &sim.headroom[group], klass, size, now_ps):
            group_xon(sim, th, sw, in_port, klass, now_ps)
        index = following
    q.head = NIL


cdef inline void port_flush(Sim* sim, Thread* th, Switch* sw, int32_t local,
                            int64_t now_ps) noexcept nogil:
    """Drop all that waits at a port that is drained up to now; what is being sent goes on."""
    cdef int32_t port = sw.port_start + local
    cdef Port* p = &sim.port[port]
    cdef uint32_t waiting = p.nonempty
    cdef int c
    p.nonempty = 0
    p.next_start_ps = FOREVER
    for c in range(N_CLASS):
        if (waiting >> c) & 1:
            queue_flush(sim, th, sw, port, c, now_ps)
        if sim.deficit != NULL:
            sim.deficit[port * N_CLASS + c] = 0


cdef inline void switch_change(Sim* sim, Thread* th, Switch* sw, int32_t number,
                               int64_t now_ps) noexcept nogil:
    """Do what the plan says."""
    cdef int32_t local = sim.change_port[number], port = sw.port_start + local
    cdef int kind = sim.change_kind[number]
    if kind == CHANGE_ROUTE:
        sw.route.kind = ROUTE_TABLE
        sw.route.row = sim.change_value[number]
    elif kind == CHANGE_UP:
        sim.channel[port].closed = 0
    else:
        port_drain(sim, th, sw, local, now_ps)
        if kind == CHANGE_DOWN:
            sim.channel[port].closed = 1
            port_flush(sim, th, sw, local, now_ps)
        else:
            port_rate(sim, port, sim.change_value[number])
        if sw.n_xoff:
            port_watch(sim, th, sw, local)
    change_arm(sim, th, sw.node, number + 1)


# -------------------------------------------------------------------------------------------- hosts

cdef inline int32_t host_choice(Sim* sim, Host* h, uint32_t peer, uint32_t key) noexcept nogil:
    """Local port towards a host, as `route_port` chooses; the first one if there is no way."""
    cdef int32_t entry, first, n
    if h.route.kind != ROUTE_TABLE:
        return 0
    entry = sim.route_set[h.route.row + sim.host_rack[peer]]
    if entry < 0:
        return 0
    first = sim.set_start[entry]
    n = sim.set_start[entry + 1] - first
    return sim.set_port[first + choose(h.route.salt, key, peer, n)]


cdef inline void send_move(Sim* sim, Thread* th, Host* h, SendHalf* q, int32_t local,
                           int64_t now_ps) noexcept nogil:
    """Let a connection send by another port."""
    cdef int32_t old = h.port_start + q.port
    if q.where == READY:
        ready_remove(h, &sim.host_port[old], q)
    q.where = IDLE
    # entries that it has given up must not become its own again
    heap_remove(&sim.host_port[old].paced, q.conn)
    paced_purge(h, &sim.host_port[old])
    host_port_schedule(sim, old, now_ps)
    q.port = local
    send_activate(sim, th, h, q, now_ps)


cdef inline void host_rerouted(Sim* sim, Thread* th, Host* h, int64_t now_ps) noexcept nogil:
    """Connections that choose another port now go there, by number; so do their responses."""
    cdef uint32_t i
    cdef Heap moving
    cdef SendHalf* q
    cdef RecvHalf* r
    memset(&moving, 0, sizeof(Heap))
    for i in range(h.send_capacity):
        q = &h.send[i]
        if q.conn != NIL and host_choice(sim, h, q.dst, q.key) != q.port:
            heap_push(th, &moving, 0, q.conn, i)
    while moving.n:
        q = &h.send[moving.items[0].slot]
        heap_pop(&moving)
        send_move(sim, th, h, q, host_choice(sim, h, q.dst, q.key), now_ps)
    free(moving.items)
    for i in range(h.recv_capacity):
        r = &h.recv[i]
        if r.conn != NIL:
            r.port = host_choice(sim, h, r.src, r.key)


cdef inline void host_change(Sim* sim, Thread* th, Host* h, int32_t number,
                             int64_t now_ps) noexcept nogil:
    """Do what the plan says; a NIC goes on sending by a port that is down."""
    cdef int kind = sim.change_kind[number]
    if kind == CHANGE_ROUTE:
        h.route.kind = ROUTE_TABLE
        h.route.row = sim.change_value[number]
        host_rerouted(sim, th, h, now_ps)
    elif kind == CHANGE_RATE:
        port_rate(sim, h.port_start + sim.change_port[number], sim.change_value[number])
    change_arm(sim, th, h.node, number + 1)


cdef inline void node_change(Sim* sim, Thread* th, int32_t node, int32_t number,
                             int64_t now_ps) noexcept nogil:
    """Make a change of the plan; called by address, so that its code is far from the packets'."""
    if node < sim.n_host:
        host_change(sim, th, &sim.hosts[node], number, now_ps)
    else:
        switch_change(sim, th, &sim.switches[node - sim.n_host], number, now_ps)
