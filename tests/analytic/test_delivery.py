"""One message alone: when its last byte arrives, to the picosecond."""

from __future__ import annotations

from fractions import Fraction

import pytest
from support.fabric import BARE, chain, plan_of, spokes
from support.oracle import (
    ACK,
    FIRST,
    FULL,
    GAP,
    GBPS,
    MTU,
    NS,
    US,
    cross,
    data_frame,
    exact_cross,
    frames,
    gaps,
)
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.topology.fat_tree import fat_tree

pytestmark = pytest.mark.checked

SIZES = [1, 4096, 4097, 8192, 10_000, 100_000, 1_000_000]


def one_message(
    rates_bps: list[int], size_bytes: int, start_ps: int = 0, **knobs: object
) -> Result:
    """A message alone over a chain of links of 1 us each."""
    return run(plan_of(chain(rates_bps), **knobs), [Message(0, 1, size_bytes, start_ps)])


@pytest.mark.parametrize("n_link", [1, 2, 3, 6])
@pytest.mark.parametrize("size_bytes", SIZES)
def test_equal_links_have_a_closed_form(n_link: int, size_bytes: int) -> None:
    """K1, store and forward over h equal links: (n + h - 2) F + L + propagation, RETH added.

    Each packet but the first follows the one before it without a gap on every link, since none is
    longer than the first; so the time is that of the first over h links, then of packets 2 .. n on
    the last: h F1 + (n - 2) F + L, where F1 = F + 16 bytes; h L1 for a message of one packet.
    """
    ps_per_byte = 20
    n = -(-size_bytes // MTU)
    last = data_frame(size_bytes - (n - 1) * MTU, first=n == 1) + GAP
    slots = n_link * (FIRST + GAP) + (n - 2) * (FULL + GAP) + last if n > 1 else n_link * last
    result = one_message([400 * GBPS] * n_link, size_bytes, start_ps=5 * NS)
    assert result.flow_ps(0) == 5 * NS + slots * ps_per_byte + n_link * US
    wrong = slots + 1
    assert result.flow_ps(0) != 5 * NS + wrong * ps_per_byte + n_link * US


@pytest.mark.parametrize(
    "gbps",
    [(400, 100), (100, 400), (425, 425), (400, 425, 100), (100, 425, 400, 40), (425, 10, 425, 425)],
    ids=str,
)
@pytest.mark.parametrize("size_bytes", [1, 4097, 10_000, 300_001])
def test_unequal_links_follow_the_recursion(gbps: tuple[int, ...], size_bytes: int) -> None:
    """K1, unequal rates: C(i, j) = max(C(i-1, j), C(i, j-1) + fixed) + tx(i, j).

    425 Gb/s (320/17 ps a byte) is among them. The acknowledgements follow the same recursion on the
    way back, so the sender's completion is exact too.
    """
    rates = [g * GBPS for g in gbps]
    latency = {"switch_latency_ps": 500 * NS, "nic_latency_ps": 300 * NS}
    out = [(rate, US + 500 * NS) for rate in rates[:-1]] + [(rates[-1], US + 300 * NS)]
    back = [(rate, US + 500 * NS) for rate in rates[:0:-1]] + [(rates[0], US + 300 * NS)]
    sizes = frames(size_bytes)
    at = cross([0] * len(sizes), sizes, out)
    acked = cross(at, [ACK] * len(sizes), back)
    result = one_message(rates, size_bytes, **latency)
    assert result.times(node=1, kind=R.EVENT_ARRIVE) == at
    assert result.flow_ps(0) == at[-1]
    assert result.times(node=0, kind=R.EVENT_ARRIVE) == acked
    assert result.flow_ps(0, R.FLOW_TX_DONE) == acked[-1]


def test_rounding_does_not_add_up() -> None:
    """A train at 425 Gb/s ends at its exact end rounded up, however long.

    Semantics 1, the carried remainder: 4178 slot bytes take 78,644.7 ps; rounded one by one, 2000
    packets would be 588 ps late.
    """
    sizes = frames(2000 * MTU)
    exact = exact_cross([0] * len(sizes), sizes, [(425 * GBPS, US)])
    result = one_message([425 * GBPS], 2000 * MTU)
    arrivals = result.times(node=1, kind=R.EVENT_ARRIVE)
    assert all(0 <= a - e < 1 for a, e in zip(arrivals, exact, strict=True))
    assert set(gaps(arrivals[1:])) == {78_644, 78_645}


def test_hpcc_standalone_time_is_above_the_exact_one() -> None:
    """K2: HPCC's denominator for 1 MB over 2 links of 100G and 1 us is above the exact delivery.

    The denominator is 88,000 ns, the exact delivery 85,923.84 ns. Its base RTT is 2 * 2000 + 2 * 80
    = 4160 ns (payload only) and its bytes are 1000 * 1048 at 80 ps: 83,840 ns. Store and forward of
    1048-byte packets takes (1000 + 2 - 1) * 83.84 + 2000 ns: a slowdown below 1 by 2.4 %. The same
    holds with this engine's frames of 1082 slot bytes.
    """
    packets, tx_ps, payload_tx_ps = 1000, 1048 * 80, 1000 * 80
    hpcc_ps = 2 * 2 * US + 2 * payload_tx_ps + packets * tx_ps
    assert hpcc_ps == 88_000 * NS
    exact = exact_cross([0] * packets, [1048 - GAP] * packets, [(100 * GBPS, US)] * 2)
    assert exact[-1] == 85_923_840
    result = one_message([100 * GBPS] * 2, 1_000_000, mtu_bytes=1000)
    slot, first_slot = 1000 + 62 + GAP, 1000 + 78 + GAP
    assert result.flow_ps(0) == (2 * first_slot + 999 * slot) * 80 + 2 * US
    ours_as_hpcc_ps = 4 * US + 2 * payload_tx_ps + packets * slot * 80
    assert result.flow_ps(0) / ours_as_hpcc_ps < 1


@pytest.mark.parametrize("size_bytes", [1, 10_000, 2_000_000])
def test_half_the_rate_is_twice_the_time(size_bytes: int) -> None:
    """K12: with all rates halved, the completion time less propagation doubles exactly."""
    fixed_ps = 3 * US
    fast, slow = (
        one_message([400 * GBPS // d, 100 * GBPS // d, 200 * GBPS // d], size_bytes).flow_ps(0)
        for d in (1, 2)
    )
    assert slow - fixed_ps == 2 * (fast - fixed_ps)


def test_half_an_inexact_rate_is_twice_the_time_but_for_rounding() -> None:
    """K12 at 425 Gb/s: over h links the two differ by less than 2 h ps.

    Each link adds less than 1 ps of rounding.
    """
    n_link = 3
    fast, slow = (one_message([425 * GBPS // d] * n_link, 2_000_000).flow_ps(0) for d in (1, 2))
    off = (slow - n_link * US) - 2 * (fast - n_link * US)
    assert -2 * n_link < off < n_link
    exact = exact_cross([0] * 489, frames(2_000_000), [(425 * GBPS, US)] * n_link)[-1]
    assert 0 <= fast - exact < n_link


def test_anchor_over_the_idle_tree_of_128_hosts() -> None:
    """An exact anchor: 1 MB from host 64 to host 0 over six links of 400G and 1 us.

    htsim's RoCE computes 32.8077 us: 245 packets of 4160 B and 5 more store-and-forwards, 6 us,
    then an ACK of 64 B over six links. With RoCEv2 frames: 6 * 4194 + 243 * 4178 + 658 slot bytes
    (the last packet has 576 B), 20 ps each, and an ACK of 86; the two differ by what the frames
    differ and by nothing else.
    """
    htsim_ps = (245 + 5) * 4160 * 20 + 6 * US + 6 * 64 * 20 + 6 * US
    assert round(htsim_ps / US, 3) == 32.808
    result = run(plan_of(fat_tree(8, 400 * GBPS, US)), [Message(64, 0, 1_000_000)])
    slots = 6 * 4194 + 243 * 4178 + (62 + 576 + 20)
    assert result.flow_ps(0) == slots * 20 + 6 * US == 26_821_520
    assert result.flow_ps(0, R.FLOW_TX_DONE) == 26_821_520 + 6 * 86 * 20 + 6 * US
    assert result.flow_ps(0, R.FLOW_TX_DONE) - htsim_ps == (slots - 250 * 4160 + 6 * 22) * 20
    assert result.totals["packet_hops"] == 2 * 245 * 6


def test_frames_are_those_of_rocev2_over_ipv4() -> None:
    """K24: a middle packet of 4096 B has 4096+12+8+20+14+4+4 = 4158 frame bytes.

    The first has 16 more, an ACK has 66.
    """
    result = run(plan_of(spokes([400 * GBPS] * 2)), [Message(0, 1, 4 * MTU + 1), Message(0, 1, 3)])
    sent = result.select(node=0, kind=R.EVENT_DEPART)
    long = sent[sent["flow"] == 0]["bytes"].tolist()
    assert long == [4174, 4158, 4158, 4158, 66]
    assert sent[sent["flow"] == 1]["bytes"].tolist() == [62 + 16 + 4]
    assert set(result.select(node=1, kind=R.EVENT_DEPART)["bytes"].tolist()) == {66}
    assert result.totals["ack_packets"] == 6


def test_goodput_of_a_long_message_is_its_share_of_the_wire() -> None:
    """K24: payload is 4096/4178 = 98.04 % of slot bytes: a 100G link carries 98.04 Gb/s of it."""
    n = 20_000
    result = run(plan_of(spokes([100 * GBPS] * 2)), [Message(0, 1, n * MTU)], log=False)
    slots = 2 * (FIRST + GAP) + (n - 1) * (FULL + GAP)
    assert result.flow_ps(0) == slots * 80 + 2 * US
    # path and RETH set aside: n packets of 4178 slot bytes
    at_receiver_ps = result.flow_ps(0) - 2 * US - (FIRST + GAP + 16) * 80
    goodput = Fraction(n * MTU * 8 * 1000, at_receiver_ps)
    assert goodput == Fraction(4096, 4178) * 100
    assert round(float(goodput), 2) == 98.04


@pytest.mark.parametrize(
    ("packets", "slot_bytes", "percent"), [(1, 4194, 97.66), (16, 4179, 98.01)], ids=str
)
def test_measured_goodputs_follow_from_the_frames(
    packets: int, slot_bytes: int, percent: float
) -> None:
    """A 100G NIC measures 97.66 Gb/s with RETH in every packet and 98.01 with one in 16.

    These are 4096/4194 and 4096/4179. Messages of one and of 16 packets, all ready at once, keep
    the link busy: each message takes its slot bytes at 80 ps, whatever their order.
    """
    n_message = 320 // packets
    result = run(
        plan_of(spokes([100 * GBPS] * 2)), [Message(0, 1, packets * MTU)] * n_message, log=False
    )
    slots = n_message * (packets * (FULL + GAP) + 16)
    assert slots == 320 * slot_bytes
    # two equal links: all slots on one of them and the longest, a first packet's, on the other
    assert int(result.rx_ps().max()) == (slots + FIRST + GAP) * 80 + 2 * US
    assert round(100 * 4096 / slot_bytes, 2) == percent


def test_starts_one_picosecond_apart_stay_apart() -> None:
    """K26: at 1 s, two messages that start 1 ps apart are delivered 1 ps apart.

    At one receiver they are delivered one after the other, in that order.
    """
    start_ps = 10**12
    plan = plan_of(spokes([400 * GBPS] * 4))
    apart = run(plan, [Message(0, 2, 5000, start_ps), Message(1, 3, 5000, start_ps + 1)])
    assert apart.flow_ps(1) - apart.flow_ps(0) == 1
    assert apart.flow_ps(0) == start_ps + (2 * 4194 + (62 + 904 + 20)) * 20 + 2 * US
    for first, second in ((0, 1), (1, 0)):
        messages = [Message(0, 2, 100, start_ps), Message(1, 2, 100, start_ps)]
        messages[second] = messages[second]._replace(start_ps=start_ps + 1)
        both = run(plan, messages)
        slot_ps = (78 + 100 + GAP) * 20
        assert both.flow_ps(first) == start_ps + 2 * slot_ps + 2 * US
        assert both.flow_ps(second) == both.flow_ps(first) + slot_ps


def test_latencies_are_added_once_for_each_link() -> None:
    """Semantics 2: a packet acts at s + ser + delay + latency of the receiver.

    The latency is 500 ns at a switch and 300 ns at a NIC.
    """
    plan = plan_of(chain([400 * GBPS] * 3), switch_latency_ps=500 * NS, nic_latency_ps=300 * NS)
    result = run(plan, [Message(0, 1, MTU)])
    assert result.flow_ps(0) == 3 * (FIRST + GAP) * 20 + 3 * US + 2 * 500 * NS + 300 * NS
    assert BARE.switch_latency_ps == 0


@pytest.mark.parametrize("ack_every", range(1, 17))
def test_acknowledgements_are_counted_off(ack_every: int) -> None:
    """K8: an ACK after every N packets and after the last, for every N.

    These are floor(M / N), plus one if N does not divide M; their PSNs are N, 2 N, .., M.
    """
    counts = sorted({1, 2, ack_every - 1, ack_every, ack_every + 1, 3 * ack_every - 1,
                     3 * ack_every, 3 * ack_every + 1, 50} - {0})  # fmt: skip
    messages = [Message(0, 1, m * 256, i * 100 * US) for i, m in enumerate(counts)]
    result = run(plan_of(spokes([400 * GBPS] * 2), mtu_bytes=256, ack_every=ack_every), messages)
    sent = result.select(node=1, kind=R.EVENT_DEPART, packet=R.PACKET_ACK)
    for flow, m in enumerate(counts):
        psns = sent[sent["flow"] == flow]["psn"].tolist()
        assert len(psns) == m // ack_every + (m % ack_every > 0)
        assert psns == sorted({*range(ack_every, m + 1, ack_every), m})
    assert result.totals["ack_packets"] == len(sent)


def test_a_message_above_4_gib_is_counted_in_full() -> None:
    """K19: 4 GiB + 1 byte is not cut at 32 bits.

    It has 477,219 packets of 9000 B, the last of 5,297 B, and takes what the closed form says.
    """
    size_bytes, mtu = 2**32 + 1, 9000
    n = -(-size_bytes // mtu)
    last = size_bytes - (n - 1) * mtu
    assert (n, last) == (477_219, 5_297)
    plan = plan_of(spokes([400 * GBPS] * 2), mtu_bytes=mtu, ack_every=64)
    result = run(plan, [Message(0, 1, size_bytes)], log=False)
    slots = 2 * (mtu + 98) + (n - 2) * (mtu + 82) + data_frame(last) + GAP
    assert result.flow_ps(0) == slots * 20 + 2 * US
    assert result.totals["data_packets"] == n
    assert int(result.ports["tx_bytes"][0]) == n * (mtu + 62) + 16 - mtu + last + 3


@pytest.mark.slow
def test_sequence_numbers_go_round() -> None:
    """IBTA's PSN has 24 bits: 2^24 + 1000 packets of a message arrive in order, each sent once."""
    n = 2**24 + 1000
    plan = plan_of(spokes([400 * GBPS] * 2), mtu_bytes=256, ack_every=64)
    result = run(plan, [Message(0, 1, n * 256)], log=False)
    assert result.flow_ps(0) == (2 * 354 + (n - 1) * 338) * 20 + 2 * US
    assert result.totals["data_packets"] == n
    assert result.totals["retransmitted_packets"] == result.totals["nack_packets"] == 0
