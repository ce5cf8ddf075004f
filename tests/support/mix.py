"""Three scenarios in which everything happens, for tests of what must not change results.

Workload: a permutation, an incast on top of it, and Poisson arrivals, over a tree of 16 hosts whose
middle tier has a rate (425 Gb/s) that is no whole number of picoseconds a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import emunet as api
from emunet._core import load_engine
from emunet._core import rows as R
from emunet.analysis import Run
from emunet.plan.schema import Plan
from emunet.run import prepare
from support.run import Result, differences, finish

TREE = {"kind": "fat_tree", "k": 4, "tier_rates": ["100Gbps", "425Gbps", "100Gbps"]}
WORK = [
    {"permutation": {"size": "120KB"}},
    {"incast": {"fan_in": 12, "receiver": 0, "size": "50KB", "start": "5us"}},
    {"poisson": {"sizes": "websearch", "load": 0.3, "until": "150us"}},
]
ECN = {"kmin": "10KB", "kmax": "60KB", "pmax": 0.3}
LOSSY = {"pfc": False, "buffer": "100KB", "dt_alpha": 1.0, "ecn": ECN}

MIXES: dict[str, dict[str, Any]] = {
    "pfc": {
        "seed": 3,
        "topology": TREE,
        "switch": {"buffer": "800KB", "ecn": ECN},
        "transport": {"cc": "dcqcn"},
        "workload": WORK,
    },
    "gbn": {
        "seed": 4,
        "topology": TREE,
        "switch": LOSSY,
        "transport": {
            "cc": "dcqcn", "mtu": 1024, "rto": "60us", "max_retries": 50, "linger": "5us",
        },
        "workload": WORK,
    },
    "sr": {
        "seed": 5,
        "topology": TREE,
        "switch": LOSSY,
        "transport": {
            "cc": "dcqcn", "cc_set": "alibaba_window", "recovery": "sr", "path": "spray",
            "sr_window": 64, "sr_reorder": 16, "ack_every": 2, "rto": "60us", "max_retries": 50,
        },
        "workload": WORK,
    },
}  # fmt: skip
"""Lossless with pauses; lossy with go-back-N; lossy with selective repeat and packet spraying."""

HAPPENS = {
    "pfc": ("pause_frames", "resume_frames", "paused_ps", "marked_packets", "cnp_packets"),
    "gbn": (
        "dropped_packets", "marked_packets", "cnp_packets", "nack_packets", "timeouts",
        "retransmitted_packets", "out_of_order_packets",
    ),
    "sr": (
        "dropped_packets", "marked_packets", "cnp_packets", "timeouts", "retransmitted_packets",
        "out_of_order_packets", "duplicate_packets",
    ),
}  # fmt: skip
"""Totals that must not be 0, or the mix does not test what it is for."""


def with_record(mix: Mapping[str, Any], **record: Any) -> dict[str, Any]:
    """The mix with other recording options."""
    return {**mix, "record": record}


def digests(result: Run) -> dict[str, str]:
    """Digest of each part of the results, and of the whole."""
    return {k: str(v) for k, v in result.meta.items() if k.startswith("digest")}


def run_mix(name: str, **options: Any) -> dict[str, str]:
    """Digests of a mix, run to its end by `emunet.run`."""
    result = api.run(MIXES[name], **options)
    assert result.reason == "done"
    return digests(result)


@cache
def plain_digests(name: str) -> dict[str, str]:
    """Digests of a mix with all options as they are, run once."""
    return run_mix(name)


@dataclass(frozen=True)
class Material:
    """A scenario as the engine takes it: a Plan, and the columns of `Engine.submit`."""

    plan: Plan
    columns: tuple[np.ndarray, ...]

    def engine(self, **options: Any) -> Any:
        """A native engine with all messages submitted, events logged and queues sampled."""
        engine = load_engine()(self.plan, **{**LOGGED, **options})
        engine.submit(*self.columns)
        return engine


LOGGED = {
    "log_events": True, "sample_every_ps": 777_777, "measure_every_ps": 1_000_000,
    "periodic_ps": 9_999_999, "clear_user_ps": [12_345_678, 39_999_996],
    "clear_persistent_ps": [39_999_996, 70_000_000],
}  # fmt: skip
"""Options of an engine that records all it can."""


def material(scenario: Mapping[str, Any]) -> Material:
    """Plan and messages of a scenario."""
    prepared = prepare(scenario)
    chunks = list(prepared.stream)
    names = ("ids", "src", "dst", "size_bytes", "start_ps", "klass")
    columns = [np.concatenate([getattr(c, name) for c in chunks]) for name in names]
    base_rtt_ps = prepared.compiled.paths.base_rtt_ps(columns[1], columns[2])
    return Material(prepared.compiled.plan, (*columns, base_rtt_ps))


@cache
def mix_material(name: str) -> Material:
    """Plan and messages of a mix."""
    return material(MIXES[name])


@cache
def mix_result(name: str) -> Result:
    """A mix by one thread in one call of `run`, as far as rows allow; run once."""
    return finish(mix_material(name).engine())


def assert_same(found: Result, name: str, where: str) -> None:
    """Equal bit for bit to the plain run of a mix: reason, rows, counters, unfinished messages."""
    assert found.reason == R.DONE, where
    assert differences(found, mix_result(name)) == [], where
