"""What is recorded does not change what happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mix import MIXES, digests, mix_material, mix_result, plain_digests, with_record
from support.run import finish, select

import emunet as api
from emunet._core import load_engine
from emunet._core import rows as R

pytestmark = pytest.mark.checked

each_mix = pytest.mark.parametrize("name", MIXES)

OUTCOME = ("digest_flows", "digest_ports", "digest_switches", "digest_totals")
"""Parts of the digest that every run has, whatever it records."""

RECORDS: dict[str, dict[str, Any]] = {
    "nothing": {"pfc": False},
    "queues": {"queues": {"every": "1us"}},
    "queues often": {"queues": {"every": "1ns"}},
    "last hops": {"queues": {"every": "3us", "ports": "last_hop"}},
    "packets": {"packets": True},
    "some packets": {"packets": {"where": "flow == 3 and kind == 'drop'"}},
    "few packets": {"packets": {"limit": 10}},
    "all": {"queues": {"every": "500ns"}, "packets": True, "pfc": True},
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
@each_mix
def test_recording_does_not_change_the_outcome(name: str, record: dict[str, Any]) -> None:
    """Trace format, digest: flows, ports, switches and totals are the same whatever is recorded.

    Watermarks and times of queues, which the engine finds by draining ports on touch, included.
    """
    plain = plain_digests(name)
    found = digests(api.run(with_record(MIXES[name], **record)))
    assert {k: found[k] for k in OUTCOME} == {k: plain[k] for k in OUTCOME}
    if record.get("pfc", True):
        assert found["digest_pfc"] == plain["digest_pfc"]


@each_mix
def test_what_is_recorded_does_not_depend_on_what_else_is(name: str) -> None:
    """Trace format, digest: queue samples and packet events are the same, alone or together."""
    runs = {key: digests(api.run(with_record(MIXES[name], **record)))
            for key, record in (("all", RECORDS["all"]), ("packets", RECORDS["packets"]),
                                ("queues", {"queues": {"every": "500ns"}}))}  # fmt: skip
    assert runs["all"]["digest_packets"] == runs["packets"]["digest_packets"]
    assert runs["all"]["digest_queues"] == runs["queues"]["digest_queues"]
    assert runs["all"]["digest_packets"] != runs["queues"]["digest_packets"]


@pytest.mark.parametrize("compression", ["portable", "fast"])
@each_mix
def test_a_file_holds_the_result_of_memory(name: str, compression: str, tmp_path: Path) -> None:
    """Trace format, digest: a trace file has the digest of the same run kept in memory."""
    everything = with_record(MIXES[name], **RECORDS["all"])
    out = tmp_path / "run.h5"
    written = digests(api.run(everything, out=out, compression=compression))
    assert written == digests(api.run(everything))
    with api.load(out) as read:
        assert digests(read) == written


@each_mix
def test_a_filter_leaves_out_and_adds_nothing(name: str) -> None:
    """Docstring of `event_filter`: kinds by bit, flows by range; the rest is as in the log."""
    work, every = mix_material(name), mix_result(name)
    kinds = (1 << R.EVENT_DROP) | (1 << R.EVENT_MARK) | (1 << R.EVENT_PAUSE_TX)
    for low, high in ((-1, 1 << 40), (0, 1 << 40), (3, 9), (5, 5)):
        engine = load_engine()(work.plan, log_events=True, event_filter=(kinds, low, high))
        engine.submit(*work.columns)
        found = finish(engine)
        rows = every.events
        wanted = rows[
            ((kinds >> rows["kind"].astype(int)) & 1).astype(bool)
            & (rows["flow"] >= low) & (rows["flow"] < high)
        ]  # fmt: skip
        assert found.events.tobytes() == wanted.tobytes(), (low, high)
        assert len(wanted) or (low, high) == (5, 5)
        assert found.totals == {**every.totals, "events": found.totals["events"]}
    assert len(select(every.events, kind=R.EVENT_DEPART)) == every.totals["packet_hops"]


@each_mix
def test_the_log_agrees_with_the_counters(name: str) -> None:
    """Identity: each counter of a port is the number of its rows in the whole event log."""
    work, result = mix_material(name), mix_result(name)
    rows, plan = result.events, work.plan
    port = plan.node_port_start[rows["node"]] + rows["port"]
    at_switch = rows["node"] >= plan.n_host

    def counted(kind: int, keep: Any = True) -> list[int]:
        chosen = port[(rows["kind"] == kind) & keep]
        return [int((chosen == p).sum()) for p in range(plan.n_port)]

    for counter, kind in (
        ("tx_packets", R.EVENT_DEPART), ("dropped_packets", R.EVENT_DROP),
        ("marked_packets", R.EVENT_MARK), ("pause_tx", R.EVENT_PAUSE_TX),
        ("resume_tx", R.EVENT_RESUME_TX), ("pause_rx", R.EVENT_PAUSE_RX),
    ):  # fmt: skip
        assert result.ports[counter].tolist() == counted(kind), counter
    arrived = (rows["kind"] == R.EVENT_ARRIVE) & ~at_switch
    assert int(arrived.sum()) == result.totals["delivered_packets"]
    depth = (rows["kind"] == R.EVENT_DEPART) & at_switch
    highest = [int(rows["occupancy"][depth & (port == p)].max(initial=0))
               for p in range(plan.n_port)]  # fmt: skip
    # the queue at a departure is one that was there at an arrival, so it is at most the maximum
    assert (result.ports["queue_watermark_bytes"].max(axis=1) >= highest).all()
