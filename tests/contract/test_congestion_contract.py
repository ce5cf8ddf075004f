"""Every congestion policy keeps the contract of docs/policies.md, in each of its parameter sets."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from congestion_events import Connection, Native, random_life

from emunet.plugin import CANCEL, N_TIMER, Policy, available, load

BENCH = Path(__file__).resolve().parents[2] / "bench" / "policies"

SEEDS = (1, 2, 3, 4)
N_EVENT = 300


def every_policy() -> list[tuple[str, str | None]]:
    """Each policy of emunet and of the benchmarks, with each of its parameter sets."""
    files = [*available("congestion"), *sorted(str(path) for path in BENCH.glob("*.py"))]
    return [(name, kind) for name in files for kind in (load("congestion", name).sets or [None])]


POLICIES = every_policy()
IDS = [f"{Path(name).stem}-{kind}" if kind else Path(name).stem for name, kind in POLICIES]
each_policy = pytest.mark.parametrize(("name", "kind"), POLICIES, ids=IDS)


def loaded(name: str, kind: str | None) -> Policy:
    return load("congestion", name, kind)


@each_policy
def test_decisions_are_finite_and_within_limits(name: str, kind: str | None) -> None:
    """Contract: after any hook the rate is a number from 0 to line rate, the window at least one
    byte, and each timer is a positive delay, KEEP or CANCEL."""
    policy = loaded(name, kind)
    for seed in SEEDS:
        for step in random_life(policy, seed, N_EVENT):
            out, where = step.decision, f"seed {seed}: {step.hook} at {step.now_ps} ps"
            assert math.isfinite(out.rate_bps), where
            assert 0.0 < out.rate_bps <= step.line_rate_bps, where
            assert out.window_bytes >= 1, where
            assert all(out.timer_ps[k] >= CANCEL and out.timer_ps[k] != 0 for k in range(N_TIMER))


@each_policy
def test_equal_events_give_equal_decisions(name: str, kind: str | None) -> None:
    """Contract: a policy is a function of what it sees; no clock, chance or memory of its own."""
    for seed in SEEDS[:2]:
        first = random_life(loaded(name, kind), seed, N_EVENT)
        second = random_life(loaded(name, kind), seed, N_EVENT)
        assert [(s.hook, s.now_ps, s.decision.tobytes(), s.state) for s in first] == [
            (s.hook, s.now_ps, s.decision.tobytes(), s.state) for s in second
        ]


@each_policy
def test_native_code_equals_plain_python_bit_for_bit(name: str, kind: str | None) -> None:
    """Contract: one text, two ways to run it; every decision and every state has the same bytes."""
    policy = loaded(name, kind)
    native = Native(policy)
    n_call = sum(len(random_life(policy, seed, N_EVENT, native)) for seed in SEEDS)
    assert n_call >= len(SEEDS) * bool(policy.hooks)


@each_policy
def test_sources_and_claims_are_given(name: str, kind: str | None) -> None:
    """Contract: a policy says where it comes from and what should hold of it."""
    policy = loaded(name, kind)
    assert "source" in policy.doc.lower()
    assert policy.claims
    assert policy.set_name == kind or kind is None


@pytest.mark.parametrize("name", available("congestion"))
def test_a_copy_given_by_path_is_the_same_policy(name: str, tmp_path: Path) -> None:
    """Contract: emunet's own policies have no privilege over a user's file with the same text."""
    own = load("congestion", name)
    file = tmp_path / "mine.py"
    shutil.copy(own.path, file)
    users = load("congestion", "./mine.py", base_dir=tmp_path)
    assert users.source_digest == own.source_digest
    assert users.params_bytes == own.params_bytes
    assert users.name == "mine"
    expected = random_life(own, 5, 100)
    found = random_life(users, 5, 100, Native(users))
    assert [s.decision.tobytes() for s in found] == [s.decision.tobytes() for s in expected]


def test_two_policies_differ_where_they_should() -> None:
    """Differential: under CNPs `none` and `fixed` keep their rate and every set of `dcqcn` slows
    down, so no policy is another one under a wrong name."""
    rates = {}
    for name, kind in POLICIES:
        life = Connection(loaded(name, kind), line_rate_bps=100e9, size_bytes=10**9)
        life.call("start")
        for _ in range(10):
            life.advance(life.now_ps + 60_000_000)
            life.call("cnp")
        life.advance(life.now_ps + 5_000_000)
        rates[Path(name).stem, kind] = life.rate_bps
    assert rates["none", None] == rates["fixed", None] == 100e9
    slow = {kind: rate for (name, kind), rate in rates.items() if name == "dcqcn"}
    assert all(rate < 50e9 for rate in slow.values())
    assert len({slow["mellanox"], slow["paper"], slow["alibaba"]}) == 3
