"""What a run will take: packet-hops, memory and disk, estimated before anything runs.

Packet-hops are counted from the messages themselves: data and ACKs along their shortest paths,
exactly for runs without loss that reach their natural end, and a guess at the congestion
notifications. Memory and disk are models with the constants below, meant to be within a factor of
1.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from emunet.plan.schema import NO_LIMIT, RECOVERY_SR
from emunet.topology.frames import serialisation_ps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emunet.plan.compile import Compiled

MOST_MESSAGES = 300_000
"""Messages looked at; the rest of a longer workload is taken to be like them."""

# Memory, bytes. Structure sizes of the engine with the least capacity of its rings and tables;
# BASE_BYTES is the process with its libraries before a plan exists, COMPILER_BYTES what numba adds
# where a policy has hooks. Change them together with the table in docs/performance.md.
BASE_BYTES = 72_000_000
COMPILER_BYTES = 125_000_000
HOST_BYTES = 300
SWITCH_BYTES = 400
HOST_PORT_BYTES = 700
SWITCH_PORT_BYTES = 1_900
FLOW_BYTES = 420
PACKET_BYTES = 64
MESSAGE_BYTES = 260
CHUNK_MESSAGES = 65_536
RESULT_BYTES = 300

# Packet log: the engine's buffers, rows of one turn with their copies, rows that are kept: 36 bytes
# each without a trace, 10 with one; an estimate does not know which.
EVENT_BUFFER_BYTES = 50_000_000
TURN_EVENT_BYTES = 110
TURN_EVENTS = 1_000_000
KEPT_EVENT_BYTES = 22

# Disk, bytes after compression.
FILE_BYTES = 150_000
FLOW_ROW_BYTES = 18
PORT_ROW_BYTES = 13
WATERMARK_ROW_BYTES = 16
PERIODIC_ROW_BYTES = 2.5
NODE_ROW_BYTES = 3
QUEUE_ROW_BYTES = 2.5
EVENT_ROW_BYTES = 8

# A flow in company takes longer than alone: active flows are those that overlap when each takes
# this many times its ideal.
ACTIVE_IDEALS = 2


@dataclass(frozen=True)
class Estimate:
    """What a run will take.

    Attributes
    ----------
    packet_hops : int
        Packets, data, ACKs and CNPs, times the links that each crosses.
    data_packets, ack_packets, messages : int
    memory_bytes, disk_bytes : int
    lookahead_ps, lookahead_cause
        L, and the link and kind of frame that set it.
    span_ps : int
        Simulated time, if the busiest host is the bottleneck.
    active_flows : int
        Most flows at once.
    exact : bool
        `packet_hops` is the truth for a run without loss and pauses: no link loses frames, every
        message was looked at,
        none is cut by the end, and no policy asks for congestion notifications.
    whole : bool
        Every message was looked at.
    events : int
        Packet events that the run logs.
    notes : list of str
        What the estimate does not cover.
    """

    packet_hops: int
    memory_bytes: int
    disk_bytes: int
    lookahead_ps: int
    lookahead_cause: str
    data_packets: int = 0
    ack_packets: int = 0
    messages: int = 0
    span_ps: int = 0
    active_flows: int = 0
    exact: bool = True
    whole: bool = True
    events: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Load:
    """Columns of the messages that were looked at, and how many times as many there are.

    All are int64[n_message]. `number` counts the messages of the stream; `packets` are data
    packets, `hops` links; `wire_ps` is at the rate of src, `ideal_ps` alone in the network; at
    `end_ps` src and dst have served it after all that came before.
    """

    number: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    klass: np.ndarray
    start_ps: np.ndarray
    packets: np.ndarray
    hops: np.ndarray
    wire_ps: np.ndarray
    ideal_ps: np.ndarray
    end_ps: np.ndarray
    window_packets: int
    scale: float
    cut: bool


def estimate(compiled: Compiled, stream: Any) -> Estimate:
    """Estimate a run.

    Parameters
    ----------
    compiled : Compiled
    stream : WorkloadStream
        Its chunks, and `expected_before_end` where more than `MOST_MESSAGES` start before the end.
    """
    load = _load(compiled, stream)
    acks = -(-load.packets // compiled.settings.ack_every)
    cnps = _cnps(compiled, load)
    hops = int(((load.packets + acks + cnps) * load.hops).sum() * load.scale)
    messages = len(load.src)
    if load.scale > 1:
        messages = int(max(messages, stream.expected_before_end()[0]))
    active = _most_at_once(load)
    until_ps = getattr(compiled.scenario, "until", None)
    span_ps = int(load.end_ps.max(initial=0) * load.scale)
    span_ps = span_ps if until_ps is None else min(span_ps, until_ps)
    notes: list[str] = []
    events = _events(compiled, load, notes)
    lossless = not compiled.plan.arrays["port_loss_end_ps"].any()
    if not lossless:
        notes.append("packet-hops: without what is sent again after losses on links")
    return Estimate(
        packet_hops=hops,
        memory_bytes=_memory(compiled, load, active, messages, events, notes),
        disk_bytes=_disk(compiled, load, messages, span_ps, events),
        lookahead_ps=int(compiled.plan.scalars["lookahead_ps"]),
        lookahead_cause=compiled.lookahead_cause,
        data_packets=int(load.packets.sum() * load.scale),
        ack_packets=int(acks.sum() * load.scale),
        messages=messages,
        span_ps=span_ps,
        active_flows=active,
        exact=load.scale == 1 and not load.cut and not _may_notify(compiled) and lossless,
        whole=load.scale == 1,
        events=events,
        notes=notes,
    )


def _load(compiled: Compiled, stream: Any) -> _Load:
    """Look at the first `MOST_MESSAGES` messages that start before the end of the run."""
    frames, paths = compiled.settings.frames, compiled.paths
    until_ps = getattr(compiled.scenario, "until", None)
    columns, scale, cut = _columns(stream, until_ps)
    src, dst, start, size, klass = columns
    number = np.arange(len(src))
    packets = frames.n_packet(size)
    if scale > 1:
        scale = max(1.0, stream.expected_before_end()[1] / max(1, int(packets.sum())))
    rate = _host_rates(compiled)
    if until_ps is not None:
        packets = np.minimum(packets, (until_ps - start) // _full_ps(frames, rate[src]) + 1)
    ideal = paths.ideal_fct_ps(src, dst, size)
    overhead = int(frames.data_slot_bytes(frames.mtu_bytes)) - frames.mtu_bytes
    wire = np.minimum(size, packets * frames.mtu_bytes) + packets * overhead
    end = start + ideal
    wire_ps = (wire * 8e12 / rate[src]).astype(np.int64)
    end = np.maximum(end, _served(src, start, wire_ps))
    end = np.maximum(end, _served(dst, start, (wire * 8e12 / rate[dst]).astype(np.int64)))
    window = np.minimum(packets, paths.base_rtt_ps(src, dst) // _full_ps(frames, rate[src]) + 1)
    hops = paths.hops(src, dst)
    most = int(window.max(initial=0))
    cut |= until_ps is not None and int(end.max(initial=0)) > until_ps
    return _Load(
        number, src, dst, klass, start, packets, hops, wire_ps, ideal, end, most, scale, cut
    )


def _columns(
    stream: Iterable[Any], until_ps: int | None
) -> tuple[list[np.ndarray], float, bool]:
    """Columns of the first messages that start before the end; 1.0, or 2.0 if there are more of
    them; whether others start later.
    """
    names = ("src", "dst", "start_ps", "size_bytes", "klass")
    parts: list[list[np.ndarray]] = [[np.zeros(0, np.int64) for _ in names]]
    seen = 0
    for chunk in stream:
        n = len(chunk.src)
        if until_ps is not None:
            n = int(np.searchsorted(chunk.start_ps, until_ps))
        if n and seen >= MOST_MESSAGES:
            return _joined(parts), 2.0, False
        parts.append([np.asarray(getattr(chunk, name)[:n], np.int64) for name in names])
        seen += n
        if n < len(chunk.src):
            return _joined(parts), 1.0, True
    return _joined(parts), 1.0, False


def _joined(parts: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _served(host: np.ndarray, start_ps: np.ndarray, wire_ps: np.ndarray) -> np.ndarray:
    """When each message would be done if its host served one after the other at line rate."""
    order = np.lexsort((start_ps, host))
    done = np.empty(len(host), np.int64)
    for rows in np.split(order, np.flatnonzero(np.diff(host[order])) + 1):
        sent = np.cumsum(wire_ps[rows])
        done[rows] = sent + np.maximum.accumulate(start_ps[rows] - (sent - wire_ps[rows]))
    return done


def _cnps(compiled: Compiled, load: _Load) -> np.ndarray:
    """Congestion notifications of each message, at most one a packet and one an interval.

    Only where the policy listens, switches mark, and what waits for the receiver exceeds kmin, or
    takes longer than tmin.
    """
    if not _may_notify(compiled):
        return np.zeros_like(load.packets)
    topology, settings = compiled.topology, compiled.settings
    last = topology.port_peer[topology.port_start[load.dst]]
    arrays, rate = compiled.plan.arrays, topology.port_rate_bps[last] / 8e12
    kmin = np.minimum(
        arrays["port_ecn_kmin_bytes"][last], arrays["port_ecn_tmin_ps"][last] * rate
    )
    taken = load.end_ps - load.start_ps
    waiting = (taken - load.ideal_ps) * rate
    most = taken // max(1, settings.cnp_interval_ps) + 1
    return np.where(waiting > kmin, np.minimum(load.packets, most), 0)


def _may_notify(compiled: Compiled) -> bool:
    """Whether receivers may send congestion notifications, whose number is a guess."""
    policy: Any = compiled.plan.congestion
    marks = bool((compiled.plan.arrays["port_ecn_kmin_bytes"] != NO_LIMIT).any())
    return policy is not None and "cnp" in policy.hooks and marks


def _most_at_once(load: _Load) -> int:
    """Most messages at once: in company a message takes `ACTIVE_IDEALS` ideals, or its turn."""
    if not len(load.src):
        return 0
    start = np.sort(load.start_ps)
    end = np.sort(np.maximum(load.end_ps, load.start_ps + ACTIVE_IDEALS * load.ideal_ps))
    return int((np.arange(1, len(start) + 1) - np.searchsorted(end, start, side="right")).max())


def _full_ps(frames: Any, rate_bps: np.ndarray) -> np.ndarray:
    """Serialisation of a full packet at each rate."""
    used, inverse = np.unique(rate_bps, return_inverse=True)
    slot = int(frames.data_slot_bytes(frames.mtu_bytes))
    return np.array([int(serialisation_ps(slot, r)) for r in used.tolist()])[inverse.ravel()]


def _host_rates(compiled: Compiled) -> np.ndarray:
    """Sum of the rates of each host's ports, bit/s."""
    topology = compiled.topology
    of_host = topology.port_node < topology.n_host
    rates = np.bincount(
        topology.port_node[of_host], topology.port_rate_bps[of_host], topology.n_host
    )
    return np.maximum(rates, 1).astype(np.int64)


