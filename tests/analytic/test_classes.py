"""Classes of a switch: turns by weight, cells, thresholds at either side, a common headroom."""

from __future__ import annotations

from typing import Any

import pytest
from support.fabric import BARE, LOSSY, plan_of, spokes
from support.oracle import FIRST, FULL, GBPS, MTU, US
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.schema import NO_LIMIT
from emunet.plan.switches import ClassChanges, Threshold

pytestmark = pytest.mark.checked

SLOT = 20
LOG = (1 << R.EVENT_DEPART, -1, 1 << 32)
FROM, TO = 60 * US, 260 * US
NONE = Threshold(limit_bytes=NO_LIMIT)


def weights(**of_class: int) -> tuple[tuple[int, ClassChanges], ...]:
    """Changes of classes ``c1``, ``c2``, ... that take turns."""
    return tuple((int(name[1:]), ClassChanges(weight=w)) for name, w in of_class.items())


def served(result: Result, switch: int, port: int) -> dict[int, int]:
    """Link bytes of each class that left a port between FROM and TO."""
    rows = result.select(node=switch, port=port, packet=R.PACKET_DATA)
    rows = rows[(rows["time_ps"] >= FROM) & (rows["time_ps"] < TO)]
    return {
        int(c): int((rows["bytes"] + SLOT)[rows["klass"] == c].sum()) for c in set(rows["klass"])
    }


def turns(messages: list[Message], rates: list[int], **knobs: Any) -> dict[int, int]:
    """Bytes of each class at the last host's port while every queue has packets."""
    plan = plan_of(spokes(rates), BARE, buffer_bytes=400_000_000, alpha=8.0, **knobs)
    result = run(plan, messages, until_ps=TO, expect=R.UNTIL, event_filter=LOG)
    return served(result, len(rates), len(rates) - 1)


@pytest.mark.parametrize(("one", "two"), [(1, 1), (1, 3), (2, 5), (10, 1)])
def test_turns_share_the_link_by_weight(one: int, two: int) -> None:
    """Shreedhar and Varghese 1995, lemma 2: in m rounds a busy class sends within one packet of m
    quanta, and rounds of two classes differ by at most one.
    """
    longest = FULL + SLOT
    quantum = [longest * w / min(one, two) for w in (one, two)]
    sent = turns(
        [Message(0, 2, 10**8, klass=1), Message(1, 2, 10**8, klass=2)],
        [400 * GBPS, 400 * GBPS, 100 * GBPS],
        lossless_classes=(1, 2),
        classes=weights(c1=one, c2=two),
    )
    rounds = [sent[c] / q for c, q in zip((1, 2), quantum, strict=True)]
    assert abs(rounds[0] - rounds[1]) <= 1 + 2 * longest / quantum[0] + 2 * longest / quantum[1]
    assert abs(sum(sent.values()) - 100e9 / 8e12 * (TO - FROM)) <= longest
    assert min(rounds) > 20


def test_turns_count_bytes_and_not_packets() -> None:
    """Shreedhar and Varghese 1995: round robin by packets would give short ones a quarter less."""
    short = [Message(1, 2, 1000, i * 1000, klass=2) for i in range(4000)]
    sent = turns(
        [Message(0, 2, 10**8, klass=1), *short],
        [400 * GBPS, 400 * GBPS, 100 * GBPS],
        lossless_classes=(1, 2),
        classes=weights(c1=1, c2=1),
    )
    assert abs(sent[1] - sent[2]) <= 3 * (FULL + SLOT)


def test_strict_classes_come_before_those_that_take_turns() -> None:
    """docs/semantics.md 3.3: a strict class has what it asks for, the others share the rest 1 to 3.

    25 of 100 Gb/s are asked for; what waits at either edge of the interval is one packet.
    """
    sent = turns(
        [
            Message(0, 3, 10**8, klass=1),
            Message(1, 3, 10**8, klass=2),
            Message(2, 3, 10**8, klass=0),
        ],
        [400 * GBPS, 400 * GBPS, 25 * GBPS, 100 * GBPS],
        lossless_classes=(0, 1, 2),
        classes=weights(c1=1, c2=3),
    )
    longest, span_s = FULL + SLOT, (TO - FROM) / 1e12
    assert abs(sent[0] - 25e9 / 8 * span_s) <= longest
    assert abs(sent[1] + sent[2] - 75e9 / 8 * span_s) <= 2 * longest
    assert abs(3 * sent[1] - sent[2]) <= 8 * longest


