"""What a policy may define: the hooks of each slot, and the records that a hook sees and writes.

The dtypes here are the binary interface between policies and engines: both engines lay out memory
by them, and the compiled hooks read it. Changing one means raising `ABI`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

ABI = 2
"""Version of the binary interface; part of the key of compiled hooks on disk."""

KEEP = -1
"""In `out.timer_ps`: leave the timer as it is."""

CANCEL = -2
"""In `out.timer_ps`: cancel the timer."""

NACK, REORDER, TIMEOUT = 1, 2, 3
"""`ctx.cause` of a loss: a NACK, given up by selective repeat, the retransmission timer."""

N_TIMER = 4
"""Timers of each connection that a congestion policy may use."""

MAX_STATE_BYTES = 256
"""Greatest size of a policy's state: four cache lines for each connection."""

HOOK_ARGUMENTS = ("ctx", "params", "state", "out")
"""Names of every hook's arguments, in order."""


@dataclass(frozen=True)
class Field:
    """One field of a record that a hook sees or writes."""

    name: str
    dtype: str
    unit: str
    meaning: str
    count: int = 1

    @property
    def spec(self) -> tuple[str, str] | tuple[str, str, tuple[int]]:
        """The entry of a numpy dtype for this field."""
        return (
            (self.name, self.dtype) if self.count == 1 else (self.name, self.dtype, (self.count,))
        )


@dataclass(frozen=True)
class Slot:
    """A place in the engine where a policy decides.

    Attributes
    ----------
    name : str
        Name of the slot, and of its folder in `emunet/policies`.
    key : str
        What the scenario calls it; its set and parameters are ``<key>_set`` and ``<key>_params``.
    hooks : mapping of str to str
        Every hook and when it is called.
    ctx_fields, out_fields : tuple of Field
        What a hook sees, and what it may change.
    numbers : tuple of str
        Fields of `out` that must not be left as NaN.
    ctx, out : numpy.dtype
        The two records as dtypes.
    """

    name: str
    key: str
    hooks: Mapping[str, str]
    ctx_fields: tuple[Field, ...]
    out_fields: tuple[Field, ...]
    numbers: tuple[str, ...]
    ctx: np.dtype
    out: np.dtype


def _dtype(fields: tuple[Field, ...]) -> np.dtype:
    return np.dtype([field.spec for field in fields], align=True)


_CTX_FIELDS = (
    Field("now_ps", "i8", "ps", "simulated time"),
    Field(
        "rtt_ps",
        "i8",
        "ps",
        "`ack`: time from sending the data to now, in whole ns; 0 in other hooks",
    ),
    Field(
        "acked_bytes",
        "i8",
        "bytes",
        "`ack`: payload that this ACK newly acknowledges; 0 in other hooks",
    ),
    Field("inflight_bytes", "i8", "bytes", "payload sent and not acknowledged"),
    Field("marked", "i8", "", "`ack`: 1 if the data arrived with a congestion mark; 0 otherwise"),
    Field("cause", "i8", "", "`loss`: NACK, REORDER or TIMEOUT; 0 in other hooks"),
    Field("timer", "i8", "", "`timer`: number of the timer that fired, 0 to 3; -1 in other hooks"),
    Field("line_rate_bps", "f8", "bit/s", "rate of the sender's port"),
    Field(
        "base_rtt_ps",
        "i8",
        "ps",
        "round trip of one full packet and its ACK through the empty network",
    ),
    Field("bdp_bytes", "i8", "bytes", "line rate times base round trip"),
    Field("mtu_bytes", "i8", "bytes", "payload of a full packet"),
    Field("size_bytes", "i8", "bytes", "payload of the whole message"),
    Field("una_bytes", "i8", "bytes", "payload acknowledged in order so far"),
    Field("next_bytes", "i8", "bytes", "payload position of the next new packet"),
    Field("rate_bps", "f8", "bit/s", "pacing rate now in force"),
    Field("window_bytes", "i8", "bytes", "window now in force; 2^63 - 1: no window"),
)

_OUT_FIELDS = (
    Field("rate_bps", "f8", "bit/s", "pacing rate from now on; filled in with the present one"),
    Field(
        "window_bytes",
        "i8",
        "bytes",
        "greatest payload in flight from now on; filled in with the present one",
    ),
    Field("timer_ps", "i8", "ps", "timers: delay from now, KEEP (filled in) or CANCEL", N_TIMER),
)

CTX = _dtype(_CTX_FIELDS)
"""What a congestion hook sees."""

OUT = _dtype(_OUT_FIELDS)
"""What a congestion hook decides."""

CONGESTION = Slot(
    name="congestion",
    key="cc",
    hooks={
        "start": "the message starts; nothing is sent yet, the rate is the line rate, no window",
        "ack": "an ACK has arrived and the message is not finished",
        "cnp": "a congestion notification has arrived; only policies with this hook are sent any",
        "loss": "data is taken for lost: see `ctx.cause`",
        "timer": "one of the policy's timers fires: see `ctx.timer`",
    },
    ctx_fields=_CTX_FIELDS,
    out_fields=_OUT_FIELDS,
    numbers=("rate_bps",),
    ctx=CTX,
    out=OUT,
)

SLOTS: Mapping[str, Slot] = {slot.name: slot for slot in (CONGESTION,)}
"""Every slot by name."""
