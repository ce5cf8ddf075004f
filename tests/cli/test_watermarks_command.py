"""``emunet watermarks``: on any trace, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import pytest


@pytest.fixture
def trace(emunet: Callable, permutation: Path, tmp_path: Path) -> Path:
    """The trace of a small run with nothing said of recording."""
    out = tmp_path / "run.h5"
    assert emunet("run", permutation, "-q", "-o", out).code == 0
    return out


def test_a_default_trace_has_them(emunet: Callable, trace: Path) -> None:
    """Claim of docs/watermarks.md: without `record` user and persistent ones are since the start,
    p99 and mean are there, and the periodic ones are since the start, too.

    At least the data's queue of every last hop has held a frame, and p99 is no greater than max.
    """
    found = emunet("watermarks", trace, "--json").json
    assert found["sample_every_ps"] == 5_000_000
    data = [e for e in found["queues"] if e["class"] == 3]
    assert sum(e["port_role"] == "last_hop" for e in data) == 16
    for e in (*found["queues"], *found["priority_groups"], *found["pools"]):
        assert e["user"] == e["persistent"] == e["periodic"] == e["max"] > 0
        assert 0 <= e["p99"] <= e["max"] and 0 < e["mean"] <= e["max"]


def test_tables_say_how_far_it_was_from_pfc(emunet: Callable, trace: Path) -> None:
    """Claim: the verdict stands above the tables, and fabric and last hop are apart."""
    text = emunet("watermarks", trace).out
    assert "PFC never fired; fullest group" in text
    assert text.index("Queues of fabric ports") < text.index("Queues of last-hop ports")
    assert "Buffer pools" in text


def test_one_device_and_all(emunet: Callable, trace: Path) -> None:
    """Claim: --device keeps one switch, --all adds idle ports: 4 ports of each of 20 switches."""
    device = emunet("watermarks", trace, "--json").json["queues"][0]["device"]
    one = emunet("watermarks", trace, "--device", device, "--json").json
    assert {e["device"] for e in one["queues"]} == {device}
    every = emunet("watermarks", trace, "--all", "--json").json
    assert len([e for e in every["queues"] if e["class"] == 3]) == 80
    wrong = emunet("watermarks", trace, "--device", "nothing", "--json")
    assert wrong.code == 2 and "no switch" in wrong.json["error"]


def test_clears_and_intervals(emunet: Callable, permutation: Path, tmp_path: Path) -> None:
    """Claim: `record.watermarks` reaches the table, and verify finds the same rows again."""
    out = tmp_path / "cleared.h5"
    record = "record.watermarks={periodic: 5us, clear_user: [10us], every: null}"
    assert emunet("run", permutation, "-q", "-o", out, "--set", record).code == 0
    found = emunet("watermarks", out, "--json").json
    assert (found["user_cleared_ps"], found["persistent_cleared_ps"]) == (10_000_000, None)
    assert found["periodic_end_ps"] == (found["simulated_ps"] - 1) // 5_000_000 * 5_000_000
    assert all(e["user"] <= e["persistent"] == e["max"] for e in found["queues"])
    assert any(e["user"] < e["persistent"] for e in found["queues"])
    assert {e["p99"] for e in found["pools"]} == {None}
    assert "user: since 10us" in emunet("watermarks", out).out
    assert emunet("verify", out).code == 0


def test_a_damaged_trace_is_named(emunet: Callable, trace: Path, write: Callable) -> None:
    """Claim: exit code 3 with the file and the dataset, as for every other command."""
    with h5py.File(trace, "r+") as file:
        del file["watermarks/p99_bytes"]
    answer = emunet("watermarks", trace)
    assert answer.code == 3 and "has no dataset /watermarks/p99_bytes" in answer.err
    with h5py.File(trace, "r+") as file:
        del file["watermarks"]
    answer = emunet("watermarks", trace, "--json")
    assert answer.code == 3 and "has no watermarks" in answer.json["error"]
    assert emunet("watermarks", write("notes.txt", "hello")).code == 3


def test_verify_finds_a_changed_watermark(emunet: Callable, trace: Path) -> None:
    """Claim: a watermark that is not what the run wrote is exit code 5."""
    with h5py.File(trace, "r+") as file:
        file["watermarks/user_bytes"][0] += 1
    answer = emunet("verify", trace, "--json")
    assert answer.code == 5
    assert any("watermarks: not what the run wrote" in said for said in answer.json["problems"])
