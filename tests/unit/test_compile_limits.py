"""Estimates before a run: exact packet-hops where they can be, and sane memory and disk."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from emunet import workload
from emunet.plan import limits
from emunet.plan.compile import Compiled, compile_scenario
from emunet.plan.limits import Estimate, estimate
from emunet.scenario import parse_scenario
from emunet.twin import TwinEngine

US = 10**6


def scenario_text(topology: str, work: str, more: str = "") -> str:
    return f"name: x\ntopology: {topology}\ntransport: {{cc: none}}\nworkload:\n  - {work}\n{more}"


def made(
    topology: str, work: str, more: str = "", **overrides: str
) -> tuple[Compiled, workload.WorkloadStream]:
    pairs = [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
    scenario = parse_scenario(scenario_text(topology, work, more), pairs)
    compiled = compile_scenario(scenario, ".")
    return compiled, workload.stream(scenario, compiled.topology, Path("."))


def estimated(topology: str, work: str, more: str = "", **overrides: str) -> Estimate:
    return estimate(*made(topology, work, more, **overrides))


GRAPH = (
    "{kind: explicit, hosts: 4, switches: 2, links: [{a: host0, b: switch0},"
    " {a: host1, b: switch0},"
    " {a: host2, b: switch1}, {a: host3, b: switch1}, {a: switch0, b: switch1},"
    " {a: switch1, b: switch0}, {a: host3, b: switch0}]}"
)


@pytest.mark.parametrize(
    "topology",
    [
        "{kind: star, hosts: 5}",
        "{kind: dumbbell, left: 3, right: 3}",
        "{kind: leaf_spine, leaves: 3, spines: 2, hosts_per_leaf: 2, parallel: 2}",
        "{kind: fat_tree, k: 4}",
        GRAPH,
    ],
)
@pytest.mark.parametrize("ack_every", [1, 4])
def test_packet_hops_are_exact_without_loss(topology: str, ack_every: int) -> None:
    """Authority: the twin's counters. Data and ACKs of every message over every link."""
    overrides = {"transport__ack_every": str(ack_every)}
    compiled, stream = made(topology, "permutation: {size: 30KB}", **overrides)
    found = estimate(compiled, stream)
    twin = TwinEngine(compiled.plan)
    for m in stream:
        base = compiled.paths.base_rtt_ps(m.src, m.dst)
        twin.submit(m.ids, m.src, m.dst, m.size_bytes, m.start_ps, m.klass, base)
    twin.run(10**12)
    totals = twin.totals()
    assert found.packet_hops == totals["packet_hops"]
    assert found.data_packets == totals["data_packets"]
    assert found.ack_packets == totals["ack_packets"]
    assert found.exact


def test_an_incast_of_a_policy_that_listens_expects_notifications() -> None:
    """Bound: at most one CNP a data packet; none without marking, without listening or in an empty
    network.
    """
    star, work = "{kind: star, hosts: 65}", "incast: {fan_in: 64, receiver: 0, size: 1MB}"
    n = 64 * 245
    with_cnp = estimated(star, work, transport__cc="dcqcn")
    assert 2 * (2 * n) < with_cnp.packet_hops <= 2 * (3 * n)
    assert estimated(star, work).packet_hops == 2 * (2 * n)
    unmarked = {"transport__cc": "dcqcn", "switch__ecn": "false"}
    assert estimated(star, work, **unmarked).packet_hops == 2 * (2 * n)
    alone = "incast: {fan_in: 1, receiver: 0, size: 1MB}"
    assert estimated(star, alone, transport__cc="dcqcn").packet_hops == 2 * 2 * 245