def _memory(
    compiled: Compiled, load: _Load, active: int, messages: int, events: int, notes: list[str]
) -> int:
    """Process, plan (here and in the engine), nodes, active flows, packets, one chunk, results.

    The results are the same with a trace, which is read back for the summary; rows of the packet
    log are not.
    """
    topology, settings, plan = compiled.topology, compiled.settings, compiled.plan
    arrays = sum(array.nbytes for array in plan.arrays.values())
    bitmaps = 3 * settings.sr_window_packets // 8 if plan.scalars["recovery"] == RECOVERY_SR else 0
    policy: Any = plan.congestion
    state = policy.state_dtype.itemsize if policy is not None else 0
    sending = min(active, topology.n_host)
    packets = 2 * sending * load.window_packets
    log, limit = _recorded(compiled, "packets"), events
    if log is not None:
        limit = events if log.limit is None else min(events, log.limit)
    kept = limit * KEPT_EVENT_BYTES
    if kept > BASE_BYTES:
        notes.append(
            f"memory: without a trace (-o) packet events stay in memory, here {limit:,} of them"
        )
    return int(
        BASE_BYTES
        + (COMPILER_BYTES if policy is not None and policy.hooks else 0)
        + 2 * arrays
        + topology.n_host * HOST_BYTES
        + topology.n_switch * SWITCH_BYTES
        + (topology.n_port - _switch_ports(compiled)) * HOST_PORT_BYTES
        + _switch_ports(compiled) * SWITCH_PORT_BYTES
        + active * (FLOW_BYTES + bitmaps + state)
        + packets * PACKET_BYTES
        + min(messages, 2 * CHUNK_MESSAGES) * MESSAGE_BYTES
        + messages * RESULT_BYTES
        + (EVENT_BUFFER_BYTES if log is not None else 0)
        + min(events, TURN_EVENTS) * TURN_EVENT_BYTES
        + kept
    )


