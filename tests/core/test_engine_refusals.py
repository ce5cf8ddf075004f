"""What the engine refuses before anything runs: plans, options and messages that it cannot take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.fabric import altered, plan_of, spokes
from support.oracle import GAP, GBPS, US
from support.run import FOREVER, Message, columns, finish, run, submit

from emunet._core import load_engine
from emunet._core import rows as R
from emunet.plan.schema import Plan, make_plan
from emunet.topology.explicit import Cable, explicit
from emunet.twin import TwinEngine

pytestmark = pytest.mark.checked

N_HOST = 4


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Four hosts at one switch."""
    return plan_of(spokes([400 * GBPS] * N_HOST))


@pytest.mark.parametrize("mtu_bytes", [-1, 0, 65_001, 2**31])
def test_frames_must_fit_their_16_bits(plan: Plan, mtu_bytes: int) -> None:
    """Struct of a packet: frame bytes are 16 bits wide, so an MTU above 65,000 is an error."""
    with pytest.raises(ValueError, match=f"mtu_bytes {mtu_bytes}; a frame has at most 65,535"):
        load_engine()(altered(plan, mtu_bytes=mtu_bytes))


def test_the_greatest_frame_is_carried_whole() -> None:
    """Semantics 1.1: 65,000 bytes of payload make a frame of 65,078 with RETH, on every link."""
    mtu = 65_000
    made = altered(plan_of(spokes([400 * GBPS] * 2)), mtu_bytes=mtu)
    result = run(made, [Message(0, 1, 2 * mtu)])
    data = result.select(packet=R.PACKET_DATA, kind=R.EVENT_DEPART, node=0)["bytes"]
    assert data.tolist() == [mtu + 78, mtu + 62]
    assert result.flow_ps(0) == (2 * (mtu + 78 + GAP) + mtu + 62 + GAP) * 20 + 2 * US


@pytest.mark.parametrize("window", [-64, 0, 1, 32, 63, 65, 96, 127, 1000, 1 << 16, 1 << 31])
def test_the_bitmaps_are_whole_words_in_a_ring(plan: Plan, window: int) -> None:
    """Semantics 4.2: the window of selective repeat is a ring of 64-bit words, a power of two.

    An ACK of 16 bits, of which 65535 is no packet, cannot name every packet of a longer one.
    """
    with pytest.raises(ValueError, match=f"sr_window_packets {window}; a power of two from 64"):
        load_engine()(altered(plan, sr_window_packets=window))
    for window in (64, 1 << 15):
        load_engine()(altered(plan, sr_window_packets=window))


def test_hosts_have_24_bits(plan: Plan) -> None:
    """Struct of a packet: 24 bits name its destination, so 2^24 hosts are one too many."""
    n_host = 1 << 24
    with pytest.raises(ValueError, match="16777216 hosts; the engine addresses 16777215"):
        load_engine()(altered(plan, n_host=n_host, n_node=n_host + 1))


def test_a_host_has_at_most_255_ports() -> None:
    """Struct of a connection: 8 bits name its port; 255 ports run, 256 are refused."""
    for n_port in (255, 256):
        cables = [Cable(0, 2, 100 * GBPS, US) for _ in range(n_port)] + [Cable(1, 2, GBPS, US)]
        made = plan_of(explicit(["many", "one"], ["s"], cables), buffer_bytes=10**9)
        if n_port == 255:
            assert run(made, [Message(0, 1, 100), Message(1, 0, 100)]).totals["flows_finished"] == 2
            continue
        with pytest.raises(ValueError, match="host 0 has 256 ports; the engine allows 255"):
            load_engine()(made)


def test_a_switch_has_at_most_65536_ports(plan: Plan) -> None:
    """Struct of a packet: 16 bits name the port of its arrival at a switch."""
    for n_port in (65536, 65537):
        made = altered(plan, node_port_start=np.array([0, 1, 2, 3, 4, 4 + n_port]))
        if n_port == 65536:
            load_engine()(made)
            continue
        with pytest.raises(ValueError, match="switch 0 has 65537 ports; the engine allows 65536"):
            load_engine()(made)


