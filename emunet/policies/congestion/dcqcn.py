"""DCQCN: rate control by congestion notification packets (CNPs), as in NICs and as in its paper.

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015 (reaction
point, section 5); NVIDIA, "DCQCN CC parameters" (ConnectX-4 and later: names, units and defaults);
the simulator of Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019 (order of events
of the NIC variant, and its own parameter set). Own code.

Two variants, chosen by `cut_on_cnp`:

0 (NICs). From the first CNP on, alpha moves once in each alpha period: up if a CNP arrived in it,
down if not. The rate is
  cut at the end of each decrease period in which a CNP arrived; periods are counted from the first
  CNP. Where both end together, alpha moves first.
1 (paper, eq. 1 and 2). A CNP cuts the rate at once, with the alpha from before; then alpha moves
up. Alpha moves down
  after each alpha period without a CNP. CNPs within one decrease period of the last cut are
  ignored: the receiver of the paper would not have sent them.

After a cut the rate recovers in steps, one at each end of the increase period and one for each
`byte_counter_bytes`: halfway back to the target while both counts of steps are below `threshold`;
then the target itself rises, by `ai_bps`, and by `hai_bps` once both counts have passed the
threshold. Without a byte counter the timer's count stands for both.

Alpha is not ticked: it is brought up to date when it is read, k periods without a CNP at once as (1
- gain)^k.

The interval at which receivers send CNPs belongs to the transport (`cnp_interval`), the marking
thresholds to the switch (`ecn`): the paper has 50 us, and 5 KB, 200 KB, 1 % at 40 Gb/s.
"""

import numpy as np

from emunet.plugin import Param

# Defaults: NVIDIA's parameters of ConnectX-4 and later, named at the end of each meaning.
PARAMS = (
    Param("gain", 5 / 1024, "", 0.0, 1.0,
          "g, weight of one period in alpha; dce_tcp_g 1019: of 1024 parts, 1019 are kept"),
    Param("alpha_start", 1023 / 1024, "", 0.0, 1.0,
          "alpha at the first CNP; initial_alpha_value 1023 of 1024"),
    Param("alpha_period_ps", 1_000_000, "ps", 1, 10**12,
          "time between moves of alpha; dce_tcp_rtt 1 us"),
    Param("decrease_period_ps", 4_000_000, "ps", 1, 10**12,
          "least time between cuts; rate_reduce_monitor_period 4 us"),
    Param("cut_on_cnp", 0, "", 0, 1,
          "0: cut at the end of the decrease period; 1: cut when the CNP arrives"),
    Param("increase_period_ps", 300_000_000, "ps", 1, 10**13,
          "time between steps of recovery; rpg_time_reset 300 us"),
    Param("byte_counter_bytes", 2_097_088, "bytes", 0, 10**13,
          "bytes between steps, 0: none; rpg_byte_reset 32767, its unit assumed to be 64 bytes"),
    Param("threshold", 1, "", 0, 1000, "steps before the target rises; rpg_threshold 1"),
    Param("ai_bps", 5e6, "bit/s", 0.0, 1e12, "additive rise of the target; rpg_ai_rate 5 Mb/s"),
    Param("hai_bps", 50e6, "bit/s", 0.0, 1e12, "hyper rise of the target; rpg_hai_rate 50 Mb/s"),
    Param("scale_bps", 0.0, "bit/s", 0.0, 1e13,
          "line rate that ai and hai are meant for, others in proportion; 0: as they are"),
    Param("min_rate_bps", 1e6, "bit/s", 1e6, 1e12, "no cut below this; rpg_min_rate 1 Mb/s"),
    Param("min_decrease_factor", 0.5, "", 0.0, 1.0,
          "a cut leaves at least this part; rpg_min_dec_fac 50 %"),
    Param("first_cnp_factor", 1.0, "", 0.0, 1.0,
          "part of the rate kept at the first CNP; rate_to_set_on_first_cnp 0: all of it"),
    Param("clamp_target", 0, "", 0, 1,
          "1: every cut sets the target to the rate before it; clamp_tgt_rate 0"),
    Param("clamp_after_timer", 1, "", 0, 1,
          "1: so does a cut after a step by timer; clamp_tgt_rate_after_time_inc 1"),
    Param("window_bdp", 0.0, "", 0.0, 1000.0,
          "window in bandwidth-delay products, in proportion to the rate; 0: no window"),
)

