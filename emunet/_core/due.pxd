"""Heads of a switch's sources in one window: a heap of events (semantics 2)."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc

from emunet._core.rng cimport tie_before
from emunet._core.types cimport Due, Sim, Thread, unlikely


cdef inline bint due_before(Sim* sim, int32_t node, Due* a, Due* b) noexcept nogil:
    """Order of events at a node: by time, kind, tie of the ports (semantics 2)."""
    if a.time_ps != b.time_ps:
        return a.time_ps < b.time_ps
    if a.kind != b.kind:
        return a.kind < b.kind
    return tie_before(sim, node, a.time_ps, a.port, b.port)


cdef inline void due_push(Sim* sim, Thread* th, int32_t node, int64_t time_ps, int32_t kind,
                          int32_t port) noexcept nogil:
    """List the head of a source; `port` is local."""
    cdef int32_t i = th.heap_n, up
    cdef Due item
    cdef Due* heap
    if unlikely(i == th.heap_capacity):
        heap = <Due*>realloc(th.heap, (2 * i + 64) * sizeof(Due))
        if heap == NULL:
            th.no_memory = 1
            return
        th.heap = heap
        th.heap_capacity = 2 * i + 64
    item.time_ps = time_ps
    item.kind = kind
    item.port = port
    th.heap_n += 1
    while i > 0:
        up = (i - 1) >> 1
        if not due_before(sim, node, &item, &th.heap[up]):
            break
        th.heap[i] = th.heap[up]
        i = up
    th.heap[i] = item


cdef inline void due_sink(Sim* sim, Thread* th, int32_t node, Due item) noexcept nogil:
    """Put an item where the first one was."""
    cdef int32_t i = 0, child
    cdef int32_t n = th.heap_n
    cdef Due* heap = th.heap
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and due_before(sim, node, &heap[child + 1], &heap[child]):
            child += 1
        if not due_before(sim, node, &heap[child], &item):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = item


cdef inline void due_pop(Sim* sim, Thread* th, int32_t node) noexcept nogil:
    """Drop the first item; `th.heap[0]` is the first."""
    th.heap_n -= 1
    if th.heap_n > 0:
        due_sink(sim, th, node, th.heap[th.heap_n])
