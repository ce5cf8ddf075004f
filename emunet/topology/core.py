"""The physical graph: nodes, cables, and the ports that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from emunet.topology.hops import HopGraph


@dataclass(frozen=True, eq=False)
class Blocks:
    """Routing by arithmetic, for fabrics whose hosts are numbered along the tree.

    A switch that has host ``h`` below it (``host_lo <= h < host_hi``) sends it out of one of the
    ``down_par`` ports from ``down_start + (h - host_lo) // block * down_par`` on; any other host is
    reached through any up port.

    Attributes
    ----------
    host_lo, host_hi : int32[n_switch]
        Hosts below each switch, end exclusive.
    block : int32[n_switch]
        Hosts behind each group of down ports.
    down_start, down_par : int32[n_switch]
        Local index of the first down port; parallel ports to each child.
    up_start, up_count : int32[n_switch]
        Local index and number of the up ports.
    groups : tuple of int32[n_host]
        Nested partitions of the hosts, finest first. Two hosts whose finest common partition is
        number ``i`` have, over all such pairs, paths of the same links. Empty: not known.
    """

    host_lo: np.ndarray
    host_hi: np.ndarray
    block: np.ndarray
    down_start: np.ndarray
    down_par: np.ndarray
    up_start: np.ndarray
    up_count: np.ndarray
    groups: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Topology:
    """Nodes, cables and ports of a fabric; make one with `make_topology` or a builder.

    Hosts are nodes 0 .. n_host-1, switches follow. A cable joins two nodes; several cables between
    two nodes are several links. Ports are numbered node by node, within a node in cable order.

    Attributes
    ----------
    kind : str
        Builder that made it.
    n_host, n_switch : int
    names : list of str
        Name of each node.
    tier : int8[n_node]
        0 host, 1 leaf, 2 and up above it.
    cable_a, cable_b : int32[n_cable]
        Nodes at the ends.
    cable_rate_ab_bps, cable_rate_ba_bps : int64[n_cable], bit/s
    cable_delay_ps : int64[n_cable], ps
        Propagation, either way.
    port_start : int32[n_node + 1]
        First port of each node.
    port_node, port_peer : int32[n_port]
        Owner, and the port at the other end of the cable.
    port_cable : int32[n_port]
    port_rate_bps, port_delay_ps : int64[n_port]
        Of the outgoing link.
    blocks : Blocks or None
        Set for structured fabrics.
    source : str
        File it was read from; empty otherwise.
    warnings : tuple of str
        What the reader of the file had to say.
    cable_paths : dict of int to str
        Where the scenario gives the delay of single cables.
    """

    kind: str
    n_host: int
    n_switch: int
    names: list[str]
    tier: np.ndarray
    cable_a: np.ndarray
    cable_b: np.ndarray
    cable_rate_ab_bps: np.ndarray
    cable_rate_ba_bps: np.ndarray
    cable_delay_ps: np.ndarray
    port_start: np.ndarray
    port_node: np.ndarray
    port_peer: np.ndarray
    port_cable: np.ndarray
    port_rate_bps: np.ndarray
    port_delay_ps: np.ndarray
    blocks: Blocks | None = None
    source: str = ""
    warnings: tuple[str, ...] = field(default=())
    cable_paths: dict[int, str] = field(default_factory=dict)

    @property
    def uniform(self) -> bool:
        """Whether the groups of `blocks` tell which links are between two hosts."""
        return self.blocks is not None and len(self.blocks.groups) > 0

    @property
    def n_node(self) -> int:
        """Hosts and switches."""
        return self.n_host + self.n_switch

    @property
    def n_cable(self) -> int:
        """Cables, parallel ones counted each."""
        return len(self.cable_a)

    @property
    def n_port(self) -> int:
        """Ports of all nodes: two for each cable."""
        return len(self.port_node)

    @cached_property
    def host_number(self) -> dict[str, int]:
        """Number of each host by its name."""
        return {name: i for i, name in enumerate(self.names[: self.n_host])}

    @cached_property
    def hop_graph(self) -> HopGraph:
        """Racks and hop distances, computed on first use."""
        from emunet.topology.hops import hop_graph

        return hop_graph(self)

    def link_name(self, port: int) -> str:
        """``a -> b`` for the outgoing link of a port."""
        peer = self.port_node[self.port_peer[port]]
        return f"{self.names[self.port_node[port]]} -> {self.names[peer]}"


@dataclass
class CableList:
    """Cables collected piece by piece; a piece is an array, or a number for all its cables."""

    a: list[np.ndarray] = field(default_factory=list)
    b: list[np.ndarray] = field(default_factory=list)
    rate_ab: list[np.ndarray] = field(default_factory=list)
    rate_ba: list[np.ndarray] = field(default_factory=list)
    delay: list[np.ndarray] = field(default_factory=list)

    def add(
        self,
        a: ArrayLike,
        b: ArrayLike,
        rate_bps: ArrayLike,
        delay_ps: ArrayLike,
        rate_back_bps: ArrayLike | None = None,
    ) -> None:
        """Append cables from nodes `a` to nodes `b`; arguments broadcast against each other."""
        back = rate_bps if rate_back_bps is None else rate_back_bps
        columns = np.broadcast_arrays(np.atleast_1d(np.asarray(a)), b, rate_bps, back, delay_ps)
        pieces = (self.a, self.b, self.rate_ab, self.rate_ba, self.delay)
        for piece, column in zip(pieces, columns, strict=True):
            piece.append(column.ravel())

    def columns(self) -> list[np.ndarray]:
        """The five columns: ends, rates both ways, delay."""
        dtypes = (np.int32, np.int32, np.int64, np.int64, np.int64)
        pieces = (self.a, self.b, self.rate_ab, self.rate_ba, self.delay)
        return [
            np.concatenate(p).astype(t) if p else np.zeros(0, t)
            for p, t in zip(pieces, dtypes, strict=True)
        ]


def make_topology(
    kind: str,
    n_host: int,
    names: Sequence[str],
    tier: np.ndarray | None,
    cables: CableList,
    *,
    blocks: Blocks | None = None,
    source: str = "",
    warnings: Sequence[str] = (),
) -> Topology:
    """Number the ports of a cable list and freeze everything.

    Parameters
    ----------
    kind : str
        Name of the builder.
    n_host : int
        The first `n_host` nodes are hosts.
    names : sequence of str
        Of every node.
    tier : int8[n_node] or None
        None: by distance from the hosts.
    cables : CableList
    blocks, source, warnings
        As in `Topology`.
    """
    a, b, rate_ab, rate_ba, delay = cables.columns()
    n_node, n_cable = len(names), len(a)
    ends = np.empty(2 * n_cable, np.int32)
    ends[0::2], ends[1::2] = a, b
    order = np.argsort(ends, kind="stable").astype(np.int32)
    port_of_end = np.empty_like(order)
    port_of_end[order] = np.arange(2 * n_cable, dtype=np.int32)
    rates = np.empty(2 * n_cable, np.int64)
    rates[0::2], rates[1::2] = rate_ab, rate_ba
    start = np.zeros(n_node + 1, np.int32)
    np.cumsum(np.bincount(ends, minlength=n_node), out=start[1:])
    if tier is None:
        tier = _tier_by_distance(n_host, n_node, a, b)
    arrays = {
        "tier": tier.astype(np.int8),
        "cable_a": a,
        "cable_b": b,
        "cable_rate_ab_bps": rate_ab,
        "cable_rate_ba_bps": rate_ba,
        "cable_delay_ps": delay,
        "port_start": start,
        "port_node": ends[order],
        "port_peer": port_of_end[order ^ 1],
        "port_cable": order >> 1,
        "port_rate_bps": rates[order],
        "port_delay_ps": delay[order >> 1],
    }
    for array in arrays.values():
        array.flags.writeable = False
    return Topology(
        kind=kind,
        n_host=n_host,
        n_switch=n_node - n_host,
        names=list(names),
        blocks=blocks,
        source=source,
        warnings=tuple(warnings),
        **arrays,
    )


def _tier_by_distance(n_host: int, n_node: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hosts 0; others one above their lowest neighbour; 1 if no host is in reach."""
    tier = np.full(n_node, -1, np.int8)
    tier[:n_host] = 0
    level = 0
    while True:
        at_a, at_b = tier[a] == level, tier[b] == level
        reached = np.concatenate((b[at_a], a[at_b]))
        reached = reached[tier[reached] < 0]
        if not len(reached) or level == np.iinfo(np.int8).max - 1:
            break
        level += 1
        tier[reached] = level
    tier[tier < 0] = 1
    return tier
