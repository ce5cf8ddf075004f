"""Switches: buffer, classes, pauses and marking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from emunet import catalog
from emunet.errors import NO_VALUE
from emunet.scenario.base import Model
from emunet.scenario.fields import (
    CLASSES,
    CatalogName,
    Delay,
    Finding,
    Findings,
    Flag,
    ListOf,
    Maybe,
    NumberMap,
    OrWord,
    Rate,
    Ratio,
    Size,
    Text,
    Whole,
    Word,
    about,
    refuse,
)

_HPCC = "HPCC simulations, SIGCOMM 2019"
_PFCWD = "SONiC, config pfcwd"
_CLASS = Whole(0, CLASSES - 1)


class Ecn(Model):
    """Marking ramp on a queue's bytes, or on the time of packets in it."""

    noun: ClassVar[str] = "ecn"

    kmin: Annotated[
        int | None, Maybe(Size()), about("no packet is marked up to this many queued bytes")
    ] = None
    kmax: Annotated[
        int | None, Maybe(Size(1)), about("every packet is marked above this many queued bytes")
    ] = None
    pmax: Annotated[float, Ratio(0, 1), about("probability of a mark at kmax or tmax", _HPCC)] = (
        0.2
    )
    when: Annotated[
        Literal["dequeue", "enqueue", "sojourn"],
        Word("dequeue", "enqueue", "sojourn"),
        about(
            "dequeue: by the queue's bytes when a packet is sent; enqueue: when it joins; sojourn: "
            "by the time for which it has waited when it is sent, with tmin and tmax",
            "sojourn: TCN, CoNEXT 2016",
        ),
    ] = "dequeue"
    tmin: Annotated[
        int | None, Maybe(Delay()), about("sojourn: no packet is marked that waited up to this")
    ] = None
    tmax: Annotated[
        int | None,
        Maybe(Delay()),
        about("sojourn: every packet is marked that waited longer; null: tmin, a step"),
    ] = None
    at: Annotated[
        int | None,
        Maybe(Rate()),
        about(
            "rate of the port that kmin and kmax are for: they grow with a port's rate; null: the "
            "same for every port"
        ),
    ] = None

    def cross_checks(self) -> Iterable[Finding]:
        needed, others = ["kmin", "kmax"], ["tmin", "tmax"]
        if self.when == "sojourn":
            needed, others = ["tmin"], ["kmin", "kmax", "at"]
        for key in needed:
            if getattr(self, key) is None:
                meaning = type(self).model_fields[key].description
                yield Finding(NO_VALUE, "is missing", "", f'add "{key}": {meaning}', at=(key,))
        for key in others:
            if getattr(self, key) is not None:
                problem = f"is of no use with when: {self.when}"
                yield Finding(NO_VALUE, problem, ", ".join(needed), at=(key,))
        if self.tmin is not None and self.tmax is not None and self.tmin > self.tmax:
            tmin, tmax = Delay().spell(self.tmin), Delay().spell(self.tmax)
            yield Finding(tmin, f"is above tmax ({tmax})", f"up to {tmax}", at=("tmin",))
        if self.kmin is not None and self.kmax is not None and self.kmin >= self.kmax:
            fix = (
                "swap them"
                if self.kmin > self.kmax
                else "for a step write a kmax one byte above kmin"
            )
            kmax = _size_text(self.kmax)
            yield Finding(
                _size_text(self.kmin),
                f"is not below kmax ({kmax})",
                f"below {kmax}",
                fix,
                at=("kmin",),
            )


def _ecn(value: Any, info: ValidationInfo) -> Any:
    """auto, false, or the ramp."""
    if value is True or value == "auto":
        return "auto"
    if value is False:
        return False
    if isinstance(value, (dict, Ecn)):
        return Ecn.read(value, info)
    off = isinstance(value, str) and value.lower() in ("off", "no", "none")
    refuse(
        value,
        "is not known",
        "auto, false, or {kmin, kmax, pmax, at, when}",
        "did you mean false?" if off else "",
    )


class Limit(Model):
    """Threshold of a priority group or queue: dynamic by `alpha`, or `static` bytes."""

    noun: ClassVar[str] = "a threshold"

    alpha: Annotated[
        float | None,
        Maybe(Ratio(0, 1024, above=True)),
        about("this many times the free shared buffer; null: static", "Choudhury and Hahne 1998"),
    ] = None
    static: Annotated[
        int | None, Maybe(Size()), about("bytes beyond the reservation; null: dynamic")
    ] = None

    def cross_checks(self) -> Iterable[Finding]:
        if (self.alpha is None) == (self.static is None):
            yield Finding(NO_VALUE, "needs one of alpha and static", "{alpha: 1/8}, {static: 9MB}")


