"""The summary: each number against a count of the same messages and ports by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_world import ENGINE, begin, expected_flows, feed, finish, make_world, record

from emunet._core import rows
from emunet.analysis import Run, load, summary
from emunet.analysis.queues import port_summary
from emunet.trace.memory import MemoryTrace
from emunet.trace.writer import TraceWriter


def run_of(world: Any, reason: str = "done") -> Run:
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        feed(recorder, world)
        finish(recorder, world, complete=reason != "interrupted", reason=reason)
    return Run(recorder)


def test_file_and_memory_have_the_same_summary(tmp_path: Path) -> None:
    """Claim: the summary needs nothing but the file, and is JSON; authority: the run in memory."""
    world = make_world(300)
    record(TraceWriter(tmp_path / "run.h5"), world, message_cuts=[20])
    stored = load(tmp_path / "run.h5").summary
    assert stored == run_of(world).summary
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored


def test_the_promised_keys_are_there() -> None:
    """Claim: `emunet run --json` has at least these keys; authority: the documented object."""
    s = run_of(make_world(300)).summary
    for path in (
        "flows.total",
        "flows.finished",
        "flows.unfinished",
        "flows.background",
        "flows.fct_ps.p50",
        "flows.fct_ps.p99",
        "flows.fct_ps.max",
        "flows.slowdown.p50",
        "flows.slowdown.p99",
        "packets.hops",
        "packets.data",
        "packets.ack",
        "packets.dropped",
        "packets.marked",
        "packets.retransmitted",
        "pfc.pauses",
        "pfc.paused_ps",
        "ports.fabric.watermark_bytes",
        "ports.last_hop.watermark_bytes",
        "engine.wall_s",
        "engine.cpu_s",
        "engine.packet_hops_per_cpu_s",
        "engine.threads",
        "engine.peak_rss_bytes",
        "digest",
    ):
        value: Any = s
        for key in path.split("."):
            value = value[key]
        assert value is not None, path


@pytest.mark.parametrize("reason", ["done", "until", "stuck"])
def test_every_message_is_counted_once(reason: str) -> None:
    """Claim: total = finished + unfinished + cut + background; authority: counting one by one."""
    world = make_world(300)
    flows = run_of(world, reason).summary["flows"]
    expected = expected_flows(world)
    count = dict.fromkeys(("finished", "unfinished", "cut", "background", "failed"), 0)
    for background, status in zip(world.messages["background"], expected["status"], strict=True):
        if background:
            count["background"] += 1
        elif status == 2:
            count["finished"] += 1
        elif status == 3 or reason != "until":
            count["unfinished"] += 1
        else:
            count["cut"] += 1
        count["failed"] += status == 3 and not background
    assert {key: flows[key] for key in count} == count
    assert flows["total"] == 300 == sum(count.values()) - count["failed"]
    assert count["cut"] == (2 if reason == "until" else 0)


def test_times_are_of_delivered_messages_that_are_not_background() -> None:
    """Claim: percentiles, bins and tags are those of the messages chosen by hand."""
    world = make_world(300)
    flows = run_of(world).summary["flows"]
    fct = expected_flows(world)["fct_rx_ps"]
    slow = fct / world.ideal_fct_ps
    chosen = (fct >= 0) & ~world.messages["background"]
    assert flows["fct_ps"]["max"] == fct[chosen].max()
    assert flows["fct_ps"]["p50"] == np.sort(fct[chosen])[math.ceil(0.5 * chosen.sum()) - 1]
    assert flows["slowdown"]["max"] == slow[chosen].max()
    for row in flows["by_size"]:
        inside = chosen & (world.messages["size_bytes"] == row["least_bytes"])
        assert row["delivered"] == inside.sum() and row["fct_ps"]["max"] == fct[inside].max()
    assert sum(row["delivered"] for row in flows["by_size"]) == chosen.sum()
    for number, row in enumerate(flows["by_tag"]):
        inside = (fct >= 0) & (world.messages["tag"] == number)
        assert row["delivered"] == inside.sum() and row["slowdown"]["max"] == slow[inside].max()


def test_given_up_messages_count_in_the_times_only_if_delivered() -> None:
    """Claim of trace_format.md: percentiles are of messages whose receiver has everything, whatever
    the sender knows. Flow 3 is given up: without its data at the receiver it is in no percentile,
    with them it is the slowest."""
    world = make_world(300)
    world.messages["background"][:] = False
    before = run_of(world).summary["flows"]
    assert (before["failed"], before["failed_delivered"], before["delivered"]) == (1, 0, 298)
    late = np.zeros(1, rows.FLOW_ROW)
    late["flow"], late["kind"], late["time_ps"] = 3, rows.FLOW_RX_DONE, 45_000_000
    world.drained["flows"] = np.concatenate([world.drained["flows"], late])
    run = run_of(world)
    after = run.summary["flows"]
    assert (after["failed"], after["failed_delivered"], after["delivered"]) == (1, 1, 299)
    assert (after["finished"], after["unfinished"]) == (before["finished"], before["unfinished"])
    slowest = 45_000_000 - int(world.messages["start_ps"][3])
    assert after["fct_ps"]["max"] == slowest > before["fct_ps"]["max"]
    assert sum(row["delivered"] for row in after["by_size"]) == 299
    delivered = run.flows.fct_rx_ps >= 0
    assert run.flows.slowdown.notna().equals(delivered)


def test_a_slowdown_below_one_is_shown() -> None:
    """Claim: nothing is clamped: a message in half its ideal time has slowdown 0.5."""
    world = make_world(20)
    fct = expected_flows(world)["fct_rx_ps"]
    world.ideal_fct_ps[:] = np.maximum(fct, 1) * 2
    assert run_of(world).summary["flows"]["slowdown"] == {
        "p50": 0.5,
        "p95": 0.5,
        "p99": 0.5,
        "max": 0.5,
    }


def test_totals_and_speed() -> None:
    """Claim: packets and pauses are the engine's totals; speed is hops over CPU time."""
    world = make_world(20)
    s = run_of(world).summary
    t = world.totals
    assert s["packets"]["hops"] == t["packet_hops"] and s["packets"]["ack"] == t["ack_packets"]
    assert s["pfc"] == {
        "pauses": t["pause_frames"],
        "resumes": t["resume_frames"],
        "paused_ps": t["paused_ps"],
    }
    assert s["engine"]["packet_hops_per_cpu_s"] == t["packet_hops"] / ENGINE["cpu_s"]


