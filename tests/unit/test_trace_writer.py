"""The trace file: everything arrives in it, in bounded memory, and no end of a run leaves a wrong
file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from trace_world import (
    ENGINE,
    begin,
    expected_flows,
    feed,
    finish,
    make_world,
    make_world_plan,
    record,
)

from emunet._core import rows
from emunet.errors import EmunetError, InputFileError, OutputError, PluginError
from emunet.trace.digest import FLOW_BLOCK
from emunet.trace.memory import MemoryTrace
from emunet.trace.schema import ROW_TABLES
from emunet.trace.tables import open_tables
from emunet.trace.writer import TraceWriter

UNIT = Path(__file__).parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.h5"


def test_everything_arrives(path: Path) -> None:
    """Claim: each value handed to the writer is in the file, read with plain h5py; authority: the
    values handed over."""
    world = make_world(60)
    writer = record(TraceWriter(path), world, message_cuts=[13, 40], time_cuts_ps=[10_000_000])
    with h5py.File(path) as f:
        assert dict(f.attrs) == {
            "schema": "emunet/1",
            "emunet_version": "0.1.0",
            "seed": 42,
            "complete": True,
            "reason": "done",
            "digest": writer.digest,
        }
        for name, column in world.messages.items():
            np.testing.assert_array_equal(f["flows"][name][:], column)
        np.testing.assert_array_equal(f["flows/flow"][:], np.arange(60))
        for name, expected in expected_flows(world).items():
            np.testing.assert_array_equal(f["flows"][name][:], expected, err_msg=name)
        for key, (group, columns, renamed) in ROW_TABLES.items():
            for spec in columns:
                field = world.drained[key][renamed.get(spec.name, spec.name)]
                np.testing.assert_array_equal(f[group][spec.name][:], field, err_msg=spec.name)
        for name, counter in {**world.ports}.items():
            np.testing.assert_array_equal(f["ports"][name][:], counter)
        assert dict(f["totals"].attrs) == world.totals
        np.testing.assert_array_equal(f["unfinished/flow"][:], [3, 5, 7])
        assert f["meta/scenario"].asstr()[()] == "name: made-up\nseed: 42\n"
        assert list(f["meta/tags"].asstr()[:]) == ["poisson", "incast"]
        assert f["meta/engine"].attrs["wall_s"] == ENGINE["wall_s"]
        assert f["meta/engine/high_water"].attrs["packets"] == 77
        assert f["plan"].attrs["cc_name"] == "dcqcn"
        np.testing.assert_array_equal(f["plan/port_peer"][:], make_world_plan().port_peer)


def test_columns_describe_themselves(path: Path) -> None:
    """Claim: unit, meaning and names of codes stand beside the data, for readers that know
    nothing of emunet."""
    record(TraceWriter(path), make_world(5))
    with h5py.File(path) as f:
        fct = f["flows/fct_rx_ps"]
        assert fct.attrs["unit"] == "ps" and "receiver" in fct.attrs["long_name"]
        assert list(f["packets/kind"].attrs["enum"]) == list(rows.EVENT_KINDS)
        assert (fct.compression, fct.shuffle, fct.chunks) == ("gzip", True, (FLOW_BLOCK,))


def test_the_fast_filter_stores_the_same(path: Path) -> None:
    """Claim: the compression changes the bytes in the file and nothing else; authority: the
    portable file's digest."""
    pytest.importorskip("hdf5plugin")
    world = make_world(60)
    fast = record(TraceWriter(path, compression="fast"), world)
    assert fast.digest == record(MemoryTrace(), world).digest
    with h5py.File(path) as f:
        np.testing.assert_array_equal(f["flows/fct_rx_ps"][:], expected_flows(world)["fct_rx_ps"])
        bitshuffle = 32008
        assert f["flows/fct_rx_ps"].id.get_create_plist().get_filter(0)[0] == bitshuffle


def test_several_blocks_arrive(path: Path) -> None:
    """Claim: messages of more than one chunk, the first of them open to the end, arrive as they
    are."""
    world = make_world(2 * FLOW_BLOCK + 100)
    record(
        TraceWriter(path, checkpoint_s=0),
        world,
        message_cuts=[100, 9000],
        time_cuts_ps=range(0, 30_000_000, 3_000_000),
    )
    with h5py.File(path) as f:
        for name, expected in expected_flows(world).items():
            np.testing.assert_array_equal(f["flows"][name][:], expected, err_msg=name)
        np.testing.assert_array_equal(f["flows/size_bytes"][:], world.messages["size_bytes"])


