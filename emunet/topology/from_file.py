"""Topologies from files of other programs, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from emunet.errors import NO_VALUE, ScenarioError
from emunet.ingest.topology_table import TopologyTable, read_topology
from emunet.topology.core import CableList, Topology, make_topology


def from_table(table: TopologyTable, source: str = "") -> Topology:
    """Topology of a table.

    Hosts come by ascending number in the file, then switches; a node's name is its number there.
    """
    order = [*table.host_ids, *sorted(table.switch_ids)]
    node = np.empty(table.n_node, np.int32)
    node[order] = np.arange(table.n_node, dtype=np.int32)
    cables = CableList()
    cables.add(node[table.cable_a], node[table.cable_b], table.rate_bps, table.delay_ps)
    names = [str(number) for number in order]
    return make_topology(
        "file", len(table.host_ids), names, None, cables, source=source, warnings=table.warnings
    )


def to_table(topology: Topology) -> TopologyTable:
    """Table of a topology, for writing.

    Nodes keep the numbers that their names are, if those are 0 .. n_node-1.

    Raises
    ------
    ScenarioError
        A link with another rate back than forth, which no file of these says.
    """
    uneven = np.flatnonzero(topology.cable_rate_ab_bps != topology.cable_rate_ba_bps)
    if len(uneven):
        a, b = topology.cable_a[uneven[0]], topology.cable_b[uneven[0]]
        raise ScenarioError(
            "$.topology",
            NO_VALUE,
            f'the link of "{topology.names[a]}" and "{topology.names[b]}" has two rates',
            "the same rate both ways in a topology file",
        )
    number = np.arange(topology.n_node, dtype=np.int32)
    if set(topology.names) == {str(i) for i in range(topology.n_node)}:
        number = np.array([int(name) for name in topology.names], np.int32)
    return TopologyTable(
        "hpcc",
        "written",
        topology.n_node,
        sorted(number[topology.n_host :].tolist()),
        number[topology.cable_a],
        number[topology.cable_b],
        topology.cable_rate_ab_bps,
        topology.cable_delay_ps,
    )


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """From the scenario's ``topology: {kind: file, path: ..., dialect: auto}``."""
    path = Path(base_dir) / model.path
    table = read_topology(path, model.dialect or "auto", str(model.path))
    return from_table(table, str(model.path))
