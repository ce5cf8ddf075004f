"""A window policy with work on every ACK, for measuring the engine with congestion control on.

Source: DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.3; RFC 8257): the marked fraction of each
window's bytes moves alpha, a window with marks is cut by alpha / 2 once, otherwise each window of
acknowledged bytes adds one packet. Starts at `start_bdp` bandwidth-delay products (ASSUMPTION: a
warm start, as RDMA senders have no slow start).
"""

import numpy as np

from emunet.plugin import Param

PARAMS = (
    Param("gain", 1 / 16, "", 0.0, 1.0, "g, weight of one window in alpha; RFC 8257 section 4.2"),
    Param("start_bdp", 1.0, "", 0.01, 1000.0, "first window in bandwidth-delay products; assumed"),
)

SETS: dict[str, dict[str, float]] = {}

STATE = np.dtype(
    [
        ("window", "f8"),  # bytes
        ("alpha", "f8"),  # smoothed fraction of marked bytes
        ("acked_bytes", "i8"),  # acknowledged in this window
        ("marked_bytes", "i8"),  # of these, marked
        ("end_bytes", "i8"),  # the window ends when this position is acknowledged
    ],
    align=True,
)

CLAIMS = ("the window stays between one packet and 2^40 bytes",)


def start(ctx, params, state, out):
    state.window = max(params.start_bdp * ctx.bdp_bytes, ctx.mtu_bytes)
    state.alpha = 1.0
    out.window_bytes = int(state.window)


def ack(ctx, params, state, out):
    state.acked_bytes += ctx.acked_bytes
    if ctx.marked == 1:
        state.marked_bytes += ctx.acked_bytes
    state.window += ctx.mtu_bytes * ctx.acked_bytes / state.window
    if ctx.una_bytes >= state.end_bytes and state.acked_bytes > 0:
        fraction = state.marked_bytes / state.acked_bytes
        state.alpha = (1.0 - params.gain) * state.alpha + params.gain * fraction
        if state.marked_bytes > 0:
            state.window *= 1.0 - 0.5 * state.alpha
        state.acked_bytes = 0
        state.marked_bytes = 0
        state.end_bytes = ctx.next_bytes
    state.window = min(max(state.window, ctx.mtu_bytes), 2.0**40)
    out.window_bytes = int(state.window)