def test_a_policys_state_has_at_most_256_bytes(plan: Plan) -> None:
    """Policies page: the state of a connection has at most 256 bytes."""
    for n_byte in (256, 257):
        policy = SimpleNamespace(name="big", state_dtype=np.dtype(f"V{n_byte}"), addresses=dict)
        made = make_plan(plan.arrays, plan.scalars, plan.names, policy)
        if n_byte == 256:
            assert run(made, [Message(0, 1, 100)]).totals["flows_finished"] == 1
            continue
        with pytest.raises(ValueError, match="policy big: a state of 257 bytes; at most 256"):
            load_engine()(made)


@pytest.mark.parametrize("threads", [-1, 0, 257])
def test_threads_are_1_to_256(plan: Plan, threads: int) -> None:
    """Docstring of the engine's check: a number of threads outside 1 to 256 is refused."""
    with pytest.raises(ValueError, match=f"threads: {threads}; allowed are 1 to 256"):
        load_engine()(plan, threads=threads)
    assert load_engine()(plan, threads=256).threads_used == 256


def test_samples_have_a_period(plan: Plan) -> None:
    """Docstring of the engine: the period of samples is positive, or 0 for none."""
    with pytest.raises(ValueError, match="sample_every_ps: -1; it must not be negative"):
        load_engine()(plan, sample_every_ps=-1)


def test_unknown_options_are_refused(plan: Plan) -> None:
    """Python: a misspelt option is an error and not ignored."""
    with pytest.raises(TypeError, match="thread"):
        load_engine()(plan, thread=2)


BAD_MESSAGES: dict[str, tuple[Message, str]] = {
    "to itself": (Message(2, 2, 100), "2 -> 2 is not a pair of different hosts"),
    "no such destination": (Message(0, N_HOST, 100), "0 -> 4 is not a pair"),
    "no such source": (Message(N_HOST, 0, 100), "4 -> 0 is not a pair"),
    "negative destination": (Message(0, -1, 100), "0 -> -1 is not a pair"),
    "negative source": (Message(-1, 0, 100), "-1 -> 0 is not a pair"),
    "no bytes": (Message(0, 1, 0), "size 0"),
    "negative size": (Message(0, 1, -5), "size -5"),
    "more packets than 32 bits": (Message(0, 1, (2**32 - 1) * 4096 + 1), "size 17592186040321"),
    "in the past": (Message(0, 1, 100, 20 * US - 1), "start 19999999 .now 20000000"),
    "before time": (Message(0, 1, 100, -1), "start -1"),
    "no such class": (Message(0, 1, 100, 20 * US, 8), "class 8"),
}


both_engines = pytest.mark.parametrize("twin", [False, True], ids=["native", "twin"])


