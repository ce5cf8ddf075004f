"""Faults in a scenario: what is said, what is refused, what is warned of."""

from __future__ import annotations

import numpy as np
import pytest

from emunet.errors import ScenarioError, ScenarioErrors
from emunet.plan.compile import compile_scenario
from emunet.plan.routes import next_hops
from emunet.plan.schema import CHANGE_DOWN, CHANGE_RATE, CHANGE_ROUTE, CHANGE_UP
from emunet.scenario import parse_scenario

LEAVES = "topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 400Gbps}\n"


def compiled(faults: str, more: str = "until: 10ms\n"):  # type: ignore[no-untyped-def]
    """A leaf-spine with faults."""
    return compile_scenario(parse_scenario(f"{LEAVES}{more}faults:\n  - {faults}\n"))


@pytest.mark.parametrize(
    ("entry", "path", "text"),
    [
        ("{start: 1ms}", "$.faults[0]", "from and to, or node"),
        ("{from: leaf0}", "$.faults[0]", "from and to, or node"),
        ("{from: leaf0, to: spine9}", "$.faults[0].to", "leaf0"),
        ("{from: leaf9, to: spine0}", "$.faults[0].from", "is the name of no node"),
        ("{from: leaf0, to: spine0, number: 3}", "$.faults[0].number", "beyond the links"),
        ("{node: host0}", "$.faults[0].node", "is the name of no switch"),
        ("{node: spin0}", "$.faults[0].node", "spine0"),
        ("{node: spine0, rate: 1Gbps}", "$.faults[0].rate", "does not go with node"),
        ("{node: spine0, from: leaf0}", "$.faults[0].from", "does not go with node"),
        ("{from: leaf0, to: spine0, start: 2ms, end: 1ms}", "$.faults[0].end", "not after start"),
        ("{from: leaf0, to: spine0, count: 3, end: 1ms}", "$.faults[0]", "count without every"),
        ("{from: leaf0, to: spine0, every: 3ms, end: 1ms}", "$.faults[0]", "every without count"),
        ("{from: leaf0, to: spine0, every: 3ms, count: 2}", "$.faults[0]", "does not end"),
        (
            "{from: leaf0, to: spine0, start: 1ms, end: 3ms, every: 2ms, count: 2}",
            "$.faults[0].every",
            "not longer than the fault",
        ),
        ("{from: leaf0, to: spine0, mean_up: 3ms}", "$.faults[0]", "without mean_down"),
        ("{from: leaf0, to: spine0, mean_down: 3ms}", "$.faults[0]", "without mean_up"),
        ("{from: leaf0, to: spine0, down: 3ms}", "$.faults[0].down", "no such key"),
        ("{from: leaf0, to: spine0, rate: 0}", "$.faults[0].rate", ""),
    ],
)
def test_wrong_entries_are_refused(entry: str, path: str, text: str) -> None:
    """Claim: each error names its path and what stands there instead; authority: the issue's rule
    on bad input."""
    with pytest.raises((ScenarioError, ScenarioErrors)) as caught:
        compiled(entry)
    assert path in str(caught.value) and text in str(caught.value)


def test_random_faults_need_an_end() -> None:
    """Claim: times drawn without end, in a run without end, are refused."""
    with pytest.raises(ScenarioError, match="without end"):
        compiled("{from: leaf0, to: spine0, mean_up: 1ms, mean_down: 1ms}", more="")
    compiled("{from: leaf0, to: spine0, mean_up: 1ms, mean_down: 1ms}")


def test_too_many_outages_are_refused() -> None:
    """Claim: a million outages is the most that is planned, and said at once."""
    with pytest.raises(ScenarioError, match="more than 1,000,000 outages"):
        compiled("{from: leaf*, to: spine*, end: 1us, every: 2us, count: 200000}")


