"""DCQCN against its published update rules: by hand, and against a second program that ticks."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import pytest

from emunet.plugin import CTX, KEEP, OUT, Policy, load, make_record

US = 1_000_000
LINE = 100e9

EPS = 2.0**-53
"""Greatest relative error of one double operation."""


@dataclass
class Sender:
    """A connection at 100 Gb/s whose timers run; only what DCQCN looks at."""

    policy: Policy
    line_rate_bps: float = LINE
    now_ps: int = 0
    timers: dict[int, int] = field(default_factory=dict)
    fired: int = 0

    def __post_init__(self) -> None:
        self.rate_bps = self.line_rate_bps
        self.window_bytes = 2**63 - 1
        self.state = make_record(self.policy.state_dtype)
        self.call("start")

    def call(self, hook: str, timer: int = -1, acked_bytes: int = 0) -> None:
        ctx, out = make_record(CTX), make_record(OUT)
        ctx.now_ps, ctx.timer, ctx.acked_bytes = self.now_ps, timer, acked_bytes
        ctx.line_rate_bps, ctx.bdp_bytes = self.line_rate_bps, 125_000
        out.rate_bps, out.window_bytes = self.rate_bps, self.window_bytes
        for k in range(4):
            out.timer_ps[k] = KEEP
        self.policy.call(hook, ctx, self.state, out)
        self.rate_bps, self.window_bytes = out.rate_bps, out.window_bytes
        for k in range(4):
            if out.timer_ps[k] >= 0:
                self.timers[k] = self.now_ps + out.timer_ps[k]

    def until(self, time_ps: int) -> Sender:
        """Fire what is due up to and including a time; timers come before arrivals."""
        while self.timers and min(self.timers.values()) <= time_ps:
            self.now_ps, k = min((at, k) for k, at in self.timers.items())
            del self.timers[k]
            self.fired += 1
            self.call("timer", timer=k)
        self.now_ps = time_ps
        return self

    def cnp_at(self, time_ps: int) -> Sender:
        self.until(time_ps).call("cnp")
        return self

    def acked(self, count_bytes: int) -> Sender:
        self.call("ack", acked_bytes=count_bytes)
        return self


def sender(kind: str, line_rate_bps: float = LINE, **params: float) -> Sender:
    return Sender(load("congestion", "dcqcn", kind, params), line_rate_bps)


def same(found: float, exact: Fraction, operations: int) -> bool:
    """Equal within the rounding of that many operations, each within EPS."""
    return abs(Fraction(found) - exact) <= exact * Fraction(EPS) * operations


def test_the_nic_variant_cuts_at_the_end_of_the_decrease_period() -> None:
    """Hand calculation, NVIDIA defaults: alpha starts at 1023/1024 and keeps 1019/1024 each us; the
    cut 4 us after the first CNP sees it after four periods without feedback."""
    s = sender("mellanox").cnp_at(10 * US)
    assert s.until(14 * US - 1).rate_bps == LINE
    s.until(14 * US)
    alpha = Fraction(1023, 1024) * Fraction(1019, 1024) ** 4
    assert same(s.state.alpha, alpha, 10)
    assert same(s.rate_bps, Fraction(LINE) * (1 - alpha / 2), 15)
    assert s.state.target_bps == LINE


def test_the_nic_variant_counts_periods_from_the_first_cnp() -> None:
    """Rule of the HPCC simulator: checks run every 4 us from the first CNP; the second CNP, 9.5 us
    after the first, is acted upon at 12 us, and alpha rises once in its period of 1 us."""
    s = sender("mellanox").cnp_at(0).cnp_at(9 * US + US // 2)
    before = s.rate_bps
    assert s.until(12 * US - 1).rate_bps == before
    s.until(12 * US)
    keep, gain = Fraction(1019, 1024), Fraction(5, 1024)
    alpha = Fraction(1023, 1024) * keep**9
    alpha = (alpha * keep + gain) * keep**2
    assert same(s.state.alpha, alpha, 40)
    assert same(s.rate_bps, Fraction(before) * (1 - alpha / 2), 50)


def test_many_cnps_in_a_period_count_once() -> None:
    """Rule: feedback is binary within a period, for alpha and for the rate."""
    one = sender("mellanox").cnp_at(0).cnp_at(5 * US + 1)
    many = sender("mellanox").cnp_at(0)
    for k in range(1, 900):
        many.cnp_at(5 * US + k * 1000)
    assert one.until(8 * US).rate_bps == many.until(8 * US).rate_bps
    assert one.state.alpha == many.state.alpha


def test_recovery_by_timer_with_the_nics_parameters() -> None:
    """Hand calculation without the byte counter, F = 1: 300 us after the cut halfway to the target,
    then R_AI once, then R_HAI; a cut after a step sets the target to the rate (after_time_inc)."""
    s = sender("mellanox", byte_counter_bytes=0).cnp_at(0).until(4 * US)
    s.cnp_at(305 * US).until(308 * US)
    top = s.rate_bps
    assert s.state.target_bps == pytest.approx(_recovered(LINE, 4), rel=20 * EPS)
    rate, target = Fraction(top), Fraction(s.state.target_bps)
    for k, step in enumerate((0, 5_000_000, 50_000_000, 50_000_000)):
        s.until((308 + 300 * (k + 1)) * US)
        target += step
        rate = (rate + target) / 2
        assert same(s.rate_bps, rate, 10)
        assert same(s.state.target_bps, target, 10)


def _recovered(line: float, period_us: int) -> float:
    """Rate after the first cut and one step halfway back to line rate."""
    alpha = 1023 / 1024 * (1019 / 1024) ** period_us
    return (line * (1 - alpha / 2) + line) / 2


def test_a_cut_without_a_step_keeps_the_target() -> None:
    """Rule with clamp_tgt_rate 0: the target moves only if the rate has been stepped up since."""
    s = sender("mellanox", byte_counter_bytes=0).cnp_at(0).cnp_at(5 * US).until(8 * US)
    assert s.state.target_bps == LINE
    clamped = sender("mellanox", byte_counter_bytes=0, clamp_target=1).cnp_at(0).until(4 * US)
    rate = clamped.rate_bps
    clamped.cnp_at(5 * US).until(8 * US)
    assert clamped.state.target_bps == rate


def test_the_byte_counter_steps_too() -> None:
    """Hand calculation, F = 1: 2,097,088 bytes make a step; the target rises by R_AI while one
    count is at most F, and by R_HAI once both have passed it."""
    s = sender("mellanox").cnp_at(0).cnp_at(5 * US).until(8 * US)
    s.state.target_bps = 60e9
    rate, target = Fraction(s.rate_bps), Fraction(60 * 10**9)
    s.acked(2_097_087)
    assert same(s.rate_bps, rate, 1)
    for step in (0, 5_000_000, 5_000_000):
        s.acked(2_097_088)
        target += step
        rate = (rate + target) / 2
        assert same(s.rate_bps, rate, 10)
    s.until(308 * US).until(608 * US)
    for _ in range(2):
        target += 5_000_000
        rate = (rate + target) / 2
    assert same(s.rate_bps, rate, 20)
    s.acked(2_097_088)
    target += 50_000_000
    assert same(s.rate_bps, (rate + target) / 2, 20)


def test_bytes_of_several_steps_in_one_ack_make_several_steps() -> None:
    """Rule: each full counter is a step, whatever the size of the acknowledgement."""
    one = sender("mellanox").cnp_at(0).until(4 * US).acked(3 * 2_097_088 + 5)
    three = sender("mellanox").cnp_at(0).until(4 * US)
    for _ in range(3):
        three.acked(2_097_088)
    assert one.rate_bps == three.rate_bps
    assert (one.state.byte_stage, one.state.sent_bytes) == (3, 5)


def test_the_paper_cuts_when_the_cnp_arrives() -> None:
    """Hand calculation, Zhu et al. eq. 1 and 2, g = 1/256: the first CNP halves the rate; the next
    within 50 us is ignored; at 60 us alpha has decayed once (55 us) before the cut."""
    s = sender("paper").cnp_at(0)
    assert (s.rate_bps, s.state.target_bps, s.state.alpha) == (50e9, 100e9, 1.0)
    s.cnp_at(20 * US).cnp_at(49 * US)
    assert (s.rate_bps, s.state.alpha) == (50e9, 1.0)
    s.cnp_at(60 * US)
    alpha = Fraction(255, 256)
    before = Fraction(75 * 10**9)  # one step of recovery at 55 us
    assert same(s.state.target_bps, before, 4)
    assert same(s.rate_bps, before * (1 - alpha / 2), 10)
    assert same(s.state.alpha, Fraction(255, 256) * alpha + Fraction(1, 256), 10)


def test_the_papers_recovery() -> None:
    """Hand calculation, F = 5: five halvings toward the target every 55 us, then R_AI (40 Mb/s)
    for as long as the byte counter has not passed F, though the timer has."""
    s = sender("paper").cnp_at(0).cnp_at(50 * US)
    rate, target = Fraction(s.rate_bps), Fraction(s.state.target_bps)
    for k in range(12):
        s.until((50 + 55 * (k + 1)) * US)
        target += 40_000_000 if k >= 5 else 0
        rate = (rate + target) / 2
        assert same(s.rate_bps, rate, 40)
    for _ in range(5):
        s.acked(10_000_000)
    assert s.state.byte_stage == 5
    before = s.state.target_bps
    s.acked(10_000_000).acked(10_000_000)
    assert s.state.target_bps == before + 40e6 + 200e6


def test_the_hpcc_set_scales_with_the_line_rate() -> None:
    """Li et al., run.py: R_AI is 5 and R_HAI 50 Mb/s at 25 Gb/s, so 80 and 800 Mb/s at 400 Gb/s."""
    s = sender("alibaba", 400e9).cnp_at(0).cnp_at(5 * US).until(8 * US)
    s.state.target_bps = 300e9
    s.until(308 * US)
    assert s.state.target_bps == 300e9
    s.until(608 * US)
    assert s.state.target_bps == 300e9 + 80e6
    s.until(908 * US)
    assert s.state.target_bps == 300e9 + 80e6 + 800e6


def test_the_window_follows_the_rate() -> None:
    """Rule of run.py's variable window: bandwidth-delay product times rate over line rate."""
    s = sender("alibaba_window")
    assert s.window_bytes == 125_000
    s.cnp_at(0).until(4 * US)
    assert s.window_bytes == int(125_000 * (s.rate_bps / LINE))
    assert sender("alibaba").cnp_at(0).until(4 * US).window_bytes == 2**63 - 1


