"""A trace that is not what its run wrote is found out, whatever part was changed."""

from __future__ import annotations

import importlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import emunet
from emunet import run
from emunet.progress import Silent
from emunet.trace.schema import STATUS_FAILED
from emunet.verify import verify

SCENARIO = {
    "topology": {"kind": "star", "hosts": 6, "rate": "400Gbps"},
    "transport": {"cc": "none"},
    "workload": [{"incast": {"fan_in": 4, "receiver": 0, "size": "100KB"}}],
    "record": {"queues": {"every": "100ns"}, "packets": True},
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "run.h5"
    emunet.run(SCENARIO, out=path)
    return path


def test_an_untouched_trace_is_in_order(trace: Path) -> None:
    """Documentation of `emunet verify`: books balance, data is as written, a second run agrees."""
    found = verify(trace)
    assert found.ok, found.problems
    assert found.digest == found.digest_again != ""


@pytest.mark.parametrize(
    ("table", "row", "part"),
    [
        ("flows/fct_rx_ps", 1, "flows"),
        ("flows/marked", 0, "flows"),
        ("ports/watermark_bytes", 7, "ports"),
        ("ports/queue_byte_ps", 7, "ports"),
        ("switches/pool_watermark_bytes", 0, "switches"),
        ("samples/queues/queue_bytes", 2, "queues"),
        ("packets/psn", 5, "packets"),
    ],
)
def test_a_changed_value_is_found(trace: Path, tmp_path: Path, table: str, row: int,
                                  part: str) -> None:
    """Each part has a digest, and one more in one place of it changes it."""
    path = shutil.copy(trace, tmp_path / "changed.h5")
    with h5py.File(path, "r+") as f:
        f[table][row] = f[table][row] + 1
    problems = verify(path, again=False).problems
    assert [p for p in problems if p.startswith(f"{part}: not what the run wrote")], problems


def test_a_completion_before_its_ideal_time_is_found(trace: Path, tmp_path: Path) -> None:
    """The ideal time is a bound from below, its path alone; 1 ns is left to rounding."""
    path = shutil.copy(trace, tmp_path / "early.h5")
    for early_ps, found in ((1000, False), (1001, True)):
        with h5py.File(path, "r+") as f:
            f["flows/fct_rx_ps"][2] = f["flows/ideal_fct_ps"][2] - early_ps
        problems = verify(path, again=False).problems
        assert found == any("flow 2" in p and "ideal" in p for p in problems)


def test_a_picosecond_of_carry_is_no_broken_book(tmp_path: Path) -> None:
    """Claim: an honest run passes although a flow is 1 ps faster than alone; authority: semantics
    1, the carry of a port at 7 Gbit/s when the second message follows the first without a gap."""
    flows = tmp_path / "two.csv"
    flows.write_text("src,dst,size_bytes,start_ps\n0,1,1000,0\n0,1,1000,1254858\n")
    scenario = {
        "topology": {"kind": "star", "hosts": 3, "rate": "7Gbps"},
        "transport": {"cc": "none"},
        "workload": [{"flows": str(flows)}],
    }
    result = emunet.run(scenario, out=tmp_path / "run.h5")
    assert (result.flows.fct_rx_ps - result.flows.ideal_fct_ps).min() == -1
    assert verify(tmp_path / "run.h5").problems == []


def test_the_rows_that_differ_from_a_second_run_are_named(trace: Path, tmp_path: Path) -> None:
    """Claim: the first changed rows are listed with the value of the file and that of a second
    run, then that there are more; ports go by name."""
    path = shutil.copy(trace, tmp_path / "changed.h5")
    with h5py.File(path, "r+") as f:
        honest = f["flows/fct_rx_ps"][:].tolist()
        f["flows/fct_rx_ps"][:] = np.array(honest) + 7
        f["ports/queue_watermark_bytes"][8, 3] += 1
        watermark = int(f["ports/queue_watermark_bytes"][8, 3])
        f["packets/psn"][5] += 1
    problems = verify(path).problems
    rows = "; ".join(f"flow {i}: fct_rx_ps {honest[i] + 7}, again {honest[i]}" for i in range(3))
    assert f"flows: 4 rows differ: {rows}; ..." in problems
    assert (
        f"ports: 1 row differs: port 8 (switch0:2): queue_watermark_bytes [3] {watermark}, "
        f"again [3] {watermark - 1}"
    ) in problems
    assert any(p.startswith("packets: 1 row differs: row 5: psn ") for p in problems)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("flows/size_bytes", "flows: 1 row differs: flow 1: size_bytes 100001, again 100000"),
        ("flows/ideal_fct_ps", "flows: 1 row differs: flow 1: ideal_fct_ps"),
        ("plan/port_delay_ps", "plan: not what the run wrote"),
    ],
)
def test_what_the_digest_leaves_out_is_compared_too(
    trace: Path, tmp_path: Path, place: str, said: str
) -> None:
    """Claim: messages and Plan are part of a trace; authority: they determine its results."""
    path = shutil.copy(trace, tmp_path / "changed.h5")
    with h5py.File(path, "r+") as f:
        f[place][1] += 1
    assert any(p.startswith(said) for p in verify(path).problems)


