"""Packets and bytes on the wire of messages, and their sums over all sizes (for means).

The frames are those of `emunet.topology.frames`. A data frame is never shorter than the least one,
so that padding does not occur here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emunet.topology.frames import Frames

_FRAMES = Frames()
_PER_PACKET_BYTES = _FRAMES.data_header_bytes + _FRAMES.gap_bytes


def packets(size_bytes: np.ndarray, mtu_bytes: int) -> np.ndarray:
    """Packets of messages of the given sizes: int64[n] to int64[n]."""
    return -(-size_bytes // mtu_bytes)


def slot_bytes(size_bytes: np.ndarray, mtu_bytes: int) -> np.ndarray:
    """Slot bytes (frames, preambles, gaps) of messages sent once: int64[n] to int64[n]."""
    count = packets(size_bytes, mtu_bytes)
    last = size_bytes - (count - 1) * mtu_bytes
    padded = (count - 1) * _padded(mtu_bytes) + _padded(last)
    return padded + count * _PER_PACKET_BYTES + _FRAMES.first_header_bytes


def sum_packets(n: int, mtu_bytes: int) -> int:
    """Packets of one message each of 1, 2, .. n bytes."""
    full, rest = divmod(n, mtu_bytes)
    return mtu_bytes * full * (full + 1) // 2 + rest * (full + 1)


def sum_slot_bytes(n: int, mtu_bytes: int) -> int:
    """Slot bytes of one message each of 1, 2, .. n bytes."""
    full, rest = divmod(n, mtu_bytes)
    whole_packets = mtu_bytes * full * (full - 1) // 2 + rest * full
    padded = _padded(mtu_bytes) * whole_packets + full * _sum_padded(mtu_bytes) + _sum_padded(rest)
    headers = _PER_PACKET_BYTES * sum_packets(n, mtu_bytes) + _FRAMES.first_header_bytes * n
    return padded + headers


def _padded(size_bytes: Any) -> Any:
    """Payload bytes as they stand in a frame; the argument may be an array."""
    return -(-size_bytes // _FRAMES.align_bytes) * _FRAMES.align_bytes


def _sum_padded(n: int) -> int:
    """Sum of s padded over s = 1 .. n."""
    align = _FRAMES.align_bytes
    full, rest = divmod(n, align)
    return align * align * full * (full + 1) // 2 + align * (full + 1) * rest
