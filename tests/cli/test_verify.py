"""A trace that is not what its run wrote is found out, whatever part was changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import pytest

import emunet
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
    """The ideal time is a bound from below: its path alone."""
    path = shutil.copy(trace, tmp_path / "early.h5")
    with h5py.File(path, "r+") as f:
        f["flows/fct_rx_ps"][2] = f["flows/ideal_fct_ps"][2] - 1
    assert any("flow 2" in p and "ideal" in p for p in verify(path, again=False).problems)
