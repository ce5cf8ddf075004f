"""Racks and hop distances of a graph: what routes and paths of unstructured fabrics are made of.

A *rack* is a set of hosts that all others reach alike: the hosts with one cable on the same switch.
A host with several cables, or cabled to another host, is a rack of its own. Every rack has an
*anchor*, the switch or the host itself, and distances are counted to anchors. Hosts do not forward,
so only switches are passed through.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emunet.errors import NO_VALUE, ScenarioError
from emunet.topology.core import Topology

FAR = np.iinfo(np.int16).max
"""Distance to an anchor that cannot be reached."""


@dataclass(frozen=True, eq=False)
class HopGraph:
    """Racks and distances.

    Attributes
    ----------
    host_rack : int32[n_host]
        Rack of each host.
    anchor : int32[n_rack]
        Node of each rack's anchor.
    router : int32[n_router]
        Nodes that choose among ports: hosts with several cables, then switches; ascending.
    router_index : int32[n_node]
        Position in `router`, -1 for the others.
    distance : int16[n_rack, n_router], links
        From each router to each anchor, FAR if there is no way.
    """

    host_rack: np.ndarray
    anchor: np.ndarray
    router: np.ndarray
    router_index: np.ndarray
    distance: np.ndarray


def hop_graph(topology: Topology) -> HopGraph:
    """Racks of the hosts, and the distance from every router to every rack."""
    n_host, n_node = topology.n_host, topology.n_node
    degree = np.diff(topology.port_start)
    _refuse_unconnected(topology, degree)
    attach = topology.port_node[topology.port_peer[topology.port_start[:n_host]]]
    anchor_of_host = np.where(
        (degree[:n_host] == 1) & (attach >= n_host), attach, np.arange(n_host)
    )
    anchor, host_rack = np.unique(anchor_of_host, return_inverse=True)
    is_router = np.arange(n_node) >= n_host
    is_router[:n_host] = degree[:n_host] > 1
    router = np.flatnonzero(is_router).astype(np.int32)
    router_index = np.full(n_node, -1, np.int32)
    router_index[router] = np.arange(len(router), dtype=np.int32)
    distance = _distances(topology, anchor, router, router_index)
    graph = HopGraph(
        host_rack.astype(np.int32).ravel(), anchor.astype(np.int32), router, router_index, distance
    )
    _refuse_unreachable(topology, graph, degree)
    return graph


def _refuse_unconnected(topology: Topology, degree: np.ndarray) -> None:
    alone = np.flatnonzero(degree[: topology.n_host] == 0)
    if len(alone):
        raise ScenarioError(
            "$.topology",
            NO_VALUE,
            f'host "{topology.names[alone[0]]}" has no link',
            fix="add a link, or leave the host out",
            where=topology.source,
        )


def without(topology: Topology, graph: HopGraph, down: np.ndarray) -> HopGraph:
    """The same racks with distances over those cables that are not `down` (bool[n_cable])."""
    distance = _distances(topology, graph.anchor, graph.router, graph.router_index, down)
    return replace(graph, distance=distance)


def _distances(
    topology: Topology,
    anchor: np.ndarray,
    router: np.ndarray,
    router_index: np.ndarray,
    down: np.ndarray | None = None,
) -> np.ndarray:
    """Breadth first from every anchor; only switches (and the anchor) are expanded."""
    index_a, index_b = router_index[topology.cable_a], router_index[topology.cable_b]
    both = (index_a >= 0) & (index_b >= 0)
    if down is not None:
        both &= ~down
    tail = np.concatenate((index_a[both], index_b[both]))
    head = np.concatenate((index_b[both], index_a[both]))
    order = np.lexsort((head, tail))
    tail, head = tail[order], head[order]
    fresh = np.ones(len(tail), bool)
    fresh[1:] = (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])
    tail, head = tail[fresh], head[fresh]
    start = np.searchsorted(tail, np.arange(len(router) + 1))
    count = np.diff(start)
    forwards = router >= topology.n_host
    distance = np.full((len(anchor), len(router)), FAR, np.int16)
    for rack, node in enumerate(anchor):
        at = router_index[node]
        if at < 0:  # a host whose one cable ends at a host: nobody else passes there
            continue
        row = distance[rack]
        row[at] = 0
        frontier, hops = np.array([at]), 0
        while len(frontier):
            hops += 1
            n = count[frontier]
            edge = np.repeat(start[frontier] - np.cumsum(n) + n, n) + np.arange(n.sum())
            reached = head[edge]
            reached = np.unique(reached[row[reached] == FAR])
            row[reached] = hops
            frontier = reached[forwards[reached]]
    return distance


def _refuse_unreachable(topology: Topology, graph: HopGraph, degree: np.ndarray) -> None:
    """Every host must reach every other; name the first pair that does not."""
    host = np.arange(topology.n_host)
    attach = topology.port_node[topology.port_peer[topology.port_start[: topology.n_host]]]
    single = degree[: topology.n_host] == 1
    at_host = single & (attach < topology.n_host)  # reaches that host and no other
    begin = np.where(single & ~at_host, attach, host)
    lost = [_first_other(topology.n_host, (int(h), int(attach[h]))) for h in host[at_host]]
    pairs = [(int(h), other) for h, other in zip(host[at_host], lost, strict=True)]
    for node in np.unique(begin[~at_host]):
        reached = graph.distance[:, graph.router_index[node]] < FAR
        reached |= _direct_racks(topology, graph, node)
        if not reached.all():
            first = int(host[~at_host & (begin == node)][0])
            beyond = np.flatnonzero(~reached[graph.host_rack])
            pairs.append((first, int(beyond[beyond != first][0])))
    pairs = [pair for pair in pairs if pair[1] >= 0]
    if pairs:
        a, b = (topology.names[h] for h in min(pairs))
        fix = "hosts do not forward: join them through switches"
        said = f'host "{a}" cannot reach host "{b}"'
        raise ScenarioError("$.topology", NO_VALUE, said, fix=fix, where=topology.source)


def _first_other(n_host: int, known: tuple[int, int]) -> int:
    """The first host that is none of the two, or -1."""
    return next((h for h in range(min(3, n_host)) if h not in known), -1)


def _direct_racks(topology: Topology, graph: HopGraph, node: int) -> np.ndarray:
    """Racks that are hosts with one cable, which ends at host `node`."""
    found = np.zeros(len(graph.anchor), bool)
    if node >= topology.n_host:
        return found
    ports = np.arange(topology.port_start[node], topology.port_start[node + 1])
    peers = topology.port_node[topology.port_peer[ports]]
    single = peers[(peers < topology.n_host) & (graph.router_index[peers] < 0)]
    found[graph.host_rack[single]] = True
    return found
