"""Start-up of the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

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
