"""Growing arrays: rows, heaps, tables, pools, link rings.

A failed allocation sets `no_memory` and changes nothing.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from emunet._core.types cimport (FAULT_LINK, FAULT_WINDOW, FOREVER, NIL, Heap, LinkRx, LinkTx,
                                 Packet, Pool, Rows, Sim, Slot, Table, Thread, Timer, check,
                                 unlikely)


cdef inline void* rows_add(Thread* th, Rows* rows) noexcept nogil:
    """Room for one more row; NULL without memory."""
    cdef int64_t capacity
    cdef char* data
    if unlikely(rows.n == rows.capacity):
        capacity = rows.capacity * 2 if rows.capacity else 64
        data = <char*>realloc(rows.data, capacity * rows.row_bytes)
        if data == NULL:
            th.no_memory = 1
            return NULL
        rows.data = data
        rows.capacity = capacity
    rows.n += 1
    return rows.data + (rows.n - 1) * rows.row_bytes


cdef inline bint rows_move(Thread* th, Rows* into, Rows* rows) noexcept nogil:
    """Move rows behind others of their kind; False without memory, what is left then stays."""
    cdef void* row
    while rows.n:
        row = rows_add(th, into)
        if row == NULL:
            return False
        rows.n -= 1
        memcpy(row, rows.data + rows.n * rows.row_bytes, rows.row_bytes)
    return True


cdef inline bint timer_before(Timer* a, Timer* b) noexcept nogil:
    """Order of a heap: by time, then by id."""
    return a.time_ps < b.time_ps or (a.time_ps == b.time_ps and a.id < b.id)


cdef inline void heap_push(Thread* th, Heap* heap, int64_t time_ps, uint64_t id,
                           uint32_t slot) noexcept nogil:
    """List a timer; `slot` goes with it and does not order."""
    cdef uint32_t i, up, capacity
    cdef Timer* items
    cdef Timer item
    if heap.n == heap.capacity:
        capacity = heap.capacity * 2 if heap.capacity else 4
        items = <Timer*>realloc(heap.items, capacity * sizeof(Timer))
        if items == NULL:
            th.no_memory = 1
            return
        heap.items = items
        heap.capacity = capacity
    item.time_ps = time_ps
    item.id = id
    item.slot = slot
    item.pad = 0
    i = heap.n
    heap.n += 1
    while i > 0:
        up = (i - 1) >> 1
        if not timer_before(&item, &heap.items[up]):
            break
        heap.items[i] = heap.items[up]
        i = up
    heap.items[i] = item


cdef inline void heap_pop(Heap* heap) noexcept nogil:
    """Drop the first item; `heap.items[0]` is the first."""
    heap.n -= 1
    if heap.n > 0:
        heap_sink(heap, 0, heap.items[heap.n])


cdef inline void heap_sink(Heap* heap, uint32_t i, Timer item) noexcept nogil:
    """Put an item, none of those above it being later, at place i or below it."""
    cdef uint32_t child
    while True:
        child = 2 * i + 1
        if child >= heap.n:
            break
        if child + 1 < heap.n and timer_before(&heap.items[child + 1], &heap.items[child]):
            child += 1
        if not timer_before(&heap.items[child], &item):
            break
        heap.items[i] = heap.items[child]
        i = child
    heap.items[i] = item


cdef inline void heap_remove(Heap* heap, uint64_t id) noexcept nogil:
    """Drop all items with an id, in time that grows with the heap."""
    cdef uint32_t i, n = 0
    for i in range(heap.n):
        if heap.items[i].id != id:
            heap.items[n] = heap.items[i]
            n += 1
    heap.n = n
    i = n // 2
    while i > 0:
        i -= 1
        heap_sink(heap, i, heap.items[i])


cdef inline int64_t heap_time(Heap* heap) noexcept nogil:
    """Time of the first item, FOREVER if there is none."""
    return heap.items[0].time_ps if heap.n else FOREVER


cdef inline uint32_t table_hash(uint32_t key) noexcept nogil:
    """Multiplicative hash: consecutive message numbers spread over the whole table."""
    return <uint32_t>((<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15) >> 32)


cdef inline uint32_t table_find(Table* table, uint32_t key) noexcept nogil:
    """Slot of a connection, NIL if it is not there."""
    cdef uint32_t i
    if table.n == 0:
        return NIL
    i = table_hash(key) & table.mask
    while table.keys[i] != NIL:
        if table.keys[i] == key:
            return table.slots[i]
        i = (i + 1) & table.mask
    return NIL


cdef inline void table_put(Table* table, uint32_t key, uint32_t slot) noexcept nogil:
    """Add a key that is not there, after `table_reserve`."""
    cdef uint32_t i = table_hash(key) & table.mask
    while table.keys[i] != NIL:
        i = (i + 1) & table.mask
    table.keys[i] = key
    table.slots[i] = slot
    table.n += 1


cdef inline bint table_reserve(Thread* th, Table* table) noexcept nogil:
    """Room for one more at a load of at most one half; False without memory."""
    cdef uint32_t capacity, i
    cdef Table bigger
    if table.keys != NULL and 2 * (table.n + 1) <= table.mask + 1:
        return True
    capacity = 2 * (table.mask + 1) if table.keys != NULL else 8
    bigger.keys = <uint32_t*>malloc(capacity * sizeof(uint32_t))
    bigger.slots = <uint32_t*>malloc(capacity * sizeof(uint32_t))
    if bigger.keys == NULL or bigger.slots == NULL:
        free(bigger.keys)
        free(bigger.slots)
        th.no_memory = 1
        return False
    for i in range(capacity):
        bigger.keys[i] = NIL
    bigger.mask = capacity - 1
    bigger.n = 0
    if table.keys != NULL:
        for i in range(table.mask + 1):
            if table.keys[i] != NIL:
                table_put(&bigger, table.keys[i], table.slots[i])
    free(table.keys)
    free(table.slots)
    table[0] = bigger
    return True


cdef inline void table_remove(Table* table, uint32_t key) noexcept nogil:
    """Remove a key that is there; those behind it move up, so that no marker stays."""
    cdef uint32_t i = table_hash(key) & table.mask, j, home
    while table.keys[i] != key:
        i = (i + 1) & table.mask
    j = i
    while True:
        j = (j + 1) & table.mask
        if table.keys[j] == NIL:
            break
        home = table_hash(table.keys[j]) & table.mask
        if ((j - home) & table.mask) >= ((j - i) & table.mask):
            table.keys[i] = table.keys[j]
            table.slots[i] = table.slots[j]
            i = j
    table.keys[i] = NIL
    table.n -= 1


cdef inline uint32_t pool_take(Thread* th, Pool* pool) noexcept nogil:
    """A free slot, NIL without memory."""
    cdef uint32_t slot = pool.free, capacity, i
    cdef Slot* slots
    if unlikely(slot == NIL):
        capacity = pool.capacity * 2 if pool.capacity else 16
        slots = <Slot*>realloc(pool.slots, capacity * sizeof(Slot))
        if slots == NULL:
            th.no_memory = 1
            return NIL
        pool.slots = slots
        for i in range(pool.capacity, capacity):
            slots[i].next = i + 1
        slots[capacity - 1].next = NIL
        slot = pool.capacity
        pool.capacity = capacity
    pool.free = pool.slots[slot].next
    pool.n_used += 1
    return slot


cdef inline void pool_give(Pool* pool, uint32_t slot) noexcept nogil:
    """Give a slot back; it is the next to be taken."""
    pool.slots[slot].next = pool.free
    pool.free = slot
    pool.n_used -= 1


cdef inline bint link_grow(Sim* sim, Thread* th, LinkTx* tx, LinkRx* rx) noexcept nogil:
    """Make room on a full link; False without memory.

    The receiver may be reading the old ring: it is retired at the window's edge.
    """
    cdef uint32_t capacity, i
    cdef Packet* ring
    cdef void** retired
    tx.head_seen = rx.head
    if tx.ring != NULL and tx.tail - tx.head_seen <= tx.mask:
        return True
    capacity = 2 * (tx.mask + 1) if tx.ring != NULL else 8
    ring = <Packet*>malloc(capacity * sizeof(Packet))
    if ring == NULL:
        th.no_memory = 1
        return False
    i = tx.head_seen
    while i != tx.tail:
        ring[i & (capacity - 1)] = tx.ring[i & tx.mask]
        i += 1
    if tx.ring != NULL:
        retired = <void**>rows_add(th, &th.retired)
        if retired == NULL:
            free(ring)
            return False
        retired[0] = tx.ring
    tx.ring = ring
    tx.mask = capacity - 1
    return True


cdef inline void link_push(Sim* sim, Thread* th, uint32_t link, Packet* packet,
                           int64_t arrival_ps) noexcept nogil:
    """Put a packet on a link; the receiver sees it from the next window on."""
    cdef LinkTx* tx = &sim.tx[link]
    cdef Packet* place
    cdef uint32_t* dirty
    if unlikely(tx.ring == NULL or tx.tail - tx.head_seen > tx.mask):
        if not link_grow(sim, th, tx, &sim.rx[tx.rx]):
            return
    check(th, tx.tail == tx.head_seen or arrival_ps >= tx.ring[(tx.tail - 1) & tx.mask].time_ps,
          FAULT_LINK)
    check(th, arrival_ps >= sim.window_end_ps, FAULT_WINDOW)
    place = &tx.ring[tx.tail & tx.mask]
    place[0] = packet[0]
    place.time_ps = arrival_ps
    tx.tail += 1
    if tx.stamp != sim.window:
        tx.stamp = sim.window
        dirty = <uint32_t*>rows_add(th, &th.dirty)
        if dirty != NULL:
            dirty[0] = link


cdef inline void link_pop(LinkRx* rx) noexcept nogil:
    """Drop the first packet and look at the time of the next."""
    rx.head += 1
    rx.head_ps = rx.ring[rx.head & rx.mask].time_ps if rx.head != rx.tail else FOREVER
