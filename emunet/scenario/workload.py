"""Elements of the workload: what each one sends; generators are in `emunet.workload`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
)

from emunet.errors import NO_VALUE, did_you_mean, one_of
from emunet.scenario.base import Model
from emunet.scenario.fields import (
    CLASSES,
    Finding,
    Findings,
    Flag,
    ListOf,
    Maybe,
    Node,
    Ratio,
    Size,
    Text,
    Time,
    Whole,
    Word,
    about,
    refuse,
)

_START = about("when it begins")
_LOAD = Ratio(0, 1, above=True, hint="a load is a fraction of the host rate, at most 1")
_HOSTS = ListOf(Node(), "a list of host numbers or names, each once", unique=True, least=2)


class Element(Model):
    """What all elements share."""

    kind: ClassVar[str] = ""

    background: Annotated[
        bool,
        Flag(),
        about("messages that need not finish: counted apart, never a reason for an incomplete run"),
    ] = False
    klass: Annotated[
        int | None,
        Maybe(Whole(0, CLASSES - 1)),
        Field(alias="class"),
        about("priority class; null: `transport.class`"),
    ] = None
    tag: Annotated[
        str | None,
        Maybe(Text("a short name", 64)),
        about("name of the element in results; null: its kind"),
    ] = None

    @model_serializer(mode="wrap")
    def _under_kind(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        """In a file the values stand under the kind."""
        values = handler(self)
        if info.mode != "json":
            return values
        return {self.kind: {key: values[key] for key in self.file_keys() if key in values}}

    @classmethod
    def file_keys(cls) -> dict[str, str]:
        """Its own keys, then the shared ones."""
        shared = Element.model_fields
        return dict(sorted(super().file_keys().items(), key=lambda item: item[1] in shared))

    def ends(self) -> bool:
        """Whether the element says by itself when it stops."""
        return True


class Permutation(Element):
    """Every host sends one message to another and receives one (a derangement by the seed)."""

    noun: ClassVar[str] = "permutation"
    kind: ClassVar[str] = "permutation"

    size: Annotated[int, Size(1), about("bytes of each message")]
    start: Annotated[int, Time(), _START] = 0
    until: Annotated[
        int | None,
        Maybe(Time(1)),
        about(
            "repeat back to back at line rate, each round a new permutation, until then; null: "
            "one round"
        ),
    ] = None

    def cross_checks(self) -> Iterable[Finding]:
        yield from _order(self.start, self.until)


class Poisson(Element):
    """Messages with exponential gaps between uniformly drawn pairs, sizes from a distribution."""

    noun: ClassVar[str] = "poisson"
    kind: ClassVar[str] = "poisson"

    sizes: Annotated[
        str,
        Text("name of a size distribution, or a file", 1024),
        about(
            "flow-size distribution: websearch, fb_hadoop, ... or a file of sizes and cumulative "
            "fractions"
        ),
    ]
    load: Annotated[
        float,
        _LOAD,
        about("mean offered load, as a part of the hosts' line rate"),
    ]
    of: Annotated[
        str,
        Word("wire", "payload"),
        about("what the load counts: bytes on the wire with all headers and gaps, or payload"),
    ] = "wire"
    start: Annotated[int, Time(), _START] = 0
    until: Annotated[
        int | None, Maybe(Time(1)), about("end of arrivals; null: the `until` of the scenario")
    ] = None
    hosts: Annotated[
        tuple[int | str, ...] | None, Maybe(_HOSTS), about("hosts that send and receive; null: all")
    ] = None

    def cross_checks(self) -> Iterable[Finding]:
        yield from _order(self.start, self.until)

    def ends(self) -> bool:
        return self.until is not None


class Incast(Element):
    """`fan_in` senders send to one receiver at one instant, once or again and again."""

    noun: ClassVar[str] = "incast"
    kind: ClassVar[str] = "incast"

    fan_in: Annotated[int, Whole(1, 1 << 20), about("number of senders at a time")]
    size: Annotated[int, Size(1), about("bytes of each sender's message")]
    receiver: Annotated[
        int | str | None,
        Maybe(Node()),
        about("the host that all send to; null: drawn for each time among all hosts"),
    ] = None
    start: Annotated[int, Time(), _START] = 0
    senders: Annotated[
        tuple[int | str, ...] | None,
        Maybe(ListOf(Node(), "a list of host numbers or names, each once", unique=True)),
        about("hosts from which the senders are drawn; null: all but the receiver"),
    ] = None
    every: Annotated[int | None, Maybe(Time(1)), about("time between repetitions; null: once")] = (
        None
    )
    count: Annotated[
        int | None, Maybe(Whole(1, 1 << 40)), about("how many times; null: until `until`")
    ] = None
    load: Annotated[
        float | None,
        Maybe(_LOAD),
        about(
            "instead of `every`: repetitions with exponential gaps that load the receiver's link "
            "(no receiver: all hosts' links together) this much on average, bytes on the wire"
        ),
    ] = None
    until: Annotated[
        int | None,
        Maybe(Time(1)),
        about("end of repetitions; null: `count`, or the `until` of the scenario"),
    ] = None

    def cross_checks(self) -> Iterable[Finding]:
        yield from _order(self.start, self.until)
        if self.every is not None and self.load is not None:
            yield Finding(
                self.load,
                "is given together with every",
                "one of every and load",
                "remove one of them",
                at=("load",),
            )
        if self.every is None and self.load is None:
            for key in ("count", "until"):
                if getattr(self, key) is not None:
                    yield Finding(
                        NO_VALUE,
                        "needs every or load",
                        fix=f"add every, or remove {key}",
                        at=(key,),
                    )
        if self.senders is not None:
            if self.fan_in > len(self.senders):
                yield Finding(
                    self.fan_in,
                    f"is more than the {len(self.senders)} senders",
                    f"1 to {len(self.senders)}",
                    at=("fan_in",),
                )
            if self.receiver is None:
                yield Finding(
                    NO_VALUE,
                    "is missing: named senders need a named receiver",
                    "a host",
                    at=("receiver",),
                )
            if self.receiver in self.senders:
                at = self.senders.index(self.receiver)
                yield Finding(
                    self.receiver,
                    "is the receiver: it would send to itself",
                    "other hosts",
                    at=("senders", at),
                )

    def ends(self) -> bool:
        repeats = self.every is not None or self.load is not None
        return not repeats or self.count is not None or self.until is not None


class Flows(Element):
    """Messages from a file."""

    noun: ClassVar[str] = "flows"
    kind: ClassVar[str] = "flows"

    path: Annotated[str, Text("a file, seen from the scenario's folder"), about("flow list")]
    dialect: Annotated[
        str, Text("auto, or a dialect", 64), about("grammar of the file; auto: recognise it")
    ] = "auto"
    unit: Annotated[
        str | None,
        Maybe(Word("s", "ms", "us", "ns", "ps")),
        about(
            "unit of start times where the file leaves it open; null: the usual one of the dialect"
        ),
    ] = None
    lenient: Annotated[
        bool,
        Flag(),
        about("take the flows that are there although the file's header counts others"),
    ] = False
    time_scale: Annotated[
        float,
        Ratio(0, 1e6, above=True),
        about(
            "start times are multiplied by this: 1/40 replays a list made for 10 Gb/s hosts at the "
            "same load on 400 Gb/s"
        ),
    ] = 1.0
    start: Annotated[
        int | None,
        Maybe(Time()),
        about("move all flows so that the first starts then; null: as in the file"),
    ] = None


ELEMENTS: dict[str, type[Element]] = {
    "permutation": Permutation,
    "poisson": Poisson,
    "incast": Incast,
    "flows": Flows,
}
"""Models by the key under which they stand."""


def _order(start: int, until: int | None) -> Iterable[Finding]:
    if until is not None and until <= start:
        yield Finding(
            Time().spell(until),
            f"is not after start ({Time().spell(start)})",
            "a later time",
            at=("until",),
        )


def _elements(value: Any, info: ValidationInfo) -> Any:
    """Models of a list of mappings with one key each."""
    kinds = one_of(ELEMENTS)
    if isinstance(value, (Element, Mapping)):
        refuse(value, "is not a list", f"a list with entries {kinds}", 'put "- " before each entry')
    if not isinstance(value, (list, tuple)):
        refuse(value, "is not a list", f"a list with entries {kinds}")
    elements, found = [], []
    for i, entry in enumerate(value):
        try:
            elements.append(_element(entry, info))
        except Findings as error:
            found += [finding.below(i) for finding in error.items]
    if found:
        raise Findings(found)
    return tuple(elements)


def _element(entry: Any, info: ValidationInfo) -> Element:
    if isinstance(entry, Element):
        return entry
    kinds = one_of(ELEMENTS)
    if not isinstance(entry, Mapping):
        refuse(entry, "is not a mapping", f"one of {kinds}, with its values below")
    unknown = [
        Finding(
            NO_VALUE,
            "there is no such workload",
            kinds,
            did_you_mean(key, ELEMENTS),
            at=(str(key),),
        )
        for key in entry
        if key not in ELEMENTS
    ]
    stray = [
        key
        for key in entry
        if key in Element.file_keys() or any(key in e.file_keys() for e in ELEMENTS.values())
    ]
    if len(entry) != 1:
        fix = (
            f'put "{stray[0]}" inside the braces of the element' if stray else "one entry for each"
        )
        refuse(
            NO_VALUE,
            f"an entry has {len(entry)} keys: {one_of(entry)}",
            f"exactly one of {kinds}",
            fix,
        )
    if unknown:
        raise Findings(unknown)
    kind, values = next(iter(entry.items()))
    if kind == Flows.kind and isinstance(values, str):
        values = {"path": values}
    return ELEMENTS[kind].read(values, info, kind)


Workload = Annotated[tuple[Permutation | Poisson | Incast | Flows, ...], BeforeValidator(_elements)]