def test_memory_is_bounded_by_what_is_in_flight(path: Path) -> None:
    """Claim: 200,000 messages, 8,192 at most in flight, never hold more than three blocks (450 kB
    each, see FlowResults) and the rows waiting for a chunk; a run that kept all would hold
    200,000 * 90 B = 18 MB."""
    n, step = 200_000, 5000
    world = make_world(10)
    most = 0
    with TraceWriter(path) as writer:
        begin(writer, queues_every_ps=0, packets=False)
        tracemalloc.start()
        for first in range(0, n, step):
            start = np.arange(first, first + step) * 1000
            zeros = np.zeros(step, np.int64)
            columns = dict.fromkeys(
                ("src", "dst", "size_bytes", "klass", "background", "tag"), zeros
            )
            writer.append_messages(first, {**columns, "start_ps": start}, zeros, zeros + 7)
            done = np.zeros(2 * step, rows.FLOW_ROW)
            done["flow"] = np.tile(np.arange(first, first + step), 2)
            done["kind"][step:] = rows.FLOW_TX_DONE
            done["time_ps"] = np.tile(start + 500, 2)
            writer.append_rows({**world.drained, "flows": done})
            most = max(most, writer._flows.n_open)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        finish(writer, make_world(10))
    assert most <= 2
    assert peak < 6_000_000
    with h5py.File(path) as f:
        assert f["flows/status"].shape == (n,)
        assert (f["flows/fct_ack_ps"][:] == 500).all() and (f["flows/status"][:] == 2).all()


def test_an_output_without_rows_gives_a_warning(path: Path) -> None:
    """Claim: what the scenario asked for and did not get is said, in the result and in the file."""
    world = make_world(10, n_row=0)
    with TraceWriter(path) as writer:
        begin(writer, packet_filter=lambda e: e["flow"] == 99)
        feed(writer, world)
        warnings = finish(writer, world)
    assert len(warnings) == 2 and "record.queues" in warnings[0] and "filter" in warnings[1]
    with h5py.File(path) as f:
        assert list(f["meta/warnings"].asstr()[:]) == warnings
        assert f["packets/time_ps"].shape == (0,)


def test_what_is_not_recorded_is_not_there(path: Path) -> None:
    """Claim: outputs that were not declared have no group, even if the engine hands rows over."""
    world = make_world(10)
    with TraceWriter(path) as writer:
        begin(writer, queues_every_ps=0, packets=False, pfc=False, watermarks=None)
        feed(writer, world)
        assert finish(writer, world) == []
    with h5py.File(path) as f:
        assert not {"samples", "packets", "pfc"} & set(f)


def test_filter_and_limit_choose_packet_events(path: Path) -> None:
    """Claim: the file has the first `limit` events that pass the filter, however they are cut;
    authority: numpy."""
    world = make_world(20)
    events = world.drained["events"]
    expected = events[events["kind"] == rows.EVENT_DROP]["time_ps"][:11]
    with TraceWriter(path) as writer:
        begin(writer, packet_filter=lambda e: e["kind"] == rows.EVENT_DROP, packet_limit=11)
        feed(writer, world, time_cuts_ps=range(0, 40_000_000, 1_000_000))
        (warning,) = finish(writer, world)
    n_drop = int((events["kind"] == rows.EVENT_DROP).sum())
    assert f"{n_drop - 11} rows beyond the limit of 11" in warning
    with h5py.File(path) as f:
        np.testing.assert_array_equal(f["packets/time_ps"][:], expected)


# names and directories


def test_an_existing_file_is_kept_without_force(path: Path) -> None:
    """Claim: nothing is overwritten unless asked, and then only by a whole file."""
    path.write_text("precious")
    with pytest.raises(EmunetError, match=r"run\.h5: exists already; .*--force"), TraceWriter(path):
        pass
    with pytest.raises(InputFileError), TraceWriter(path, force=True) as writer:
        begin(writer)
        raise InputFileError("flows.csv", 3, 1, "x", "is not a number")
    assert path.read_text() == "precious"
    assert os.listdir(path.parent) == ["run.h5"]
    record(TraceWriter(path, force=True), make_world(5))
    assert h5py.is_hdf5(path) and os.listdir(path.parent) == ["run.h5"]


