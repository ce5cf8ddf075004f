"""What the README shows works as shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str, word: str) -> str:
    """The code block of a language that holds a word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if word in text)


@pytest.fixture
def perm(write: Callable) -> Path:
    """The README's scenario."""
    return write("perm.yaml", block("yaml", "fat_tree"))


def test_the_scenario_runs(emunet: Callable, perm: Path) -> None:
    """Claim of the README: its scenario of 128 + 32 flows runs and all of them finish."""
    answer = emunet("run", perm, "--json")
    assert answer.code == 0
    assert answer.json["flows"]["finished"] == 128 + 32


def test_the_policy_runs_alike_in_both_engines(
    emunet: Callable, perm: Path, write: Callable
) -> None:
    """Claim of the README: its policy compiles, runs, and gives the same digest with ``--twin``."""
    policy = write("aimd.py", block("python", "def ack"))
    args = (
        "run",
        perm,
        "--cc",
        policy,
        "--json",
        "--until",
        "30us",
        "--set",
        "topology.k=4",
        "--set",
        "workload=[permutation: {size: 2MB}, incast: {fan_in: 8, receiver: 0, size: 1MB}]",
    )
    native, twin = emunet(*args), emunet(*args, "--twin")
    assert native.code == twin.code == 0
    assert native.json["packets"]["marked"] > 0
    assert native.json["digest"] == twin.json["digest"]


def test_the_other_commands_are_spelled_right(
    emunet: Callable, perm: Path, monkeypatch: pytest.MonkeyPatch, write: Callable
) -> None:
    """Claim of the README: every command line of its first example ends with code 0, in order."""
    monkeypatch.chdir(perm.parent)
    write("flows.csv", "src,dst,size_bytes,start_us\n0,1,50000,0\n2,1,70000,1\n")
    for line in block("sh", "emunet check").splitlines():
        command = line.split("#")[0].split(">")[0].split()
        assert command[0] == "emunet"
        assert emunet(*command[1:]).code == 0, line
