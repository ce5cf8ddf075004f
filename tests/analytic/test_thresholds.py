"""Shared buffer: dynamic thresholds settle where their equation says, reserved bytes are kept."""

from __future__ import annotations

import pytest
from support.fabric import LOSSY, plan_of, spokes
from support.oracle import FIRST, FULL, GBPS, MTU, US
from support.run import Message, run

from emunet._core import rows as R

pytestmark = pytest.mark.checked

POOL = 1_000_000
PHASE = 300 * US
SETTLE = 200 * US
LOG = (1 << R.EVENT_DEPART, -1, 1 << 32)


@pytest.mark.parametrize("alpha", [0.125, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("n_queue", [1, 2, 4])
def test_saturated_queues_settle_at_their_threshold(alpha: float, n_queue: int) -> None:
    """K16 (Choudhury and Hahne 1998): k saturated queues each settle at alpha B / (1 + k alpha).

    Each of k receivers of 100G has a sender of 400G; they start one after another, so the queues
    settle anew k times. A packet is refused when q + b > alpha (B - used), so the peaks sum to more
    than (k alpha B - k b) / (1 + k alpha); one that is admitted saw at most k frames more of free
    pool, so they sum to at most (k alpha B + k b k alpha) / (1 + k alpha): their mean is within one
    frame of the settled value. A single queue may differ by that frame and by alpha for each of the
    k - 1 others that lacked one when it was served. Peaks are one frame above what is left when a
    departure starts.
    """
    plan = plan_of(
        spokes([400 * GBPS] * n_queue + [100 * GBPS] * n_queue),
        LOSSY,
        alpha=alpha,
        buffer_bytes=POOL,
    )
    messages = [Message(i, n_queue + i, 10**9, i * PHASE) for i in range(n_queue)]
    result = run(
        plan, messages, until_ps=n_queue * PHASE, expect=R.UNTIL, event_filter=LOG
    )
    rows = result.select(node=2 * n_queue, packet=R.PACKET_DATA)
    for phase in range(n_queue):
        k = phase + 1
        settled = alpha * POOL / (1 + k * alpha)
        from_ps, to_ps = phase * PHASE + SETTLE, (phase + 1) * PHASE
        now = rows[(rows["time_ps"] > from_ps) & (rows["time_ps"] < to_ps)]
        means = []
        for queue in range(k):
            peaks = now[now["port"] == n_queue + queue]["occupancy"] + FULL
            assert len(peaks) > 250
            assert abs(peaks - settled).max() <= FULL * (1 + alpha * (k - 1)), (phase, queue)
            means.append(float(peaks.mean()))
        mean = sum(means) / k
        assert abs(mean - settled) <= FULL
        # a queue more would be seen
        assert abs(mean - alpha * POOL / (1 + (k + 1) * alpha)) > FULL
    assert result.totals["dropped_packets"] > 1000


@pytest.mark.parametrize("reserved", [0, 20_000])
def test_a_queue_alone_is_admitted_up_to_reserved_and_threshold(reserved: int) -> None:
    """Semantics 3.2: the first drop is the first with q + b > reserved + int(alpha (S - used)).

    Counted by hand: nothing leaves meanwhile (a receiver of 1 Gb/s). The reserved bytes of the
    group are not part of `used`: after n packets of 4174 + 4158 (n - 1) bytes, used is what exceeds
    them. With S = 90,000 and alpha 1/2 admission ends above 27,228 bytes, with 20,000 reserved
    above 47,228: after 7 and 12 packets.
    """
    plan = plan_of(
        spokes([400 * GBPS, GBPS]),
        LOSSY,
        alpha=0.5,
        buffer_bytes=90_000 + 2 * 8 * reserved,
        reserved_bytes=reserved,
    )
    assert int(plan.switch_shared_bytes[0]) == 90_000
    result = run(plan, [Message(0, 1, 40 * MTU)], until_ps=8 * US, expect=R.UNTIL)
    held, admitted = 0, 0
    while True:
        b = FIRST if admitted == 0 else FULL
        used = max(0, held - reserved)
        if held + b > reserved + int(0.5 * (90_000 - used)):
            break
        held += b
        admitted += 1
    drops = result.select(kind=R.EVENT_DROP)
    assert int(drops["psn"][0]) == admitted == (7 if reserved == 0 else 12)
    assert set(drops["occupancy"].tolist()) == {held}
    assert len(drops) == 40 - admitted
    assert int(result.ports["watermark_bytes"][3]) == held
    assert int(result.switches["pool_watermark_bytes"][0]) == max(0, held - reserved)


def test_a_full_pool_refuses_although_the_threshold_would_admit() -> None:
    """Semantics 3.2: a lossy packet needs room in the pool too.

    With a large alpha the pool is the limit, to the byte. At alpha 1000 the threshold is no limit
    until the pool is within 1/1000 of full; S = 10 full packets and a first one admits exactly 11,
    and one byte less admits 10.
    """
    exact = FIRST + 10 * FULL
    for pool_bytes, admitted in ((exact + 42, 11), (exact - 1, 10)):
        plan = plan_of(
            spokes([400 * GBPS, GBPS]), LOSSY, alpha=1000.0, buffer_bytes=pool_bytes
        )
        result = run(plan, [Message(0, 1, 20 * MTU)], until_ps=5 * US, expect=R.UNTIL)
        drops = result.select(kind=R.EVENT_DROP)["psn"].tolist()
        assert drops == list(range(admitted, 20))


def test_classes_of_one_port_are_served_by_strict_priority() -> None:
    """Semantics 3.3: the highest class goes first, so a lower one waits until that queue is empty.

    Two senders of 400G into a link of 400G: class 5 takes all of it, class 1 gets it afterwards.
    """
    n = 50
    plan = plan_of(spokes([400 * GBPS] * 3), LOSSY, buffer_bytes=10**7, alpha=8.0)
    result = run(plan, [Message(0, 2, n * MTU, klass=1), Message(1, 2, n * MTU, klass=5)])
    rows = result.select(node=3, port=2, kind=R.EVENT_DEPART)
    first_low = rows[rows["klass"] == 1]["time_ps"]
    last_high = rows[rows["klass"] == 5]["time_ps"].max()
    # at most the packet that the tie of the first instant lets out goes before
    assert (first_low < last_high).sum() <= 1
    slots = 2 * (4194 + (n - 1) * 4178)
    assert int(result.rx_ps().max()) == (4194 + slots) * 20 + 2 * US
