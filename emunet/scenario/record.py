"""What the trace records beyond flows, counters and watermarks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ValidationInfo

from emunet.scenario.base import Model
from emunet.scenario.fields import Flag, Leaf, ListOf, Maybe, Time, Whole, Word, about, refuse
from emunet.scenario.where import WhereError, check_where


class Where(Leaf):
    """An expression that chooses packet events; empty: all."""

    def parse(self, value: Any, text: bool) -> str:
        if not isinstance(value, str):
            refuse(value, "is not text", self.allowed(), "write the expression in quotes")
        if value.strip():
            try:
                check_where(value)
            except WhereError as error:
                refuse(value, error.problem, self.allowed(), error.fix)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def allowed(self) -> str:
        return "comparisons joined by and, or, not, such as \"flow == 3 and kind == 'drop'\""


class Queues(Model):
    """Samples of the egress bytes of ports."""

    noun: ClassVar[str] = "queues"

    every: Annotated[int, Time(1), about("time between samples")]
    ports: Annotated[
        str,
        Word("all", "fabric", "last_hop"),
        about("switch ports sampled: all, those between switches, or those to hosts"),
    ] = "all"


class Packets(Model):
    """Packet events."""

    noun: ClassVar[str] = "packets"

    where: Annotated[str, Where(), about("which events; empty: all")] = ""
    limit: Annotated[
        int, Whole(1, 1 << 40), about("events recorded at most; the rest is counted")
    ] = 10_000_000


SHORTEST_PS = 1_000
"""Least period of samples and intervals: below it nothing on a wire changes."""

MOST_CLEARS = 1 << 16


class Watermarks(Model):
    """Greatest occupancies of queues, priority groups and pools: when they are cleared."""

    noun: ClassVar[str] = "watermarks"

    every: Annotated[
        int | None,
        Maybe(Time(SHORTEST_PS)),
        about("time between the samples behind p99; null: no samples, no p99"),
    ] = 5_000_000
    periodic: Annotated[
        int | None,
        Maybe(Time(SHORTEST_PS)),
        about("length of the intervals of the periodic watermarks; null: none"),
    ] = None
    clear_user: Annotated[
        tuple[int, ...],
        ListOf(Time(1), "a list of times, each once", unique=True, least=0, most=MOST_CLEARS),
        about("when the user watermarks are cleared"),
    ] = ()
    clear_persistent: Annotated[
        tuple[int, ...],
        ListOf(Time(1), "a list of times, each once", unique=True, least=0, most=MOST_CLEARS),
        about("when the persistent watermarks are cleared"),
    ] = ()


def _packets(value: Any, info: ValidationInfo) -> Any:
    if value is True:
        return Packets()
    if value is False or value is None:
        return None
    if isinstance(value, str):
        refuse(
            value,
            "is not a mapping",
            "true, null, or {where, limit}",
            f'write {{where: "{value}"}}',
        )
    return Packets.read(value, info)


def _queues(value: Any, info: ValidationInfo) -> Any:
    if value is False or value is None:
        return None
    if value is True or isinstance(value, str):
        refuse(value, "is not a mapping", "null, or {every, ports}", "write {every: 1us}")
    return Queues.read(value, info)


def _watermarks(value: Any, info: ValidationInfo) -> Any:
    allowed = "{every, periodic, clear_user, clear_persistent}"
    if value is False:
        refuse(value, "is not a mapping", allowed, "maxima are always kept; every: null ends p99")
    if value is True or isinstance(value, (str, int, list, tuple)):
        refuse(value, "is not a mapping", allowed, "write {periodic: 100us}")
    return Watermarks.read({} if value is None else value, info)


class Record(Model):
    """Opt-in parts of the trace."""

    noun: ClassVar[str] = "record"

    queues: Annotated[
        Queues | None, BeforeValidator(_queues), about("time series of queues; null: none")
    ] = None
    packets: Annotated[
        Packets | None, BeforeValidator(_packets), about("packet events; true: all; null: none")
    ] = None
    pfc: Annotated[bool, Flag(), about("every XOFF and XON")] = True
    deadlocks: Annotated[
        int | None,
        Maybe(Time(1_000_000)),
        about("simulated time between looks for circles of pauses; null: only at the end"),
    ] = 1_000_000_000
    watermarks: Annotated[
        Watermarks, BeforeValidator(_watermarks), about("samples and clears of watermarks")
    ] = Watermarks()
