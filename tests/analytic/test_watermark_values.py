"""Watermarks, their clears, p99 and means: by hand, and anew from the log of all packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.fabric import BARE, plan_of, spokes
from support.mix import MIXES, Material, material
from support.oracle import ACK, FIRST, GAP, GBPS, MTU, US, slot_ps
from support.run import Message, Result, finish, run

import emunet
from emunet._core import rows as R

pytestmark = pytest.mark.checked

LINE = 400 * GBPS
SLOT = (FIRST + GAP) * 20
AT_SWITCH = SLOT + US
FIRST_LEFT = AT_SWITCH + SLOT
SECOND_LEFT = FIRST_LEFT + SLOT
ACK_AT_SWITCH = FIRST_LEFT + US + (ACK + GAP) * 20 + US
END = ACK_AT_SWITCH + SLOT + (ACK + GAP) * 20 + US
"""Two packets reach a switch at one instant, leave one after the other, and are acknowledged."""


def two_packets(**options: Any) -> Result:
    """Hosts 0 and 1 send one full packet each to host 2 at time 0; nothing has a latency."""
    plan = plan_of(spokes([LINE] * 3), BARE, buffer_bytes=32_000_000)
    return run(plan, [Message(0, 2, MTU), Message(1, 2, MTU)], **options)


def held(result: Result, what: int, local: int = -1) -> np.void:
    """The row of an object of the only switch, whose ports follow those of three hosts."""
    port = local if local < 0 else 3 + local
    found = result.watermarks[
        (result.watermarks["object"] == what) & (result.watermarks["port"] == port)
    ]
    assert len(found) == 1
    return found[0]


def test_two_packets_by_hand() -> None:
    """Semantics 3.5 by arithmetic: both wait together, then one leaves after the other.

    Queue and pool hold two frames at most, each group one; the integral is the sum of the frames'
    residences, one slot and two; each group's is that of its own packet.
    """
    result = two_packets()
    assert result.now_ps >= END == max(result.times(kind=R.EVENT_ARRIVE))
    queue = held(result, R.QUEUE, 2)
    assert queue["watermark_bytes"] == queue["user_bytes"] == 2 * FIRST
    assert queue["byte_ps"] == FIRST * SLOT * 3
    groups = [held(result, R.PG_SHARED, port) for port in (0, 1)]
    assert [g["watermark_bytes"] for g in groups] == [FIRST, FIRST]
    assert sorted(g["byte_ps"] for g in groups) == [FIRST * SLOT, 2 * FIRST * SLOT]
    pool = held(result, R.POOL_SHARED)
    assert pool["watermark_bytes"] == 2 * FIRST
    assert pool["byte_ps"] == FIRST * SLOT * 3 + 2 * ACK * (ACK + GAP) * 20
    assert not {R.PG_HEADROOM, R.POOL_HEADROOM} & set(result.watermarks["object"].tolist())
    assert set(result.watermarks["p99_bytes"].tolist()) == {-1}


@pytest.mark.parametrize(
    ("every_ps", "data", "acks"),
    [(100_000, 2 * FIRST, {0}), (SLOT * 9 // 10, 2 * FIRST, {0, ACK}), (10_000, 2 * FIRST, {0})],
)
def test_p99_counts_the_time_at_zero(every_ps: int, data: int, acks: set[int]) -> None:
    """Semantics 3.5: p99 is the ceil(0.99 n)-th smallest of n samples, those of an empty queue too.

    By hand, from when each packet is held. Of 425 samples the four greatest are left out, which is
    more than an ACK has; of fewer than a hundred none is.
    """
    result = two_packets(measure_every_ps=every_ps)
    instants = [k * every_ps for k in range(1, (END - 1) // every_ps + 1)]
    ack_ps = (ACK + GAP) * 20
    stays = {2: [(AT_SWITCH, FIRST_LEFT, FIRST), (AT_SWITCH, SECOND_LEFT, FIRST)]}
    acked = [(t, t + ack_ps, ACK) for t in (ACK_AT_SWITCH, ACK_AT_SWITCH + SLOT)]
    found = {port: int(held(result, R.QUEUE, port)["p99_bytes"]) for port in range(3)}
    orders = ([acked[0]], [acked[1]]), ([acked[1]], [acked[0]])
    assert any(
        found == {port: p99(packets, instants) for port, packets in {**stays, 0: a, 1: b}.items()}
        for a, b in orders
    )
    assert found[2] == data
    assert {found[0], found[1]} == acks


def p99(packets: list[tuple[int, int, int]], instants: list[int]) -> int:
    """The ceil(0.99 n)-th smallest of the bytes held at n instants."""
    samples = sorted(sum(b for t, end, b in packets if t <= now <= end) for now in instants)
    return samples[-(-99 * len(samples) // 100) - 1]


@pytest.mark.parametrize(
    ("clear_ps", "left"),
    [
        (1, 2), (AT_SWITCH - 1, 2), (AT_SWITCH, 2), (FIRST_LEFT - 1, 2), (FIRST_LEFT, 2),
        (FIRST_LEFT + 1, 1), (SECOND_LEFT, 1), (SECOND_LEFT + 1, 0), (END, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["user", "persistent"])
def test_a_clear_begins_anew_at_what_is_held(kind: str, clear_ps: int, left: int) -> None:
    """SONiC's rule (sonic-swss, watermark orchestrator): a clear touches its own kind only.

    Semantics 2 and 3.5: it comes after the arrivals of its instant and before the departures, so
    a frame whose last bit leaves at the very instant is still held.
    """
    other = {"user": "persistent", "persistent": "user"}[kind]
    result = two_packets(**{f"clear_{kind}_ps": [clear_ps]}, periodic_ps=END)
    queue = held(result, R.QUEUE, 2)
    assert queue[f"{kind}_bytes"] == left * FIRST
    assert queue[f"{other}_bytes"] == queue["watermark_bytes"] == 2 * FIRST
    assert held(result, R.POOL_SHARED)["watermark_bytes"] == 2 * FIRST
    assert result.ports["queue_watermark_bytes"][5, 3] == 2 * FIRST
    # the interval ends with the run's last event, an instant before the run does
    rows = result.periodic[(result.periodic["object"] == R.QUEUE) & (result.periodic["port"] == 5)]
    assert rows[["time_ps", "watermark_bytes"]].tolist() == [(END, 2 * FIRST)]


def test_a_clear_after_the_end_is_none() -> None:
    """Semantics 3.5: what the run does not reach does not happen: neither a clear nor an interval's
    end.
    """
    result = two_packets(clear_user_ps=[END + 1], periodic_ps=END + 1)
    assert held(result, R.QUEUE, 2)["user_bytes"] == 2 * FIRST
    assert len(result.periodic) == 0


def test_intervals_by_hand() -> None:
    """Semantics 3.5: an interval that begins with a frame in the queue has that as its least
    maximum; one without any bytes has no row.
    """
    result = two_packets(periodic_ps=FIRST_LEFT + 1)
    rows = result.periodic[(result.periodic["object"] == R.QUEUE) & (result.periodic["port"] == 5)]
    assert rows[["time_ps", "watermark_bytes"]].tolist() == [
        (FIRST_LEFT + 1, 2 * FIRST), (2 * (FIRST_LEFT + 1), FIRST),
    ]  # fmt: skip


# ------------------------------------------------------------------- anew from the log of packets

ROOMY = {
    **MIXES["pfc"],
    "topology": {"kind": "fat_tree", "k": 4, "tier_rates": ["100Gbps", "400Gbps", "100Gbps"]},
    "switch": {"buffer": "32MB", "dt_alpha": 8},
}
"""The mix with room for all: no pause, no headroom, so that occupancy follows from the log alone.