def test_fabric_and_last_hop_ports_stand_apart() -> None:
    """Claim: watermarks and means are over the ports of each kind, host ports in neither;
    authority: the drawing in `trace_world` (last hop 4, 5, 7, 8; fabric 6, 9, 10, 11)."""
    world = make_world(20)
    world.ports["watermark_bytes"][:] = np.arange(12) * 100
    world.ports["watermark_bytes"][0] = 10**9
    world.ports["queue_byte_ps"][:] = np.arange(12) * float(ENGINE["now_ps"])
    ports = run_of(world).summary["ports"]
    fabric, last_hop = ports["fabric"], ports["last_hop"]
    assert (fabric["ports"], fabric["watermark_bytes"], fabric["watermark_port"]) == (
        4,
        1100,
        "spine0:1",
    )
    assert (last_hop["ports"], last_hop["watermark_bytes"], last_hop["watermark_port"]) == (
        4,
        800,
        "leaf1:1",
    )
    assert (fabric["queue_mean_bytes"], fabric["queue_mean_greatest_bytes"]) == (9.0, 11.0)
    assert (last_hop["queue_mean_bytes"], last_hop["ecn_kmin_bytes"]) == (6.0, 400_000)


def test_p99_of_a_sampled_queue_is_over_time_and_ports() -> None:
    """Claim: of four fabric ports over 50 us, one at 700 bytes for 3 us: 1.5 % of the time, so
    p99 is 700; for 1 us it is 0.5 %, and p99 is 0."""
    world = make_world(20)
    for stay_us, expected in ((3, 700), (1, 0)):
        world.drained["queues"] = np.zeros(2, rows.QUEUE_ROW)
        world.drained["queues"]["time_ps"] = [10_000_000, (10 + stay_us) * 1_000_000]
        world.drained["queues"]["queue_bytes"] = [700, 0]
        world.drained["queues"]["port"] = 9
        ports = run_of(world).summary["ports"]
        assert ports["fabric"]["queue_p99_bytes"] == expected
        assert ports["last_hop"]["queue_p99_bytes"] == 0