def test_rows_that_are_missing_are_counted(trace: Path, tmp_path: Path) -> None:
    """Claim: a table that was cut short has fewer rows than that of a second run."""
    path = shutil.copy(trace, tmp_path / "cut.h5")
    with h5py.File(path, "r+") as f:
        n = len(f["packets/psn"])
        for column in f["packets"].values():
            column.resize((n - 2,))
    assert f"packets: {n - 2:,} rows, again {n:,}" in verify(path).problems


def test_a_status_that_the_times_contradict_is_found(trace: Path, tmp_path: Path) -> None:
    """Claim of the trace's schema: finished has both times, failed has no last ACK."""
    path = shutil.copy(trace, tmp_path / "odd.h5")
    with h5py.File(path, "r+") as f:
        f["flows/status"][3] = STATUS_FAILED
    problems = verify(path, again=False).problems
    assert any("flow 3: failed, fct_rx_ps" in p for p in problems)


@pytest.mark.parametrize("changes", [[], ["until=5us"], ["transport.rto=9us"]])
def test_two_threads_give_the_same_tables(tmp_path: Path, changes: list[str]) -> None:
    """Claim of semantics 2.2: whatever the threads, also where `until` cuts the messages."""
    path = tmp_path / "run.h5"
    emunet.run(SCENARIO, out=path, set=changes)
    assert verify(path, threads=2).problems == []


def test_a_run_that_got_stuck_gets_stuck_again(emunet: Callable, tmp_path: Path) -> None:
    """Claim: a circle of pauses ends incomplete, the same way each time, so it can be verified;
    authority: semantics 6. A change is found as in any other trace."""
    n = 5
    flows = tmp_path / "ring.csv"
    rows = [f"{h},{(h + 2) % n},200000,0\n" for h in range(n)]
    flows.write_text("src,dst,size_bytes,start_ps\n" + "".join(rows))
    path = tmp_path / "stuck.h5"
    cables = [{"a": f"host{i}", "b": f"switch{i}"} for i in range(n)]
    cables += [{"a": f"switch{i}", "b": f"switch{(i + 1) % n}"} for i in range(n)]
    result = run(
        {
            "topology": {
                "kind": "explicit",
                "hosts": n,
                "switches": n,
                "rate": "100Gbps",
                "delay": "50ns",
                "links": cables,
            },
            "switch": {"buffer": "130KB", "headroom": "30KB", "dt_alpha": 1.0, "ecn": False},
            "transport": {"cc": "none", "rto": "50us"},
            "workload": [{"flows": str(flows)}],
        },
        out=path,
    )
    assert result.reason == "stuck"
    assert len(result.deadlocks) == n
    result.close()
    answer = emunet("verify", path, "--json")
    assert (answer.code, answer.json["problems"]) == (0, [])
    assert answer.json["digest_again"] == result.digest
    with h5py.File(path, "r+") as f:
        f["unfinished/delivered_bytes"][4] += 1
    answer = emunet("verify", path, "--json")
    assert answer.code == 5
    assert answer.json["problems"][0].startswith("unfinished: 1 row differs: row 4: delivered_")


def test_a_changed_completion_time_is_code_5(emunet: Callable, trace: Path, tmp_path: Path) -> None:
    """Claim of walkthrough.md 6: what differs is exit code 5, and each check says so."""
    path = shutil.copy(trace, tmp_path / "changed.h5")
    with h5py.File(path, "r+") as f:
        f["flows/fct_rx_ps"][3] = 1
    answer = emunet("verify", path)
    assert answer.code == 5
    for said in ("before their ideal time", "not what the run wrote", "flow 3: fct_rx_ps 1, again"):
        assert said in answer.out