A byte lasts for whole picoseconds everywhere, so no carry has to be known.
"""


@pytest.fixture(scope="module")
def work() -> Material:
    """Plan and messages."""
    return material(ROOMY)


class Stays:
    """When each packet came into a switch and left it."""

    def __init__(self, work: Material, result: Result) -> None:
        plan = work.plan
        fields = ["node", "flow", "psn", "packet"]
        log = result.events[result.events["node"] >= plan.n_host]
        came, went = (log[log["kind"] == kind] for kind in (R.EVENT_ARRIVE, R.EVENT_DEPART))
        came, went = np.sort(came, order=[*fields, "time_ps"]), np.sort(
            went, order=[*fields, "time_ps"]
        )
        assert (came[fields] == went[fields]).all()
        start = plan.node_port_start[came["node"]]
        self.node, self.klass, self.bytes = came["node"], came["klass"], came["bytes"]
        self.group, self.queue = start + came["port"], start + went["port"]
        self.admit_ps = came["time_ps"]
        ser = {int(b): {int(r): slot_ps(int(b), int(r)) for r in set(plan.port_rate_bps.tolist())}
               for b in set(came["bytes"].tolist())}
        rate = plan.port_rate_bps[self.queue]
        self.left_ps = went["time_ps"] + np.array(
            [ser[int(b)][int(r)] for b, r in zip(came["bytes"], rate, strict=True)]
        )

    def objects(self) -> Iterator[tuple[tuple[int, int, int, int], np.ndarray]]:
        """Each queue, group and pool, and the packets that it held."""
        for what, place in ((R.QUEUE, self.queue), (R.PG_SHARED, self.group)):
            for port, klass in sorted(set(zip(place.tolist(), self.klass.tolist(), strict=True))):
                mine = np.flatnonzero((place == port) & (self.klass == klass))
                yield (what, int(self.node[mine[0]]), port, klass), mine
        for node in sorted(set(self.node.tolist())):
            yield (R.POOL_SHARED, node, -1, -1), np.flatnonzero(self.node == node)

    def level(self, mine: np.ndarray, at_ps: np.ndarray) -> np.ndarray:
        """Bytes at instants, after the arrivals and before the departures of each."""
        come, go = np.argsort(self.admit_ps[mine]), np.argsort(self.left_ps[mine])
        total = np.concatenate([[0], np.cumsum(self.bytes[mine][come])])
        gone = np.concatenate([[0], np.cumsum(self.bytes[mine][go])])
        n_come = np.searchsorted(self.admit_ps[mine][come], at_ps, "right")
        n_gone = np.searchsorted(self.left_ps[mine][go], at_ps, "left")
        return total[n_come] - gone[n_gone]

    def greatest(self, mine: np.ndarray, from_ps: int, to_ps: int) -> int:
        """Greatest bytes from an instant to another, both ends included."""
        admit = self.admit_ps[mine]
        inside = admit[(admit > from_ps) & (admit <= to_ps)]
        return int(self.level(mine, np.append(inside, from_ps)).max())


USER, PERSISTENT, EVERY, PERIOD = [40 * US, 77_777_777], [100 * US], 700_000, 25 * US


def test_all_watermarks_follow_from_the_packets(work: Material) -> None:
    """Semantics 3.5 against the packet log: maxima of every kind and interval, p99 and mean.

    Queues, groups and pools of twenty switches; p99 of exact samples is at most 1/32 below.
    """
    options = {"sample_every_ps": 0, "measure_every_ps": EVERY, "periodic_ps": PERIOD,
               "clear_user_ps": USER, "clear_persistent_ps": PERSISTENT}  # fmt: skip
    result = finish(work.engine(**options))
    assert result.totals["pause_frames"] == 0
    stays, end_ps = Stays(work, result), int(result.events["time_ps"].max())
    last = {kind: max(t for t in times if t < end_ps)
            for kind, times in (("user", USER), ("persistent", PERSISTENT))}
    found = {tuple(row)[:4]: row for row in result.watermarks}
    series = {tuple(row)[2:]: {} for row in result.periodic}
    for row in result.periodic:
        series[tuple(row)[2:]][int(row["time_ps"])] = int(row["watermark_bytes"])
    instants = np.arange(1, (end_ps - 1) // EVERY + 1) * EVERY
    ends = range(PERIOD, end_ps + 1, PERIOD)
    checked = 0
    for key, mine in stays.objects():
        row = found.pop(key)
        assert row["watermark_bytes"] == stays.greatest(mine, 0, end_ps)
        for kind, since_ps in last.items():
            assert row[f"{kind}_bytes"] == stays.greatest(mine, since_ps, end_ps), (key, kind)
        assert series.get(key, {}) == {
            end: most for end in ends if (most := stays.greatest(mine, end - PERIOD, end))
        }
        stayed = (stays.left_ps[mine] - stays.admit_ps[mine]).tolist()
        assert row["byte_ps"] == sum(
            b * t for b, t in zip(stays.bytes[mine].tolist(), stayed, strict=True)
        )
        samples = np.sort(stays.level(mine, instants))
        exact = int(samples[-(-99 * len(samples) // 100) - 1])
        assert exact <= row["p99_bytes"] <= min(exact * (1 + 1 / 32), row["watermark_bytes"])
        checked += 1
    assert not found
    assert checked > 150


KINDS = {
    "user": {"clear_user_ps": USER},
    "persistent": {"clear_persistent_ps": PERSISTENT},
    "periodic": {"periodic_ps": PERIOD},
    "p99": {"measure_every_ps": EVERY},
}


@pytest.mark.parametrize("name", MIXES)
def test_nothing_else_changes(name: str) -> None:
    """SONiC's rule, and semantics 2: samples and clears change neither one another nor the run."""
    work = material(MIXES[name])
    none = {"measure_every_ps": 0, "periodic_ps": 0, "clear_user_ps": (), "clear_persistent_ps": ()}
    plain = finish(work.engine(**none))
    column = {"user": "user_bytes", "persistent": "persistent_bytes", "p99": "p99_bytes"}
    for kind, options in KINDS.items():
        result = finish(work.engine(**{**none, **options}))
        assert result.events.tobytes() == plain.events.tobytes()
        for field in R.WATERMARK_ROW.names:
            same = (result.watermarks[field] == plain.watermarks[field]).all()
            assert same == (field != column.get(kind)), (kind, field)
        for part in ("ports", "switches"):
            for key, values in getattr(plain, part).items():
                assert (getattr(result, part)[key] == values).all(), (kind, key)
        assert bool(len(result.periodic)) == (kind == "periodic")


