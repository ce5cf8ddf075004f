"""Ways between hosts: shortest paths, as far as they show in times.

A fabric has few different ways. Every pair of hosts gets the number of its *set* of ways (several
shortest paths may differ in rate or length); figures are then computed once for each number.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from emunet.topology.core import Topology
from emunet.topology.frames import Frames
from emunet.topology.hops import FAR
from emunet.topology.transit import Link, Way, one_packet_ps

MAX_WAYS = 16
"""Ways kept of a set; beyond it those with the least one-way time of a full packet."""

_NONE = -1
_BITS = 20


class WaySets:
    """Sets of ways, each with a number."""

    def __init__(self, full_slot_bytes: int) -> None:
        self.sets: list[tuple[Way, ...]] = []
        self._number: dict[tuple[Way, ...], int] = {}
        self._full_slot_bytes = full_slot_bytes

    def number(self, ways: set[Way]) -> int:
        """Number of a set."""
        kept = tuple(sorted(ways))
        if len(kept) > MAX_WAYS:
            kept = tuple(sorted(kept, key=self._rank)[:MAX_WAYS])
        if kept not in self._number:
            self._number[kept] = len(self.sets)
            self.sets.append(kept)
        return self._number[kept]

    def _rank(self, way: Way) -> tuple[int, Way]:
        return one_packet_ps(way, self._full_slot_bytes), way


class BlockWays:
    """Structured fabrics: the finest group that two hosts share decides."""

    def __init__(self, topology: Topology, fixed_ps: np.ndarray, frames: Frames) -> None:
        self.topology = topology
        self.fixed_ps = fixed_ps
        self.sets = WaySets(int(frames.data_slot_bytes(frames.mtu_bytes)))
        self._level_number: dict[int, int] = {}

    def numbers(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """For each pair the number of its set of ways: int32[n]."""
        blocks = self.topology.blocks
        assert blocks is not None
        level = np.full(len(src), len(blocks.groups) - 1, np.int32)
        for i in range(len(blocks.groups) - 2, -1, -1):
            level[blocks.groups[i][src] == blocks.groups[i][dst]] = i
        number = np.empty(len(src), np.int32)
        for i in range(len(blocks.groups)):
            rows = np.flatnonzero(level == i)
            if len(rows):
                if i not in self._level_number:
                    way = self._follow(int(src[rows[0]]), int(dst[rows[0]]))
                    self._level_number[i] = self.sets.number({way})
                number[rows] = self._level_number[i]
        return number

    def _follow(self, src: int, dst: int) -> Way:
        """Walk from host to host by the block rule, always through the first candidate."""
        topology, blocks = self.topology, self.topology.blocks
        assert blocks is not None
        port, way = int(topology.port_start[src]), []
        while True:
            way.append(Link(int(topology.port_rate_bps[port]), int(self.fixed_ps[port])))
            node = int(topology.port_node[topology.port_peer[port]])
            if node == dst:
                return tuple(way)
            s = node - topology.n_host
            lo = int(blocks.host_lo[s])
            if lo <= dst < blocks.host_hi[s]:
                child = (dst - lo) // int(blocks.block[s])
                local = int(blocks.down_start[s]) + child * int(blocks.down_par[s])
            else:
                local = int(blocks.up_start[s])
            port = int(topology.port_start[node]) + local


class GraphWays:
    """Other graphs: rack by rack from the anchor outwards, all routers of one distance at once."""

    def __init__(self, topology: Topology, fixed_ps: np.ndarray, frames: Frames) -> None:
        self.topology = topology
        self.sets = WaySets(int(frames.data_slot_bytes(frames.mtu_bytes)))
        self._inner = WaySets(int(frames.data_slot_bytes(frames.mtu_bytes)))
        self._inner.number({()})
        links, kind = np.unique(
            np.column_stack((topology.port_rate_bps, fixed_ps)), axis=0, return_inverse=True
        )
        self._links = [Link(rate, fixed) for rate, fixed in links.tolist()]
        self._link_kind = kind.ravel().astype(np.int64)
        self._rack_rows: dict[int, np.ndarray] = {}
        self._merged: dict[tuple[int, ...], int] = {}
        self._joined: dict[tuple[int, int, int], int] = {}

    def numbers(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """For each pair the number of its set of ways: int32[n]."""
        graph = self.topology.hop_graph
        router, first = self._sources
        last = self._lasts
        rack = graph.host_rack[dst].astype(np.int64)
        at_host = graph.router_index[graph.anchor[rack]] < 0  # one cable, which ends at a host
        inner = np.zeros(len(src), np.int64)
        order = np.argsort(rack, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(rack[order])) + 1):
            if len(rows) and not at_host[rows[0]]:
                inner[rows] = self._rack_row(int(rack[rows[0]]))[router[src[rows]]]
        head = np.where(at_host, _NONE, first[src])
        key = ((head + 1) << (2 * _BITS)) | ((last[dst] + 1) << _BITS) | inner
        used, inverse = np.unique(key, return_inverse=True)
        mask = (1 << _BITS) - 1
        number = [
            self._join((k >> (2 * _BITS)) - 1, k & mask, ((k >> _BITS) & mask) - 1)
            for k in used.tolist()
        ]
        return np.array(number, np.int32)[inverse.ravel()]

    @cached_property
    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Router where each host's paths begin, and the kind of link to it (or none)."""
        topology, graph = self.topology, self.topology.hop_graph
        port = topology.port_start[: topology.n_host]
        attach = topology.port_node[topology.port_peer[port]]
        own = graph.router_index[: topology.n_host]
        single = own < 0
        router = np.where(single, graph.router_index[attach], own)
        return router, np.where(single, self._link_kind[port], _NONE)

    @cached_property
    def _lasts(self) -> np.ndarray:
        """Kind of the last link to each host; none if the host is its rack's anchor."""
        topology, graph = self.topology, self.topology.hop_graph
        arriving = topology.port_peer[topology.port_start[: topology.n_host]]
        single = graph.router_index[: topology.n_host] < 0
        return np.where(single, self._link_kind[arriving], _NONE)

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Different (router, router, kind of link) of the graph."""
        topology, graph = self.topology, self.topology.hop_graph
        tail = graph.router_index[topology.port_node]
        head = graph.router_index[topology.port_node[topology.port_peer]]
        both = (tail >= 0) & (head >= 0)
        found = np.column_stack((tail, head, self._link_kind))[both]
        found = np.unique(found, axis=0).astype(np.int64)
        return found[:, 0], found[:, 1], found[:, 2]

    def _rack_row(self, rack: int) -> np.ndarray:
        """Number of the set of ways from each router to a rack's anchor, -1 if there is none."""
        if rack not in self._rack_rows:
            graph = self.topology.hop_graph
            distance = graph.distance[rack].astype(np.int64)
            tail, head, kind = self._edges
            forwards = graph.router >= self.topology.n_host
            nearer = (distance[tail] == distance[head] + 1) & (distance[tail] < FAR)
            nearer &= forwards[head] | (distance[head] == 0)
            tail, head, kind = tail[nearer], head[nearer], kind[nearer]
            order = np.argsort(distance[tail], kind="stable")
            row = np.full(len(graph.router), _NONE, np.int64)
            row[distance == 0] = 0
            for edges in np.split(order, np.flatnonzero(np.diff(distance[tail[order]])) + 1):
                self._spread(row, tail[edges], head[edges], kind[edges])
            self._rack_rows[rack] = row
        return self._rack_rows[rack]

    def _spread(
        self, row: np.ndarray, tail: np.ndarray, head: np.ndarray, kind: np.ndarray
    ) -> None:
        """Fill the routers of one distance from those one nearer."""
        step = (kind << _BITS) | row[head]
        pairs = np.unique((tail << (2 * _BITS)) | step)
        tail, step = pairs >> (2 * _BITS), pairs & ((1 << (2 * _BITS)) - 1)
        begin = np.flatnonzero(np.diff(tail, prepend=-1))
        count = np.diff(np.append(begin, len(tail)))
        alone = begin[count == 1]
        used, inverse = np.unique(step[alone], return_inverse=True)
        merged = np.array([self._merge((s,)) for s in used.tolist()], np.int64)
        row[tail[alone]] = merged[inverse.ravel()] if len(used) else 0
        for start, n in zip(begin[count > 1].tolist(), count[count > 1].tolist(), strict=True):
            row[tail[start]] = self._merge(tuple(step[start : start + n].tolist()))

    def _merge(self, steps: tuple[int, ...]) -> int:
        """Number of the union of ways that begin with one of the steps.

        A step is the kind of a link and the set of ways from its end.
        """
        if steps not in self._merged:
            mask = (1 << _BITS) - 1
            self._merged[steps] = self._inner.number(
                {
                    (self._links[s >> _BITS], *way)
                    for s in steps
                    for way in self._inner.sets[s & mask]
                }
            )
        return self._merged[steps]

    def _join(self, first: int, inner: int, last: int) -> int:
        """Number of the ways with the host links put before and after."""
        key = (first, inner, last)
        if key not in self._joined:
            before: Way = () if first == _NONE else (self._links[first],)
            after: Way = () if last == _NONE else (self._links[last],)
            self._joined[key] = self.sets.number(
                {before + way + after for way in self._inner.sets[inner]}
            )
        return self._joined[key]
