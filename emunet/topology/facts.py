"""Facts about a topology for people: what ``emunet topo show`` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emunet.topology.core import Topology
from emunet.topology.frames import PS_PER_S_BIT
from emunet.topology.paths import PathModel

MOST_PAIRS = 200_000
"""Pairs of hosts looked at; larger fabrics are sampled, structured ones need no sample."""


def describe(topology: Topology, paths: PathModel | None = None) -> dict[str, Any]:
    """Counts, tiers, links, oversubscription and, with a path model, diameter, base RTT and BDP.

    Parameters
    ----------
    topology : Topology
    paths : PathModel, optional

    Returns
    -------
    dict
        ``kind, source, hosts, switches, links, racks``; ``tiers``: list of ``{tier, nodes,
        ports}``; ``links_by_tier``: list of ``{lower, upper, rate_bps, rate_back_bps, delay_ps,
        links, parallel}``; ``oversubscription``: list of ``{tier, down_bps, up_bps, ratio}`` (ratio
        None at the top); ``warnings``; and with `paths` ``diameter_hops``, ``base_rtt_ps`` ``{min,
        median, max}``, ``bdp_bytes`` (of the farthest hosts), ``host_rate_bps``, ``pairs`` and
        ``sampled``.
    """
    facts: dict[str, Any] = {
        "kind": topology.kind,
        "source": topology.source,
        "hosts": topology.n_host,
        "switches": topology.n_switch,
        "links": topology.n_cable,
        "racks": _n_rack(topology),
        "tiers": _tiers(topology),
        "links_by_tier": _links_by_tier(topology),
        "oversubscription": _oversubscription(topology),
        "warnings": list(topology.warnings),
    }
    if paths is not None and topology.n_host > 1:
        facts.update(_path_facts(topology, paths))
    return facts


@dataclass(frozen=True)
class Farthest:
    """The pair of hosts with the largest base RTT, of those that are looked at.

    Attributes
    ----------
    rtt_ps : int
        Its base RTT.
    rate_bps : int
        Of the slowest link between them, on the best of the shortest paths.
    """

    rtt_ps: int
    rate_bps: int

    @property
    def bdp_bytes(self) -> int:
        """Bytes that fill the path: the rate of its slowest link times the base RTT."""
        return self.rtt_ps * self.rate_bps // PS_PER_S_BIT


def farthest(topology: Topology, paths: PathModel) -> Farthest:
    """The farthest pair of a topology of two hosts or more."""
    src, dst, _, _ = _pairs(topology)
    return _farthest(paths, src, dst, paths.base_rtt_ps(src, dst))


def _farthest(paths: PathModel, src: np.ndarray, dst: np.ndarray, rtt_ps: np.ndarray) -> Farthest:
    worst = int(np.argmax(rtt_ps))
    ways = paths.ways(int(src[worst]), int(dst[worst]))
    return Farthest(int(rtt_ps[worst]), max(min(link.rate_bps for link in way) for way in ways))


def _n_rack(topology: Topology) -> int:
    blocks = topology.blocks
    if blocks is not None and topology.uniform:
        return len(np.unique(blocks.groups[0]))
    return len(topology.hop_graph.anchor)


def _tiers(topology: Topology) -> list[dict[str, int]]:
    degree = np.diff(topology.port_start)
    found = []
    for tier in np.unique(topology.tier).tolist():
        nodes = topology.tier == tier
        found.append({"tier": tier, "nodes": int(nodes.sum()), "ports": int(degree[nodes].sum())})
    return found


def _links_by_tier(topology: Topology) -> list[dict[str, int]]:
    """Links alike in tiers, rates and delay; `parallel`: the most between two nodes."""
    a, b = topology.cable_a, topology.cable_b
    swap = topology.tier[a] > topology.tier[b]
    lower, upper = np.where(swap, b, a), np.where(swap, a, b)
    up = np.where(swap, topology.cable_rate_ba_bps, topology.cable_rate_ab_bps)
    down = np.where(swap, topology.cable_rate_ab_bps, topology.cable_rate_ba_bps)
    columns = np.column_stack(
        (topology.tier[lower], topology.tier[upper], up, down, topology.cable_delay_ps)
    ).astype(np.int64)
    if not len(columns):
        return []
    kinds, inverse, count = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    pair = np.minimum(a, b).astype(np.int64) * topology.n_node + np.maximum(a, b)
    found = []
    for i, (low, high, rate, back, delay) in enumerate(kinds.tolist()):
        parallel = np.unique(pair[inverse.ravel() == i], return_counts=True)[1].max()
        found.append(
            {
                "lower": low,
                "upper": high,
                "rate_bps": rate,
                "rate_back_bps": back,
                "delay_ps": delay,
                "links": int(count[i]),
                "parallel": int(parallel),
            }
        )
    return found


def _oversubscription(topology: Topology) -> list[dict[str, Any]]:
    """For each tier of switches: rate towards lower tiers over rate towards all others."""
    node, peer = topology.port_node, topology.port_node[topology.port_peer]
    below = topology.tier[peer] < topology.tier[node]
    found = []
    for tier in np.unique(topology.tier[topology.n_host :]).tolist():
        here = topology.tier[node] == tier
        down = int(topology.port_rate_bps[here & below].sum())
        up = int(topology.port_rate_bps[here & ~below].sum())
        found.append(
            {"tier": tier, "down_bps": down, "up_bps": up, "ratio": down / up if up else None}
        )
    return found


def _path_facts(topology: Topology, paths: PathModel) -> dict[str, Any]:
    src, dst, weight, sampled = _pairs(topology)
    hops, rtt = paths.hops(src, dst), paths.base_rtt_ps(src, dst)
    order = np.argsort(rtt, kind="stable")
    reached = np.cumsum(weight[order])
    median = int(rtt[order][np.searchsorted(reached, (reached[-1] + 1) // 2)])
    rates, count = np.unique(
        topology.port_rate_bps[topology.port_node < topology.n_host], return_counts=True
    )
    return {
        "diameter_hops": int(hops.max()),
        "base_rtt_ps": {"min": int(rtt.min()), "median": median, "max": int(rtt.max())},
        "host_rate_bps": int(rates[np.argmax(count)]),
        "bdp_bytes": _farthest(paths, src, dst, rtt).bdp_bytes,
        "pairs": int(weight.sum()),
        "sampled": sampled,
    }


def _pairs(topology: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Pairs of hosts with how many pairs each stands for."""
    n = topology.n_host
    if topology.uniform:
        return (*_level_pairs(topology), False)
    if n * (n - 1) <= MOST_PAIRS:
        src, dst = np.divmod(np.arange(n * n), n)
        src, dst = src[src != dst], dst[src != dst]
        return src, dst, np.ones(len(src), np.int64), False
    # a stride prime to n(n-1) visits sources and distances evenly, without a random draw
    index = (np.arange(MOST_PAIRS, dtype=np.int64) * 2_147_483_647) % (n * (n - 1))
    src, step = np.divmod(index, n - 1)
    return src, (src + 1 + step) % n, np.ones(MOST_PAIRS, np.int64), True


def _level_pairs(topology: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One pair for each level at which hosts can meet, with the number that meet there."""
    blocks = topology.blocks
    assert blocks is not None
    src, dst, weight, inner = [], [], [], 0
    for level, group in enumerate(blocks.groups):
        size = np.bincount(group).astype(np.int64)
        together = int((size * (size - 1)).sum())
        if together > inner:
            a, b = _first_pair(blocks.groups, level)
            src.append(a)
            dst.append(b)
            weight.append(together - inner)
        inner = together
    return np.array(src), np.array(dst), np.array(weight, np.int64)


def _first_pair(groups: tuple[np.ndarray, ...], level: int) -> tuple[int, int]:
    """Two hosts that share a group at `level` and none below it; groups are runs of hosts."""
    group = groups[level]
    for end in (
        np.flatnonzero(np.diff(groups[level - 1])) if level else np.flatnonzero(np.diff(group) == 0)
    ):
        if group[end] == group[end + 1]:
            return int(end), int(end + 1)
    raise AssertionError("a level with pairs has two neighbours that meet there")
