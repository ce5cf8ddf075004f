"""Switches, NICs and the transport."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from emunet.scenario.base import Model
from emunet.scenario.fields import (
    CLASSES,
    Bytes,
    Finding,
    Flag,
    ListOf,
    Maybe,
    OrWord,
    Parameters,
    Ratio,
    Size,
    Text,
    Time,
    Whole,
    Word,
    about,
    refuse,
)

ROCE_MTUS = (256, 512, 1024, 2048, 4096)
_HPCC = "HPCC simulations, SIGCOMM 2019"
_IBTA = "InfiniBand Architecture Specification, vol. 1"
_CLASS = Whole(0, CLASSES - 1)


class Ecn(Model):
    """Marking ramp on an egress queue's bytes: never up to kmin, pmax at kmax, always above."""

    noun: ClassVar[str] = "ecn"

    kmin: Annotated[int, Size(), about("no packet is marked up to this many queued bytes")]
    kmax: Annotated[int, Size(1), about("every packet is marked above this many queued bytes")]
    pmax: Annotated[float, Ratio(0, 1), about("probability of a mark at kmax", _HPCC)] = 0.2

    def cross_checks(self) -> Iterable[Finding]:
        if self.kmin >= self.kmax:
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
        "auto, false, or {kmin, kmax, pmax}",
        "did you mean false?" if off else "",
    )


class Switch(Model):
    """All switches of the fabric."""

    noun: ClassVar[str] = "switch"

    buffer: Annotated[int, Size(1), about("packet buffer of each switch, frame bytes", _HPCC)] = (
        32_000_000
    )
    dt_alpha: Annotated[
        float,
        Ratio(0, 1024, above=True),
        about(
            "factor of the dynamic threshold: a queue or priority group may use `dt_alpha` times "
            "the free shared buffer",
            f"Choudhury and Hahne 1998; 1/8: {_HPCC}",
        ),
    ] = 0.125
    reserved: Annotated[int, Size(), about("bytes set aside for each ingress port and class")] = 0
    latency: Annotated[
        int, Time(), about("from the last bit of a packet to its place in the egress queue")
    ] = 500_000
    pfc: Annotated[
        bool,
        Flag(),
        about("priority flow control for the classes in `lossless_classes`", "IEEE 802.1Qbb"),
    ] = True
    lossless_classes: Annotated[
        tuple[int, ...],
        ListOf(_CLASS, "a list of classes 0 to 7, each once", unique=True, least=0, most=CLASSES),
        about(
            "classes in which switches pause senders rather than drop",
            "customary for RoCEv2",
        ),
    ] = (3,)
    pfc_response: Annotated[
        int, Time(), about("from the last bit of a pause frame to its effect at a switch")
    ] = 300_000
    headroom: Annotated[
        int | Literal["auto"],
        OrWord(Size(), "auto"),
        about(
            "for each ingress port and lossless class: bytes that arrive after XOFF was sent; "
            "auto: what delay, latencies and rate of each link need"
        ),
    ] = "auto"
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

    def cross_checks(self) -> Iterable[Finding]:
        if self.reserved >= self.buffer:
            yield Finding(
                _size_text(self.reserved),
                f"is not below the buffer ({_size_text(self.buffer)})",
                "a small part of the buffer",
                at=("reserved",),
            )
        if self.headroom != "auto" and self.headroom >= self.buffer:
            yield Finding(
                _size_text(self.headroom),
                f"is not below the buffer ({_size_text(self.buffer)})",
                "auto, or a part of the buffer",
                at=("headroom",),
            )
        if self.xon_offset >= self.buffer:
            yield Finding(
                _size_text(self.xon_offset),
                f"is not below the buffer ({_size_text(self.buffer)})",
                "a few packets",
                at=("xon_offset",),
            )


class Nic(Model):
    """The NICs of all hosts."""

    noun: ClassVar[str] = "nic"

    latency: Annotated[
        int, Time(), about("from the last bit of a packet to its handling by the transport")
    ] = 300_000
    pfc_response: Annotated[
        int, Time(), about("from the last bit of a pause frame to its effect at a NIC")
    ] = 300_000


class Transport(Model):
    """RoCEv2 reliable connections and their congestion control."""

    noun: ClassVar[str] = "transport"

    cc: Annotated[
        str,
        Text("name of a congestion policy, or a file such as ./mine.py", 1024),
        about("congestion control"),
    ] = "dcqcn"
    cc_set: Annotated[
        str | None,
        Maybe(Text("name of a parameter set of the policy", 64)),
        about("named parameters of the policy; null: its own defaults"),
    ] = None
    cc_params: Annotated[
        dict[str, Any], Parameters(), about("parameters that differ from the set")
    ] = Field(default_factory=dict)
    recovery: Annotated[
        Literal["gbn", "sr"],
        Word("gbn", "sr"),
        about("gbn: go-back-N; sr: selective repeat with a receiver bitmap", _IBTA),
    ] = "gbn"
    path: Annotated[
        Literal["ecmp", "spray"],
        Word("ecmp", "spray"),
        about("ecmp: one path for each connection; spray: one for each packet"),
    ] = "ecmp"
    mtu: Annotated[
        int, Bytes(256, 9000), about("payload of a full packet", f"{_IBTA}: the largest")
    ] = 4096
    ack_every: Annotated[
        int,
        Whole(1, 4096),
        about("an ACK after this many packets; the last of a message is always acknowledged"),
    ] = 1
    rto: Annotated[int, Time(1), about("retransmission timeout", f"{_IBTA}: 4.096us * 2^10")] = (
        4_194_304_000
    )
    max_retries: Annotated[
        int,
        Whole(0, 1000),
        about("timeouts in a row before a message fails", f"{_IBTA}: three bits"),
    ] = 7
    klass: Annotated[
        int, _CLASS, Field(alias="class"), about("priority class of messages that give none")
    ] = 3
    cnp_class: Annotated[
        int, _CLASS, about("priority class of CNPs", "DSCP 48, the NICs' default")
    ] = 6
    cnp_interval: Annotated[int, Time(), about("least time between CNPs of one connection")] = (
        4_000_000
    )
    sr_window: Annotated[
        int,
        Whole(64, 1 << 15, power=True),
        about("sr: packets that may be outstanding, and length of the receiver's bitmap"),
    ] = 1024
    sr_reorder: Annotated[
        int,
        Whole(0, 1 << 15),
        about("sr: a packet counts as lost when one this much later has been acknowledged"),
    ] = 256
    linger: Annotated[int, Time(), about("life of a receiver's state after its sender is done")] = (
        1_000_000_000
    )

    def cross_checks(self) -> Iterable[Finding]:
        if self.recovery == "sr" and self.sr_reorder >= self.sr_window:
            yield Finding(
                self.sr_reorder,
                f"is not below sr_window ({self.sr_window})",
                f"0 to {self.sr_window - 1}",
                "lower it, or raise sr_window",
                at=("sr_reorder",),
            )
        if self.recovery == "sr" and self.ack_every > self.sr_window:
            yield Finding(
                self.ack_every,
                f"is more than sr_window ({self.sr_window}): the window would fill before an "
                "ACK is due",
                f"1 to {self.sr_window}",
                at=("ack_every",),
            )


def _size_text(size_bytes: int) -> str:
    return str(Size().spell(size_bytes))
