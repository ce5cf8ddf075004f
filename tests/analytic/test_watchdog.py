"""The PFC watchdog detects, drops or forwards, and restores, to the picosecond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.fabric import BARE, altered, plan_of, trunks
from support.oracle import GBPS, MTU, US
from support.run import Message, run

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.analysis.deadlock import cycles
from emunet.plan.schema import Plan
from emunet.plan.switches import Watchdog
from emunet.topology.explicit import Cable, explicit

pytestmark = pytest.mark.checked

DETECT, RESTORE = 20 * US, 100 * US


def guarded(forward: bool) -> Plan:
    """Two switches with a cable, a slow host behind the second, watchdogs at both.

    Alpha 1: the second switch sends XOFF when its group holds half of 200 kB; the slow host takes
    33 us for a packet, so no pause is shorter than that.
    """
    settings = replace(BARE, watchdog=Watchdog(DETECT, RESTORE, forward))
    plan = plan_of(trunks(1, 1, [400 * GBPS]), settings, alpha=1.0, buffer_bytes=500_000,
                   headroom_bytes=150_000)  # fmt: skip
    rates = plan.port_rate_bps.copy()
    rates[int(plan.port_peer[plan.node_port_start[1]])] = GBPS
    return altered(plan, port_rate_bps=rates)


def of_kind(pfc: np.ndarray, on: int) -> list[int]:
    return pfc["time_ps"][pfc["on"] == on].tolist()


@pytest.mark.parametrize("forward", [False, True])
def test_a_storm_is_detected_and_restored_at_the_picosecond(forward: bool) -> None:
    """SONiC's PFC watchdog (sonic-mgmt, docs/pfcwd): a class paused for the detection time is in a
    storm; it ends when no pause frame has come for the restoration time.

    XOFF decided at t takes 84 bytes at 400 Gb/s and 1 us of cable if the port is idle, as it is at
    the first XOFF: the first message is not delivered yet. It is paused from then on.
    """
    result = run(guarded(forward), [Message(0, 1, 100 * MTU)], until_ps=3000 * US, expect=R.UNTIL)
    pfc = result.pfc
    paused = of_kind(pfc, R.PFC_XOFF)[0] + 84 * 20 + US
    storm = of_kind(pfc, R.PFC_STORM)[0]
    assert storm == paused + DETECT
    port = int(pfc["port"][pfc["on"] == R.PFC_STORM][0])
    node = 2
    local = port - int(guarded(forward).node_port_start[node])
    heard = result.select(kind=R.EVENT_PAUSE_RX, node=node, port=local)["time_ps"]
    end = of_kind(pfc, R.PFC_RESTORED)[0]
    in_storm = [storm, *heard[(heard > storm) & (heard <= end)].tolist()]
    assert end == in_storm[-1] + RESTORE
    assert (np.diff(in_storm) <= RESTORE).all()
    left = result.select(kind=R.EVENT_DEPART, node=node, port=local)["time_ps"]
    sent = np.count_nonzero((left >= storm) & (left < end))
    totals = result.totals
    if forward:
        assert sent > 0 and totals["dropped_watchdog_packets"] == 0
    else:
        drops = result.select(kind=R.EVENT_DROP, node=node)["time_ps"]
        assert sent == 0 and np.count_nonzero((drops >= storm) & (drops < end)) > 0
        assert totals["dropped_watchdog_packets"] == totals["dropped_packets"] == len(drops)
    assert totals["dropped_lossless_packets"] == (totals["dropped_packets"] if forward else 0)


def ring(forward: bool) -> Plan:
    """The ring of test_deadlock, with watchdogs."""
    n = 5
    cables = [Cable(h, n + h, 100 * GBPS, 50_000) for h in range(n)]
    cables += [Cable(n + s, n + (s + 1) % n, 100 * GBPS, 50_000) for s in range(n)]
    topology = explicit([f"h{i}" for i in range(n)], [f"s{i}" for i in range(n)], cables)
    settings = replace(BARE, watchdog=Watchdog(100 * US, 60 * US, forward))
    return plan_of(topology, settings, alpha=1.0, buffer_bytes=130_000, headroom_bytes=30_000,
                   rto_ps=50 * US, max_retries=50)  # fmt: skip


@pytest.mark.parametrize("forward", [False, True])
def test_watchdogs_resolve_a_deadlock(forward: bool) -> None:
    """SONiC's purpose: the ring that is deadlocked for ever without watchdogs (test_deadlock)
    finishes all its messages with them; what was dropped is sent again.

    Deadlocked up to the detection, not after it; and the books balance (`totals` checks them).
    """
    plan = ring(forward)
    engine = load_engine()(plan)
    messages = [Message(h, (h + 2) % 5, 60_000) for h in range(5)]
    ids = np.arange(5)
    columns = list(zip(*messages, strict=True))
    engine.submit(ids, *(np.array(c) for c in columns))
    assert engine.run(100 * US) == R.UNTIL
    assert len(cycles(engine.waits(), plan.port_peer)) == 1
    assert engine.run(110 * US) == R.UNTIL
    assert cycles(engine.waits(), plan.port_peer) == []
    assert engine.run(10**12) == R.DONE
    totals = engine.totals()
    assert totals["flows_finished"] == 5
    assert (totals["dropped_watchdog_packets"] > 0) == (not forward)
    assert totals["retransmitted_packets"] > 0
