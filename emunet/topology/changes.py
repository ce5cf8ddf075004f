"""A topology with some of its links changed, as a scenario's ``links`` say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from emunet.errors import Problems, did_you_mean, one_of
from emunet.topology.core import CableList, Topology, make_topology


def ports_of(topology: Topology, link: Any) -> np.ndarray:
    """Ports whose outgoing links lead from ``link.source`` to ``link.to``, ascending."""
    at, peer = (
        np.array([fnmatchcase(name, pattern) for name in topology.names], bool)
        for pattern in (link.source, link.to)
    )
    other = topology.port_node[topology.port_peer]
    chosen = at[topology.port_node] & peer[other]
    if link.number is not None:
        chosen &= _number(topology) == link.number
    return np.flatnonzero(chosen)


def both_ways(topology: Topology, link: Any) -> np.ndarray:
    """The same, and the ways back unless the change is one way."""
    ports = ports_of(topology, link)
    return ports if link.one_way else np.union1d(ports, topology.port_peer[ports])


def _number(topology: Topology) -> np.ndarray:
    """Which of the links between its two nodes each port's is, in the order of cables."""
    a = np.minimum(topology.cable_a, topology.cable_b).astype(np.int64)
    b = np.maximum(topology.cable_a, topology.cable_b).astype(np.int64)
    pair = a * topology.n_node + b
    order = np.argsort(pair, kind="stable")
    begin = np.flatnonzero(np.diff(pair[order], prepend=-1))
    first = np.repeat(begin, np.diff(np.append(begin, len(order))))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - first
    return number[topology.port_cable]


def changed(topology: Topology, links: Sequence[Any], problems: Problems) -> Topology:
    """The topology with the rates and delays of `links`; the last change of a link counts.

    Parameters
    ----------
    topology : Topology
    links : sequence of emunet.scenario.LinkChange
    problems : Problems
        Gets one for each entry that names no link.
    """
    rate, delay = topology.port_rate_bps.copy(), topology.cable_delay_ps.copy()
    paths = dict(topology.cable_paths)
    for i, link in enumerate(links):
        ports = both_ways(topology, link)
        if not len(ports):
            problems.add(*no_link(topology, link, f"$.links[{i}]"))
            continue
        if link.rate is not None:
            rate[ports] = link.rate
        if link.delay is not None:
            cables = topology.port_cable[ports]
            delay[cables] = link.delay
            paths.update(dict.fromkeys(cables.tolist(), f"$.links[{i}].delay"))
    if (rate == topology.port_rate_bps).all() and (delay == topology.cable_delay_ps).all():
        return topology
    of_end = np.empty((topology.n_cable, 2), np.int64)
    end = (topology.port_node == topology.cable_b[topology.port_cable]).astype(np.int64)
    of_end[topology.port_cable, end] = rate
    cables = CableList()
    cables.add(topology.cable_a, topology.cable_b, of_end[:, 0], delay, of_end[:, 1])
    blocks = topology.blocks
    # the finest common group no longer tells which links are between two hosts
    blocks = None if blocks is None else replace(blocks, groups=())
    made = make_topology(
        topology.kind,
        topology.n_host,
        topology.names,
        topology.tier,
        cables,
        blocks=blocks,
        source=topology.source,
        warnings=topology.warnings,
    )
    return replace(made, cable_paths=paths)


def no_link(topology: Topology, link: Any, at: str) -> tuple[str, str, str, str, str]:
    """What is wrong with an entry that names no link."""
    for key, pattern in (("from", link.source), ("to", link.to)):
        if not any(fnmatchcase(name, pattern) for name in topology.names):
            known, hint = one_of(topology.names, 8), did_you_mean(pattern, topology.names)
            return f"{at}.{key}", pattern, "is the name of no node", known, hint
    near = np.array([fnmatchcase(name, link.source) for name in topology.names], bool)
    peers = topology.port_node[topology.port_peer[near[topology.port_node]]]
    names = sorted({topology.names[node] for node in peers.tolist()})
    any_number = link.model_copy(update={"number": None})
    if len(ports_of(topology, any_number)):
        return f"{at}.number", str(link.number), "is beyond the links between the two", "", ""
    return f"{at}.to", link.to, f"has no link to {link.source}", one_of(names, 8), ""
