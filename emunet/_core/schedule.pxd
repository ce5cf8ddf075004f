"""Classes that take turns on a port: deficit weighted round robin (semantics 3.3).

Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit Round Robin", SIGCOMM 1995, with a
quantum for each class. A quantum is no less than the longest packet, so that a turn always sends.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from emunet._core.types cimport (N_CLASS, SLOT_BYTES, TURN_BEGUN, TURN_CLASS, Port, Sim, Switch,
                                 highest_bit, unlikely)


cdef inline int32_t turn_of(Sim* sim, Switch* sw, int32_t port, uint32_t ready) noexcept nogil:
    """Class that sends next, and the charge to its deficit; `ready` has at least one, none strict.

    Turns go from high classes to low ones. A class that is paused is passed over and keeps its
    deficit; one that has become empty has lost it (`port_depart`).
    """
    cdef Port* p = &sim.port[port]
    cdef int64_t* deficit = &sim.deficit[port * N_CLASS]
    cdef int32_t klass = p.turn & TURN_CLASS
    cdef int64_t need
    while True:
        if (ready >> klass) & 1:
            if not p.turn & TURN_BEGUN:
                deficit[klass] += sw.quantum_bytes[klass]
                p.turn = klass | TURN_BEGUN
            need = sw.pool.slots[sim.queue[port * N_CLASS + klass].head].packet.bytes + SLOT_BYTES
            if need <= deficit[klass]:
                deficit[klass] -= need
                return klass
        klass = (klass - 1) & TURN_CLASS
        p.turn = klass


cdef inline int32_t class_to_serve(Sim* sim, Switch* sw, int32_t port,
                                   uint32_t ready) noexcept nogil:
    """Class whose first packet leaves next, of those that are `ready`, at least one."""
    if unlikely(sw.strict != 255):
        if ready & sw.strict:
            return highest_bit(ready & sw.strict)
        return turn_of(sim, sw, port, ready)
    return highest_bit(ready)