def test_a_run_whose_senders_gave_up_delivered_messages_is_in_order(tmp_path: Path) -> None:
    """Claim of trace_format.md: with a timeout below the round trip and no retries, all senders
    give up and all data arrive: failed, delivered, with times, and no books broken."""
    path = tmp_path / "run.h5"
    result = run(
        {
            "topology": {"kind": "star", "hosts": 4, "delay": "2us"},
            "transport": {"cc": "none", "rto": "9us", "max_retries": 0},
            "workload": [{"incast": {"fan_in": 3, "receiver": 0, "size": "100KB"}}],
        },
        out=path,
    )
    flows = result.summary["flows"]
    assert (flows["unfinished"], flows["failed"], flows["failed_delivered"]) == (3, 3, 3)
    assert flows["slowdown"]["max"] == result.flows.slowdown.max() > 1
    assert verify(path).problems == []


def test_a_second_run_that_is_interrupted_is_not_compared(
    trace: Path, monkeypatch: pytest.MonkeyPatch, emunet: Callable
) -> None:
    """Claim: half a run differs from a whole one, which says nothing of the trace; code 130."""

    class CtrlC(Silent):
        def update(self, status: object) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(importlib.import_module("emunet.run"), "FIRST_TURN_WINDOWS", 1)
    found = verify(trace, progress=CtrlC())
    assert found.problems == ["the second run was interrupted: not compared"]
    assert found.digest_again == ""
    monkeypatch.setattr("emunet.progress.for_terminal", lambda quiet: CtrlC())
    assert emunet("verify", trace).code == 130


POLICY = """
import numpy as np
PARAMS = ()
STATE = np.dtype([])
CLAIMS = ()
def start(ctx, params, state, out):
    out.window_bytes = 3 * ctx.mtu_bytes
"""

FLOWS = "src,dst,size_bytes,start_us\n0,1,50000,0\n2,1,70000,1\n1,2,500,90\n"


@pytest.mark.parametrize("command", ["run", "replay"])
def test_a_trace_goes_with_its_scenarios_folder(
    emunet: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Claim of trace_format.md: a trace holds no path of the machine that the user did not write,
    and is run again wherever its scenario's folder has been moved; moved alone, it is not."""
    here = tmp_path / "here"
    (here / "traces").mkdir(parents=True)
    (here / "flows.csv").write_text(FLOWS)
    (here / "mine.py").write_text(POLICY)
    (here / "scenario.yaml").write_text(
        "topology: {kind: star, hosts: 4}\nworkload: [flows: flows.csv]\n"
    )
    monkeypatch.chdir(here)
    given = ["scenario.yaml"] if command == "run" else ["flows.csv", "-t", "star,hosts=4"]
    assert emunet(command, *given, "--cc", "mine.py", "-o", "traces/run.h5").code == 0
    with h5py.File("traces/run.h5") as f:
        assert f["meta"].attrs["base_dir"] == ".."
        assert f["meta"].attrs["workload_flows"] == 3
        told = [f["meta/scenario"].asstr()[()], *map(str, f["meta"].attrs.values())]
        assert not [text for text in told if str(tmp_path) in text]
    monkeypatch.chdir(tmp_path)
    here.rename(tmp_path / "there")
    assert emunet("verify", tmp_path / "there" / "traces" / "run.h5").code == 0
    shutil.copy(tmp_path / "there" / "traces" / "run.h5", tmp_path / "alone.h5")
    assert emunet("verify", tmp_path / "alone.h5").code in (2, 3)


def test_the_messages_of_the_whole_workload_are_counted(tmp_path: Path) -> None:
    """Claim of trace_format.md: `workload_flows` counts those after the end, too, and is missing
    where the workload draws how many there are."""
    flows = tmp_path / "flows.csv"
    flows.write_text(FLOWS)
    fixed = {**SCENARIO, "workload": [{"flows": str(flows)}], "until": "90us"}
    with run(fixed, out=tmp_path / "cut.h5") as cut:
        assert (len(cut.flows), cut.meta["workload_flows"]) == (2, 3)
    drawn = {"poisson": {"sizes": "websearch", "load": 0.1, "until": "20us"}}
    for out in (tmp_path / "drawn.h5", None):
        with run({**SCENARIO, "workload": [drawn]}, out=out) as found:
            assert "workload_flows" not in found.meta


def test_a_trace_names_the_distribution_and_its_mean(tmp_path: Path) -> None:
    """Claim of the catalogue: the trace names the distribution and its mean, and other items by
    their pattern; authority: the catalogue's table of means."""
    items = [
        {"poisson": {"sizes": "websearch", "load": 0.1, "until": "20us", "tag": "web"}},
        {"permutation": {"size": "10KB"}},
    ]
    for out in (tmp_path / "run.h5", None):
        with run({**SCENARIO, "workload": items}, out=out) as found:
            web, permutation = found.source.texts("meta", "workload")
        assert web.startswith("poisson (web): sizes websearch, mean 1711250.0 bytes; load 0.1")
        assert permutation.startswith("permutation: pattern 6 hosts")
