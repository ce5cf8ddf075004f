"""A run that was saved and goes on gives what it would have given, wherever it is taken up."""

from __future__ import annotations

import random
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.mix import LOGGED, MIXES, assert_same, material, mix_material
from support.run import Result, finish

import emunet as api
from emunet._core import load_engine
from emunet._core import rows as R
from emunet.errors import EngineError

pytestmark = pytest.mark.checked

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(params=MIXES)
def name(request: pytest.FixtureRequest) -> str:
    """Each mix."""
    return str(request.param)


def up_to(engine: Any, windows: int) -> tuple[list[dict[str, np.ndarray]], int]:
    """Run at most so many windows; the rows drained and the reason."""
    drained, reason = [], R.PAUSED
    left = engine.n_window + windows
    while reason == R.PAUSED and engine.n_window < left:
        reason = engine.run(10**15, left - engine.n_window)
        drained.append(engine.drain())
    return drained, reason


def resumed(name: str, cuts: list[int], threads: list[int], window_ps: list[int]) -> Result:
    """Run with a save and a restore after so many windows each, with other options each time."""
    work = mix_material(name)
    engine = work.engine(threads=threads[0], window_ps=window_ps[0])
    before: list[dict[str, np.ndarray]] = []
    for windows, n, length_ps in zip(cuts, threads[1:], window_ps[1:], strict=True):
        drained, _ = up_to(engine, windows)
        before += drained
        saved = engine.save()
        del engine
        engine = load_engine().restore(work.plan, saved, threads=n, window_ps=length_ps, **LOGGED)
    return finish(engine, before=before)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("seed", range(2))
def test_saving_once_does_not_matter(name: str, seed: int, threads: int) -> None:
    """Docstrings of `save` and `restore`: the restored engine goes on, by whatever threads.

    Saved after a random number of windows, taken up by 1 thread after 4 and by 4 after 1 too.
    """
    draw = random.Random(f"save {seed} {threads}")
    cuts, other = [draw.randint(1, 400)], draw.choice([1, 2, 4])
    found = resumed(name, cuts, [threads, other], [0, 0])
    assert_same(found, name, f"seed {seed}: after {cuts} windows, {threads} to {other}")


@pytest.mark.parametrize("seed", range(2))
def test_saving_again_and_again_does_not_matter(name: str, seed: int) -> None:
    """The same with ten saves, other threads and other window lengths after each."""
    work = mix_material(name)
    draw = random.Random(f"saves {seed}")
    cuts = [draw.randint(1, 60) for _ in range(10)]
    threads = [draw.choice([1, 2, 4]) for _ in range(11)]
    lengths = [work.plan.lookahead_ps // draw.choice([1, 1, 2, 3]) for _ in range(11)]
    assert_same(resumed(name, cuts, threads, lengths), name, f"seed {seed}: {cuts}")


def test_saving_after_every_window_does_not_matter(name: str) -> None:
    """The same with a save after each of the first 60 windows: no state is between the saves."""
    n = 60
    assert_same(resumed(name, [1] * n, [1] * (n + 1), [0] * (n + 1)), name, "each window")


def test_saving_changes_nothing_for_the_engine_that_saves(name: str) -> None:
    """Docstring of `save`: it only reads; the engine that was saved goes on as if it had not been.

    So does a second engine from the same bytes, and the first is not disturbed by it.
    """
    work = mix_material(name)
    engine = work.engine(threads=2)
    drained, _ = up_to(engine, 60)
    saved = engine.save()
    assert engine.save() == saved
    others = [load_engine().restore(work.plan, saved, **LOGGED) for _ in range(2)]
    results = [finish(e, before=drained) for e in (others[0], engine, others[1])]
    for found in results:
        assert_same(found, name, "one save, three engines")


def test_a_finished_run_can_be_saved(name: str) -> None:
    """Docstring of `save`: between any two calls of `run`, and so after the end."""
    work = mix_material(name)
    engine = work.engine()
    result = finish(engine)
    again = finish(load_engine().restore(work.plan, engine.save(), **LOGGED))
    assert again.reason == R.DONE
    assert again.totals == result.totals
    assert not any(len(getattr(again, rows)) for rows in ("flows", "events", "queues", "pfc"))


CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
from support.mix import mix_material
engine = mix_material(sys.argv[1]).engine(threads=2)
engine.run(10**15, 100)
engine.drain()
sys.stdout.buffer.write(engine.save())
"""


def test_another_process_can_go_on(name: str) -> None:
    """CONTRIBUTING, determinism: no address is part of the state, so any process can take it up."""
    work = mix_material(name)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, name, str(TESTS)],
        cwd=Path(api.__file__).parents[1], capture_output=True, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr.decode()
    engine = work.engine(threads=2)
    drained, _ = up_to(engine, 100)
    found = finish(load_engine().restore(work.plan, child.stdout, **LOGGED), before=drained)
    assert_same(found, name, "from a child process")


def test_what_cannot_be_taken_up_is_refused(name: str) -> None:
    """Docstring of `restore`: bytes from another plan, or cut short, or too long, are an error."""
    work = mix_material(name)
    engine = work.engine()
    up_to(engine, 30)
    saved = engine.save()
    restore = load_engine().restore
    other = material({**MIXES["pfc"], "seed": 1234}).plan
    with pytest.raises(EngineError, match="another plan"):
        restore(other, saved)
    with pytest.raises(EngineError, match="another plan"):
        restore(work.plan, b"")
    for wrong in (saved[:-1], saved[: len(saved) // 2], saved[:40], saved + b"\0"):
        with pytest.raises(EngineError, match="cut short or damaged"):
            restore(work.plan, wrong)


def resealed(plan: Any, body: bytes) -> bytes:
    """A saved state as `save` would give it, with this body."""
    return bytes(plan.digest.encode() + blake2b(body, digest_size=16).digest() + body)


def test_a_damaged_state_is_refused(name: str) -> None:
    """Docstring of `restore`: one bit that is not as saved is an error, and nothing is read."""
    work = mix_material(name)
    engine = work.engine()
    up_to(engine, 30)
    saved = engine.save()
    draw = random.Random(7)
    for _ in range(20):
        at = draw.randrange(len(work.plan.digest), len(saved))
        damaged = bytearray(saved)
        damaged[at] ^= 1 << draw.randrange(8)
        with pytest.raises(EngineError, match="cut short or damaged"):
            load_engine().restore(work.plan, bytes(damaged))


def test_counts_beyond_the_state_are_refused(name: str) -> None:
    """Docstring of `restore`: a whole state of another version is an error: what its counts
    promise does not follow. The last link is empty here: a count and a time."""
    work = mix_material(name)
    engine = load_engine()(work.plan)
    saved, restore = engine.save(), load_engine().restore
    body = saved[len(work.plan.digest) + 16 :]
    assert resealed(work.plan, body) == saved
    for n in (1, 1 << 20, (1 << 31) + 1, (1 << 32) - 1):
        promised = body[:-12] + n.to_bytes(4, "little") + body[-8:]
        with pytest.raises(EngineError, match="another version"):
            restore(work.plan, resealed(work.plan, promised))
    for cut in range(0, len(body), len(body) // 50):
        with pytest.raises(EngineError, match="another version"):
            restore(work.plan, resealed(work.plan, body[:cut]))


def test_rows_must_be_drained_before_saving(name: str) -> None:
    """Docstring of `save`: rows are not part of the state, so saving refuses to lose them."""
    work = mix_material(name)
    engine = work.engine()
    engine.run(10**15, 60)
    with pytest.raises(EngineError, match="drain"):
        engine.save()
