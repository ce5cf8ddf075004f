"""Which of several equal ports: the hash of semantics 1.2, packet by packet."""

from __future__ import annotations

import pytest
from support.fabric import BARE, plan_of, trunks
from support.oracle import ECMP, ENTROPY, GBPS, MTU, SPRAY, US, draw, ecmp_choice
from support.run import Message, run

from emunet._core import rows as R
from emunet.topology import Topology
from emunet.topology.explicit import Cable, explicit
from emunet.topology.leaf_spine import leaf_spine

pytestmark = pytest.mark.checked

SEED = 77
N = 4


def data_key(flow: int, src: int, dst: int) -> int:
    """Entropy of a connection's data, 16 bits; of its responses with the hosts changed over."""
    return draw(SEED, ENTROPY, src << 32 | dst, flow) >> 48


def choice(node: int, key: int, dst: int, n_port: int) -> int:
    """Which of the candidates a node takes."""
    return ecmp_choice(draw(SEED, ECMP, node, 0), key, dst, n_port)


@pytest.mark.parametrize("n_link", [2, 3, 5, 8])
def test_flows_take_the_link_of_their_hash(n_link: int) -> None:
    """Semantics 1.2: port ((mix64(salt ^ (key << 32 | dst)) >> 32) * m) >> 32, salt by switch.

    Every data packet of a message takes the port of its key, every ACK the port of the reverse key,
    at the other switch with its own salt.
    """
    messages = [Message(i % N, N + (i * 7 + i // N) % N, 3 * MTU, i * 20 * US) for i in range(40)]
    plan = plan_of(trunks(N, N, [100 * GBPS] * n_link), BARE, seed=SEED)
    result = run(plan, messages)
    left, right = 2 * N, 2 * N + 1
    taken = set()
    for flow, message in enumerate(messages):
        src, dst = message.src, message.dst
        out = result.select(node=left, kind=R.EVENT_DEPART, packet=R.PACKET_DATA, flow=flow)
        back = result.select(node=right, kind=R.EVENT_DEPART, packet=R.PACKET_ACK, flow=flow)
        port = N + choice(left, data_key(flow, src, dst), dst, n_link)
        assert out["port"].tolist() == [port] * 3, flow
        port_back = N + choice(right, data_key(flow, dst, src), src, n_link)
        assert back["port"].tolist() == [port_back] * 3, flow
        taken.add(port)
    assert len(taken) > 1


def test_sprayed_packets_take_the_link_of_their_number() -> None:
    """Semantics 1.2: with `spray` the key is draw(K_SPRAY, connection, transmission) >> 48.

    Each data packet has its own; the ACKs of a message all have the message's.
    """
    n_link, n_packet = 4, 60
    plan = plan_of(
        trunks(1, 1, [100 * GBPS] * n_link), BARE, seed=SEED, path="spray", recovery="sr"
    )
    result = run(plan, [Message(0, 1, n_packet * MTU), Message(0, 1, 5 * MTU, 900 * US)])
    for flow, n in ((0, n_packet), (1, 5)):
        rows = result.select(node=2, kind=R.EVENT_DEPART, packet=R.PACKET_DATA, flow=flow)
        ports = {int(row["psn"]): int(row["port"]) for row in rows}
        told = [1 + choice(2, draw(SEED, SPRAY, flow, k) >> 48, 1, n_link) for k in range(n)]
        assert [ports[psn] for psn in range(n)] == told
        back = result.select(node=3, kind=R.EVENT_DEPART, packet=R.PACKET_ACK, flow=flow)
        assert set(back["port"].tolist()) == {1 + choice(3, data_key(flow, 1, 0), 0, n_link)}


def by_cables() -> Topology:
    """The same graph as `leaf_spine(2, 3, 2)`, listed cable by cable, and so routed by tables."""
    n_host, rate = 4, 100 * GBPS
    cables = [Cable(h, n_host + h // 2, rate, US) for h in range(n_host)]
    cables += [Cable(n_host + leaf, n_host + 2 + s, rate, US) for leaf in (0, 1) for s in range(3)]
    return explicit([f"h{i}" for i in range(n_host)], [f"s{i}" for i in range(5)], cables)


@pytest.mark.parametrize("made", ["by arithmetic", "by tables"])
def test_spines_are_chosen_by_the_same_hash(made: str) -> None:
    """Semantics 1.2, 3.1: candidates are the next hops of all shortest paths, in order of ports.

    However the routes are stored: leaf 0 has hosts at ports 0, 1 and spines at 2, 3, 4.
    """
    topology = leaf_spine(2, 3, 2, 100 * GBPS, 100 * GBPS, US)
    plan = plan_of(topology if made == "by arithmetic" else by_cables(), BARE, seed=SEED)
    messages = [Message(i % 2, 2 + i // 2 % 2, 100, i * 10 * US) for i in range(30)]
    result = run(plan, messages)
    spines = set()
    for flow, (src, dst, *_) in enumerate(messages):
        (row,) = result.select(node=4, kind=R.EVENT_DEPART, packet=R.PACKET_DATA, flow=flow)
        spine = choice(4, data_key(flow, src, dst), dst, 3)
        assert row["port"] == 2 + spine
        (down,) = result.select(
            node=6 + spine, kind=R.EVENT_DEPART, packet=R.PACKET_DATA, flow=flow
        )
        assert down["port"] == 1
        spines.add(spine)
    assert spines == {0, 1, 2}


def test_a_host_with_two_ports_chooses_by_the_same_hash() -> None:
    """Semantics 4: with several ports, data leaves by the choice of its key, responses too."""
    cables = [Cable(0, 2, 100 * GBPS, US), Cable(0, 3, 100 * GBPS, US)]
    cables += [Cable(1, 2, 100 * GBPS, US), Cable(1, 3, 100 * GBPS, US)]
    plan = plan_of(explicit(["a", "b"], ["s", "t"], cables), BARE, seed=SEED)
    result = run(plan, [Message(0, 1, 3 * MTU, i * 20 * US) for i in range(16)])
    for flow in range(16):
        for node, packet, key in (
            (0, R.PACKET_DATA, data_key(flow, 0, 1)),
            (1, R.PACKET_ACK, data_key(flow, 1, 0)),
        ):
            rows = result.select(node=node, kind=R.EVENT_DEPART, packet=packet, flow=flow)
            assert rows["port"].tolist() == [choice(node, key, 1 - node, 2)] * 3
