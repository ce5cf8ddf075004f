"""Arithmetic of docs/semantics.md, spelled out a second time: frames, links, draws.

Nothing of emunet is imported here, so that a wrong constant there cannot be right here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

NS = 1_000
US = 1_000_000
MS = 1_000_000_000
GBPS = 1_000_000_000

MTU = 4096
GAP = 20
"""Preamble and start delimiter 8, inter-frame gap 12: what a link counts beyond a frame."""

FULL = 14 + 20 + 8 + 12 + 4096 + 4 + 4
"""Frame bytes of a full packet in the middle of a message: 4158."""

FIRST = FULL + 16
"""The same with RETH: 4174."""

ACK, CNP, PAUSE = 66, 78, 64

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
TIE, ECMP, MARK, ENTROPY, SPRAY = range(1, 6)


def data_frame(payload_bytes: int, first: bool = False) -> int:
    """Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16 if first, payload padded to 4, ICRC 4, FCS 4."""
    padded = -(-payload_bytes // 4) * 4
    return max(64, 14 + 20 + 8 + 12 + (16 if first else 0) + padded + 4 + 4)


def n_packet(size_bytes: int, mtu: int = MTU) -> int:
    """Packets of a message."""
    return -(-size_bytes // mtu)


def frames(size_bytes: int, mtu: int = MTU) -> list[int]:
    """Frame bytes of every packet of a message."""
    n = n_packet(size_bytes, mtu)
    sizes = [mtu] * (n - 1) + [size_bytes - (n - 1) * mtu]
    return [data_frame(size, i == 0) for i, size in enumerate(sizes)]


def slot_ps(frame_bytes: int, rate_bps: int) -> int:
    """Serialisation of one frame on an idle link, rounded up."""
    return -(-(frame_bytes + GAP) * 8 * 10**12 // rate_bps)


class Wire:
    """One direction of a link: frames in order, each finished once begun; gaps reset the rounding.

    While frames follow one another without a gap, the end of each is the exact end since the train
    began, rounded up: that is what a carried remainder comes to.
    """

    def __init__(self, rate_bps: int) -> None:
        self.rate_bps = rate_bps
        self.train_start_ps = 0
        self.train_bytes = 0
        self.busy_until_ps = 0

    def send(self, ready_ps: int, frame_bytes: int) -> tuple[int, int]:
        """Start and end of a frame that may start at `ready_ps`."""
        start = max(ready_ps, self.busy_until_ps)
        if start > self.busy_until_ps:
            self.train_start_ps, self.train_bytes = start, 0
        self.train_bytes += frame_bytes + GAP
        took = Fraction(self.train_bytes * 8 * 10**12, self.rate_bps)
        self.busy_until_ps = self.train_start_ps + -(-took.numerator // took.denominator)
        return start, self.busy_until_ps


def cross(ready_ps: Sequence[int], frame_bytes: Sequence[int],
          links: Sequence[tuple[int, int]]) -> list[int]:
    """Arrivals at the end of a chain of store-and-forward links.

    The recursion C(i, j) = max(C(i-1, j), C(i, j-1) + fixed) + tx(i, j), packet by packet.

    Parameters
    ----------
    ready_ps, frame_bytes
        When each packet could start on the first link; its size.
    links : sequence of (rate_bps, fixed_ps)
        `fixed_ps`: propagation and the receiver's latency.
    """
    at = list(ready_ps)
    for rate, fixed in links:
        wire = Wire(rate)
        at = [wire.send(t, b)[1] + fixed for t, b in zip(at, frame_bytes, strict=True)]
    return at


def exact_cross(ready_ps: Sequence[int], frame_bytes: Sequence[int],
                links: Sequence[tuple[int, int]]) -> list[Fraction]:
    """The same without rounding."""
    at = [Fraction(t) for t in ready_ps]
    for rate, fixed in links:
        free = Fraction(0)
        out = []
        for t, b in zip(at, frame_bytes, strict=True):
            free = max(free, t) + Fraction((b + GAP) * 8 * 10**12, rate)
            out.append(free + fixed)
        at = out
    return at


def mix64(x: int) -> int:
    """The mixer of semantics 1.2."""
    x &= MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def draw(seed: int, purpose: int, a: int, b: int) -> int:
    """Draw number b of entity a."""
    return mix64(mix64(mix64(seed + purpose * GOLDEN) ^ a) + b * GOLDEN)


def unit_draw(seed: int, purpose: int, a: int, b: int) -> float:
    """The same in [0, 1), from the upper 53 bits."""
    return (draw(seed, purpose, a, b) >> 11) * 2.0**-53


def ecmp_choice(salt: int, key: int, dst: int, m: int) -> int:
    """Which of m candidate ports."""
    return (mix64(salt ^ (key << 32 | dst)) >> 32) * m >> 32


def pause_ps(rate_bps: int) -> int:
    """65,535 quanta of 512 bit times."""
    return 65535 * 512 * 10**12 // rate_bps


def gaps(times: Sequence[int]) -> list[int]:
    """Differences of neighbours."""
    return [b - a for a, b in pairwise(times)]