@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        ("{from: leaf0, to: spine0, start: 1ms, end: 1.5ms}", "less than routing.detection"),
        ("{from: leaf0, to: spine0, start: 9.5ms}", "ends before routing.detection"),
        ("{from: leaf0, to: spine0, start: 11ms}", "after the end of the run"),
        ("{from: leaf0, to: spine0, start: 1ms, end: 5ms}", ""),
        ("{from: leaf0, to: spine0, start: 1ms, end: 1.5ms, rate: 1Gbps}", ""),
        ("{node: spine0, start: 1ms, end: 1.5ms}", ""),
    ],
)
def test_what_nobody_notices_is_warned_of(entry: str, warning: str) -> None:
    """Claim: faults that change no route, or come too late, run with a warning."""
    found = [w for w in compiled(entry).warnings if w.startswith("$.faults")]
    assert len(found) == bool(warning)
    assert not warning or warning in found[0]


def test_a_scenario_with_faults_reads_back_equal() -> None:
    """Claim: `to_yaml` keeps what was said of faults and routing."""
    text = LEAVES + (
        "routing: {detection: 5us, convergence: 70us}\n"
        "faults: [{from: leaf0, to: spine*, start: 1ms, end: 2ms, every: 2ms, count: 3}]\n"
    )
    scenario = parse_scenario(text)
    assert parse_scenario(scenario.to_yaml()) == scenario
    assert parse_scenario(scenario.to_yaml(defaults=False)) == scenario


def test_a_leaf_uses_what_is_left_and_a_far_one_follows() -> None:
    """Claim: the plan's changes are those of docs/faults.md: both ends close the port, the near
    leaf drops it from its next hops at once, the far one when all know, and all comes back."""
    plan = compiled(
        "{from: leaf0, to: spine1, start: 1ms, end: 4ms}",
        "routing: {detection: 1ms, convergence: 1ms}\n",
    ).plan
    found = {
        (plan.names[node], int(plan.change_ps[i]) // 10**9, int(plan.change_kind[i]))
        for node in range(plan.n_node)
        for i in range(plan.node_change_start[node], plan.node_change_start[node + 1])
    }
    assert found == {
        ("leaf0", 2, CHANGE_DOWN), ("leaf0", 2, CHANGE_ROUTE),
        ("leaf0", 5, CHANGE_UP),
        ("leaf1", 3, CHANGE_ROUTE), ("leaf1", 6, CHANGE_ROUTE),
        ("spine1", 2, CHANGE_DOWN), ("spine1", 2, CHANGE_ROUTE),
        ("spine1", 3, CHANGE_ROUTE),
        ("spine1", 5, CHANGE_UP), ("spine1", 6, CHANGE_ROUTE),
        ("leaf0", 6, CHANGE_ROUTE),
    }  # fmt: skip
    leaf1 = plan.names.index("leaf1")
    first = int(plan.node_change_start[leaf1])
    hops = []
    for i in (first, first + 1):
        arrays = {
            **plan.arrays,
            "node_route_kind": np.full(plan.n_node, 2),
            "node_table_row": np.full(plan.n_node, plan.change_value[i]),
        }
        hops.append(next_hops(arrays, leaf1, 0).tolist())
    assert hops[1] == next_hops(plan.arrays, leaf1, 0).tolist() == [2, 3]
    assert hops[0] == [2]


def test_the_last_rate_of_an_instant_counts() -> None:
    """Claim: overlapping changes of a rate hold in the order of the list; both ways unless one_way.
    """
    scenario = parse_scenario(
        LEAVES + "faults:\n"
        "  - {from: leaf0, to: spine0, rate: 100Gbps, start: 1ms, end: 2ms}\n"
        "  - {from: leaf0, to: spine0, rate: 50Gbps, start: 1ms, end: 3ms, one_way: true}\n"
    )
    plan = compile_scenario(scenario).plan
    steps = {
        plan.names[node]: plan.change_value[
            plan.node_change_start[node] : plan.node_change_start[node + 1]
        ].tolist()
        for node in range(plan.n_node)
    }
    assert set(plan.change_kind) == {CHANGE_RATE}
    assert steps["leaf0"] == [50 * 10**9, 400 * 10**9, 400 * 10**9]
    assert steps["spine0"] == [100 * 10**9, 400 * 10**9]
