"""The twin against times worked out by hand from docs/semantics.md: forwarding, order, pacing,
rounding.
"""

from __future__ import annotations

import numpy as np
import pytest
from plans import GBPS, US, Message, Policy, leaf_spine, line, star, submit

from emunet._core.rows import (
    DONE,
    EVENT_ARRIVE,
    EVENT_DEPART,
    FLOW_RX_DONE,
    FLOW_TX_DONE,
    PACKET_ACK,
    PACKET_DATA,
)
from emunet.plan.schema import PATH_SPRAY, TIES_PORT
from emunet.twin import TwinEngine

FOREVER = 10**15

M = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    """The mixer of semantics 1.2, spelled out once more."""
    x &= M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M
    return x ^ x >> 31


def draw(seed: int, purpose: int, a: int, b: int) -> int:
    return mix64(mix64(mix64(seed + purpose * G) ^ a) + b * G)


def run_all(plan, messages, **options):
    """Run to the end with the event log, and give the engine and its rows."""
    engine = TwinEngine(plan, log_events=True, **options)
    submit(engine, messages)
    assert engine.run(FOREVER) == DONE
    return engine, engine.drain()


def times(rows, **where) -> list[int]:
    """Times of the rows whose fields have these values."""
    keep = np.ones(len(rows), bool)
    for name, value in where.items():
        keep &= rows[name] == value
    return rows["time_ps"][keep].tolist()


def test_one_message_over_two_hops() -> None:
    """Every time of one message through one switch follows from semantics 1, 1.1 and 2.

    10,000 B at MTU 4096 are three packets: 62 + 4096 + 16 (RETH) = 4174, 62 + 4096 = 4158, 62 +
    1808 = 1870 frame bytes; with 20 more and 20 ps/B at 400 Gb/s: 83,880, 83,560, 37,800 ps. The
    host sends at 0, 83,880, 167,440; each reaches the switch 1 us + 500 ns after its end:
    1,583,880, 1,667,440, 1,705,240. The switch sends the first at once, until 1,667,760, and the
    others behind it, until 1,751,320 and 1,789,120; at the host 1 us + 300 ns later. An ACK
    takes 86 * 20 = 1720 ps a hop: the first starts at 2,967,760 and comes 1,720 + 1.5 us + 1,720
    + 1.3 us = 2,803,440 later.
    """
    _, rows = run_all(star([400 * GBPS] * 2), [Message(0, 1, 10_000)])
    data, ack = {"packet": PACKET_DATA}, {"packet": PACKET_ACK}
    events = rows["events"]
    assert times(events, kind=EVENT_DEPART, node=0, **data) == [0, 83_880, 167_440]
    assert times(events, kind=EVENT_ARRIVE, node=2, **data) == [1_583_880, 1_667_440, 1_705_240]
    assert times(events, kind=EVENT_DEPART, node=2, **data) == [1_583_880, 1_667_760, 1_751_320]
    received = [2_967_760, 3_051_320, 3_089_120]
    assert times(events, kind=EVENT_ARRIVE, node=1, **data) == received
    assert times(events, kind=EVENT_ARRIVE, node=0, **ack) == [t + 2_803_440 for t in received]
    flows = rows["flows"]
    assert flows["kind"].tolist() == [FLOW_RX_DONE, FLOW_TX_DONE]
    assert flows["time_ps"].tolist() == [3_089_120, 5_892_560]
    arrived = events[(events["node"] == 2) & (events["kind"] == EVENT_ARRIVE)]
    of_data = arrived[arrived["packet"] == PACKET_DATA]
    assert of_data["bytes"].tolist() == [4174, 4158, 1870]
    assert of_data["flags"].tolist() == [0, 0, 4]
    # The second and third join while the one before is still in transmission.
    assert of_data["occupancy"].tolist() == [4174, 4174 + 4158, 4158 + 1870]


