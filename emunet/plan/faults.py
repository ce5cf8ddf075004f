"""Faults to the Plan: when links carry nothing, and what every node changes when it knows.

An outage of a link is known at its two ends `detection` later, and at all other nodes another
`convergence` later; so is its end. One that is shorter than `detection` is never known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from emunet import draws
from emunet.errors import Problems, did_you_mean, one_of
from emunet.plan.routes import RouteTables
from emunet.plan.schema import CHANGE_DOWN, CHANGE_RATE, CHANGE_ROUTE, CHANGE_UP, NO_LIMIT
from emunet.topology.changes import both_ways, no_link
from emunet.topology.core import Topology
from emunet.topology.hops import without
from emunet.units import format_time

MOST_TIMES = 1_000_000
"""Outages of one scenario, over all links."""

FOREVER = int(NO_LIMIT)
Span = tuple[int, int]
Change = tuple[int, int, int, int]
"""Time, CHANGE_*, local port, value."""


@dataclass
class Outages:
    """What fails when, by directed link and by switch; spans are [begin, end), ps.

    Attributes
    ----------
    port : dict of int to list of span
        When the link out of a port carries nothing.
    restart : dict of int to list of span
        When a switch is off.
    rate : dict of int to list of (int, int)
        Time, and rate of the link out of a port from then on.
    """

    port: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))
    restart: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))
    rate: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class FaultTiming:
    """What the times of faults depend on, beside the faults.

    Attributes
    ----------
    routing : emunet.scenario.Routing or None
        How long the fabric takes to know; None: there are no faults.
    seed : int
    until_ps : int or None
        End of the run, to which random faults without an end are drawn.
    """

    routing: Any
    seed: int
    until_ps: int | None


def fault_arrays(
    topology: Topology,
    faults: Sequence[Any],
    timing: FaultTiming,
    tables: RouteTables,
    problems: Problems,
    warnings: list[str],
) -> dict[str, np.ndarray]:
    """Arrays of the Plan for outages and changes, and those of routes that change with them.

    Parameters
    ----------
    topology : Topology
    faults : sequence of emunet.scenario.Fault
    timing : FaultTiming
    tables : RouteTables
        With the rows of the routes without faults.
    problems : Problems
        Gets what is wrong with an entry.
    warnings : list of str
        Gets what runs but is probably not meant.
    """
    _warn(faults, timing, warnings)
    outages = _outages(topology, faults, timing, problems)
    changes: dict[int, list[Change]] = defaultdict(list)
    arrays: dict[str, np.ndarray] = {}
    down: dict[int, list[Span]] = {port: _union(spans) for port, spans in outages.port.items()}
    if down and not problems.errors:
        closed, remote = _knowledge(topology, outages, down, timing.routing)
        _ports_known(topology, closed, changes)
        _reroute(topology, closed, remote, tables, changes)
        arrays = tables.arrays(topology.hop_graph)
    for port, steps in outages.rate.items():
        local = port - int(topology.port_start[topology.port_node[port]])
        changes[int(topology.port_node[port])] += [
            (at, CHANGE_RATE, local, rate) for at, rate in _last_steps(steps)
        ]
    return {**arrays, **_down_arrays(topology, down), **_change_arrays(topology, changes)}


def _warn(faults: Sequence[Any], timing: FaultTiming, warnings: list[str]) -> None:
    """Faults that nobody will notice."""
    routing, until_ps = timing.routing, timing.until_ps
    for i, fault in enumerate(faults):
        if fault.drawn or fault.rate is not None:
            continue
        detection, start = format_time(routing.detection), format_time(fault.start)
        if until_ps is not None and fault.start >= until_ps:
            warnings.append(f"$.faults[{i}].start: {start} is after the end of the run")
        elif fault.end is not None and fault.end - fault.start < routing.detection:
            if fault.node is None:
                lasts = format_time(fault.end - fault.start)
                warnings.append(
                    f"$.faults[{i}]: lasts {lasts}, less than routing.detection ({detection}): "
                    "what is sent meanwhile is lost, and no route changes"
                )
        elif until_ps is not None and fault.start + routing.detection >= until_ps:
            warnings.append(
                f"$.faults[{i}]: the run ends before routing.detection ({detection}) has passed, "
                "so no route changes"
            )


def _down_arrays(topology: Topology, down: dict[int, list[Span]]) -> dict[str, np.ndarray]:
    count = np.zeros(topology.n_port + 1, np.int64)
    for port, spans in down.items():
        count[port + 1] = len(spans)
    spans = [span for port in sorted(down) for span in down[port]]
    begin, end = np.array(spans, np.int64).reshape(-1, 2).T
    return {
        "port_down_start": np.cumsum(count).astype(np.int32),
        "down_from_ps": begin,
        "down_until_ps": end,
    }


def _change_arrays(
    topology: Topology, changes: dict[int, list[Change]]
) -> dict[str, np.ndarray]:
    count = np.zeros(topology.n_node + 1, np.int64)
    rows: list[Change] = []
    for node in sorted(changes):
        count[node + 1] = len(changes[node])
        rows += sorted(changes[node])
    at, kind, port, value = np.array(rows, np.int64).reshape(-1, 4).T
    return {
        "node_change_start": np.cumsum(count).astype(np.int32),
        "change_ps": at,
        "change_kind": kind.astype(np.uint8),
        "change_port": port.astype(np.int32),
        "change_value": value,
    }


# --------------------------------------------------------------------------------- what fails when


def _outages(
    topology: Topology, faults: Sequence[Any], timing: FaultTiming, problems: Problems
) -> Outages:
    outages = Outages()
    n_time = 0
    for i, fault in enumerate(faults):
        at = f"$.faults[{i}]"
        if fault.drawn and fault.end is None and timing.until_ps is None:
            problems.add(at, "mean_up", "is drawn without end", "end, or until of the scenario")
            continue
        for ports, node in _places(topology, fault, at, problems):
            entity = node if node >= 0 else int(topology.port_cable[ports[0]])
            spans = list(_spans(fault, i, entity, timing))
            n_time += len(spans) * len(ports)
            if n_time > MOST_TIMES:
                problems.add(at, len(spans), f"makes more than {MOST_TIMES:,} outages of links")
                return outages
            if node >= 0:
                outages.restart[node] += spans
            for port in ports.tolist():
                if fault.rate is None:
                    outages.port[port] += spans
                    continue
                whole = int(topology.port_rate_bps[port])
                for begin, end in spans:
                    outages.rate[port] += [(begin, fault.rate), (end, whole)]
    return outages


def _places(
    topology: Topology, fault: Any, at: str, problems: Problems
) -> Iterator[tuple[np.ndarray, int]]:
    """Ports of each link that an entry names, with -1; or all of a switch's, with the switch."""
    if fault.node is None:
        ports = both_ways(topology, fault)
        if not len(ports):
            problems.add(*no_link(topology, fault, at))
        cables = topology.port_cable[ports]
        for cable in np.unique(cables):
            yield ports[cables == cable], -1
        return
    names = topology.names[topology.n_host :]
    nodes = [topology.n_host + k for k, name in enumerate(names) if fnmatchcase(name, fault.node)]
    if not nodes:
        known, hint = one_of(names, 8), did_you_mean(fault.node, names)
        problems.add(f"{at}.node", fault.node, "is the name of no switch", known, hint)
    for node in nodes:
        own = np.arange(topology.port_start[node], topology.port_start[node + 1])
        yield np.union1d(own, topology.port_peer[own]), node