def test_headroom_pool_is_the_sum_of_its_groups() -> None:
    """Semantics 3.5: a switch's headroom in use is the sum over its groups, at every time.

    So its integral is the sum of theirs, and its maximum lies between the greatest and the sum.
    """
    result = finish(material(MIXES["pfc"]).engine(periodic_ps=5 * US))
    w = result.watermarks
    pools = w[w["object"] == R.POOL_HEADROOM]
    assert len(pools) > 0
    together = 0
    for pool in pools:
        mine = w[(w["object"] == R.PG_HEADROOM) & (w["node"] == pool["node"])]
        assert pool["byte_ps"] == sum(int(b) for b in mine["byte_ps"])
        greatest = pool["watermark_bytes"]
        assert mine["watermark_bytes"].max() <= greatest <= mine["watermark_bytes"].sum()
        together += greatest > mine["watermark_bytes"].max()
    assert together > 0
    peaks = result.switches["headroom_pool_watermark_bytes"]
    assert sorted(peaks[peaks > 0]) == sorted(pools["watermark_bytes"])


# ----------------------------------------------------------------------- what operators look for

INCAST = {
    "topology": {
        "kind": "leaf_spine", "leaves": 4, "spines": 4, "hosts_per_leaf": 4, "rate": "100Gbps",
    },
    "transport": {"cc": "none", "recovery": "sr"},
    "workload": [
        {"incast": {"fan_in": 12, "receiver": 0, "senders": list(range(4, 16)), "size": "300KB"}}
    ],
}  # fmt: skip
"""Twelve hosts of three racks to one of a fourth."""


