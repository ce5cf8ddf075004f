"""Route arrays give every next hop of every shortest path, and only those."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import ScenarioError
from emunet.plan.routes import next_hops, routes
from emunet.plan.schema import ROUTE_BLOCK, ROUTE_LOCAL, ROUTE_NONE, ROUTE_TABLE
from emunet.topology import Topology
from emunet.topology.dumbbell import dumbbell
from emunet.topology.explicit import Cable, explicit
from emunet.topology.fat_tree import fat_tree
from emunet.topology.leaf_spine import leaf_spine
from emunet.topology.star import star

G = 10**9
US = 10**6


def cables(*pairs: str) -> list[Cable]:
    """Cables from "a-b" texts."""
    return [Cable(*pair.split("-"), 100 * G, US) for pair in pairs]


def structured() -> list[Topology]:
    return [
        star(1, G, US),
        star(5, G, US),
        dumbbell(2, 3, G, G, US),
        dumbbell(1, 1, G, G, US),
        leaf_spine(3, 2, 4, G, G, US, n_parallel=3),
        leaf_spine(1, 2, 3, G, G, US),
        leaf_spine(4, 1, 1, G, G, US),
        fat_tree(2, G, US),
        fat_tree(4, G, US),
        fat_tree(6, G, US),
    ]


def graphs() -> list[Topology]:
    ring = cables("a-s", "b-t", "c-u", "d-v", "s-t", "t-u", "u-v", "v-s")
    return [
        explicit("ab", [], cables("a-b")),
        explicit("ab", [], cables("a-b", "a-b", "b-a")),
        explicit("abc", [], cables("a-b", "b-c", "c-a")),
        explicit("abcd", "stuv", ring),
        explicit("abcd", "stuv", [*ring, *cables("s-t", "s-t")]),
        explicit("abc", "st", cables("a-s", "a-t", "b-s", "b-t", "c-s")),
        explicit("abc", "s", cables("a-s", "b-s", "c-s", "a-b")),
        explicit("abc", "st", cables("a-s", "a-s", "b-t", "c-t", "s-t", "s-t", "s-t", "s-t")),
        explicit("ab", "stx", cables("a-s", "s-t", "t-b")),
        *(replace(t, blocks=None) for t in structured()),
    ]


def arrays_of(topology: Topology) -> dict[str, np.ndarray]:
    return {
        **routes(topology),
        "node_port_start": topology.port_start,
        "port_peer": topology.port_peer,
    }


def oracle(topology: Topology, dst: int) -> dict[int, set[int]]:
    """Local ports on shortest paths to `dst` from every node, by networkx on the graph without the
    other hosts.
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(topology.n_host, topology.n_node))
    graph.add_node(dst)
    owner = topology.port_node
    peer = topology.port_node[topology.port_peer]
    for a, b in zip(owner.tolist(), peer.tolist(), strict=True):
        if all(n >= topology.n_host or n == dst for n in (a, b)):
            graph.add_edge(a, b)
    length = nx.single_source_shortest_path_length(graph, dst)
    found: dict[int, set[int]] = {}
    for node in range(topology.n_node):
        ports = range(topology.port_start[node], topology.port_start[node + 1])
        near = {p - ports.start: length.get(int(peer[p])) for p in ports}
        reached = [d for d in near.values() if d is not None]
        found[node] = {i for i, d in near.items() if reached and d == min(reached)}
        if node >= topology.n_host and node not in length:
            found[node] = set()
    return found


def check_against_networkx(topology: Topology) -> None:
    arrays = arrays_of(topology)
    for dst in range(topology.n_host):
        expected = oracle(topology, dst)
        for node in range(topology.n_node):
            if node != dst:
                got = next_hops(arrays, node, dst).tolist()
                assert got == sorted(expected[node]), (topology.names[node], topology.names[dst])


@pytest.mark.parametrize("topology", structured(), ids=lambda t: f"{t.kind}-{t.n_host}")
def test_block_routes_are_the_shortest_paths(topology: Topology) -> None:
    """Authority: networkx. Arithmetic routes of structured fabrics equal the shortest paths of
    their graph.
    """
    assert set(routes(topology)["node_route_kind"].tolist()) <= {ROUTE_NONE, ROUTE_BLOCK}
    check_against_networkx(topology)


@pytest.mark.parametrize("topology", graphs(), ids=lambda t: f"{t.kind}-{t.n_host}-{t.n_cable}")
def test_table_routes_are_the_shortest_paths(topology: Topology) -> None:
    """Authority: networkx, on graphs with parallel links, direct host links, hosts with several
    ports and stubs.
    """
    assert ROUTE_BLOCK not in routes(topology)["node_route_kind"]
    check_against_networkx(topology)