@pytest.mark.parametrize(
    ("cell", "full", "ack"), [(1, 4158, 66), (208, 4160, 208), (254, 4318, 254)]
)
def test_packets_take_whole_cells(cell: int, full: int, ack: int) -> None:
    """Switch memory comes in cells (254 bytes in Tomahawk 5): 17 for a full packet, 1 for an ACK.

    The second packet arrives 16 byte times before the first, which is so much longer, has left.
    """
    first = -(-FIRST // cell) * cell
    plan = plan_of(spokes([100 * GBPS] * 2), BARE, cell_bytes=cell, buffer_bytes=4_000_000)
    result = run(plan, [Message(0, 1, 20 * MTU)])
    queue = result.ports["queue_watermark_bytes"]
    assert int(queue[3, 3]) == first + full
    assert int(queue[2, 3]) == ack


@pytest.mark.parametrize("limit", [20_000, 50_000])
def test_a_static_egress_threshold_is_a_limit(limit: int) -> None:
    """docs/semantics.md 3.2: packets join while queue + packet <= limit, whatever is free.

    Nothing leaves meanwhile: a receiver of 1 Gb/s.
    """
    change = ClassChanges(queue=Threshold(limit_bytes=limit))
    plan = plan_of(spokes([400 * GBPS, GBPS]), LOSSY, classes=((3, change),))
    result = run(plan, [Message(0, 1, 40 * MTU)], until_ps=8 * US, expect=R.UNTIL)
    admitted = 1 + (limit - FIRST) // FULL
    assert int(result.select(kind=R.EVENT_DROP)["psn"][0]) == admitted
    assert int(result.ports["queue_watermark_bytes"][3, 3]) == FIRST + (admitted - 1) * FULL


def test_a_lossy_class_can_be_bounded_at_its_ingress() -> None:
    """docs/semantics.md 3.2: two senders to two slow receivers, one group: its limit holds for the
    sum of what it has in both queues.
    """
    change = ClassChanges(group=Threshold(limit_bytes=50_000), queue=NONE)
    plan = plan_of(spokes([400 * GBPS, GBPS, GBPS]), LOSSY, classes=((3, change),))
    messages = [Message(0, 1, 40 * MTU), Message(0, 2, 40 * MTU)]
    result = run(plan, messages, until_ps=8 * US, expect=R.UNTIL)
    held = result.ports["pg_watermark_bytes"][3, 3]
    assert 50_000 - FULL < held <= 50_000
    assert result.totals["dropped_packets"] > 0
    assert result.ports["queue_watermark_bytes"][4:, 3].max() < held


def test_a_common_headroom_bounds_the_sum_of_groups() -> None:
    """SONiC's shared headroom pool: groups that are paused at once have it together.

    Four senders are paused one after another by a full pool; what arrives in headroom then is more
    than the pool, though less than the sum of what each may have: lost, and counted as such.
    """
    knobs = {"buffer_bytes": 600_000, "headroom_bytes": 100_000, "alpha": 8.0, "rto_ps": 500 * US}
    messages = [Message(i, 4, 400 * MTU) for i in range(4)]
    rates = [400 * GBPS] * 4 + [100 * GBPS]
    own = run(plan_of(spokes(rates), **knobs), messages, until_ps=300 * US, expect=R.UNTIL)
    pool = run(
        plan_of(spokes(rates), **{**knobs, "buffer_bytes": 150_000}, headroom_pool_bytes=50_000),
        messages,
        until_ps=300 * US,
        expect=R.UNTIL,
    )
    most = own.ports["headroom_watermark_bytes"][:, 3]
    assert own.totals["dropped_lossless_packets"] == 0 and most.sum() > 50_000
    assert pool.ports["headroom_watermark_bytes"][:, 3].max() <= 50_000
    assert pool.totals["dropped_lossless_packets"] > 0


def test_a_group_that_holds_nothing_is_not_paused_for_ever() -> None:
    """docs/semantics.md 3.2: with pool and headroom full, a packet of an empty group is dropped
    and no XOFF is sent, as nothing of the group will be released that could end it.
    """
    plan = plan_of(
        spokes([400 * GBPS, 400 * GBPS, 10 * GBPS]),
        buffer_bytes=60_000,
        headroom_bytes=30_000,
        headroom_pool_bytes=FIRST,
        classes=((3, ClassChanges(group=NONE)),),
        rto_ps=100 * US,
        max_retries=50,
    )
    result = run(plan, [Message(0, 2, 60 * MTU), Message(1, 2, MTU, 3 * US)])
    late = result.select(kind=R.EVENT_DROP, flow=1)
    assert len(late) > 0 and set(late["occupancy"].tolist()) == {0}
    assert result.totals["flows_finished"] == 2
