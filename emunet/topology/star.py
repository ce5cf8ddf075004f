"""Star: every host on one switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from emunet.topology.core import Blocks, CableList, Topology, make_topology


def star(n_host: int, rate_bps: int, delay_ps: int) -> Topology:
    """`n_host` hosts on one switch, all links alike.

    Parameters
    ----------
    n_host : int
    rate_bps : int
        Of every link.
    delay_ps : int
        Of every link.
    """
    cables = CableList()
    cables.add(np.arange(n_host), n_host, rate_bps, delay_ps)
    names = [f"host{i}" for i in range(n_host)] + ["switch0"]

    def one(value: int) -> np.ndarray:
        return np.array([value], np.int32)

    blocks = Blocks(
        one(0),
        one(n_host),
        one(1),
        one(0),
        one(1),
        one(n_host),
        one(0),
        groups=(np.zeros(n_host, np.int32),),
    )
    tier = np.array([0] * n_host + [1])
    return make_topology("star", n_host, names, tier, cables, blocks=blocks)


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """From the scenario's ``topology: {kind: star, ...}``."""
    return star(model.hosts, model.rate, model.delay)
