"""Shared buffer of a switch: groups, pool, dynamic thresholds, XOFF and XON (semantics 3.2).

Counters may be stale, but only too high: departures that have started are released when a port is
touched. So a test that passes with them passes in truth; one that fails is repeated after draining
the switch (`switch.pxd`).

invariant: used_bytes == sum over groups of max(0, bytes - headroom_bytes - reserved)
"""

from libc.stdint cimport int64_t

from emunet._core.types cimport FAULT_GROUP, FAULT_POOL, Group, Switch, Thread, check

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


cdef inline int64_t threshold_bytes(Switch* sw, int klass, int64_t used_bytes) noexcept nogil:
    """Dynamic threshold of a class: alpha times what is free when `used_bytes` are in use."""
    cdef int64_t rest = sw.shared_bytes - used_bytes
    return <int64_t>(sw.alpha[klass] * <double>rest) if rest > 0 else 0


cdef inline int admission_test(
    Switch* sw, Group* g, int64_t queue_bytes, int klass, int64_t frame_bytes,
    int64_t* growth_bytes
) noexcept nogil:
    """Verdict on a packet that would join group g and a queue of `queue_bytes`.

    `growth_bytes` is set to what it would add to the pool.
    """
    cdef int64_t reserved = sw.reserved_bytes[klass]
    cdef int64_t shared, grown, used
    if g.xoff:
        return HEADROOM
    shared = group_shared(g, reserved)
    grown = g.bytes - g.headroom_bytes - reserved + frame_bytes
    if grown < 0:
        grown = 0
    growth_bytes[0] = grown - shared
    used = sw.used_bytes + grown - shared
    if (sw.lossless >> klass) & 1:
        if used > sw.shared_bytes:
            return HEADROOM_XOFF
        return ADMIT_XOFF if grown > threshold_bytes(sw, klass, used) else ADMIT
    if (used > sw.shared_bytes
            or queue_bytes + frame_bytes > reserved + threshold_bytes(sw, klass, sw.used_bytes)):
        return REJECT
    return ADMIT


cdef inline void group_charge(Switch* sw, Group* g, int64_t frame_bytes,
                              int64_t growth_bytes) noexcept nogil:
    """Charge an admitted packet; `growth_bytes` as `admission_test` gave it."""
    g.bytes += frame_bytes
    sw.used_bytes += growth_bytes


cdef inline bint group_release(Switch* sw, Thread* th, Group* g, int klass,
                               int64_t frame_bytes) noexcept nogil:
    """Release bytes whose last bit has left; whether the group now leaves XOFF."""
    cdef int64_t reserved = sw.reserved_bytes[klass]
    cdef int64_t before = group_shared(g, reserved), after, taken
    if g.xoff:
        taken = frame_bytes if frame_bytes < g.headroom_bytes else g.headroom_bytes
        g.headroom_bytes -= taken
    g.bytes -= frame_bytes
    after = group_shared(g, reserved)
    sw.used_bytes += after - before
    check(th, g.bytes >= 0 and g.headroom_bytes >= 0, FAULT_GROUP)
    check(th, sw.used_bytes >= 0, FAULT_POOL)
    return (g.xoff and g.headroom_bytes == 0
            and (after == 0
                 or after + sw.xon_offset_bytes <= threshold_bytes(sw, klass, sw.used_bytes)))
