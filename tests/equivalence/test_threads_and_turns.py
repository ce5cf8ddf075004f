"""One result, however the work is shared and the loop is cut: threads, chunks, turns, processes."""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.mix import (
    HAPPENS,
    LOGGED,
    MIXES,
    assert_same,
    digests,
    mix_material,
    plain_digests,
    run_mix,
)
from support.run import finish

import emunet as api
from emunet._core import load_engine

pytestmark = pytest.mark.checked

TESTS = Path(__file__).resolve().parents[1]
each_mix = pytest.mark.parametrize("name", MIXES)


@each_mix
def test_the_mixes_hold_what_they_are_for(name: str) -> None:
    """Definition of the mixes: in each, all that it is named for happens, or equality says little.

    No node of the tree is idle: windows of many nodes are what threads share.
    """
    result = api.run(MIXES[name])
    assert [total for total in HAPPENS[name] if result.totals[total] == 0] == []
    assert {"permutation", "incast", "poisson"} <= set(result.flows["tag"])
    assert (result.ports["tx_packets"] > 0).mean() > 0.9


@pytest.mark.parametrize("threads", [2, 4])
@each_mix
def test_threads_do_not_matter(name: str, threads: int) -> None:
    """Semantics 2.2: in a window no node acts on another, so threads do not change the digest."""
    assert run_mix(name, threads=threads) == plain_digests(name)


@pytest.mark.parametrize("threads", [2, 4])
@each_mix
def test_threads_do_not_matter_to_any_row(name: str, threads: int) -> None:
    """Semantics 2.2, 5: every event, sample and counter is the same, in the canonical order."""
    assert_same(finish(mix_material(name).engine(threads=threads)), name, f"{threads} threads")


@pytest.fixture
def loop() -> Any:
    """The module emunet.run, whose constants the tests change."""
    return importlib.import_module("emunet.run")


def cut(monkeypatch: pytest.MonkeyPatch, loop: Any, chunk: int | None, turn: int | None) -> None:
    """Messages submitted together and windows run in one turn, instead of the loop's own."""
    if chunk is not None:
        monkeypatch.setattr(loop, "CHUNK_MESSAGES", chunk)
    if turn is not None:
        monkeypatch.setattr(loop, "FIRST_TURN_WINDOWS", turn)
        monkeypatch.setattr(loop, "MOST_TURN_WINDOWS", turn)


@pytest.mark.parametrize("chunk", [1, 7])
@each_mix
def test_chunks_of_messages_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, loop: Any, name: str, chunk: int
) -> None:
    """Walkthrough 4: results do not depend on chunks, down to one message at a time.

    The engine then runs up to each start before it hears of the message that starts there.
    """
    expected = plain_digests(name)
    cut(monkeypatch, loop, chunk, None)
    assert run_mix(name) == expected


@pytest.mark.parametrize("turn", [1, 7])
@each_mix
def test_turns_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, loop: Any, name: str, turn: int
) -> None:
    """Walkthrough 4: results do not depend on turns, down to one window at a time."""
    expected = plain_digests(name)
    cut(monkeypatch, loop, None, turn)
    assert run_mix(name) == expected


@each_mix
def test_chunks_turns_and_threads_together_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, loop: Any, name: str
) -> None:
    """Walkthrough 4 and semantics 2.2 at once: one message, one window, three threads."""
    expected = plain_digests(name)
    cut(monkeypatch, loop, 1, 1)
    assert run_mix(name, threads=3) == expected


@pytest.mark.parametrize("seed", range(2))
@each_mix
def test_messages_may_come_at_any_time_before_their_start(name: str, seed: int) -> None:
    """Semantics 6: `submit` asks only that no start lies in the past, however late it is called.

    Random pieces of the list, each handed over at a random time before its first start.
    """
    work, draw = mix_material(name), random.Random(f"late {seed}")
    starts = work.columns[4]
    order = sorted({0, len(starts), *(draw.randrange(len(starts)) for _ in range(6))})
    engine = load_engine()(work.plan, **LOGGED)
    before = []
    for first, end in pairwise(order):
        start_ps = int(starts[first])
        engine.run(draw.randint(min(engine.now_ps, start_ps), start_ps))
        before.append(engine.drain())
        engine.submit(*(column[first:end] for column in work.columns))
    assert_same(finish(engine, before=before), name, f"seed {seed}")


CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
from support.mix import HAPPENS, MIXES, assert_same, digests, mix_material, plain_digests, run_mix
print(run_mix(sys.argv[1])["digest"])
"""


@each_mix
def test_another_process_with_other_addresses_gives_the_same(name: str) -> None:
    """CONTRIBUTING, determinism: nothing near results reads an address or the order of a set.

    A child process has other addresses, and its sets another order by PYTHONHASHSEED.
    """
    child = subprocess.run(
        [sys.executable, "-c", CHILD, name, str(TESTS)],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        cwd=Path(api.__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == plain_digests(name)["digest"]


@each_mix
def test_another_seed_gives_another_result(name: str) -> None:
    """Differential: the digest tells runs apart, so equality above is no accident of the digest."""
    assert run_mix(name, seed=99)["digest_flows"] != plain_digests(name)["digest_flows"]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4, 7])
def test_threads_do_not_matter_to_a_larger_fabric(threads: int) -> None:
    """Semantics 2.2 with 208 nodes, hundreds of them in one window, pauses and drops in turn."""
    for name in MIXES:
        larger = {**MIXES[name], "topology": {"kind": "fat_tree", "k": 8, "rate": "100Gbps"}}
        one, many = (digests(api.run(larger, threads=n)) for n in (1, threads))
        assert one == many, name