def _limit(value: Any, info: ValidationInfo) -> Any:
    """null, none, or one of alpha and static."""
    if value is None or value == "none":
        return value
    if isinstance(value, (dict, Limit)):
        return Limit.read(value, info)
    unit = isinstance(value, str) and value.strip().upper().endswith("B")
    fix = f"write {{{'static' if unit else 'alpha'}: {value}}}"
    refuse(value, "is not a threshold", "none, {alpha: 1/8}, {static: 9MB}, or null", fix)


class Watchdog(Model):
    """PFC watchdog of a switch's ports."""

    noun: ClassVar[str] = "pfc_watchdog"

    detect: Annotated[
        int, Delay(1), about("a class of a port that is paused so long is in a storm", _PFCWD)
    ] = 200_000_000_000
    restore: Annotated[
        int, Delay(1), about("a storm ends so long after the last XOFF received", _PFCWD)
    ] = 200_000_000_000
    action: Annotated[
        str,
        Word("drop", "forward"),
        about("in a storm packets of the queue are dropped, or sent in spite of pauses", _PFCWD),
    ] = "drop"


def _watchdog(value: Any, info: ValidationInfo) -> Any:
    """null, or the times; true: the defaults."""
    if value is None or value is False:
        return None
    if value is True:
        return Watchdog()
    if not isinstance(value, (dict, Watchdog)):
        refuse(
            value, "is not a mapping", "null, true, or {detect, restore, action}",
            "write {detect: 200ms, restore: 200ms}",
        )  # fmt: skip
    return Watchdog.read(value, info)


class TrafficClass(Model):
    """What one class has otherwise than the others; null: as the switch's keys say."""

    noun: ClassVar[str] = "a class of a switch"

    ingress: Annotated[
        Limit | Literal["none"] | None,
        BeforeValidator(_limit),
        about(
            "threshold of each in-port's group: above it a lossless class is paused, a lossy one "
            "dropped; null: dt_alpha if lossless, else none",
            "buffer profiles of SONiC",
        ),
    ] = None
    egress: Annotated[
        Limit | Literal["none"] | None,
        BeforeValidator(_limit),
        about(
            "threshold of each out-port's queue, above which packets are dropped; null: none if "
            "lossless, else dt_alpha",
            "buffer profiles of SONiC",
        ),
    ] = None
    reserved: Annotated[
        int | None, Maybe(Size()), about("bytes set aside for each in-port; null: `reserved`")
    ] = None
    weight: Annotated[
        int | None,
        Maybe(Whole(1, 1000)),
        about(
            "share of the link, by bytes, among the classes with a weight (DWRR), which come after "
            "those without; null: strict priority, the highest class first",
            "Shreedhar and Varghese 1995",
        ),
    ] = None


def _classes(value: Any, info: ValidationInfo) -> Any:
    """Changes by class."""
    if not isinstance(value, Mapping):
        refuse(value, "is not a mapping", "classes 0 to 7 and what they have", "{3: {weight: 2}}")
    found: list[Finding] = []
    read = {}
    for key, entry in value.items():
        number = str(key)
        if not (number.isdigit() and int(number) < CLASSES):
            found.append(Finding(key, "is not a class", f"0 to {CLASSES - 1}", at=(number,)))
            continue
        try:
            read[int(number)] = TrafficClass.read({} if entry is None else entry, info, number)
        except Findings as error:
            found += error.items
    if found:
        raise Findings(found)
    return dict(sorted(read.items()))


