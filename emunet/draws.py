"""Counter-based draws: a value depends on its key and number, never on earlier draws.

`mix64` and `draw` are those of ``docs/semantics.md``, section 1.2; the purposes here begin at 16.
The logarithm is our own, from additions, multiplications and divisions alone, so that every machine
draws the same times.
"""

from __future__ import annotations

import numpy as np

GAP, SIZE, PARTNER, RECEIVER, SHUFFLE, FAULT = range(16, 22)
"""Purposes: gap to the next arrival, size, destination or senders, incast receiver, permutation,
times of faults."""

_MASK = (1 << 64) - 1
_G = 0x9E3779B97F4A7C15
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SERIES = tuple(2.0 / (2 * i + 1) for i in range(11, 0, -1))


def mix64(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, on uint64 arrays."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def element_key(seed: int, element: int, purpose: int) -> np.ndarray:
    """uint64[1]: key of one purpose of one workload element."""
    base = mix64(np.array([(seed + purpose * _G) & _MASK], dtype=np.uint64))
    return draw(base, np.array([element], dtype=np.uint64), np.zeros(1, dtype=np.uint64))


def draw(key: np.ndarray, entity: np.ndarray, number: np.ndarray) -> np.ndarray:
    """uint64 draws of entities' numbers under a key; the arguments broadcast."""
    entity, number = np.asarray(entity, dtype=np.uint64), np.asarray(number, dtype=np.uint64)
    return mix64(mix64(key ^ entity) + number * np.uint64(_G))


def unit(bits: np.ndarray) -> np.ndarray:
    """float64 in (0, 1] from uint64 draws."""
    return ((bits >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53


def below(bits: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """int64 in [0, bound) from uint64 draws; bound < 2^31."""
    high = bits >> np.uint64(32)
    return ((high * np.asarray(bound, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def exponential(bits: np.ndarray) -> np.ndarray:
    """float64, exponential with mean 1, from uint64 draws."""
    return -log(unit(bits))


def log(x: np.ndarray) -> np.ndarray:
    """Natural logarithm of positive float64, within 4 units in the last place, on every machine.

    ``x = 2^e m`` with m in [sqrt(1/2), sqrt(2)); ``log m = 2 artanh(s)``, ``s = (m - 1) / (m +
    1)``, by its series.
    """
    mantissa, exponent = np.frexp(x)
    small = mantissa < 0.7071067811865476
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    power = (exponent - small).astype(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = np.full_like(square, 2.0 / 25)
    for coefficient in _SERIES:
        series = series * square + coefficient
    return power * _LN2_HIGH + (s * 2.0 + (s * square * series + power * _LN2_LOW))


def choose(bits: np.ndarray, n: int) -> list[int]:
    """As many different numbers below `n` as there are draws; every ordered choice is as likely.

    The first steps of the Fisher-Yates shuffle, with the moved numbers alone in memory.
    """
    steps = below(bits, n - np.arange(len(bits), dtype=np.uint64))
    moved: dict[int, int] = {}
    picked = []
    for i, step in enumerate(steps.tolist()):
        at, last = step, n - 1 - i
        picked.append(moved.get(at, at))
        moved[at] = moved.pop(last, last)
    return picked
