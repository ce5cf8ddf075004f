"""From a topology to the route arrays of the Plan, and the one function that says how they are
read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emunet.errors import NO_VALUE, ScenarioError
from emunet.plan.schema import ROUTE_BLOCK, ROUTE_LOCAL, ROUTE_NONE, ROUTE_TABLE, ROUTE_UNREACHABLE
from emunet.topology.core import Topology
from emunet.topology.hops import FAR, HopGraph


def routes(topology: Topology, tables: RouteTables | None = None) -> dict[str, np.ndarray]:
    """Route arrays of the Plan: next hops of all shortest paths.

    Parameters
    ----------
    topology : Topology
    tables : RouteTables, optional
        Where rows are kept, if any are needed; a fabric routed by blocks needs none.

    Returns
    -------
    dict of str to numpy.ndarray
        ``node_route_kind`` to ``set_port`` of `emunet.plan.schema.ARRAYS`.

    Raises
    ------
    ScenarioError
        A host has no link, or two hosts cannot reach each other.
    """
    n_node, n_host = topology.n_node, topology.n_host
    arrays: dict[str, np.ndarray] = {
        "node_route_kind": np.full(n_node, ROUTE_NONE, np.uint8),
        "node_host_lo": np.zeros(n_node, np.int32),
        "node_host_hi": np.zeros(n_node, np.int32),
        "node_block": np.ones(n_node, np.int32),
        "node_down_start": np.zeros(n_node, np.int32),
        "node_down_par": np.ones(n_node, np.int32),
        "node_up_start": np.zeros(n_node, np.int32),
        "node_up_count": np.zeros(n_node, np.int32),
        "node_table_row": np.full(n_node, -1, np.int64),
        "host_rack": np.zeros(n_host, np.int32),
        "route_set": np.zeros(0, np.int32),
        "set_start": np.zeros(1, np.int32),
        "set_port": np.zeros(0, np.int32),
    }
    if topology.blocks is None:
        _fill_table(tables or RouteTables(topology), topology.hop_graph, arrays)
    else:
        _fill_blocks(topology, arrays)
    return arrays


def _fill_blocks(topology: Topology, arrays: dict[str, np.ndarray]) -> None:
    blocks, n_host = topology.blocks, topology.n_host
    assert blocks is not None
    stuck = np.flatnonzero(
        (blocks.up_count == 0)
        & (blocks.host_hi > blocks.host_lo)
        & (blocks.host_hi - blocks.host_lo < n_host)
    )
    if len(stuck):
        lo, hi = int(blocks.host_lo[stuck[0]]), int(blocks.host_hi[stuck[0]])
        lost = 0 if lo > 0 else hi
        raise ScenarioError(
            "$.topology",
            NO_VALUE,
            f'host "{topology.names[lo]}" cannot reach host "{topology.names[lost]}"',
            fix="give the leaves at least one uplink",
        )
    arrays["node_route_kind"][n_host:] = ROUTE_BLOCK
    for name in ("host_lo", "host_hi", "block", "down_start", "down_par", "up_start", "up_count"):
        arrays[f"node_{name}"][n_host:] = getattr(blocks, name)


class RouteTables:
    """Rows of next-hop sets, one entry for each rack; equal sets and equal rows are kept once.

    Parameters
    ----------
    topology : Topology
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._sets: dict[bytes, int] = {}
        self._ports: list[np.ndarray] = []
        self._rows: dict[bytes, int] = {}

    def row(self, graph: HopGraph, node: int, usable: np.ndarray | None = None) -> int:
        """Offset in `route_set` of the row of a router.

        Parameters
        ----------
        graph : HopGraph
            With the distances by which the node routes.
        node : int
        usable : bool[ports of the node], optional
            Ports that may be chosen; all without it.
        """
        chosen = next_hop_mask(self.topology, graph, node)
        if usable is not None:
            chosen &= usable
        packed = np.packbits(chosen, axis=1, bitorder="little")
        keys, inverse = np.unique(packed, axis=0, return_inverse=True)
        numbers = np.array([self._set_number(key, chosen.shape[1]) for key in keys], np.int32)
        entries = numbers[inverse.ravel()]
        entries[graph.anchor == node] = (
            ROUTE_LOCAL if node >= self.topology.n_host else ROUTE_UNREACHABLE
        )
        known = self._rows.setdefault(entries.tobytes(), len(self._rows))
        return known * len(graph.anchor)

    def _set_number(self, key: np.ndarray, n_port: int) -> int:
        """Number of the port set whose packed mask is `key`; numbered in the order met."""
        ports = np.flatnonzero(np.unpackbits(key, count=n_port, bitorder="little"))
        if not len(ports):
            return ROUTE_UNREACHABLE
        name = ports.tobytes()
        if name not in self._sets:
            self._sets[name] = len(self._ports)
            self._ports.append(ports)
        return self._sets[name]

    def arrays(self, graph: HopGraph) -> dict[str, np.ndarray]:
        """The arrays of the Plan that hold racks, rows and sets."""
        rows, sets = b"".join(self._rows), self._ports
        return {
            "host_rack": graph.host_rack.copy(),
            "route_set": np.frombuffer(rows, np.int32).copy(),
            "set_start": np.concatenate(([0], np.cumsum([len(s) for s in sets]))).astype(np.int32),
            "set_port": np.concatenate(sets).astype(np.int32) if sets else np.zeros(0, np.int32),
        }


