"""Reading traces: frames that explain themselves, and an error with a name for every file that is
not one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from trace_world import (
    NAMES,
    begin,
    expected_flows,
    feed,
    make_world,
    make_world_plan,
    record,
)

from emunet.errors import InputFileError
from emunet.trace import structure
from emunet.trace.memory import MemoryTrace
from emunet.trace.schema import STATUS_NAMES
from emunet.trace.tables import TABLES, Tables, open_tables, slowdown
from emunet.trace.writer import TraceWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.h5"


def test_file_and_memory_give_the_same(path: Path) -> None:
    """Claim: a run without a file has the same tables, meta and Plan as one with; authority: each
    other."""
    world = make_world(60)
    record(TraceWriter(path), world)
    with open_tables(path) as stored:
        kept = Tables(record(MemoryTrace(), world, message_cuts=[9], time_cuts_ps=[7_000_000]))
        for name in (
            "flows",
            "ports",
            "port_classes",
            "switches",
            "samples",
            "packets",
            "pfc",
            "unfinished",
        ):
            pd.testing.assert_frame_equal(getattr(stored, name), getattr(kept, name))
        assert stored.meta == kept.meta
        assert (stored.scenario, stored.tags, stored.totals) == (
            kept.scenario,
            kept.tags,
            world.totals,
        )
        assert stored.plan.digest == kept.plan.digest == make_world_plan().digest
        assert [stored.source.length(t) for t in TABLES] == [kept.source.length(t) for t in TABLES]
        for name in TABLES:
            assert set(stored.source.datasets(name)) == set(kept.source.datasets(name))


def test_flows_have_names_and_slowdown(path: Path) -> None:
    """Claim: codes become names, unknown results stay -1, slowdown is FCT over the ideal one."""
    world = make_world(60)
    record(TraceWriter(path), world)
    flows = open_tables(path).flows
    expected = expected_flows(world)
    assert list(flows["status"]) == [STATUS_NAMES[i] for i in expected["status"]]
    assert set(flows["tag"]) == {"poisson", "incast"} and flows["background"].dtype == bool
    delivered = expected["fct_rx_ps"] >= 0
    ratio = expected["fct_rx_ps"][delivered] / world.ideal_fct_ps[delivered]
    np.testing.assert_array_equal(flows["slowdown"][delivered], ratio)
    assert flows["slowdown"][~delivered].isna().all() and (~delivered).sum() == 2
    assert (flows.loc[7, ["fct_rx_ps", "fct_ack_ps", "cnps", "marked"]] == -1).all()


def test_slowdown_is_never_clamped() -> None:
    """Claim of the format: a message faster than its ideal shows it; one without an ideal has
    none."""
    found = slowdown(np.array([50, 200, -1, 100]), np.array([100, 100, 100, 0]))
    np.testing.assert_array_equal(found, [0.5, 2.0, np.nan, np.nan])


def test_ports_say_where_they_are(path: Path) -> None:
    """Claim: node, index, peer and role of a port follow from the Plan; authority: the drawing in
    `trace_world`."""
    record(TraceWriter(path), make_world(5))
    run = open_tables(path)
    roles = ["host"] * 4 + ["last_hop", "last_hop", "fabric"] * 2 + ["fabric", "fabric"]
    assert list(run.ports["role"]) == roles
    assert run.ports.loc[9, ["node", "index", "peer"]].tolist() == ["leaf1", 2, "spine0"]
    assert (run.port_name(9), run.port_name(0)) == ("leaf1:2", "h0:0")
    assert list(run.switches["name"]) == NAMES[4:] and list(run.switches.index) == [4, 5, 6]


def test_head_reads_no_more_than_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim: the first rows of a table cost the first rows."""
    record(TraceWriter(path), make_world(60))
    run = open_tables(path)
    asked = []
    read = run.source.read

    def noting(group: str, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        asked.append((group, stop))
        return read(group, name, start, stop)

    monkeypatch.setattr(run.source, "read", noting)
    assert len(run.head("packets", 4)) == 4
    assert {stop for group, stop in asked if group == "packets"} == {4}
    rows = {name: len(run.head(name, 2)) for name in TABLES}
    assert rows == {name: 0 if name == "deadlocks" else 2 for name in TABLES}


def test_a_table_not_recorded_is_empty_with_its_columns(path: Path) -> None:
    """Claim: code that reads a table need not ask first whether it was recorded."""
    world = make_world(10)
    with TraceWriter(path) as writer:
        begin(writer, queues_every_ps=0, packets=False, pfc=False)
        feed(writer, world)
    run = open_tables(path)
    assert list(run.samples.columns) == ["time_ps", "queue_bytes", "port"]
    for name in ("samples", "packets", "pfc", "unfinished", "ports", "switches", "port_classes"):
        assert len(getattr(run, name)) == 0
    assert run.totals == {} and not run.meta["complete"]


def test_a_killed_file_is_read_up_to_the_shortest_column(path: Path) -> None:
    """Claim: columns of unequal length, as a kill leaves them, do not matter."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        f["flows/cnps"].resize((41,))
        f.attrs["reason"] = "running"
    assert len(open_tables(path).flows) == 41


# files that are no traces


def failing(path: Path) -> str:
    with pytest.raises(InputFileError) as caught:
        open_tables(path)
    assert caught.value.exit_code == 3 and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file(path: Path) -> None:
    """Claim: the error names the file, and the `.part` file if there is one."""
    assert failing(path) == f"{path}: does not exist"
    path.with_name("run.h5.part").write_text("")
    assert "run.h5.part" in failing(path)


def test_a_directory(tmp_path: Path) -> None:
    """Claim: a directory is an error with the system's words."""
    assert failing(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize("content", [b"", b"flow,src,dst\n", b"\x89HDF", b"\0" * 4096])
def test_a_file_that_is_not_hdf5(path: Path, content: bytes) -> None:
    """Claim: the error says so."""
    path.write_bytes(content)
    assert failing(path).startswith(f"{path}: is not an HDF5 file; ")


@pytest.mark.parametrize("share", [0.0005, 0.1, 0.5, 0.99])
def test_a_file_cut_short(path: Path, share: float) -> None:
    """Claim: a broken copy is told from a trace, wherever it broke."""
    record(TraceWriter(path), make_world(60))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert f"{path}: is cut short" in failing(path)


def test_hdf5_of_others(path: Path) -> None:
    """Claim: another program's file is refused by its missing schema, a later one by its number."""
    with h5py.File(path, "w") as f:
        f["x"] = [1, 2]
    assert "not an emunet trace" in failing(path)
    with h5py.File(path, "w") as f:
        f.attrs["schema"], f.attrs["emunet_version"] = "emunet/9", "7.2"
    assert failing(path).endswith(
        "has the schema emunet/9; this emunet reads emunet/1; use the emunet that wrote it (7.2)"
    )


def test_a_damaged_dataset(path: Path) -> None:
    """Claim: damage within the file names the dataset; authority: bytes overwritten where a chunk
    lies."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path) as f:
        chunk = f["packets/time_ps"].id.get_chunk_info(0)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * chunk.size)
    with pytest.raises(InputFileError, match="/packets/time_ps is damaged"):
        _ = open_tables(path).packets
    assert len(open_tables(path).flows) == 60


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [
        ("port_peer", 2, 10**6),
        ("port_peer", 2, -1),
        ("port_node", 0, 99),
        ("node_port_start", 1, -3),
        ("node_port_start", 1, 10**6),
    ],
)
def test_a_plan_that_contradicts_itself_is_damaged(
    path: Path, name: str, row: int, value: int
) -> None:
    """Claim: numbers of nodes and ports that do not exist are the file's fault, by name and entry;
    the rest of the file can be read."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        f[f"plan/{name}"][row] = value
    said = rf"run.h5: /plan/{name} is damaged: entry {row} is {value}, not 0 to \d+; copy it again"
    with pytest.raises(InputFileError, match=said):
        _ = open_tables(path).ports
    assert len(open_tables(path).flows) == 60


def test_a_plan_cut_short_is_damaged(path: Path) -> None:
    """Claim: an array of another length or rank than its place in the plan is named."""
    for column, said in (
        (np.zeros(3, np.int64), r"/plan/port_rate_bps is damaged: its shape is \(3,\), not"),
        (np.zeros((3, 3), np.int64), r"/plan/port_rate_bps is damaged: it is .* \(3, 3\), not"),
    ):
        record(TraceWriter(path, force=True), make_world(60))
        with h5py.File(path, "r+") as f:
            del f["plan/port_rate_bps"]
            f["plan/port_rate_bps"] = column
        with pytest.raises(InputFileError, match=said):
            _ = open_tables(path).ports


def test_more_ports_than_the_plan_has_are_damage(path: Path) -> None:
    """Claim: a table of ports with more rows than there are ports is named."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        for name in list(f["ports"]):
            column = f["ports"][name][:]
            del f["ports"][name]
            f["ports"][name] = np.concatenate([column, column])
    with pytest.raises(InputFileError, match=r"/ports is damaged: \d+ rows for \d+ ports"):
        _ = open_tables(path).ports


def test_a_missing_dataset(path: Path) -> None:
    """Claim: a dataset that a trace must have and has not is named."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        del f["plan/port_peer"]
    with pytest.raises(InputFileError, match="has no dataset /plan/port_peer"):
        _ = open_tables(path).plan


WRONG = {
    "dtype": ("flows/src", np.zeros(60, np.int64), "it is int64 of shape (60,), not int32 of"),
    "text": ("meta/scenario", 3, "it is int64 of shape (), not text of shape ()"),
    "rank": ("flows/dst", np.zeros((60, 1), np.int32), "it is int32 of shape (60, 1), not int32"),
    "length": ("flows/dst", np.zeros(59, np.int32), "it has 59 rows, others of /flows have 60"),
    "classes": ("ports/class_tx_bytes", np.zeros((60, 3), np.int64), "it is int64 of shape (60, 3"),
    "a group": ("flows/dst/x", 3, "it is not a dataset"),
}


@pytest.mark.parametrize(("name", "value", "said"), WRONG.values(), ids=WRONG)
def test_datasets_are_what_the_schema_says(path: Path, name: str, value: object, said: str) -> None:
    """Claim: another type, rank or length of a dataset is the file's fault when it is opened, with
    what is found and what is expected."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        if name == "ports/class_tx_bytes":
            name = next(f"ports/{n}" for n, d in f["ports"].items() if d.ndim == 2)
        del f["/".join(name.split("/")[:2])]
        f[name] = value
    with pytest.raises(InputFileError) as caught:
        open_tables(path)
    part = "/".join(name.split("/")[:2])
    assert f"/{part} is damaged: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("status", 9, "/flows/status is damaged: entry 7 is 9, not 0 to 3"),
        ("src", 99, "/flows/src is damaged: entry 7 is 99, not 0 to"),
        ("tag", -5, "/flows/tag is damaged: entry 7 is -5, not -1 to"),
    ],
)
def test_codes_without_a_meaning_are_damage(path: Path, name: str, value: int, said: str) -> None:
    """Claim: codes, hosts and classes that do not exist are named with their row."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        f[f"flows/{name}"][7] = value
    with pytest.raises(InputFileError, match=said):
        _ = open_tables(path).flows


def test_attributes_have_their_type(path: Path) -> None:
    """Claim: an attribute of another type is named."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        f["plan"].attrs["n_host"] = "four"
    with pytest.raises(InputFileError, match="attribute n_host is str, not int"):
        _ = open_tables(path).plan


def _for_ever(*args: object) -> None:
    while True:
        pass


@pytest.mark.parametrize("way", [_for_ever, lambda *args: os.kill(os.getpid(), signal.SIGSEGV)])
def test_a_file_that_hangs_hdf5_is_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[..., None]
) -> None:
    """Claim: a structure in which the HDF5 library loops (deaf to signals) or crashes does so in a
    child, whose CPU time is limited, and is an error of the file."""
    record(TraceWriter(path), make_world(5))
    monkeypatch.setattr(structure, "PATIENCE_S", 1)
    monkeypatch.setattr(structure, "_walk", way)
    assert "the HDF5 library does not get through it" in failing(path)
    monkeypatch.undo()
    assert len(open_tables(path).flows) == 5


def everything(path: Path) -> None:
    with open_tables(path) as run:
        _ = (run.meta, run.scenario, run.totals, run.plan, run.tags, run.warnings)
        for name in TABLES:
            run.head(name, 100)


@pytest.mark.parametrize("seed", range(8))
def test_damage_anywhere_is_an_error_of_the_file(path: Path, seed: int) -> None:
    """Claim: whichever structure of HDF5 a wrong byte belongs to, the file is read or refused by
    name; h5py alone raises KeyError, OSError, RuntimeError or ValueError. Random places; the
    group's header (its object header, heap and tree) comes first in the file."""
    record(TraceWriter(path), make_world(60))
    whole = path.read_bytes()
    chance = random.Random(seed)
    refused = 0
    for _ in range(12):
        damaged = bytearray(whole)
        at = chance.randrange(100, 6000)
        damaged[at : at + 64] = bytes([255]) * 64
        path.write_bytes(damaged)
        try:
            everything(path)
        except InputFileError as error:
            assert error.exit_code == 3 and "\n" not in str(error), at
            refused += 1
    assert refused > 0


def test_a_missing_column_or_attribute_is_named(path: Path) -> None:
    """Claim: what a trace must have and has not is named, whatever would be made of it."""
    record(TraceWriter(path), make_world(60))
    with h5py.File(path, "r+") as f:
        del f["ports/tx_bytes"], f["plan"].attrs["congestion_digest"]
    run = open_tables(path)
    with pytest.raises(InputFileError, match="has no dataset /ports/tx_bytes"):
        _ = run.ports
    with pytest.raises(InputFileError, match="/plan has no attribute congestion_digest"):
        _ = run.plan


@pytest.mark.parametrize(
    "how",
    [{}, {"locking": True}, {"locking": False}, {"locking": "best-effort"}, {"mode": "r+"}],
    ids=str,
)
def test_a_file_that_is_open_in_this_process(path: Path, how: dict) -> None:
    """Claim: a file that the user has open in plain h5py is read all the same; HDF5 asks that all
    opens of a process agree about locks."""
    record(TraceWriter(path), make_world(5))
    with h5py.File(path, **how), open_tables(path) as run:
        assert len(run.flows) == 5


def test_the_fast_filter_is_loaded_or_named(path: Path) -> None:
    """Claim: a file of the fast filter opens without ado where hdf5plugin is installed; elsewhere
    the error says what to install."""
    pytest.importorskip("hdf5plugin")
    record(TraceWriter(path, compression="fast"), make_world(5))
    code = """
import sys
from emunet.trace.tables import open_tables
print(len(open_tables(sys.argv[1]).flows))
"""
    missing = 'import sys; sys.modules["hdf5plugin"] = None' + code
    root = str(Path(__file__).resolve().parents[2])
    done = [
        subprocess.run(
            [sys.executable, "-c", text, str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": root},
            timeout=60,
        )
        for text in (code, missing)
    ]
    assert done[0].stdout == "5\n", done[0].stderr
    said = f"{path}: is compressed with a filter that is not installed; pip install hdf5plugin"
    assert done[1].stderr.rstrip().endswith(said)
