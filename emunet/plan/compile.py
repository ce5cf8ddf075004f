"""Scenario or topology to Plan: every number that the engine needs, checked, in flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emunet.errors import Problems, did_you_mean, one_of
from emunet.plan import schema
from emunet.plan.fabric import (
    MIN_LOOKAHEAD_PS,
    Lookahead,
    PortClass,
    Settings,
    ecn_arrays,
    latency_arrays,
    lookahead,
    pools,
)
from emunet.plan.faults import FaultTiming, fault_arrays
from emunet.plan.losses import loss_arrays
from emunet.plan.routes import RouteTables, routes
from emunet.plan.switches import (
    ECN_AUTO,
    UNLIMITED,
    ClassChanges,
    Ecn,
    SwitchSettings,
    Threshold,
    Watchdog,
)
from emunet.scenario.fabric import MOST_SR_WINDOW
from emunet.topology.changes import changed
from emunet.topology.core import Topology
from emunet.topology.frames import serialisation_ps
from emunet.units import format_time

if TYPE_CHECKING:
    from emunet.topology.paths import PathModel


@dataclass(frozen=True, eq=False)
class Compiled:
    """A Plan with what led to it.

    Attributes
    ----------
    plan : emunet.plan.schema.Plan
    topology : Topology
    paths : PathModel
        Hops, base RTT and ideal completion times.
    settings : Settings
        Everything but topology and workload, as plain numbers.
    scenario : Scenario or None
    warnings : list of str
        What runs but is probably not meant.
    port_classes : list of PortClass
        Marking, XOFF and headroom of each kind of switch port.
    lookahead_cause : str
        The link and kind of frame that set L.
    """

    plan: schema.Plan
    topology: Topology
    paths: PathModel
    settings: Settings
    scenario: Any = None
    warnings: list[str] = field(default_factory=list)
    port_classes: list[PortClass] = field(default_factory=list)
    lookahead_cause: str = ""


def compile_topology(
    topology: Topology,
    settings: Settings | None = None,
    *,
    congestion: Any = None,
    scenario: Any = None,
    locate: Callable[[str], str] | None = None,
    links: Sequence[Any] = (),
    faults: Sequence[Any] = (),
    routing: Any = None,
    until_ps: int | None = None,
    **knobs: Any,
) -> Compiled:
    """Plan of a topology and settings.

    Parameters
    ----------
    topology : Topology
    settings : Settings, optional
        Defaults to those of an empty scenario.
    congestion : emunet.plugin.Policy, optional
        None: no policy (name "none", no parameters).
    scenario : Scenario, optional
        Kept in the result.
    locate : callable, optional
        Gives ``FILE:LINE:COLUMN`` of a path of the scenario.
    links : sequence of LinkChange
        Changes of single links.
    faults : sequence of Fault
        What fails, and when.
    routing : Routing, optional
        How long the fabric takes to know; needed with faults.
    until_ps : int, optional
        End of the run: random faults are drawn up to it.
    **knobs
        Fields of `Settings` to change.

    Raises
    ------
    ScenarioError
        Unreachable hosts, a buffer too small for its parts, a lookahead below 1 ns.
    """
    settings = replace(settings or Settings(), **knobs)
    problems = Problems(locate)
    topology = changed(topology, links, problems)
    warnings = list(topology.warnings)
    _check_settings(topology, settings, problems)
    problems.check()
    timing = FaultTiming(routing, settings.seed, until_ps)
    ways = _ways(topology, faults, timing, problems, warnings)
    ahead = lookahead(topology, settings)
    _check_lookahead(topology, ahead, problems)
    buffers = pools(topology, settings, problems, warnings)
    problems.check()
    name, digest, params = _policy(congestion)
    arrays = {**ways, **_port_arrays(topology, settings), **buffers.arrays}
    arrays |= {**loss_arrays(topology, links), "cc_params": np.frombuffer(params, np.uint8)}
    scalars = _scalars(topology, settings, arrays, ahead.lookahead_ps, name)
    paths = path_model(topology, settings)
    _check_timeout(topology, paths, settings, warnings)
    return Compiled(
        plan=schema.make_plan(arrays, scalars, topology.names, congestion, digest),
        topology=topology,
        paths=paths,
        settings=settings,
        scenario=scenario,
        warnings=warnings,
        port_classes=buffers.port_classes,
        lookahead_cause=ahead.cause,
    )


def _ways(
    topology: Topology,
    faults: Sequence[Any],
    timing: FaultTiming,
    problems: Problems,
    warnings: list[str],
) -> dict[str, np.ndarray]:
    """Arrays of routes, and of the faults that change them."""
    tables = RouteTables(topology)
    ways = routes(topology, tables)
    return ways | fault_arrays(topology, faults, timing, tables, problems, warnings)


def _policy(congestion: Any) -> tuple[str, str, bytes]:
    """Name, digest of the source and packed parameters of a congestion policy."""
    if congestion is None:
        return "none", "", b""
    return congestion.name, congestion.source_digest, bytes(congestion.params_bytes)


def _port_arrays(topology: Topology, settings: Settings) -> dict[str, np.ndarray]:
    at_switch = topology.port_node >= topology.n_host
    to_host = topology.port_node[topology.port_peer] < topology.n_host
    return {
        "node_port_start": topology.port_start,
        "port_node": topology.port_node,
        "port_peer": topology.port_peer,
        "port_rate_bps": topology.port_rate_bps,
        "port_delay_ps": topology.port_delay_ps,
        "port_last_hop": at_switch & to_host,
        **latency_arrays(topology, settings),
        **ecn_arrays(topology, settings),
    }


def _check_lookahead(topology: Topology, ahead: Lookahead, problems: Problems) -> None:
    if ahead.lookahead_ps < MIN_LOOKAHEAD_PS:
        problems.add(
            _delay_path(topology, ahead.port),
            format_time(int(topology.port_delay_ps[ahead.port])),
            f"makes a lookahead of {ahead.lookahead_ps} ps ({ahead.cause})",
            "1ns or more for cable and receiver together",
            "lengthen the cable or the latency",
        )


def _check_timeout(
    topology: Topology, paths: PathModel, settings: Settings, warnings: list[str]
) -> None:
    """A timeout within a round trip sends again what is not lost."""
    from emunet.topology.facts import farthest

    if topology.n_host < 2:
        return
    far = farthest(topology, paths)
    slot = int(settings.frames.data_slot_bytes(settings.mtu_bytes))
    least_ps = far.rtt_ps + int(serialisation_ps(slot, far.rate_bps))
    if settings.rto_ps > least_ps:
        return
    what = (
        "expires before the first ACK can arrive: packets are sent again without loss"
        if settings.rto_ps <= far.rtt_ps
        else "leaves no time for one packet in a queue: packets are sent again without loss"
    )
    warnings.append(
        f"$.transport.rto: {format_time(settings.rto_ps)} is not above the largest base RTT and "
        f"one full packet ({format_time(far.rtt_ps)} + {format_time(least_ps - far.rtt_ps)}) and "
        f"{what}; set transport.rto to several times {format_time(least_ps)}"
    )


def _delay_path(topology: Topology, port: int) -> str:
    """Where the scenario says how long a cable is."""
    if int(topology.port_cable[port]) in topology.cable_paths:
        return topology.cable_paths[int(topology.port_cable[port])]
    if topology.kind == "explicit":
        return f"$.topology.links[{topology.port_cable[port]}].delay"
    return "$.topology.path" if topology.source else "$.topology.delay"


def path_model(topology: Topology, settings: Settings) -> PathModel:
    """Path model with the latencies and frames of the settings."""
    from emunet.topology.paths import PathModel

    return PathModel(
        topology, latency_arrays(topology, settings)["port_rx_latency_ps"], settings.frames
    )


def _scalars(
    topology: Topology,
    settings: Settings,
    arrays: dict[str, np.ndarray],
    lookahead_ps: int,
    cc_name: str,
) -> dict[str, int | str]:
    return {
        "n_host": topology.n_host,
        "n_node": topology.n_node,
        "n_port": topology.n_port,
        "n_rack": int(arrays["host_rack"].max()) + 1 if len(arrays["route_set"]) else 0,
        "seed": settings.seed,
        "ties": {"draw": schema.TIES_DRAW, "port": schema.TIES_PORT}[settings.ties],
        "path": {"ecmp": schema.PATH_ECMP, "spray": schema.PATH_SPRAY}[settings.path],
        "recovery": {"gbn": schema.RECOVERY_GBN, "sr": schema.RECOVERY_SR}[settings.recovery],
        "mtu_bytes": settings.mtu_bytes,
        "ack_every": settings.ack_every,
        "rto_ps": settings.rto_ps,
        "max_retries": settings.max_retries,
        "sr_window_packets": settings.sr_window_packets,
        "sr_reorder_packets": settings.sr_reorder_packets,
        # shorter, and the sender's end would act on the receiver within a window
        "linger_ps": max(settings.linger_ps, lookahead_ps),
        "cnp_interval_ps": settings.cnp_interval_ps,
        "cnp_class": settings.cnp_class,
        "lookahead_ps": lookahead_ps,
        "cc_name": cc_name,
    }


def _check_settings(topology: Topology, settings: Settings, problems: Problems) -> None:
    """Relations between settings that no single field can see."""
    ecn = settings.ecn
    if ecn is not None:
        if ecn.kmin_bytes > ecn.kmax_bytes:
            problems.add(
                "$.switch.ecn.kmin",
                ecn.kmin_bytes,
                f"is more than kmax ({ecn.kmax_bytes})",
                "kmin <= kmax",
                "swap them?",
            )
        if not 0 <= ecn.pmax <= 1:
            problems.add("$.switch.ecn.pmax", ecn.pmax, "is not a probability", "0 to 1")
    for i, (where, _) in enumerate(settings.groups):
        names = topology.names[topology.n_host :]
        if not any(fnmatchcase(name, where) for name in names):
            problems.add(
                f"$.switches[{i}].where",
                where,
                "is the name of no switch",
                one_of(names, 8),
                did_you_mean(where, names),
            )
    for c in settings.lossless_classes:
        if not 0 <= c < schema.N_CLASS:
            problems.add(
                "$.switch.lossless_classes", c, "is not a class", f"0 to {schema.N_CLASS - 1}"
            )
    window = settings.sr_window_packets
    if window < 1 or window & (window - 1) or window > MOST_SR_WINDOW:
        what = "is too large" if window > MOST_SR_WINDOW else "is not a power of two"
        problems.add("$.transport.sr_window", window, what, f"powers of two to {MOST_SR_WINDOW}")
    if settings.mtu_bytes < 1:
        problems.add("$.transport.mtu", settings.mtu_bytes, "is not a payload size", "1 and more")


def compile_scenario(scenario: Any, base_dir: str | Path = ".") -> Compiled:
    """Plan of a scenario.

    Parameters
    ----------
    scenario : Scenario
    base_dir : path
        Relative files of the scenario (topology, policy) are looked up here.

    Raises
    ------
    ScenarioError, InputFileError, PluginError
        What is wrong, with its place.
    """
    from emunet.plugin import load
    from emunet.topology import build

    topology = build(scenario.topology, base_dir)
    transport = scenario.transport
    congestion = load(
        "congestion",
        transport.cc,
        transport.cc_set,
        dict(transport.cc_params or {}),
        base_dir=base_dir,
    )
    return compile_topology(
        topology,
        settings_of(scenario),
        congestion=congestion,
        scenario=scenario,
        locate=getattr(scenario, "locate", None),
        links=scenario.links,
        faults=scenario.faults,
        routing=scenario.routing,
        until_ps=scenario.until,
    )


def settings_of(scenario: Any) -> Settings:
    """The numbers of a scenario's ``switch``, ``nic`` and ``transport``."""
    nic, transport = scenario.nic, scenario.transport
    groups = tuple(
        (group.where, SwitchSettings(**_switch(scenario.switch_values(group), transport)))
        for group in scenario.switches
    )
    return Settings(
        **_switch(scenario.switch_values(), transport),
        groups=groups,
        seed=scenario.seed,
        ties=scenario.ties,
        path=transport.path,
        recovery=transport.recovery,
        mtu_bytes=transport.mtu,
        ack_every=transport.ack_every,
        rto_ps=transport.rto,
        max_retries=transport.max_retries,
        sr_window_packets=transport.sr_window,
        sr_reorder_packets=transport.sr_reorder,
        linger_ps=transport.linger,
        cnp_interval_ps=transport.cnp_interval,
        cnp_class=transport.cnp_class,
        nic_latency_ps=nic.latency,
        nic_pause_latency_ps=nic.pfc_response,
    )


