"""One run of one job in a process of its own, timed or counted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCENARIOS = HERE / "scenarios"

RUN_LOOP = "*Engine__windows*"
"""The engine's window loop, as callgrind names it: set-up, Python and writer are outside."""


@dataclass(frozen=True)
class Measured:
    """What one run took."""

    packet_hops: int
    cpu_s: float
    wall_s: float
    peak_rss_bytes: int
    digest: str

    @property
    def hops_per_cpu_s(self) -> float:
        """Packet-hops per CPU-second of the run loop, all threads."""
        return self.packet_hops / self.cpu_s

    @property
    def hops_per_wall_s(self) -> float:
        """Packet-hops per second of wall-clock time of the run loop."""
        return self.packet_hops / self.wall_s


def job_file(job: str) -> Path:
    """Scenario file of a job: a name in bench/scenarios, or a path.

    Raises
    ------
    SystemExit
        There is no such job.
    """
    path = Path(job)
    if path.suffix not in (".yaml", ".yml"):
        path = SCENARIOS / f"{job}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in SCENARIOS.glob("*.yaml")))
        raise SystemExit(f"bench: no job {job!r}; there are {names}, or give a scenario file")
    return path.resolve()


def command(job: str, threads: int, options: tuple[str, ...]) -> list[str]:
    """The command that runs a job and prints its summary as JSON."""
    run = [sys.executable, "-m", "emunet", "run", str(job_file(job)), "-q", "--json"]
    return [*run, "--threads", str(threads), *options]


def environment(checkout: Path) -> dict[str, str]:
    """This process's environment, with the emunet of a checkout."""
    return {**os.environ, "PYTHONPATH": str(checkout), "EMUNET_CHECKED": "0"}


def run_once(
    job: str, *, threads: int = 1, checkout: Path = ROOT, options: tuple[str, ...] = ()
) -> Measured:
    """Run a job with the emunet of a checkout.

    Raises
    ------
    SystemExit
        The run failed; its message is shown.
    """
    done = subprocess.run(
        command(job, threads, options),
        env=environment(checkout),
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(
            f"bench: {job} on {checkout} ended with {done.returncode}:\n{done.stderr.strip()}"
        )
    summary = json.loads(done.stdout)
    engine = summary["engine"]
    return Measured(
        summary["packets"]["hops"],
        engine["cpu_s"],
        engine["wall_s"],
        engine["peak_rss_bytes"],
        summary["digest"],
    )


def count_instructions(
    job: str, *, checkout: Path = ROOT, options: tuple[str, ...] = ()
) -> tuple[int, int]:
    """Instructions of the window loop under callgrind, and packet-hops.

    Raises
    ------
    SystemExit
        valgrind is not installed, or the run failed.
    """
    if shutil.which("valgrind") is None:
        raise SystemExit("bench: --instructions needs valgrind (apt install valgrind)")
    with tempfile.TemporaryDirectory() as folder:
        # generic code from Numba: valgrind does not know every instruction of a new processor
        env = environment(checkout)
        env |= {"NUMBA_CPU_NAME": "generic", "PYTHONMALLOC": "malloc", "EMUNET_CACHE": "0"}
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/out",
                f"--toggle-collect={RUN_LOOP}",
                *command(job, 1, options),
            ],
            env=env,
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise SystemExit(
            f"bench: counting {job} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return int(found.group(1)), json.loads(done.stdout)["packets"]["hops"]
