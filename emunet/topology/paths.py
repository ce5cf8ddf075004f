"""Hops, base round-trip time and ideal completion time between hosts, exact to the picosecond.

The ideal is the message alone in the network on a shortest path at line rate: what the engine gives
for it (its rule of serialisation included), so that slowdowns are ratios of like quantities. Where
several shortest paths differ, each figure is that of the best of them.

Host pairs are grouped by the *way* between them (rates and latencies, link by link), of which a
fabric has few; memory grows with the pairs that are asked for, not with the square of the hosts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from emunet.topology.core import Topology
from emunet.topology.frames import Frames
from emunet.topology.transit import Way, message_ps, one_packet_ps
from emunet.topology.ways import BlockWays, GraphWays


class PathModel:
    """Figures of the shortest paths of a topology.

    Parameters
    ----------
    topology : Topology
    port_rx_latency_ps : int64[n_port], ps
        Latency of packets arriving at each port.
    frames : Frames
        Frame sizes; the MTU is in them.
    """

    def __init__(self, topology: Topology, port_rx_latency_ps: np.ndarray, frames: Frames) -> None:
        self.topology = topology
        self.frames = frames
        fixed_ps = topology.port_delay_ps + port_rx_latency_ps[topology.port_peer]
        finder = BlockWays if topology.uniform else GraphWays
        self._finder: BlockWays | GraphWays = finder(topology, fixed_ps, frames)

    def hops(self, src: ArrayLike, dst: ArrayLike) -> np.ndarray:
        """Links from each `src` to each `dst`: int64, broadcast."""
        return self._by_way(src, dst, lambda ways: len(ways[0]))

    def base_rtt_ps(self, src: ArrayLike, dst: ArrayLike) -> np.ndarray:
        """Round trip through an empty network: full packet out, its ACK back.

        The packet is not the first of its message, so it has no RETH.

        Parameters
        ----------
        src, dst : int array, hosts

        Returns
        -------
        int64 array, ps
        """
        data = int(self.frames.data_slot_bytes(self.frames.mtu_bytes))
        ack = self.frames.ack_slot_bytes
        out = self._by_way(src, dst, lambda ways: min(one_packet_ps(w, data) for w in ways))
        return out + self._by_way(dst, src, lambda ways: min(one_packet_ps(w, ack) for w in ways))

    def ideal_fct_ps(self, src: ArrayLike, dst: ArrayLike, size_bytes: ArrayLike) -> np.ndarray:
        """Start of each message to the arrival of its last byte, alone on the best path.

        Parameters
        ----------
        src, dst : int array, hosts
        size_bytes : int64 array, bytes, at least 1

        Returns
        -------
        int64 array, ps
        """
        sizes = np.asarray(size_bytes, np.int64)
        source, target, sizes = np.broadcast_arrays(np.asarray(src), np.asarray(dst), sizes)
        shape, size = source.shape, sizes.ravel()
        if len(size) and size.min() < 1:
            raise ValueError("a message has at least one byte")
        number = self.way_numbers(source.ravel(), target.ravel())
        ideal = np.empty(len(size), np.int64)
        order = np.argsort(number, kind="stable")
        bounds = np.flatnonzero(np.diff(number[order])) + 1
        for rows in np.split(order, bounds):
            if len(rows):
                ways = self._finder.sets.sets[number[rows[0]]]
                best = message_ps(ways[0], size[rows], self.frames)
                for way in ways[1:]:
                    best = np.minimum(best, message_ps(way, size[rows], self.frames))
                ideal[rows] = best
        return ideal.reshape(shape)

    def ways(self, src: int, dst: int) -> tuple[Way, ...]:
        """The different shortest ways from one host to another."""
        number = self.way_numbers(np.array([src]), np.array([dst]))
        return self._finder.sets.sets[int(number[0])]

    def way_numbers(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """For each pair the number of its set of ways: int32[n]; equal ones have equal figures."""
        if np.any(src == dst):
            raise ValueError(f"host {int(src[src == dst][0])}: a host has no path to itself")
        return self._finder.numbers(src, dst)

    def _by_way(
        self, src: ArrayLike, dst: ArrayLike, figure: Callable[[tuple[Way, ...]], int]
    ) -> np.ndarray:
        source, target = np.broadcast_arrays(np.asarray(src), np.asarray(dst))
        number = self.way_numbers(source.ravel(), target.ravel())
        used, inverse = np.unique(number, return_inverse=True)
        figures = np.array([figure(self._finder.sets.sets[i]) for i in used], np.int64)
        return figures[inverse.ravel()].reshape(source.shape)
