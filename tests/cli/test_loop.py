"""The loop around the engine: turns, chunks, Ctrl-C, the end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import emunet as api
from emunet import progress
from emunet.cli.failures import INTERRUPTED


@pytest.fixture
def loop() -> Iterator[object]:
    """The module emunet.run, whose constants the tests change."""
    import importlib

    yield importlib.import_module("emunet.run")


MIX = {
    "topology": {"kind": "star", "hosts": 6, "rate": "100Gbps"},
    "workload": [
        {"poisson": {"sizes": "websearch", "load": 0.3, "until": "300us"}},
        {"incast": {"fan_in": 4, "receiver": 0, "size": "100KB", "start": "50us"}},
    ],
}


@pytest.mark.parametrize(("chunk", "turn"), [(1, 1), (7, 1), (1000, 3)])
def test_results_do_not_depend_on_chunks_and_turns(
    monkeypatch: pytest.MonkeyPatch, loop: object, chunk: int, turn: int
) -> None:
    """Claim of semantics.md 2.2: results do not depend on when messages are submitted or windows
    end. Messages go in one by one here, the engine returns after every window."""
    whole = api.run(MIX)
    monkeypatch.setattr(loop, "CHUNK_MESSAGES", chunk)
    monkeypatch.setattr(loop, "FIRST_TURN_WINDOWS", turn)
    monkeypatch.setattr(loop, "MOST_TURN_WINDOWS", turn)
    assert api.run(MIX).digest == whole.digest


class CtrlC(progress.Silent):
    """Presses Ctrl-C, or sends another signal, at each of the first `times` updates."""

    def __init__(self, times: int, number: int = signal.SIGINT) -> None:
        self.times, self.number = times, number

    def update(self, status: progress.Status) -> None:
        if self.times:
            self.times -= 1
            signal.raise_signal(self.number)
            if self.times:
                self.update(status)


LONG = {
    "topology": {"kind": "star", "hosts": 4},
    "workload": [{"permutation": {"size": "50MB"}}],
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_results_so_far(
    monkeypatch: pytest.MonkeyPatch, loop: object, tmp_path: Path, number: int
) -> None:
    """Claim: after Ctrl-C or SIGTERM the trace opens, is marked incomplete, its books balance."""
    from emunet.verify import verify

    monkeypatch.setattr(loop, "FIRST_TURN_WINDOWS", 20)
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    out = tmp_path / "run.h5"
    result = api.run(LONG, out=out, progress=CtrlC(1, number))
    assert result.reason == "interrupted"
    with api.load(out) as read:
        assert not read.meta["complete"]
        assert read.meta["reason"] == "interrupted"
        assert len(read.flows) == 4
    assert verify(out).problems == ["the run was broken off: interrupted"]
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_the_second_ctrl_c_stops_at_once(
    monkeypatch: pytest.MonkeyPatch, loop: object, tmp_path: Path
) -> None:
    """Claim: a second Ctrl-C raises `KeyboardInterrupt`; the file still opens."""
    monkeypatch.setattr(loop, "FIRST_TURN_WINDOWS", 20)
    out = tmp_path / "run.h5"
    with pytest.raises(KeyboardInterrupt):
        api.run(LONG, out=out, progress=CtrlC(2))
    with api.load(out) as read:
        assert read.meta["reason"] == "interrupted"


def test_ctrl_c_is_code_130(
    monkeypatch: pytest.MonkeyPatch, loop: object, emunet: Callable, write: Callable
) -> None:
    """Claim: an interrupted command ends with code 130 and prints what it has."""
    monkeypatch.setattr(loop, "FIRST_TURN_WINDOWS", 20)
    monkeypatch.setattr(progress, "for_terminal", lambda quiet: CtrlC(1))
    scenario = write(
        "long.yaml", "topology: {kind: star, hosts: 4}\nworkload: [permutation: {size: 50MB}]\n"
    )
    answer = emunet("run", scenario, "--json")
    assert answer.code == INTERRUPTED
    assert answer.json["reason"] == "interrupted"


def test_progress_ends_where_the_run_ends(monkeypatch: pytest.MonkeyPatch, loop: object) -> None:
    """Claim: the last status names every flow and all packet-hops, and the share grows to one
    (the estimate of packet-hops is exact without loss and marks)."""
    seen: list[progress.Status] = []

    class Note(progress.Silent):
        def update(self, status: progress.Status) -> None:
            seen.append(status)

    monkeypatch.setattr(loop, "Silent", type("Nobody", (), {}))
    monkeypatch.setattr(loop, "FIRST_TURN_WINDOWS", 1)
    result = api.run({**LONG, "switch": {"ecn": False}}, progress=Note())
    shares = [status.fraction or 0.0 for status in seen]
    assert len(seen) > 2
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert seen[-1].flows_done == seen[-1].flows_total == 4
    assert seen[-1].packet_hops == result.totals["packet_hops"]
    assert "4/4 flows" in seen[-1].words()


def test_policies_that_never_acted_are_mentioned() -> None:
    """Claim: if nothing was marked, paused or lost, a run says that congestion control never acted,
    unless there is none."""
    alone = {
        "topology": {"kind": "star", "hosts": 2},
        "workload": [{"permutation": {"size": "100KB"}}],
    }
    assert any("never acted" in note for note in api.run(alone).notes)
    assert not any("never acted" in note for note in api.run(alone, cc="none").notes)


def test_messages_after_the_end_are_not_sent(write: Callable) -> None:
    """Claim: of two messages the second of which starts at the end of the run, the first is sent,
    and the run says that the end cut the list."""
    flows = write("flows.csv", "src,dst,size_bytes,start_us\n0,1,1000,0\n1,0,1000,10\n")
    result = api.run(
        {
            "topology": {"kind": "star", "hosts": 2},
            "workload": [{"flows": str(flows)}],
            "until": "10us",
        }
    )
    assert result.reason == "until"
    assert len(result.flows) == 1
