"""Leaf-spine: every leaf joined to every spine by one or more parallel links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from emunet.topology.core import Blocks, CableList, Topology, make_topology


def leaf_spine(
    n_leaf: int,
    n_spine: int,
    hosts_per_leaf: int,
    rate_bps: int,
    uplink_rate_bps: int,
    delay_ps: int,
    n_parallel: int = 1,
    uplink_delay_ps: int | None = None,
) -> Topology:
    """Host h hangs on leaf h // hosts_per_leaf.

    Parameters
    ----------
    n_leaf, n_spine, hosts_per_leaf : int
    rate_bps, uplink_rate_bps : int
        Of the host links and of each leaf-spine link.
    delay_ps, uplink_delay_ps : int
        Of the two tiers of links; the second defaults to the first.
    n_parallel : int
        Links between a leaf and a spine.
    """
    n_host = n_leaf * hosts_per_leaf
    host = np.arange(n_host, dtype=np.int32)
    leaf, spine = np.arange(n_leaf), np.arange(n_spine)
    cables = CableList()
    cables.add(host, n_host + host // hosts_per_leaf, rate_bps, delay_ps)
    up_from = np.repeat(n_host + leaf, n_spine * n_parallel)
    up_to = np.tile(np.repeat(n_host + n_leaf + spine, n_parallel), n_leaf)
    cables.add(
        up_from, up_to, uplink_rate_bps, delay_ps if uplink_delay_ps is None else uplink_delay_ps
    )
    names = [f"host{i}" for i in host] + [f"leaf{i}" for i in leaf] + [f"spine{i}" for i in spine]

    def both(of_leaf: ArrayLike, of_spine: ArrayLike) -> np.ndarray:
        columns = np.broadcast_to(of_leaf, n_leaf), np.broadcast_to(of_spine, n_spine)
        return np.concatenate(columns).astype(np.int32)

    blocks = Blocks(
        host_lo=both(leaf * hosts_per_leaf, 0),
        host_hi=both((leaf + 1) * hosts_per_leaf, n_host),
        block=both(1, hosts_per_leaf),
        down_start=both(0, 0),
        down_par=both(1, n_parallel),
        up_start=both(hosts_per_leaf, n_leaf * n_parallel),
        up_count=both(n_spine * n_parallel, 0),
        groups=(host // hosts_per_leaf, np.zeros(n_host, np.int32)),
    )
    tier = np.repeat([0, 1, 2], [n_host, n_leaf, n_spine])
    return make_topology("leaf_spine", n_host, names, tier, cables, blocks=blocks)


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """From the scenario's ``topology: {kind: leaf_spine, ...}``."""
    uplink = getattr(model, "uplink_rate", None)
    return leaf_spine(
        model.leaves,
        model.spines,
        model.hosts_per_leaf,
        model.rate,
        model.rate if uplink is None else uplink,
        model.delay,
        getattr(model, "parallel", 1) or 1,
        getattr(model, "uplink_delay", None),
    )