@pytest.mark.parametrize("name", ["run.h5", "run.h5.part", "link"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "input"])
def test_force_does_not_replace_what_is_no_trace(tmp_path: Path, kind: str, name: str) -> None:
    """Claim: `--force` replaces ordinary files, but not those that the run reads; nothing else."""
    path, there = tmp_path / "run.h5", tmp_path / ("real" if name == "link" else name)
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "fifo":
            os.mkfifo(there)
        elif kind == "folder":
            there.mkdir()
        elif kind == "socket":
            bound.bind(str(there))
        else:
            there.write_text("mine")
        if name == "link":
            path.symlink_to(there)
        before = there.lstat()
        keep = [tmp_path / "missing", there] if kind == "input" else []
        said = r"is not an ordinary file|is a directory|this run reads it"
        for force in (False, True):
            with (
                pytest.raises(OutputError, match=said),
                TraceWriter(path, force=force, keep=keep),
            ):
                pytest.fail("it was opened")
        assert os.path.samestat(before, there.lstat())
        assert len(list(tmp_path.iterdir())) == 1 + (name == "link")


def test_the_remains_of_a_killed_run_are_kept_without_force(path: Path) -> None:
    """Claim: a `.part` file, which may be all that is left of a long run, is not overwritten
    unless asked."""
    part = path.with_name("run.h5.part")
    part.write_text("remains")
    with (
        pytest.raises(EmunetError, match=r"run\.h5\.part: another run .* --force"),
        TraceWriter(path),
    ):
        pass
    assert part.read_text() == "remains"
    record(TraceWriter(path, force=True), make_world(5))
    assert os.listdir(path.parent) == ["run.h5"]


