"""Why `run` returns, what may be asked then, and that it goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fabric import LOSSY, plan_of, policy, spokes
from support.oracle import ACK, FIRST, FULL, GAP, GBPS, MTU, US
from support.run import FOREVER, Message, finish, run, submit

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.errors import EngineError
from emunet.plan.schema import Plan
from emunet.topology.explicit import Cable, explicit

pytestmark = pytest.mark.checked


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Four hosts at one switch; cables of 1 us."""
    return plan_of(spokes([400 * GBPS] * 4))


def test_nothing_to_do_is_done(plan: Plan) -> None:
    """Semantics 6: the run ends when nothing is in flight, queued or armed: here at 0."""
    engine = load_engine()(plan)
    assert engine.run(FOREVER) == R.DONE
    assert (engine.now_ps, engine.n_window) == (0, 0)
    assert engine.unfinished().tolist() == []
    assert not any(len(rows) for rows in engine.drain().values())
    assert not any(engine.totals().values())
    assert not any(values.any() for values in engine.ports().values())


def test_done_stays_done(plan: Plan) -> None:
    """Semantics 6: after the end a further call does nothing, and what was drained is gone."""
    engine = load_engine()(plan, log_events=True)
    submit(engine, [Message(0, 1, 50_000)])
    assert engine.run(FOREVER) == R.DONE
    first, totals, now_ps = engine.drain(), engine.totals(), engine.now_ps
    assert len(first["events"]) == 8 * totals["data_packets"]
    for until_ps in (FOREVER, 0, now_ps, FOREVER):
        assert engine.run(until_ps) == R.DONE
        assert not any(len(rows) for rows in engine.drain().values())
        assert (engine.totals(), engine.now_ps) == (totals, now_ps)


def test_done_goes_on_with_new_messages(plan: Plan) -> None:
    """Walkthrough 4: between chunks the engine may be idle; the next runs as the first did."""
    engine = load_engine()(plan)
    took = []
    for number in range(3):
        start_ps = 1000 * US * number
        submit(engine, [Message(0, 1, 50_000, start_ps)], number)
        assert engine.run(FOREVER) == R.DONE
        took.append([int(t) - start_ps for t in engine.drain()["flows"]["time_ps"]])
    assert took[0] == took[1] == took[2]
    assert engine.totals()["flows_finished"] == 3


def test_until_stops_before_the_instant(plan: Plan) -> None:
    """Semantics 2.2: `run(until)` handles the events before `until`, and no other.

    The delivery at time t is in the rows of run(t + 1) and not in those of run(t).
    """
    at_ps = (2 * (1000 + 78 + GAP)) * 20 + 2 * US
    engine = load_engine()(plan)
    submit(engine, [Message(0, 1, 1000)])
    assert engine.run(at_ps) == R.UNTIL
    assert engine.now_ps == at_ps
    assert len(engine.drain()["flows"]) == 0
    assert engine.totals()["in_flight_packets"] == 1
    assert engine.run(at_ps + 1) == R.UNTIL
    assert engine.drain()["flows"]["time_ps"].tolist() == [at_ps]
    assert engine.run(FOREVER) == R.DONE
    acked = engine.drain()["flows"]
    assert acked["time_ps"].tolist() == [at_ps + 2 * (ACK + GAP) * 20 + 2 * US]
    assert acked["kind"].tolist() == [R.FLOW_TX_DONE]


def test_until_beyond_the_work_is_done_not_until(plan: Plan) -> None:
    """Semantics 6: the end or `until`, whichever is first; with no work left it is the end."""
    engine = load_engine()(plan)
    submit(engine, [Message(0, 1, 1000), Message(2, 3, 1000, 50 * US)])
    assert engine.run(40 * US) == R.UNTIL
    assert engine.run(60 * US) == R.DONE


def test_paused_counts_windows(plan: Plan) -> None:
    """Docstring of `run`: with `max_windows` it returns PAUSED after so many; 0 means no limit."""
    engine = load_engine()(plan)
    submit(engine, [Message(0, 1, 1_000_000)])
    for n in (1, 1, 3, 10):
        before = engine.n_window
        assert engine.run(FOREVER, n) == R.PAUSED
        assert engine.n_window == before + n
    assert engine.run(FOREVER, 0) == R.DONE
    assert engine.run(FOREVER, 1) == R.DONE


