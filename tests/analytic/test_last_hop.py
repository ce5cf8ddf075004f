"""Which queues spraying can shorten, and which it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabric import BARE, plan_of
from support.oracle import GBPS, MTU, US
from support.run import Message, Result, run

from emunet.plan.schema import Plan
from emunet.topology.explicit import Cable, explicit

pytestmark = pytest.mark.checked

N_SENDER, N_SPINE = 16, 4
HOST_BPS = 100 * GBPS
UPLINK_BPS = N_SENDER // N_SPINE * HOST_BPS
N_PACKET = 100
SIZE = N_PACKET * MTU
LEAF = N_SENDER + 1


def fabric(path: str, seed: int) -> Plan:
    """Sixteen hosts on one leaf, one on the other; four spines whose links take four hosts each."""
    spine = LEAF + 2
    cables = [Cable(h, LEAF, HOST_BPS, US) for h in range(N_SENDER)]
    cables += [Cable(N_SENDER, LEAF + 1, HOST_BPS, US)]
    cables += [Cable(LEAF + leaf, spine + s, UPLINK_BPS, US)
               for leaf in range(2) for s in range(N_SPINE)]  # fmt: skip
    names = [f"s{i}" for i in range(2 + N_SPINE)]
    topology = explicit([f"h{i}" for i in range(N_SENDER + 1)], names, cables)
    knobs = {"path": path, "seed": seed, "recovery": "sr", "sr_reorder_packets": 1023}
    return plan_of(topology, BARE, buffer_bytes=10**8, alpha=8.0, **knobs)


def ports(plan: Plan, node: int, peers: range) -> list[int]:
    """Ports of a node towards these nodes."""
    own = range(int(plan.node_port_start[node]), int(plan.node_port_start[node + 1]))
    return [p for p in own if int(plan.port_node[plan.port_peer[p]]) in peers]


def watermarks(path: str, seed: int) -> tuple[int, int, Result, np.ndarray]:
    """Of the receiver's port, and the greatest of the uplinks; packets on each uplink."""
    plan = fabric(path, seed)
    result = run(plan, [Message(h, N_SENDER, SIZE) for h in range(N_SENDER)], log=False)
    assert result.totals["dropped_packets"] == result.totals["pause_frames"] == 0
    (last_hop,) = ports(plan, LEAF + 1, range(N_SENDER, N_SENDER + 1))
    up = ports(plan, LEAF, range(LEAF + 2, LEAF + 2 + N_SPINE))
    marks = result.ports["watermark_bytes"]
    return int(marks[last_hop]), int(marks[up].max()), result, result.ports["tx_packets"][up]


@pytest.mark.parametrize("seed", range(1, 21))
def test_spraying_empties_the_uplinks_and_not_the_last_hop(seed: int) -> None:
    """K22: an incast at the last hop: spraying lowers the uplinks' watermark, the receiver's never.

    Sixteen senders of rate r, four uplinks of 4 r. Under a hash the fullest carries m messages; if
    m > 4 they come at m r and leave at 4 r, so (m - 4) / m of their bytes queue up: (m - 4) S, to
    within one packet of each. Sprayed, each takes a fourth of the 1600 packets, give or take: the
    backlog is a sum of draws with a standard deviation of at most sqrt(1600 * 3/16) = 17 packets,
    below 1 S = 100 packets by five of them.

    The receiver's port takes in 16 S and has let r out since the first packet arrived. All have
    arrived when the fullest uplink is done, after m / 4 message times (1 if sprayed): it is filled
    to 16 S less that. So sprayed it holds 15 S, and under the hash 16 - m / 4: spraying makes it
    fuller, not emptier. Within 0.3 S: five standard deviations of an uplink's share (87 packets at
    4 r: 0.22 S at r), and the transit of the first packets.
    """
    frames = N_PACKET * 4158
    last_ecmp, up_ecmp, result, packets = watermarks("ecmp", seed)
    last_spray, up_spray, sprayed, _ = watermarks("spray", seed)
    m = round(int(packets.max()) / N_PACKET)
    assert int(packets.sum()) == N_SENDER * N_PACKET
    assert abs(up_ecmp - max(0, m - N_SPINE) * frames) <= 2 * m * 4158
    assert up_spray < frames
    if m > N_SPINE:
        assert up_spray < up_ecmp
    assert abs(last_spray - 15 * frames) <= 0.3 * frames
    assert abs(last_ecmp - (16 - max(m, N_SPINE) / N_SPINE) * frames) <= 0.3 * frames
    assert last_spray > last_ecmp or m < 6
    # and so the last byte comes when it did: the receiver's link never idles
    assert abs(int(result.rx_ps().max()) - int(sprayed.rx_ps().max())) <= 2 * 4178 * 80