def test_a_file_that_appears_meanwhile_is_kept(path: Path) -> None:
    """Claim: neither it nor the trace is lost."""
    with (
        pytest.raises(EmunetError, match="appeared while the run went on; the trace is in"),
        TraceWriter(path) as writer,
    ):
        begin(writer)
        feed(writer, make_world(5))
        finish(writer, make_world(5))
        path.write_text("precious")
    assert path.read_text() == "precious"
    assert h5py.is_hdf5(path.with_name("run.h5.part"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent/run.h5", "absent does not exist"),
        ("file/run.h5", "file is not a directory"),
        ("", "is a directory"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_once(tmp_path: Path, name: str, said: str) -> None:
    """Claim: the error names the path and what is wrong, before anything runs; nothing is
    created."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EmunetError, match=said), TraceWriter(tmp_path / name):
        pass
    assert os.listdir(tmp_path) == ["file"]


PREAMBLE = """
import os, signal, sys
from trace_world import *
from emunet.trace.writer import TraceWriter
path = sys.argv[1]
"""


def in_a_process(code: str, path: Path | str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own; it sees `path`."""
    search = os.pathsep.join([str(UNIT), str(UNIT.parents[1])])
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(code), str(path)],
        text=True,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": search},
        timeout=60,
    )


def test_a_read_only_directory_is_refused() -> None:
    """Claim: the error is the system's, in one line; authority: the operating system."""
    code = """
        if os.getuid() == 0:
            # The superuser may write anywhere.
            os.setuid(65534)
        try:
            with TraceWriter(path):
                pass
        except Exception as error:
            print(type(error).__name__, error)
    """
    with tempfile.TemporaryDirectory() as closed:
        os.chmod(closed, 0o555)
        done = in_a_process(code, f"{closed}/run.h5")
        expected = f"OutputError {closed}/run.h5: cannot create the trace: Permission denied\n"
        assert done.stdout == expected, done.stderr
        assert os.listdir(closed) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """Claim: when the system refuses to write, the error says so and no file is left; a limit on
    file sizes stands for the full disk."""
    code = """
        import resource
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        world = make_world(40_000, n_row=200_000)
        try:
            record(TraceWriter(path), world)
        except Exception as error:
            print(type(error).__name__, error)
    """
    done = in_a_process(code, tmp_path / "run.h5")
    said = "cannot write the trace: File too large; no file was left"
    expected = f"EmunetError {tmp_path / 'run.h5'}: {said}\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr
    assert os.listdir(tmp_path) == []


# ends other than the natural one


def test_ctrl_c_leaves_a_readable_file_marked_incomplete(path: Path) -> None:
    """Claim: the rows so far are there under the file's own name, with the reason."""
    world = make_world(30)
    with pytest.raises(KeyboardInterrupt), TraceWriter(path) as writer:
        begin(writer)
        feed(writer, world)
        raise KeyboardInterrupt
    assert os.listdir(path.parent) == ["run.h5"]
    with h5py.File(path) as f:
        assert (bool(f.attrs["complete"]), f.attrs["reason"], f.attrs["digest"]) == (
            False,
            "interrupted",
            "",
        )
        for name, expected in expected_flows(world).items():
            np.testing.assert_array_equal(f["flows"][name][:], expected)
        assert f["packets/time_ps"].shape == (300,)


def test_ctrl_c_in_the_midst_of_a_write_loses_no_row(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim: columns are equally long and whole, though the interruption came between two columns
    of a table."""
    world = make_world(FLOW_BLOCK + 30)
    calls = 0
    resize = h5py.Dataset.resize

    def interrupting(dataset: h5py.Dataset, *args: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        resize(dataset, *args)

    with pytest.raises(KeyboardInterrupt), TraceWriter(path) as writer:
        begin(writer)
        monkeypatch.setattr(h5py.Dataset, "resize", interrupting)
        feed(writer, world)
    with h5py.File(path) as f:
        assert {len(column) for column in f["flows"].values()} == {FLOW_BLOCK + 30}
        np.testing.assert_array_equal(f["flows/start_ps"][:], world.messages["start_ps"])
        assert (f["flows/fct_rx_ps"][:] == -1).all() and (f["flows/status"][:] == 0).all()
    assert calls > 5


def test_a_failing_policy_leaves_the_results_so_far(path: Path) -> None:
    """Claim: an error while running keeps the file, marked incomplete with the error's first
    line."""
    with pytest.raises(PluginError), TraceWriter(path) as writer:
        begin(writer)
        feed(writer, make_world(10))
        raise PluginError("division by zero", "cc.py", 7, "x = 1 / 0")
    with h5py.File(path) as f:
        assert (
            f.attrs["reason"] == "PluginError: cc.py:7: division by zero"
            and not f.attrs["complete"]
        )


def test_an_error_before_the_beginning_leaves_nothing(path: Path) -> None:
    """Claim: no file unless a run has begun."""
    with pytest.raises(RuntimeError), TraceWriter(path):
        raise RuntimeError("in the plan")
    assert os.listdir(path.parent) == []


def test_a_killed_run_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    """Claim: after SIGKILL the `.part` file opens with plain h5py and holds what the last
    checkpoint had written."""
    code = """
        with TraceWriter(path) as writer:
            begin(writer)
            feed(writer, make_world(500))
            writer.checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert in_a_process(code, tmp_path / "run.h5").returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["run.h5.part"]
    world = make_world(500)
    with h5py.File(tmp_path / "run.h5.part") as f:
        assert (bool(f.attrs["complete"]), f.attrs["reason"]) == (False, "running")
        for name, expected in expected_flows(world).items():
            np.testing.assert_array_equal(f["flows"][name][:], expected)
        events = world.drained["events"]
        np.testing.assert_array_equal(f["packets/time_ps"][:], events["time_ps"])


# misuse


def test_messages_must_follow_one_another(path: Path) -> None:
    """Claim: a gap in the numbers, or a row for a message that was never added, is refused."""
    world = make_world(10)
    with pytest.raises(ValueError, match="message 5 follows"), TraceWriter(path) as writer:
        begin(writer)
        writer.append_messages(5, world.messages, world.base_rtt_ps, world.ideal_fct_ps)
    with pytest.raises(ValueError, match="never added"), MemoryTrace() as memory:
        begin(memory)
        memory.append_rows(world.drained)


def test_an_unknown_compression_is_refused(path: Path) -> None:
    """Claim: the error lists what is allowed."""
    with pytest.raises(EmunetError, match="portable, fast"):
        TraceWriter(path, compression="zip")


def test_a_closed_writer_refuses_rows(path: Path) -> None:
    """Claim: writing outside the `with` block is an error, not a loss."""
    writer = record(TraceWriter(path), make_world(5))
    with pytest.raises(EmunetError, match="not open"):
        writer.append_rows(make_world(5).drained)


def test_writing_costs_little(path: Path) -> None:
    """Claim: a checkpoint takes at most a twentieth of the time, so with a costly one the next
    comes later."""
    with TraceWriter(path, checkpoint_s=0) as writer:
        begin(writer)
        before = time.monotonic()
        writer.checkpoint()
        took = time.monotonic() - before
        assert writer._next_checkpoint >= before + took
        feed(writer, make_world(5))


def test_force_does_not_take_a_file_that_is_being_written(path: Path) -> None:
    """Claim: `--force` replaces finished files and remains, never the file of a run under way."""
    first = TraceWriter(path)
    with first:
        first.checkpoint()
        size = first.part_path.stat().st_size
        with (
            pytest.raises(OutputError, match=r"run\.h5\.part: another run is writing it"),
            TraceWriter(path, force=True),
        ):
            pass
        assert first.part_path.stat().st_size == size
    record(TraceWriter(path), make_world(5))


def test_force_spares_a_running_file_though_hdf5_does_not_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim: the writer's lock is its own, so it holds where HDF5's locks are switched off, and
    until the file has its name; the first run ends as if there had been no second."""
    monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
    world = make_world(30)
    second = f"""
        try:
            with TraceWriter({str(path)!r}, force=True):
                pass
        except Exception as error:
            print(type(error).__name__, error.exit_code)
    """
    with TraceWriter(path, force=True) as writer:
        begin(writer)
        feed(writer, world)
        assert in_a_process(second, path).stdout == "OutputError 2\n"
        finish(writer, world)
        rename = writer._rename

        def late() -> None:
            assert in_a_process(second, path).stdout == "OutputError 2\n"
            rename()

        monkeypatch.setattr(writer, "_rename", late)
    assert os.listdir(path.parent) == ["run.h5"]
    with h5py.File(path) as f:
        assert bool(f.attrs["complete"])


@pytest.mark.parametrize("group", ["ports", "switches", "totals", "unfinished", "meta/engine"])
def test_ctrl_c_while_the_results_are_written_leaves_none_of_them(
    path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """Claim: an interruption between two counters leaves no table of which half is missing."""
    calls = 0
    world = make_world(30)

    def stop_second(method: str) -> None:
        real = getattr(TraceWriter, method)

        def stopping(writer: TraceWriter, where: str, *args: object) -> None:
            nonlocal calls
            real(writer, where, *args)
            calls += where == group
            if where == group and calls == (2 if group == "ports" else 1):
                raise KeyboardInterrupt

        monkeypatch.setattr(TraceWriter, method, stopping)

    with pytest.raises(KeyboardInterrupt), TraceWriter(path) as writer:
        begin(writer)
        feed(writer, world)
        stop_second("_array")
        stop_second("_table" if group == "unfinished" else "_attributes")
        finish(writer, world)
    with open_tables(path) as read:
        assert (read.meta["reason"], read.digest) == ("interrupted", "")
        assert (len(read.flows), len(read.ports), len(read.unfinished)) == (30, 0, 0)
        assert read.totals == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_file_is_closed_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Claim: an impatient second key does not cost the run; the signal arrives afterwards."""
    seen: list[int] = []
    before = signal.signal(number, lambda n, frame: seen.append(n))
    try:
        with TraceWriter(path) as writer:
            begin(writer)
            feed(writer, make_world(5))
            finish(writer, make_world(5))
            real = writer.checkpoint

            def striking() -> None:
                signal.raise_signal(number)
                assert not seen
                real()

            monkeypatch.setattr(writer, "checkpoint", striking)
        assert seen == [number]
    finally:
        signal.signal(number, before)
    with h5py.File(path) as f:
        assert bool(f.attrs["complete"])
    assert os.listdir(path.parent) == ["run.h5"]


def test_a_second_signal_while_the_file_is_closed_leaves_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim: closing can be broken off, too, and then there is no file."""
    with pytest.raises(KeyboardInterrupt), TraceWriter(path) as writer:
        begin(writer)

        def striking() -> None:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(writer, "checkpoint", striking)
    assert os.listdir(path.parent) == []
