"""Start-up of the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emunet.cli import COMMANDS

HEAVY = ("numpy", "h5py", "numba", "pandas", "pydantic", "yaml", "rich")


def test_help_imports_nothing_heavy() -> None:
    """Claim of the command line's design: ``emunet --help`` is quick because nothing heavy is
    imported for it; of the libraries, only click is."""
    code = (
        "import sys; from emunet.cli import emunet; from emunet.cli.failures import call; "
        "code = call(emunet, ['--help']); "
        f"sys.exit(code or ', '.join(m for m in {HEAVY} if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_names_every_command(emunet: Callable) -> None:
    """Claim: the help text lists each command with a line about it, and ends with code 0."""
    answer = emunet("--help")
    assert answer.code == 0
    for name in COMMANDS:
        line = next(line for line in answer.out.splitlines() if line.split()[:1] == [name])
        assert len(line.split()) > 3


def test_every_command_has_help(emunet: Callable) -> None:
    """Claim: every command explains itself."""
    for name in COMMANDS:
        answer = emunet(name, "--help")
        assert answer.code == 0
        assert answer.out.startswith(f"Usage: emunet {name}")


def test_a_wrong_command_is_a_usage_error(emunet: Callable) -> None:
    """Claim: a misspelt command ends with code 2 and the nearest name."""
    answer = emunet("rum")
    assert answer.code == 2
    assert 'did you mean "run"' in answer.err


def test_the_module_is_the_command() -> None:
    """Claim: ``python -m emunet`` is ``emunet``."""
    done = subprocess.run(
        [sys.executable, "-m", "emunet", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("emunet ")


def test_signals_are_handled_before_anything_else_is_imported() -> None:
    """Claim: the entry point is light: before it handles signals, it imports of emunet the handler
    alone, and no library."""
    code = (
        "import sys, emunet.__main__; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('emunet', 'click')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['emunet', 'emunet.__main__', 'emunet.interrupt']"


STRIKE = """
import builtins, os, signal, sys
from importlib.metadata import entry_points
module, number, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
signal.signal(signal.SIGINT, signal.default_int_handler)
real = builtins.__import__
def importing(name, *args, **named):
    if name == module:
        for _ in range(times):
            os.kill(os.getpid(), number)
    return real(name, *args, **named)
builtins.__import__ = importing
(command,) = entry_points(group="console_scripts", name="emunet")
command.load()(sys.argv[4:])
"""
"""Runs the command as it is installed, and strikes whenever a module is imported."""


def struck(module: str, number: int, *args: object) -> subprocess.CompletedProcess[str]:
    """What the command does that gets a signal twice at the import of a module."""
    words = [module, str(int(number)), "2", *map(str, args)]
    return subprocess.run(
        [sys.executable, "-c", STRIKE, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "module",
    [
        "click",
        "emunet.cli.failures",
        "emunet.cli.execute",
        "numpy",
        "h5py",
        "emunet.trace.writer",
    ],
)
def test_ctrl_c_during_imports_is_code_130(
    permutation: Path, tmp_path: Path, module: str, number: int
) -> None:
    """Claim: from the first line of the command on, a signal ends it with code 130 and one word,
    though an import is under way; no file is left."""
    done = struck(module, number, "run", permutation, "-o", tmp_path / "run.h5")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")
    assert os.listdir(tmp_path) == [permutation.name]


def test_ctrl_c_with_json_is_one_object(permutation: Path) -> None:
    """Claim: ``--json`` prints one object when the command is interrupted, too."""
    done = struck("h5py", signal.SIGINT, "run", permutation, "--json")
    assert done.returncode == 130
    assert json.loads(done.stdout) == {"error": "interrupted", "exit_code": 130}
