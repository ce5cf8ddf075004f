"""Calling a congestion policy: view in, decision out (semantics 4.4)."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from emunet._core.connection cimport (TIMER_CC, connection_timer, inflight,
                                      payload_before, send_repace)
from emunet._core.memory cimport heap_push
from emunet._core.types cimport (FOREVER, N_TIMER, Ctx, Failure, Host, Out, SendHalf, Sim, Thread,
                                 unlikely)

cdef enum:
    MIN_RATE_BPS = 1000000


cdef inline void policy_failed(Sim* sim, Thread* th, Host* h, SendHalf* q, int hook,
                               Ctx* ctx) noexcept nogil:
    """Keep the earliest failing call, by time and node; the run stops at the window's end.

    The hook has restored its state.
    """
    cdef Failure* f = &th.failure
    if ctx.now_ps < f.time_ps or (ctx.now_ps == f.time_ps and h.node < f.node):
        f.time_ps = ctx.now_ps
        f.node = h.node
        f.flow = q.conn
        f.hook = hook
        f.ctx = ctx[0]
        memcpy(f.state, h.cc_state + (q - h.send) * sim.cc_state_bytes, sim.cc_state_bytes)


cdef inline void policy_call(
    Sim* sim, Thread* th, Host* h, SendHalf* q, int hook, int64_t now_ps, int64_t rtt_ps,
    int64_t acked_bytes, int64_t marked, int64_t cause, int64_t timer
) noexcept nogil:
    """Run a hook of a connection and take its decision."""
    cdef Ctx ctx
    cdef Out out
    cdef int k
    cdef int64_t delay
    cdef double line = sim.cold[h.port_start + q.port].rate_bps
    if sim.hook[hook] == NULL:
        return
    ctx.now_ps = now_ps
    ctx.rtt_ps = rtt_ps
    ctx.acked_bytes = acked_bytes
    ctx.inflight_bytes = inflight(sim, q)
    ctx.marked = marked
    ctx.cause = cause
    ctx.timer = timer
    ctx.line_rate_bps = line
    ctx.base_rtt_ps = q.base_rtt_ps
    ctx.bdp_bytes = <int64_t>(line * <double>q.base_rtt_ps / 8e12)
    ctx.mtu_bytes = sim.mtu_bytes
    ctx.size_bytes = q.size_bytes
    ctx.una_bytes = payload_before(sim, q, q.una)
    ctx.next_bytes = payload_before(sim, q, q.next)
    ctx.rate_bps = q.rate_bps
    ctx.window_bytes = q.window_bytes
    out.rate_bps = q.rate_bps
    out.window_bytes = q.window_bytes
    for k in range(N_TIMER):
        out.timer_ps[k] = -1
    if unlikely(sim.hook[hook](&ctx, sim.cc_params,
                               h.cc_state + (q - h.send) * sim.cc_state_bytes, &out) != 1
                or out.rate_bps != out.rate_bps):
        policy_failed(sim, th, h, q, hook, &ctx)
        return
    if out.rate_bps != ctx.rate_bps:
        out.rate_bps = line if out.rate_bps > line else (
            MIN_RATE_BPS if out.rate_bps < MIN_RATE_BPS else out.rate_bps)
        if out.rate_bps != ctx.rate_bps:
            q.rate_bps = out.rate_bps
            send_repace(sim, h, q, line)
    q.window_bytes = out.window_bytes if out.window_bytes >= 1 else 1
    for k in range(N_TIMER):
        delay = out.timer_ps[k]
        if delay >= 0:
            q.timer_ps[k] = now_ps + (delay if delay >= 1 else 1)
            heap_push(th, &h.timers, q.timer_ps[k], connection_timer(q.conn, TIMER_CC + k),
                      <uint32_t>(q - h.send))
        elif delay == -2:
            q.timer_ps[k] = FOREVER
