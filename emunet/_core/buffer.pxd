"""Shared buffer of a switch: groups, pool, dynamic thresholds, XOFF and XON (semantics 3.2).

Counters may be stale, but only too high: departures that have started are released when a port is
touched. So a test that passes with them passes in truth; one that fails is repeated after draining
the switch (`switch.pxd`).

invariant: used_bytes == sum over groups of max(0, bytes - headroom_bytes - reserved)
"""

from libc.stdint cimport int64_t

from emunet._core.types cimport (FAULT_GROUP, FAULT_POOL, Group, HeadroomTime, Switch, Thread,
                                 check, unlikely)
from emunet._core.watermark cimport headroom_move

cdef enum:                   # verdicts of admission
    ADMIT = 0
    ADMIT_XOFF = 1           # into the shared pool, and the group goes to XOFF
    HEADROOM_XOFF = 2        # the pool is full: the group goes to XOFF, the packet to headroom
    HEADROOM = 3             # the group is in XOFF
    REJECT = 4


cdef inline int64_t group_shared(Group* g, int64_t reserved_bytes) noexcept nogil:
    """Bytes of a group in the shared pool: neither in headroom nor reserved."""
    cdef int64_t shared = g.bytes - g.headroom_bytes - reserved_bytes
    return shared if shared > 0 else 0


cdef inline int64_t charged_bytes(Switch* sw, int64_t frame_bytes) noexcept nogil:
    """What a frame takes of the buffer: whole cells."""
    if unlikely(sw.cell_bytes != 1):
        return (frame_bytes + sw.cell_bytes - 1) // sw.cell_bytes * sw.cell_bytes
    return frame_bytes


cdef inline int64_t threshold_bytes(Switch* sw, int64_t limit_bytes, double alpha,
                                    int64_t used_bytes) noexcept nogil:
    """A static limit, or alpha times what is free when `used_bytes` are in use."""
    cdef int64_t rest
    if unlikely(limit_bytes >= 0):
        return limit_bytes
    rest = sw.shared_bytes - used_bytes
    return <int64_t>(alpha * <double>rest) if rest > 0 else 0


cdef inline int64_t group_threshold(Switch* sw, int klass, int64_t used_bytes) noexcept nogil:
    """Shared bytes above which a group goes to XOFF (lossless) or drops."""
    return threshold_bytes(sw, sw.group_limit_bytes[klass], sw.group_alpha[klass], used_bytes)


cdef inline int64_t queue_threshold(Switch* sw, int klass, int64_t used_bytes) noexcept nogil:
    """Bytes beyond its reservation above which a queue takes no packet."""
    return threshold_bytes(sw, sw.queue_limit_bytes[klass], sw.queue_alpha[klass], used_bytes)


cdef inline int admission_test(
    Switch* sw, Group* g, int64_t queue_bytes, int klass, int64_t packet_bytes,
    int64_t* growth_bytes
) noexcept nogil:
    """Verdict on a packet that would join group g and a queue of `queue_bytes`.

    `packet_bytes` is what it takes of the buffer; `growth_bytes` is set to what it would add to
    the pool.
    """
    cdef int64_t reserved = sw.reserved_bytes[klass]
    cdef int64_t shared, grown, used
    if (unlikely((sw.queue_limited >> klass) & 1)
            and queue_bytes + packet_bytes > reserved + queue_threshold(sw, klass, sw.used_bytes)):
        return REJECT
    if g.xoff:
        return HEADROOM
    shared = group_shared(g, reserved)
    grown = g.bytes - g.headroom_bytes - reserved + packet_bytes
    if grown < 0:
        grown = 0
    growth_bytes[0] = grown - shared
    used = sw.used_bytes + grown - shared
    if (sw.lossless >> klass) & 1:
        if used > sw.shared_bytes:
            return HEADROOM_XOFF
        return ADMIT_XOFF if grown > group_threshold(sw, klass, used) else ADMIT
    if used > sw.shared_bytes or (
            (sw.group_limited >> klass) & 1
            and grown > group_threshold(sw, klass, sw.used_bytes)):
        return REJECT
    return ADMIT


cdef inline void group_charge(Switch* sw, Group* g, int64_t packet_bytes,
                              int64_t growth_bytes) noexcept nogil:
    """Charge an admitted packet; `growth_bytes` as `admission_test` gave it."""
    g.bytes += packet_bytes
    sw.used_bytes += growth_bytes


cdef inline bint group_release(
    Switch* sw, Thread* th, Group* g, HeadroomTime* held, int klass, int64_t packet_bytes,
    int64_t now_ps
) noexcept nogil:
    """Release bytes whose last bit has left; whether the group now leaves XOFF."""
    cdef int64_t reserved = sw.reserved_bytes[klass]
    cdef int64_t before = group_shared(g, reserved), after, taken
    if g.xoff:
        taken = packet_bytes if packet_bytes < g.headroom_bytes else g.headroom_bytes
        headroom_move(sw, g, held, -taken, now_ps)
    g.bytes -= packet_bytes
    after = group_shared(g, reserved)
    sw.used_bytes += after - before
    check(th, g.bytes >= 0 and g.headroom_bytes >= 0, FAULT_GROUP)
    check(th, sw.used_bytes >= 0, FAULT_POOL)
    return (g.xoff and g.headroom_bytes == 0
            and (after == 0
                 or after + sw.xon_offset_bytes <= group_threshold(sw, klass, sw.used_bytes)))
