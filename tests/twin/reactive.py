"""A policy that uses everything a hook can: every context field that moves, rate, window, all
timers, arming and cancelling.

Source: none; it controls congestion badly. It exists so that two engines that disagree about any
call of a hook end with different rows.
"""

import numpy as np

from emunet.plugin import Param

PARAMS = (
    Param("first", 0.6, "", 0.01, 1.0, "first rate as a part of the line rate"),
    Param("window_bdp", 1.5, "", 0.0, 100.0, "first window in bandwidth-delay products"),
    Param("period_ps", 7_000_001, "ps", 1, 10**12, "time between steps of recovery"),
    Param("floor", 0.02, "", 0.0, 1.0, "least rate as a part of the line rate"),
)

SETS: dict[str, dict[str, float]] = {}

STATE = np.dtype([("n_ack", "i8"), ("n_step", "i8"), ("mean_rtt_ps", "f8")], align=True)

CLAIMS = ("the window never falls below one packet",)


def slower(ctx, params, factor):
    return max(ctx.rate_bps * factor, ctx.line_rate_bps * params.floor)


def start(ctx, params, state, out):
    out.rate_bps = ctx.line_rate_bps * params.first
    out.window_bytes = ctx.mtu_bytes + int(params.window_bdp * ctx.bdp_bytes)
    out.timer_ps[0] = params.period_ps
    out.timer_ps[3] = 0


def ack(ctx, params, state, out):
    state.n_ack += 1
    state.mean_rtt_ps += (ctx.rtt_ps - state.mean_rtt_ps) / 8.0
    if ctx.marked == 1:
        out.window_bytes = max(ctx.mtu_bytes, ctx.window_bytes // 2)
    else:
        out.window_bytes = ctx.window_bytes + ctx.acked_bytes // 4
    if state.mean_rtt_ps > 2.0 * ctx.base_rtt_ps:
        out.rate_bps = slower(ctx, params, 0.97)
    else:
        out.rate_bps = ctx.rate_bps + ctx.line_rate_bps / 64.0
    if state.n_ack % 5 == 0:
        out.timer_ps[1] = -2


def cnp(ctx, params, state, out):
    out.rate_bps = slower(ctx, params, 0.5)
    out.timer_ps[1] = params.period_ps // 3
    if ctx.inflight_bytes * 2 > ctx.next_bytes - ctx.una_bytes:
        out.window_bytes = max(ctx.mtu_bytes, ctx.window_bytes - ctx.inflight_bytes // 4)


def loss(ctx, params, state, out):
    out.rate_bps = slower(ctx, params, 0.7)
    out.timer_ps[2] = ctx.now_ps % 1000
    if ctx.cause == 3:
        out.window_bytes = ctx.mtu_bytes


def timer(ctx, params, state, out):
    if ctx.timer == 0 and state.n_step < 40:
        state.n_step += 1
        out.rate_bps = ctx.rate_bps + ctx.line_rate_bps / 16.0
        out.timer_ps[0] = params.period_ps
    if ctx.timer == 1:
        out.rate_bps = ctx.rate_bps * 1.3
    if ctx.timer == 2:
        out.window_bytes = ctx.window_bytes + ctx.mtu_bytes
    if ctx.timer == 3:
        out.rate_bps = ctx.rate_bps * 0.99
