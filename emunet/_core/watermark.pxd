"""Watermarks of queues, groups and pools: clears, p99 and time integrals (semantics 3.5).

On a packet's way there is one running maximum for each object. A clear folds it into those of each
kind and starts it again at what the object holds. All functions here want the switch drained.

A tally counts an object's samples by size: the last few as they came, the others by bucket.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, realloc

from emunet._core.memory cimport rows_add
from emunet._core.types cimport (FOREVER, NIL, N_CLASS, N_FRESH, Group, HeadroomTime, Peak,
                                 PeriodicRow, Port, Queue, Sim, Switch, Tally, Thread,
                                 WatermarkRow, highest_bit, highest_bit64, unlikely, wide)

cdef enum:                   # objects, as in rows.py
    QUEUE = 0
    PG_SHARED = 1
    PG_HEADROOM = 2
    POOL_SHARED = 3
    POOL_HEADROOM = 4
    N_PORT_OBJECT = 3        # of each port and class; the other two are a switch's

cdef enum:                   # bits of Sim.clear_mask
    CLEAR_USER = 1
    CLEAR_PERSISTENT = 2
    CLEAR_PERIODIC = 4


cdef inline int64_t object_index(Sim* sim, int32_t port, int klass, int what) noexcept nogil:
    """Place of a port's object in the arrays by object; `port` is global and a switch's."""
    cdef int64_t own = port - sim.node_port_start[sim.n_host]
    return (own * N_CLASS + klass) * N_PORT_OBJECT + what


cdef inline int64_t pool_index(Sim* sim, Switch* sw, int what) noexcept nogil:
    """Place of a switch's object: after those of all ports."""
    return (object_index(sim, sim.n_port, 0, 0) + 2 * <int64_t>(sw.node - sim.n_host)
            + what - POOL_SHARED)


cdef inline int64_t n_object(Sim* sim) noexcept nogil:
    """Objects of all switches."""
    return object_index(sim, sim.n_port, 0, 0) + 2 * <int64_t>sim.n_switch


cdef inline int64_t outside_bytes(Group* g) noexcept nogil:
    """Bytes of a group outside headroom."""
    return g.bytes - g.headroom_bytes


cdef inline void headroom_move(Switch* sw, Group* g, HeadroomTime* held, int64_t change_bytes,
                               int64_t now_ps) noexcept nogil:
    """Change a group's headroom bytes, in the order of time: in XOFF departures are events."""
    held.byte_ps += <wide>g.headroom_bytes * (now_ps - held.since_ps)
    held.since_ps = now_ps
    g.headroom_bytes += change_bytes
    sw.headroom_bytes += change_bytes


cdef inline wide headroom_time(Sim* sim, int32_t group, int64_t now_ps) noexcept nogil:
    """Time integral up to now of a group's headroom bytes."""
    cdef HeadroomTime* held = &sim.headroom[group]
    return held.byte_ps + <wide>sim.group[group].headroom_bytes * (now_ps - held.since_ps)


# ------------------------------------------------------------------------------------------ samples

cdef inline uint32_t bucket_of(int64_t size_bytes) noexcept nogil:
    """Bucket of a size: itself below 64, then 32 to each doubling."""
    cdef int shift
    if size_bytes < 64:
        return <uint32_t>size_bytes
    shift = highest_bit64(size_bytes) - 5
    return shift * 32 + <uint32_t>(size_bytes >> shift)


