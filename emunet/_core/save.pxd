"""Saving and restoring: one description of the state, used in both directions.

Structs go as they are; what they point to follows, and pointers are made anew. Rings and heaps
shrink to their contents.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from emunet._core.memory cimport rows_add
from emunet._core.types cimport (N_CLASS, Channel, Group, HeadroomTime, Heap, Host, HostPort,
                                 LinkRx, LinkTx, Packet, Peak, Pool, Port, PortCold, Queue,
                                 RecvHalf, Rows, SendHalf, Sim, Slot, Switch, Table, Tally, Thread,
                                 Timer, Totals, Watch)
from emunet._core.watermark cimport n_object


cdef struct Stream:
    char* data
    int64_t n                # bytes written or read
    int64_t capacity
    bint writing
    bint failed              # no memory, or read past the end


cdef inline void stream_close(Stream* s) noexcept nogil:
    """Give back what was written; the bytes of a stream that reads are its caller's."""
    free(s.data)


cdef inline void exchange(Stream* s, void* p, int64_t size) noexcept nogil:
    """Write `size` bytes from p, or read them to p."""
    cdef char* data
    cdef int64_t capacity
    if s.failed or size == 0:
        return
    if s.n + size > s.capacity:
        capacity = 2 * (s.n + size)
        data = <char*>realloc(s.data, capacity) if s.writing else NULL
        if data == NULL:
            s.failed = True
            return
        s.data = data
        s.capacity = capacity
    if s.writing:
        memcpy(s.data + s.n, p, size)
    else:
        memcpy(p, s.data + s.n, size)
    s.n += size


