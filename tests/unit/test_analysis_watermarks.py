"""Watermarks of a made-up run: each entry against its row, and what the tables show."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from trace_world import ENGINE, NAMES, begin, feed, finish, make_world

from emunet._core import rows
from emunet.analysis import Run, watermarks
from emunet.errors import InputFileError, UsageError
from emunet.report import make_console, print_watermarks
from emunet.trace.memory import MemoryTrace
from emunet.trace.recorder import WatermarkTimes

KEYS = {"device", "user", "persistent", "periodic", "max", "p99", "mean"}
PORT_KEYS = {*KEYS, "port", "class", "port_role", "peer", "lossless"}


def run_of(world: Any, **options: Any) -> Run:
    recorder = MemoryTrace()
    with recorder:
        begin(recorder, **options)
        feed(recorder, world)
        finish(recorder, world)
    return Run(recorder)


def printed(found: dict[str, Any], width: int = 100, **options: Any) -> str:
    out = io.StringIO()
    print_watermarks(found, make_console(out, width), **options)
    return out.getvalue()


def test_every_entry_has_the_same_keys() -> None:
    """Claim of the docstring: the promised keys, in every entry of a list; JSON without NaN."""
    found = watermarks(run_of(make_world()))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    keys = {name: {frozenset(e) for e in found[name]}
            for name in ("queues", "priority_groups", "pools")}  # fmt: skip
    assert keys == {
        "queues": {frozenset({*PORT_KEYS, "ecn_kmin", "ecn_kmax", "threshold"})},
        "priority_groups": {frozenset({*PORT_KEYS, "kind", "xoff", "limit", "xoffs"})},
        "pools": {frozenset({*KEYS, "pool", "size"})},
    }


def test_entries_say_what_the_rows_say() -> None:
    """Claim: bytes are those of the table, the mean is over the simulated time, and the periodic
    one is that of the interval which ended last before the run; authority: the rows, one by one.
    """
    world = make_world()
    run = run_of(world)
    found = watermarks(run)
    # five intervals of 10 us in 50 us, of which the fifth ends with the run
    assert (found["periodic_every_ps"], found["periodic_end_ps"]) == (10_000_000, 40_000_000)
    assert (found["user_cleared_ps"], found["persistent_cleared_ps"]) == (7_000_000, None)
    series = world.drained["periodic"]
    listed = iter([*found["queues"], *found["priority_groups"], *found["pools"]])
    for row, entry in zip(world.watermarks, listed, strict=True):
        same = series["time_ps"] == 40_000_000
        for name in rows.WATERMARK_ORDER:
            same &= series[name] == row[name]
        assert entry["periodic"] == (series["watermark_bytes"][same].tolist() or [0])[0]
        assert entry["device"] == NAMES[row["node"]]
        for key, field in (("user", "user_bytes"), ("persistent", "persistent_bytes"),
                           ("max", "watermark_bytes"), ("p99", "p99_bytes")):  # fmt: skip
            assert entry[key] == row[field]
        assert entry["mean"] == row["byte_ps"] / ENGINE["now_ps"]
        if row["port"] >= 0:
            assert entry["port"] == row["port"] - run.plan.node_port_start[row["node"]]
            assert entry["port_role"] == ("last_hop" if row["port"] in (4, 5, 7, 8) else "fabric")


def test_thresholds_stand_beside() -> None:
    """Claim: Kmin and Kmax of the port, XOFF of a group alone (alpha / (1 + alpha) of the pool),
    headroom, pool sizes; authority: the made-up plan.
    """
    found = watermarks(run_of(make_world()))
    assert {(e["ecn_kmin"], e["ecn_kmax"], e["threshold"]) for e in found["queues"]} == {
        (400_000, 1_600_000, None)
    }
    groups = {(e["kind"], e["xoff"], e["limit"]) for e in found["priority_groups"]}
    assert groups == {("shared", int(0.125 / 1.125 * 31e6), None), ("headroom", None, 110_000)}
    pools = {(e["device"], e["pool"]): e["size"] for e in found["pools"]}
    assert pools["leaf0", "shared"] == 31_000_000
    assert (pools["leaf0", "headroom"], pools["spine0", "headroom"]) == (400_000, 400_000)


def test_xoffs_are_counted_by_group() -> None:
    """Claim: XOFF decisions of each port and class; authority: the rows of /pfc, counted."""
    world = make_world()
    found = watermarks(run_of(world))
    pfc = world.drained["pfc"]
    counted = {p: int(((pfc["port"] == p) & (pfc["on"] == 1)).sum()) for p in range(4, 12)}
    shared = [e for e in found["priority_groups"] if e["kind"] == "shared"]
    assert [e["xoffs"] for e in shared] == list(counted.values())
    without = watermarks(run_of(world, pfc=False))
    assert {e["xoffs"] for e in without["priority_groups"]} == {None}


def test_what_is_not_known_is_none() -> None:
    """Claim: without samples no p99, never a zero for it."""
    world = make_world()
    world.watermarks["p99_bytes"], world.watermarks["byte_ps"][-1] = -1, -1.0
    found = watermarks(run_of(world, watermarks=WatermarkTimes()))
    entries = [*found["queues"], *found["priority_groups"], *found["pools"]]
    assert {e["p99"] for e in entries} == {None}
    assert entries[-1]["mean"] is None and entries[0]["mean"] is not None
    assert "p99: not sampled" in printed(found)


@pytest.mark.parametrize("periodic_ps", [0, 120 * 10**12])
def test_an_interval_that_has_not_ended_is_since_the_start(periodic_ps: int) -> None:
    """Claim of docs/watermarks.md: while no interval has ended (SONiC's are 120 s), `periodic` is
    the maximum since the start, where the first began, and never null; tables do not repeat it."""
    world = make_world()
    world.drained["periodic"] = world.drained["periodic"][:0]
    found = watermarks(run_of(world, watermarks=WatermarkTimes(periodic_ps=periodic_ps)))
    entries = [*found["queues"], *found["priority_groups"], *found["pools"]]
    assert [e["periodic"] for e in entries] == world.watermarks["watermark_bytes"].tolist()
    assert (found["periodic_every_ps"], found["periodic_end_ps"]) == (periodic_ps or None, None)
    assert ("no interval ended: as max" in printed(found)) == bool(periodic_ps)


def test_one_device_and_idle_ports() -> None:
    """Claim: `device` keeps one switch; `idle` adds what never held a byte, with zeros."""
    world = make_world()
    world.watermarks = world.watermarks[world.watermarks["port"] != 4]
    run = run_of(world)
    found = watermarks(run, "leaf0")
    entries = [*found["queues"], *found["priority_groups"], *found["pools"]]
    assert {e["device"] for e in entries} == {"leaf0"}
    assert [e["port"] for e in found["queues"]] == [1, 2]
    idle = watermarks(run, "leaf0", idle=True)
    added = [e for e in idle["queues"] if e["port"] == 0]
    assert len(idle["queues"]) == 3 and added[0]["max"] == added[0]["p99"] == 0
    with pytest.raises(UsageError, match=r'no switch "leef0".*leaf0'):
        watermarks(run, "leef0")


def test_a_run_without_watermarks_is_refused() -> None:
    """Claim: a trace that was broken off, or of before, is an error and not an empty table."""
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        feed(recorder, make_world())
    with pytest.raises(InputFileError, match="has no watermarks"):
        watermarks(Run(recorder))


@pytest.mark.parametrize("everything", [False, True])
def test_tables_fit_and_put_the_fullest_first(everything: bool) -> None:
    """Claim: 100 columns suffice with every column and eight digits; rows fall; roles are apart."""
    world = make_world()
    for name in ("watermark_bytes", "user_bytes", "persistent_bytes", "p99_bytes"):
        world.watermarks[name] += 20_000_000
    world.watermarks["byte_ps"] = world.watermarks["watermark_bytes"] * 5e7
    text = printed(watermarks(run_of(world)), limit=None if everything else 2)
    assert max(map(len, text.splitlines()[3:])) <= 100
    titles = [line for line in text.splitlines() if line.endswith("bytes")]
    assert titles == [
        "Queues of fabric ports, bytes", "Queues of last-hop ports, bytes",
        "Priority groups of fabric ports, shared, bytes",
        "Priority groups of fabric ports, headroom, bytes",
        "Priority groups of last-hop ports, shared, bytes",
        "Priority groups of last-hop ports, headroom, bytes",
        "Buffer pools, bytes",
    ]  # fmt: skip
    assert ("more that held less" in text) != everything
    part = text.split("Queues of fabric ports, bytes\n")[1].split("\n\n")[0].splitlines()
    maxima = [int(line.split()[5].replace(",", "")) for line in part[1:] if ":" in line.split()[0]]
    assert maxima == sorted(maxima, reverse=True)


def test_a_silent_pfc_is_said() -> None:
    """Claim: "PFC never fired" stands above the tables, with how close the fullest group came."""
    world = make_world()
    shared = world.watermarks["object"] == rows.PG_SHARED
    world.watermarks["watermark_bytes"][shared] = np.arange(1000, 9000, 1000)
    world.totals["pause_frames"] = 0
    text = printed(watermarks(run_of(world)))
    said = "PFC never fired; fullest group (spine0:1 class 3) held 8,000 bytes, 0.232 % of XOFF at"
    assert said in text
    world.totals["pause_frames"] = 12
    assert "PFC fired: 12 pause frames" in printed(watermarks(run_of(world)))


def test_frames_beside_the_other_tables() -> None:
    """Claim: `run.watermarks` has the entries as pandas frames, `run.periodic` the series."""
    world = make_world()
    run = run_of(world)
    assert sorted(run.watermarks) == ["pools", "priority_groups", "queues"]
    queues = run.watermarks["queues"]
    mine = world.watermarks[world.watermarks["object"] == rows.QUEUE]
    assert queues["max"].tolist() == mine["watermark_bytes"].tolist()
    assert len(run.periodic) == len(world.drained["periodic"])
    assert set(run.periodic["object"]) <= set(rows.WATERMARK_OBJECTS)
