"""Deadlocks of pauses: found where there is one, named port by port, and nowhere else."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.fabric import BARE, LOSSY, plan_of
from support.oracle import GBPS, US
from support.run import FOREVER, Message, submit

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.analysis.deadlock import cycle_text, cycles, deadlocked
from emunet.plan.schema import Plan
from emunet.topology.explicit import Cable, explicit

pytestmark = pytest.mark.checked

TIGHT = {"alpha": 1.0, "buffer_bytes": 130_000, "headroom_bytes": 30_000, "rto_ps": 50 * US}


def ring(n: int, lossless: bool = True) -> Plan:
    """Switches in a circle with a host each, so little shared memory that pauses go round."""
    cables = [Cable(h, n + h, 100 * GBPS, 50_000) for h in range(n)]
    cables += [Cable(n + s, n + (s + 1) % n, 100 * GBPS, 50_000) for s in range(n)]
    topology = explicit([f"h{i}" for i in range(n)], [f"s{i}" for i in range(n)], cables)
    return plan_of(topology, BARE if lossless else LOSSY, **TIGHT)


def two_hops(n: int, size_bytes: int = 200_000, klass: int = 3) -> list[Message]:
    """Each host sends two switches further, clockwise: each trunk would carry two streams."""
    return [Message(h, (h + 2) % n, size_bytes, klass=klass) for h in range(n)]


def circles(plan: Plan, waits: np.ndarray) -> list[str]:
    """The circles as a user reads them."""
    return [cycle_text(plan, [out for _, out, _ in c], c[0][2])
            for c in cycles(waits, plan.port_peer)]  # fmt: skip


@pytest.mark.parametrize("n", [5, 7])
def test_a_ring_that_waits_for_itself_is_named_port_by_port(n: int) -> None:
    """Dally and Seitz 1987: a circle in the graph of channels is what a deadlock is made of.

    The traffic's channels form one circle, the trunks clockwise, each at port 1 of its switch
    (0 is the host, 2 the trunk from the switch before; the last switch's come in the order of
    cables: its trunk to the first one is its port 2). No other can be named.
    """
    plan = ring(n)
    engine = load_engine()(plan)
    submit(engine, two_hops(n))
    assert engine.run(FOREVER) == R.STUCK
    clockwise = [f"s{s}:{1 if s in (0,) else 2}" for s in range(n)]
    expected = " → ".join([*clockwise, clockwise[0]])
    assert circles(plan, engine.waits()) == [f"{expected} (class 3)"]


def test_a_deadlock_once_seen_lasts() -> None:
    """Semantics 6.1: what is called deadlocked never moves again, at whichever instant one looks.

    Looked at every 100 ns; from the first sight on the circle stays the same, and no packet of the
    class leaves by one of its ports.
    """
    plan = ring(5)
    engine = load_engine()(plan, log_events=True)
    submit(engine, two_hops(5))
    seen_ps, events, first = 0, [], []
    for now in range(100_000, 60 * US, 100_000):
        engine.run(now)
        events.append(engine.drain()["events"])
        found = cycles(engine.waits(), plan.port_peer)
        if first:
            assert found == first
        elif found:
            seen_ps, first = now, found
    assert US < seen_ps < 20 * US
    log = np.concatenate(events)
    ports = {out for _, out, _ in first[0]}
    left = log[(log["kind"] == R.EVENT_DEPART) & (log["node"] >= plan.n_host)]
    out = plan.node_port_start[left["node"]] + left["port"]
    last_ps = left["time_ps"][np.isin(out, list(ports))].max()
    assert 0 < last_ps < seen_ps


def test_the_same_ring_without_flow_control_goes_on() -> None:
    """Coffman et al. 1971: without hold and wait there is no deadlock; packets are dropped."""
    engine = load_engine()(ring(5, lossless=False))
    submit(engine, two_hops(5))
    while engine.run(engine.now_ps + 10 * US) == R.UNTIL:
        assert len(engine.waits()) == 0
        assert engine.now_ps < 10**11
    totals = engine.totals()
    assert totals["dropped_packets"] > 0
    assert totals["flows_finished"] == 5


@pytest.mark.parametrize("seed", range(12))
def test_a_tree_is_never_called_a_deadlock(seed: int) -> None:
    """Routes along a tree have no circle of channels (up, then down), so pauses alone, however
    many and however wide, are no deadlock.

    Random trees of up to nine switches, hosts anywhere, incasts to few receivers, and looks at
    many instants; the fabric is in XOFF at most of them and every message arrives.
    """
    draw = random.Random(f"trees {seed}")
    n_switch, n_host = draw.randint(2, 9), draw.randint(6, 12)
    cables = [Cable(h, n_host + draw.randrange(n_switch), 100 * GBPS, 50_000)
              for h in range(n_host)]  # fmt: skip
    cables += [Cable(n_host + s, n_host + draw.randrange(s), 100 * GBPS, 50_000)
               for s in range(1, n_switch)]  # fmt: skip
    topology = explicit([f"h{i}" for i in range(n_host)], [f"s{i}" for i in range(n_switch)],
                        cables)  # fmt: skip
    plan = plan_of(topology, alpha=0.25, buffer_bytes=100_000 + 30_000 * 21, headroom_bytes=30_000)
    targets = [draw.randrange(n_host) for _ in range(2)]
    messages = [Message(h, t, draw.randint(50_000, 300_000)) for h in range(n_host)
                for t in targets if t != h]  # fmt: skip
    engine = load_engine()(plan)
    submit(engine, messages)
    n_waiting = n_paused = 0
    while engine.run(engine.now_ps + draw.randint(100_000, US)) != R.DONE:
        waits = engine.waits()
        n_waiting += len(waits) > 0
        assert len(deadlocked(waits, plan.port_peer)) == 0
    n_paused = engine.totals()["pause_frames"]
    assert n_paused > 0
    assert engine.totals()["flows_finished"] == len(messages)


def table(*rows: tuple[int, int, int]) -> np.ndarray:
    """Waits of groups (in-port, out-port, class); node 0 throughout."""
    return np.array([(0, c, i, o) for i, o, c in rows], R.WAITS_ROW)


PEER = np.array([1, 0, 3, 2, 5, 4, 7, 6, 9, 8])
"""Ports 2k and 2k+1 are the ends of a cable."""


def test_a_way_out_anywhere_frees_a_circle() -> None:
    """Semantics 6.1: groups wait for *all* their ports to be stopped for good. Group 1 -> 3 -> 5 ->
    1 is a circle; a second port of one of them, paused by a group that lives, undoes it.
    """
    circle = [(1, 2, 3), (3, 4, 3), (5, 0, 3)]
    assert cycles(table(*circle), PEER) == [tuple(circle)]
    assert cycles(table(*circle, (3, 6, 3)), PEER) == []
    behind = [*circle, (7, 2, 3)]  # waits for the circle, but nobody waits for it
    assert cycles(table(*behind), PEER) == [tuple(circle)]
    assert len(deadlocked(table(*behind), PEER)) == 4


def test_circles_are_named_in_one_way() -> None:
    """Docstring of `cycles`: each knot once, from its first group, the shortest, in any order of
    rows; classes are apart."""
    rows = [(1, 2, 3), (3, 4, 3), (5, 0, 3), (3, 0, 3), (1, 2, 5), (3, 0, 5)]
    expected = [((1, 2, 3), (3, 0, 3)), ((1, 2, 5), (3, 0, 5))]
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert cycles(table(*rows), PEER) == expected
