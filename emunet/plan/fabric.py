"""Latencies, marking thresholds, headroom and shared pool, and what they imply.

Bytes here are frame bytes unless a name says `slot` (frame plus preamble and gap, what a link
counts).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emunet.errors import Problems
from emunet.plan.schema import MARK_WHEN, N_CLASS, NO_LIMIT
from emunet.plan.switches import UNLIMITED, Part, SwitchSettings, Threshold, parts
from emunet.scenario.fabric import Nic, Transport
from emunet.scenario.scenario import Scenario
from emunet.topology.core import Topology
from emunet.topology.frames import PS_PER_S_BIT, Frames
from emunet.units import format_rate, format_size, format_time

_NIC, _TRANSPORT = Nic(), Transport()

MIN_LOOKAHEAD_PS = 1000
"""Least lookahead accepted: below it windows hold no work."""

MOST_CHARGED_BYTES = 65_535
"""Buffer bytes of a packet that the engine can count."""


@dataclass(frozen=True)
class Settings(SwitchSettings):
    """Everything but topology and workload, as plain numbers; by default an empty scenario's.

    Attributes
    ----------
    groups : tuple of (str, SwitchSettings)
        Switches that differ: a pattern of their names, their settings. The last match counts.
    nic_latency_ps, nic_pause_latency_ps : int
        Receive path of a NIC: packets, pause frames.
    """

    groups: tuple[tuple[str, SwitchSettings], ...] = ()
    seed: int = Scenario.model_fields["seed"].default
    ties: str = Scenario.model_fields["ties"].default
    path: str = _TRANSPORT.path
    recovery: str = _TRANSPORT.recovery
    mtu_bytes: int = _TRANSPORT.mtu
    ack_every: int = _TRANSPORT.ack_every
    rto_ps: int = _TRANSPORT.rto
    max_retries: int = _TRANSPORT.max_retries
    sr_window_packets: int = _TRANSPORT.sr_window
    sr_reorder_packets: int = _TRANSPORT.sr_reorder
    linger_ps: int = _TRANSPORT.linger
    cnp_interval_ps: int = _TRANSPORT.cnp_interval
    cnp_class: int = _TRANSPORT.cnp_class
    nic_latency_ps: int = _NIC.latency
    nic_pause_latency_ps: int = _NIC.pfc_response

    @property
    def frames(self) -> Frames:
        """Frame sizes at this MTU."""
        return Frames(mtu_bytes=self.mtu_bytes)


@dataclass(frozen=True)
class PortClass:
    """The numbers by which marking, pausing and dropping come in that order.

    Attributes
    ----------
    switch : str
        A switch that has such ports.
    n_port, n_switch_port : int
        Ports of that switch with this rate and headroom; all its ports.
    rate_bps : int
    kmin_bytes, kmax_bytes : int
        Marking thresholds; NO_LIMIT: no marking.
    shared_bytes : int
        S, the shared pool of the switch.
    group : Threshold
        The lowest of a lossless group; None without lossless classes.
    headroom_bytes, needed_headroom_bytes : int
        What a lossless group has, and what it takes never to drop.
    """

    switch: str
    n_port: int
    n_switch_port: int
    rate_bps: int
    kmin_bytes: int
    kmax_bytes: int
    shared_bytes: int
    group: Threshold | None
    headroom_bytes: int
    needed_headroom_bytes: int

    def xoff_bytes(self, n_group: int = 1) -> int:
        """Ingress bytes at XOFF when `n_group` groups fill the pool alike; S without PFC."""
        group = self.group or UNLIMITED
        return group.alike_bytes(self.shared_bytes, n_group)


@dataclass(frozen=True)
class Lookahead:
    """L, and the link and kind of frame that set it."""

    lookahead_ps: int
    port: int
    cause: str


def latency_arrays(topology: Topology, settings: Settings) -> dict[str, np.ndarray]:
    """``port_rx_latency_ps`` and ``port_pause_latency_ps``: what the node that owns a port adds to
    what arrives there.
    """
    packet = np.full(topology.n_node, settings.nic_latency_ps, np.int64)
    pause = np.full(topology.n_node, settings.nic_pause_latency_ps, np.int64)
    for part in parts(topology, settings):
        packet[topology.n_host + part.switches] = part.settings.switch_latency_ps
        pause[topology.n_host + part.switches] = part.settings.switch_pause_latency_ps
    return {
        "port_rx_latency_ps": packet[topology.port_node],
        "port_pause_latency_ps": pause[topology.port_node],
    }


def lookahead(topology: Topology, settings: Settings) -> Lookahead:
    """The least time in which one node can act on another; pause frames count only where one can be
    sent.
    """
    if not topology.n_port:
        return Lookahead(MIN_LOOKAHEAD_PS, -1, "no link")
    latency = latency_arrays(topology, settings)
    peer = topology.port_peer
    data = topology.port_delay_ps + latency["port_rx_latency_ps"][peer]
    pause = topology.port_delay_ps + latency["port_pause_latency_ps"][peer]
    kind, least = ("data", data) if data.min() <= pause.min() else ("pause frames", pause)
    port = int(np.argmin(least))
    delay = int(topology.port_delay_ps[port])
    cause = (
        f"{topology.link_name(port)}, {kind}: {format_time(delay)} of cable and "
        f"{format_time(int(least[port]) - delay)} at the receiver"
    )
    return Lookahead(int(least[port]), port, cause)


def ecn_arrays(topology: Topology, settings: Settings) -> dict[str, np.ndarray]:
    """Marking thresholds of every port; host ports never mark."""
    kmin = np.full(topology.n_port, NO_LIMIT, np.int64)
    kmax = np.full(topology.n_port, NO_LIMIT, np.int64)
    pmax = np.zeros(topology.n_port)
    when = np.zeros(topology.n_port, np.uint8)
    tmin, tmax = kmin.copy(), kmax.copy()
    for part in parts(topology, settings):
        ecn = part.settings.ecn
        if ecn is None:
            continue
        marks = _ports_of(topology, part)
        when[marks] = MARK_WHEN.index(ecn.when)
        tmin[marks], tmax[marks] = ecn.tmin_ps, ecn.tmax_ps
        for rate in np.unique(topology.port_rate_bps[marks]):
            ports = marks[topology.port_rate_bps[marks] == rate]
            up, down = (int(rate), ecn.at_rate_bps) if ecn.at_rate_bps else (1, 1)
            kmin[ports], kmax[ports] = ecn.kmin_bytes * up // down, ecn.kmax_bytes * up // down
        pmax[marks] = ecn.pmax
    return {
        "port_ecn_when": when,
        "port_ecn_kmin_bytes": kmin,
        "port_ecn_kmax_bytes": kmax,
        "port_ecn_tmin_ps": tmin,
        "port_ecn_tmax_ps": tmax,
        "port_ecn_pmax": pmax,
    }


def _ports_of(topology: Topology, part: Part) -> np.ndarray:
    """Global numbers of the ports of a part's switches."""
    chosen = np.zeros(topology.n_node, bool)
    chosen[topology.n_host + part.switches] = True
    return np.flatnonzero(chosen[topology.port_node])


