"""Links of a scenario that differ."""

from __future__ import annotations

import numpy as np
import pytest

from emunet.errors import ScenarioError
from emunet.plan.compile import Compiled, compile_scenario
from emunet.scenario import parse_scenario

LEAVES = "topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 400Gbps}\n"
GBPS = 10**9


def compiled(text: str, topology: str = LEAVES) -> Compiled:
    """Two leaves, two spines, these links."""
    return compile_scenario(parse_scenario(topology + text))


def slow(found: Compiled, below: int = 400 * GBPS) -> list[str]:
    """Names of the links below a rate."""
    topology = found.topology
    ports = np.flatnonzero(topology.port_rate_bps < below)
    return sorted(topology.link_name(p) for p in ports)


def test_both_ways_unless_one_way() -> None:
    """docs/scenario.md: rate and losses hold both ways unless `one_way` is set."""
    link = "{from: leaf0, to: spine1, rate: 100Gbps"
    assert slow(compiled(f"links: [{link}}}]")) == ["leaf0 -> spine1", "spine1 -> leaf0"]
    assert slow(compiled(f"links: [{link}, one_way: true}}]")) == ["leaf0 -> spine1"]


def test_patterns_and_the_last_entry() -> None:
    """docs/scenario.md: patterns of names; the last entry that changes a link counts."""
    text = (
        "links:\n"
        '  - {from: "leaf*", to: "spine*", rate: 100Gbps}\n'
        "  - {from: spine0, to: leaf1, rate: 800Gbps, delay: 5us}\n"
    )
    found = compiled(text)
    assert len(slow(found)) == 6
    assert slow(found, 10**12) != slow(found)
    delays = found.topology.port_delay_ps
    assert np.count_nonzero(delays == 5_000_000) == 2


def test_one_of_several_links() -> None:
    """docs/scenario.md: `number` counts the links between two nodes from 0."""
    tree = (
        "topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts_per_leaf: 1, rate: 400Gbps,"
        " parallel: 3}\n"
    )
    for number in range(3):
        text = f"links: [{{from: leaf1, to: spine0, number: {number}, rate: 1Gbps, one_way: true}}]"
        topology = compiled(text, tree).topology
        port = int(np.flatnonzero(topology.port_rate_bps == GBPS)[0])
        assert topology.link_name(port) == "leaf1 -> spine0"
        at = topology.port_start[topology.port_node[port]]
        to_spine = topology.port_node[topology.port_peer[at:port]] >= topology.n_host
        assert int(to_spine.sum()) == number


def test_losses_are_those_of_the_channel() -> None:
    """Gilbert 1960: share p of bad frames in runs of B: bad ends with 1 / B, and begins with
    p / (1 - p) / B.
    """
    plan = compiled(
        "links: [{from: host0, to: leaf0, loss: 0.2, burst: 4, start: 1us, end: 9us}]"
    ).plan
    ports = np.flatnonzero(plan.port_loss_end_ps)
    assert plan.port_node[ports].tolist() == [0, 4]
    assert plan.port_loss[ports].tolist() == [[0.0, 1.0]] * 2
    assert plan.port_loss_change[ports] == pytest.approx(np.array([[0.2 / 0.8 / 4, 0.25]] * 2))
    assert plan.port_loss_start_ps[ports[0]] == 1_000_000
    assert plan.port_loss_end_ps[ports[0]] == 9_000_000


def test_nothing_changes_without_links() -> None:
    """The same Plan as from explicit rates: a change to what a link is already changes nothing."""
    same = "links: [{from: 'host*', to: 'leaf*', rate: 400Gbps}]"
    assert compiled(same).plan.digest == compiled("").plan.digest


def test_links_survive_being_written() -> None:
    """Claim of `to_yaml`: it loads back equal."""
    text = "links: [{from: leaf0, to: spine0, loss: 1e-3}, {from: leaf1, to: spine0, delay: 2us}]"
    scenario = parse_scenario(LEAVES + text)
    assert parse_scenario(scenario.to_yaml(defaults=False)) == scenario
    assert parse_scenario(scenario.to_yaml()).links == scenario.links


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("links: {from: leaf0, to: spine0}", "write a dash before it"),
        ("links: [{from: leaf0, to: spine0}]", "$.links[0]: changes nothing"),
        ("links: [{from: leaf0, rate: 1Gbps}]", "$.links[0].to: is missing"),
        ("links: [{from: laef0, to: spine0, rate: 1Gbps}]", '$.links[0].from: "laef0" is the name'),
        ("links: [{from: leaf0, to: leaf1, rate: 1Gbps}]", "has no link to leaf0"),
        ("links: [{from: leaf0, to: spine0, number: 1, rate: 1Gbps}]", "$.links[0].number"),
        ("links: [{from: leaf0, to: spine0, loss: 2}]", "$.links[0].loss"),
        ("links: [{from: leaf0, to: spine0, burst: 3}]", "$.links[0]: changes nothing"),
        ("links: [{from: leaf0, to: spine0, loss: 0.9, burst: 2}]", "$.links[0].burst: 2"),
        ("links: [{from: leaf0, to: spine0, loss: 0.5, bad_loss: 1}]", "of use only with burst"),
        ("links: [{from: leaf0, to: spine0, loss: 0.5, burst: 9, bad_loss: 0.5}]", "below bad_"),
        ("links: [{from: leaf0, to: spine0, loss: 0.5, start: 2us, end: 1us}]", "not after start"),
        ("links: [{from: leaf0, to: spine0, delay: 0}]\nswitch: {latency: 0}", "$.links[0].delay"),
        ("links: [{from: leaf0, to: spine0, speed: 1Gbps}]", "no such key"),
    ],
)
def test_wrong_links_are_refused_by_path(text: str, said: str) -> None:
    """docs/scenario.md, Errors: the path of the value, what is wrong, what to write instead."""
    with pytest.raises(ScenarioError) as caught:
        compiled(text)
    assert said in str(caught.value)
