"""Two engines, one page of semantics: they agree event for event."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from compare import MakeEngine, Outcome, differences, run_engine
from plans import submit
from random_plans import Case, deadlock_case, random_case
from support.mix import MIXES, digests, with_record

import emunet as api
from emunet._core import load_engine
from emunet._core.rows import PFC_STORM
from emunet.twin import TwinEngine

pytestmark = pytest.mark.checked

SEEDS = range(100, 124)
MANY_SEEDS = range(1000, 1400)


def outcome(make: MakeEngine, case: Case, **options: Any) -> Outcome:
    """The case by one engine, with the log of all events."""
    engine = make(case.plan, log_events=True, **case.options, **options)
    return run_engine(engine, case.messages, case.until_ps)


def assert_agree(case: Case, **options: Any) -> None:
    """The native engine with these options and the twin differ in nothing."""
    found = differences(outcome(load_engine(), case, **options), outcome(TwinEngine, case))
    assert found == [], f"seed {case.seed}, {case.shape}, {options}:\n" + "\n".join(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_cases_agree_event_for_event(seed: int) -> None:
    """Semantics, first paragraph: both engines implement the page and must agree event for event.

    Rows of every event, sample, pause and flow, all counters, and what is unfinished. Shapes,
    rates, delays, classes, buffers, recovery, paths and policies are drawn from the seed.
    """
    draw = random.Random(f"options {seed}")
    case = random_case(seed)
    options = {
        "threads": draw.choice([1, 1, 2, 4]),
        "window_ps": draw.choice([0, 0, draw.randint(1 + case.plan.lookahead_ps // 10,
                                                     case.plan.lookahead_ps)]),
    }  # fmt: skip
    assert_agree(case, **options)


def test_a_deadlock_of_pauses_ends_alike() -> None:
    """Semantics 6: when nothing but pause frames moves, both end, and at the same time."""
    assert_agree(deadlock_case())


@pytest.mark.parametrize("forward", [0, 1])
def test_watchdogs_end_a_deadlock_alike(forward: int) -> None:
    """Semantics 3.7: detection, what is dropped or sent, restoration, and the end of the run."""
    times = {"watchdog_detect_ps": 100_000_000, "watchdog_restore_ps": 60_000_000}
    assert_agree(deadlock_case(**times, watchdog_forward=forward))


@pytest.mark.parametrize("seed", [306, 312, 313, 315, 317, 321, 326])
def test_watchdogs_agree_event_for_event(seed: int) -> None:
    """Semantics 3.7: short pauses are storms already; cut, saved and restored in the middle.

    Seeds in which switches pause one another.
    """
    draw = random.Random(f"watchdogs {seed}")
    case = random_case(
        seed,
        lossless_classes=(0, 3, 5),
        headroom_bytes=draw.choice([4_000, 40_000]),
        watchdog_detect_ps=draw.choice([1, 100_000, 500_000]),
        watchdog_restore_ps=draw.choice([1, 700_000, 20_000_000]),
        watchdog_forward=draw.choice([0, 0, 1]),
    )
    engine = load_engine()(case.plan, log_events=True, **case.options)
    submit(engine, case.messages)
    pieces = []
    for until_ps in sorted(draw.randrange(1, 60_000_000) for _ in range(4)):
        engine.run(min(until_ps, case.until_ps))
        pieces.append(engine.drain())
        engine = load_engine().restore(case.plan, engine.save(), log_events=True, **case.options)
    rest = run_engine(engine, [], case.until_ps)
    rest.rows = {name: np.concatenate([*(piece[name] for piece in pieces), rows])
                 for name, rows in rest.rows.items()}  # fmt: skip
    found = differences(rest, outcome(TwinEngine, case))
    assert found == [], f"seed {seed}, {case.shape}:\n" + "\n".join(found)
    assert (rest.rows["pfc"]["on"] == PFC_STORM).any()


@pytest.mark.parametrize("seed", [-1, *SEEDS[::3]])
def test_who_waits_for_whom_agrees_at_any_time(seed: int) -> None:
    """Semantics 6.1: at any instant both see the same groups wait for the same ports."""
    case = deadlock_case() if seed < 0 else random_case(seed, lossless_classes=(0, 3, 5))
    draw = random.Random(f"waits {seed}")
    engines = [load_engine()(case.plan, threads=draw.choice([1, 2])), TwinEngine(case.plan)]
    for engine in engines:
        submit(engine, case.messages)
    for now_ps in sorted(draw.randrange(1, 400_000_000) for _ in range(40)):
        ends = [engine.run(now_ps) for engine in engines]
        assert ends[0] == ends[1]
        found = [engine.waits().tolist() for engine in engines]
        assert found[0] == found[1], f"at {now_ps} ps"


@pytest.mark.slow
@pytest.mark.parametrize("first", MANY_SEEDS[::50])
def test_many_random_cases_agree_event_for_event(first: int) -> None:
    """The same for hundreds of seeds, each a scenario of its own."""
    for seed in range(first, first + 50):
        assert_agree(random_case(seed), threads=1 + seed % 3)


@pytest.mark.parametrize("seed", SEEDS[::8])
def test_random_cases_agree_without_a_log(seed: int) -> None:
    """Semantics 3.2: watermarks and integrals are exact though nobody looks at each packet.

    The log makes the native engine drain a switch at every arrival; here it drains on touch.
    """
    case = random_case(seed)
    outcomes = []
    for make in (load_engine(), TwinEngine):
        engine = make(case.plan)
        outcomes.append(run_engine(engine, case.messages, case.until_ps))
    found = differences(*outcomes)
    assert found == [], f"seed {seed}, {case.shape}:\n" + "\n".join(found)


@pytest.mark.parametrize("seed", SEEDS[1::8])
def test_random_cases_cut_and_saved_agree(seed: int) -> None:
    """Semantics 2.2 and `save`: the native run is cut at random, saved and restored at each cut."""
    case, draw = random_case(seed), random.Random(f"cuts {seed}")
    make = load_engine()
    engine = make(case.plan, log_events=True, **case.options)
    submit(engine, case.messages)
    pieces = []
    for until_ps in sorted(draw.randrange(1, 100_000_000) for _ in range(8)):
        engine.run(min(until_ps, case.until_ps))
        pieces.append(engine.drain())
        engine = make.restore(
            case.plan, engine.save(), threads=draw.choice([1, 2]), log_events=True, **case.options
        )
    rest = run_engine(engine, [], case.until_ps)
    rest.rows = {name: np.concatenate([*(piece[name] for piece in pieces), rows])
                 for name, rows in rest.rows.items()}  # fmt: skip
    found = differences(rest, outcome(TwinEngine, case))
    assert found == [], f"seed {seed}, {case.shape}:\n" + "\n".join(found)


@pytest.mark.parametrize("name", MIXES)
def test_the_mixes_agree_through_the_command(name: str) -> None:
    """Walkthrough 4: `--twin` gives the same results, by the digest of each part."""
    scenario = with_record(MIXES[name], queues={"every": "1us"}, packets=True)
    assert digests(api.run(scenario)) == digests(api.run(scenario, twin=True))
