"""How fast this machine runs emunet: short permutations on two fabrics, with a given policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emunet.progress import format_seconds
from emunet.run import Prepared, execute, prepare

FABRICS = (8, 16)
"""`k` of the fat-trees: 128 hosts, which fit the second-level cache, and 1,024, which do not."""

MESSAGE_BYTES = 100_000
REPEATS = 2

TWIN_HOSTS = 8


@dataclass(frozen=True)
class Speed:
    """Packet-hops per CPU-second, as measured.

    Attributes
    ----------
    low, high : float
        Slowest and fastest run of the self-test, and what follows for the scenario's size.
    likely : float
        For a fabric of the scenario's size: on the line through the two fabrics, log by log.
    """

    low: float
    likely: float
    high: float

    def numbers(self, packet_hops: float) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "self_test": {
                "packet_hops_per_cpu_s": {"low": self.low, "likely": self.likely, "high": self.high}
            },
            "cpu_s": {
                "low": packet_hops / self.high,
                "likely": packet_hops / self.likely,
                "high": packet_hops / self.low,
            },
        }

    def lines(self, packet_hops: float) -> list[tuple[str, str]]:
        """For people."""
        likely, low, high = (
            format_seconds(packet_hops / rate) for rate in (self.likely, self.high, self.low)
        )
        return [
            (
                "self-test",
                f"{self.low / 1e6:.2f} to {self.high / 1e6:.2f} M packet-hops per CPU-second",
            ),
            ("time", f"{likely} of one CPU ({low} to {high})"),
        ]


def speed(prepared: Prepared, *, twin: bool = False) -> Speed:
    """Run the self-test with the transport of a scenario."""
    measured = _twin_rates(prepared) if twin else _native_rates(prepared)
    rates = [rate for _, rate in measured]
    likely = _at_size(measured, prepared.compiled.topology.n_host)
    return Speed(min(*rates, likely), likely, max(*rates, likely))


def _native_rates(prepared: Prepared) -> list[tuple[int, float]]:
    from emunet.scenario import FatTree

    measured = []
    for k in FABRICS:
        short = _short(prepared, FatTree(k=k))
        measured += [(k**3 // 4, _rate(short, twin=False)) for _ in range(REPEATS)]
    return measured


def _twin_rates(prepared: Prepared) -> list[tuple[int, float]]:
    from emunet.scenario import Star

    short = _short(prepared, Star(hosts=TWIN_HOSTS))
    return [(TWIN_HOSTS, _rate(short, twin=True)) for _ in range(REPEATS)]


def _short(prepared: Prepared, topology: Any) -> Prepared:
    """A short permutation over `topology`, with the scenario's transport."""
    from emunet.scenario import Permutation, Scenario

    scenario = prepared.scenario
    transport = scenario.transport
    if transport.cc.endswith(".py"):
        transport = transport.replace(cc=str((Path(scenario.base_dir) / transport.cc).resolve()))
    return prepare(
        Scenario(
            topology=topology,
            transport=transport,
            workload=[Permutation(size=MESSAGE_BYTES)],
            until=1_000_000_000,
        )
    )


def _rate(prepared: Prepared, twin: bool) -> float:
    """Packet-hops per CPU-second of one run."""
    run = execute(prepared, twin=twin)
    return run.totals["packet_hops"] / max(run.meta["engine"]["cpu_s"], 1e-6)


def _at_size(measured: list[tuple[int, float]], n_host: int) -> float:
    """Rate for a fabric of `n_host` hosts, from the fastest run on each fabric."""
    best: dict[int, float] = {}
    for hosts, rate in measured:
        best[hosts] = max(rate, best.get(hosts, 0.0))
    sizes = sorted(best)
    if len(sizes) == 1 or n_host <= sizes[0]:
        return best[sizes[0]]
    small, large = sizes[0], sizes[-1]
    slope = math.log(best[large] / best[small]) / math.log(large / small)
    return best[small] * (n_host / small) ** min(slope, 0.0)
