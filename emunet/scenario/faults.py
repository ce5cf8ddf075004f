"""Links and switches that fail, and how long the fabric takes to know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationInfo

from emunet.errors import NO_VALUE
from emunet.scenario.base import Model
from emunet.scenario.fields import (
    Delay,
    Finding,
    Findings,
    Flag,
    Maybe,
    Rate,
    Text,
    Time,
    Whole,
    about,
    refuse,
)

_NAME = Text("a name or a pattern of names such as leaf*", 64)
_OF_LINKS = ("from", "to", "number", "one_way", "rate")
_RFC = "RFC 7938, 7.1: milliseconds"
_RFC_CONVERGENCE = "assumed; RFC 7938, 7: sub-second"


class Fault(Model):
    """What fails, and when."""

    noun: ClassVar[str] = "an entry of faults"

    source: Annotated[
        str | None,
        Maybe(_NAME),
        Field(alias="from"),
        about("one end of the links; * stands for any text, ? for one letter"),
    ] = None
    to: Annotated[str | None, Maybe(_NAME), about("the other end")] = None
    number: Annotated[
        int | None,
        Maybe(Whole(0, 1 << 20)),
        about("which of several links between two nodes, from 0; null: all"),
    ] = None
    one_way: Annotated[bool, Flag(), about("frames from `from` to `to` only, else both ways")] = (
        False
    )
    node: Annotated[
        str | None,
        Maybe(_NAME),
        about("instead of links: switches that restart, losing all that they hold"),
    ] = None
    start: Annotated[int, Time(), about("begin")] = 0
    end: Annotated[int | None, Maybe(Time(1)), about("end; null: for good")] = None
    every: Annotated[
        int | None, Maybe(Time(1)), about("again after this time, counted from begin to begin")
    ] = None
    count: Annotated[int | None, Maybe(Whole(2, 1_000_000)), about("how often in all")] = None
    mean_up: Annotated[
        int | None,
        Maybe(Time(1)),
        about("drawn from the seed for each link or switch: mean time until it fails"),
    ] = None
    mean_down: Annotated[
        int | None, Maybe(Time(1)), about("with `mean_up`: mean time until it works again")
    ] = None
    rate: Annotated[
        int | None, Maybe(Rate()), about("the links work, at this rate; null: they are down")
    ] = None

    @property
    def drawn(self) -> bool:
        """Whether the times are drawn from the seed."""
        return self.mean_up is not None

    def cross_checks(self) -> Iterable[Finding]:
        yield from self._places()
        if self.end is not None and self.end <= self.start:
            problem = f"is not after start ({Time().spell(self.start)})"
            yield Finding(Time().spell(self.end), problem, at=("end",))
        yield from self._repeats()
        yield from self._draws()

    def _places(self) -> Iterable[Finding]:
        """Either two ends or a node."""
        ends = {key for key in ("source", "to") if getattr(self, key) is not None}
        if self.node is None and len(ends) < 2:
            yield Finding(NO_VALUE, "does not say what fails", "from and to, or node")
        elif self.node is not None:
            for key, name in self.file_keys().items():
                if key in _OF_LINKS and name in self.model_fields_set:
                    problem = "does not go with node"
                    yield Finding(NO_VALUE, problem, "start, end and how often", at=(key,))

    def _repeats(self) -> Iterable[Finding]:
        """`every` and `count`."""
        if (self.every is None) != (self.count is None):
            has, lacks = ("count", "every") if self.every is None else ("every", "count")
            yield Finding(NO_VALUE, f"has {has} without {lacks}", fix=f'add "{lacks}"')
        elif self.every is not None and self.end is None:
            yield Finding(NO_VALUE, "is repeated, but does not end", fix='add "end"')
        elif self.every is not None and self.end is not None:
            lasts_ps = self.end - self.start
            if lasts_ps > 0 and self.every <= lasts_ps:
                problem = f"is not longer than the fault ({Time().spell(lasts_ps)})"
                yield Finding(Time().spell(self.every), problem, at=("every",))

    def _draws(self) -> Iterable[Finding]:
        """`mean_up` and `mean_down`."""
        if (self.mean_up is None) != (self.mean_down is None):
            has, lacks = (
                ("mean_down", "mean_up") if self.mean_up is None else ("mean_up", "mean_down")
            )
            yield Finding(NO_VALUE, f"has {has} without {lacks}", fix=f'add "{lacks}"')
        elif self.mean_up is not None and self.every is not None:
            yield Finding(NO_VALUE, "does not go with mean_up", at=("every",))


class Routing(Model):
    """What the fabric knows of its faults, and when."""

    noun: ClassVar[str] = "routing"

    detection: Annotated[
        int,
        Delay(),
        about("until the two ends of a link know that it is down, or works again", _RFC),
    ] = 1_000_000_000
    convergence: Annotated[
        int,
        Delay(),
        about("from then until all other nodes route by it", _RFC_CONVERGENCE),
    ] = 100_000_000_000


def read_faults(value: Any, info: ValidationInfo) -> Any:
    """A list of faults."""
    if not isinstance(value, (list, tuple)):
        fix = "write a dash before it" if isinstance(value, dict) else ""
        refuse(value, "is not a list", "a list of {from: leaf0, to: spine0, start: 1ms, ...}", fix)
    found: list[Finding] = []
    faults = []
    for i, entry in enumerate(value):
        try:
            faults.append(Fault.read(entry, info, i))
        except Findings as error:
            found += error.items
    if found:
        raise Findings(found)
    return tuple(faults)
