"""Three-tier k-ary fat tree (Al-Fares et al., SIGCOMM 2008).

There are k pods of k/2 ToRs and k/2 aggregation switches. Host h is on ToR h // (k/2); pods are
consecutive; aggregation switch j of every pod reaches cores j*k/2 .. (j+1)*k/2 - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from emunet.topology.core import Blocks, CableList, Topology, make_topology


def fat_tree(k: int, rates_bps: int | Sequence[int], delay_ps: int) -> Topology:
    """k**3 / 4 hosts, k even.

    Parameters
    ----------
    k : int
        Ports of a switch, even.
    rates_bps : int or three of them
        Of host, ToR-aggregation and aggregation-core links.
    delay_ps : int
        Of every link.
    """
    if k < 2 or k % 2:
        raise ValueError(f"k = {k}: a fat tree needs an even k of at least 2")
    rates = [rates_bps] * 3 if isinstance(rates_bps, int) else list(rates_bps)
    half = k // 2
    n_host, n_tor, n_agg, n_core = k * half * half, k * half, k * half, half * half
    host, tor, agg = (np.arange(n, dtype=np.int32) for n in (n_host, n_tor, n_agg))
    tor0, agg0, core0 = n_host, n_host + n_tor, n_host + n_tor + n_agg
    cables = CableList()
    cables.add(host, tor0 + host // half, rates[0], delay_ps)
    cables.add(
        np.repeat(tor0 + tor, half),
        agg0 + np.repeat(tor // half * half, half) + np.tile(np.arange(half), n_tor),
        rates[1],
        delay_ps,
    )
    cables.add(
        np.repeat(agg0 + agg, half),
        core0 + np.repeat(agg % half * half, half) + np.tile(np.arange(half), n_agg),
        rates[2],
        delay_ps,
    )
    names = (
        [f"host{i}" for i in range(n_host)]
        + [f"tor{i}" for i in range(n_tor)]
        + [f"agg{i}" for i in range(n_agg)]
        + [f"core{i}" for i in range(n_core)]
    )

    def each(of_tor: ArrayLike, of_agg: ArrayLike, of_core: ArrayLike) -> np.ndarray:
        columns = (
            np.broadcast_to(of_tor, n_tor),
            np.broadcast_to(of_agg, n_agg),
            np.broadcast_to(of_core, n_core),
        )
        return np.concatenate(columns).astype(np.int32)

    pod_hosts = half * half
    blocks = Blocks(
        host_lo=each(tor * half, agg // half * pod_hosts, 0),
        host_hi=each((tor + 1) * half, (agg // half + 1) * pod_hosts, n_host),
        block=each(1, half, pod_hosts),
        down_start=each(0, 0, 0),
        down_par=each(1, 1, 1),
        up_start=each(half, half, k),
        up_count=each(half, half, 0),
        groups=(host // half, host // pod_hosts, np.zeros(n_host, np.int32)),
    )
    tier = np.repeat([0, 1, 2, 3], [n_host, n_tor, n_agg, n_core])
    return make_topology("fat_tree", n_host, names, tier, cables, blocks=blocks)


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """From the scenario's ``topology: {kind: fat_tree, ...}``."""
    return fat_tree(model.k, getattr(model, "tier_rates", None) or model.rate, model.delay)
