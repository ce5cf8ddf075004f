"""An engine that does not return, and the second signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import emunet as api
from emunet import progress

LOOP = """
import numpy as np
PARAMS = ()
CLAIMS = ()
STATE = np.dtype([])
def start(ctx, params, state, out):
    n = 0
    if ctx.now_ps > 0:
        while n >= 0:
            n = (n + 1) % 7
    out.window_bytes = n + 100000
"""

SCENARIO = """
topology: {kind: star, hosts: 3}
transport: {cc: CC}
workload:
  - permutation: {size: 10KB}
  - permutation: {size: 50MB, start: 20us}
"""

STRIKE = """
import contextlib, importlib, os, signal, sys, threading
from emunet.__main__ import main
from emunet.interrupt import Interrupts
numbers = [int(word) for word in sys.argv[1].split(",")]
module = importlib.import_module("emunet.run")
module.CHUNK_MESSAGES, module.FIRST_TURN_WINDOWS = 3, 1 << 16
real, turns = Interrupts.away, []
def strike():
    for number in numbers:
        os.kill(os.getpid(), number)
@contextlib.contextmanager
def away(self):
    with real(self):
        turns.append(self)
        if len(turns) == 2:
            threading.Thread(target=strike).start()
        yield
Interrupts.away = away
main(sys.argv[2:])
"""
"""Runs the command line, and sends it signals when the engine is called for the second time.

The first call ends where the second chunk of messages starts.
"""

HUNG = "interrupted: the engine does not return: does a policy loop for ever?"


TERM_LAST = (signal.SIGINT, signal.SIGTERM)
"""Two numbers: equal ones that follow at once may be delivered as one."""


def struck(numbers: tuple[int, ...], *args: object) -> subprocess.CompletedProcess[str]:
    """What the command does that gets signals while the engine runs."""
    words = [",".join(str(int(number)) for number in numbers), *map(str, args)]
    return subprocess.run(
        [sys.executable, "-c", STRIKE, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("numbers", [TERM_LAST, TERM_LAST[::-1]])
def test_a_policy_that_loops_for_ever_is_ended_by_the_second_signal(
    write: Callable, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """Claim of policies.md: if the engine is caught in a hook, the second signal ends the command
    with code 130, the reason, one JSON object, and a trace that opens."""
    write("loop.py", LOOP)
    scenario = write("scenario.yaml", SCENARIO.replace("CC", "loop.py"))
    out = tmp_path / "run.h5"
    done = struck(numbers, "run", scenario, "-o", out, "--json", "-q")
    assert (done.returncode, done.stderr.strip()) == (130, HUNG)
    assert json.loads(done.stdout) == {"error": HUNG, "exit_code": 130}
    assert sorted(p.name for p in tmp_path.glob("run*")) == ["run.h5"]
    with api.load(out) as run:
        assert (run.meta["complete"], run.meta["reason"]) == (False, "interrupted")
        assert run.flows.fct_rx_ps[:3].gt(0).all()
        assert run.flows.fct_rx_ps[3:].eq(-1).all()


@pytest.mark.parametrize("numbers", [TERM_LAST[:1], TERM_LAST])
def test_an_engine_that_returns_is_not_ended(
    write: Callable, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """Claim: signals that come while the engine runs are heard when it returns; nothing is said
    of the policy then."""
    scenario = write("scenario.yaml", SCENARIO.replace("CC", "none"))
    out = tmp_path / "run.h5"
    done = struck(numbers, "run", scenario, "-o", out, "--json", "-q")
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert "loop" not in done.stderr
    with api.load(out) as run:
        assert run.meta["reason"] == "interrupted"
        assert bool(run.totals) == (len(numbers) == 1)


def test_a_library_run_is_not_watched() -> None:
    """Claim: only the command line starts a thread and has its wake-up pipe."""
    seen = []

    class Look(progress.Silent):
        def update(self, status: progress.Status) -> None:
            seen.append((threading.active_count(), signal.set_wakeup_fd(-1)))

    before = threading.active_count()
    small = {
        "topology": {"kind": "star", "hosts": 2},
        "workload": [{"permutation": {"size": "10KB"}}],
    }
    api.run(small, progress=Look())
    assert set(seen) == {(before, -1)}
