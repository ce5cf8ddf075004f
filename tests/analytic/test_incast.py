"""Many senders, one link: work conserved, bytes bounded, watermarks as counted by hand."""

from __future__ import annotations

import pytest
from support.fabric import BARE, plan_of, spokes, trunks
from support.oracle import FIRST, FULL, GAP, GBPS, MTU, US, Wire, data_frame, frames
from support.run import Message, run, submit

from emunet._core import load_engine
from emunet._core import rows as R

pytestmark = pytest.mark.checked

PS_PER_BYTE = 20


@pytest.mark.parametrize("n_sender", [2, 5, 15])
@pytest.mark.parametrize("size_bytes", [3000, 100_000])
def test_equal_senders_share_one_link_without_a_gap(n_sender: int, size_bytes: int) -> None:
    """K3: k equal messages end k wire sizes after the first packet's arrival, all within one round.

    The receiver's link starts when the first packets are in the switch and has work until the end,
    so the last byte comes after exactly k times a message's slot bytes. The k last packets reach
    the switch together, so they leave one after another: first and last completion are k - 1 of
    them apart.
    """
    messages = [Message(1 + i, 0, size_bytes) for i in range(n_sender)]
    result = run(plan_of(spokes([400 * GBPS] * (n_sender + 1))), messages)
    sizes = frames(size_bytes)
    first_in_ps = (sizes[0] + GAP) * PS_PER_BYTE + US
    slots = sum(b + GAP for b in sizes)
    done = result.rx_ps()
    assert int(done.max()) == first_in_ps + n_sender * slots * PS_PER_BYTE + US
    last_ps = (sizes[-1] + GAP) * PS_PER_BYTE
    assert sorted(done.tolist()) == [int(done.min()) + i * last_ps for i in range(n_sender)]
    assert result.totals["dropped_packets"] == 0


@pytest.mark.parametrize("n_sender", [2, 7])
def test_pauses_keep_the_link_busy_and_lose_nothing(n_sender: int) -> None:
    """K3, lossless: with pauses the floor of k wire sizes is still met exactly.

    That is so if XON comes while enough is queued. A resumed sender's packet is in the switch at
    most 2.5 us after XON (two cables of 1 us, a frame at either end): 125,000 B at 400 Gb/s. With
    alpha 1 and k groups each stays within a frame or so of S / (1 + k), so together they hold
    600,000 B and more when XON is sent: the link never idles.
    """
    size_bytes = 4_000_000
    plan = plan_of(
        spokes([400 * GBPS] * (n_sender + 1)),
        alpha=1.0,
        buffer_bytes=1_000_000 + (n_sender + 1) * 110_000,
        headroom_bytes=110_000,
    )
    messages = [Message(1 + i, 0, size_bytes) for i in range(n_sender)]
    result = run(plan, messages, log=False)
    sizes = frames(size_bytes)
    slots = sum(b + GAP for b in sizes)
    floor_ps = (sizes[0] + GAP) * PS_PER_BYTE + US + n_sender * slots * PS_PER_BYTE + US
    assert int(result.rx_ps().max()) == floor_ps
    assert result.totals["pause_frames"] > 2 * n_sender
    assert result.totals["dropped_packets"] == result.totals["retransmitted_packets"] == 0


def test_parallel_links_all_carry() -> None:
    """K7: of four parallel links each carries, and together they carry 4 R while all are in use.

    That is to within one frame each. 32 hosts of 400G send one message each over four links of
    100G. Pauses reach only the host whose message they concern, so a link that has a message is
    busy until it has carried it.
    """
    n, trunk_bps = 32, 100 * GBPS
    plan = plan_of(trunks(n, n, [trunk_bps] * 4))
    engine = load_engine()(plan)
    submit(engine, [Message(i, n + i, 2_000_000) for i in range(n)])
    first = int(plan.node_port_start[2 * n]) + n
    at = []
    from_ps, to_ps = 50 * US, 300 * US
    for until_ps in (from_ps, to_ps):
        assert engine.run(until_ps) == R.UNTIL
        ports = engine.ports()
        packets, frame_bytes = (ports[k][first : first + 4] for k in ("tx_packets", "tx_bytes"))
        at.append((packets, frame_bytes + GAP * packets))
    assert (at[1][0] > 0).all()
    carried = at[1][1] - at[0][1]
    fair = (to_ps - from_ps) * trunk_bps // (8 * 10**12)
    assert (abs(carried - fair) <= FULL + GAP).all()
    assert abs(int(carried.sum()) - 4 * fair) <= 4 * (FULL + GAP)
    assert engine.run(10**15) == R.DONE
    total = engine.ports()["tx_bytes"][first : first + 4].sum()
    assert int(total) == n * sum(frames(2_000_000))


