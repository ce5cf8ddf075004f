"""Switches in a scenario: classes, groups, the catalogue."""

from __future__ import annotations

import numpy as np
import pytest

from emunet import catalog
from emunet.errors import ScenarioError
from emunet.plan.compile import compile_scenario
from emunet.plan.schema import DYNAMIC, NO_LIMIT, Plan
from emunet.scenario import Scenario, Switch, parse_scenario

TREE = "topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 400Gbps}\n"
FRAME, LONGEST = 4174, 4194
"""Frame and link bytes of a full first packet at an MTU of 4096."""


def plan(text: str) -> Plan:
    """Plan of two leaves (0, 1) and two spines (2, 3) with these switches."""
    return compile_scenario(parse_scenario(TREE + text)).plan


def test_a_lossless_class_is_bounded_at_ingress_and_a_lossy_one_at_egress() -> None:
    """Buffer profiles of SONiC, and docs/scenario.md: the defaults of `ingress` and `egress`."""
    p = plan("switch: {dt_alpha: 1/4}")
    assert p.switch_group_limit_bytes[0].tolist() == [*[NO_LIMIT] * 3, DYNAMIC, *[NO_LIMIT] * 4]
    assert p.switch_queue_limit_bytes[0].tolist() == [*[DYNAMIC] * 3, NO_LIMIT, *[DYNAMIC] * 4]
    assert p.switch_group_alpha[0, 3] == p.switch_queue_alpha[0, 0] == 0.25
    assert not p.switch_quantum_bytes.any() and (p.switch_cell_bytes == 1).all()


