"""Links that differ from what the topology says: rate, delay, and what they lose."""

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
    Ratio,
    Text,
    Time,
    Whole,
    about,
    refuse,
)

_NAME = Text("a name or a pattern of names such as leaf*", 64)
_GILBERT = "Gilbert 1960, Elliott 1963"
_EFFECTS = ("rate", "delay", "loss", "bit_errors")


class LinkChange(Model):
    """Links between two nodes, or two patterns of nodes."""

    noun: ClassVar[str] = "an entry of links"

    source: Annotated[
        str, _NAME, Field(alias="from"), about("one end; * stands for any text, ? for one letter")
    ]
    to: Annotated[str, _NAME, about("the other end")]
    number: Annotated[
        int | None,
        Maybe(Whole(0, 1 << 20)),
        about("which of several links between two nodes, from 0; null: all"),
    ] = None
    one_way: Annotated[
        bool, Flag(), about("rate and losses hold from `from` to `to` only, else both ways")
    ] = False
    rate: Annotated[int | None, Maybe(Rate()), about("null: the topology's")] = None
    delay: Annotated[
        int | None, Maybe(Delay()), about("propagation, always both ways; null: the topology's")
    ] = None
    loss: Annotated[
        float, Ratio(0, 1), about("share of all frames that are lost, pause frames among them")
    ] = 0.0
    burst: Annotated[
        float | None,
        Maybe(Ratio(1, 1e9)),
        about(
            "mean length, in frames, of the bad times in which frames are lost; null: each frame "
            "by itself",
            _GILBERT,
        ),
    ] = None
    bad_loss: Annotated[
        float,
        Ratio(0, 1, above=True),
        about("with `burst`: share of the frames of a bad time that is lost", _GILBERT),
    ] = 1.0
    bit_errors: Annotated[
        float, Ratio(0, 0.5), about("share of wrong bits; a frame with one is lost")
    ] = 0.0
    start: Annotated[int, Time(), about("frames sent before are safe from loss and errors")] = 0
    end: Annotated[
        int | None, Maybe(Time(1)), about("frames sent from then on are safe; null: never")
    ] = None

    @property
    def loses(self) -> bool:
        """Whether frames can be lost."""
        return self.loss > 0 or self.bit_errors > 0

    @property
    def to_bad(self) -> float:
        """Probability after each frame of a good time that a bad one begins."""
        share = self.loss / self.bad_loss
        return share / (1.0 - share) / self.burst if self.burst and share < 1 else 0.0

    def cross_checks(self) -> Iterable[Finding]:
        if not self.model_fields_set & set(_EFFECTS):
            yield Finding(NO_VALUE, "changes nothing", "one of " + ", ".join(_EFFECTS))
        if self.burst is None:
            if "bad_loss" in self.model_fields_set:
                yield Finding(self.bad_loss, "is of use only with burst", at=("bad_loss",))
        elif not 0 < self.loss < self.bad_loss:
            allowed = "above 0, below bad_loss"
            yield Finding(self.loss, "is not a loss that bursts can have", allowed, at=("loss",))
        elif self.to_bad > 1:
            share = self.loss / self.bad_loss
            yield Finding(
                self.burst,
                f"is too short: bad times are {share:.3g} of all time",
                f"{share / (1 - share):.6g} and more",
                at=("burst",),
            )
        if self.end is not None and self.end <= self.start:
            problem = f"is not after start ({Time().spell(self.start)})"
            yield Finding(Time().spell(self.end), problem, at=("end",))


def read_links(value: Any, info: ValidationInfo) -> Any:
    """A list of changes."""
    if not isinstance(value, (list, tuple)):
        fix = "write a dash before it" if isinstance(value, dict) else ""
        refuse(value, "is not a list", "a list of {from: leaf0, to: spine0, ...}", fix)
    found: list[Finding] = []
    links = []
    for i, entry in enumerate(value):
        try:
            links.append(LinkChange.read(entry, info, i))
        except Findings as error:
            found += error.items
    if found:
        raise Findings(found)
    return tuple(links)
