"""PFC watchdog: how long classes of out-ports have been paused (semantics 3.7).

What a storm does to queues is in switch.pxd.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from emunet._core.memory cimport heap_push
from emunet._core.types cimport FOREVER, N_CLASS, Sim, Switch, Thread, Watch, unlikely

cdef enum:                   # what a switch's timer is for; their order at one port and class
    TIMER_EXPIRY = 0
    TIMER_REFRESH = 1
    TIMER_WATCHDOG = 2
    N_SWITCH_TIMER = 4


cdef inline uint64_t switch_timer_id(int32_t local, int32_t klass, int32_t what) noexcept nogil:
    """Order of a switch's timer: by port, class, then what it is for."""
    return (<uint64_t>local * N_CLASS + klass) * N_SWITCH_TIMER + what


cdef inline bint watch_storm(Sim* sim, Switch* sw, int32_t local, int klass) noexcept nogil:
    """Whether a class of an out-port is in a storm."""
    return (unlikely(sw.n_storm)
            and sim.watch[(sw.port_start + local) * N_CLASS + klass].storm != 0)


cdef inline void watch_arm(Sim* sim, Thread* th, Switch* sw, int32_t local, int klass,
                           int64_t due_ps) noexcept nogil:
    """Detection or restoration at a time, instead of the time before."""
    sim.watch[(sw.port_start + local) * N_CLASS + klass].due_ps = due_ps
    heap_push(th, &sw.timers, due_ps, switch_timer_id(local, klass, TIMER_WATCHDOG), 0)


cdef inline void watch_begin(Sim* sim, Thread* th, Switch* sw, int32_t local, int klass,
                             int64_t now_ps) noexcept nogil:
    """A pause has begun."""
    if sw.detect_ps:
        sw.n_watch += 1
        watch_arm(sim, th, sw, local, klass, now_ps + sw.detect_ps)


cdef inline void watch_end(Sim* sim, Switch* sw, int32_t local, int klass) noexcept nogil:
    """A pause has ended before it was a storm."""
    if sw.detect_ps:
        sw.n_watch -= 1
        sim.watch[(sw.port_start + local) * N_CLASS + klass].due_ps = FOREVER
