"""The scenario: everything that a run depends on, in one frozen object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, PrivateAttr, ValidationInfo

from emunet.errors import NO_VALUE, ScenarioError
from emunet.scenario.base import Model
from emunet.scenario.document import Node
from emunet.scenario.fabric import ROCE_MTUS, Nic, Transport
from emunet.scenario.faults import Fault, Routing, read_faults
from emunet.scenario.fields import (
    LAST_PS,
    MOST_PACKETS,
    Finding,
    Findings,
    Maybe,
    Size,
    Text,
    Time,
    Whole,
    Word,
    about,
    refuse,
)
from emunet.scenario.links import LinkChange, read_links
from emunet.scenario.record import Record
from emunet.scenario.switch import Switch, SwitchGroup, relations, resolve
from emunet.scenario.topology import Topology
from emunet.scenario.workload import Element, Workload


@dataclass(frozen=True)
class Source:
    """Where a scenario was read; always equal, so that scenarios compare by what they say."""

    file: str = field(default="", compare=False)
    base_dir: Path = field(default_factory=Path.cwd, compare=False)
    root: Node | None = field(default=None, compare=False, repr=False)


def _part(model: type[Model]) -> Any:
    """Validator of a mapping whose keys all have defaults; an empty one is null in YAML."""

    def read(value: Any, info: ValidationInfo) -> Any:
        return model.read({} if value is None else value, info)

    return BeforeValidator(read)


def _groups(value: Any, info: ValidationInfo) -> Any:
    """A list of groups of switches."""
    if not isinstance(value, (list, tuple)):
        fix = "write a dash before it" if isinstance(value, dict) else ""
        refuse(value, "is not a list", "a list of {where: spine*, ...}", fix)
    found: list[Finding] = []
    groups = []
    for i, entry in enumerate(value):
        try:
            groups.append(SwitchGroup.read(entry, info, i))
        except Findings as error:
            found += error.items
    if found:
        raise Findings(found)
    return tuple(groups)


class Scenario(Model):
    """A scenario.

    Examples
    --------
    >>> from emunet.scenario import FatTree, Permutation, Scenario
    >>> fabric = FatTree(k=4, rate="100Gbps")
    >>> scenario = Scenario(topology=fabric, workload=[Permutation(size="2MB")])
    >>> scenario.workload[0].size, scenario.topology.rate
    (2000000, 100000000000)
    """

    noun: ClassVar[str] = "a scenario"

    name: Annotated[str, Text("a short name", 200), about("name of the run in results")] = (
        "scenario"
    )
    seed: Annotated[int, Whole(0, 2**63 - 1), about("seed of every random draw")] = 1
    topology: Annotated[Topology, about("nodes and links")]
    switch: Annotated[Switch, _part(Switch), about("the switches")] = Switch()
    switches: Annotated[
        tuple[SwitchGroup, ...],
        BeforeValidator(_groups),
        about("switches that differ from `switch`: a list of {where: spine*, buffer: 64MB, ...}"),
    ] = ()
    links: Annotated[
        tuple[LinkChange, ...],
        BeforeValidator(read_links),
        about("links that differ: a list of {from: leaf0, to: spine*, rate: 100Gbps, ...}"),
    ] = ()
    faults: Annotated[
        tuple[Fault, ...],
        BeforeValidator(read_faults),
        about("what fails, and when: a list of {from: leaf0, to: spine0, start: 1ms, end: 2ms}"),
    ] = ()
    routing: Annotated[
        Routing, _part(Routing), about("how long the fabric takes to know of its faults")
    ] = Routing()
    nic: Annotated[Nic, _part(Nic), about("the NICs")] = Nic()
    transport: Annotated[
        Transport, _part(Transport), about("connections and congestion control")
    ] = Transport()
    workload: Annotated[Workload, about("what is sent: a list of elements, all at once")] = ()
    record: Annotated[
        Record, _part(Record), about("what the trace holds beyond flows, counters and watermarks")
    ] = Record()
    ties: Annotated[
        Literal["draw", "port"],
        Word("draw", "port"),
        about("order of ports that act at one instant: drawn from the seed, or by port number"),
    ] = "draw"
    until: Annotated[
        int | None,
        Maybe(Time(1)),
        about("end of the run, messages in flight or not; null: when all is done"),
    ] = None

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def base_dir(self) -> Path:
        """Folder from which relative paths in the scenario are seen."""
        return self._source.base_dir

    @property
    def file(self) -> str:
        """File that the scenario was read from; empty for one made in Python."""
        return self._source.file

    def locate(self, path: str) -> str:
        """``FILE:LINE:COLUMN`` of a JSON path, or the option that set it; empty in Python."""
        from emunet.scenario.overrides import parse_path

        root = self._source.root
        return (
            root.locate(parse_path(path)) if root is not None and path != "$" else self._source.file
        )

    def error(
        self, path: str, value: object, problem: str, allowed: str = "", fix: str = ""
    ) -> ScenarioError:
        """A `ScenarioError` that knows its place in the file."""
        return ScenarioError(path, value, problem, allowed, fix, where=self.locate(path))

    def cross_checks(self) -> Iterable[Finding]:
        for i, element in enumerate(self.workload):
            if not element.ends() and self.until is None:
                count = ", count" if element.kind == "incast" else ""
                yield Finding(
                    NO_VALUE,
                    "never ends: it has no until, nor has the scenario",
                    f"until{count}",
                    "add until: 2ms",
                    at=("workload", i, element.kind),
                )
            start = getattr(element, "start", 0)
            if self.until is not None and (start or 0) >= self.until:
                yield Finding(
                    Time().spell(start),
                    f"is not before the end of the run ({Time().spell(self.until)})",
                    at=("workload", i, element.kind, "start"),
                )
            yield from self._limits(element, ("workload", i, element.kind))
        yield from _too_late(self, ("until",), ())
        for i, group in enumerate(self.switches):
            for finding in relations(self.switch_values(group)):
                yield finding.below("switches", i)
        yield from self._clears()

    def _clears(self) -> Iterable[Finding]:
        """Clears of watermarks that the run does not reach."""
        end_ps = LAST_PS if self.until is None else self.until
        for key in ("clear_user", "clear_persistent"):
            for i, time_ps in enumerate(getattr(self.record.watermarks, key)):
                if time_ps >= end_ps:
                    yield Finding(
                        Time().spell(time_ps),
                        f"is not before the end of the run ({Time().spell(end_ps)})",
                        at=("record", "watermarks", key, i),
                    )

    def _limits(self, element: Element, at: tuple[str | int, ...]) -> Iterable[Finding]:
        """What an element asks for beyond the limits of the engine."""
        yield from _too_late(element, ("start", "until"), at)
        size, most = getattr(element, "size", 0), MOST_PACKETS * self.transport.mtu
        if size > most:
            mtu = self.transport.mtu
            yield Finding(
                Size().spell(size),
                f"is more than {MOST_PACKETS} packets of {mtu} bytes, the largest message",
                f"1B to {most}B",
                f'write "{most}B" or less, or split it into several messages',
                at=(*at, "size"),
            )

    def switch_values(self, group: SwitchGroup | None = None) -> dict[str, Any]:
        """Values of all keys of ``switch``, or of a group of ``switches``, as they come to hold."""
        return resolve(self.switch, *(() if group is None else (group,)))

    def class_of(self, element: Element) -> int:
        """Priority class of an element's messages."""
        return self.transport.klass if element.klass is None else element.klass

    def notes(self) -> list[str]:
        """What is allowed but probably not meant, one line each."""
        notes = []
        transport, switch = self.transport, self.switch_values()
        if not self.workload:
            notes.append("$.workload: empty, so nothing will be sent")
        if transport.mtu not in ROCE_MTUS:
            mtus = ", ".join(map(str, ROCE_MTUS))
            notes.append(
                f"$.transport.mtu: {transport.mtu} is not an MTU of RoCEv2 ({mtus}); "
                "it is run as given"
            )
        if transport.path == "spray" and transport.recovery == "gbn":
            notes.append(
                "$.transport.path: spray reorders packets, and go-back-N sends again after each "
                "reordering; recovery: sr tolerates it"
            )
        if switch["pfc"]:
            used = {self.class_of(e): i for i, e in reversed(list(enumerate(self.workload)))}
            for klass, i in sorted(used.items()):
                if klass not in switch["lossless_classes"]:
                    notes.append(
                        f"$.workload[{i}]: its class {klass} is not in switch.lossless_classes, so "
                        "packets can be dropped"
                    )
        return notes

    def to_dict(self, *, defaults: bool = True) -> dict[str, Any]:
        """Plain data with units in text, as in a file; with or without what is default."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=not defaults)
        if not defaults:
            data["topology"] = {"kind": self.topology.kind, **data["topology"]}
        # Of switches only what was said: the rest may come from the catalogue or from `switch`.
        if self.switch.model is not None:
            data["switch"] = _said(self.switch)
        if self.links:
            data["links"] = [_said(link) for link in self.links]
        if self.faults:
            data["faults"] = [_said(fault) for fault in self.faults]
        if self.switches:
            data["switches"] = [_said(group) for group in self.switches]
        return data

    def to_yaml(self, *, defaults: bool = True) -> str:
        """Text of a scenario file that loads back equal."""
        from emunet.scenario.document import write_text

        return write_text(self.to_dict(defaults=defaults))


def _said(model: Model) -> dict[str, Any]:
    """What was written, as plain data."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _too_late(model: Model, keys: tuple[str, ...], at: tuple[str | int, ...]) -> Iterable[Finding]:
    """Times behind the last one of a run."""
    for key in keys:
        time_ps = getattr(model, key, None)
        if time_ps is not None and time_ps > LAST_PS:
            yield Finding(
                Time().spell(time_ps),
                "is later than the last time of a run",
                f"up to {Time().spell(LAST_PS)} (53 days)",
                'write an earlier time, such as "1ms"',
                at=(*at, key),
            )
