"""What was published, and which scenario answers it. Reasons of differences: docs/validation.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.validation import measures as m

UET = "uet-htsim 40ccb05"
CSG = "csg-htsim 841d9e7, htsim_roce"
ROCE = "uet-htsim 40ccb05, htsim_roce"
NS3 = "ns3-datacenter 6ddb4a4, DCQCN"


@dataclass(frozen=True)
class Case:
    """One published number.

    Attributes
    ----------
    scenario : str
        File in this folder, without its ending.
    what : str
        Which of its results.
    measure : callable
        Reads it from a run.
    published : float
        In the unit of the measure.
    source : str
        Whose number it is.
    changes : tuple of str
        Changes of the scenario, as for `emunet run --set`.
    seeds : int
        Runs with seeds 1 to this; more than one where the answer depends on hashes.
    """

    scenario: str
    what: str
    measure: m.Measure
    published: float
    source: str
    changes: tuple[str, ...] = ()
    seeds: int = 1


AT_400G = ("topology.rate=400Gbps",)
EIGHT = ("topology.spines=4",)
ECMP = ("transport.path=ecmp", "transport.recovery=gbn")

CASES = (
    Case("one-flow", "100G", m.last_us, 176.2, f"{UET}, NSCC"),
    Case("one-flow", "400G", m.last_us, 53.05, f"{UET}, NSCC", AT_400G),
    Case("one-flow-9000", "100G", m.last_us, 177.4, CSG),
    Case("one-flow-1mb", "400G", m.last_us, 32.8077, ROCE),
    Case("one-flow-1mb", "400G", m.last_us, 32.7363, f"{UET}, NSCC"),
    Case("both-ways", "last", m.last_us, 176.804, f"{UET}, NSCC"),
    Case("incast-2", "last", m.last_us, 50.8615, f"{UET}, RCCC"),
    Case("incast-2", "last", m.last_us, 50.9895, f"{UET}, NSCC"),
    Case("incast-15", "last", m.last_us, 2478.53, f"{UET}, NSCC"),
    Case("incast-15-9000", "last", m.last_us, 2434.3, CSG),
    Case("incast-127", "last", m.last_us, 21029.3, f"{UET}, NSCC"),
    Case("incast-127-9000", "last", m.last_us, 20544.9, CSG),
    Case("incast-32", "last, 100G", m.last_us, 2622.85, ROCE),
    Case("incast-32", "last, 400G", m.last_us, 670.385, ROCE, AT_400G, 20),
    Case("incast-32", "mean, 400G", m.mean_us, 531.783, ROCE, AT_400G, 20),
    Case("incast-1023", "last", m.last_us, 10556.2, f"{UET}, NSCC"),
    Case("outcast-incast", "last", m.last_us, 1638.08, f"{UET}, NSCC"),
    Case("outcast-incast", "1 to 0", m.one_to_zero_us, 208.019, f"{UET}, NSCC"),
    Case("perm-128-paths-64", "last", m.last_us, 232.3, f"{UET}, oblivious", seeds=20),
    Case("perm-128-spray", "last", m.last_us, 232.3, f"{UET}, oblivious", seeds=20),
    Case("perm-128-spray", "last", m.last_us, 203.9, f"{UET}, REPS", seeds=20),
    Case("perm-128-spray", "last", m.last_us, 201.0, f"{UET}, bitmap", seeds=20),
    Case("perm-128-ecmp-9000", "last", m.last_us, 825.3, CSG, seeds=25),
    Case("perm-128-ecmp-9000", "mean", m.mean_us, 467.2, CSG, seeds=25),
    Case("perm-128-ecmp", "last, 400G", m.last_us, 234.557, ROCE, seeds=25),
    Case("perm-128-ecmp", "mean, 400G", m.mean_us, 132.543, ROCE, seeds=25),
    Case("perm-16-ecmp", "last", m.last_us, 527.755, f"{UET}, NSCC, 1 path", seeds=25),
    Case("perm-1024-paths-128", "last", m.last_us, 221.895, f"{UET}, oblivious", seeds=10),
    Case("perm-1024-spray", "last", m.last_us, 200.507, f"{UET}, bitmap", seeds=5),
    Case("perm-1024-spray", "last", m.last_us, 198.246, f"{UET}, REPS", seeds=5),
    Case("perm-1024-ecmp", "last", m.last_us, 889.92, f"{UET}, NSCC, 1 path", seeds=10),
    Case("perm-1024-ecmp-pfc", "last", m.last_us, 337.126, ROCE, seeds=10),
    Case("perm-1024-ecmp-pfc", "mean", m.mean_us, 143.743, ROCE, seeds=10),
    Case("perm-1024-oversubscribed", "4:1", m.last_us, 785.774, f"{UET}, NSCC"),
    Case("perm-1024-oversubscribed", "8:1", m.last_us, 1443.43, f"{UET}, NSCC", EIGHT),
    Case("perm-8192-spray", "last", m.last_us, 35.4, f"{UET}, NSCC"),
    Case("dcqcn-incast-star", "mean", m.mean_us, 3804.17, NS3, seeds=10),
    Case("dcqcn-incast-star", "last", m.last_us, 4225.68, NS3, seeds=10),
    Case("dcqcn-incast-tree", "mean", m.mean_us, 2829.34, NS3, seeds=10),
    Case("dcqcn-incast-tree", "last", m.last_us, 3525.87, NS3, seeds=10),
    Case("dcqcn-perm-128", "mean", m.mean_us, 994.23, NS3, seeds=20),
    Case("dcqcn-perm-128", "last", m.last_us, 1740.43, NS3, seeds=20),
    Case("goodput-64k", "Gb/s", m.goodput_gbps, 98.01, "ConnectX-6 Dx, measured"),
)


def thresholds() -> Iterable[Case]:
    """Saturated queues, k of them, for several alpha: Choudhury and Hahne 1998."""
    for alpha in ("1/16", "1/8", "1/4", "1/2", "1", "2", "4", "8"):
        for k in (1, 2, 3, 5, 8, 15):
            numerator, _, denominator = alpha.partition("/")
            a = int(numerator) / int(denominator or 1)
            elements = ", ".join(
                f"{{incast: {{fan_in: 1, senders: [{i}], receiver: {i + 15}, size: 1GB}}}}"
                for i in range(k)
            )
            changes = (f"switch.dt_alpha={alpha}", f"workload=[{elements}]")
            settled = a * 4e6 / (1 + k * a)
            yield Case("thresholds", f"{alpha}, k={k}", m.queue_bytes, settled, "formula", changes)


LAST_HOP = (
    ("uplinks", m.uplink_bytes),
    ("receiver's port", m.last_hop_bytes),
)
"""Watermarks of last-hop, hashed and sprayed."""
