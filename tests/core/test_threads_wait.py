"""Threads that wait for one another leave the processor to others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOAD = """
import os
from emunet._core import load_engine
load_engine()
print(os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.parametrize(("given", "said"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_threads_sleep_unless_told_otherwise(given: str | None, said: str) -> None:
    """OpenMP 5.0, 6.7 (OMP_WAIT_POLICY) and 6.12 (OMP_DISPLAY_ENV): what the library took.

    The environment of the user and of child processes stays as it was.
    """
    env = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    env |= {"OMP_DISPLAY_ENV": "true"} | ({"OMP_WAIT_POLICY": given} if given else {})
    done = subprocess.run(
        [sys.executable, "-c", LOAD], env=env, capture_output=True, text=True, check=True
    )
    assert f"OMP_WAIT_POLICY = '{said}'" in done.stderr
    assert done.stdout.strip() == str(given)
