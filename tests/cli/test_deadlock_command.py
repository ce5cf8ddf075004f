"""A deadlock on the command line: said while running, in the result, and at exit code 4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import emunet as api
from emunet.progress import Silent

N = 5
CIRCLE = "switch0:1 → switch1:2 → switch2:2 → switch3:2 → switch4:2 → switch0:1 (class 3)"
RING = {
    "topology": {
        "kind": "explicit", "hosts": N, "switches": N, "rate": "100Gbps", "delay": "50ns",
        "links": [{"a": f"host{i}", "b": f"switch{i}"} for i in range(N)]
        + [{"a": f"switch{i}", "b": f"switch{(i + 1) % N}"} for i in range(N)],
    },
    "switch": {"buffer": "130KB", "headroom": "30KB", "dt_alpha": 1.0, "ecn": False},
    "transport": {"cc": "none", "rto": "50us"},
}  # fmt: skip


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """A scenario in which each host sends two switches further."""
    rows = [f"{h},{(h + 2) % N},200000,0\n" for h in range(N)]
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n" + "".join(rows))
    scenario = api.Scenario.model_validate({**RING, "workload": [{"flows": "flows.csv"}]})
    path = tmp_path / "ring.yaml"
    path.write_text(scenario.to_yaml())
    return path


def test_exit_code_4_names_the_circle(emunet: Callable, ring: Path) -> None:
    """Claim of docs/pfc.md: code 4, and the circle stands before the flows that wait for it."""
    often = ("--set", "record.deadlocks=100us")
    result = emunet("run", ring, "--json", *often)
    assert result.code == 4
    assert result.json["deadlocks"] == [{"time_ps": 10**8, "klass": 3, "cycle": CIRCLE}]
    lines = result.err.splitlines()
    place = lines.index("5 of 5 flows unfinished")
    assert lines[place + 1] == f"deadlock: {CIRCLE}"
    assert f"deadlock at 100us: {CIRCLE}" in result.err
    assert "deadlock, seen at 100" in emunet("run", ring, *often).out


def test_when_it_is_seen_depends_on_simulated_time_alone(ring: Path) -> None:
    """Semantics 6.1: seen first at a multiple of `record.deadlocks`, by either engine, and said at
    once; without it, at the end. It is recorded once, and changes no result."""
    said: list[str] = []

    class Note(Silent):
        def warn(self, text: str) -> None:
            said.append(text)

    base = api.run(ring)
    for twin in (False, True):
        run = api.run(ring, set=["record.deadlocks=7us"], twin=twin, progress=Note())
        assert run.digest == base.digest
        times = run.deadlocks["time_ps"].unique().tolist()
        assert len(run.deadlocks) == N and len(times) == 1
        assert times[0] in (7_000_000, 14_000_000, 21_000_000)
    assert said[0] == said[1] and said[0].endswith(CIRCLE) and len(said) == 2
    last = api.run(ring, set=["record.deadlocks=null"])
    assert last.digest == base.digest
    assert set(last.deadlocks["time_ps"]) == {last.summary["engine"]["simulated_ps"]}
