"""What switch ports and host ports share: serialisation, pauses received, the event log."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from emunet._core.memory cimport rows_add
from emunet._core.types cimport (FOREVER, PAUSE, PAUSE_BYTES, SLOT_BYTES, EventRow, Packet, PfcRow,
                                 Port, PortCold, Sim, Thread)


cdef inline uint32_t packet_kind(Packet* p) noexcept nogil:
    return (p.dst_bits >> 24) & 15


cdef inline uint32_t packet_class(Packet* p) noexcept nogil:
    return (p.dst_bits >> 28) & 7


cdef inline uint32_t packet_marked(Packet* p) noexcept nogil:
    return p.dst_bits >> 31


cdef inline uint32_t packet_dst(Packet* p) noexcept nogil:
    return p.dst_bits & 0xFFFFFF


cdef inline uint32_t packet_bits(uint32_t dst, uint32_t kind, uint32_t klass,
                                 uint32_t marked) noexcept nogil:
    """`dst_bits` of a packet; the four functions above take it apart."""
    return dst | (kind << 24) | (klass << 28) | (marked << 31)


cdef inline int64_t port_serialise(Port* port, int64_t start_ps,
                                   int64_t frame_bytes) noexcept nogil:
    """Serialisation of a frame from `start_ps`, ps: rounded up, remainder carried (semantics 1)."""
    cdef int64_t x, ser
    if port.ser_d == 1:
        return (frame_bytes + SLOT_BYTES) * port.ser_n
    if start_ps > port.busy_until_ps:
        port.carry = 0
    x = (frame_bytes + SLOT_BYTES) * port.ser_n - port.carry
    ser = (x + port.ser_d - 1) // port.ser_d
    port.carry = ser * port.ser_d - x
    return ser


cdef inline void log_packet(
    Sim* sim, Thread* th, int64_t time_ps, int32_t node, int32_t port, uint8_t kind, Packet* p,
    int64_t occupancy
) noexcept nogil:
    """One row of the event log for a packet, if the log wants it."""
    cdef EventRow* row
    if not (sim.log_kinds >> kind) & 1 or p.conn < sim.log_flow_lo or p.conn >= sim.log_flow_hi:
        return
    row = <EventRow*>rows_add(th, &th.log)
    if row == NULL:
        return
    row.time_ps = time_ps
    row.flow = p.conn
    row.occupancy = occupancy
    row.node = node
    row.port = port
    row.psn = p.psn_flags & 0xFFFFFF
    row.bytes = p.bytes
    row.kind = kind
    row.packet = packet_kind(p)
    row.klass = packet_class(p)
    row.flags = packet_marked(p) | ((p.psn_flags >> 24) << 1)
    row.pad = 0


cdef inline void log_pause(
    Sim* sim, Thread* th, int64_t time_ps, int32_t node, int32_t port, uint8_t kind, uint8_t klass,
    int64_t occupancy
) noexcept nogil:
    """One row of the event log for link control; its flow is -1."""
    cdef EventRow* row
    if not (sim.log_kinds >> kind) & 1 or sim.log_flow_lo > -1:
        return
    row = <EventRow*>rows_add(th, &th.log)
    if row == NULL:
        return
    row.time_ps = time_ps
    row.flow = -1
    row.occupancy = occupancy
    row.node = node
    row.port = port
    row.psn = 0
    row.bytes = PAUSE_BYTES
    row.kind = kind
    row.packet = PAUSE
    row.klass = klass
    row.flags = 0
    row.pad = 0


cdef inline void pfc_row(Thread* th, int64_t time_ps, int32_t port, uint8_t klass,
                         uint8_t on) noexcept nogil:
    """One row of the PFC table: a switch port has decided on XOFF (1) or XON (0)."""
    cdef PfcRow* row = <PfcRow*>rows_add(th, &th.pfc)
    if row == NULL:
        return
    row.time_ps = time_ps
    row.port = port
    row.klass = klass
    row.on = on
    row.pad = 0


cdef inline bint pause_receive(Sim* sim, int32_t port, uint8_t klass, bint on,
                               int64_t now_ps) noexcept nogil:
    """Note XOFF or XON at a port drained up to now; whether the class's pause began or ended."""
    cdef Port* p = &sim.port[port]
    cdef PortCold* cold = &sim.cold[port]
    cdef bint was = (p.paused >> klass) & 1
    if on:
        cold.n_pause_rx += 1
        # the sender's rate sets the quantum; the pause counts from the frame's effect
        cold.pause_until_ps[klass] = now_ps + sim.cold[cold.peer].pause_ps
        if not was:
            p.paused |= 1 << klass
            cold.paused_since_ps[klass] = now_ps
            return True
        return False
    return pause_clear(sim, port, klass, now_ps)


cdef inline bint pause_clear(Sim* sim, int32_t port, uint8_t klass, int64_t now_ps) noexcept nogil:
    """End a class's pause, by XON or expiry; whether it was paused."""
    cdef Port* p = &sim.port[port]
    cdef PortCold* cold = &sim.cold[port]
    if not (p.paused >> klass) & 1:
        return False
    p.paused &= ~(1 << klass)
    cold.paused_ps += now_ps - cold.paused_since_ps[klass]
    cold.pause_until_ps[klass] = FOREVER
    return True
