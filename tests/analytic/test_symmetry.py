"""What must not matter: the numbers of nodes, and the order in which messages are handed over."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.fabric import BARE, Cable, explicit, plan_of, step_ecn
from support.oracle import GBPS, NS, US
from support.run import FOREVER, Message, Result, columns, finish, run

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.plan.schema import Plan

pytestmark = pytest.mark.checked

N_LEAF, PER_LEAF = 3, 4


def tree(order: list[int], **knobs: object) -> Plan:
    """Three leaves of four hosts and one spine, one path between any two.

    Host i of the drawing is number order[i]. The cables come in the same order whatever the
    numbers, so every switch has the same ports. Marking is a step (certain above 40 KB), so nothing
    is drawn.
    """
    n = N_LEAF * PER_LEAF
    shift = order[0] % N_LEAF  # switches are renumbered too
    leaf = [n + (i + shift) % N_LEAF for i in range(N_LEAF)]
    cables = [Cable(order[i], leaf[i // PER_LEAF], 100 * GBPS, US) for i in range(n)]
    cables += [Cable(leaf[i], n + N_LEAF, 100 * GBPS, US) for i in range(N_LEAF)]
    names = [f"host{i}" for i in range(n)]
    topology = explicit(names, [f"leaf{i}" for i in range(N_LEAF)] + ["spine"], cables)
    return plan_of(topology, BARE, ties="port", ecn=step_ecn(40_000, 40_000, 1.0), **knobs)


def messages(order: list[int]) -> list[Message]:
    """The same for any numbering: three incasts at once, sizes by drawing number, some equal."""
    n = len(order)
    return [
        Message(order[i], order[j], 20_000 * (1 + i % 3), 100 * NS * (i % 2))
        for j in (0, 5, 9)
        for i in range(n)
        if i != j
    ]


def outcome(result: Result) -> tuple[list[tuple[int, ...]], dict[str, int]]:
    """Rows of all flows without the numbers of nodes, and the totals."""
    counts = ["retransmitted", "timeouts", "nacks", "marked", "out_of_order"]
    rows = np.sort(result.flows[["flow", "kind", "time_ps", *counts]], order=["flow", "kind"])
    return rows.tolist(), result.totals


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lossless", [(3,), ()], ids=["pfc", "lossy"])
def test_node_numbers_do_not_matter(seed: int, lossless: tuple[int, ...]) -> None:
    """K25: with hosts and switches renumbered and nothing drawn, every message ends alike.

    Ports and messages stay in the same order. With pauses and without (drops, NACKs and timeouts
    then); ties go by port.
    """
    knobs = {
        "lossless_classes": lossless,
        "buffer_bytes": 150_000 + 5 * 40_000 * len(lossless),
        "headroom_bytes": 40_000,
        "alpha": 1.0,
        "rto_ps": 100 * US,
        "max_retries": 100,
        "seed": seed,
    }
    straight = list(range(N_LEAF * PER_LEAF))
    mixed = straight.copy()
    random.Random(f"numbers {seed}").shuffle(mixed)
    assert mixed != straight
    first, second = (
        run(tree(order, **knobs), messages(order), log=False) for order in (straight, mixed)
    )
    assert outcome(first) == outcome(second)
    seen = first.totals
    assert seen["marked_packets"] > 0
    if lossless:
        assert seen["pause_frames"] > 0 and seen["dropped_packets"] == 0
    else:
        assert seen["nack_packets"] > 0 and seen["timeouts"] > 0


@pytest.mark.parametrize("ties", ["port", "draw"])
def test_the_order_of_submission_does_not_matter(ties: str) -> None:
    """Semantics 2: only time, kind, tie and number order events, not the order of submission."""
    order = list(range(N_LEAF * PER_LEAF))
    plan = tree(order, buffer_bytes=350_000, headroom_bytes=40_000, seed=3)
    if ties == "draw":
        from support.fabric import altered

        plan = altered(plan, ties=0)
    work = messages(order)
    result = run(plan, work)
    shuffled = list(range(len(work)))
    random.Random(1).shuffle(shuffled)
    engine = load_engine()(plan, log_events=True)
    for i in shuffled:
        engine.submit(np.array([i]), *columns([work[i]]))
    again = finish(engine, until_ps=FOREVER)
    assert again.events.tobytes() == result.events.tobytes()
    assert outcome(again) == outcome(result)


def test_ties_are_drawn_not_ranked() -> None:
    """Semantics 1.2: by draw, synchronous senders go in an order that favours none.

    By port they always go in order. 8 senders of one packet each meet 400 times; each comes first
    50 times on average: within 4 sigma of the binomial, 26.5. With `ties: port` the first is always
    the lowest port.
    """
    n, rounds = 8, 400
    cables = [Cable(h, n + 1, 400 * GBPS, US) for h in range(n + 1)]
    topology = explicit([f"h{i}" for i in range(n + 1)], ["s"], cables)
    work = [Message(h, n, 1000, 10 * US * r) for r in range(rounds) for h in range(n)]
    for ties in ("draw", "port"):
        result = run(plan_of(topology, BARE, ties=ties), work, log=False)
        done = result.rx_ps().reshape(rounds, n)
        first = np.bincount(done.argmin(axis=1), minlength=n)
        if ties == "port":
            assert first.tolist() == [rounds] + [0] * (n - 1)
            assert (np.diff(done, axis=1) > 0).all()
        else:
            sigma = (rounds * (1 / n) * (1 - 1 / n)) ** 0.5
            assert (abs(first - rounds / n) < 4 * sigma).all(), first
    assert R.REASONS[result.reason] == "done"
