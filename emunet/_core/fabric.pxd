"""What a simulation is made of, as the engine sees it."""

from libc.stdint cimport int32_t, int64_t

from emunet._core.types cimport Group, HeadroomTime, Queue, Route, Sim, Thread, Watch


cdef class Fabric:
    cdef Sim sim
    cdef Thread* threads
    cdef int n_thread
    cdef int32_t* active           # nodes with work in the present window
    cdef int64_t window_ps
    cdef int64_t hold_ps           # silence after which link control alone is no work
    cdef Queue* queue_memory
    cdef Group* group_memory
    cdef int64_t* deficit_memory
    cdef HeadroomTime* headroom_memory
    cdef Watch* watch_memory
    cdef int64_t periodic_ps       # 0: no intervals
    cdef int64_t* clears[2]        # times of the user's clears and of the persistent ones' ...
    cdef int64_t n_clear[2]        # ... ascending; how many
    cdef object plan
    cdef object keep               # arrays and callbacks that the structs point into
    cdef void* _pin(self, name, dtype) except NULL
    cdef object _copy(self, name, dtype)
    cdef void _load_route(self, Route* route, int32_t node)