def test_limits_of_a_cut() -> None:
    """Rule: a cut leaves rpg_min_dec_fac of the rate, and never less than the least rate."""
    gentle = sender("mellanox", min_decrease_factor=0.9).cnp_at(0).until(4 * US)
    assert gentle.rate_bps == 0.9 * LINE
    s = sender("alibaba")
    for k in range(100):
        s.cnp_at((4 * k + 1) * US)
    assert s.until(500 * US).rate_bps == 1e9


def test_the_first_cnp_can_set_the_rate() -> None:
    """Rule of rate_to_set_on_first_cnp: rate and target drop at once, and only once."""
    s = sender("mellanox", first_cnp_factor=0.25).cnp_at(0)
    assert (s.rate_bps, s.state.target_bps) == (25e9, 25e9)
    s.cnp_at(1 * US)
    assert s.rate_bps == 25e9


def test_recovery_ends_at_line_rate_and_stops_the_clock() -> None:
    """Each step halves the distance to line rate, so from 100 Gb/s below 1 bit/s takes 37 steps
    (2^37 > 1e11); then no timer is armed, and the next CNP starts again."""
    s = sender("mellanox", byte_counter_bytes=0).cnp_at(0).until(10**13)
    assert s.rate_bps == LINE
    assert not s.timers
    assert 2 < s.fired <= 1 + math.ceil(math.log2(LINE)) + 1
    s.cnp_at(s.now_ps + US).until(s.now_ps + 6 * US)
    assert s.rate_bps < LINE
    assert len(s.timers) == 1