def needed_headroom(topology: Topology, settings: Settings) -> np.ndarray:
    """Bytes that can still arrive at each port after XOFF was decided there: int64[n_port], 0 at
    hosts.

    Both ways along the cable, the pipeline that has passed before accounting, the peer's response,
    one frame in transmission at either end, and one pause frame for every lossless class (IEEE
    802.1Qbb Annex O counts the same parts), all in slot bytes of the incoming link; in cells, as
    many more as the worst size of frames takes.
    """
    need = np.zeros(topology.n_port, np.int64)
    latency = latency_arrays(topology, settings)
    peer = topology.port_peer
    wait_ps = (
        topology.port_delay_ps
        + topology.port_delay_ps[peer]
        + latency["port_rx_latency_ps"]
        + latency["port_pause_latency_ps"][peer]
    )
    frames = settings.frames
    for part in parts(topology, settings):
        pauses = frames.pause_slot_bytes * max(1, len(part.settings.lossless_classes))
        share = part.settings.charged_share(frames)
        ports = _ports_of(topology, part)
        alike = np.column_stack(
            (wait_ps[ports], topology.port_rate_bps[peer[ports]], topology.port_rate_bps[ports])
        )
        values, inverse = np.unique(alike, axis=0, return_inverse=True)
        frame = frames.max_slot_bytes
        slots = [_headroom(wait, rx, tx, frame, pauses) for wait, rx, tx in values.tolist()]
        need[ports] = np.ceil(np.array(slots, np.int64) * share).astype(np.int64)[inverse.ravel()]
    return need