class Switch(Model):
    """Switches: all of the fabric, but those of a group in ``switches``."""

    noun: ClassVar[str] = "switch"

    model: Annotated[
        str | None,
        Maybe(CatalogName("switches")),
        about("entry of the catalogue that gives the keys not written here; null: none"),
    ] = None
    buffer: Annotated[int, Size(1), about("packet buffer of each switch, frame bytes", _HPCC)] = (
        32_000_000
    )
    cell: Annotated[
        int,
        Size(1),
        about("the buffer is taken in whole cells of this many bytes; 1B: exact bytes"),
    ] = 1
    dt_alpha: Annotated[
        float,
        Ratio(0, 1024, above=True),
        about(
            "factor of the dynamic threshold: a lossless priority group or a lossy queue may use "
            "`dt_alpha` times the free shared buffer",
            f"Choudhury and Hahne 1998; 1/8: {_HPCC}",
        ),
    ] = 0.125
    reserved: Annotated[int, Size(), about("bytes set aside for each ingress port and class")] = 0
    latency: Annotated[
        int, Delay(), about("from the last bit of a packet to its place in the egress queue")
    ] = 500_000
    pfc: Annotated[
        bool,
        Flag(),
        about("priority flow control for the classes in `lossless_classes`", "IEEE 802.1Qbb"),
    ] = True
    pfc_watchdog: Annotated[
        Watchdog | None,
        BeforeValidator(_watchdog),
        about("ends pauses that last too long: {detect, restore, action}; null: none"),
    ] = None
    lossless_classes: Annotated[
        tuple[int, ...],
        ListOf(_CLASS, "a list of classes 0 to 7, each once", unique=True, least=0, most=CLASSES),
        about(
            "classes in which switches pause senders rather than drop",
            "customary for RoCEv2",
        ),
    ] = (3,)
    pfc_response: Annotated[
        int, Delay(), about("from the last bit of a pause frame to its effect at a switch")
    ] = 300_000
    headroom: Annotated[
        int | Literal["auto"],
        OrWord(Size(), "auto"),
        about(
            "for each ingress port and lossless class: bytes that arrive after XOFF was sent; "
            "auto: what delay, latencies and rate of each link need"
        ),
    ] = "auto"
    headroom_pool: Annotated[
        int | None,
        Maybe(Size(1)),
        about(
            "what all groups of a switch together have as headroom; null: each has its own",
            "shared headroom pool of SONiC",
        ),
    ] = None
    xon_offset: Annotated[
        int, Size(), about("XON is sent when a group is this far below its threshold", _HPCC)
    ] = 3000
    ecn: Annotated[
        Ecn | Literal["auto"] | Literal[False],
        BeforeValidator(_ecn),
        about(
            "auto: kmin 100KB and kmax 400KB per 25Gbps of the port's rate, pmax 0.2; false: no "
            "marking; or {kmin, kmax, pmax} for every port",
            _HPCC,
        ),
    ] = "auto"
    dscp: Annotated[
        dict[int, int],
        NumberMap(Whole(0, 63), _CLASS, "DSCPs 0 to 63 with their class, 0 to 7: {26: 3}"),
        about(
            "class in which packets with a DSCP are kept and paused here; others: DSCP // 8",
            "class selectors, RFC 2474",
        ),
    ] = Field(default_factory=dict)
    classes: Annotated[
        dict[int, TrafficClass],
        BeforeValidator(_classes),
        about("classes that differ: {0: {weight: 1}, 3: {ingress: {alpha: 1/8}, weight: 2}}"),
    ] = Field(default_factory=dict)

    def cross_checks(self) -> Iterable[Finding]:
        return relations(resolve(self))


class SwitchGroup(Switch):
    """Switches that differ from ``switch``: only the keys written here change."""

    noun: ClassVar[str] = "a group of switches"

    where: Annotated[
        str,
        Text("a name or a pattern of names such as spine*", 64),
        about("names of the switches; * stands for any text, ? for one character"),
    ]

    def cross_checks(self) -> Iterable[Finding]:
        return ()    # only with what `switch` says: Scenario


def resolve(*layers: Switch) -> dict[str, Any]:
    """Values of all keys: defaults, then of each layer its catalogue entry and what it says."""
    fields = Switch.model_fields
    values = {n: f.get_default(call_default_factory=True) for n, f in fields.items()}
    for layer in layers:
        if layer.model is not None:
            known = catalog.values("switches", layer.model)
            given = Switch.model_validate(known, context={"text": True})
            values.update({name: getattr(given, name) for name in given.model_fields_set})
        said = layer.model_fields_set & values.keys()
        values.update({name: getattr(layer, name) for name in said})
    return values


def relations(values: Mapping[str, Any]) -> Iterable[Finding]:
    """Problems between the values of a switch."""
    buffer = _size_text(values["buffer"])
    for key, allowed in (
        ("reserved", "a small part of the buffer"),
        ("headroom", "auto, or a part of the buffer"),
        ("headroom_pool", "null, or a part of the buffer"),
        ("xon_offset", "a few packets"),
        ("cell", "a few hundred bytes"),
    ):
        value = values[key]
        if value not in ("auto", None) and value >= values["buffer"]:
            yield Finding(
                _size_text(value), f"is not below the buffer ({buffer})", allowed, at=(key,)
            )


def _size_text(size_bytes: int) -> str:
    return str(Size().spell(size_bytes))