class Ticking:
    """The NIC variant once more, as its rules read: every period is an event of its own."""

    def __init__(self, params: dict[str, float]) -> None:
        self.p = params
        self.rate = self.target = LINE
        self.alpha, self.seen, self.due, self.stage = 0.0, False, False, 0
        self.first_ps, self.increase_ps = -1, -1

    def tick(self, now_ps: int) -> None:
        """Let the periods of 1 us that end now end: alpha, then the cut, then the step."""
        p = self.p
        if self.first_ps >= 0 and now_ps > self.first_ps:
            since = now_ps - self.first_ps
            if since % p["alpha_period_ps"] == 0:
                self.alpha = (1 - p["gain"]) * self.alpha + (p["gain"] if self.seen else 0.0)
                self.seen = False
            if since % p["decrease_period_ps"] == 0 and self.due:
                self.due = False
                if self.stage:
                    self.target = self.rate
                self.rate = max(p["min_rate_bps"], self.rate * (1 - self.alpha / 2))
                self.stage, self.increase_ps = 0, now_ps + int(p["increase_period_ps"])
                return
        if self.increase_ps == now_ps:
            if self.stage >= p["threshold"]:
                step = p["ai_bps"] if self.stage == p["threshold"] else p["hai_bps"]
                self.target = min(self.target + step, LINE)
            self.rate = (self.rate + self.target) / 2
            self.stage += 1
            self.increase_ps = now_ps + int(p["increase_period_ps"])

    def cnp(self, now_ps: int) -> None:
        if self.first_ps < 0:
            self.first_ps, self.alpha = now_ps, self.p["alpha_start"]
        else:
            self.seen = True
        self.due = True


