"""Latencies, marking thresholds, headroom and shared pool, and what they imply.

Bytes here are frame bytes unless a name says `slot` (frame plus preamble and gap, what a link
counts).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emunet.errors import Problems
from emunet.plan.schema import N_CLASS, NO_LIMIT
from emunet.topology.core import Topology
from emunet.topology.frames import PS_PER_S_BIT, Frames
from emunet.units import format_rate, format_size, format_time

MIN_LOOKAHEAD_PS = 1000
"""Least lookahead accepted: below it windows hold no work."""


@dataclass(frozen=True)
class Ecn:
    """Marking thresholds of a port: RED with a step to certainty at `kmax_bytes`.

    With `at_rate_bps` the two thresholds are those of a port of that rate and grow in proportion to
    the rate; without, they hold for every port.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float
    at_rate_bps: int | None = None


ECN_AUTO = Ecn(kmin_bytes=100_000, kmax_bytes=400_000, pmax=0.2, at_rate_bps=25_000_000_000)
"""Thresholds scaled with the rate as HPCC's simulations have them (Li et al., SIGCOMM 2019)."""


@dataclass(frozen=True)
class Settings:
    """Everything but topology and workload, as plain numbers.

    Attributes
    ----------
    switch_latency_ps, nic_latency_ps : int
        Pipeline of a switch, receive path of a NIC: packets.
    switch_pause_latency_ps, nic_pause_latency_ps : int
        The same for pause frames.
    headroom_bytes : int or None
        Of every lossless group; None: from delay, latencies and rate of each port.
    lossless_classes : tuple of int
        Empty without PFC.
    ecn : Ecn or None
        None: no marking.
    """

    seed: int = 1
    ties: str = "draw"
    path: str = "ecmp"
    recovery: str = "gbn"
    mtu_bytes: int = 4096
    ack_every: int = 1
    rto_ps: int = 4_194_304_000
    max_retries: int = 7
    sr_window_packets: int = 1024
    sr_reorder_packets: int = 256
    linger_ps: int = 1_000_000_000
    cnp_interval_ps: int = 4_000_000
    cnp_class: int = 6
    switch_latency_ps: int = 500_000
    switch_pause_latency_ps: int = 300_000
    nic_latency_ps: int = 300_000
    nic_pause_latency_ps: int = 300_000
    buffer_bytes: int = 32_000_000
    alpha: float = 0.125
    reserved_bytes: int = 0
    xon_offset_bytes: int = 3_000
    lossless_classes: tuple[int, ...] = (3,)
    headroom_bytes: int | None = None
    ecn: Ecn | None = ECN_AUTO

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
    alpha : float
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
    alpha: float
    headroom_bytes: int
    needed_headroom_bytes: int

    def xoff_bytes(self, n_group: int = 1) -> int:
        """Ingress bytes at XOFF when `n_group` groups fill the pool alike.

        Each then holds alpha * S / (1 + n * alpha).
        """
        return int(self.alpha * max(0, self.shared_bytes) / (1 + n_group * self.alpha))


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
    at_switch = topology.port_node >= topology.n_host
    return {
        "port_rx_latency_ps": np.where(
            at_switch, settings.switch_latency_ps, settings.nic_latency_ps
        ),
        "port_pause_latency_ps": np.where(
            at_switch, settings.switch_pause_latency_ps, settings.nic_pause_latency_ps
        ),
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


def ecn_arrays(topology: Topology, ecn: Ecn | None) -> dict[str, np.ndarray]:
    """Marking thresholds of every port; host ports never mark."""
    kmin = np.full(topology.n_port, NO_LIMIT, np.int64)
    kmax = np.full(topology.n_port, NO_LIMIT, np.int64)
    pmax = np.zeros(topology.n_port)
    if ecn is not None:
        marks = topology.port_node >= topology.n_host
        for rate in np.unique(topology.port_rate_bps[marks]):
            ports = marks & (topology.port_rate_bps == rate)
            up, down = (int(rate), ecn.at_rate_bps) if ecn.at_rate_bps else (1, 1)
            kmin[ports], kmax[ports] = ecn.kmin_bytes * up // down, ecn.kmax_bytes * up // down
        pmax[marks] = ecn.pmax
    return {"port_ecn_kmin_bytes": kmin, "port_ecn_kmax_bytes": kmax, "port_ecn_pmax": pmax}


def needed_headroom(topology: Topology, settings: Settings) -> np.ndarray:
    """Bytes that can still arrive at each port after XOFF was decided there: int64[n_port], 0 at
    hosts.

    Both ways along the cable, the pipeline that has passed before accounting, the peer's response,
    one frame in transmission at either end, and one pause frame for every lossless class (IEEE
    802.1Qbb Annex O counts the same parts), all in slot bytes of the incoming link.
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
    frame, pause = (
        frames.max_slot_bytes,
        frames.pause_slot_bytes * max(1, len(settings.lossless_classes)),
    )
    ports = np.flatnonzero(topology.port_node >= topology.n_host)
    alike = np.column_stack((wait_ps, topology.port_rate_bps[peer], topology.port_rate_bps))[ports]
    values, inverse = np.unique(alike, axis=0, return_inverse=True)
    need[ports] = np.array(
        [_headroom(int(wait), int(inward), int(out), frame, pause) for wait, inward, out in values],
        np.int64,
    ).reshape(-1)[inverse.ravel()]
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
    """Headroom, reservation and shared pool of every switch.

    What cannot work is noted in `problems` (the parts do not fit in the buffer, no full packet
    fits in the pool); what works badly in `warnings`.
    """
    n_host, n_switch = topology.n_host, topology.n_switch
    n_lossless = len(settings.lossless_classes)
    need = needed_headroom(topology, settings)
    headroom = np.zeros_like(need)
    if n_lossless:
        at_switch = topology.port_node >= n_host
        given = settings.headroom_bytes
        # the packet that finds the pool full is the one that triggers XOFF, itself in headroom
        automatic = need + settings.frames.max_frame_bytes
        headroom = np.where(at_switch, automatic if given is None else given, 0)
    total = np.bincount(topology.port_node, headroom, topology.n_node)[n_host:]
    parts = _Parts(
        n_port=np.diff(topology.port_start)[n_host:].astype(np.int64),
        headroom_bytes=total.astype(np.int64) * n_lossless,
        reserved_bytes=settings.reserved_bytes * N_CLASS,
    )
    shared = settings.buffer_bytes - parts.reserved_bytes * parts.n_port - parts.headroom_bytes
    classes = _port_classes(topology, settings, headroom, need, shared)
    if n_switch:
        worst = int(np.argmin(shared))
        name = topology.names[n_host + worst]
        _check_room(settings, parts.of(worst, name), int(shared[worst]), problems, warnings)
        if not problems.errors:
            _check_order(settings, classes, warnings)
    bits = sum(1 << c for c in settings.lossless_classes)
    reserved = np.full((n_switch, N_CLASS), settings.reserved_bytes, np.int64)
    arrays = {
        "port_headroom_bytes": headroom,
        "switch_buffer_bytes": np.full(n_switch, settings.buffer_bytes, np.int64),
        "switch_shared_bytes": shared,
        "switch_alpha": np.full((n_switch, N_CLASS), settings.alpha),
        "switch_reserved_bytes": reserved,
        "switch_lossless": np.full(n_switch, bits, np.uint8),
        "switch_xon_offset_bytes": np.full(n_switch, settings.xon_offset_bytes, np.int64),
    }
    return Pools(arrays, classes)


@dataclass(frozen=True)
class _Parts:
    """What is cut from each switch's buffer: headroom in all, reservation for each port."""

    n_port: np.ndarray
    headroom_bytes: np.ndarray
    reserved_bytes: int

    def of(self, switch: int, name: str) -> _SwitchParts:
        """The same of one switch."""
        n_port = int(self.n_port[switch])
        headroom = int(self.headroom_bytes[switch])
        return _SwitchParts(name, n_port, headroom, self.reserved_bytes * n_port)


@dataclass(frozen=True)
class _SwitchParts:
    name: str
    n_port: int
    headroom_bytes: int
    reserved_bytes: int

    def __str__(self) -> str:
        return (
            f'switch "{self.name}" has {self.n_port} ports: headroom '
            f"{format_size(self.headroom_bytes)} + reserved {format_size(self.reserved_bytes)}"
        )


def _check_room(
    settings: Settings,
    parts: _SwitchParts,
    shared_bytes: int,
    problems: Problems,
    warnings: list[str],
) -> None:
    """The switch with the least shared pool must hold a full packet in it."""
    frame = settings.frames.max_frame_bytes
    if shared_bytes < frame:
        least = parts.reserved_bytes + parts.headroom_bytes + frame
        path, value = "$.switch.buffer", settings.buffer_bytes
        fix = f"at least {format_size(least)}, or less headroom or reservation"
        given = settings.headroom_bytes
        if given is not None and parts.headroom_bytes >= settings.buffer_bytes:
            path, value = "$.switch.headroom", given
            fix = f"the buffer is {format_size(settings.buffer_bytes)}"
        problem = f"leaves no room for a full packet of {frame} bytes: {parts}"
        problems.add(path, format_size(value), problem, "", fix)
        return
    limit = int(settings.alpha * float(shared_bytes)) + settings.reserved_bytes
    if limit >= frame:
        return
    problem = (
        f"lets one queue hold {limit} bytes of the {shared_bytes} shared by switch "
        f'"{parts.name}", less than a full packet of {frame} bytes'
    )
    if not settings.lossless_classes:
        fix = "a larger dt_alpha, buffer or reservation"
        problems.add("$.switch.dt_alpha", settings.alpha, problem, "", fix)
    else:
        warnings.append(f"dt_alpha {settings.alpha} {problem}: lossy classes drop every one")


def _port_classes(
    topology: Topology,
    settings: Settings,
    headroom: np.ndarray,
    need: np.ndarray,
    shared: np.ndarray,
) -> list[PortClass]:
    """Kinds of switch ports, each once, for the first switch that has it."""
    ecn = ecn_arrays(topology, settings.ecn)
    ports = np.flatnonzero(topology.port_node >= topology.n_host)
    switch = topology.port_node[ports] - topology.n_host
    alike = np.column_stack(
        (topology.port_rate_bps[ports], headroom[ports], need[ports], shared[switch])
    )
    values, first = np.unique(alike, axis=0, return_index=True)
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
                alpha=settings.alpha,
                headroom_bytes=room,
                needed_headroom_bytes=needed,
            )
        )
    return found


def _check_order(settings: Settings, classes: list[PortClass], warnings: list[str]) -> None:
    """Marking must come before pausing, and pausing before loss."""
    if not settings.lossless_classes:
        return
    for c in classes:
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