@pytest.mark.parametrize("n_sender", [2, 3, 8])
@pytest.mark.parametrize("packets", [1, 2, 20])
def test_watermarks_of_an_incast_are_as_counted(n_sender: int, packets: int) -> None:
    """Exact watermarks: the greatest queue of an incast is at the last arrival.

    In every slot k packets arrive and one leaves. Packets arrive at A_j, k at a time. At the last
    instant all k n packets have been admitted, less those whose last bit left before it (a frame
    that ends at that very instant still counts: arrivals come before departures). The first ACK is
    in the switch after 3 us, later than all arrivals, so the pool holds the same bytes; each group
    holds its sender's packets, of which the order of service is a draw.
    """
    sizes = frames(packets * MTU)
    result = run(
        plan_of(spokes([400 * GBPS] * (n_sender + 1))),
        [Message(1 + i, 0, packets * MTU) for i in range(n_sender)],
    )
    wire, out = Wire(400 * GBPS), Wire(400 * GBPS)
    arrivals = [wire.send(0, b)[1] + US for b in sizes]
    ends = [(out.send(at, b)[1], b) for at, b in zip(arrivals, sizes, strict=True)
            for _ in range(n_sender)]  # fmt: skip
    assert arrivals[-1] < 3 * US
    left = sum(b for end, b in ends if end < arrivals[-1])
    peak = n_sender * sum(sizes) - left
    port = n_sender + 1  # the switch's towards host 0: the hosts' ports come first
    assert int(result.ports["watermark_bytes"][port]) == peak
    assert int(result.ports["queue_watermark_bytes"][port, 3]) == peak
    assert int(result.switches["pool_watermark_bytes"][0]) == peak
    groups = result.ports["pg_watermark_bytes"][port + 1 :, 3]
    assert (groups >= sizes[-1]).all() and (groups <= sum(sizes)).all()
    assert int(groups.sum()) >= peak
    assert result.ports["headroom_watermark_bytes"].sum() == 0


def test_a_faster_sender_queues_the_difference_of_rates() -> None:
    """Queue of one sender at 4 R into a link of R: after n packets (n - 1) / 4 have left.

    The watermark counts the rest. At 400 Gb/s packet j is in the switch at F1 + j F (20 ps a byte);
    at 100 the link ends packet j at F1 + 4 F1 + 4 j F after that. The queue is greatest when the
    last packet arrives.
    """
    n = 41
    sizes = frames(n * MTU)
    result = run(plan_of(spokes([400 * GBPS, 100 * GBPS])), [Message(0, 1, n * MTU)])
    last_in = (FIRST + GAP + (n - 1) * (FULL + GAP)) * 20 + US
    first_in = (FIRST + GAP) * 20 + US
    ends = [first_in + (FIRST + GAP + j * (FULL + GAP)) * 80 for j in range(n)]
    left = sum(b for end, b in zip(ends, sizes, strict=True) if end < last_in)
    assert left == FIRST + 8 * FULL
    assert int(result.ports["watermark_bytes"][3]) == sum(sizes) - left
    depth = result.select(node=2, kind=R.EVENT_DEPART, packet=R.PACKET_DATA)["occupancy"].tolist()
    arrivals = [(FIRST + GAP + j * (FULL + GAP)) * 20 + US for j in range(n)]
    starts = [first_in, *ends[:-1]]
    expected = [
        sum(b for a, b in zip(arrivals, sizes, strict=True) if a <= start)
        - sum(sizes[:j])
        for j, start in enumerate(starts)
    ]
    assert depth == expected


def test_residence_is_the_integral_of_the_queue() -> None:
    """Semantics 3.2: the time integral of a port's queue is the sum of bytes times residence.

    Here as computed by hand: two one-packet messages meet, the first leaves after S, the second
    after 2 S, so the integral is 3 S times their frame bytes.
    """
    size = 2000
    plan = plan_of(spokes([400 * GBPS] * 3), BARE)
    result = run(plan, [Message(1, 0, size), Message(2, 0, size)])
    frame = data_frame(size, first=True)
    assert result.ports["queue_byte_ps"][3] == frame * 3 * (frame + GAP) * 20.0