# Li et al. 2019, run.py, cc "dcqcn": 5 and 50 Mb/s at 25 Gb/s, in proportion to the NIC's rate.
_ALIBABA = {
    "gain": 1 / 256, "alpha_start": 1.0, "byte_counter_bytes": 0, "scale_bps": 25e9,
    "min_rate_bps": 1e9, "min_decrease_factor": 0.0,
}

SETS = {
    # NVIDIA's documentation and listings of cards' settings; the defaults above.
    "mellanox": {},
    # Zhu et al. 2015 and the authors' simulator; the increases are for 40 Gb/s.
    # ASSUMPTION: the least rate, which the paper leaves open, is that of the NICs; only deep
    # incast depends on it.
    "paper": {
        "gain": 1 / 256, "alpha_start": 1.0, "alpha_period_ps": 55_000_000,
        "decrease_period_ps": 50_000_000, "cut_on_cnp": 1, "increase_period_ps": 55_000_000,
        "byte_counter_bytes": 10_000_000, "threshold": 5, "ai_bps": 40e6, "hai_bps": 200e6,
        "min_decrease_factor": 0.0, "clamp_target": 1, "clamp_after_timer": 0,
    },
    "alibaba": _ALIBABA,
    # The same with cc "dcqcn_vwin": a window of one bandwidth-delay product.
    "alibaba_window": {**_ALIBABA, "window_bdp": 1.0},
}

STATE = np.dtype([
    ("target_bps", "f8"),    # rate that recovery aims at
    ("alpha", "f8"),         # estimate of congestion, 0 to 1, as of alpha_ps
    ("alpha_ps", "i8"),      # end of the last alpha period that alpha includes
    ("phase_ps", "i8"),      # first CNP: decrease periods are counted from here
    ("cut_ps", "i8"),        # last cut
    ("sent_bytes", "i8"),    # bytes since the last cut or step of the byte counter
    ("time_stage", "i4"),    # steps by timer since the last cut
    ("byte_stage", "i4"),    # steps by byte counter since the last cut
    ("active", "i1"),        # 1 from the first CNP on
    ("cnp_seen", "i1"),      # 1: a CNP has arrived in the present alpha period
    ("cut_due", "i1"),       # 1: a CNP has arrived in the present decrease period
], align=True)

CLAIMS = (
    "two flows that share a bottleneck converge to equal rates",
    "a CNP never raises the rate, and a step of recovery never lowers it",
    "the rate stays between min_rate and line rate, and alpha between 0 and 1",
    "without CNPs the line rate is never left",
    "the NIC variant cuts at most once in a decrease period, however many CNPs arrive",
    "alpha brought up to date in one go equals alpha moved period by period",
)

DECREASE, INCREASE = 0, 1  # timers


def start(ctx, params, state, out):
    state.target_bps = ctx.line_rate_bps
    _set_rate(ctx, params, out, ctx.line_rate_bps)


def cnp(ctx, params, state, out):
    first = state.active == 0
    if first:
        state.active = 1
        state.alpha = params.alpha_start
        state.alpha_ps = ctx.now_ps
        state.phase_ps = ctx.now_ps
        state.cut_ps = ctx.now_ps - params.decrease_period_ps
        state.target_bps = out.rate_bps * params.first_cnp_factor
        _set_rate(ctx, params, out, state.target_bps)
    if params.cut_on_cnp == 1:
        if ctx.now_ps - state.cut_ps >= params.decrease_period_ps:
            _advance_alpha(ctx.now_ps, params, state)
            _cut(ctx, params, state, out)
            state.alpha = (1.0 - params.gain) * state.alpha + params.gain
            state.alpha_ps = ctx.now_ps
        return
    if not first:
        # The first CNP starts alpha and does not count as feedback on its first period (HPCC's
        # simulator).
        _advance_alpha(ctx.now_ps, params, state)
        state.cnp_seen = 1
    if state.cut_due == 0:
        state.cut_due = 1
        elapsed_ps = (ctx.now_ps - state.phase_ps) % params.decrease_period_ps
        out.timer_ps[DECREASE] = params.decrease_period_ps - elapsed_ps