def _headroom(wait_ps: int, in_bps: int, out_bps: int, frame: int, pause: int) -> int:
    """Exact, rounded up; what waits for the outgoing link grows with the ratio of rates."""
    latency_bytes = -(-wait_ps * in_bps // PS_PER_S_BIT)
    outward = -(-(frame + pause) * in_bps // out_bps)
    return latency_bytes + outward + frame


@dataclass(frozen=True)
class Pools:
    """Arrays of the switches' buffers, and the classes of their ports."""

    arrays: dict[str, np.ndarray]
    port_classes: list[PortClass]


def pools(topology: Topology, settings: Settings, problems: Problems, warnings: list[str]) -> Pools:
    """Headroom, reservation, shared pool and classes of every switch.

    What cannot work is noted in `problems` (the parts do not fit in the buffer, no full packet
    fits in the pool); what works badly in `warnings`.
    """
    need = needed_headroom(topology, settings)
    arrays = _empty_arrays(topology)
    classes = []
    for part in parts(topology, settings):
        _fill(topology, settings, part, need, arrays)
        classes += _port_classes(topology, settings, part, arrays, need)
        _check_room(topology, settings, part, arrays, problems, warnings)
    if not problems.errors:
        for c in classes:
            _check_order(c, warnings)
    return Pools(arrays, classes)


def _empty_arrays(topology: Topology) -> dict[str, np.ndarray]:
    """Arrays of switches and their ports, to be filled part by part."""
    n = topology.n_switch
    by_class = (n, N_CLASS)
    return {
        "port_headroom_bytes": np.zeros(topology.n_port, np.int64),
        "switch_buffer_bytes": np.zeros(n, np.int64),
        "switch_shared_bytes": np.zeros(n, np.int64),
        "switch_cell_bytes": np.zeros(n, np.int64),
        "switch_headroom_bytes": np.zeros(n, np.int64),
        "switch_group_alpha": np.zeros(by_class),
        "switch_group_limit_bytes": np.zeros(by_class, np.int64),
        "switch_queue_alpha": np.zeros(by_class),
        "switch_queue_limit_bytes": np.zeros(by_class, np.int64),
        "switch_quantum_bytes": np.zeros(by_class, np.int64),
        "switch_reserved_bytes": np.zeros(by_class, np.int64),
        "switch_lossless": np.zeros(n, np.uint8),
        "switch_class_of": np.zeros(by_class, np.uint8),
        "switch_xon_offset_bytes": np.zeros(n, np.int64),
        "switch_watchdog_detect_ps": np.zeros(n, np.int64),
        "switch_watchdog_restore_ps": np.zeros(n, np.int64),
        "switch_watchdog_forward": np.zeros(n, np.uint8),
    }


def _fill(
    topology: Topology,
    settings: Settings,
    part: Part,
    need: np.ndarray,
    arrays: dict[str, np.ndarray],
) -> None:
    """Enter the switches of a part."""
    own, switches, ports = part.settings, part.switches, _ports_of(topology, part)
    if own.lossless_classes:
        # the packet that finds the pool full is the one that triggers XOFF, itself in headroom
        automatic = need[ports] + own.charged_bytes(settings.frames.max_frame_bytes)
        given = own.headroom_bytes
        arrays["port_headroom_bytes"][ports] = automatic if given is None else given
    classes = own.traffic_classes()
    carved = _carved(topology, part, arrays)
    arrays["switch_buffer_bytes"][switches] = own.buffer_bytes
    arrays["switch_shared_bytes"][switches] = own.buffer_bytes - carved.sum(axis=0)
    arrays["switch_headroom_bytes"][switches] = carved[0]
    arrays["switch_cell_bytes"][switches] = own.cell_bytes
    arrays["switch_lossless"][switches] = sum(1 << c for c in own.lossless_classes)
    arrays["switch_xon_offset_bytes"][switches] = own.xon_offset_bytes
    if own.watchdog is not None:
        arrays["switch_watchdog_detect_ps"][switches] = own.watchdog.detect_ps
        arrays["switch_watchdog_restore_ps"][switches] = own.watchdog.restore_ps
        arrays["switch_watchdog_forward"][switches] = own.watchdog.forward
    for name, values in (
        ("group_alpha", [k.group.alpha for k in classes]),
        ("group_limit_bytes", [k.group.limit_bytes for k in classes]),
        ("queue_alpha", [k.queue.alpha for k in classes]),
        ("queue_limit_bytes", [k.queue.limit_bytes for k in classes]),
        ("quantum_bytes", own.quanta_bytes(settings.frames)),
        ("class_of", own.class_of),
        ("reserved_bytes", [k.reserved_bytes for k in classes]),
    ):
        arrays[f"switch_{name}"][switches] = values


def _carved(topology: Topology, part: Part, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Headroom and reservation of each switch of a part, bytes: int64[2, n]."""
    n_host, own = topology.n_host, part.settings
    at_switch = slice(topology.port_start[n_host], None)
    of_port = arrays["port_headroom_bytes"][at_switch] * len(own.lossless_classes)
    headroom = np.zeros(topology.n_switch, np.int64)
    np.add.at(headroom, topology.port_node[at_switch] - n_host, of_port)
    if own.headroom_pool_bytes is not None:
        headroom = np.minimum(headroom, own.headroom_pool_bytes)
    n_port = np.diff(topology.port_start)[n_host:].astype(np.int64)
    reserved = n_port * sum(k.reserved_bytes for k in own.traffic_classes())
    return np.stack((headroom, reserved))[:, part.switches]


def _check_room(
    topology: Topology,
    settings: Settings,
    part: Part,
    arrays: dict[str, np.ndarray],
    problems: Problems,
    warnings: list[str],
) -> None:
    """The switch of a part with the least shared pool must hold a full packet in it."""
    own, frame = part.settings, part.settings.charged_bytes(settings.frames.max_frame_bytes)
    at = f"$.switches[{part.number - 1}]" if part.number else "$.switch"
    if frame > MOST_CHARGED_BYTES:
        problems.add(
            f"{at}.cell",
            own.cell_bytes,
            f"makes a full packet take {frame} bytes of the buffer",
            f"at most {MOST_CHARGED_BYTES}",
        )
        return
    shared = arrays["switch_shared_bytes"][part.switches]
    worst = int(np.argmin(shared))
    shared_bytes = int(shared[worst])
    headroom, reserved = (int(b) for b in _carved(topology, part, arrays)[:, worst])
    node = topology.n_host + int(part.switches[worst])
    n_port = int(topology.port_start[node + 1] - topology.port_start[node])
    name = topology.names[node]
    if shared_bytes < frame:
        least = reserved + headroom + frame
        path, value = f"{at}.buffer", own.buffer_bytes
        fix = f"at least {format_size(least)}, or less headroom or reservation"
        given = own.headroom_bytes
        if given is not None and headroom >= own.buffer_bytes:
            path, value = f"{at}.headroom", given
            fix = f"the buffer is {format_size(own.buffer_bytes)}"
        made_of = (
            f'switch "{name}" has {n_port} ports: headroom {format_size(headroom)} + reserved '
            f"{format_size(reserved)}"
        )
        problem = f"leaves no room for a full packet of {frame} bytes: {made_of}"
        problems.add(path, format_size(value), problem, "", fix)
        return
    _check_thresholds(own, frame, (shared_bytes, name, at), problems, warnings)


def _check_thresholds(
    own: SwitchSettings,
    frame: int,
    pool: tuple[int, str, str],
    problems: Problems,
    warnings: list[str],
) -> None:
    """A full packet must find room in an empty queue of each class."""
    shared_bytes, name, at = pool

    def too_low(threshold: Threshold, reserved_bytes: int) -> str:
        most, alpha = threshold.limit_bytes, threshold.alpha
        most = most if most >= 0 else int(alpha * float(max(0, shared_bytes)))
        if most >= frame - reserved_bytes:
            return ""
        return (
            f"lets one queue hold {most + reserved_bytes} bytes of the {shared_bytes} shared by "
            f'switch "{name}", less than a full packet of {frame} bytes'
        )

    problem = too_low(Threshold(own.alpha), own.reserved_bytes)
    if problem and not own.lossless_classes:
        fix = "a larger dt_alpha, buffer or reservation"
        problems.add(f"{at}.dt_alpha", own.alpha, problem, "", fix)
    elif problem:
        warnings.append(f"dt_alpha {own.alpha} {problem}: lossy classes drop every one")
    kinds = own.traffic_classes()
    for c, change in own.classes:
        # a lossless group that is above its threshold pauses, and need not drop
        given = {"egress": change.queue, "ingress": None if kinds[c].lossless else change.group}
        for key, threshold in given.items():
            if threshold is None:
                continue
            problem = too_low(threshold, kinds[c].reserved_bytes)
            if problem:
                value = threshold.limit_bytes if threshold.limit_bytes >= 0 else threshold.alpha
                fix = "a larger one, or none"
                problems.add(f"{at}.classes.{c}.{key}", value, problem, "", fix)


def _port_classes(
    topology: Topology,
    settings: Settings,
    part: Part,
    arrays: dict[str, np.ndarray],
    need: np.ndarray,
) -> list[PortClass]:
    """Kinds of ports of a part, each once, for the first switch that has it."""
    ecn = ecn_arrays(topology, settings)
    headroom, shared = arrays["port_headroom_bytes"], arrays["switch_shared_bytes"]
    ports = _ports_of(topology, part)
    switch = topology.port_node[ports] - topology.n_host
    alike = np.column_stack(
        (topology.port_rate_bps[ports], headroom[ports], need[ports], shared[switch])
    )
    values, first = np.unique(alike, axis=0, return_index=True)
    kinds = part.settings.traffic_classes()
    groups = [k.group for k in kinds if k.lossless]
    found = []
    for (rate, room, needed, pool), index in zip(values.tolist(), first, strict=True):
        port, node = ports[index], int(topology.port_node[ports[index]])
        of_node = slice(topology.port_start[node], topology.port_start[node + 1])
        same = (topology.port_rate_bps[of_node] == rate) & (headroom[of_node] == room)
        found.append(
            PortClass(
                switch=topology.names[node],
                n_port=int(same.sum()),
                n_switch_port=len(same),
                rate_bps=rate,
                kmin_bytes=int(ecn["port_ecn_kmin_bytes"][port]),
                kmax_bytes=int(ecn["port_ecn_kmax_bytes"][port]),
                shared_bytes=pool,
                group=min(groups, key=lambda g: g.alike_bytes(pool), default=None),
                headroom_bytes=room,
                needed_headroom_bytes=needed,
            )
        )
    return found


def _check_order(c: PortClass, warnings: list[str]) -> None:
    """Marking must come before pausing, and pausing before loss."""
    if c.group is None:
        return
    at = f'ports of {format_rate(c.rate_bps)} as in switch "{c.switch}"'
    xoff, senders = c.xoff_bytes(), max(1, c.n_switch_port - 1)
    highest = senders * c.xoff_bytes(senders)
    kmin, kmax = format_size(c.kmin_bytes, 4), format_size(c.kmax_bytes, 4)
    if c.kmin_bytes != NO_LIMIT and c.kmin_bytes >= xoff:
        warnings.append(
            f"{at}: a single sender is paused at {format_size(xoff, 4)} before marking starts "
            f"at {kmin}; lower ecn.kmin or enlarge switch.buffer"
        )
    elif c.kmax_bytes != NO_LIMIT and c.kmax_bytes >= highest:
        warnings.append(
            f"{at}: pauses keep every queue below kmax = {kmax} ({senders} senders are paused "
            f"at {format_size(highest, 4)}); lower ecn.kmax or enlarge switch.buffer"
        )
    if c.headroom_bytes < c.needed_headroom_bytes:
        warnings.append(
            f"{at}: headroom of {format_size(c.headroom_bytes)} is less than the "
            f"{format_size(c.needed_headroom_bytes)} that can arrive after XOFF: a lossless "
            "class may drop"
        )
