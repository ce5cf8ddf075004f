"""Flow-size distributions: tables of (bytes, fraction of flows not larger), checked and sampled.

Between two points the fraction rises linearly, as in the generators of the papers. Sizes are whole
bytes: a draw ``u`` in (0, 1] gives the least whole size whose fraction is at least ``u``, so that
the fraction of flows up to every whole size is exactly that of the table. A table that begins above
0 has that share of its flows at the first size; a size that is repeated holds the rise between its
rows; a size of 0 is raised to 1 byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np

from emunet.errors import NO_VALUE, InputFileError, did_you_mean, one_of
from emunet.ingest.flows_text import NumberProblem, Source, parse_decimal, parse_whole
from emunet.units import UnitError, parse_size

_TOLERANCE = Decimal("1e-6")
_SPLIT = re.compile(r"[^\s,;]+")


@dataclass(frozen=True)
class SizeCdf:
    """A distribution of message sizes.

    Attributes
    ----------
    name : str
        Name in the catalogue, path of the file, or text of a fixed size.
    size_bytes : int64[n_point]
        Sizes, not falling.
    fraction : float64[n_point]
        Fraction of messages not larger, not falling; the last is 1.
    """

    name: str
    size_bytes: np.ndarray
    fraction: np.ndarray

    @property
    def mean_bytes(self) -> float:
        """Mean by linear interpolation, as published tables state it."""
        return float(
            sum((m * Fraction(int(a) + int(b), 2) for a, b, m in self._segments()), Fraction())
        )

    @property
    def message_bytes(self) -> float:
        """Mean of the whole sizes that `sample` gives, half a byte above `mean_bytes` on slopes."""
        return self.expect(lambda n: n * (n + 1) // 2)

    @property
    def max_bytes(self) -> int:
        """Largest size."""
        return int(self.size_bytes[-1])

    @overload
    def sample(self, u: float) -> int: ...
    @overload
    def sample(self, u: np.ndarray) -> np.ndarray: ...
    def sample(self, u: float | np.ndarray) -> int | np.ndarray:
        """Whole sizes for draws in (0, 1]: a number gives a number, float64[n] gives int64[n]."""
        draws = np.asarray(u, dtype=np.float64)
        high = np.searchsorted(self.fraction, draws, side="left")
        low = np.maximum(high - 1, 0)
        size, fraction = self.size_bytes.astype(np.float64), self.fraction
        rise = np.where(high > low, fraction[high] - fraction[low], 1.0)
        share = np.where(high > low, (draws - fraction[low]) / rise, 1.0)
        whole = np.ceil(size[low] + share * (size[high] - size[low])).astype(np.int64)
        whole = np.clip(
            whole, np.maximum(self.size_bytes[low], 1), np.maximum(self.size_bytes[high], 1)
        )
        return int(whole) if whole.ndim == 0 else whole

    def _segments(self) -> list[tuple[int, int, Fraction]]:
        """(from size, to size, share of messages) of every rise; equal sizes: all at that size."""
        rows = [
            (int(s), Fraction(str(float(f))))
            for s, f in zip(self.size_bytes, self.fraction, strict=True)
        ]
        rows.insert(0, (rows[0][0], Fraction(0)))
        return [(a, b, g - f) for (a, f), (b, g) in pairwise(rows) if g > f]

    def expect(self, total: Callable[[int], int]) -> float:
        """Mean over the whole sizes that `sample` gives of a function of the size.

        Parameters
        ----------
        total : callable
            Sum of the function over the sizes 1, 2, .. n, for any n >= 0.
        """
        mean = Fraction()
        for low, high, share in self._segments():
            if low == high:
                low, high = max(low, 1) - 1, max(low, 1)
            mean += share * Fraction(total(high) - total(low), high - low)
        return float(mean)


def catalogue() -> list[str]:
    """Names of the distributions that emunet brings along."""
    folder = resources.files("emunet.catalog") / "cdf"
    return sorted(
        entry.name.removesuffix(".csv") for entry in folder.iterdir() if entry.name.endswith(".csv")
    )


def load_cdf(name_or_path: str, base_dir: Path | str = ".") -> SizeCdf:
    """A distribution by its name in the catalogue, as a fixed size (``64KB``), or from a file.

    Parameters
    ----------
    name_or_path : str
        ``websearch``, ``1MB``, ``./sizes.csv``.
    base_dir : path
        Where relative paths begin.

    Raises
    ------
    InputFileError
        There is no such name or file, or the file is wrong.
    """
    if name_or_path in catalogue():
        with resources.as_file(
            resources.files("emunet.catalog") / "cdf" / f"{name_or_path}.csv"
        ) as path:
            return read_cdf(path, name_or_path)
    if re.match(r"[0-9.]+\s*[A-Za-z]+$", name_or_path):
        try:
            return fixed_size(max(parse_size(name_or_path), 1), name_or_path)
        except UnitError as error:
            raise InputFileError(
                name_or_path, 0, 0, NO_VALUE, error.problem, error.fix or error.allowed
            ) from None
    path = Path(base_dir) / name_or_path
    if not path.exists() and path.suffix == "" and path.name == name_or_path:
        raise InputFileError(
            name_or_path,
            0,
            0,
            NO_VALUE,
            "is neither a known distribution nor a file",
            did_you_mean(name_or_path, catalogue()) or f"distributions: {one_of(catalogue())}",
        )
    return read_cdf(path, name_or_path)


def fixed_size(size_bytes: int, name: str = "") -> SizeCdf:
    """All messages of one size."""
    return SizeCdf(
        name or str(size_bytes), np.array([max(size_bytes, 1)], dtype=np.int64), np.array([1.0])
    )


def read_cdf(path: Path | str, name: str | None = None) -> SizeCdf:
    """Read a table of two columns, size in bytes and cumulated share, in fractions or in per cent.

    Blanks, tabs, commas or semicolons separate; a header and ``#`` comments are skipped. The last
    share tells per cent from fractions: 100 or 1 within 1e-6 (relative).

    Raises
    ------
    InputFileError
        With file, line, column, the token and what was expected.
    """
    source = Source(Path(path), name)
    source.split = lambda _, line: [
        (m.group(), m.start() + 1) for m in _SPLIT.finditer(line.partition("#")[0])
    ]
    sizes: list[int] = []
    shares: list[Decimal] = []
    header_seen = False
    for line in source.lines():
        words = [token for token, _ in source.split(source, line)]
        if not words:
            continue
        if not sizes and not header_seen and not re.match(r"[0-9.+-]", words[0]):
            header_seen = True
            continue
        _check_width(source, words)
        size, share = _point(source, words)
        if sizes and size < sizes[-1]:
            source.fail(
                0, f"is less than the size before it, {sizes[-1]}", "sizes rise from line to line"
            )
        if shares and share < shares[-1]:
            source.fail(
                1,
                f"is less than the share before it, {shares[-1]}",
                "shares are cumulated: they never fall",
            )
        sizes.append(size)
        shares.append(share)
    if not sizes:
        raise InputFileError(
            source.name, 0, 0, NO_VALUE, "holds no points", "a line is: size_bytes share"
        )
    return _finish(source, sizes, shares)


def _check_width(source: Source, words: list[str]) -> None:
    if len(words) == 3:
        source.fail(
            2,
            "is a third column: ns-2 tables have sizes in packets there",
            "write two columns, size in bytes (packets times 1460) and cumulated share",
        )
    if len(words) != 2:
        source.fail(
            min(len(words), 2),
            "the line lacks the cumulated share" if len(words) < 2 else "is one word too many",
            "a line is: size_bytes share",
        )


def _point(source: Source, words: list[str]) -> tuple[int, Decimal]:
    index = 0
    try:
        size = parse_whole(words[0], 1, "a size", "bytes")
        index = 1
        return size, parse_decimal(words[1].removesuffix("%"), "a share")
    except NumberProblem as bad:
        source.fail(index, bad.problem, bad.fix)


def _finish(source: Source, sizes: list[int], shares: list[Decimal]) -> SizeCdf:
    last = shares[-1]
    for whole in (Decimal(1), Decimal(100)):
        if abs(last / whole - 1) <= _TOLERANCE:
            fraction = np.array([float(min(share / whole, Decimal(1))) for share in shares])
            fraction[-1] = 1.0
            return SizeCdf(source.name, np.array(sizes, dtype=np.int64), fraction)
    raise InputFileError(
        source.name,
        source.line_number,
        0,
        str(last),
        "is the last share; the table ends neither at 1 nor at 100",
        "the last line is the largest size with the share 1 (or 100 per cent)",
    )
