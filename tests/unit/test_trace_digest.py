"""The digest: equal for equal results however they arrive, different for any other result."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from trace_world import World, begin, feed, finish, make_world, record

from emunet._core import rows
from emunet.trace.digest import FLOW_BLOCK
from emunet.trace.memory import MemoryTrace
from emunet.trace.schema import RESULT_COLUMNS


def digest_of(world: World, **cuts: object) -> str:
    return record(MemoryTrace(), world, **cuts).digest


@pytest.mark.parametrize(
    ("message_cuts", "time_cuts_ps"),
    [
        ([1], [0]),
        ([7, 8, 9], [5_000_000, 5_000_001]),
        (range(1, 50), range(0, 40_000_000, 500_000)),
    ],
)
def test_pieces_do_not_matter(message_cuts: object, time_cuts_ps: object) -> None:
    """Claim: the digest is that of the whole, whatever the chunks; authority: the run in one
    piece."""
    world = make_world(50)
    whole = digest_of(world)
    assert digest_of(world, message_cuts=message_cuts, time_cuts_ps=time_cuts_ps) == whole
    assert len(whole) == 32


def test_pieces_do_not_matter_across_blocks() -> None:
    """Claim: so it is when messages fill several blocks and blocks become final out of order."""
    world = make_world(3 * FLOW_BLOCK + 17)
    late_first = copy.deepcopy(world)
    flows = late_first.drained["flows"]
    late_first.drained["flows"] = np.concatenate(
        [flows[flows["flow"] >= 9000], flows[flows["flow"] < 9000]]
    )
    assert digest_of(world) == digest_of(
        world, message_cuts=[5, 8191, 8193, 20000], time_cuts_ps=[9_000_000]
    )
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        feed(recorder, late_first)
        finish(recorder, late_first)
    assert recorder.digest == digest_of(world)


def change(world: World, what: str) -> World:
    """The same run with one result changed by one."""
    changed = copy.deepcopy(world)
    table, _, name = what.partition(".")
    if table == "totals":
        changed.totals[name] += 1
    elif table == "watermarks":
        changed.watermarks[name][-1] += 1
    elif table in ("ports", "switches"):
        getattr(changed, table)[name].flat[-1] += 1
    else:
        changed.drained[table][name][len(changed.drained[table]) // 2] += 1
    return changed


COVERED = [
    *(f"flows.{name}" for name in ("time_ps", "retransmitted", "timeouts", "nacks", "cnps")),
    *(f"events.{name}" for name in rows.EVENT_ROW.names if name != "pad"),
    *(f"queues.{name}" for name in rows.QUEUE_ROW.names if name != "pad"),
    *(f"pfc.{name}" for name in rows.PFC_ROW.names if name != "pad"),
    *(f"periodic.{name}" for name in rows.PERIODIC_ROW.names),
    *(f"watermarks.{name}" for name in rows.WATERMARK_ROW.names),
    *(f"ports.{name}" for name in (*rows.PORT_COUNTERS, *rows.CLASS_COUNTERS, "queue_byte_ps")),
    *(f"switches.{name}" for name in rows.SWITCH_COUNTERS),
    *(f"totals.{name}" for name in rows.TOTALS if name != "events"),
]


@pytest.mark.parametrize("what", COVERED)
def test_every_result_counts(what: str) -> None:
    """Claim: a change by one of any result changes the digest."""
    world = make_world(50)
    # The middle flow row must be one of the sender's for the sender's counters to be read from it.
    sender = world.drained["flows"]["kind"] == rows.FLOW_TX_DONE
    world.drained["flows"] = world.drained["flows"][sender]
    assert digest_of(change(world, what)) != digest_of(world)


@pytest.mark.parametrize("what", ["totals.events", "events.pad", "queues.pad", "pfc.pad"])
def test_what_is_not_a_result_does_not_count(what: str) -> None:
    """Claim: padding and the number of events handled are no results."""
    world = make_world(50)
    assert digest_of(change(world, what)) == digest_of(world)


def test_parts_show_what_differs() -> None:
    """Claim: of the parts stored with the digest, exactly the one changed differs."""
    world = make_world(50)
    before = record(MemoryTrace(), world)
    after = record(MemoryTrace(), change(world, "queues.queue_bytes"))
    parts = [
        {k: v for k, v in m.attributes("meta").items() if k.startswith("digest_")}
        for m in (before, after)
    ]
    assert {k for k in parts[0] if parts[0][k] != parts[1][k]} == {"digest_queues"}
    assert set(parts[0]) == {
        f"digest_{part}"
        for part in (
            "flows", "ports", "switches", "totals", "watermarks", "queues", "packets", "pfc",
            "periodic",
        )
    }  # fmt: skip


def test_the_digest_covers_all_result_columns() -> None:
    """Claim: receiver's columns count, too (the sender's are covered above)."""
    world = make_world(50)
    base = digest_of(world)
    receiver = np.flatnonzero(world.drained["flows"]["kind"] == rows.FLOW_RX_DONE)[0]
    for name in ("marked", "out_of_order", "duplicates"):
        changed = copy.deepcopy(world)
        changed.drained["flows"][name][receiver] += 1
        assert digest_of(changed) != base, name
    assert len(RESULT_COLUMNS) == 10
