"""Standard streams that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


def emunet(shell: str, *args: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """``emunet ARGS`` with the redirections that a shell understands."""
    words = [sys.executable, "-m", "emunet", *map(str, args)]
    return subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *words],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environ},
    )  # fmt: skip


@pytest.mark.parametrize("words", ["--version", "run", "run --json", "run -n"])
@pytest.mark.parametrize(
    ("shell", "said"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
)
def test_an_output_that_cannot_be_written_is_one_line(
    permutation: Path, words: str, shell: str, said: str
) -> None:
    """Claim: as with other programs, code 1 and one line that says why; no defect of emunet."""
    command, *options = words.split()
    files = [permutation] if command == "run" else []
    done = emunet(shell, command, *files, *options)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"standard output: {said}\n")
    if shell == ">/dev/full":
        again = emunet(shell, command, *files, *options, PYTHONUNBUFFERED="1")
        assert (again.returncode, again.stderr) == (1, done.stderr)


@pytest.mark.parametrize("words", ["catalog switches", "run --json", "trace tables"])
def test_a_reader_that_has_gone_is_no_error_to_speak_of(
    permutation: Path, tmp_path: Path, words: str
) -> None:
    """Claim: ``emunet ... | head -1`` ends with code 1 and without a word."""
    command, *options = words.split()
    files: list[object] = [permutation] if command == "run" else []
    if command == "trace":
        files = [tmp_path / "run.h5"]
        assert emunet("", "run", permutation, "-q", "-o", *files).returncode == 0
    pipe = f"; echo $? >'{tmp_path}/code') 2>'{tmp_path}/said' | true"
    words_of = [sys.executable, "-m", "emunet", command, *options, *files]
    script = f'sleep 0.3; "$@" {pipe}'
    subprocess.run(["sh", "-c", f"({script}", "sh", *map(str, words_of)], check=False, timeout=120)
    assert (tmp_path / "code").read_text() == "1\n"
    assert (tmp_path / "said").read_text() == ""


@pytest.mark.parametrize("shell", ["2>/dev/full", "2>&-", "2>&- >/dev/full"])
def test_errors_that_cannot_be_written_change_no_code(
    permutation: Path, tmp_path: Path, shell: str
) -> None:
    """Claim: without a place for warnings and errors the exit code says it; they never go to
    standard output, nor into a file that is written."""
    out = tmp_path / "run.h5"
    wrong = emunet(shell, "run", permutation, "--set", "switch.buffer=1B", "-o", out)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    done = emunet(shell, "run", permutation, "--cc", "dcqcn", "-o", out)
    assert done.returncode == ("full" in shell.split(">")[-1] and "2>&-" in shell)
    with h5py.File(out, "r") as file:
        assert file.attrs["complete"]
