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


def routes(topology: Topology) -> dict[str, np.ndarray]:
    """Route arrays of the Plan: next hops of all shortest paths.

    Parameters
    ----------
    topology : Topology

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
        _fill_table(topology, topology.hop_graph, arrays)
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


def _fill_table(topology: Topology, graph: HopGraph, arrays: dict[str, np.ndarray]) -> None:
    n_rack = len(graph.anchor)
    table = np.full((len(graph.router), n_rack), ROUTE_UNREACHABLE, np.int32)
    known: dict[bytes, int] = {}
    sets: list[np.ndarray] = []
    for row, node in enumerate(graph.router):
        chosen = next_hop_mask(topology, graph, int(node))
        packed = np.packbits(chosen, axis=1, bitorder="little")
        keys, inverse = np.unique(packed, axis=0, return_inverse=True)
        numbers = np.empty(len(keys), np.int32)
        for i, key in enumerate(keys):
            numbers[i] = _set_number(key, chosen.shape[1], known, sets)
        table[row] = numbers[inverse.ravel()]
        table[row, graph.anchor == node] = (
            ROUTE_LOCAL if node >= topology.n_host else ROUTE_UNREACHABLE
        )
    arrays["node_route_kind"][graph.router] = ROUTE_TABLE
    arrays["node_table_row"][graph.router] = np.arange(len(graph.router), dtype=np.int64) * n_rack
    arrays["host_rack"] = graph.host_rack.copy()
    arrays["route_set"] = table.ravel()
    arrays["set_start"] = np.concatenate(([0], np.cumsum([len(s) for s in sets]))).astype(np.int32)
    arrays["set_port"] = np.concatenate(sets).astype(np.int32) if sets else np.zeros(0, np.int32)


def _set_number(
    key: np.ndarray, n_port: int, known: dict[bytes, int], sets: list[np.ndarray]
) -> int:
    """Number of the port set whose packed mask is `key`; numbered in the order met, equal sets
    share a number.
    """
    ports = np.flatnonzero(np.unpackbits(key, count=n_port, bitorder="little"))
    if not len(ports):
        return ROUTE_UNREACHABLE
    name = ports.tobytes()
    if name not in known:
        known[name] = len(sets)
        sets.append(ports)
    return known[name]


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