def _switch_ports(compiled: Compiled) -> int:
    """Ports of all switches."""
    topology = compiled.topology
    return int(np.count_nonzero(topology.port_node >= topology.n_host))


def _recorded(compiled: Compiled, part: str) -> Any:
    """An opt-in part of the scenario's ``record``, or None."""
    return getattr(getattr(compiled.scenario, "record", None), part, None)


def _disk(compiled: Compiled, load: _Load, messages: int, span_ps: int, events: int) -> int:
    """Fixed part, flows, ports, and the opt-in series of the scenario's ``record``."""
    topology = compiled.topology
    total = (
        FILE_BYTES
        + messages * FLOW_ROW_BYTES
        + topology.n_port * PORT_ROW_BYTES
        + topology.n_node * NODE_ROW_BYTES
        + 2 * _switch_ports(compiled) * WATERMARK_ROW_BYTES
    )
    watermarks = _recorded(compiled, "watermarks")
    if watermarks is not None and watermarks.periodic is not None:
        # A queue and a group of every port in every interval, if all are busy.
        most = 2 * _switch_ports(compiled) * (span_ps // watermarks.periodic + 1)
        total += int(min(most, 2 * _crossed(load).sum()) * PERIODIC_ROW_BYTES)
    queues = _recorded(compiled, "queues")
    if queues is not None:
        to_host = compiled.plan.arrays["port_last_hop"].astype(bool)
        at_switch = topology.port_node >= topology.n_host
        chosen = {"all": at_switch, "fabric": at_switch & ~to_host, "last_hop": to_host}
        ceiling = int(chosen[queues.ports].sum()) * span_ps / queues.every
        busy = float(((load.hops - 1) * load.scale * load.wire_ps).sum()) / queues.every
        # A row is a change, of which a packet makes up to two; back to back with the next, fewer.
        changes = float(_crossed(load).sum())
        total += int(min(ceiling, busy, changes) * QUEUE_ROW_BYTES)
    packets = _recorded(compiled, "packets")
    if packets is not None:
        total += min(events, packets.limit) * EVENT_ROW_BYTES
    return total


def _crossed(load: _Load) -> np.ndarray:
    """Data packets that switches queue, by message."""
    return (load.hops - 1) * load.scale * load.packets


def _events(compiled: Compiled, load: _Load, notes: list[str]) -> int:
    """Packet events that the log takes, of runs without loss and marks: arrivals, departures."""
    log = _recorded(compiled, "packets")
    if log is None:
        return 0
    where = log.where
    from emunet._core.rows import EVENT_ARRIVE, EVENT_DEPART, EVENT_ROW, PACKET_ACK, PACKET_DATA
    from emunet.scenario.where import compile_where

    if set(re.findall(r"[a-z_]+", where)) & {"node", "port", "psn", "time"}:
        notes.append("disk: packet events are counted as if the filter chose every node and time")
        where = ""
    chosen, rows = compile_where(where), np.zeros(len(load.number), EVENT_ROW)
    rows["flow"], rows["klass"] = load.number, load.klass
    acks = -(-load.packets // compiled.settings.ack_every)
    events = 0
    for rows["packet"], count in ((PACKET_DATA, load.packets), (PACKET_ACK, acks)):
        for rows["kind"] in (EVENT_ARRIVE, EVENT_DEPART):
            events += int((count * load.hops)[chosen(rows)].sum())
    return int(events * load.scale)
