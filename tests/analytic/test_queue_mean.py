"""The time integral of queues, and when a run has ended."""

from __future__ import annotations

import pytest
from support.fabric import LOSSY, plan_of, spokes
from support.oracle import FULL, GBPS, MTU, US
from support.run import Message, run

import emunet
from emunet._core import rows as R

pytestmark = pytest.mark.checked

LINE = 400 * GBPS


@pytest.mark.parametrize("until_us", [20, 50])
def test_what_is_still_queued_counts(until_us: int) -> None:
    """Fluid D/D/1 at load 2: q grows by the line's rate, so its integral is rate * t^2 / 2.

    Two hosts send to a third for good. Data reaches the switch 1 us and a packet after the start;
    stepwise arrivals and departures differ from the fluid by less than two packets at any time.
    """
    plan = plan_of(spokes([LINE] * 3), LOSSY, buffer_bytes=64_000_000, alpha=8.0)
    messages = [Message(i, 2, 10_000 * MTU) for i in range(2)]
    result = run(plan, messages, until_ps=until_us * US, expect=R.UNTIL)
    last_hop = 3 + 2
    grown_ps = until_us * US - US
    payload_share = FULL / (FULL + 20)
    fluid = LINE / 8e12 * payload_share * grown_ps**2 / 2
    found = result.ports["queue_byte_ps"][last_hop]
    assert abs(found - fluid) <= 2 * FULL * grown_ps
    assert fluid > 10 * FULL * grown_ps / 2


def test_a_run_ends_with_its_last_packet() -> None:
    """Simulated time ends with the last acknowledgement, not with timers that no longer matter.

    One message of one packet over a star: there and back alone, so the end is its sender's
    completion time.
    """
    done = emunet.run(
        {
            "topology": {"kind": "star", "hosts": 2, "rate": "400Gbps", "delay": "1us"},
            "transport": {"cc": "none"},
            "workload": [{"incast": {"fan_in": 1, "receiver": 0, "size": "1KB"}}],
        }
    )
    assert done.summary["engine"]["simulated_ps"] == done.flows.fct_ack_ps.max()
