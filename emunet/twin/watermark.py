"""What is known of a switch's queues, groups and pools besides their bytes (semantics 3.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

SINCE_START, USER, PERSISTENT, PERIODIC = range(4)
"""Kinds of a maximum: since the start, or since the last clear of its own."""


@dataclass(frozen=True)
class Schedule:
    """When switches measure and clear.

    Attributes
    ----------
    measure_every_ps, periodic_ps : int
        Period of the samples behind p99, length of an interval; 0: none.
    clear_user_ps, clear_persistent_ps : sequence of int
        Times of clears.
    """

    measure_every_ps: int = 0
    periodic_ps: int = 0
    clear_user_ps: Sequence[int] = ()
    clear_persistent_ps: Sequence[int] = ()

    def next_clear_ps(self, after_ps: int) -> int | None:
        """First time after another at which something is cleared."""
        later = [t for t in (*self.clear_user_ps, *self.clear_persistent_ps) if t > after_ps]
        if self.periodic_ps:
            later.append((after_ps // self.periodic_ps + 1) * self.periodic_ps)
        return min(later, default=None)

    def cleared(self, now: int) -> list[int]:
        """Kinds that are cleared at a time."""
        return [
            *([USER] if now in self.clear_user_ps else []),
            *([PERSISTENT] if now in self.clear_persistent_ps else []),
            *([PERIODIC] if self.periodic_ps and now % self.periodic_ps == 0 else []),
        ]


@dataclass(slots=True)
class Level:
    """The bytes of one object: now, at their greatest, over time, and at sampling instants."""

    bytes: int = 0
    since_ps: int = 0
    byte_ps: int = 0
    maxima: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    samples: Counter[int] = field(default_factory=Counter)

    def move(self, bytes: int, now: int) -> None:
        """The object holds so many bytes from now on."""
        self.byte_ps += self.bytes * (now - self.since_ps)
        self.bytes, self.since_ps = bytes, now

    def note(self) -> None:
        """Raise the maxima after an admission."""
        self.maxima = [max(maximum, self.bytes) for maximum in self.maxima]

    def clear(self, kind: int) -> int:
        """Begin a maximum anew at what is held now, and give what it was."""
        was, self.maxima[kind] = self.maxima[kind], self.bytes
        return was

    def sample(self) -> None:
        """Count the bytes of a sampling instant."""
        self.samples[self.bytes] += 1

    def p99_bytes(self, n_instant: int) -> int:
        """The ceil(0.99 n)-th smallest of n samples, at most 1/32 too high; -1 without any.

        Samples that were not taken are 0.
        """
        if n_instant == 0:
            return -1
        above = n_instant - -(-99 * n_instant // 100)
        for bytes, count in sorted(self.samples.items(), reverse=True):
            if count > above:
                return min(bucket_end_bytes(bytes), self.maxima[SINCE_START])
            above -= count
        return 0


def bucket_end_bytes(bytes: int) -> int:
    """Greatest number of the bucket: exact below 64, then 32 buckets from a power of two on."""
    shift = max(0, bytes.bit_length() - 6)
    return (bytes >> shift << shift) + (1 << shift) - 1