def test_acks_can_be_coalesced() -> None:
    """Semantics 4.2: with ack_every 2, of five packets the second, the fourth and the last are
    answered.
    """
    _, rows = run_all(star([400 * GBPS] * 2, ack_every=2), [Message(0, 1, 5 * 4096)])
    acks = rows["events"][(rows["events"]["packet"] == PACKET_ACK) & (rows["events"]["node"] == 0)]
    assert acks["psn"].tolist() == [2, 4, 5]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("by_port", [True, False])
def test_two_senders_meet_at_one_port(seed: int, by_port: bool) -> None:
    """Which of two packets of one instant goes first is the tie draw of semantics 1.2; the other
    waits its turn.

    Both arrive at T = 83,880 + 1.5 us. The first leaves at once, the second 83,880 later; both
    end 1.3 us + 83,880 after their start. Bytes of the queue: 2 * 4174 at most, held for 83,880
    and 2 * 83,880.
    """
    plan = star([400 * GBPS] * 3, seed=seed, **({"ties": TIES_PORT} if by_port else {}))
    engine, rows = run_all(plan, [Message(0, 2, 4096), Message(1, 2, 4096)])
    at_switch = 1_583_880
    first = 0
    if not by_port:
        base = draw(seed, 1, 3, at_switch)
        first = 0 if mix64(base) < mix64(base + G) else 1
    done = {int(r["flow"]): int(r["time_ps"]) for r in rows["flows"] if r["kind"] == FLOW_RX_DONE}
    assert done == {first: 2_967_760, 1 - first: 3_051_640}
    ports = engine.ports()
    out = int(plan.node_port_start[3]) + 2
    assert ports["watermark_bytes"][out] == 2 * 4174
    assert ports["queue_byte_ps"][out] == 4174 * 83_880 * 3
    assert ports["pg_watermark_bytes"][out - 2 : out, 3].tolist() == [4174, 4174]
    assert engine.switches()["pool_watermark_bytes"].tolist() == [2 * 4174]


def test_rounding_is_carried() -> None:
    """At 425 Gb/s a byte takes 320/17 ps; semantics 1 rounds up and takes the excess off the
    next frame.

    4194 * 320 / 17 = 78,945.88.. -> 78,946, carry 2; (4178 * 320 - 2) / 17 = 78,644.6 -> 78,645,
    carry 7; (4178 * 320 - 7) / 17 -> 78,645, carry 12; (4178 * 320 - 12) / 17 = 78,644 exactly.
    """
    _, rows = run_all(star([425 * GBPS] * 2), [Message(0, 1, 5 * 4096)])
    starts = times(rows["events"], kind=EVENT_DEPART, node=0, packet=PACKET_DATA)
    assert np.diff(starts).tolist() == [78_946, 78_645, 78_645, 78_644]


def test_pacing_at_half_the_line_rate() -> None:
    """Semantics 4.1: at 200 Gb/s a packet of b frame bytes holds its connection for (b + 20) *
    40 ps.
    """

    def start(ctx, params, state, out):
        out.rate_bps = ctx.line_rate_bps / 2

    policy = Policy({"start": start})
    _, rows = run_all(star([400 * GBPS] * 2, congestion=policy), [Message(0, 1, 3 * 4096)])
    starts = times(rows["events"], kind=EVENT_DEPART, node=0, packet=PACKET_DATA)
    assert starts == [0, 4194 * 40, 4194 * 40 + 4178 * 40]


def test_a_window_of_one_packet_waits_for_each_ack() -> None:
    """Semantics 4.1: with inflight < window as the only limit, each packet waits for the ACK of
    the one before.

    A full packet (but the first) and its ACK take 2 * 83,560 + 2 * 1720 + 2 * (1.5 + 1.3) us.
    """

    def start(ctx, params, state, out):
        out.window_bytes = 1

    plan = star([400 * GBPS] * 2, congestion=Policy({"start": start}))
    _, rows = run_all(plan, [Message(0, 1, 4 * 4096)])
    starts = times(rows["events"], kind=EVENT_DEPART, node=0, packet=PACKET_DATA)
    round_trip = 2 * 83_560 + 2 * 1720 + 5_600_000
    assert np.diff(starts).tolist() == [round_trip + 2 * 320, round_trip, round_trip]


