"""Answers known in closed form that combine several mechanisms."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.fabric import BARE, plan_of, policy, spokes
from support.oracle import ACK, FIRST, FULL, GAP, GBPS, MTU, NS, US, exact_cross, frames, n_packet
from support.run import Message, run

from emunet._core import rows as R
from emunet.plan.compile import compile_topology
from emunet.topology import Topology
from emunet.topology.explicit import Cable, explicit
from emunet.topology.from_file import build as topology_from_file

pytestmark = pytest.mark.checked


@pytest.mark.parametrize("ack_bytes", [40, 60, 64, 84])
def test_hpccs_slowdown_falls_below_one(ack_bytes: int) -> None:
    """K2: alone on an empty network the sender has its last ACK before HPCC's ideal time of 88 us.

    That ideal is 2 RTTs of propagation for 2 links of 1 us (4 us), 2 payloads of 1000 B at 100 Gb/s
    (160 ns) and 1000 frames of 1048 B (83,840 ns). The truth, in exact fractions: one way
    85,923.84 ns; the ACK of an acknowledged packet takes 2 us and two of its own times more. Below
    476 B it is back before 88 us, so a slowdown below 1 is no error, and must not be clipped.
    """
    ideal_ps = 2 * 2 * US + 2 * 1000 * 80 + 1000 * 1048 * 80
    assert ideal_ps == 88_000 * NS
    links = [(100 * GBPS, US)] * 2
    one_way = exact_cross([0] * 1000, [1048 - GAP] * 1000, links)[-1]
    assert one_way == 85_923_840
    acked = exact_cross([int(one_way)], [ack_bytes - GAP], links)[-1]
    assert acked == 85_923_840 + 2 * US + 2 * ack_bytes * 80
    assert Fraction(acked, ideal_ps) < 1
    assert acked > 0.999 * ideal_ps
    limit = (ideal_ps - 85_923_840 - 2 * US) // (2 * 80)
    assert limit == 476


def test_this_engines_ack_inclusive_time_is_below_hpccs_ideal_too() -> None:
    """K2 with RoCEv2's frames: 1 MB in payloads of 1000 B, by HPCC's formula and by the engine.

    1000 frames of 1082 slot bytes (the first 1098) and an ACK of 86: the sender is done 57.12 ns
    before HPCC's formula with these frames says that the receiver is.
    """
    result = run(plan_of(spokes([100 * GBPS] * 2), mtu_bytes=1000), [Message(0, 1, 1_000_000)])
    slot, first = 1000 + 62 + GAP, 1000 + 78 + GAP
    one_way_ps = (2 * first + 999 * slot) * 80 + 2 * US
    assert result.flow_ps(0) == one_way_ps
    assert result.flow_ps(0, R.FLOW_TX_DONE) == one_way_ps + 2 * (ACK + GAP) * 80 + 2 * US
    ideal_ps = 4 * US + 2 * 1000 * 80 + 1000 * slot * 80
    assert ideal_ps - result.flow_ps(0, R.FLOW_TX_DONE) == 57_120


@pytest.mark.parametrize("n_sender", [2, 7, 15])
def test_fair_windows_end_within_one_round(n_sender: int) -> None:
    """K3, fair control: k equal windowed senders end within one round, at the floor, lossless.

    Windows a little above the bandwidth-delay product (49 packets) keep the receiver's link busy
    from the first packet on, so the last byte comes at path + k wire sizes, exactly. In steady
    state the link serves the senders in turn, so when the first is done each other has at most its
    last packet to go.
    """
    size = 1000 * MTU
    plan = plan_of(
        spokes([400 * GBPS] * (n_sender + 1)),
        congestion=policy("fixed", None, window_bytes=52 * MTU),
    )
    result = run(plan, [Message(1 + i, 0, size) for i in range(n_sender)], log=False)
    sizes = frames(size)
    slots = sum(b + GAP for b in sizes)
    done = np.sort(result.rx_ps())
    path_ps = (FIRST + GAP) * 20 + 2 * US
    assert int(done[-1]) == path_ps + n_sender * slots * 20
    assert int(done[-1] - done[0]) == (n_sender - 1) * (FULL + GAP) * 20
    rtt_ps = 4 * US + 2 * (FULL + GAP + ACK + GAP) * 20
    bdp_slots = rtt_ps // ((FULL + GAP) * 20)
    assert bdp_slots == 49
    assert result.totals["dropped_packets"] == result.totals["pause_frames"] == 0


FOUR_LINES = """\
{n_node} 2 {n_link}
{left} {right}
{hosts}
{left} {right} 100Gbps 1us 0
{left} {right} 100Gbps 1us 0
{left} {right} 100Gbps 1us 0
{left} {right} 100Gbps 1us 0
"""


def test_four_lines_of_a_topology_file_are_four_links(tmp_path: Path) -> None:
    """K7: four equal lines between two switches are four links of which each carries.

    (In HPCC's simulator the last line replaces those before it, and all traffic shares one link.)
    4 k flows with k = 16: each link carries, and the four together carry all bytes, twice as fast
    and more than one could: 64 MB take 5.2 ms at 100 Gb/s, and end before half of that.
    """
    n = 16
    left, right = 2 * n, 2 * n + 1
    hosts = "\n".join(f"{h} {left if h < n else right} 400Gbps 1us 0" for h in range(2 * n))
    text = FOUR_LINES.format(
        n_node=2 * n + 2, n_link=2 * n + 4, left=left, right=right, hosts=hosts
    )
    (tmp_path / "four.txt").write_text(text)
    topology = read_topology(tmp_path / "four.txt")
    plan = compile_topology(topology, BARE).plan
    size = 1_000_000
    work = [Message(i % n, n + (i + i // n) % n, size) for i in range(4 * n)]
    result = run(plan, work, log=False)
    first = int(plan.node_port_start[left]) + n
    assert set(plan.port_node[plan.port_peer[first : first + 4]].tolist()) == {right}
    carried = result.ports["tx_bytes"][first : first + 4]
    assert (carried > 0).all()
    assert int(carried.sum()) == 4 * n * sum(frames(size))
    slots = sum(b + GAP for b in frames(size))
    one_link_ps = 4 * n * slots * 80
    assert one_link_ps / 4 < int(result.rx_ps().max()) < one_link_ps / 2


def read_topology(path: Path) -> Topology:
    """The topology of a file, dialect recognised."""
    from emunet.scenario import Scenario

    scenario = Scenario.model_validate({"topology": {"kind": "file", "path": str(path)}})
    return topology_from_file(scenario.topology, path.parent)


def two_tiers(order: list[int], spines: list[int]) -> Topology:
    """Four leaves of four hosts under four spines, nodes numbered as told, ports in one order."""
    n, n_leaf, n_spine = 16, 4, 4
    cables = [Cable(order[i], n + i // 4, 100 * GBPS, US) for i in range(n)]
    cables += [Cable(n + leaf, n + n_leaf + spines[spine], 100 * GBPS, US)
               for leaf in range(n_leaf) for spine in range(n_spine)]  # fmt: skip
    names = [f"s{i}" for i in range(n_leaf + n_spine)]
    return explicit([f"h{i}" for i in range(n)], names, cables)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", ["ecmp", "spray"])
def test_renumbering_changes_a_lonely_message_by_nothing(path: str, seed: int) -> None:
    """K25: under a hash node numbers decide the way only; alone, all ways take the same time.

    Messages one after another over four spines, nodes renumbered: each takes exactly as long as
    before, though it goes by another spine; with selective repeat, so that no reordering counts.
    """
    draw = random.Random(f"spines {seed}")
    pairs = [(a, b) for a in range(16) for b in range(16) if a // 4 != b // 4]
    work = draw.sample(pairs, 60)
    knobs = {"path": path, "recovery": "sr", "seed": seed, "ecn": None}
    mixed, spines = list(range(16)), list(range(4))
    draw.shuffle(mixed)
    draw.shuffle(spines)
    outcomes, used = [], []
    for order, upper in ((list(range(16)), list(range(4))), (mixed, spines)):
        plan = plan_of(two_tiers(order, upper), BARE, **knobs)
        messages = [Message(order[a], order[b], 5 * MTU + 7 * i, 40 * US * i)
                    for i, (a, b) in enumerate(work)]  # fmt: skip
        result = run(plan, messages)
        outcomes.append(
            [
                row.tolist()
                for row in np.sort(
                    result.flows[["flow", "kind", "time_ps", "retransmitted"]],
                    order=["flow", "kind"],
                )
            ]
        )
        up = result.select(kind=R.EVENT_DEPART, packet=R.PACKET_DATA)
        used.append([(int(row["flow"]), int(row["port"])) for row in up[up["node"] >= 16]])
    assert outcomes[0] == outcomes[1]
    assert used[0] != used[1]
    times = np.array([row[2] for row in outcomes[0] if row[1] == R.FLOW_RX_DONE])
    for i, size in enumerate(5 * MTU + 7 * i for i in range(60)):
        slots = 4 * (FIRST + GAP) + (n_packet(size) - 2) * (FULL + GAP) + frames(size)[-1] + GAP
        assert times[i] - 40 * US * i == slots * 80 + 4 * US