@st.composite
def connected_graphs(draw: st.DrawFn) -> Topology:
    """A random tree of switches with extra cables, and hosts with one to three ports."""
    n_switch = draw(st.integers(1, 7))
    n_host = draw(st.integers(1, 6))
    switch = st.integers(n_host, n_host + n_switch - 1)
    pairs = [(n_host + i, n_host + draw(st.integers(0, i - 1))) for i in range(1, n_switch)]
    if n_switch > 1:
        extra = st.tuples(switch, switch).filter(lambda pair: pair[0] != pair[1])
        pairs += draw(st.lists(extra, max_size=8))
    for host in range(n_host):
        pairs += [(host, s) for s in draw(st.lists(switch, min_size=1, max_size=3))]
    order = draw(st.permutations(range(len(pairs))))
    names = [f"h{i}" for i in range(n_host)], [f"s{i}" for i in range(n_switch)]
    return explicit(*names, [Cable(*pairs[i], 100 * G, US) for i in order])


@settings(max_examples=60, deadline=None)
@given(connected_graphs())
def test_random_graphs(topology: Topology) -> None:
    """Authority: networkx, on random connected graphs."""
    check_against_networkx(topology)


def test_hosts_of_a_switch_share_a_rack() -> None:
    """Bound of the design: one column for each attach switch, not for each host; equal sets and
    equal rows are kept once: those of the cores are alike, and those of a pod's upper switches.
    """
    t = replace(fat_tree(6, G, US), blocks=None)
    arrays = routes(t)
    n_tor = 18
    assert len(np.unique(arrays["host_rack"])) == n_tor
    assert len(arrays["route_set"]) == (n_tor + 6 + 1) * n_tor
    assert (arrays["route_set"] == ROUTE_LOCAL).sum() == n_tor
    assert len(arrays["set_start"]) - 1 == 7  # a single port (of 6), or the three up
    assert set(arrays["node_route_kind"][: t.n_host].tolist()) == {ROUTE_NONE}


def test_a_host_with_several_ports_is_its_own_rack_and_has_a_row() -> None:
    """Rule of the Plan: hosts with several ports choose among them by table."""
    t = explicit("abc", "st", cables("a-s", "a-t", "b-s", "b-t", "c-s", "s-t"))
    arrays = arrays_of(t)
    assert arrays["node_route_kind"][:3].tolist() == [ROUTE_TABLE, ROUTE_TABLE, ROUTE_NONE]
    assert len(set(arrays["host_rack"].tolist())) == 3
    assert next_hops(arrays, 0, 1).tolist() == [0, 1]
    assert next_hops(arrays, 0, 2).tolist() == [0]


def test_four_parallel_links_are_four_next_hops() -> None:
    """K7: four cables between two switches are four candidates each way."""
    t = explicit("ab", "st", cables("a-s", "b-t", "s-t", "s-t", "s-t", "s-t"))
    arrays = arrays_of(t)
    assert next_hops(arrays, 2, 1).tolist() == [1, 2, 3, 4]
    assert next_hops(arrays, 3, 0).tolist() == [1, 2, 3, 4]


def test_structured_fabrics_have_no_tables() -> None:
    """Bound of the design: a 65,536-host fat tree takes no entry for each host or rack in any
    switch.
    """
    arrays = routes(fat_tree(64, 400 * G, US))
    assert len(arrays["route_set"]) == len(arrays["set_port"]) == 0
    assert sum(a.nbytes for a in arrays.values()) < 64 * (65_536 + 5_120)


@pytest.mark.parametrize(
    ("hosts", "switches", "links", "text"),
    [
        ("ab", "s", ["a-s"], 'host "b" has no link'),
        ("abcd", "st", ["a-s", "b-s", "c-t", "d-t"], 'host "a" cannot reach host "c"'),
        ("abc", "", ["a-b", "b-c"], 'host "a" cannot reach host "c"'),
        ("abc", "s", ["a-s", "b-s", "b-c"], 'host "a" cannot reach host "c"'),
        ("abc", "st", ["a-s", "b-s", "b-t", "c-t"], 'host "a" cannot reach host "c"'),
        ("abcd", "s", ["a-s", "b-s", "c-d"], 'host "a" cannot reach host "c"'),
    ],
)
def test_hosts_that_cannot_reach_each_other_are_named(
    hosts: str, switches: str, links: list[str], text: str
) -> None:
    """Rule: hosts do not forward, and every pair must be connected; the error names the first that
    is not.
    """
    with pytest.raises(ScenarioError) as caught:
        routes(explicit(hosts, switches, cables(*links)))
    assert text in str(caught.value)


def test_leaves_without_spines_are_refused() -> None:
    """The same for structured fabrics."""
    with pytest.raises(ScenarioError) as caught:
        routes(leaf_spine(2, 0, 2, G, G, US))
    assert 'host "host0" cannot reach host "host2"' in str(caught.value)


def test_a_long_chain_needs_no_deep_stack() -> None:
    """Bound: 1,500 switches in a row are routed like three."""
    n = 1500
    line = [Cable(2 + i, 3 + i, G, US) for i in range(n - 1)]
    t = explicit(
        "ab", [f"s{i}" for i in range(n)], [Cable(0, 2, G, US), Cable(1, n + 1, G, US), *line]
    )
    arrays = arrays_of(t)
    assert all(len(next_hops(arrays, node, 1)) == 1 for node in range(2, 2 + n))