def _fill_table(tables: RouteTables, graph: HopGraph, arrays: dict[str, np.ndarray]) -> None:
    arrays["node_route_kind"][graph.router] = ROUTE_TABLE
    arrays["node_table_row"][graph.router] = [
        tables.row(graph, int(node)) for node in graph.router
    ]
    arrays.update(tables.arrays(graph))


def next_hop_mask(topology: Topology, graph: HopGraph, node: int) -> np.ndarray:
    """For each rack, which ports of a router lie on a shortest path: bool[n_rack, ports of the
    node].
    """
    ports = np.arange(topology.port_start[node], topology.port_start[node + 1])
    peer = topology.port_node[topology.port_peer[ports]]
    peer_router = graph.router_index[peer]
    distance = graph.distance[:, np.maximum(peer_router, 0)].astype(np.int32)
    distance[:, peer_router < 0] = FAR
    forwards = (peer >= topology.n_host)[None, :] | (distance == 0)
    mine = graph.distance[:, graph.router_index[node]].astype(np.int32)[:, None]
    chosen = forwards & (mine < FAR) & (distance == mine - 1)
    ends = np.flatnonzero((peer < topology.n_host) & (peer_router < 0))
    if node < topology.n_host and len(ends):
        chosen[graph.host_rack[peer[ends]], ends] = True
    return chosen


def next_hops(arrays: Mapping[str, np.ndarray], node: int, dst: int) -> np.ndarray:
    """Candidate ports of a node for a destination host: how the route arrays are read.

    Parameters
    ----------
    arrays : mapping
        Arrays of a Plan, or what `routes` gives with ``node_port_start`` and ``port_peer``.
    node, dst : int
        A node, and a host that is not the node itself.

    Returns
    -------
    int64[n]
        Local port indices, ascending; empty if the host cannot be reached from here.
    """
    kind = arrays["node_route_kind"][node]
    if kind == ROUTE_NONE:
        return np.zeros(1, np.int64)
    if kind == ROUTE_BLOCK:
        lo = int(arrays["node_host_lo"][node])
        if lo <= dst < arrays["node_host_hi"][node]:
            par = int(arrays["node_down_par"][node])
            child = (dst - lo) // int(arrays["node_block"][node])
            return int(arrays["node_down_start"][node]) + child * par + np.arange(par)
        return int(arrays["node_up_start"][node]) + np.arange(int(arrays["node_up_count"][node]))
    entry = int(
        arrays["route_set"][int(arrays["node_table_row"][node]) + int(arrays["host_rack"][dst])]
    )
    if entry == ROUTE_LOCAL:
        start = arrays["node_port_start"]
        return np.array([arrays["port_peer"][start[dst]] - start[node]], np.int64)
    if entry == ROUTE_UNREACHABLE:
        return np.zeros(0, np.int64)
    first, end = arrays["set_start"][entry], arrays["set_start"][entry + 1]
    return arrays["set_port"][first:end].astype(np.int64)
