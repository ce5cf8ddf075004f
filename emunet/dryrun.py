"""What a run would need: packet-hops, memory, disk, lookahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emunet.run import Prepared
from emunet.units import format_size, format_time


@dataclass(frozen=True)
class Needs:
    """What `needs` found.

    Attributes
    ----------
    packet_hops : int
        Of the whole run.
    numbers : dict
        For ``--json``.
    lines : list of (str, str)
        For people.
    """

    packet_hops: int
    numbers: dict[str, Any]
    lines: list[tuple[str, str]]


def needs(prepared: Prepared) -> Needs:
    """Estimate a run without running it."""
    from emunet.plan.limits import estimate

    e = estimate(prepared.compiled, prepared.stream)
    topology = prepared.compiled.topology
    about = "" if e.exact else "about "
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
    }
    lines = [
        ("fabric", f"{topology.n_host:,} hosts, {topology.n_switch:,} switches"),
        ("messages", f"{about}{e.messages:,}, at most {e.active_flows:,} at once"),
        ("packet-hops", f"{about}{e.packet_hops:,}"),
        ("simulated", f"{format_time(e.span_ps, 3)} at least"),
        ("memory", f"about {format_size(e.memory_bytes, 3)}"),
        ("disk", f"about {format_size(e.disk_bytes, 3)}, if a trace is written"),
        ("lookahead", f"{format_time(e.lookahead_ps)}, set by {e.lookahead_cause}"),
        *(("note", note) for note in e.notes),
    ]
    return Needs(e.packet_hops, numbers, lines)
