"""Builders give the fabrics that their definitions say: nodes, cables, ports and host numbering."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from emunet.errors import ScenarioError
from emunet.topology import Topology, build, describe
from emunet.topology.dumbbell import dumbbell
from emunet.topology.explicit import Cable, explicit
from emunet.topology.fat_tree import fat_tree
from emunet.topology.leaf_spine import leaf_spine
from emunet.topology.star import star

G = 10**9
US = 10**6


def all_kinds() -> list[Topology]:
    cables = [
        Cable("a", "s", 100 * G, US),
        Cable("b", "s", 40 * G, 2 * US, 10 * G),
        Cable("s", "t", 100 * G, US),
        Cable("t", "s", 100 * G, US),
        Cable("c", "t", 100 * G, US),
    ]
    return [
        star(5, 100 * G, US),
        dumbbell(2, 3, 100 * G, 40 * G, US),
        leaf_spine(3, 2, 4, 100 * G, 400 * G, US, n_parallel=3),
        fat_tree(4, [100 * G, 200 * G, 400 * G], US),
        explicit(["a", "b", "c"], ["s", "t"], cables),
    ]


@pytest.mark.parametrize("topology", all_kinds(), ids=lambda t: t.kind)
def test_ports_are_the_two_ends_of_the_cables(topology: Topology) -> None:
    """Definition: a cable is two ports, each the other's peer; numbered by node, then by cable."""
    assert topology.n_port == 2 * topology.n_cable
    peer = topology.port_peer
    np.testing.assert_array_equal(peer[peer], np.arange(topology.n_port))
    np.testing.assert_array_equal(topology.port_cable[peer], topology.port_cable)
    assert np.all(np.diff(topology.port_node) >= 0)
    for node in range(topology.n_node):
        ports = np.arange(topology.port_start[node], topology.port_start[node + 1])
        assert np.all(topology.port_node[ports] == node)
        assert np.all(np.diff(topology.port_cable[ports]) > 0)
    forth = topology.port_node == topology.cable_a[topology.port_cable]
    rate = np.where(
        forth,
        topology.cable_rate_ab_bps[topology.port_cable],
        topology.cable_rate_ba_bps[topology.port_cable],
    )
    np.testing.assert_array_equal(topology.port_rate_bps, rate)
    delay = topology.cable_delay_ps[topology.port_cable]
    np.testing.assert_array_equal(topology.port_delay_ps, delay)
    assert len(set(topology.names)) == topology.n_node


