"""Dumbbell: two switches with hosts, joined by one bottleneck link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from emunet.topology.core import Blocks, CableList, Topology, make_topology


def dumbbell(
    n_left: int,
    n_right: int,
    rate_bps: int,
    bottleneck_bps: int,
    delay_ps: int,
    bottleneck_delay_ps: int | None = None,
) -> Topology:
    """Hosts 0 .. n_left-1 on the left switch, the rest on the right one.

    Parameters
    ----------
    n_left, n_right : int
        Hosts on each side.
    rate_bps : int
        Of the host links.
    bottleneck_bps : int
        Of the link between the switches.
    delay_ps : int
        Of the host links, and of the bottleneck unless `bottleneck_delay_ps` is given.
    """
    n_host = n_left + n_right
    side = (np.arange(n_host) >= n_left).astype(np.int32)
    cables = CableList()
    cables.add(np.arange(n_host), n_host + side, rate_bps, delay_ps)
    cables.add(
        n_host,
        n_host + 1,
        bottleneck_bps,
        delay_ps if bottleneck_delay_ps is None else bottleneck_delay_ps,
    )
    names = [f"host{i}" for i in range(n_host)] + ["left", "right"]

    def two(left: int, right: int) -> np.ndarray:
        return np.array([left, right], np.int32)

    blocks = Blocks(
        two(0, n_left),
        two(n_left, n_host),
        two(1, 1),
        two(0, 0),
        two(1, 1),
        two(n_left, n_right),
        two(1, 1),
        groups=(side, np.zeros(n_host, np.int32)),
    )
    tier = np.array([0] * n_host + [1, 1])
    return make_topology("dumbbell", n_host, names, tier, cables, blocks=blocks)


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """From the scenario's ``topology: {kind: dumbbell, ...}``."""
    bottleneck = getattr(model, "bottleneck", None)
    return dumbbell(
        model.left,
        model.right,
        model.rate,
        model.rate if bottleneck is None else bottleneck,
        model.delay,
        getattr(model, "bottleneck_delay", None),
    )
