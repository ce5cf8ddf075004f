"""The command line in this process, and small scenarios for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emunet.cli import emunet as command
from emunet.cli.failures import call

PERMUTATION = """
name: small
topology: {kind: fat_tree, k: 4, rate: 100Gbps}
workload:
  - permutation: {size: 200KB}
"""

LOSSY_INCAST = """
topology: {kind: star, hosts: 8}
switch: {pfc: false, buffer: 200KB, ecn: false}
transport: {cc: none, rto: 20us, max_retries: 1}
workload:
  - incast: {fan_in: 7, receiver: 0, size: 1MB}
"""


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON value that it is."""
        return json.loads(self.out)


@pytest.fixture
def emunet(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs ``emunet ARGS`` and gives exit code and output."""

    def run(*args: object) -> Answer:
        code = call(command, [str(arg) for arg in args])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file into the test's folder."""

    def put(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return put


@pytest.fixture
def permutation(write: Callable[[str, str], Path]) -> Path:
    """A scenario that finishes in milliseconds."""
    return write("permutation.yaml", PERMUTATION)


@pytest.fixture
def lossy(write: Callable[[str, str], Path]) -> Path:
    """A scenario most of whose flows are given up: no PFC, a small buffer, one retry."""
    return write("lossy.yaml", LOSSY_INCAST)
