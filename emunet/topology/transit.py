"""How long messages take on a way, by the engine's rule of rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from emunet.topology.frames import Frames, ps_per_byte, serialisation_ps

SWEEP_COMPILED_FROM = 200_000
"""Steps from which the recursion is worth compiling."""


class Link(NamedTuple):
    """What a link does to a packet.

    `fixed_ps` is the time from the last bit sent to the receiver's action: propagation and the
    receiver's latency.
    """

    rate_bps: int
    fixed_ps: int


Way = tuple[Link, ...]


def one_packet_ps(way: Way, slot_bytes: int) -> int:
    """Time of one packet alone on a way, every link rounding up."""
    return sum(int(serialisation_ps(slot_bytes, link.rate_bps)) + link.fixed_ps for link in way)


def message_ps(way: Way, size_bytes: np.ndarray, frames: Frames) -> np.ndarray:
    """Time of messages alone on a way, first packet's start to last packet's arrival.

    Parameters
    ----------
    way : tuple of Link
    size_bytes : int64[n], bytes
    frames : Frames
    """
    n = frames.n_packet(size_bytes)
    rest = size_bytes - (n - 1) * frames.mtu_bytes
    last = np.where(n == 1, frames.data_slot_bytes(rest, first=True), frames.data_slot_bytes(rest))
    full = int(frames.data_slot_bytes(frames.mtu_bytes))
    first = int(frames.data_slot_bytes(frames.mtu_bytes, first=True))
    units = [ps_per_byte(link.rate_bps) for link in way]
    if all(denominator == 1 for _, denominator in units):
        return _staircase(np.array([u for u, _ in units]), n, first, full, last) + sum(
            link.fixed_ps for link in way
        )
    return _recursion(way, units, n, first, full, last)


def _staircase(
    unit_ps: np.ndarray, n: np.ndarray, first: int, full: int, last: np.ndarray
) -> np.ndarray:
    """Closed form for rates that are exact per byte: the longest way through packets by links.

    C(i, j) = max(C(i-1, j), C(i, j-1)) + tx(i, j) unrolled: the first packet crosses links 0 .. a,
    those between it and the last fill the slowest of links a .. b, the last crosses b .. h-1.
    """
    h = len(unit_ps)
    head = np.concatenate(([0], np.cumsum(unit_ps)))
    middle = n - 2
    longest = last * head[h]
    several = np.flatnonzero(n >= 2)
    best = np.zeros(len(several), np.int64)
    m, tail = middle[several], last[several]
    for a in range(h):
        slowest = 0
        for b in range(a, h):
            slowest = max(slowest, int(unit_ps[b]))
            filled = full * (int(head[b + 1] - head[a]) + (m - 1) * slowest)
            ways = first * int(head[a + 1]) + filled + tail * int(head[h] - head[b])
            best = np.maximum(best, np.where(m > 0, ways, 0))
        two = first * int(head[a + 1]) + tail * int(head[h] - head[a])
        best = np.maximum(best, np.where(m == 0, two, 0))
    longest[several] = best
    return longest


def _recursion(
    way: Way, units: list[tuple[int, int]], n: np.ndarray, first: int, full: int, last: np.ndarray
) -> np.ndarray:
    """The same with the carry of inexact rates: packet by packet, once for all messages."""
    order = np.argsort(n, kind="stable")
    numerator = np.array([u for u, _ in units], np.int64)
    denominator = np.array([d for _, d in units], np.int64)
    fixed = np.array([link.fixed_ps for link in way], np.int64)
    done = np.empty(len(n), np.int64)
    if not len(n):
        return done
    steps = (int(n.max()) + len(n)) * len(way)
    sweep = _compiled_sweep() if steps > SWEEP_COMPILED_FROM else _sweep
    done[order] = sweep(numerator, denominator, fixed, n[order], last[order], first, full)
    return done


def _sweep(
    numerator: np.ndarray,
    denominator: np.ndarray,
    fixed: np.ndarray,
    n: np.ndarray,
    last: np.ndarray,
    first: int,
    full: int,
) -> np.ndarray:
    """Send packets over links in turn.

    Before packet n-1 of each message (ascending n) try the message's last packet.
    """
    h = len(numerator)
    busy, carry = np.zeros(h, np.int64), np.zeros(h, np.int64)
    done = np.empty(len(n), np.int64)
    row, sent = 0, 0
    while row < len(n):
        trying = n[row] - 1 == sent
        slot = last[row] if trying else (first if sent == 0 else full)
        arrive = np.int64(0)
        for j in range(h):
            start, owed = busy[j], carry[j]
            if arrive > start:
                start, owed = arrive, 0
            x = slot * numerator[j] - owed
            taken = (x + denominator[j] - 1) // denominator[j]
            arrive = start + taken + fixed[j]
            if not trying:
                busy[j], carry[j] = start + taken, taken * denominator[j] - x
        if trying:
            done[row] = arrive
            row += 1
        else:
            sent += 1
    return done


@lru_cache(maxsize=1)
def _compiled_sweep() -> Callable:
    from numba import njit

    return njit(cache=True)(_sweep)
