"""Which groups in XOFF wait for which paused ports: what a deadlock is made of (semantics 6.1)."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from emunet._core.port cimport packet_class
from emunet._core.types cimport FOREVER, NIL, N_CLASS, LinkRx, Port, Queue, Sim, Switch


cdef inline bint link_holds(LinkRx* rx, int klass, bint xon) noexcept nogil:
    """Whether a packet of a class (`xon`: an XON for it) is on its way; only between windows."""
    cdef uint32_t at = rx.head
    while at != rx.tail:
        if <int>packet_class(&rx.ring[at & rx.mask]) == klass and not (
                xon and rx.ring[at & rx.mask].conn):
            return True
        at += 1
    return False


cdef inline bint group_shut(Sim* sim, int32_t port, int klass) noexcept nogil:
    """Whether a group is in XOFF, its peer obeys, and nothing under way can change either."""
    cdef int64_t peer = sim.cold[port].peer
    return (sim.group[port * N_CLASS + klass].xoff != 0
            and (sim.port[peer].paused >> klass) & 1
            and not link_holds(&sim.rx[port], klass, False)
            and not link_holds(&sim.rx[sim.n_port + peer], klass, True))


cdef inline void switch_waits(Sim* sim, Switch* sw, int klass, uint8_t* waits) noexcept nogil:
    """Set `waits[in_port * n_port + out_port]` for the shut groups whose packets are all behind
    paused ports; `waits` is zero at first.
    """
    cdef int32_t i, o, n = sw.n_port
    cdef uint32_t index
    cdef Port* p
    cdef Queue* q
    for o in range(n):
        p = &sim.port[sw.port_start + o]
        if p.tx_end_ps != FOREVER and p.tx_class == klass:
            waits[p.tx_in_port * n + o] = 2
        if not (p.nonempty >> klass) & 1:
            continue
        q = &sim.queue[(sw.port_start + o) * N_CLASS + klass]
        index = q.head
        while index != NIL:
            i = sw.pool.slots[index].packet.in_port
            waits[i * n + o] |= 1 if (p.paused >> klass) & 1 else 2
            index = sw.pool.slots[index].next
    for i in range(n):
        o = 0
        while o < n and waits[i * n + o] < 2:
            o += 1
        if o < n or not group_shut(sim, sw.port_start + i, klass):
            for o in range(n):
                waits[i * n + o] = 0
