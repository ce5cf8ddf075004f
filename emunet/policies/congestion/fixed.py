"""A constant rate and, if wanted, a constant window: no control at all.

Source: none needed; the plain case of semantics 4.4, for experiments with switches and flow control
alone. Parameters: `rate`, by default the line rate, and `window`, by default none.
"""

import numpy as np

from emunet.plugin import Param

PARAMS = (
    Param("rate_bps", 0.0, "bit/s", 0.0, 1e13, "pacing rate, at most the line rate; 0: line rate"),
    Param("window_bytes", 0, "bytes", 0, 2**62, "payload in flight; 0: no limit"),
)

SETS: dict[str, dict[str, float]] = {}

STATE = np.dtype([])

CLAIMS = (
    "a flow alone sends at its rate, or its window in each round trip, whichever is less",
    "rate and window never change, whatever is marked, lost or delayed",
)


def start(ctx, params, state, out):
    if params.rate_bps > 0.0:
        out.rate_bps = min(params.rate_bps, ctx.line_rate_bps)
    if params.window_bytes > 0:
        out.window_bytes = params.window_bytes