def test_run_returns_when_many_rows_wait() -> None:
    """Walkthrough 4: `run` also returns when a million rows (2^20) wait to be drained.

    No more come than one window adds: at most a packet of 256 B every 6.76 ns on each of six links.
    """
    plan = plan_of(spokes([400 * GBPS] * 2), mtu_bytes=256)
    engine = load_engine()(plan, log_events=True)
    submit(engine, [Message(0, 1, 256 * 300_000)])
    assert engine.run(FOREVER) == R.PAUSED
    n = len(engine.drain()["events"])
    in_a_window = 2 * 4 * (plan.lookahead_ps // ((256 + 62 + GAP) * 20) + 2)
    assert 1 << 20 <= n <= (1 << 20) + in_a_window
    rest = finish(engine)
    assert rest.reason == R.DONE
    assert n + len(rest.events) == 8 * 300_000


def test_drained_rows_are_in_canonical_order() -> None:
    """Semantics 5: each kind of rows has an order of its own, whatever the order of handling."""
    plan = plan_of(
        spokes([400 * GBPS] * 6), buffer_bytes=900_000, headroom_bytes=100_000, alpha=0.5
    )
    messages = [Message(1 + i % 5, 0, 60_000, 0, 3) for i in range(10)]
    engine = load_engine()(plan, log_events=True, sample_every_ps=US, threads=2)
    submit(engine, messages)
    rows = finish(engine)
    assert rows.totals["pause_frames"] > 0 and len(rows.queues) > 10
    orders = {
        "flows": ("time_ps", "node", "flow", "kind"), "events": R.EVENT_ORDER,
        "queues": ("time_ps", "port"), "pfc": ("time_ps", "port", "klass"),
    }  # fmt: skip
    for name, order in orders.items():
        found = getattr(rows, name)
        key = [tuple(row[field].item() for field in order) for row in found]
        assert key == sorted(key), name
        assert not found["pad"].any(), name


def unfinished_at(plan: Plan, messages: list[Message], until_ps: int) -> dict[int, tuple]:
    """What each message waits for when the run is stopped: (wait, until, delivered, port)."""
    result = run(plan, messages, until_ps=until_ps, expect=R.UNTIL)
    assert result.unfinished["flow"].tolist() == sorted(result.unfinished["flow"].tolist())
    for row in result.unfinished:
        message = messages[row["flow"]]
        assert (row["src"], row["dst"], row["size_bytes"]) == message[:3]
    names = ("wait", "until_ps", "delivered_bytes", "port")
    return {int(row["flow"]): tuple(int(row[n]) for n in names) for row in result.unfinished}


def test_unfinished_waits_for_its_start(plan: Plan) -> None:
    """Walkthrough 5.1: submitted, but the run ended before; until: the start."""
    found = unfinished_at(plan, [Message(0, 1, 100, 70 * US), Message(1, 0, 10)], 50 * US)
    assert found == {0: (R.WAIT_START, 70 * US, 0, -1)}


def test_unfinished_waits_for_its_turn(plan: Plan) -> None:
    """Walkthrough 5.1, pacing: the next packet is due at the end of the gap that the rate asks for.

    fixed at 4 Gb/s: 4194 slot bytes take 8.388 us of it; the next packets 4178, 8.356 us each.
    """
    slow = plan_of(spokes([400 * GBPS] * 2), congestion=policy("fixed", None, rate_bps=4e9))
    found = unfinished_at(slow, [Message(0, 1, 10 * MTU)], 20 * US)
    # packets at 0, 8.388, 16.744 have been delivered, 2.2 us later each; the next goes at 25.1
    assert found == {0: (R.WAIT_PACING, 25_100_000, 3 * MTU, -1)}


def test_unfinished_waits_for_its_window() -> None:
    """Walkthrough 5.1: the policy's window is full; until: the retransmission timer.

    Two packets may be in flight. The timer runs from the first packet until an ACK restarts it.
    """
    rto_ps = 300 * US
    plan = plan_of(
        spokes([400 * GBPS] * 2), rto_ps=rto_ps,
        congestion=policy("fixed", None, window_bytes=2 * MTU),
    )  # fmt: skip
    found = unfinished_at(plan, [Message(0, 1, 10 * MTU)], 2 * US)
    assert found == {0: (R.WAIT_WINDOW, rto_ps, 0, -1)}
    first_ack_ps = 2 * (FIRST + GAP + ACK + GAP) * 20 + 4 * US
    found = unfinished_at(plan, [Message(0, 1, 10 * MTU)], first_ack_ps + 1)
    # its ACK lets the third packet go; the second has been delivered meanwhile
    assert found == {0: (R.WAIT_WINDOW, first_ack_ps + rto_ps, 2 * MTU, -1)}


def test_unfinished_waits_for_acknowledgements(plan: Plan) -> None:
    """Walkthrough 5.1: all has been sent, nothing may go before an ACK comes; until: the timer."""
    found = unfinished_at(plan, [Message(0, 1, 3 * MTU)], US)
    assert found == {0: (R.WAIT_ACK, plan.rto_ps, 0, -1)}


def test_unfinished_waits_for_an_acknowledgement_of_all(plan: Plan) -> None:
    """Walkthrough 5.1: everything has arrived; its last ACK has not come back."""
    delivered_ps = 2 * (FIRST + GAP) * 20 + (FULL + GAP) * 20 + 2 * US
    first_ack_ps = 2 * (FIRST + GAP + ACK + GAP) * 20 + 4 * US
    found = unfinished_at(plan, [Message(0, 1, 2 * MTU)], delivered_ps + 1)
    assert found == {0: (R.WAIT_ACK_LOST, plan.rto_ps, 2 * MTU, -1)}
    found = unfinished_at(plan, [Message(0, 1, 2 * MTU)], first_ack_ps + 1)
    assert found == {0: (R.WAIT_ACK_LOST, first_ack_ps + plan.rto_ps, 2 * MTU, -1)}


def test_unfinished_waits_for_a_pause_to_end() -> None:
    """Walkthrough 5.1: its port is paused by PFC; which port, and until when.

    A receiver of 1 Gb/s: XOFF is refreshed every half of 65,535 quanta (83.9 us at 400 Gb/s).
    """
    plan = plan_of(
        spokes([400 * GBPS, GBPS]), buffer_bytes=500_000, headroom_bytes=200_000, alpha=1.0
    )
    messages = [Message(0, 1, 100 * MTU), Message(0, 1, 100)]
    result = run(plan, messages, until_ps=30 * US, expect=R.UNTIL)
    (since,) = result.times(node=0, kind=R.EVENT_PAUSE_RX)
    rows = {int(row["flow"]): row for row in result.unfinished}
    assert rows[0]["wait"] == R.WAIT_PAUSED
    assert rows[0]["until_ps"] == since + 65535 * 512 * 10**12 // (400 * GBPS)
    assert rows[0]["port"] == 0


def test_unfinished_has_been_given_up() -> None:
    """Walkthrough 5.1: `max_retries` timeouts without progress; the run itself is done.

    Everything towards host 1 is lost: host 0 has filled its queue. One packet alone is given up at
    the third timeout: two are retried.
    """
    rto_ps = 40 * US
    plan = plan_of(
        spokes([400 * GBPS, 1_000_000, 400 * GBPS]), LOSSY,
        alpha=1.0, buffer_bytes=9000, rto_ps=rto_ps, max_retries=2,
    )  # fmt: skip
    messages = [Message(0, 1, MTU), Message(2, 1, MTU, 10 * US)]
    result = run(plan, messages, until_ps=10_000 * US, expect=R.UNTIL)
    given_up = result.unfinished[result.unfinished["wait"] == R.WAIT_FAILED]
    assert given_up["flow"].tolist() == [0, 1]
    failed = result.flow_row(1, R.FLOW_FAILED)
    assert failed["time_ps"] == 10 * US + 3 * rto_ps
    assert (failed["timeouts"], failed["retransmitted"]) == (3, 2)
    assert given_up["until_ps"].tolist() == [-1, -1]


def ring(n: int = 5) -> Plan:
    """Switches in a circle with a host each, so little shared memory that pauses go round."""
    cables = [Cable(h, n + h, 100 * GBPS, 50_000) for h in range(n)]
    cables += [Cable(n + s, n + (s + 1) % n, 100 * GBPS, 50_000) for s in range(n)]
    topology = explicit([f"h{i}" for i in range(n)], [f"s{i}" for i in range(n)], cables)
    return plan_of(topology, alpha=1.0, buffer_bytes=130_000, headroom_bytes=30_000, rto_ps=50 * US)


def test_a_circle_of_pauses_is_stuck() -> None:
    """Semantics 6, IEEE 802.1Qbb's known hazard: in a circle of pauses all wait for all.

    Nothing but pause frames moves any more, so the run ends two pauses after the last movement,
    and each message says that it waits for a paused class. It is the same end however it is cut.
    """
    n = 5
    messages = [Message(h, (h + 2) % n, 200_000) for h in range(n)]
    result = run(ring(n), messages, expect=R.STUCK)
    assert result.unfinished["wait"].tolist() == [R.WAIT_PAUSED] * n
    assert result.totals["flows_finished"] == 0
    moved = result.events[~np.isin(result.events["packet"], [R.PACKET_PAUSE])]["time_ps"].max()
    timer_ps = 50 * US  # a timeout is movement, too
    quiet_ps = result.now_ps - 2 * (65535 * 512 * 10**12 // (100 * GBPS))
    assert moved <= quiet_ps <= moved + 2 * timer_ps
    engine = load_engine()(ring(n), log_events=True)
    submit(engine, messages)
    again = finish(engine, step=lambda e: (e.now_ps + 7 * US, 3))
    assert (again.reason, again.now_ps) == (R.STUCK, result.now_ps)
    assert again.events.tobytes() == result.events.tobytes()
    assert again.unfinished.tobytes() == result.unfinished.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_failing_policy_stops_with_the_earliest_failure(threads: int, tmp_path: Path) -> None:
    """Docstring of `failure`: the earliest failing call by time and host, whatever the threads.

    Messages of twelve hosts start 1 ns apart, in one window; every start hook but one fails.
    """
    text = '''
"""Divides by how late a message starts.

Source: none.
"""
import numpy as np
PARAMS = ()
STATE = np.dtype([("n", "i8")], align=True)
CLAIMS = ("it fails",)


def start(ctx, params, state, out):
    state.n = 5
    out.rate_bps = ctx.line_rate_bps / (ctx.now_ps < 1000)
'''
    (tmp_path / "late.py").write_text(text)
    plan = plan_of(spokes([400 * GBPS] * 16), congestion=policy(str(tmp_path / "late.py")))
    late = [Message(15 - i, i % 4, 100, 1000 * ((7 * i) % 12), base_rtt_ps=77)
            for i in range(12)]  # fmt: skip
    engine = load_engine()(plan, threads=threads)
    submit(engine, late)
    assert engine.failure is None
    assert engine.run(FOREVER) == R.PLUGIN_FAILED
    first = next(i for i, m in enumerate(late) if m.start_ps == 1000)
    found: Any = engine.failure
    assert (found["flow"], found["time_ps"], found["hook"]) == (first, 1000, "start")
    ctx = np.frombuffer(found["ctx"], np.int64)
    assert ctx[0] == 1000 and 77 in ctx
    # as it was before the call
    assert np.frombuffer(found["state"], np.int64).tolist() == [0]
    engine.drain()
    with pytest.raises(EngineError, match="a failed run cannot be saved"):
        engine.save()


def test_books_balance_at_every_window() -> None:
    """Semantics 6: at any time packets put in are delivered, dropped, in flight or queued.

    `Engine.totals` checks that itself; here it is asked after each of all windows, and added up.
    """
    plan = plan_of(spokes([400 * GBPS] * 4), LOSSY, alpha=1.0, buffer_bytes=30_000, rto_ps=30 * US)
    engine = load_engine()(plan)
    submit(engine, [Message(i, 3, 80_000) for i in range(3)])
    seen = {"in_flight_packets": 0, "queued_packets": 0, "dropped_packets": 0}
    while engine.run(FOREVER, 1) == R.PAUSED:
        t = engine.totals()
        born = sum(t[f"{kind}_packets"] for kind in ("data", "ack", "nack", "cnp"))
        there = ("delivered", "dropped", "in_flight", "queued")
        assert born == sum(t[f"{where}_packets"] for where in there)
        assert t["packet_hops"] == engine.ports()["tx_packets"].sum()
        seen = {name: max(most, t[name]) for name, most in seen.items()}
    assert all(seen.values()), seen
    assert engine.totals()["in_flight_packets"] == engine.totals()["queued_packets"] == 0
