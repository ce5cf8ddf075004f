"""The Plan of a scenario: latencies, thresholds, headroom and pools by their formulas, and what is
refused or warned of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import EmunetError, InputFileError, ScenarioError
from emunet.plan.compile import Compiled, compile_scenario, compile_topology, settings_of
from emunet.plan.fabric import Settings, needed_headroom
from emunet.plan.schema import ARRAYS, N_CLASS, NO_LIMIT, SCALARS
from emunet.plan.switches import Ecn
from emunet.scenario import parse_scenario
from emunet.topology.explicit import Cable, explicit
from emunet.topology.fat_tree import fat_tree
from emunet.topology.leaf_spine import leaf_spine
from emunet.topology.star import star

G = 10**9
US = 10**6

SCENARIO = """
name: small
topology: {kind: star, hosts: 4, rate: 400Gbps, delay: 1us}
transport: {cc: none}
workload:
  - permutation: {size: 2MB}
"""


def compiled(text: str = SCENARIO, base_dir: Path | str = ".", **overrides: Any) -> Compiled:
    return compile_scenario(
        parse_scenario(text, [f"{k}={v}" for k, v in overrides.items()]), base_dir
    )


def test_the_plan_has_every_array_of_the_schema() -> None:
    """Authority: plan/schema.py; shapes as written there."""
    plan = compiled().plan
    sizes = {
        **plan.scalars,
        "n_switch": 1,
        "n_table": 0,
        "n_set": 0,
        "n_set_port": 0,
        "n_down": 0,
        "n_change": 0,
        "n_cc_param_byte": 0,
        "N_CLASS": N_CLASS,
    }
    for spec in ARRAYS:
        shape = [eval(str(n), {}, sizes) if isinstance(n, str) else n for n in spec.shape]
        assert list(plan.arrays[spec.name].shape) == shape, spec.name
        assert plan.arrays[spec.name].dtype == np.dtype(spec.dtype)
    assert set(plan.scalars) == {s.name for s in SCALARS}
    assert plan.names == ["host0", "host1", "host2", "host3", "switch0"]


def test_equal_scenarios_have_equal_plans_and_others_do_not() -> None:
    """Claim of `Plan.digest`: it names the plan."""
    digest = compiled().plan.digest
    assert compiled().plan.digest == digest
    for key, value in (
        ("seed", 2),
        ("switch.latency", "600ns"),
        ("transport.mtu", 1024),
        ("topology.delay", "2us"),
    ):
        assert compiled(**{key: value}).plan.digest != digest, key


def test_latencies_belong_to_the_receiving_node() -> None:
    """Semantics, 2: a switch adds its pipeline, a host its NIC's receive path; pause frames have
    their own.
    """
    c = compiled(
        **{
            "switch.latency": "400ns",
            "switch.pfc_response": "200ns",
            "nic.latency": "50ns",
            "nic.pfc_response": "70ns",
        }
    )
    at_switch = c.topology.port_node >= 4
    np.testing.assert_array_equal(c.plan.port_rx_latency_ps, np.where(at_switch, 400_000, 50_000))
    np.testing.assert_array_equal(
        c.plan.port_pause_latency_ps, np.where(at_switch, 200_000, 70_000)
    )
    np.testing.assert_array_equal(c.plan.port_last_hop, at_switch)


def test_the_lookahead_is_the_least_over_links_and_kinds() -> None:
    """Semantics, 2.2: the least of delay + latency of packets and delay + latency of pause frames;
    the cause is named.
    """
    c = compiled(**{"nic.latency": "50ns", "nic.pfc_response": "70ns"})
    assert c.plan.scalars["lookahead_ps"] == US + 50_000
    assert c.lookahead_cause == "switch0 -> host0, data: 1us of cable and 50ns at the receiver"
    c = compiled(**{"switch.pfc_response": "0"})
    assert c.plan.scalars["lookahead_ps"] == US
    assert (
        c.lookahead_cause == "host0 -> switch0, pause frames: 1us of cable and 0ps at the receiver"
    )


def test_marking_thresholds_grow_with_the_rate() -> None:
    """HPCC's rule: 100 KB and 400 KB for each 25 Gb/s; host ports never mark."""
    t = leaf_spine(2, 1, 2, 100 * G, 425 * G, US)
    plan = compile_topology(t).plan
    at_switch = t.port_node >= t.n_host
    for rate in (100 * G, 425 * G):
        ports = at_switch & (t.port_rate_bps == rate)
        assert set(plan.port_ecn_kmin_bytes[ports].tolist()) == {100_000 * rate // (25 * G)}
        assert set(plan.port_ecn_kmax_bytes[ports].tolist()) == {400_000 * rate // (25 * G)}
        assert set(plan.port_ecn_pmax[ports].tolist()) == {0.2}
    assert set(plan.port_ecn_kmin_bytes[~at_switch].tolist()) == {NO_LIMIT}


def test_marking_thresholds_as_given_or_none() -> None:
    """A ramp holds for every port as written; `ecn: false` never marks."""
    plan = compiled(**{"switch.ecn": "{kmin: 400KB, kmax: 1600KB, pmax: 0.1}"}).plan
    assert set(plan.port_ecn_kmin_bytes[4:].tolist()) == {400_000}
    assert set(plan.port_ecn_kmax_bytes[4:].tolist()) == {1_600_000}
    plan = compiled(**{"switch.ecn": "false"}).plan
    assert set(plan.port_ecn_kmin_bytes.tolist()) == {NO_LIMIT}


def test_automatic_headroom() -> None:
    """K9: (2 d + P + r) R / 8 + two longest slots + 84 bytes, d 1 us, P 500 ns, r 300 ns, R 400
    Gb/s, slots of 4194; and the frame that triggers XOFF by finding the pool full (semantics 3.2).
    """
    slot = 62 + 16 + 4096 + 20
    expected = (2 * 1000 + 500 + 300) * 50 + 2 * slot + 84 + (slot - 20)
    plan = compiled().plan
    assert plan.port_headroom_bytes.tolist() == [0] * 4 + [expected] * 4
    shared = 32_000_000 - 4 * expected
    assert plan.switch_shared_bytes.tolist() == [shared]
    assert plan.switch_lossless.tolist() == [1 << 3]


@given(
    rate_in=st.sampled_from([25, 100, 400, 425]),
    rate_out=st.sampled_from([25, 100, 400, 425]),
    delay=st.integers(0, 5 * US),
    pipeline=st.integers(0, US),
    response=st.integers(0, US),
    classes=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_headroom_covers_what_can_arrive(
    rate_in: int, rate_out: int, delay: int, pipeline: int, response: int, classes: int
) -> None:
    """K9 with two rates: the incoming rate times everything that passes until the peer is silent,
    rounded up once or so.
    """
    t = explicit(
        "ab", "s", [Cable("a", "s", rate_in * G, delay, rate_out * G), Cable("b", "s", G, delay)]
    )
    s = Settings(
        switch_latency_ps=pipeline,
        nic_pause_latency_ps=response,
        lossless_classes=tuple(range(classes)),
    )
    slot, pause = 4194, 84
    wait_s = (2 * delay + pipeline + response) * 1e-12 + (slot + classes * pause) * 8 / (
        rate_out * G
    )
    exact = wait_s * rate_in * G / 8 + slot
    got = int(needed_headroom(t, s)[2])
    assert exact - 1e-3 <= got <= exact + 2


def test_the_pool_is_what_the_parts_leave() -> None:
    """Semantics, 3.2: S = buffer - reservation of every (in-port, class) - headroom of every
    lossless group.
    """
    c = compiled(
        **{"switch.reserved": "1KB", "switch.lossless_classes": "[3,4]", "switch.headroom": "200KB"}
    )
    assert c.plan.switch_shared_bytes.tolist() == [32_000_000 - 4 * 8 * 1000 - 4 * 2 * 200_000]
    assert c.plan.switch_lossless.tolist() == [0b11000]
    assert set(c.plan.switch_reserved_bytes.ravel().tolist()) == {1000}
    c = compiled(**{"switch.pfc": "false", "switch.headroom": "200KB"})
    assert c.plan.switch_shared_bytes.tolist() == [32_000_000]
    assert c.plan.port_headroom_bytes.max() == 0
    assert c.plan.switch_lossless.tolist() == [0]


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "buffer below its headroom": (
        {"switch.buffer": "500KB"},
        '$.switch.buffer: "500KB" leaves no room for a full packet of 4174 bytes: '
        'switch "switch0" has 4 ports: headroom '
        "610584B + reserved 0B; at least 614758B, or less headroom or reservation",
    ),
    "headroom above the buffer": (
        {"switch.headroom": "9MB"},
        '$.switch.headroom: "9MB" leaves no room for a full packet of 4174 bytes: '
        'switch "switch0" has 4 ports: headroom '
        "36MB + reserved 0B; the buffer is 32MB",
    ),
    "reservation above the buffer": (
        {"switch.reserved": "1MB", "switch.pfc": "false"},
        '$.switch.buffer: "32MB" leaves no room for a full packet of 4174 bytes: '
        'switch "switch0" has 4 ports: headroom 0B '
        "+ reserved 32MB; at least 32004174B",
    ),
    "buffer below a packet": (
        {"switch.buffer": "4KB", "switch.pfc": "false", "switch.xon_offset": "0"},
        '$.switch.buffer: "4KB" leaves no room',
    ),
    "alpha that admits no packet": (
        {"switch.pfc": "false", "switch.dt_alpha": "0.0001"},
        "$.switch.dt_alpha: 0.0001 lets one queue hold 3200 bytes of the 32000000 shared by switch",
    ),
    "no lookahead": (
        {"topology.delay": "0", "nic.latency": "0"},
        '$.topology.delay: "0ps" makes a lookahead of 0 ps (switch0 -> host0, data: '
        "0ps of cable and 0ps at the receiver)",
    ),
    "half a nanosecond": (
        {"topology.delay": "200ps", "switch.pfc_response": "300ps"},
        '$.topology.delay: "200ps" makes a lookahead of 500 ps',
    ),
    "unknown policy": ({"transport.cc": "dcqnc"}, '$.transport.cc: "dcqnc"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_run_is_refused_with_its_place(case: str) -> None:
    """Rule: path, value, arithmetic and fix, before anything runs."""
    overrides, expected = REFUSED[case]
    with pytest.raises(ScenarioError) as caught:
        compiled(**overrides)
    assert caught.value.exit_code == 2
    assert expected in str(caught.value)


def test_the_link_of_an_explicit_topology_is_named() -> None:
    """The path of a short cable is that of its own entry."""
    cables = [Cable("a", "s", G, US), Cable("b", "s", G, 10)]
    with pytest.raises(ScenarioError) as caught:
        compile_topology(explicit("ab", "s", cables), nic_latency_ps=0, switch_latency_ps=0)
    assert str(caught.value).startswith(
        '$.topology.links[1].delay: "10ps" makes a lookahead of 10 ps'
    )


@pytest.mark.parametrize(
    ("knobs", "path"),
    [
        ({"ecn": Ecn(5, 4, 0.1)}, "$.switch.ecn.kmin"),
        ({"ecn": Ecn(4, 5, 1.5)}, "$.switch.ecn.pmax"),
        ({"lossless_classes": (8,)}, "$.switch.lossless_classes"),
        ({"sr_window_packets": 1000}, "$.transport.sr_window"),
        ({"sr_window_packets": 1 << 16}, "$.transport.sr_window"),
        ({"mtu_bytes": 0}, "$.transport.mtu"),
    ],
)
def test_settings_given_in_python_are_checked_too(knobs: dict[str, Any], path: str) -> None:
    """Plans made without a scenario meet the same relations."""
    with pytest.raises(ScenarioError) as caught:
        compile_topology(star(2, G, US), **knobs)
    assert caught.value.path == path


def test_the_longest_window_of_selective_repeat_is_taken() -> None:
    """Claim of scenario.md: `sr_window` goes up to 32,768; a plan made in Python, too."""
    assert compile_topology(star(2, G, US), sr_window_packets=1 << 15).plan.n_host == 2


def test_the_defaults_raise_no_warning() -> None:
    """A warning is for what is probably not meant, so the defaults have none, at any size."""
    assert compiled().warnings == []
    assert compile_topology(fat_tree(16, 400 * G, US)).warnings == []


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            {"switch.ecn": "{kmin: 4MB, kmax: 5MB}"},
            "a single sender is paused at 3.488MB before marking starts at 4MB",
        ),
        (
            {"switch.ecn": "{kmin: 1MB, kmax: 20MB}"},
            "pauses keep every queue below kmax = 20MB (3 senders are paused at",
        ),
        (
            {"switch.headroom": "100KB"},
            "headroom of 100KB is less than the 148472B that can arrive after XOFF",
        ),
        ({"switch.dt_alpha": "0.0001", "switch.ecn": "false"}, "lossy classes drop every one"),
    ],
)
def test_what_works_badly_is_a_warning(overrides: dict[str, str], text: str) -> None:
    """PFC must not fire before ECN, nor so late that packets drop: three numbers for each class of
    ports.
    """
    found = compiled(**overrides).warnings
    assert len(found) == 1
    assert text in found[0]


def test_port_classes_give_the_three_numbers() -> None:
    """Marking, XOFF of one sender (alpha S / (1 + alpha)) and headroom, for each rate of port."""
    c = compile_topology(leaf_spine(2, 2, 3, 100 * G, 400 * G, US))
    by_rate = {(p.switch, p.rate_bps): p for p in c.port_classes}
    leaf = by_rate["leaf0", 100 * G]
    assert (leaf.n_port, leaf.n_switch_port) == (3, 5)
    assert leaf.xoff_bytes() == int(0.125 * leaf.shared_bytes / 1.125)
    assert leaf.needed_headroom_bytes == 35_000 + 2 * 4194 + 84
    assert leaf.headroom_bytes == leaf.needed_headroom_bytes + 4174
    assert by_rate["leaf0", 400 * G].n_port == 2


def test_files_are_seen_from_the_scenario(tmp_path: Path) -> None:
    """Relative topology and policy files are those beside the scenario; their errors name them."""
    (tmp_path / "net.txt").write_text("3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\nlegend\n")
    (tmp_path / "mine.py").write_text(
        (Path(__file__).parents[2] / "emunet/policies/congestion/none.py").read_text()
    )
    text = SCENARIO.replace(
        "{kind: star, hosts: 4, rate: 400Gbps, delay: 1us}", "{kind: file, path: net.txt}"
    )
    c = compiled(text.replace("cc: none", "cc: ./mine.py"), tmp_path)
    assert c.topology.names == ["0", "1", "2"]
    assert c.warnings == ["1 extra words after the 2 declared links ignored"]
    assert c.plan.congestion is not None
    (tmp_path / "net.txt").write_text("3 1 2\n2\n0 2 100Gbps 1us 0\n")
    with pytest.raises(InputFileError, match=r"net\.txt:1:5"):
        compiled(text, tmp_path)


def test_a_scenario_and_its_settings_agree_on_the_defaults() -> None:
    """One set of defaults: those of `Settings` are those of an empty scenario."""
    assert settings_of(parse_scenario(SCENARIO)) == Settings()


def test_congestion_parameters_reach_the_plan() -> None:
    """The packed record of the policy, its name and the digest of its source are in the plan."""
    c = compiled(**{"transport.cc": "dcqcn"})
    policy = c.plan.congestion
    assert policy.name == c.plan.scalars["cc_name"] == "dcqcn"
    assert c.plan.cc_params.tobytes() == policy.params_bytes
    assert c.plan.congestion_digest == policy.source_digest


def test_errors_are_of_the_one_tree() -> None:
    """Whatever is wrong with a scenario is an `EmunetError` with an exit code."""
    with pytest.raises(EmunetError):
        compiled(**{"topology.hosts": 1, "switch.buffer": "1KB"})
