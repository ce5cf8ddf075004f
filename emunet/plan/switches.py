"""Settings of switches as plain numbers, and which switch has which."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from emunet.plan.schema import DYNAMIC, N_CLASS, NO_LIMIT
from emunet.scenario.switch import Switch
from emunet.topology.core import Topology
from emunet.topology.frames import Frames

_SWITCH = Switch()


@dataclass(frozen=True)
class Ecn:
    """Marking thresholds of a port: RED with a step to certainty at `kmax_bytes`.

    With `at_rate_bps` the two thresholds are those of a port of that rate and grow in proportion to
    the rate; without, they hold for every port. `when` is a word of the scenario; for "sojourn" the
    two times hold instead.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float
    at_rate_bps: int | None = None
    when: str = "dequeue"
    tmin_ps: int = NO_LIMIT
    tmax_ps: int = NO_LIMIT


ECN_AUTO = Ecn(kmin_bytes=100_000, kmax_bytes=400_000, pmax=0.2, at_rate_bps=25_000_000_000)
"""Thresholds scaled with the rate as HPCC's simulations have them (Li et al., SIGCOMM 2019)."""


@dataclass(frozen=True)
class Threshold:
    """Limit of a group or queue: `alpha` times the free shared bytes, or static, or none."""

    alpha: float = 0.0
    limit_bytes: int = DYNAMIC

    def alike_bytes(self, shared_bytes: int, n: int = 1) -> int:
        """Bytes of each of `n` groups or queues that fill a pool alike, at their threshold.

        Dynamic: alpha * S / (1 + n * alpha) (Choudhury and Hahne, "Dynamic Queue Length
        Thresholds", 1998).
        """
        pool = max(0, shared_bytes)
        if self.limit_bytes != DYNAMIC:
            return min(self.limit_bytes, pool // n)
        return int(self.alpha * pool / (1 + n * self.alpha))


@dataclass(frozen=True)
class Watchdog:
    """PFC watchdog: a pause of `detect_ps` is a storm, until no XOFF has come for `restore_ps`.

    In a storm packets are dropped, or, with `forward`, sent in spite of pauses.
    """

    detect_ps: int
    restore_ps: int
    forward: bool = False


UNLIMITED = Threshold(limit_bytes=NO_LIMIT)


@dataclass(frozen=True)
class ClassChanges:
    """What a class has otherwise than the switch's defaults say; None: as they say.

    Attributes
    ----------
    group, queue : Threshold or None
        Of an (in-port, class), of an (out-port, class).
    reserved_bytes : int or None
    weight : int
        Share among the classes that take turns (DWRR); 0: strict priority.
    """

    group: Threshold | None = None
    queue: Threshold | None = None
    reserved_bytes: int | None = None
    weight: int = 0


@dataclass(frozen=True)
class TrafficClass:
    """A class at a switch: as `ClassChanges`, all filled in, and whether PFC guards it."""

    lossless: bool
    group: Threshold
    queue: Threshold
    reserved_bytes: int
    weight: int


@dataclass(frozen=True)
class SwitchSettings:
    """A switch; by default that of an empty scenario.

    Attributes
    ----------
    switch_latency_ps, switch_pause_latency_ps : int
        Pipeline for packets, and the same for pause frames.
    buffer_bytes : int
    cell_bytes : int
        Buffer is taken in whole cells; 1: exact bytes.
    alpha : float
        Dynamic threshold of lossless groups and of lossy queues.
    headroom_bytes : int or None
        Of every lossless group; None: from delay, latencies and rate of each port.
    headroom_pool_bytes : int or None
        All groups of a switch together; None: what they have each.
    lossless_classes : tuple of int
        Empty without PFC.
    ecn : Ecn or None
        None: no marking.
    watchdog : Watchdog or None
    classes : tuple of (int, ClassChanges)
    class_of : tuple of int
        Class of the packets of each class of the hosts, by way of their DSCP.
    """

    switch_latency_ps: int = _SWITCH.latency
    switch_pause_latency_ps: int = _SWITCH.pfc_response
    buffer_bytes: int = _SWITCH.buffer
    cell_bytes: int = _SWITCH.cell
    alpha: float = _SWITCH.dt_alpha
    reserved_bytes: int = _SWITCH.reserved
    xon_offset_bytes: int = _SWITCH.xon_offset
    lossless_classes: tuple[int, ...] = _SWITCH.lossless_classes
    headroom_bytes: int | None = None
    headroom_pool_bytes: int | None = _SWITCH.headroom_pool
    ecn: Ecn | None = ECN_AUTO
    watchdog: Watchdog | None = None
    classes: tuple[tuple[int, ClassChanges], ...] = ()
    class_of: tuple[int, ...] = tuple(range(N_CLASS))

    def traffic_classes(self) -> list[TrafficClass]:
        """The eight classes, changes applied to the defaults.

        A lossless class is bounded at its ingress, a lossy one at its egress, as switches are set
        up for RoCEv2 (SONiC's buffer profiles).
        """
        changes = dict(self.classes)
        found = []
        for c in range(N_CLASS):
            change, lossless = changes.get(c, ClassChanges()), c in self.lossless_classes
            bounded = Threshold(self.alpha)
            reserved = change.reserved_bytes
            found.append(
                TrafficClass(
                    lossless,
                    change.group or (bounded if lossless else UNLIMITED),
                    change.queue or (UNLIMITED if lossless else bounded),
                    self.reserved_bytes if reserved is None else reserved,
                    change.weight,
                )
            )
        return found

    def charged_bytes(self, frame_bytes: int) -> int:
        """What a frame takes of the buffer."""
        return -(-frame_bytes // self.cell_bytes) * self.cell_bytes

    def charged_share(self, frames: Frames) -> float:
        """Most buffer bytes for each slot byte on the wire, over all sizes of frames."""
        frame = np.arange(64, frames.max_frame_bytes + 1)
        slot = frame + frames.max_slot_bytes - frames.max_frame_bytes
        return max(1.0, float((-(-frame // self.cell_bytes) * self.cell_bytes / slot).max()))

    def quanta_bytes(self, frames: Frames) -> list[int]:
        """Link bytes a turn of each class; 0: strict. The least is the longest packet."""
        weights = [k.weight for k in self.traffic_classes()]
        least = min((w for w in weights if w), default=1)
        return [-(-frames.max_slot_bytes * w // least) for w in weights]


@dataclass(frozen=True)
class Part:
    """Switches with the same settings.

    Attributes
    ----------
    number : int
        0: those of no group; else 1 + index of the group.
    settings : SwitchSettings
    switches : int64[n]
        Their indices, ascending.
    """

    number: int
    settings: SwitchSettings
    switches: np.ndarray


def parts(topology: Topology, settings: SwitchSettings) -> list[Part]:
    """The switches of each kind; those that no pattern matches have the settings themselves.

    ``settings.groups``, if there are any, are (pattern of names, `SwitchSettings`); the last match
    counts.
    """
    groups = getattr(settings, "groups", ())
    names = topology.names[topology.n_host :]
    kind = np.zeros(topology.n_switch, np.int64)
    for number, (where, _) in enumerate(groups, 1):
        kind[[fnmatchcase(name, where) for name in names]] = number
    return [
        Part(number, own, np.flatnonzero(kind == number))
        for number, own in enumerate([settings, *(own for _, own in groups)])
        if (kind == number).any()
    ]
