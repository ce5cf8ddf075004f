"""Congestion notification packets: when the receiver sends them, and in which class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fabric import plan_of, spokes, step_ecn, written_policy
from support.oracle import CNP, FULL, GAP, GBPS, MTU, US, cross
from support.run import Message, Result, run

from emunet._core import rows as R

pytestmark = pytest.mark.checked

SLOT_PS = (FULL + GAP) * 20
"""83,560 ps: packets of a message arrive so far apart."""

LISTENER = '''
"""Counts CNPs and does nothing about them.

Source: none; it makes receivers send CNPs.
"""
import numpy as np
PARAMS = ()
STATE = np.dtype([("n", "i8")], align=True)
CLAIMS = ("rate and window stay as they are",)


def cnp(ctx, params, state, out):
    state.n += 1
'''


def marked_run(folder: Path, interval_ps: int, messages: list[Message], **knobs: Any) -> Result:
    """Three hosts, every data packet marked, and a policy that wants CNPs."""
    plan = plan_of(
        spokes([400 * GBPS] * 3),
        congestion=written_policy(folder / "listener.py", LISTENER),
        ecn=step_ecn(0, 0, 1.0),
        cnp_interval_ps=interval_ps,
        **knobs,
    )
    return run(plan, messages)


def cnp_starts(result: Result, **where: int) -> list[int]:
    """When the receiver starts to send CNPs."""
    return result.times(node=1, kind=R.EVENT_DEPART, packet=R.PACKET_CNP, **where)


def due(arrivals: list[int], interval_ps: int) -> list[int]:
    """Arrivals of marked packets that a CNP answers: t - last >= interval, and the first."""
    found = [arrivals[0]]
    for t in arrivals[1:]:
        if t - found[-1] >= interval_ps:
            found.append(t)
    return found


@pytest.mark.parametrize("interval_ps", [0, 1, SLOT_PS, 3 * SLOT_PS - 1, 3 * SLOT_PS,
                                         3 * SLOT_PS + 1, 4 * US, 50 * US])  # fmt: skip
def test_cnps_keep_their_interval(tmp_path: Path, interval_ps: int) -> None:
    """Zhu et al. 2015, NP state machine; semantics 4.2: at most one CNP of a flow per interval.

    A CNP answers the first marked packet, and then each that comes an interval after the last CNP
    or later: an interval of exactly three packets is kept by the third, 1 ps more by the fourth.
    The reverse link is idle but for ACKs, in a lower class, one of which may be on the wire.
    """
    n = 200
    result = marked_run(tmp_path, interval_ps, [Message(0, 1, n * MTU)])
    arrivals = result.times(node=1, kind=R.EVENT_ARRIVE, packet=R.PACKET_DATA)
    assert len(arrivals) == n and result.totals["marked_packets"] == n
    assert cnp_starts(result) == due(arrivals, interval_ps)
    expected = {0: n, 1: n, SLOT_PS: n, 3 * SLOT_PS: -(-n // 3), 50 * US: 1}
    if interval_ps in expected:
        assert result.totals["cnp_packets"] == expected[interval_ps]
    assert result.flow_row(0)["cnps"] == result.totals["cnp_packets"]
    assert result.flow_row(0)["marked"] == n


def test_the_interval_is_of_each_connection(tmp_path: Path) -> None:
    """Semantics 4.2: the interval is counted for each connection, not for the host."""
    messages = [Message(0, 1, 50 * MTU), Message(2, 1, 50 * MTU), Message(2, 1, 50 * MTU)]
    result = marked_run(tmp_path, 2 * US, messages)
    for flow in range(3):
        arrivals = result.times(node=1, kind=R.EVENT_ARRIVE, packet=R.PACKET_DATA, flow=flow)
        sent = cnp_starts(result, flow=flow)
        answered = due(arrivals, 2 * US)
        assert len(sent) == len(answered) > 2
        # another connection's CNP or an ACK may be on the wire
        assert all(0 <= s - a <= 3 * (CNP + GAP) * 20 for s, a in zip(sent, answered, strict=True))


def test_cnps_go_in_their_class_and_come_back_whole(tmp_path: Path) -> None:
    """Semantics 1.1, 4.1: 78 bytes, in `cnp_class`, ahead of ACKs queued in the data's class.

    The sender counts those that it gets: all but those that come after its last ACK.
    """
    result = marked_run(tmp_path, 0, [Message(0, 1, 30 * MTU)], cnp_class=5)
    sent = result.select(node=1, kind=R.EVENT_DEPART, packet=R.PACKET_CNP)
    assert set(sent["bytes"].tolist()) == {CNP} and set(sent["klass"].tolist()) == {5}
    back = [(400 * GBPS, US), (400 * GBPS, US)]
    got = result.times(node=0, kind=R.EVENT_ARRIVE, packet=R.PACKET_CNP)
    assert got == cross(sent["time_ps"].tolist(), [CNP] * 30, back)
    acks = result.times(node=1, kind=R.EVENT_DEPART, packet=R.PACKET_ACK)
    assert acks == [t + (CNP + GAP) * 20 for t in sent["time_ps"].tolist()]
    assert result.flow_row(0, R.FLOW_TX_DONE)["cnps"] == 30


def test_without_a_listener_there_are_no_cnps() -> None:
    """Semantics 4.4: CNPs are sent only if the policy has a cnp hook; marks are counted anyhow."""
    plan = plan_of(spokes([400 * GBPS] * 3), ecn=step_ecn(0, 0, 1.0))
    result = run(plan, [Message(0, 1, 30 * MTU)])
    assert result.totals["cnp_packets"] == 0
    assert result.totals["marked_packets"] == result.flow_row(0)["marked"] == 30
