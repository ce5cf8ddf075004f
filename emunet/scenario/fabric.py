"""NICs and the transport."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emunet.scenario.base import Model
from emunet.scenario.fields import (
    CLASSES,
    Bytes,
    Delay,
    Finding,
    Maybe,
    NumberMap,
    Parameters,
    Text,
    Whole,
    Word,
    about,
)

ROCE_MTUS = (256, 512, 1024, 2048, 4096)
MOST_SR_WINDOW = 1 << 15
"""An ACK names its packet by 16 bits, of which 65535 stands for none (docs/semantics.md 4.2)."""
_IBTA = "InfiniBand Architecture Specification, vol. 1"
_CLASS = Whole(0, CLASSES - 1)


class Nic(Model):
    """The NICs of all hosts."""

    noun: ClassVar[str] = "nic"

    latency: Annotated[
        int, Delay(), about("from the last bit of a packet to its handling by the transport")
    ] = 300_000
    pfc_response: Annotated[
        int, Delay(), about("from the last bit of a pause frame to its effect at a NIC")
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
    rto: Annotated[int, Delay(1), about("retransmission timeout", f"{_IBTA}: 4.096us * 2^10")] = (
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
    dscp: Annotated[
        dict[int, int],
        NumberMap(Whole(0, 7), Whole(0, 63), "classes 0 to 7 with their DSCP, 0 to 63: {3: 26}"),
        about(
            "DSCP of the packets of a class; others: 26 for class 3, 48 for class 6, else 8 times "
            "the class (class selectors)",
            "26 and 48: the NICs' defaults",
        ),
    ] = Field(default_factory=dict)
    cnp_class: Annotated[
        int, _CLASS, about("priority class of CNPs", "DSCP 48, the NICs' default")
    ] = 6
    cnp_interval: Annotated[int, Delay(), about("least time between CNPs of one connection")] = (
        4_000_000
    )
    sr_window: Annotated[
        int,
        Whole(64, MOST_SR_WINDOW, power=True),
        about("sr: packets that may be outstanding, and length of the receiver's bitmap"),
    ] = 1024
    sr_reorder: Annotated[
        int,
        Whole(0, MOST_SR_WINDOW),
        about("sr: a packet counts as lost when one this much later has been acknowledged"),
    ] = 256
    linger: Annotated[
        int, Delay(), about("life of a receiver's state after its sender is done; L at least")
    ] = 1_000_000_000

    def dscp_of(self, klass: int) -> int:
        """DSCP of the packets of a class."""
        return self.dscp.get(klass, {3: 26, 6: 48}.get(klass, 8 * klass))

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