cdef inline int64_t bucket_end(uint32_t bucket) noexcept nogil:
    """Greatest size of a bucket."""
    cdef int64_t shift = <int64_t>(bucket // 32) - 1 if bucket >= 64 else 0
    return ((<int64_t>bucket - 32 * shift + 1) << shift) - 1


cdef inline void tally_add(Thread* th, Tally** place, int64_t size_bytes) noexcept nogil:
    """Note one sample of a size."""
    cdef Tally* tally = place[0]
    if unlikely(tally == NULL):
        tally = place[0] = <Tally*>calloc(1, sizeof(Tally))
        if tally == NULL:
            th.no_memory = 1
            return
    elif unlikely(tally.n_fresh == N_FRESH):
        tally_fold(th, tally)
    tally.fresh[tally.n_fresh] = bucket_of(size_bytes)
    tally.n_fresh += 1


cdef inline void tally_fold(Thread* th, Tally* tally) noexcept nogil:
    """Count the fresh samples: those of known buckets in one pass, then the others one by one."""
    cdef int32_t i, n = tally.n_fresh
    cdef uint8_t* seen = th.seen
    tally.n_fresh = 0
    for i in range(n):
        seen[tally.fresh[i]] += 1
    for i in range(tally.n):
        tally.counts[i] += seen[tally.counts[i] >> 48]
        seen[tally.counts[i] >> 48] = 0
    for i in range(n):
        if unlikely(seen[tally.fresh[i]]):
            tally_insert(th, tally, tally.fresh[i], seen[tally.fresh[i]])
            seen[tally.fresh[i]] = 0


cdef inline void tally_insert(Thread* th, Tally* tally, uint64_t bucket,
                              uint64_t count) noexcept nogil:
    """Add a bucket that is not there."""
    cdef int32_t i = tally.n
    cdef uint64_t* counts = tally.counts
    if i % 4 == 0:
        counts = <uint64_t*>realloc(counts, (i + 4) * sizeof(uint64_t))
        if counts == NULL:
            th.no_memory = 1
            return
        tally.counts = counts
    while i > 0 and counts[i - 1] >> 48 > bucket:
        counts[i] = counts[i - 1]
        i -= 1
    counts[i] = bucket << 48 | count
    tally.n += 1


cdef inline int64_t tally_p99(Thread* th, Tally* tally, int64_t n_instant,
                              int64_t greatest_bytes) noexcept nogil:
    """The ceil(0.99 n)-th smallest of n samples, those not taken being 0; -1 without any."""
    cdef int64_t above = n_instant - (99 * n_instant + 99) // 100, count
    cdef int32_t i
    if n_instant == 0:
        return -1
    if tally == NULL:
        return 0
    tally_fold(th, tally)
    for i in range(tally.n - 1, -1, -1):
        count = tally.counts[i] & ((<uint64_t>1 << 48) - 1)
        if count > above:
            above = bucket_end(tally.counts[i] >> 48)
            return above if above < greatest_bytes else greatest_bytes
        above -= count
    return 0


cdef inline void switch_measure(Sim* sim, Thread* th, Switch* sw) noexcept nogil:
    """Count what every object holds that holds something."""
    cdef int32_t i, port
    cdef int c
    cdef uint32_t mask, classes = 0, rest
    cdef Port* p
    cdef Group* g
    for port in range(sw.port_start, sw.port_start + sw.n_port):
        p = &sim.port[port]
        mask = p.nonempty
        if p.tx_end_ps != FOREVER:
            mask |= 1 << p.tx_class
        classes |= mask
        while mask:
            c = highest_bit(mask)
            mask &= ~(<uint32_t>1 << c)
            tally_add(th, &sim.tally[object_index(sim, port, c, QUEUE)],
                      sim.queue[port * N_CLASS + c].bytes)
    if classes == 0:
        return
    # a packet is in one queue and one group, both of its class
    for port in range(sw.port_start, sw.port_start + sw.n_port):
        rest = classes
        while rest:
            c = highest_bit(rest)
            rest &= ~(<uint32_t>1 << c)
            g = &sim.group[port * N_CLASS + c]
            if outside_bytes(g):
                tally_add(th, &sim.tally[object_index(sim, port, c, PG_SHARED)], outside_bytes(g))
            if g.headroom_bytes:
                tally_add(th, &sim.tally[object_index(sim, port, c, PG_HEADROOM)],
                          g.headroom_bytes)
    if sw.used_bytes:
        tally_add(th, &sim.tally[pool_index(sim, sw, POOL_SHARED)], sw.used_bytes)
        sw.measured_bytes += sw.used_bytes
    if sw.headroom_bytes:
        tally_add(th, &sim.tally[pool_index(sim, sw, POOL_HEADROOM)], sw.headroom_bytes)


# ------------------------------------------------------------------------------------------- clears

cdef inline void peak_clear(
    Sim* sim, Thread* th, Switch* sw, int what, int32_t port, int klass, int64_t* running,
    int64_t held_bytes, int64_t now_ps
) noexcept nogil:
    """Fold an object's running maximum into those of all kinds; begin the cleared ones anew."""
    cdef Peak* peak = &sim.peak[pool_index(sim, sw, what) if port < 0
                                else object_index(sim, port, klass, what)]
    cdef PeriodicRow* row
    peak.start = max(peak.start, running[0])
    peak.user = 0 if sim.clear_mask & CLEAR_USER else max(peak.user, running[0])
    peak.persistent = (0 if sim.clear_mask & CLEAR_PERSISTENT
                       else max(peak.persistent, running[0]))
    peak.periodic = max(peak.periodic, running[0])
    running[0] = held_bytes
    if not sim.clear_mask & CLEAR_PERIODIC or peak.periodic == 0:
        return
    row = <PeriodicRow*>rows_add(th, &th.periodic)
    if row == NULL:
        return
    row.time_ps = now_ps
    row.watermark_bytes = peak.periodic
    row.object = what
    row.node = sw.node
    row.port = port
    row.klass = klass
    peak.periodic = 0


cdef inline bint switch_clear(Sim* sim, Thread* th, Switch* sw, int64_t now_ps) noexcept nogil:
    """Clear what `clear_mask` says; whether the switch holds anything."""
    cdef int32_t port, c
    cdef Group* g
    cdef Queue* q
    cdef bint held = False
    sw.cleared_ps = now_ps
    for port in range(sw.port_start, sw.port_start + sw.n_port):
        for c in range(N_CLASS):
            q = &sim.queue[port * N_CLASS + c]
            g = &sim.group[port * N_CLASS + c]
            held |= q.bytes != 0
            peak_clear(sim, th, sw, QUEUE, port, c, &q.watermark_bytes, q.bytes, now_ps)
            peak_clear(sim, th, sw, PG_SHARED, port, c, &g.watermark_bytes, outside_bytes(g),
                       now_ps)
            peak_clear(sim, th, sw, PG_HEADROOM, port, c, &g.headroom_watermark_bytes,
                       g.headroom_bytes, now_ps)
    peak_clear(sim, th, sw, POOL_SHARED, -1, -1, &sw.pool_watermark_bytes, sw.used_bytes, now_ps)
    peak_clear(sim, th, sw, POOL_HEADROOM, -1, -1, &sw.headroom_watermark_bytes,
               sw.headroom_bytes, now_ps)
    return held


cdef inline void clear_idle(Sim* sim, Thread* th, Switch* sw) noexcept nogil:
    """Clear a switch that has no work in the window of the clear, unless it did so already.

    Where nothing is held and nothing has come since an interval ended, the next has no maxima.
    """
    cdef bint periodic = sim.clear_mask == CLEAR_PERIODIC
    if sw.cleared_ps == sim.clear_ps or (periodic and not sw.busy):
        return
    sw.busy = switch_clear(sim, th, sw, sim.clear_ps) or not periodic


# --------------------------------------------------------------------------------------- at the end

cdef inline int64_t since_start(Sim* sim, int64_t index, int64_t running) noexcept nogil:
    """Greatest bytes of an object since the start."""
    return running if sim.peak == NULL else max(sim.peak[index].start, running)


cdef inline void held_byte_ps(Sim* sim, Switch* sw, int64_t now_ps, wide* queue,
                              wide* group) noexcept nogil:
    """Time integrals up to now of a switch's queues and groups, [n_port, N_CLASS] each."""
    cdef int32_t i, at, first = sw.port_start * N_CLASS
    cdef int c
    cdef uint32_t slot
    cdef Port* p
    cdef wide held
    for i in range(sw.n_port * N_CLASS):
        queue[i] = sim.queue[first + i].byte_ps
        group[i] = sim.group[first + i].byte_ps
    for i in range(sw.n_port):
        p = &sim.port[sw.port_start + i]
        if p.tx_end_ps != FOREVER:
            held = <wide>p.tx_bytes * (now_ps - p.tx_admit_ps)
            queue[i * N_CLASS + p.tx_class] += held
            group[p.tx_in_port * N_CLASS + p.tx_class] += held
        for c in range(N_CLASS):
            if not (p.nonempty >> c) & 1:
                continue
            slot = sim.queue[first + i * N_CLASS + c].head
            while slot != NIL:
                held = (<wide>sw.pool.slots[slot].bytes
                        * (now_ps - sw.pool.slots[slot].packet.time_ps))
                at = sw.pool.slots[slot].packet.in_port * N_CLASS + c
                queue[i * N_CLASS + c] += held
                group[at] += held
                slot = sw.pool.slots[slot].next


cdef inline bint watermark_row(
    Sim* sim, Thread* th, Switch* sw, int what, int32_t port, int klass, int64_t n_instant,
    WatermarkRow* row
) noexcept nogil:
    """All of an object but its time integral; False if it has never held a byte."""
    cdef int64_t index, running
    if what == QUEUE:
        running = sim.queue[port * N_CLASS + klass].watermark_bytes
    elif what == PG_SHARED:
        running = sim.group[port * N_CLASS + klass].watermark_bytes
    elif what == PG_HEADROOM:
        running = sim.group[port * N_CLASS + klass].headroom_watermark_bytes
    elif what == POOL_SHARED:
        running = sw.pool_watermark_bytes
    else:
        running = sw.headroom_watermark_bytes
    index = pool_index(sim, sw, what) if port < 0 else object_index(sim, port, klass, what)
    row.watermark_bytes = since_start(sim, index, running)
    if row.watermark_bytes == 0:
        return False
    row.object = what
    row.node = sw.node
    row.port = port
    row.klass = klass
    row.user_bytes = row.persistent_bytes = running
    if sim.peak != NULL:
        row.user_bytes = max(sim.peak[index].user, running)
        row.persistent_bytes = max(sim.peak[index].persistent, running)
    row.p99_bytes = tally_p99(th, sim.tally[index] if sim.tally != NULL else NULL, n_instant,
                              row.watermark_bytes)
    return True