def test_classes_change_what_they_name() -> None:
    """docs/scenario.md: each key of a class stands for itself, null for the switch's."""
    p = plan(
        "switch:\n"
        "  classes:\n"
        "    3: {ingress: {static: 9MB}, weight: 3, reserved: 2KB}\n"
        "    0: {egress: none, ingress: {alpha: 1/2}, weight: 2}\n"
    )
    assert p.switch_group_limit_bytes[2, [0, 3]].tolist() == [DYNAMIC, 9_000_000]
    assert p.switch_group_alpha[2, 0] == 0.5
    assert p.switch_queue_limit_bytes[2, 0] == NO_LIMIT
    assert p.switch_reserved_bytes[2].tolist() == [0, 0, 0, 2000, 0, 0, 0, 0]
    # the least weight is worth the longest packet
    assert p.switch_quantum_bytes[2, [0, 3]].tolist() == [LONGEST, LONGEST * 3 // 2]
    assert int(p.switch_quantum_bytes[2].sum()) == LONGEST + LONGEST * 3 // 2


def test_groups_change_only_what_they_say() -> None:
    """docs/scenario.md: the last match counts; what a group does not say is `switch`'s."""
    p = plan(
        "switch: {buffer: 20MB, latency: 400ns}\n"
        "switches:\n"
        '  - {where: "spine*", buffer: 64MB, ecn: false, pfc: false}\n'
        "  - {where: spine1, buffer: 80MB, latency: 100ns}\n"
    )
    assert p.switch_buffer_bytes.tolist() == [20_000_000, 20_000_000, 64_000_000, 80_000_000]
    of = [int(p.node_port_start[4 + s]) for s in range(4)]
    assert p.port_rx_latency_ps[of].tolist() == [400_000, 400_000, 400_000, 100_000]
    assert [bool(x) for x in p.switch_lossless] == [True, True, False, True]
    assert (p.port_ecn_kmin_bytes[of] == NO_LIMIT).tolist() == [False, False, True, False]


def test_headroom_in_cells_counts_the_worst_size_of_frames() -> None:
    """An ACK of 66 bytes, 86 on the link, takes one cell of 254: 2.95 times its slot bytes, more
    than any longer frame; the packet that finds the pool full takes 17 cells.
    """
    exact, cells = (plan(f"switch: {{cell: {c}B}}").port_headroom_bytes[-1] for c in (1, 254))
    assert cells == pytest.approx((exact - FRAME) * 254 / 84 + 17 * 254, abs=1)


def test_a_common_headroom_leaves_more_to_share() -> None:
    """docs/semantics.md 3.2: S is the buffer less H, the sum of headrooms or the pool."""
    own, common = plan(""), plan("switch: {headroom_pool: 500KB}")
    need = own.port_headroom_bytes[own.port_node == 4].sum()
    assert int(own.switch_shared_bytes[0]) == 32_000_000 - need
    assert int(common.switch_shared_bytes[0]) == 32_000_000 - 500_000
    assert int(common.switch_headroom_bytes[0]) == 500_000


def test_marking_grows_with_the_rate_where_the_scenario_says_for_which_it_is() -> None:
    """docs/scenario.md: `at` is the rate that kmin and kmax are for."""
    p = plan("switch: {ecn: {kmin: 100KB, kmax: 400KB, at: 100Gbps}}")
    assert p.port_ecn_kmin_bytes[-1] == 400_000 and p.port_ecn_kmax_bytes[-1] == 1_600_000


@pytest.mark.parametrize("name", catalog.names("switches"))
def test_every_switch_of_the_catalogue_compiles(name: str) -> None:
    """Each value is one that a scenario accepts, has a source, and a known class of evidence."""
    entry = catalog.entry("switches", name)
    for value in (*entry.fields, *entry.facts):
        assert value.evidence in catalog.EVIDENCE and value.source, value.key
    assert set(catalog.values("switches", name)) <= set(Switch.file_keys())
    plan(f"switch: {{model: {name}}}")


def test_the_catalogue_gives_what_the_scenario_does_not() -> None:
    """SONiC's files for the Arista 7060X6-64PE: cells of 254 bytes, 612,140 bytes of headroom,
    18,796 reserved in classes 3 and 4, XON at 3,556; what is written in the scenario wins.
    """
    p = plan("switch: {model: tomahawk-5, xon_offset: 1KB}\nswitches: [{where: leaf0, cell: 1B}]")
    assert p.switch_cell_bytes.tolist() == [1, 254, 254, 254]
    assert (p.port_headroom_bytes[p.port_node >= 4] == 612_140).all()
    assert p.switch_reserved_bytes[1].tolist() == [0, 0, 0, 18_796, 18_796, 0, 0, 0]
    assert (p.switch_xon_offset_bytes == 1000).all()
    assert (p.switch_lossless == (1 << 3 | 1 << 4)).all()


@pytest.mark.parametrize(
    "text",
    [
        "switch: {model: tomahawk-5, dt_alpha: 1/8}",
        "switch: {classes: {3: {weight: 2}, 0: {egress: {static: 1MB}}}}",
        "switch: {buffer: 9MB}\nswitches: [{where: spine0, buffer: 32MB, pfc: true}]",
    ],
)
def test_switches_survive_being_written(text: str) -> None:
    """Claim of `to_yaml`: it loads back equal, and to the same Plan; also where a value is the
    default of the format but not of the catalogue or of `switch`.
    """
    scenario = parse_scenario(TREE + text)
    again = parse_scenario(scenario.to_yaml(defaults=False))
    assert again == scenario
    assert compile_scenario(again).plan.digest == compile_scenario(scenario).plan.digest
    assert compile_scenario(parse_scenario(scenario.to_yaml())).plan.digest == (
        compile_scenario(scenario).plan.digest
    )


def test_settings_reach_into_classes() -> None:
    """docs/scenario.md: ``--set path=value`` with the path as errors spell it."""
    text, path = TREE + "switch: {classes: {3: {weight: 2}}}", "switch.classes.3.weight=0"
    with pytest.raises(ScenarioError, match=r"\$\.switch\.classes\.3\.weight: 0 "):
        parse_scenario(text, [path])
    changed = parse_scenario(text, ["$.switch.classes.3.weight=5", "switch.classes.0.weight=1"])
    assert {c: k.weight for c, k in changed.switch.classes.items()} == {0: 1, 3: 5}


def test_objects_say_the_same_as_text() -> None:
    """README: the same as Python objects."""
    made = Scenario(
        topology={"kind": "star", "hosts": 2},
        switch=Switch(classes={3: {"ingress": {"alpha": 0.5}}}),
    )
    read = parse_scenario(
        "topology: {kind: star, hosts: 2}\nswitch: {classes: {3: {ingress: {alpha: 1/2}}}}"
    )
    assert made == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("switch: {model: tomahawk5}", '$.switch.model: "tomahawk5" is not among'),
        ("switch: {classes: {8: {}}}", "$.switch.classes"),
        ("switch: {classes: [1]}", "$.switch.classes"),
        ("switch: {classes: {3: {wait: 1}}}", 'did you mean "weight"?'),
        ("switch: {classes: {3: {weight: 0}}}", "whole number, 1 to 1000"),
        ("switch: {classes: {3: {ingress: 9MB}}}", "write {static: 9MB}"),
        ("switch: {classes: {3: {ingress: 0.5}}}", "write {alpha: 0.5}"),
        ("switch: {classes: {3: {ingress: {}}}}", "needs one of alpha and static"),
        ("switch: {classes: {0: {egress: {static: 4KB}}}}", "$.switch.classes.0.egress"),
        ("switch: {cell: 66KB, pfc: false}", "$.switch.cell"),
        ("switch: {cell: 64KB, buffer: 60KB}", "is not below the buffer"),
        ("switch: {headroom_pool: 40MB}", "$.switch.headroom_pool"),
        ("switches: {where: spine0}", "write a dash before it"),
        ("switches: [{buffer: 1MB}]", "$.switches[0].where: is missing"),
        ("switches: [{where: spin}]", '$.switches[0].where: "spin" is the name of no switch'),
        ("switches: [{where: spine0, bufer: 1MB}]", 'did you mean "buffer"?'),
        ("switches: [{where: spine0, buffer: 10KB}]", "$.switches[0].buffer"),
        ("switches: [{where: spine0, reserved: 40MB}]", "$.switches[0].reserved"),
    ],
)
def test_wrong_switches_are_refused_by_path(text: str, said: str) -> None:
    """docs/scenario.md, Errors: the path of the value, what is wrong, what to write instead."""
    with pytest.raises(ScenarioError) as caught:
        plan(text)
    assert said in str(caught.value)