def test_the_end_cuts_messages() -> None:
    """Bound: until T a host at 400 Gb/s begins no more full packets than fit in T, and messages
    from T on none.
    """
    star, work = "{kind: star, hosts: 2}", "permutation: {size: 1GB}"
    found = estimated(star, work, "until: 100us\n")
    assert found.data_packets == 2 * (100 * US // (4178 * 20) + 1)
    assert found.span_ps == 100 * US
    thrice = "incast: {fan_in: 1, receiver: 0, size: 4KiB, every: 60us, count: 3}"
    assert estimated(star, thrice, "until: 100us\n").packet_hops == 2 * (2 * 2)


def test_long_workloads_are_scaled_from_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stationary arrivals: the first messages stand for all, within the spread of the sizes of a
    few thousand.
    """
    star = "{kind: star, hosts: 16}"
    work = "poisson: {sizes: fb_hadoop, load: 0.4, until: 2ms}"
    whole = estimated(star, work)
    monkeypatch.setattr(limits, "MOST_MESSAGES", 1000)
    monkeypatch.setattr(workload.stream, "__defaults__", (".", 500))
    part = estimated(star, work)
    assert whole.exact
    assert not part.exact
    assert part.messages == pytest.approx(whole.messages, rel=0.1)
    assert whole.packet_hops / 1.5 < part.packet_hops < whole.packet_hops * 1.5


def test_packet_events_follow_the_filter() -> None:
    """Two events a hop; a filter on flow, class, packet or kind is applied, one on places or times
    is noted.
    """
    star, work = "{kind: star, hosts: 8}", "permutation: {size: 4MB}"
    hops = estimated(star, work).packet_hops

    def disk(packets: str) -> Estimate:
        return estimated(star, work, f"record: {{packets: {packets}}}\n")

    none = estimated(star, work).disk_bytes
    per_event = limits.EVENT_ROW_BYTES
    assert disk("true").disk_bytes - none == 2 * hops * per_event
    assert disk('{where: "flow == 3"}').disk_bytes - none == 2 * hops // 8 * per_event
    assert disk("{where: \"packet == 'ack'\"}").disk_bytes - none == hops * per_event
    assert disk("{where: \"kind == 'drop'\"}").disk_bytes == none
    assert disk("{limit: 100}").disk_bytes - none == 100 * per_event
    unsure = disk('{where: "node == 3"}')
    assert unsure.disk_bytes - none == 2 * hops * per_event
    assert unsure.notes == [
        "disk: packet events are counted as if the filter chose every node and time"
    ]


def test_queue_samples_are_bounded_by_ports_and_packets() -> None:
    """Bound: one row for each sampled port and period and for each packet, and none where nothing
    passes.
    """
    star, work = "{kind: star, hosts: 8}", "permutation: {size: 4MB}"
    none = estimated(star, work)
    record = "record: {queues: {every: 1ns, ports: last_hop}}\n"
    rows = (estimated(star, work, record).disk_bytes - none.disk_bytes) / limits.QUEUE_ROW_BYTES
    assert rows == none.data_packets
    record = "record: {queues: {every: 1us, ports: last_hop}}\n"
    rows = (estimated(star, work, record).disk_bytes - none.disk_bytes) / limits.QUEUE_ROW_BYTES
    assert 0 < rows <= 8 * none.span_ps / US
    record = "record: {queues: {every: 1us, ports: fabric}}\n"
    assert estimated(star, work, record).disk_bytes == none.disk_bytes


def test_memory_grows_with_fabric_and_flows() -> None:
    """Monotone, and between the least and the most of the named constants for an idle fabric."""
    work = "incast: {fan_in: 1, receiver: 0, size: 1KB}"
    small, large = (estimated(f"{{kind: fat_tree, k: {k}}}", work).memory_bytes for k in (8, 32))
    ports = 5 * (32**3 // 4 - 8**3 // 4)
    assert limits.BASE_BYTES < small < large
    least = limits.SWITCH_PORT_BYTES * ports
    assert least < large - small < 2 * least
    flows = [
        estimated("{kind: star, hosts: 65}", f"incast: {{fan_in: {n}, receiver: 0, size: 1MB}}")
        for n in (8, 64)
    ]
    assert [f.active_flows for f in flows] == [8, 64]
    assert flows[0].memory_bytes < flows[1].memory_bytes


def test_active_flows_count_those_that_overlap() -> None:
    """Messages far apart are active one at a time; a receiver's backlog keeps them all."""
    star = "{kind: star, hosts: 9}"
    apart = "incast: {fan_in: 1, receiver: 0, size: 1KB, every: 1ms, count: 5}"
    assert estimated(star, apart).active_flows == 1
    backlog = "incast: {fan_in: 8, receiver: 0, size: 1MB, every: 10us, count: 5}"
    assert estimated(star, backlog).active_flows == 40


def test_nothing_to_do_takes_nothing() -> None:
    """A stream without messages."""
    compiled, _ = made("{kind: star, hosts: 2}", "permutation: {size: 1KB}")
    empty = estimate(compiled, [])
    assert (empty.packet_hops, empty.messages, empty.active_flows, empty.span_ps) == (0, 0, 0, 0)
    assert empty.lookahead_ps == compiled.plan.scalars["lookahead_ps"]
    assert np.isfinite(empty.memory_bytes)


@pytest.mark.parametrize(
    "work",
    [
        "permutation: {size: 1B, until: 1s}",
        "incast: {fan_in: 3, size: 1B, every: 1ns, count: 1000000000}",
        "poisson: {sizes: 64B, load: 0.5, until: 1000h}",
    ],
)
def test_only_what_starts_before_the_end_counts(
    work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim: an estimate is of the run, not of a workload that reaches far beyond `until`, and does
    not generate it. Authority: the same workload, ended by itself; in longer ones, which are
    looked at in part, the number of messages that a rate makes in the time of the run.
    """
    work = work.replace("1000h", "3600000s")
    star = "{kind: star, hosts: 4}"
    found = estimated(star, work, "until: 20us\n")
    compiled, stream = made(star, work, "until: 20us\n")
    starts = np.concatenate([c.start_ps for c in zip_first(stream, 3)])
    n = int(np.searchsorted(starts, 20 * US))
    assert (found.messages, found.whole) == (n, True)
    assert found.packet_hops == 2 * 2 * n
    monkeypatch.setattr(limits, "MOST_MESSAGES", n // 4)
    stream.chunk = max(1, n // 8)
    guess = estimate(compiled, stream)
    assert not guess.whole
    sigma = n**0.5 if "poisson" in work else 4
    assert abs(guess.messages - n) <= 4 * sigma


def zip_first(stream: workload.WorkloadStream, n: int) -> list[workload.Messages]:
    """The first chunks."""
    return list(itertools.islice(stream, n))