def _spans(fault: Any, index: int, entity: int, timing: FaultTiming) -> Iterator[Span]:
    """When an entry holds at one link or switch."""
    end = FOREVER if fault.end is None else fault.end
    if fault.drawn:
        last = end if timing.until_ps is None else min(end, timing.until_ps)
        yield from _drawn(fault, index, entity, timing.seed, last)
        return
    for k in range(fault.count or 1):
        shift = k * (fault.every or 0)
        if fault.start + shift >= FOREVER:
            return
        yield fault.start + shift, min(FOREVER, end + shift)


def _drawn(fault: Any, index: int, entity: int, seed: int, end_ps: int) -> Iterator[Span]:
    """Exponential times up and down, in turns, from `start` on; the last one may be cut."""
    key = draws.element_key(seed, index, draws.FAULT)
    now, number, chunk = fault.start, 0, 64
    mean = np.tile([float(fault.mean_up), float(fault.mean_down)], chunk)
    while True:
        bits = draws.draw(key, np.full(2 * chunk, entity), np.arange(number, number + 2 * chunk))
        steps = np.clip(draws.exponential(bits) * mean, 1.0, 2.0**61).astype(np.int64)
        number += 2 * chunk
        for up, down in steps.reshape(-1, 2).tolist():
            if now + up >= end_ps:
                return
            yield now + up, min(end_ps, now + up + down)
            now += up + down
            if now >= end_ps:
                return