def test_connections_of_a_host_take_turns() -> None:
    """Semantics 4.1: ready connections of a class send one packet each in turn; a higher class
    goes first.
    """
    messages = [Message(0, 1, 3 * 4096), Message(0, 1, 3 * 4096), Message(0, 1, 2 * 4096, klass=5)]
    _, rows = run_all(star([400 * GBPS] * 2), messages)
    events = rows["events"]
    sent = events[(events["node"] == 0) & (events["kind"] == EVENT_DEPART)]
    assert sent["flow"].tolist() == [2, 2, 0, 1, 0, 1, 0, 1]


def test_ecmp_and_spray_choose_by_the_hash() -> None:
    """Semantics 1.2: port choice is ((mix64(salt ^ (key << 32 | dst)) >> 32) * m) >> 32 of the
    packet's key.
    """
    n_spine, seed = 3, 5
    messages = [Message(0, 2, 4 * 4096), Message(1, 3, 4 * 4096)]
    for spray in (False, True):
        settings = {"path": PATH_SPRAY} if spray else {}
        plan = leaf_spine(2, n_spine, 2, seed=seed, **settings)
        _, rows = run_all(plan, messages)
        events = rows["events"]
        sent = events[
            (events["node"] == 4)
            & (events["kind"] == EVENT_DEPART)
            & (events["packet"] == PACKET_DATA)
        ]
        for c, message in enumerate(messages):
            ports = sent["port"][sent["flow"] == c].tolist()
            salt = draw(seed, 2, 4, 0)
            keys = [
                draw(seed, 5, c, k) >> 48
                if spray
                else draw(seed, 4, message.src << 32 | message.dst, c) >> 48
                for k in range(4)
            ]
            chosen = [
                (mix64(salt ^ (key << 32 | message.dst)) >> 32) * n_spine >> 32 for key in keys
            ]
            assert ports == [2 + choice for choice in chosen]


def test_block_and_table_routes_deliver_alike() -> None:
    """The two spellings of shortest paths are the same routes, so a line runs the same with
    either.
    """
    from plans import Cable, make_fabric

    blocks = line(2, 2, [(100 * GBPS, US)])
    cables = [
        Cable(0, 4, 400 * GBPS, US),
        Cable(1, 4, 400 * GBPS, US),
        Cable(2, 5, 400 * GBPS, US),
        Cable(3, 5, 400 * GBPS, US),
        Cable(4, 5, 100 * GBPS, US),
    ]
    tables = make_fabric(4, 2, cables)
    messages = [
        Message(0, 2, 50_000),
        Message(1, 3, 50_000),
        Message(3, 0, 50_000),
        Message(0, 1, 50_000),
    ]
    (_, by_block), (_, by_table) = run_all(blocks, messages), run_all(tables, messages)
    assert np.array_equal(by_block["events"], by_table["events"])


def test_queue_samples_note_changes_only() -> None:
    """One row per change between sampling instants, the return to zero included (rows.py,
    QUEUE_ROW).

    Two packets of 4174 B are at the switch port from 1,583,880; the first is released at
    1,667,760, the second at 1,751,640. Samples every 50 ns see 8348 at 1.60 and 1.65 us, 4174 at
    1.70 and 1.75, 0 at 1.80.
    """
    plan = star([400 * GBPS] * 3)
    engine, rows = run_all(plan, [Message(0, 2, 4096), Message(1, 2, 4096)], sample_every_ps=50_000)
    queues = rows["queues"]
    out = int(plan.node_port_start[3]) + 2
    of_data = queues[queues["port"] == out]
    assert of_data["time_ps"].tolist() == [1_600_000, 1_700_000, 1_800_000]
    assert of_data["queue_bytes"].tolist() == [8348, 4174, 0]
    assert engine.totals()["in_flight_packets"] == engine.totals()["queued_packets"] == 0
