"""The memory that a run reports is its own."""

import subprocess
import sys

import numpy as np

TELL = "from emunet.info import peak_rss_bytes; print(peak_rss_bytes())"


def test_a_large_parent_does_not_count() -> None:
    """proc(5), VmHWM: peak of this program; getrusage's maximum survives execve from the parent."""
    ballast = np.ones(400_000_000, np.uint8)
    told = subprocess.run(
        [sys.executable, "-c", TELL], capture_output=True, text=True, check=True
    )
    assert 5_000_000 < int(told.stdout) < 300_000_000 < ballast.nbytes
