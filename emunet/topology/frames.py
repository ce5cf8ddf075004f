"""Sizes of frames on the wire, and the exact serialisation rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

PS_PER_S_BIT = 8 * 10**12
"""Picoseconds that one byte takes at 1 bit/s."""


@dataclass(frozen=True)
class Frames:
    """RoCEv2 over IPv4, untagged (IBTA A17): frame bytes from destination address to FCS.

    Attributes
    ----------
    mtu_bytes : int
        Payload of a full packet.
    data_header_bytes : int
        Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4.
    first_header_bytes : int
        RETH, in the first packet of a message.
    ack_bytes, pause_bytes : int
        Whole frames.
    least_bytes : int
        Shorter frames are padded to this.
    gap_bytes : int
        Preamble, start delimiter and inter-frame gap: what a link counts beyond the frame.
    align_bytes : int
        Payload is padded to a multiple of this.
    """

    mtu_bytes: int = 4096
    data_header_bytes: int = 62
    first_header_bytes: int = 16
    ack_bytes: int = 66
    pause_bytes: int = 64
    least_bytes: int = 64
    gap_bytes: int = 20
    align_bytes: int = 4

    def data_slot_bytes(self, payload_bytes: ArrayLike, first: bool = False) -> np.ndarray:
        """Slot bytes of a data packet; `payload_bytes` may be an array."""
        padded = -(-np.asarray(payload_bytes, np.int64) // self.align_bytes) * self.align_bytes
        frame = padded + self.data_header_bytes + (self.first_header_bytes if first else 0)
        return np.maximum(frame, self.least_bytes) + self.gap_bytes

    @property
    def max_slot_bytes(self) -> int:
        """The longest slot: a full packet with RETH."""
        return int(self.data_slot_bytes(self.mtu_bytes, first=True))

    @property
    def max_frame_bytes(self) -> int:
        """The longest frame: a full packet with RETH."""
        return self.max_slot_bytes - self.gap_bytes

    @property
    def ack_slot_bytes(self) -> int:
        """Slot of an ACK."""
        return self.ack_bytes + self.gap_bytes

    @property
    def pause_slot_bytes(self) -> int:
        """Slot of a pause frame."""
        return self.pause_bytes + self.gap_bytes

    def n_packet(self, size_bytes: ArrayLike) -> np.ndarray:
        """Packets of a message; `size_bytes` may be an array."""
        return -(-np.asarray(size_bytes, np.int64) // self.mtu_bytes)


def ps_per_byte(rate_bps: int) -> tuple[int, int]:
    """8e12 / rate in lowest terms, as numerator and denominator."""
    common = math.gcd(PS_PER_S_BIT, int(rate_bps))
    return PS_PER_S_BIT // common, int(rate_bps) // common


def serialisation_ps(slot_bytes: ArrayLike, rate_bps: int) -> np.ndarray:
    """Time of one slot on an idle link, rounded up; `slot_bytes` may be an array."""
    numerator, denominator = ps_per_byte(rate_bps)
    return -(-np.asarray(slot_bytes, np.int64) * numerator // denominator)