def ack(ctx, params, state, out):
    if state.active == 0 or params.byte_counter_bytes == 0:
        return
    # ASSUMPTION: bytes count when acknowledged, not when sent; a step comes one round trip later
    # than on a NIC.
    state.sent_bytes += ctx.acked_bytes
    while state.sent_bytes >= params.byte_counter_bytes and out.rate_bps < ctx.line_rate_bps:
        state.sent_bytes -= params.byte_counter_bytes
        _increase(ctx, params, state, out)
        state.byte_stage += 1


def timer(ctx, params, state, out):
    if ctx.timer == DECREASE:
        state.cut_due = 0
        _advance_alpha(ctx.now_ps, params, state)
        _cut(ctx, params, state, out)
    else:
        _increase(ctx, params, state, out)
        state.time_stage += 1
        # At line rate further steps change nothing, and the next cut restarts the timer.
        if out.rate_bps < ctx.line_rate_bps:
            out.timer_ps[INCREASE] = params.increase_period_ps


def _advance_alpha(now_ps, params, state):
    """Move alpha by every period that has ended: at most one with a CNP, then the rest without."""
    periods = (now_ps - state.alpha_ps) // params.alpha_period_ps
    if periods > 0:
        keep = 1.0 - params.gain
        state.alpha = keep * state.alpha + params.gain * state.cnp_seen
        state.alpha *= _power(keep, periods - 1)
        state.alpha_ps += periods * params.alpha_period_ps
        state.cnp_seen = 0


def _power(base, exponent):
    """base ** exponent for a whole exponent, by squaring: the same bits on every machine."""
    result = 1.0
    while exponent > 0:
        if exponent % 2 == 1:
            result *= base
        base *= base
        exponent //= 2
    return result


def _cut(ctx, params, state, out):
    stepped = state.byte_stage > 0 or (params.clamp_after_timer == 1 and state.time_stage > 0)
    if params.clamp_target == 1 or stepped:
        state.target_bps = out.rate_bps
    factor = max(1.0 - 0.5 * state.alpha, params.min_decrease_factor)
    rate_bps = max(out.rate_bps * factor, params.min_rate_bps)
    # A flow that is below the least rate already keeps its rate.
    _set_rate(ctx, params, out, min(rate_bps, out.rate_bps))
    state.cut_ps = ctx.now_ps
    state.sent_bytes = 0
    state.time_stage = 0
    state.byte_stage = 0
    out.timer_ps[INCREASE] = params.increase_period_ps


def _increase(ctx, params, state, out):
    """One step of recovery; the stages count the steps before this one."""
    most = max(state.time_stage, state.byte_stage)
    least = min(state.time_stage, state.byte_stage)
    if params.byte_counter_bytes == 0:
        least = most
    if most >= params.threshold:
        step_bps = params.hai_bps if least > params.threshold else params.ai_bps
        if params.scale_bps > 0.0:
            step_bps *= ctx.line_rate_bps / params.scale_bps
        state.target_bps = min(state.target_bps + step_bps, ctx.line_rate_bps)
    rate_bps = 0.5 * (out.rate_bps + state.target_bps)
    # Halving the distance would never end: less than 1 bit/s below line rate is line rate.
    if rate_bps > ctx.line_rate_bps - 1.0:
        rate_bps = ctx.line_rate_bps
    _set_rate(ctx, params, out, rate_bps)


def _set_rate(ctx, params, out, rate_bps):
    out.rate_bps = rate_bps
    if params.window_bdp > 0.0:
        window = params.window_bdp * ctx.bdp_bytes * (rate_bps / ctx.line_rate_bps)
        out.window_bytes = max(int(window), 1)
