"""What a run would need: packet-hops, memory, disk, lookahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emunet.progress import format_seconds
from emunet.run import Prepared
from emunet.units import format_size, format_time

if TYPE_CHECKING:
    from emunet.selftest import Speed

# Time of a message and of a logged packet event in packet-hops of the self-test; how much faster
# and slower a run can be than that. Measured on fabrics of 128 to 1,024 hosts.
MESSAGE_HOPS = 25
EVENT_HOPS = 6
EASY_TRAFFIC = 1.5
HARD_TRAFFIC = 2.5


@dataclass(frozen=True)
class Needs:
    """What `needs` found.

    Attributes
    ----------
    packet_hops : int
        Of the whole run.
    work_hops : int
        Packet-hops that take as long as the run in the self-test: messages and logged packet
        events take time as well.
    numbers : dict
        For ``--json``.
    lines : list of (str, str)
        For people.
    """

    packet_hops: int
    work_hops: int
    numbers: dict[str, Any]
    lines: list[tuple[str, str]]


def needs(prepared: Prepared) -> Needs:
    """Estimate a run without running it."""
    from emunet.plan.limits import estimate

    e = estimate(prepared.compiled, prepared.stream)
    topology = prepared.compiled.topology
    about, messages = ("" if exact else "about " for exact in (e.exact, e.whole))
    work = e.packet_hops + MESSAGE_HOPS * e.messages + EVENT_HOPS * e.events
    numbers = {
        "hosts": topology.n_host,
        "switches": topology.n_switch,
        "messages": e.messages,
        "data_packets": e.data_packets,
        "ack_packets": e.ack_packets,
        "packet_hops": e.packet_hops,
        "exact": e.exact,
        "memory_bytes": e.memory_bytes,
        "disk_bytes": e.disk_bytes,
        "lookahead_ps": e.lookahead_ps,
        "lookahead_cause": e.lookahead_cause,
        "simulated_ps": e.span_ps,
        "active_flows": e.active_flows,
        "estimate_notes": e.notes,
        "workload": [
            {"kind": element.kind, "tag": element.tag, **element.facts}
            for element in prepared.stream.elements
        ],
    }
    lines = [
        ("fabric", f"{topology.n_host:,} hosts, {topology.n_switch:,} switches"),
        ("messages", f"{messages}{e.messages:,}, at most {e.active_flows:,} at once"),
        *(("workload", element.words) for element in prepared.stream.elements),
        ("packet-hops", f"{about}{e.packet_hops:,}"),
        ("simulated", f"{format_time(e.span_ps, 3)} at least"),
        ("memory", f"about {format_size(e.memory_bytes, 3)}"),
        ("disk", f"about {format_size(e.disk_bytes, 3)}, if a trace is written"),
        ("lookahead", f"{format_time(e.lookahead_ps)}, set by {e.lookahead_cause}"),
        *(("note", note) for note in e.notes),
    ]
    return Needs(e.packet_hops, work, numbers, lines)


def cpu_times(found: Needs, rate: Speed) -> dict[str, float]:
    """CPU seconds: `low`, `likely` and `high`.

    The self-test is a permutation; `low` and `high` allow for other traffic: cheaper messages and
    events, queues and tables that leave the cache.
    """
    return {
        "low": max(found.packet_hops, found.work_hops / EASY_TRAFFIC) / rate.high,
        "likely": found.work_hops / rate.likely,
        "high": found.work_hops / rate.low * HARD_TRAFFIC,
    }


def time_lines(found: Needs, rate: Speed) -> list[tuple[str, str]]:
    """The self-test and the time, for people."""
    low, likely, high = (format_seconds(s) for s in cpu_times(found, rate).values())
    measured = [line for line in rate.lines(found.packet_hops) if line[0] == "self-test"]
    return [*measured, ("time", f"{likely} of one CPU ({low} to {high}, by the traffic)")]
