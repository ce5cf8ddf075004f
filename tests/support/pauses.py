"""What a log of events must look like for every pause frame to have been sent, and obeyed."""

from __future__ import annotations

from typing import Any

import numpy as np

from emunet._core import rows as R
from emunet.plan.schema import Plan
from support.oracle import PAUSE, Wire
from support.run import Result

DECIDED = (R.EVENT_PAUSE_TX, R.EVENT_RESUME_TX)


def of_port(result: Result, plan: Plan, port: int) -> np.ndarray:
    """Events of a global port that concern its outgoing link, in time order."""
    node = int(plan.port_node[port])
    rows = result.select(node=node, port=port - int(plan.node_port_start[node]))
    return rows[rows["kind"] != R.EVENT_ARRIVE]


def sent_frames(result: Result, plan: Plan, port: int) -> list[tuple[Any, int, int]]:
    """Rows of all frames that a port sent, each with its start and end, by arithmetic alone.

    A pause frame starts when it is decided or, if a frame is in transmission then, at the end of
    it (semantics 3.4); whether the port is itself paused makes no difference. A packet starts at
    the time of its row, which must not be before the end of the frame ahead. Of one instant the
    pause frames come first: they are decided on an arrival, or on the release of the frame that
    ends, before the next one starts.
    """
    wire = Wire(int(plan.port_rate_bps[port]))
    rows = of_port(result, plan, port)
    rows = rows[np.isin(rows["kind"], (R.EVENT_DEPART, *DECIDED))]
    is_packet = rows["kind"] == R.EVENT_DEPART
    out = []
    for row in rows[np.lexsort((is_packet, rows["time_ps"]))]:
        at = int(row["time_ps"])
        is_pause = row["kind"] in DECIDED
        start, end = wire.send(at, PAUSE if is_pause else int(row["bytes"]))
        assert is_pause or start == at, f"port {port}: a packet starts at {at}, busy until {start}"
        out.append((row, start, end))
    return out


def assert_pause_frames_arrive(result: Result, plan: Plan, port: int) -> int:
    """Every pause frame of a switch port acts at the peer when arithmetic says; their number.

    XOFF always leaves a row; XON leaves one if the class was paused, as it is here.
    """
    peer = int(plan.port_peer[port])
    fixed = int(plan.port_delay_ps[port]) + int(plan.port_pause_latency_ps[peer])
    frames = sent_frames(result, plan, port)
    at_peer = of_port(result, plan, peer)
    for decided, acted in zip(DECIDED, (R.EVENT_PAUSE_RX, R.EVENT_RESUME_RX), strict=True):
        expected = [end + fixed for row, _, end in frames if row["kind"] == decided]
        expected = [t for t in expected if t < result.now_ps]
        assert at_peer[at_peer["kind"] == acted]["time_ps"].tolist() == expected
    return sum(row["kind"] in DECIDED for row, _, _ in frames)


def paused_spans(result: Result, plan: Plan, port: int) -> list[tuple[int, int]]:
    """Intervals [from, to) in which the one class in use is paused at a port."""
    spans, since = [], None
    for row in of_port(result, plan, port):
        if row["kind"] == R.EVENT_PAUSE_RX and since is None:
            since = int(row["time_ps"])
        elif row["kind"] == R.EVENT_RESUME_RX and since is not None:
            spans.append((since, int(row["time_ps"])))
            since = None
    return spans + ([(since, result.now_ps)] if since is not None else [])


def assert_obeyed(result: Result, plan: Plan, port: int, until_ps: int) -> None:
    """A port that always has a packet starts each as early as it may, and never while paused.

    As early as it may: at the end of the frame ahead, or at the instant of XON if that is later.
    So a frame in transmission is finished whatever arrives meanwhile, a pause that ends before it
    does costs nothing, and XON releases at once.
    """
    spans = paused_spans(result, plan, port)
    packets = [(start, end) for row, start, end in sent_frames(result, plan, port)
               if row["kind"] == R.EVENT_DEPART and start < until_ps]  # fmt: skip
    ends = [0] + [end for _, end in packets]
    for (start, _), free in zip(packets, ends, strict=False):
        due = next((b for a, b in spans if a <= free < b), free)
        assert start == due, f"port {port}: free at {free}, may send at {due}, starts at {start}"


def assert_nothing_is_lost(result: Result, plan: Plan, port: int) -> None:
    """Every packet that a port sends to a switch arrives, when its last bit and the latency say."""
    peer = int(plan.port_peer[port])
    fixed = int(plan.port_delay_ps[port]) + int(plan.port_rx_latency_ps[peer])
    node = int(plan.port_node[peer])
    arrived = result.times(
        node=node, port=peer - int(plan.node_port_start[node]), kind=R.EVENT_ARRIVE
    )
    expected = [end + fixed for row, _, end in sent_frames(result, plan, port)
                if row["kind"] == R.EVENT_DEPART]  # fmt: skip
    assert arrived == [t for t in expected if t < result.now_ps]