def test_p99_is_not_given_for_ports_that_were_not_sampled() -> None:
    """Claim: sampling only last-hop ports says nothing of the fabric's."""
    recorder = MemoryTrace()
    world = make_world(20)
    with recorder:
        begin(recorder, queues_ports="last_hop")
        feed(recorder, world)
        finish(recorder, world)
    ports = port_summary(Run(recorder), 50_000_000)
    assert (
        ports["fabric"]["queue_p99_bytes"] is None
        and ports["last_hop"]["queue_p99_bytes"] is not None
    )


def test_the_threshold_shown_is_where_a_group_alone_sends_xoff() -> None:
    """Claim: xoff_bytes is the greatest occupancy without XOFF of a group alone in its buffer;
    authority: semantics.md 3.2, charging byte by byte and sending XOFF when shared > int(alpha *
    (S - used))."""
    world = make_world(20)
    world.ports["pg_watermark_bytes"][:] = 0
    world.ports["pg_watermark_bytes"][5, 3] = 123
    world.ports["pg_watermark_bytes"][5, 4] = 999_999
    group = run_of(world).summary["buffers"]["group"]
    alpha, shared = 0.125, 31_000_000
    fits = [x for x in range(3_444_000, 3_445_000) if x <= int(alpha * (shared - x))]
    assert group == {"watermark_bytes": 123, "port": "leaf0:1", "klass": 3, "xoff_bytes": fits[-1]}


def test_the_fullest_headroom_and_pool() -> None:
    """Claim: headroom and pool are the fullest in proportion to their limit; class 4 is lossy and
    does not count."""
    world = make_world(20)
    world.ports["headroom_watermark_bytes"][:] = 0
    world.ports["headroom_watermark_bytes"][10, 3] = 55_000
    world.ports["headroom_watermark_bytes"][11, 4] = 99_000
    world.switches["pool_watermark_bytes"][:] = [1, 9, 5]
    buffers = run_of(world).summary["buffers"]
    assert buffers["headroom"] == {
        "watermark_bytes": 55_000,
        "port": "spine0:0",
        "klass": 3,
        "limit_bytes": 110_000,
    }
    assert buffers["pool"] == {"watermark_bytes": 9, "switch": "leaf1", "shared_bytes": 31_000_000}


def test_a_run_that_was_killed_has_a_summary() -> None:
    """Claim: what was not stored is None, what was is counted."""
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        feed(recorder, make_world(20))
    s = summary(Run(recorder))
    assert s["flows"]["total"] == 20 and not s["complete"] and s["digest"] == ""
    assert s["ports"]["fabric"] == {"ports": 4, "watermark_bytes": None}
    assert s["packets"]["hops"] is None and s["engine"]["packet_hops_per_cpu_s"] is None
    assert s["buffers"] == {"group": None, "headroom": None, "pool": None}
    json.dumps(s, allow_nan=False)


def test_a_run_without_messages_has_a_summary() -> None:
    """Claim: nothing is divided by zero, and the warning is in the summary."""
    world = make_world(20)
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        recorder.finish(
            world.ports,
            world.switches,
            world.totals,
            ENGINE,
            complete=True,
            reason="done",
            unfinished=world.unfinished[:0],
            watermarks=world.watermarks[:0],
        )
    s = summary(Run(recorder))
    assert s["flows"]["fct_ps"]["p99"] is None and s["flows"]["by_size"] == []
    assert s["warnings"][0] == "flows: no message was sent"
