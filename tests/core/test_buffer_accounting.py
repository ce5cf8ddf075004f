"""The shared buffer: its books balance after any sequence of events, and headroom is exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.fabric import BARE, altered, plan_of, spokes
from support.oracle import GBPS, NS, US, data_frame
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.compile import compile_topology
from emunet.twin import TwinEngine
from emunet.twin.agenda import WORK
from emunet.twin.port import Packet

pytestmark = pytest.mark.checked

LOSSLESS, LOSSY = 3, 0
CLASSES = (LOSSLESS, LOSSY)
ALPHAS = (1 / 16, 1 / 8, 0.5, 1.0, 8.0)
PORTS = st.integers(0, 4)


class Books(RuleBasedStateMachine):
    """One switch of the twin; packets come in, ports are paused, and time goes by as they like.

    Nobody obeys the switch's pauses, so that groups overrun their headroom too.
    """

    switch: Any = None

    @initialize(
        n_port=st.integers(2, 5),
        shared_bytes=st.integers(3_000, 120_000),
        mtu=st.sampled_from([256, 1024, 4096, 9000]),
        alpha=st.sampled_from(ALPHAS),
        reserved_bytes=st.sampled_from([0, 700, 5_000]),
        headroom_bytes=st.sampled_from([0, 4_000, 40_000]),
    )
    def build(self, n_port: int, shared_bytes: int, mtu: int, alpha: float,
              reserved_bytes: int, headroom_bytes: int) -> None:
        plan = plan_of(
            spokes([100 * GBPS] * (n_port - 1) + [10 * GBPS], 100 * NS), alpha=alpha,
            headroom_bytes=headroom_bytes, reserved_bytes=reserved_bytes, mtu_bytes=mtu,
        )  # fmt: skip
        # a pool that a scenario would refuse, with room for no full packet, is tried as well
        self.engine = TwinEngine(altered(plan, switch_shared_bytes=[shared_bytes]))
        (self.switch,) = self.engine._switches
        self.world = self.engine._world
        self.now, self.n_port, self.mtu = 0, n_port, mtu

    @rule(i=PORTS, o=PORTS, klass=st.sampled_from(CLASSES), part=st.floats(0, 1), n=PORTS)
    def arrive(self, i: int, o: int, klass: int, part: float, n: int) -> None:
        """Packets of one size come in at one instant."""
        size = max(1, int(part * self.mtu))
        port = self.switch.ports[i % self.n_port]
        for _ in range(n + 1):
            packet = Packet(R.PACKET_DATA, 0, o % self.n_port, klass, 0, data_frame(size), 0, 0)
            self.switch.receive(port, packet, self.now)

    @rule(n=st.integers(1, 12))
    def pass_time(self, n: int) -> None:
        """The next events happen: packets leave, pauses are repeated or run out."""
        agenda = self.world.agenda
        for _ in range(n):
            if (at := agenda.next_time_ps()) is None:
                return
            self.now = at
            self.engine._handle(agenda.pop())

    @precondition(lambda self: self.switch is not None)
    @rule(o=PORTS, on=st.booleans())
    def pause(self, o: int, on: bool) -> None:
        """A neighbour pauses a port, or lets it go."""
        self.switch.receive_pause(self.switch.ports[o % self.n_port], LOSSLESS, on, self.now)

    @invariant()
    def books_balance(self) -> None:
        """Queue bytes = group bytes = what is in there; used = shared parts of the groups."""
        if (s := self.switch) is None:
            return
        queues, groups = ([[0] * 8 for _ in s.ports] for _ in range(2))
        for port in s.ports:
            for h in self.held(port):
                queues[port.local][h.packet.klass] += h.packet.bytes
                groups[h.in_port][h.packet.klass] += h.packet.bytes
        assert (s.queue_bytes, s.group_bytes) == (queues, groups)
        for p in range(self.n_port):
            for c in range(8):
                headroom = s.headroom_bytes[p][c]
                assert 0 <= headroom <= min(s.headroom_limit_bytes[p], s.group_bytes[p][c])
                assert headroom == 0 or s.xoff[p][c]
                assert c == LOSSLESS or not s.xoff[p][c]
        shared = sum(
            max(0, s.group_bytes[p][c] - s.headroom_bytes[p][c] - s.reserved_bytes[c])
            for p in range(self.n_port)
            for c in range(8)
        )
        assert s.used_bytes == shared <= s.shared_pool_bytes
        assert s.maximum_bytes(R.POOL_SHARED) >= shared

    def held(self, port: Any) -> list[Any]:
        """Packets charged to a port: queued, and in transmission."""
        waiting = [h for queue in self.switch.queue[port.local] for h in queue]
        return waiting + ([port.sending] if port.sending is not None else [])

    def teardown(self) -> None:
        """With all ports released, everything leaves; nothing stays charged, and all are in XON."""
        if (s := self.switch) is None:
            return
        for port in s.ports:
            s.receive_pause(port, LOSSLESS, False, self.now)
        while self.world.agenda.pending[WORK]:
            self.pass_time(1)
            self.books_balance()
        for table in (s.queue_bytes, s.group_bytes, s.headroom_bytes, s.xoff):
            assert not any(any(row) for row in table)
        assert s.used_bytes == 0
        totals = self.world.records.totals
        assert totals["queued_packets"] == 0
        resumes = sum(port.count["resume_tx"] for port in s.ports)
        assert resumes == totals["resume_frames"] <= totals["pause_frames"]


def test_the_books_of_a_switch_balance_after_any_events() -> None:
    """Semantics 3.2: sum of queues = sum of groups = bytes held, used = sum of shared parts.

    At every step of any sequence of arrivals, departures and pauses, for any buffer, packet size,
    alpha, number of ports, reserve and headroom, with a lossless and a lossy class; 0 at the end.
    """
    run_state_machine_as_test(
        Books,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],  # to shorten a failure takes minutes; its steps are printed
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


FABRICS = st.fixed_dictionaries(
    {
        "gbps": st.sampled_from([10, 25, 100, 400]),
        "delay_ps": st.sampled_from([10 * NS, 300 * NS, US, 4 * US]),
        "mtu": st.sampled_from([256, 1000, 1024, 4096, 9000]),
        "alpha": st.sampled_from(ALPHAS),
        "shared_bytes": st.sampled_from([30_000, 60_000, 200_000]),
        "latency_ps": st.sampled_from([0, 500 * NS, 2 * US]),
        "response_ps": st.sampled_from([0, 300 * NS, US]),
    }
)


def overrun(case: dict[str, Any], headroom_bytes: int | None) -> tuple[Result, int]:
    """Two senders at line rate to a receiver from which nothing comes out; host 0 gets data too.

    The pauses towards host 0 have to wait for full frames on their way. Given are the result, and
    the headroom that emunet computes for the switch's port to host 0.
    """
    rate, mtu = case["gbps"] * GBPS, case["mtu"]
    topology = spokes([rate, GBPS // 1000, rate, rate], case["delay_ps"])
    knobs = {
        "alpha": case["alpha"], "mtu_bytes": mtu,
        "switch_latency_ps": case["latency_ps"], "nic_latency_ps": case["latency_ps"] + NS,
        "switch_pause_latency_ps": NS, "nic_pause_latency_ps": case["response_ps"],
    }  # fmt: skip
    own = compile_topology(topology, BARE, buffer_bytes=10**8, **knobs).plan
    port = int(own.port_peer[0])
    computed = int(own.port_headroom_bytes[port])
    plan = plan_of(topology, buffer_bytes=10**8, **knobs)
    limits = plan.port_headroom_bytes.copy()
    if headroom_bytes is not None:
        limits[port] = headroom_bytes
    plan = altered(plan, port_headroom_bytes=limits, switch_shared_bytes=[case["shared_bytes"]])
    frame_ps = (data_frame(mtu) + 20) * 8000 // case["gbps"]
    trip_ps = 2 * case["delay_ps"] + case["latency_ps"] + case["response_ps"] + US
    fill_ps = (3 * case["shared_bytes"] + 40 * mtu) * 8000 // case["gbps"]
    until_ps = 4 * (trip_ps + frame_ps) + fill_ps
    n = until_ps // frame_ps + 2
    messages = [Message(0, 1, n * mtu), Message(2, 0, n * mtu), Message(3, 1, n * mtu, frame_ps)]
    result = run(plan, messages, until_ps=until_ps, expect=R.UNTIL, log=False)
    return result, computed


POOL_FULL = {
    "gbps": 10, "delay_ps": 4 * US, "mtu": 9000, "alpha": 8.0, "shared_bytes": 60_000,
    "latency_ps": 0, "response_ps": US,
}  # fmt: skip
"""A case in which the packet that finds the pool full counts: less than a frame is to spare."""


@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=FABRICS)
@example(case=POOL_FULL)
def test_headroom_as_computed_loses_nothing_and_its_last_byte_counts(case: dict[str, Any]) -> None:
    """K9: a lossless class loses nothing with the computed headroom, and less can be too little.

    Whatever rate, delay, latencies, packet size, alpha and pool. The most that a group takes of its
    headroom when everybody sends without a pause is at most what is computed; a headroom of exactly
    that much loses nothing, and one byte less loses a packet of the lossless class.
    """
    free, computed = overrun(case, None)
    port = 4
    most = int(free.ports["headroom_watermark_bytes"][port, 3])
    assert free.totals["dropped_packets"] == 0
    assert free.totals["pause_frames"] >= 2 and most > 0
    assert most <= computed
    exact, _ = overrun(case, most)
    assert exact.totals["dropped_packets"] == 0
    assert int(exact.ports["headroom_watermark_bytes"][port, 3]) == most
    short, _ = overrun(case, most - 1)
    assert short.totals["dropped_lossless_packets"] >= 1
    assert int(short.ports["dropped_lossless_packets"][port]) >= 1


MIXED = st.fixed_dictionaries(
    {
        "buffer_mb": st.sampled_from([2, 9, 32]),
        "mtu": st.sampled_from([256, 1000, 4096, 9000]),
        "alpha": st.sampled_from(ALPHAS),
        "n_host": st.integers(3, 8),
        "lossless": st.booleans(),
    }
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=MIXED)
def test_whole_runs_leave_nothing_behind(case: dict[str, Any]) -> None:
    """Users of other simulators met XON that crashed with smaller buffers or packets: none does.

    Over buffer, packet size, alpha, ports and class: an incast and its reverse end, everything is
    delivered, XOFF and XON are equal in number but for repetitions, and the greatest of all
    watermarks stay within what they belong to.
    """
    n, classes = case["n_host"], (3,) if case["lossless"] else ()
    plan = plan_of(
        spokes([100 * GBPS] * n), buffer_bytes=case["buffer_mb"] * 10**6, mtu_bytes=case["mtu"],
        alpha=case["alpha"], lossless_classes=classes, rto_ps=50 * US, max_retries=1000,
    )  # fmt: skip
    size = min(400_000, 400 * case["mtu"])
    messages = [Message(h, 0, size) for h in range(1, n)] + [Message(0, n - 1, size)]
    result = run(plan, messages, log=False)
    totals, ports = result.totals, result.ports
    assert totals["flows_finished"] == len(messages)
    assert totals["queued_packets"] == totals["in_flight_packets"] == 0
    assert totals["dropped_lossless_packets"] == 0
    if case["lossless"]:
        assert totals["dropped_packets"] == 0
    on = result.pfc["on"].sum()
    assert on * 2 == len(result.pfc) and on == totals["resume_frames"] <= totals["pause_frames"]
    assert int(result.switches["pool_watermark_bytes"][0]) <= int(plan.switch_shared_bytes[0])
    headroom = ports["headroom_watermark_bytes"].max(axis=1)
    assert (headroom <= plan.port_headroom_bytes).all()
