"""One result, wherever windows end and `run` returns."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.mix import MIXES, assert_same, mix_material
from support.run import finish

from emunet._core import load_engine

pytestmark = pytest.mark.checked


@pytest.fixture(params=MIXES)
def name(request: pytest.FixtureRequest) -> str:
    """Each mix."""
    return str(request.param)


@pytest.mark.parametrize("part", [3, 10])
def test_the_length_of_windows_does_not_matter(name: str, part: int) -> None:
    """Semantics 2.2: windows of the lookahead L (the default) or of a part of it: the same rows."""
    work = mix_material(name)
    window_ps = work.plan.lookahead_ps // part
    assert_same(finish(work.engine(window_ps=window_ps)), name, f"L / {part}")


def test_windows_longer_than_the_lookahead_are_refused(name: str) -> None:
    """Semantics 2.2: in a longer window one node could act on another; 0 stands for L."""
    work = mix_material(name)
    lookahead_ps = work.plan.lookahead_ps
    engine = load_engine()
    for window_ps in (lookahead_ps + 1, -1):
        with pytest.raises(ValueError, match=f"window_ps: {window_ps}.*{lookahead_ps}"):
            engine(work.plan, window_ps=window_ps)
    for window_ps in (0, 1, lookahead_ps):
        engine(work.plan, window_ps=window_ps)


@pytest.mark.parametrize("seed", range(2))
def test_stopping_at_random_times_does_not_matter(name: str, seed: int) -> None:
    """Semantics 2.2: `run(until)` may stop anywhere; windows are cut there and begin anew.

    Times from 1 ps after the last one up to 3 L, so that several cuts fall into one window.
    """
    work = mix_material(name)
    draw = random.Random(f"until {seed}")
    longest_ps = 3 * work.plan.lookahead_ps

    def step(engine: Any) -> tuple[int, int]:
        return engine.now_ps + draw.choice([1, draw.randint(1, longest_ps)]), 0

    assert_same(finish(work.engine(), step=step), name, f"seed {seed}")


@pytest.mark.parametrize("seed", range(2))
def test_random_windows_turns_and_times_do_not_matter(name: str, seed: int) -> None:
    """Semantics 2.2: window length, windows a turn, end times and threads, all at random."""
    work = mix_material(name)
    draw = random.Random(f"all {seed}")
    options = {
        "window_ps": draw.randint(work.plan.lookahead_ps // 20, work.plan.lookahead_ps),
        "threads": draw.choice([1, 2, 4]),
    }

    def step(engine: Any) -> tuple[int, int]:
        return engine.now_ps + draw.randint(1, 20_000_000), draw.randint(1, 30)

    engine = work.engine(**options)
    assert_same(finish(engine, step=step), name, f"seed {seed}: {options}")


def test_a_stop_before_the_present_changes_nothing(name: str) -> None:
    """Semantics 2.2: `run(until)` handles the events before `until`; without any, nothing moves."""
    work = mix_material(name)
    calls = iter([5_000_000, 4_000_000, 1, 0, 5_000_000, 40_000_000, 3, 10**15])

    def step(engine: Any) -> tuple[int, int]:
        return next(calls), 0

    assert_same(finish(work.engine(), step=step), name, "backwards")


def test_what_is_read_between_calls_changes_nothing(name: str) -> None:
    """Walkthrough 4: between turns everything may be asked for; asking changes nothing."""
    work = mix_material(name)

    def step(engine: Any) -> tuple[int, int]:
        engine.ports()
        engine.switches()
        engine.unfinished()
        assert engine.totals()["flows_submitted"] == len(work.columns[0])
        return 10**15, 9

    assert_same(finish(work.engine(), step=step), name, "read")