@pytest.mark.parametrize("seed", range(5))
def test_lazy_alpha_equals_ticking(seed: int) -> None:
    """Claim of the policy: closed form and ticking are one. A second program ticks every us over
    5 ms of random CNPs; n periods differ by at most 4 n roundings, and so does the rate."""
    draw = random.Random(seed)
    policy = load("congestion", "dcqcn", "mellanox", {"byte_counter_bytes": 0})
    lazy, ticking = Sender(policy), Ticking(policy.param_values())
    n_us = 5000
    for k in range(1, n_us):
        ticking.tick(k * US)
        lazy.until(k * US)
        if draw.random() < (0.3 if k % 1000 < 200 else 0.002):
            lazy.call("cnp")
            ticking.cnp(k * US)
        where = f"seed {seed}, {k} us"
        assert lazy.rate_bps == pytest.approx(ticking.rate, rel=8 * n_us * EPS), where
    assert ticking.first_ps >= 0
    assert lazy.rate_bps < LINE


def test_two_flows_converge() -> None:
    """Claim of the policy and of Zhu et al. Both get a CNP whenever they ask for more than the
    40 Gb/s that they share. Cuts and steps are the same affine map for both, so once their cycle is
    steady the gap between them shrinks by one constant factor per block of time, below 1."""
    early, late = sender("paper", 40e9), sender("paper", 40e9)
    late.rate_bps = late.state.target_bps = 1e9
    late.state.active, late.state.alpha = 1, 1.0
    late.timers[1] = 55 * US
    gaps = []
    for block in range(6):
        sums = [0.0, 0.0]
        for k in range(4000 * block, 4000 * (block + 1)):
            early.until(50 * US * k)
            late.until(50 * US * k)
            if early.rate_bps + late.rate_bps > 40e9:
                early.call("cnp")
                late.call("cnp")
            sums[0] += early.rate_bps / 4000
            sums[1] += late.rate_bps / 4000
        gaps.append(sums[0] - sums[1])
    factors = [after / before for before, after in pairwise(gaps[1:])]
    assert all(0.0 < factor < 0.9 for factor in factors)
    # The cycle's length in CNPs jitters by one in about ten.
    assert max(factors) / min(factors) < 1.1