def test_arrays_are_those_of_their_switches() -> None:
    """Every port and switch belongs to exactly one kind: nothing is left at the initial 0."""
    p = plan("switches: [{where: 'leaf*', buffer: 10MB}, {where: spine0, buffer: 12MB}]")
    assert (p.switch_buffer_bytes > 0).all() and (p.switch_cell_bytes == 1).all()
    at_switch = p.port_node >= p.n_host
    assert (p.port_headroom_bytes[at_switch] > 0).all()
    assert not p.port_headroom_bytes[~at_switch].any()
    assert np.isfinite(p.switch_group_alpha).all()


def test_a_watchdog_belongs_to_a_switch_or_a_group() -> None:
    """docs/pfc.md: off unless asked for; SONiC's times unless told; groups may differ."""
    p = plan("switch: {}")
    assert not p.switch_watchdog_detect_ps.any()
    p = plan(
        "switch: {pfc_watchdog: true}\n"
        "switches: [{where: leaf0, pfc_watchdog: {detect: 3us, restore: 5us, action: forward}}]"
    )
    ms = 10**9
    assert sorted(set(p.switch_watchdog_detect_ps.tolist())) == [3_000_000, 200 * ms]
    assert sorted(set(p.switch_watchdog_restore_ps.tolist())) == [5_000_000, 200 * ms]
    assert p.switch_watchdog_forward.sum() == 1
    with pytest.raises(ScenarioError, match=r"pfc_watchdog.*detect: 200ms"):
        plan("switch: {pfc_watchdog: 200ms}")
    with pytest.raises(ScenarioError, match=r"action"):
        plan("switch: {pfc_watchdog: {action: alert}}")
