"""Memory: what finished messages held is used again, an engine gives all back, none is no crash."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support.fabric import plan_of, policy, spokes
from support.oracle import GBPS, US
from support.run import Message, submit

import emunet as api
from emunet._core import load_engine
from emunet._core import rows as R

pytestmark = pytest.mark.checked

TESTS = Path(__file__).resolve().parents[1]
WAVE_PS = 200 * US
PER_WAVE = 48


def saved_sizes(n_wave: int, recovery: str, linger_ps: int) -> list[int]:
    """Bytes of the saved state after each of some equal waves of messages.

    The state holds every slot of connections, their policy's states and bitmaps, tables, timers and
    packet pools at their full capacity: what grows without end shows here, to the byte.
    """
    plan = plan_of(
        spokes([400 * GBPS] * 5),
        congestion=policy("dcqcn"),
        recovery=recovery,
        linger_ps=linger_ps,
        rto_ps=WAVE_PS // 2,
    )
    engine, sizes = load_engine()(plan), []
    for wave in range(n_wave):
        start_ps = wave * WAVE_PS
        messages = [Message(i % 4, 4, 5000, start_ps + 1) for i in range(PER_WAVE)]
        submit(engine, messages, wave * PER_WAVE)
        engine.run(start_ps + WAVE_PS)
        engine.drain()
        assert engine.totals()["flows_finished"] == (wave + 1) * PER_WAVE
        sizes.append(len(engine.save()))
    return sizes


@pytest.mark.parametrize("recovery", ["gbn", "sr"])
def test_finished_messages_give_their_state_back(recovery: str) -> None:
    """Walkthrough 4: memory is that of the messages active at once; 20 waves need what two need.

    Receiver halves that linger beyond the next wave are the differential: then the state does grow.
    """
    sizes = saved_sizes(20, recovery, 20 * US)
    assert set(sizes[1:]) == {sizes[1]}
    growing = saved_sizes(20, recovery, 10**12)
    assert sizes[-1] < growing[-1] / 2
    assert all(a < b for a, b in pairwise(growing))


CHILD = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from support.fabric import plan_of, spokes
from support.oracle import GBPS
from support.run import Message, columns, submit
from emunet._core import load_engine
from emunet._core import rows as R

plan = plan_of(spokes([400 * GBPS] * 2), mtu_bytes=256)
few = [Message(0, 1, 2000)] * 20_000
Engine = load_engine()


def leave(n_byte):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + n_byte, used + n_byte))
"""

RELEASED = """
leave(100 << 20)
sizes = set()
for _ in range(40):
    engine = Engine(plan, log_events=True)
    submit(engine, few)
    engine.run(10**15, 50)
    engine.drain()
    sizes.add(len(engine.save()) >> 20)
print("sizes", *sizes)
"""

SUBMITTED = """
engine = Engine(plan)
n = 1_000_000
many = [np.resize(column, n) for column in columns(few[:1])]
leave(40 << 20)
try:
    engine.submit(np.arange(n), *many)
except MemoryError as error:
    print(error)
taken = engine.totals()["flows_submitted"]
assert 0 < taken < n
reason = engine.run(10**7, 10)
assert reason in (R.UNTIL, R.PAUSED, R.NO_MEMORY), reason
print("went on")
"""

SAVED = """
engine = Engine(plan)
submit(engine, few)
engine.run(10**6)
engine.drain()
leave(1 << 20)
for _ in range(2):
    try:
        engine.save()
    except MemoryError as error:
        print(error)
"""

RUN_OUT = """
engine = Engine(plan, log_events=True)
submit(engine, [Message(0, 1, 10**9)])
leave(8 << 20)
print(R.REASONS[engine.run(10**15)])
print(R.REASONS[engine.run(10**15)])
"""


def child(text: str) -> list[str]:
    """Lines that a process with little memory prints."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD + text, str(TESTS)],
        cwd=Path(api.__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="address space is limited there")


@needs_limits
def test_an_engine_gives_its_memory_back() -> None:
    """One object is one simulation: forty engines one after another need no more than one.

    Each holds 3 MB and more when it goes; the process may have 100 MB more than at the start.
    """
    (line,) = child(RELEASED)
    word, *sizes = line.split()
    assert word == "sizes" and all(int(size) >= 3 for size in sizes)


@needs_limits
def test_too_many_messages_are_an_error_and_no_crash() -> None:
    """Docstring of the engine: without memory `submit` raises; those taken are there and run."""
    assert child(SUBMITTED) == ["engine: no memory for more messages", "went on"]


@needs_limits
def test_a_state_that_does_not_fit_is_not_saved() -> None:
    """Docstring of `save`: the whole state, or MemoryError; never a part of it."""
    assert child(SAVED) == ["engine: no memory to save the state"] * 2


@needs_limits
def test_running_out_of_memory_is_a_reason_and_no_crash() -> None:
    """Walkthrough 4.1, 5: a failed allocation ends the run after the window, and it stays ended."""
    assert child(RUN_OUT) == [R.REASONS[R.NO_MEMORY]] * 2