def by_role(path: str, seed: int) -> pd.DataFrame:
    """Greatest watermark and mean of the data's queues, fabric and last-hop ports apart."""
    switch = {"pfc": False, "ecn": False, "buffer": "64MB", "dt_alpha": 8}
    transport = {**INCAST["transport"], "path": path}
    run = emunet.run({**INCAST, "seed": seed, "switch": switch, "transport": transport})
    return run.watermarks["queues"].groupby("port_role")[["max", "mean"]].max()


@pytest.mark.parametrize("seed", range(3))
def test_spraying_helps_uplinks_and_not_the_last_hop(seed: int) -> None:
    """K22: under a last-hop incast spraying empties the uplinks; at the receiver's port nothing is
    gained, for what no longer waits there waits here.
    """
    ecmp, spray = by_role("ecmp", seed), by_role("spray", seed)
    assert spray["mean"]["fabric"] < 0.8 * ecmp["mean"]["fabric"]
    assert spray["max"]["last_hop"] >= ecmp["max"]["last_hop"]


@pytest.mark.parametrize(("buffer", "fires"), [("32MB", False), ("1MB", True)])
def test_pfc_and_occupancy_tell_the_same(buffer: str, fires: bool) -> None:
    """Semantics 3.2: a group sends XOFF when it exceeds its threshold, alone in its buffer at most
    `xoff`; so without a pause no group is above that, and headroom is used only after one.
    """
    run = emunet.run({**INCAST, "switch": {"ecn": False, "buffer": buffer}})
    groups = run.watermarks["priority_groups"]
    shared, headroom = (groups[groups["kind"] == kind] for kind in ("shared", "headroom"))
    assert (run.totals["pause_frames"] > 0) == fires == (shared["xoffs"].sum() > 0)
    assert (headroom["max"] > 0).any() == fires
    assert (headroom["max"] <= headroom["limit"]).all()
    # the packet that exceeds the threshold is still in the shared part
    crossed = shared["max"] > shared["xoff"]
    assert fires or not crossed.any()
    assert (shared["max"] <= shared["xoff"] + FIRST).all()
    pools = run.watermarks["pools"]
    assert (pools["max"] <= pools["size"]).all()