cdef inline bint stream_holds(Stream* s, int64_t n, int64_t size) noexcept nogil:
    """Whether n items can follow; a stream that reads and holds less has failed."""
    if not s.writing and (n < 0 or n > (s.capacity - s.n) // size):
        s.failed = True
    return not s.failed


cdef inline void* exchange_array(Stream* s, void* p, int64_t n, int64_t size) noexcept nogil:
    """An array of n items; when reading, a new one (NULL for none)."""
    if not s.writing:
        p = NULL
        if n > 0 and stream_holds(s, n, size):
            p = malloc(n * size)
            s.failed = p == NULL
    if p != NULL:
        exchange(s, p, n * size)
    return p


cdef inline void exchange_rows(Stream* s, Thread* th, Rows* rows) noexcept nogil:
    """A count and its rows; when reading, into rows that are empty."""
    cdef int64_t n = rows.n, i
    exchange(s, &n, sizeof(n))
    if not s.writing and stream_holds(s, n, rows.row_bytes):
        for i in range(n):
            s.failed = rows_add(th, rows) == NULL or s.failed
    if n:
        exchange(s, rows.data, n * rows.row_bytes)


cdef inline void exchange_heap(Stream* s, Heap* heap) noexcept nogil:
    """The struct has gone before; its items follow."""
    heap.items = <Timer*>exchange_array(s, heap.items, heap.n, sizeof(Timer))
    if not s.writing:
        heap.capacity = heap.n


cdef inline void heap_drop(Stream* s, Heap* heap) noexcept nogil:
    """Before a heap is read: forget what a new engine has listed in it."""
    if not s.writing:
        free(heap.items)
        heap.items = NULL
        heap.n = heap.capacity = 0


cdef inline void exchange_table(Stream* s, Table* table) noexcept nogil:
    """The struct has gone before; its keys and slots follow."""
    cdef int64_t n = <int64_t>table.mask + 1 if table.keys != NULL else 0
    table.keys = <uint32_t*>exchange_array(s, table.keys, n, sizeof(uint32_t))
    table.slots = <uint32_t*>exchange_array(s, table.slots, n, sizeof(uint32_t))


cdef inline void exchange_host(Stream* s, Sim* sim, Host* h) noexcept nogil:
    """A host with its connections, their policy states and bitmaps, timers and packets."""
    cdef int64_t words = sim.sr_window >> 6
    heap_drop(s, &h.timers)
    exchange(s, h, sizeof(Host))
    h.send = <SendHalf*>exchange_array(s, h.send, h.send_capacity, sizeof(SendHalf))
    h.recv = <RecvHalf*>exchange_array(s, h.recv, h.recv_capacity, sizeof(RecvHalf))
    if sim.cc_state_bytes:
        h.cc_state = <uint8_t*>exchange_array(s, h.cc_state, h.send_capacity, sim.cc_state_bytes)
    if sim.selective:
        h.send_bits = <uint64_t*>exchange_array(s, h.send_bits, h.send_capacity,
                                                2 * words * sizeof(uint64_t))
        h.recv_bits = <uint64_t*>exchange_array(s, h.recv_bits, h.recv_capacity,
                                                words * sizeof(uint64_t))
    exchange_table(s, &h.send_table)
    exchange_table(s, &h.recv_table)
    exchange_heap(s, &h.timers)
    exchange_heap(s, &h.releases)
    h.pool.slots = <Slot*>exchange_array(s, h.pool.slots, h.pool.capacity, sizeof(Slot))


cdef inline void exchange_link(Stream* s, LinkTx* tx, LinkRx* rx) noexcept nogil:
    """The packets in flight; a restored ring starts at 0."""
    cdef uint32_t n = rx.tail - rx.head, i
    cdef int64_t capacity = 8
    exchange(s, &n, sizeof(n))
    exchange(s, &rx.head_ps, sizeof(rx.head_ps))
    if not stream_holds(s, n, sizeof(Packet)):
        return
    if not s.writing and n > 0:
        while capacity < n:
            capacity *= 2
        tx.ring = <Packet*>malloc(capacity * sizeof(Packet))
        if tx.ring == NULL:
            s.failed = True
            return
        rx.ring = tx.ring
        tx.mask = rx.mask = <uint32_t>(capacity - 1)
        tx.tail = rx.tail = n
    for i in range(n):
        exchange(s, &rx.ring[(rx.head + i) & rx.mask], sizeof(Packet))


cdef inline void exchange_tally(Stream* s, Tally** place) noexcept nogil:
    """The samples of one object."""
    cdef uint8_t there = place[0] != NULL
    exchange(s, &there, sizeof(there))
    if not there or s.failed:
        return
    if not s.writing:
        place[0] = <Tally*>calloc(1, sizeof(Tally))
        if place[0] == NULL:
            s.failed = True
            return
    exchange(s, place[0], sizeof(Tally))
    # room is for a multiple of four
    place[0].counts = <uint64_t*>exchange_array(s, place[0].counts, (place[0].n + 3) // 4 * 4,
                                                sizeof(uint64_t))


cdef inline void exchange_watermarks(Stream* s, Sim* sim) noexcept nogil:
    """What is known of every object; an engine with other options cannot take it up."""
    cdef int64_t kept[2]
    cdef int64_t i, n = n_object(sim)
    cdef int32_t first = sim.node_port_start[sim.n_host]
    exchange(s, sim.headroom + first * N_CLASS,
             (sim.n_port - first) * N_CLASS * sizeof(HeadroomTime))
    kept[0] = sim.measure_every_ps
    kept[1] = sim.peak != NULL
    exchange(s, kept, sizeof(kept))
    s.failed |= kept[0] != sim.measure_every_ps or kept[1] != (sim.peak != NULL)
    if s.failed:
        return
    if sim.peak != NULL:
        exchange(s, sim.peak, n * sizeof(Peak))
    if sim.tally != NULL:
        for i in range(n):
            exchange_tally(s, &sim.tally[i])


cdef inline void sim_exchange(Stream* s, Sim* sim, Thread* th, int64_t** own,
                              int n_own) noexcept nogil:
    """All that changes while a simulation runs."""
    cdef int32_t i, first = sim.node_port_start[sim.n_host]
    cdef Pool* pool
    for i in range(n_own):
        exchange(s, own[i], sizeof(int64_t))
    exchange(s, &th.totals, sizeof(Totals))
    exchange(s, &th.activity_ps, sizeof(int64_t))
    exchange_rows(s, th, &th.failed)
    exchange_rows(s, th, &th.leftovers)
    exchange(s, sim.port, sim.n_port * sizeof(Port))
    exchange(s, sim.cold, sim.n_port * sizeof(PortCold))
    exchange(s, sim.queue + first * N_CLASS, (sim.n_port - first) * N_CLASS * sizeof(Queue))
    exchange(s, sim.group + first * N_CLASS, (sim.n_port - first) * N_CLASS * sizeof(Group))
    if sim.channel != NULL:
        exchange(s, sim.channel, sim.n_port * sizeof(Channel))
    if sim.deficit != NULL:
        exchange(s, sim.deficit + first * N_CLASS, (sim.n_port - first) * N_CLASS * sizeof(int64_t))
    if sim.watch != NULL:
        exchange(s, sim.watch + first * N_CLASS, (sim.n_port - first) * N_CLASS * sizeof(Watch))
    exchange_watermarks(s, sim)
    exchange(s, sim.due_ps, sim.n_node * sizeof(int64_t))
    exchange(s, sim.block_due_ps, sim.n_block * sizeof(int64_t))
    for i in range(first):
        exchange(s, &sim.host_port[i], sizeof(HostPort))
        exchange_heap(s, &sim.host_port[i].paced)
    for i in range(sim.n_switch):
        heap_drop(s, &sim.switches[i].timers)
        exchange(s, &sim.switches[i], sizeof(Switch))
        pool = &sim.switches[i].pool
        pool.slots = <Slot*>exchange_array(s, pool.slots, pool.capacity, sizeof(Slot))
        exchange_heap(s, &sim.switches[i].timers)
    for i in range(sim.n_host):
        exchange_host(s, sim, &sim.hosts[i])
    for i in range(sim.n_port):
        exchange_link(s, &sim.tx[i], &sim.rx[sim.cold[i].peer])
        exchange_link(s, &sim.tx[sim.n_port + i], &sim.rx[sim.n_port + sim.cold[i].peer])