def _switch(values: Mapping[str, Any], transport: Any) -> dict[str, Any]:
    """Fields of `SwitchSettings` from the values of ``switch``."""
    codes = [transport.dscp_of(c) for c in range(schema.N_CLASS)]
    lossless = values["lossless_classes"] if values["pfc"] else ()
    return {
        "switch_latency_ps": values["latency"],
        "switch_pause_latency_ps": values["pfc_response"],
        "buffer_bytes": values["buffer"],
        "cell_bytes": values["cell"],
        "alpha": float(values["dt_alpha"]),
        "reserved_bytes": values["reserved"],
        "xon_offset_bytes": values["xon_offset"],
        "lossless_classes": tuple(sorted(set(lossless))),
        "headroom_bytes": None if values["headroom"] == "auto" else values["headroom"],
        "headroom_pool_bytes": values["headroom_pool"],
        "ecn": _ecn(values["ecn"]),
        "watchdog": _watchdog(values["pfc_watchdog"]),
        "classes": tuple((c, _class(change)) for c, change in values["classes"].items()),
        "class_of": tuple(values["dscp"].get(code, code // 8) for code in codes),
    }


def _watchdog(wanted: Any) -> Watchdog | None:
    if wanted is None:
        return None
    return Watchdog(wanted.detect, wanted.restore, wanted.action == "forward")


def _class(change: Any) -> ClassChanges:
    """What a scenario says of one class."""
    group, queue = _threshold(change.ingress), _threshold(change.egress)
    return ClassChanges(group, queue, change.reserved, change.weight or 0)


def _threshold(limit: Any) -> Threshold | None:
    if limit is None:
        return None
    if limit == "none":
        return UNLIMITED
    if limit.static is not None:
        return Threshold(limit_bytes=limit.static)
    return Threshold(float(limit.alpha))


def _ecn(ecn: Any) -> Ecn | None:
    if ecn is False or ecn is None:
        return None
    if ecn is True or ecn == "auto":
        return ECN_AUTO
    if ecn.when == "sojourn":
        tmax = ecn.tmin if ecn.tmax is None else ecn.tmax
        none = schema.NO_LIMIT
        return Ecn(none, none, float(ecn.pmax), None, ecn.when, ecn.tmin, tmax)
    return Ecn(ecn.kmin, ecn.kmax, float(ecn.pmax), ecn.at, ecn.when)
