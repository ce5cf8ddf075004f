"""Spellings that other tools read by a factor of 8 or 1.05 differently, from text to the Plan."""

from __future__ import annotations

from typing import Any

import pytest

from emunet import units
from emunet.plan.schema import Plan
from emunet.run import prepare


def plan_of(**changes: Any) -> Plan:
    """Plan of a star of four hosts with these parts of the scenario."""
    scenario = {"topology": {"kind": "star", "hosts": 4}, "transport": {"cc": "none"}, **changes}
    return prepare(scenario).compiled.plan


@pytest.mark.parametrize("rate", ["400Gbps", "50GB/s", "400Gbit/s", "0.4Tbps", "400000Mbps"])
def test_rates_reach_the_plan_in_bits(rate: str) -> None:
    """K13, SI: 400Gbps is 400e9 bit/s, and 50GB/s is 8 times 50e9, the same."""
    plan = plan_of(topology={"kind": "star", "hosts": 4, "rate": rate})
    assert set(plan.port_rate_bps.tolist()) == {400_000_000_000}


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [("9MB", 9_000_000), ("9MiB", 9_437_184), ("9000KB", 9_000_000), ("9216KiB", 9_437_184)],
)
def test_buffers_reach_the_plan_in_bytes(size: str, size_bytes: int) -> None:
    """K13, SI and IEC 80000-13: 9MB is 9,000,000 bytes, 9MiB 9 * 2^20 = 9,437,184."""
    plan = plan_of(switch={"buffer": size, "headroom": "100KB"})
    assert plan.switch_buffer_bytes.tolist() == [size_bytes]
    assert plan.switch_shared_bytes.tolist() == [size_bytes - 4 * 100_000]


def test_a_setting_of_the_hpcc_simulator_is_two_units() -> None:
    """K13, units of that simulator: BUFFER_SIZE 9 counts 2^20 bytes, KMIN and KMAX count 1000.

    So `BUFFER_SIZE 9`, `KMIN 100`, `KMAX 400` are written 9MiB, 100KB, 400KB here, and nothing
    accepts a bare number for any of them.
    """
    ecn = {"kmin": "100KB", "kmax": "400KB", "pmax": 0.2}
    plan = plan_of(switch={"buffer": "9MiB", "ecn": ecn})
    at_switch = plan.port_node >= plan.n_host
    assert plan.switch_buffer_bytes.tolist() == [9 * 1024 * 1024]
    assert set(plan.port_ecn_kmin_bytes[at_switch].tolist()) == {100_000}
    assert set(plan.port_ecn_kmax_bytes[at_switch].tolist()) == {400_000}
    for bare in ("9", "400"):
        with pytest.raises(ValueError, match="no unit"):
            units.parse_size(bare)


def test_a_message_of_9_mib_is_longer_than_one_of_9_mb() -> None:
    """K13 to the messages: sizes of a workload are those bytes."""
    sizes = []
    for size in ("9MB", "9MiB"):
        work = {"workload": [{"permutation": {"size": size}}]}
        prepared = prepare({"topology": {"kind": "star", "hosts": 4}, **work})
        (messages,) = list(prepared.stream)
        sizes.append(set(messages.size_bytes.tolist()))
    assert sizes == [{9_000_000}, {9_437_184}]