def test_a_fat_tree_has_the_published_counts() -> None:
    """Al-Fares et al. 2008: k^3/4 hosts, k^2/2 edge and as many aggregation switches, k^2/4 cores,
    k ports each.
    """
    for k in (2, 4, 6, 8):
        t = fat_tree(k, 100 * G, US)
        assert t.n_host == k**3 // 4
        assert np.bincount(t.tier).tolist() == [k**3 // 4, k * k // 2, k * k // 2, k * k // 4]
        assert np.all(np.diff(t.port_start)[t.n_host :] == k)
        assert t.n_cable == 3 * k**3 // 4


def test_fat_tree_hosts_are_numbered_along_the_tree() -> None:
    """The numbering of the other programs' permutation files: host h on ToR h // (k/2), pods
    consecutive.
    """
    k = 8
    t = fat_tree(k, 100 * G, US)
    tor = t.port_node[t.port_peer[t.port_start[: t.n_host]]] - t.n_host
    np.testing.assert_array_equal(tor, np.arange(t.n_host) // (k // 2))
    for a, b in zip(t.cable_a, t.cable_b, strict=True):
        if t.tier[a] == 1:
            assert (a - t.n_host) // (k // 2) == (b - t.n_host - k * k // 2) // (k // 2)


def test_tier_rates_of_a_fat_tree() -> None:
    """Definition of `tier_rates`: host, edge-aggregation, aggregation-core links in this order."""
    t = fat_tree(4, [100 * G, 200 * G, 400 * G], US)
    lower = np.minimum(t.tier[t.cable_a], t.tier[t.cable_b])
    for tier, rate in enumerate((100 * G, 200 * G, 400 * G)):
        assert set(t.cable_rate_ab_bps[lower == tier].tolist()) == {rate}


def test_an_odd_fat_tree_is_refused() -> None:
    """A fat tree halves its ports, so an odd k is refused."""
    with pytest.raises(ValueError, match="even"):
        fat_tree(5, 100 * G, US)


def test_parallel_links_are_links() -> None:
    """Two links between two switches are two links (users of HPCC lose all but the last)."""
    t = leaf_spine(3, 2, 4, 100 * G, 400 * G, US, n_parallel=3)
    assert t.n_cable == 12 + 3 * 2 * 3
    leaf0, spine1 = t.n_host, t.n_host + 3 + 1
    ports = range(t.port_start[leaf0], t.port_start[leaf0 + 1])
    assert sum(t.port_node[t.port_peer[p]] == spine1 for p in ports) == 3


def test_tiers_of_an_explicit_graph_count_from_the_hosts() -> None:
    """Definition of a tier: one more than the lowest neighbour's."""
    cables = [Cable("a", "leaf", G, US), Cable("leaf", "mid", G, US), Cable("mid", "top", G, US)]
    t = explicit(["a"], ["leaf", "mid", "top", "alone"], cables)
    assert t.tier.tolist() == [0, 1, 2, 3, 1]


def test_rates_may_differ_by_direction() -> None:
    """Definition of `rate_back`: the rate from b to a."""
    t = explicit(["a", "b"], [], [Cable("a", "b", 40 * G, US, 10 * G)])
    assert t.port_rate_bps.tolist() == [40 * G, 10 * G]


@pytest.mark.parametrize(
    ("cable", "text"),
    [
        (Cable("a", "sw", G, US), '$.topology.links[0].b: "sw" is not a node; did you mean "sw0"?'),
        (Cable(9, "sw0", G, US), "$.topology.links[0].a: 9 is not a node"),
        (Cable(-1, "sw0", G, US), "$.topology.links[0].a: -1 is not a node"),
        (Cable("a", 0, G, US), "$.topology.links[0].b: 0 is at both ends of the link"),
    ],
)
def test_bad_cables_name_their_place(cable: Cable, text: str) -> None:
    """Rule of the error messages: path, value, problem, fix."""
    with pytest.raises(ScenarioError) as caught:
        explicit(["a", "b"], ["sw0"], [cable])
    assert str(caught.value).startswith(text)


def test_build_goes_by_the_name_of_the_kind() -> None:
    """Claim of `build`: a kind is a file of this package; its defaults are those of the model."""
    common = {"rate": 100 * G, "delay": US}
    models = [
        SimpleNamespace(kind="star", hosts=3, **common),
        SimpleNamespace(kind="dumbbell", left=1, right=2, bottleneck=None, **common),
        SimpleNamespace(
            kind="leaf_spine", leaves=2, spines=2, hosts_per_leaf=2, uplink_rate=None, **common
        ),
        SimpleNamespace(kind="fat_tree", k=4, tier_rates=None, **common),
        SimpleNamespace(
            kind="explicit",
            host_names=["x", "y"],
            switch_names=[],
            links=[SimpleNamespace(a=0, b="y", rate=None, delay=5, rate_back=None)],
            **common,
        ),
    ]
    for model in models:
        t = build(model)
        assert t.kind == model.kind
        assert set(t.port_rate_bps.tolist()) == {100 * G}
    assert build(models[-1]).port_delay_ps.tolist() == [5, 5]


def test_describe_counts_links_and_oversubscription() -> None:
    """Arithmetic: 4 hosts of 100G under 2 x 3 uplinks of 25G make 400 over 150."""
    t = leaf_spine(3, 2, 4, 100 * G, 25 * G, US, n_parallel=3)
    facts = describe(t)
    assert (facts["hosts"], facts["switches"], facts["links"], facts["racks"]) == (12, 5, 30, 3)
    assert facts["oversubscription"][0]["ratio"] == pytest.approx(400 / 150, rel=1e-15)
    assert facts["oversubscription"][1]["ratio"] is None
    up = facts["links_by_tier"][1]
    assert (up["lower"], up["upper"], up["links"], up["parallel"]) == (1, 2, 18, 3)
    assert "base_rtt_ps" not in facts


def test_a_large_fat_tree_is_cheap() -> None:
    """Bound: 65,536 hosts and 393,216 ports in a few arrays of at most 8 bytes, no table for each
    host.
    """
    t = fat_tree(64, 400 * G, US)
    assert (t.n_host, t.n_switch, t.n_port) == (65_536, 5_120, 393_216)
    held = sum(a.nbytes for a in vars(t).values() if isinstance(a, np.ndarray))
    assert held <= 80 * t.n_port
