"""What a message that its sender gave up had delivered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.fabric import LOSSY, plan_of, spokes
from support.oracle import GBPS, MTU, US
from support.run import Message, Result, finish, run, submit

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.plan.schema import Plan
from emunet.twin import TwinEngine

pytestmark = pytest.mark.checked

N_SENDER = 7


def lossy(linger_ps: int) -> Plan:
    """Seven senders into one port: the timeout is over before 16 packets of one have passed."""
    return plan_of(
        spokes([100 * GBPS] * (N_SENDER + 1)), LOSSY, buffer_bytes=500_000, alpha=8.0,
        ack_every=16, rto_ps=15 * US, max_retries=0, linger_ps=linger_ps,
    )  # fmt: skip


MESSAGES = [Message(i, N_SENDER, 30 * MTU + 77 * i) for i in range(N_SENDER)]


def in_order(result: Result, flow: int, before_ps: int) -> int:
    """Payload in order at the receiver, from the packets that have reached it before a time."""
    epsn = 0
    for row in result.select(flow=flow, node=N_SENDER, kind=R.EVENT_ARRIVE, packet=R.PACKET_DATA):
        epsn += row["time_ps"] < before_ps and row["psn"] == epsn
    return min(epsn * MTU, MESSAGES[flow].size_bytes)


def acknowledged(result: Result, flow: int, before_ps: int) -> int:
    """Payload acknowledged in order at the sender before a time."""
    seen = result.select(flow=flow, node=flow, kind=R.EVENT_ARRIVE)
    seen = seen[(seen["time_ps"] < before_ps) & np.isin(seen["packet"], [R.PACKET_ACK])]
    return min(int(seen["psn"].max(initial=0)) * MTU, MESSAGES[flow].size_bytes)


@pytest.mark.parametrize("linger_ps", [3 * US, 10**12])
def test_a_message_given_up_counts_what_its_receiver_had(linger_ps: int) -> None:
    """Trace format: `delivered_bytes` are those in order at the receiver, which takes data until
    `linger` after the message was given up; counted here from the packets that arrived. What was
    acknowledged is less for some, and what arrives in a longer life more."""
    result = run(lossy(linger_ps), MESSAGES, expect=None)
    given_up = result.unfinished[result.unfinished["wait"] == R.WAIT_FAILED]
    assert len(given_up) > 2
    fewer = 0
    for row in given_up:
        flow = int(row["flow"])
        end_ps = result.flow_ps(flow, R.FLOW_FAILED)
        assert row["delivered_bytes"] == in_order(result, flow, end_ps + linger_ps)
        fewer += acknowledged(result, flow, end_ps) < row["delivered_bytes"]
    assert fewer
    assert len(set(given_up["delivered_bytes"].tolist())) > 1


@pytest.mark.parametrize("linger_ps", [1, 3 * US, 10**12])
@pytest.mark.parametrize("cut", ["twin", "threads", "saved"])
def test_it_is_the_same_however_it_is_run(linger_ps: int, cut: str) -> None:
    """Semantics: both engines agree, whatever the threads, and when saved after every window."""
    plan = lossy(linger_ps)
    expected = run(plan, MESSAGES, expect=None).unfinished
    if cut == "twin":
        engine: Any = TwinEngine(plan)
        submit(engine, MESSAGES)
        assert finish(engine).unfinished.tobytes() == expected.tobytes()
        return
    engine = load_engine()(plan, threads=2)
    submit(engine, MESSAGES)
    while engine.run(10**15, 3) == R.PAUSED:
        engine.drain()
        if cut == "saved":
            engine = load_engine().restore(plan, engine.save(), threads=2)
    assert engine.unfinished().tobytes() == expected.tobytes()