@both_engines
@pytest.mark.parametrize(("message", "said"), BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_messages_that_cannot_be_are_refused(
    plan: Plan, message: Message, said: str, twin: bool
) -> None:
    """Semantics 6, docstring of `submit`: ValueError with number and values; those before it count.

    The good message before it runs to its end; the bad one leaves nothing behind.
    """
    engine = TwinEngine(plan) if twin else load_engine()(plan)
    engine.run(20 * US)
    submit(engine, [Message(3, 1, 5000, 20 * US)], 1)
    engine.run(20 * US)
    assert engine.now_ps == 20 * US
    with pytest.raises(ValueError, match=f"message 8: .*{said}"):
        submit(engine, [Message(3, 2, 5000, 20 * US), message, Message(2, 3, 10, 20 * US)], 7)
    result = finish(engine)
    assert result.reason == R.DONE
    assert result.totals["flows_submitted"] == result.totals["flows_finished"] == 2
    assert set(result.flows["flow"].tolist()) == {1, 7}


def test_the_longest_message_is_taken(plan: Plan) -> None:
    """Docstring of `submit`: 2^32 - 1 packets are a message; it starts and sends."""
    engine = load_engine()(plan)
    submit(engine, [Message(0, 1, (2**32 - 1) * 4096)])
    assert engine.run(50 * US) == R.UNTIL
    (row,) = engine.unfinished()
    assert row["size_bytes"] == (2**32 - 1) * 4096
    # 4194 slot bytes, then 4178 each, at 20 ps; delivered in order what left 2 us + a slot ago
    whole = (50 * US - 2 * US - 4194 * 20 - 16 * 20) // (4178 * 20)
    assert abs(int(row["delivered_bytes"]) // 4096 - whole) <= 1


def one(engine: Any, number: int, message: Message) -> None:
    """Submit one message under this number."""
    engine.submit(np.array([number], np.int64), *columns([message]))


@both_engines
@pytest.mark.parametrize("number", [-1, 2**32 - 1, 2**32, 2**63 - 1])
def test_message_numbers_have_32_bits(plan: Plan, number: int, twin: bool) -> None:
    """Docstring of `submit`: numbers are below 2^32 - 1; the greatest below it works."""
    engine = TwinEngine(plan) if twin else load_engine()(plan)
    with pytest.raises(ValueError, match=f"message {number}: not a free message number"):
        one(engine, number, Message(0, 1, 100))
    one(engine, 2**32 - 2, Message(0, 1, 100))
    result = finish(engine)
    assert result.flows["flow"].tolist() == [2**32 - 2] * 2


@both_engines
def test_a_number_in_use_is_refused(plan: Plan, twin: bool) -> None:
    """Docstring of `submit`: each number is used once; a second one of its sender is an error."""
    engine = TwinEngine(plan) if twin else load_engine()(plan)
    one(engine, 5, Message(0, 1, 100_000))
    for message in (Message(0, 1, 100), Message(0, 2, 100)):
        with pytest.raises(ValueError, match="message 5: not a free message number"):
            one(engine, 5, message)
    engine.run(US)
    with pytest.raises(ValueError, match="message 5: not a free message number"):
        one(engine, 5, Message(0, 2, 100, 2 * US))
    assert finish(engine).totals["flows_finished"] == 1


@both_engines
def test_a_number_in_use_at_the_receiver_is_refused(plan: Plan, twin: bool) -> None:
    """Docstring of `submit`: each number is used once, whoever sends; one receiver, two senders."""
    engine = TwinEngine(plan) if twin else load_engine()(plan)
    one(engine, 5, Message(0, 2, 9000))
    with pytest.raises(ValueError, match="message 5: not a free message number"):
        one(engine, 5, Message(1, 2, 50_000))


@both_engines
def test_a_receiver_lingers_for_the_lookahead_at_least(plan: Plan, twin: bool) -> None:
    """Semantics 4.3: a linger below L counts as L, in the plan; the engines refuse another."""
    engine: Any = TwinEngine if twin else load_engine()
    with pytest.raises(ValueError, match=f"linger_ps 5; at least the lookahead of {US}"):
        engine(altered(plan, linger_ps=5))
    assert plan_of(spokes([400 * GBPS] * N_HOST), linger_ps=5).linger_ps == plan.lookahead_ps == US


@both_engines
def test_a_number_whose_receiver_lingers_is_refused(plan: Plan, twin: bool) -> None:
    """Semantics 4.3: the receiver half lives `linger` longer than its sender, and keeps the number.

    A message that takes up the number meanwhile would be answered by the old half as a duplicate.
    """
    engine = TwinEngine(plan) if twin else load_engine()(plan)
    one(engine, 5, Message(0, 2, 9000))
    engine.run(20 * US)
    assert engine.totals()["flows_finished"] == 1
    with pytest.raises(ValueError, match="message 5: not a free message number"):
        one(engine, 5, Message(0, 2, 50_000, 20 * US))


def test_columns_of_different_lengths_are_refused(plan: Plan) -> None:
    """Docstring of `submit`: every column has n items; the twin refuses others.

    Here the rest is longer than `ids`; were it shorter, the engine would read beyond its end.
    """
    engine = load_engine()(plan)
    with pytest.raises(ValueError, match="length"):
        engine.submit(np.arange(1), *columns([Message(0, 1, 100), Message(1, 2, 100)]))


def test_starts_need_no_order(plan: Plan) -> None:
    """Docstring of `submit`: each message starts at its own time; the order of the list is free."""
    starts = [30 * US, 0, 10 * US, 10 * US, 5]
    messages = [Message(i % 2, 2 + i % 2, 1000, start) for i, start in enumerate(starts)]
    result = run(plan, messages)
    once = (1000 + 78 + GAP) * 20 * 2 + 2 * US
    alone = [start + once for start in starts]
    # 0 and 2 and 4 share a path, but are 5 us apart or more; so do 1 and 3
    assert result.rx_ps().tolist() == alone


def test_an_empty_list_is_nothing(plan: Plan) -> None:
    """Docstring of `submit`: n may be 0."""
    engine = load_engine()(plan)
    submit(engine, [])
    assert engine.run(FOREVER) == R.DONE
    assert engine.totals()["flows_submitted"] == 0