def _union(spans: Sequence[Span]) -> list[Span]:
    """The same times as spans that neither overlap nor touch, ascending."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _last_steps(steps: Sequence[Span]) -> list[Span]:
    """Rates by time; of several at one time the last one counts, none comes after the end."""
    return sorted((at, rate) for at, rate in dict(steps).items() if at < FOREVER)


# ----------------------------------------------------------------------------------- what is known


def _ports_known(
    topology: Topology, closed: dict[int, list[Span]], changes: dict[int, list[Change]]
) -> None:
    """Changes of ports that their nodes know to be down, and up again."""
    for port, spans in closed.items():
        node = int(topology.port_node[port])
        local = port - int(topology.port_start[node])
        for begin, end in spans:
            changes[node].append((begin, CHANGE_DOWN, local, 0))
            if end < FOREVER:
                changes[node].append((end, CHANGE_UP, local, 0))


def _knowledge(
    topology: Topology, outages: Outages, down: dict[int, list[Span]], routing: Any
) -> tuple[dict[int, list[Span]], dict[int, list[Span]]]:
    """When the owner of a port, and when everybody, takes a link for down: by port, by cable."""
    of_cable: dict[int, list[Span]] = defaultdict(list)
    for port, spans in down.items():
        of_cable[int(topology.port_cable[port])] += spans
    closed: dict[int, list[Span]] = defaultdict(list)
    remote: dict[int, list[Span]] = {}
    for cable, spans in of_cable.items():
        noticed = [
            (_later(begin, routing.detection), _later(end, routing.detection))
            for begin, end in _union(spans)
            if end - begin >= routing.detection
        ]
        remote[cable] = [
            (_later(begin, routing.convergence), _later(end, routing.convergence))
            for begin, end in noticed
        ]
        for port in np.flatnonzero(topology.port_cable == cable).tolist():
            closed[port] += noticed
    for node, spans in outages.restart.items():
        for port in range(topology.port_start[node], topology.port_start[node + 1]):
            closed[port] += [(begin, _later(end, routing.detection)) for begin, end in spans]
    return {port: _union(spans) for port, spans in closed.items() if spans}, remote


def _later(time_ps: int, delay_ps: int) -> int:
    return min(FOREVER, time_ps + delay_ps)


def _reroute(
    topology: Topology,
    closed: dict[int, list[Span]],
    remote: dict[int, list[Span]],
    tables: RouteTables,
    changes: dict[int, list[Change]],
) -> None:
    """Routes of every node that chooses among ports, whenever what it knows changes."""
    base = topology.hop_graph
    epochs, sets = _epochs(topology, remote)
    graphs = [base, *(without(topology, base, down) for down in sets[1:])]
    for node in base.router.tolist():
        ports = np.arange(topology.port_start[node], topology.port_start[node + 1])
        own = _steps({i: closed[p] for i, p in enumerate(ports.tolist()) if p in closed})
        shut = np.zeros(len(ports), bool)
        rows: dict[tuple[int, bytes], int] = {}
        now, known = tables.row(base, node), 0
        for at in sorted({*epochs, *own}):
            known = epochs.get(at, known)
            for i, is_down in own.get(at, ()):
                shut[i] = is_down
            key = known, shut.tobytes()
            if key not in rows:
                usable = ~(shut | sets[known][topology.port_cable[ports]])
                rows[key] = tables.row(graphs[known], node, usable)
            if rows[key] != now:
                now = rows[key]
                changes[node].append((at, CHANGE_ROUTE, -1, now))


def _epochs(
    topology: Topology, remote: dict[int, list[Span]]
) -> tuple[dict[int, int], list[np.ndarray]]:
    """When all nodes take other cables for down: number of the set from then on, by time; and the
    sets, bool[n_cable]; number 0, none, holds at first.
    """
    down = np.zeros(topology.n_cable, bool)
    sets, number = [down.copy()], {down.tobytes(): 0}
    epochs: dict[int, int] = {}
    for at, steps in sorted(_steps(remote).items()):
        for cable, is_down in steps:
            down[cable] = is_down
        if down.tobytes() not in number:
            number[down.tobytes()] = len(sets)
            sets.append(down.copy())
        epochs[at] = number[down.tobytes()]
    return epochs, sets


def _steps(spans: dict[int, list[Span]]) -> dict[int, list[tuple[int, bool]]]:
    """What begins (True) and ends at each time before the last, spans being disjoint."""
    steps: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for entity, listed in spans.items():
        for begin, end in listed:
            steps[begin].append((entity, True))
            steps[end].append((entity, False))
    steps.pop(FOREVER, None)
    return steps
