"""The random scenarios do what they are for, and the twin keeps its books on them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from compare import Outcome, compare, differences, run_engine
from plans import GBPS, Message, star, submit
from random_plans import random_case

from emunet._core.rows import DONE, FLOW_FAILED, FLOW_RX_DONE, FLOW_TX_DONE, LOSSES, UNTIL
from emunet.plan.schema import TIES_PORT, Plan
from emunet.twin import TwinEngine

SEEDS = range(20)

MUST_HAPPEN = (
    "retransmitted_packets",
    "dropped_packets",
    "dropped_lossless_packets",
    "lost_packets",
    "marked_packets",
    "out_of_order_packets",
    "duplicate_packets",
    "stale_packets",
    "timeouts",
    "nack_packets",
    "cnp_packets",
    "pause_frames",
    "resume_frames",
    "paused_ps",
    "in_flight_packets",
    "queued_packets",
    "flows_failed",
)


@pytest.fixture(scope="module")
def outcomes() -> dict[int, Outcome]:
    """Every seed's case, run by the twin."""
    found = {}
    for seed in SEEDS:
        case = random_case(seed)
        engine = TwinEngine(case.plan, log_events=True, **case.options)
        found[seed] = run_engine(engine, case.messages, case.until_ps)
    return found


def test_everything_happens(outcomes: dict[int, Outcome]) -> None:
    """Each kind of trouble occurs in some of the seeds, so that a comparison over them sees it."""
    seen = Counter(name for o in outcomes.values() for name in MUST_HAPPEN if o.totals[name] > 0)
    assert [name for name in MUST_HAPPEN if seen[name] == 0] == []
    assert Counter(o.reason for o in outcomes.values()).keys() == {DONE, UNTIL}
    assert any(len(o.rows["queues"]) for o in outcomes.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_books_balance(outcomes: dict[int, Outcome], seed: int) -> None:
    """Packets are neither made nor lost but where it is counted, and no byte stays charged
    (design rules, audits).
    """
    o = outcomes[seed]
    t, ports = o.totals, o.ports
    born = sum(t[f"{kind}_packets"] for kind in ("data", "ack", "nack", "cnp"))
    assert born == sum(
        t[f"{where}_packets"] for where in ("delivered", *LOSSES, "in_flight", "queued")
    )
    assert t["packet_hops"] == ports["tx_packets"].sum()
    for cause in LOSSES:
        assert t[f"{cause}_packets"] == ports[f"{cause}_packets"].sum()
    assert t["marked_packets"] == ports["marked_packets"].sum()
    assert t["pause_frames"] == ports["pause_tx"].sum()
    assert t["paused_ps"] == ports["paused_ps"].sum()
    kinds = Counter(o.rows["flows"]["kind"].tolist())
    assert kinds[FLOW_TX_DONE] == t["flows_finished"] and kinds[FLOW_FAILED] == t["flows_failed"]
    assert kinds[FLOW_RX_DONE] == t["flows_delivered"]
    assert len(o.unfinished) == t["flows_submitted"] - t["flows_finished"]
    if o.reason == DONE:
        assert t["in_flight_packets"] == t["queued_packets"] == 0
        assert t["pause_frames"] >= t["resume_frames"] and t["paused_ps"] >= 0
        last = {int(row["port"]): int(row["queue_bytes"]) for row in o.rows["queues"]}
        assert set(last.values()) <= {0}
    for rows in o.rows.values():
        assert (np.diff(rows["time_ps"]) >= 0).all()


@pytest.mark.parametrize("seed", [s for s in SEEDS if s % 5 == 1])
def test_saving_and_slicing_change_nothing(outcomes: dict[int, Outcome], seed: int) -> None:
    """A run in slices of random length, saved and restored between them, gives the same rows and
    counters.
    """
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    engine = TwinEngine(case.plan, log_events=True, **case.options)
    submit(engine, case.messages)
    for until_ps in np.sort(rng.integers(1, 100_000_000, 4)).tolist():
        engine.run(min(until_ps, case.until_ps))
        engine = TwinEngine.restore(case.plan, engine.save())
    again = run_engine(engine, [], case.until_ps)
    assert differences(outcomes[seed], again) == []


def test_compare_finds_the_first_difference() -> None:
    """An engine with other ties differs at some event, which is shown with what came before at
    its node.
    """
    messages = [Message(0, 2, 40_000), Message(1, 2, 40_000)]
    plan, other = star([400 * GBPS] * 3), star([400 * GBPS] * 3, ties=TIES_PORT)
    assert compare(TwinEngine, plan, messages, 10**12) == []

    def make_other(plan: Plan, **options: Any) -> TwinEngine:
        return TwinEngine(other, **options)

    found = compare(make_other, plan, messages, 10**12)
    assert found[0].startswith("events:") and "before  t=" in found[0], found
