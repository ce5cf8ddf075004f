"""Hops, base RTT and ideal completion times against closed forms, hand sums and a packet-by-packet
oracle.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet._core.rows import FLOW_RX_DONE
from emunet.plan.compile import compile_topology
from emunet.topology import Topology
from emunet.topology.dumbbell import dumbbell
from emunet.topology.explicit import Cable, explicit
from emunet.topology.fat_tree import fat_tree
from emunet.topology.frames import Frames
from emunet.topology.leaf_spine import leaf_spine
from emunet.topology.paths import PathModel
from emunet.topology.star import star
from emunet.topology.transit import Link, message_ps
from emunet.twin import TwinEngine

G = 10**9
US = 10**6
EXACT = [25 * G, 40 * G, 100 * G, 200 * G, 400 * G, 800 * G]
INEXACT = [425 * G, 300 * G, 70 * G, 10**12 - 1]


def line(rates: list[int], delays: list[int]) -> Topology:
    """Two hosts joined by switches in a row."""
    nodes = ["a", *(f"s{i}" for i in range(len(rates) - 1)), "b"]
    steps = zip(pairwise(nodes), rates, delays, strict=True)
    cables = [Cable(x, y, rate, delay) for (x, y), rate, delay in steps]
    return explicit("ab", nodes[1:-1], cables)


def model(topology: Topology, frames: Frames | None = None, latency_ps: int = 0) -> PathModel:
    latency = np.full(topology.n_port, latency_ps, np.int64)
    return PathModel(topology, latency, frames or Frames())


def slots(size: int, frames: Frames) -> list[int]:
    """Slot bytes of the packets of a message, one by one, from the table of frame sizes."""
    found = []
    for i in range(-(-size // frames.mtu_bytes)):
        payload = min(frames.mtu_bytes, size - i * frames.mtu_bytes)
        padded = -(-payload // frames.align_bytes) * frames.align_bytes
        frame = padded + frames.data_header_bytes + (frames.first_header_bytes if i == 0 else 0)
        found.append(max(frame, frames.least_bytes) + frames.gap_bytes)
    return found


def oracle(links: list[Link], size: int, frames: Frames) -> int:
    """C(i, j) = max(C(i-1, j), C(i, j-1) + fixed) + tx(i, j), every link rounding up with carry
    (semantics, 1).
    """
    sent = [0] * len(slots(size, frames))
    for link in links:
        busy, carry = 0, Fraction(0)
        for i, slot in enumerate(slots(size, frames)):
            start = max(busy, sent[i])
            carry = carry if start == busy else Fraction(0)
            exact = Fraction(slot * 8 * 10**12, link.rate_bps) - carry
            taken = math.ceil(exact)
            carry = taken - exact
            busy = start + taken
            sent[i] = busy + link.fixed_ps
    return sent[-1]


@given(
    rates=st.lists(st.sampled_from(EXACT + INEXACT), min_size=1, max_size=6),
    fixed=st.integers(0, 2 * US),
    size=st.integers(1, 60_000),
    mtu=st.sampled_from([256, 1000, 1023, 4096]),
)
@settings(max_examples=150, deadline=None)
def test_messages_take_what_the_recursion_says(
    rates: list[int], fixed: int, size: int, mtu: int
) -> None:
    """K1, unequal rates: the recursion over packets and links, in exact fractions, whatever the
    rates.
    """
    frames = Frames(mtu_bytes=mtu)
    links = [Link(rate, fixed + i) for i, rate in enumerate(rates)]
    assert message_ps(tuple(links), np.array([size]), frames).tolist() == [
        oracle(links, size, frames)
    ]


@pytest.mark.parametrize("rate", EXACT)
@pytest.mark.parametrize("h", [1, 2, 4, 6])
@pytest.mark.parametrize("size", [1, 4096, 4097, 40_960, 2_000_000])
def test_equal_rates_have_the_closed_form(rate: int, h: int, size: int) -> None:
    """K1, equal rates: (n + h - 2) F + L + 16 h + delays for n >= 2; h (L + 16) + delays for n = 1.

    The first packet has a RETH of 16 bytes, is the longest, and holds up all behind it at every
    link.
    """
    unit = 8 * 10**12 // rate
    n = -(-size // 4096)
    padded = -(-(size - (n - 1) * 4096) // 4) * 4
    if n == 1:
        expected = h * (62 + 16 + padded + 20) * unit
    else:
        expected = ((n + h - 2) * 4178 + max(64, 62 + padded) + 20 + 16 * h) * unit
    paths = model(line([rate] * h, [US] * h))
    assert paths.ideal_fct_ps(0, 1, size) == expected + h * US


def test_the_hpcc_example() -> None:
    """K2: 1 MB in 1000-byte payloads of 1048 bytes over 2 x (100 Gb/s, 1 us) is delivered after
    85,923.84 ns.
    """
    frames = Frames(1000, data_header_bytes=48, first_header_bytes=0, gap_bytes=0)
    paths = model(star(2, 100 * G, US), frames)
    assert paths.ideal_fct_ps(0, 1, 1_000_000) == 85_923_840


def test_bytes_over_rate() -> None:
    """K23: 2 MiB without headers at 100 Gb/s over one link of no length take 167.77216 us."""
    bare = Frames(4096, data_header_bytes=0, first_header_bytes=0, gap_bytes=0, least_bytes=0)
    paths = model(line([100 * G], [0]), bare)
    assert paths.ideal_fct_ps(0, 1, 2 * 2**20) == 167_772_160


def test_goodput_of_full_packets() -> None:
    """K24: 4096 of 4178 bytes are payload, so 2 GB at 100 Gb/s come to 98.04 Gb/s but for the first
    packet's RETH.
    """
    paths = model(line([100 * G], [0]))
    n = 500_000
    taken_ps = int(paths.ideal_fct_ps(0, 1, n * 4096))
    assert taken_ps == (n * 4178 + 16) * 80
    assert n * 4096 * 8 / (taken_ps * 1e-12) == pytest.approx(98.037e9, rel=1e-5)


def test_the_anchor_of_another_simulator() -> None:
    """htsim's RoCE, 1 MB over an idle 128-host fat tree at 400 Gb/s: 32.8077 us with its ACK, by
    its own packet sizes.

    Its sizes: 245 packets of 4160 bytes, an ACK of 64, 6 links of 1 us each way. Its printed digits
    leave 0.05 ns, its sum in whole ps of 1.28 ns per ACK hop 0.1 ns more.
    """
    frames = Frames(4096, 64, 0, ack_bytes=64, gap_bytes=0)
    paths = model(fat_tree(8, 400 * G, US), frames)
    out = int(paths.ideal_fct_ps(64, 0, 245 * 4096))
    back = 6 * (US + 64 * 20)
    assert (out + back) / 1e6 == pytest.approx(32.8077, abs=1e-4)


def test_hops_and_base_rtt_of_a_fat_tree() -> None:
    """Definition: 2, 4 or 6 links; a 4158-byte frame out and a 66-byte ACK back, 20 bytes more on
    every link.
    """
    latency = 300_000
    paths = model(fat_tree(8, 400 * G, US), latency_ps=latency)
    src, dst = np.array([0, 0, 0]), np.array([3, 4, 16])
    hops = paths.hops(src, dst)
    assert hops.tolist() == [2, 4, 6]
    each = (4178 + 86) * 20 + 2 * (US + latency)
    assert paths.base_rtt_ps(src, dst).tolist() == [h * each for h in hops.tolist()]


def test_base_rtt_is_the_ideal_of_one_packet_and_its_ack() -> None:
    """Identity: a message of one MTU differs from the base RTT by its RETH on the way out."""
    topology = leaf_spine(3, 2, 2, 100 * G, 400 * G, US)
    paths = model(topology)
    one = int(paths.ideal_fct_ps(0, 5, 4096))
    ack = sum(86 * 8 * 10**12 // r + US for r in (100 * G, 400 * G, 400 * G, 100 * G))
    reth = sum(16 * 8 * 10**12 // r for r in (100 * G, 400 * G, 400 * G, 100 * G))
    assert paths.base_rtt_ps(0, 5) == one - reth + ack


def test_half_the_rate_doubles_all_but_the_delays() -> None:
    """K12: halving every rate doubles the time exactly, apart from the propagation."""
    sizes = np.array([1, 1000, 4097, 10**6, 10**9])
    fast, slow = (model(fat_tree(4, rate, US)) for rate in (400 * G, 200 * G))
    delays = 6 * US
    np.testing.assert_array_equal(
        slow.ideal_fct_ps(0, 15, sizes) - delays, 2 * (fast.ideal_fct_ps(0, 15, sizes) - delays)
    )


def test_longer_messages_take_longer() -> None:
    """Monotone: one byte more never arrives earlier, whatever the rates on the way."""
    sizes = np.arange(1, 30_000)
    for rates in ([100 * G] * 4, [425 * G, 100 * G, 300 * G], [100 * G, 800 * G]):
        taken = model(line(rates, [US] * len(rates))).ideal_fct_ps(0, 1, sizes)
        assert np.all(np.diff(taken) >= 0)


@pytest.mark.parametrize(
    "topology",
    [
        star(4, 100 * G, US),
        dumbbell(3, 2, 100 * G, 40 * G, US),
        leaf_spine(4, 2, 3, 100 * G, 425 * G, US, n_parallel=2),
        fat_tree(4, [100 * G, 200 * G, 425 * G], US),
    ],
    ids=lambda t: t.kind,
)
def test_structured_fabrics_agree_with_their_graph(topology: Topology) -> None:
    """Two independent computations: by the groups of the fabric, and by search over its graph."""
    by_groups, by_search = model(topology), model(replace(topology, blocks=None))
    n = topology.n_host
    src, dst = np.divmod(np.arange(n * n), n)
    src, dst = src[src != dst], dst[src != dst]
    np.testing.assert_array_equal(by_groups.hops(src, dst), by_search.hops(src, dst))
    np.testing.assert_array_equal(by_groups.base_rtt_ps(src, dst), by_search.base_rtt_ps(src, dst))
    for size in (1, 4096, 4097, 100_000):
        np.testing.assert_array_equal(
            by_groups.ideal_fct_ps(src, dst, size), by_search.ideal_fct_ps(src, dst, size)
        )


@st.composite
def uneven_graphs(draw: st.DrawFn) -> Topology:
    """Switches in a random tree with extra cables, hosts of one or two ports; rates and delays of
    every kind.
    """
    n_switch, n_host = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    switch = st.integers(n_host, n_host + n_switch - 1)
    pairs = [(n_host + i, n_host + draw(st.integers(0, i - 1))) for i in range(1, n_switch)]
    if n_switch > 1:
        extra = st.tuples(switch, switch).filter(lambda pair: pair[0] != pair[1])
        pairs += draw(st.lists(extra, max_size=5))
    for host in range(n_host):
        pairs += [(host, s) for s in draw(st.lists(switch, min_size=1, max_size=2))]
    if draw(st.booleans()):
        pairs.append((0, 1))
    rate, delay = st.sampled_from(EXACT + INEXACT), st.sampled_from([0, US, 3 * US])
    cables = [Cable(a, b, draw(rate), draw(delay), draw(rate)) for a, b in pairs]
    names = [f"h{i}" for i in range(n_host)], [f"s{i}" for i in range(n_switch)]
    return explicit(*names, cables)


def shortest_ways(topology: Topology, src: int, dst: int) -> set[tuple[Link, ...]]:
    """Every shortest way, by enumerating walks of growing length through switches."""
    walks = [(src, ())]
    while walks:
        longer = []
        for node, way in walks:
            for port in range(topology.port_start[node], topology.port_start[node + 1]):
                peer = int(topology.port_node[topology.port_peer[port]])
                link = Link(int(topology.port_rate_bps[port]), int(topology.port_delay_ps[port]))
                if peer == dst or peer >= topology.n_host:
                    longer.append((peer, (*way, link)))
        found = {way for node, way in longer if node == dst}
        if found:
            return found
        walks = list(dict.fromkeys(longer))
    raise AssertionError("connected")


@given(topology=uneven_graphs(), size=st.sampled_from([1, 5000, 33_333]))
@settings(max_examples=60, deadline=None)
def test_uneven_graphs_take_the_best_shortest_way(topology: Topology, size: int) -> None:
    """Definition: the least over all shortest paths, found here by enumerating them, each by the
    oracle.
    """
    paths, frames = model(topology), Frames()
    for src in range(topology.n_host):
        for dst in range(topology.n_host):
            if src != dst:
                ways = shortest_ways(topology, src, dst)
                back = shortest_ways(topology, dst, src)
                assert paths.hops(src, dst) == len(next(iter(ways)))
                best = min(oracle(list(way), size, frames) for way in ways)
                assert paths.ideal_fct_ps(src, dst, size) == best
                out = min(oracle_one(way, 4178) for way in ways)
                assert paths.base_rtt_ps(src, dst) == out + min(oracle_one(w, 86) for w in back)


def oracle_one(way: tuple[Link, ...], slot: int) -> int:
    """One slot alone over a way, every link rounding up."""
    return sum(math.ceil(Fraction(slot * 8 * 10**12, r)) + fixed for r, fixed in way)


def test_a_million_messages_need_memory_by_message() -> None:
    """Bound: a few arrays of 8 bytes for each message, equal results message by message and all at
    once.
    """
    paths = model(fat_tree(16, 400 * G, US))
    i = np.arange(1_000_000)
    src, step = i % 1024, 1 + (i * 7919) % 1023
    dst, size = (src + step) % 1024, 1 + (i * 104_729) % 3_000_000
    taken = paths.ideal_fct_ps(src, dst, size)
    for row in (0, 1, 12_345, 999_999):
        assert paths.ideal_fct_ps(src[row], dst[row], size[row]) == taken[row]


def test_rates_that_are_inexact_by_byte_sum_without_drift() -> None:
    """Semantics, 1: with carry, n back-to-back packets take the ceiling of their exact sum, not the
    sum of ceilings.
    """
    paths = model(line([425 * G], [0]))
    n = 200_000
    exact = Fraction((n * 4178 + 16) * 8 * 10**12, 425 * G)
    assert paths.ideal_fct_ps(0, 1, n * 4096) == math.ceil(exact)


@pytest.mark.parametrize(("src", "dst", "size"), [(0, 0, 1), (0, 1, 0), (0, 1, -5)])
def test_impossible_messages_are_refused(src: int, dst: int, size: int) -> None:
    """A host has no path to itself, and a message has at least one byte."""
    with pytest.raises(ValueError, match=r"no path to itself|at least one byte"):
        model(star(2, G, US)).ideal_fct_ps(src, dst, size)


@pytest.mark.parametrize(
    "topology",
    [
        star(3, 100 * G, US),
        leaf_spine(2, 2, 2, 100 * G, 425 * G, US),
        replace(fat_tree(2, [425 * G, 100 * G, 300 * G], US), blocks=None),
    ],
    ids=lambda t: t.kind,
)
@pytest.mark.parametrize("size", [1, 4096, 4097, 40_000])
def test_the_twin_takes_the_ideal(topology: Topology, size: int) -> None:
    """Authority: the twin. A message alone arrives when the path model says, to the picosecond."""
    compiled = compile_topology(topology)
    dst = topology.n_host - 1
    twin = TwinEngine(compiled.plan)
    base = compiled.paths.base_rtt_ps([0], [dst])
    columns = ([0], "i8"), ([0], "i4"), ([dst], "i4"), ([size], "i8"), ([0], "i8"), ([3], "u1")
    twin.submit(*(np.array(values, dtype) for values, dtype in columns), base)
    twin.run(10**12)
    rows = twin.drain()["flows"]
    done = rows["time_ps"][rows["kind"] == FLOW_RX_DONE]
    assert done.tolist() == [int(compiled.paths.ideal_fct_ps(0, dst, size))]
