"""Numbers as people read them: three significant digits and a unit; ``-`` where there is none."""

from __future__ import annotations

from emunet.units import format_size, format_time

NONE = "-"


def time_text(time_ps: int | None) -> str:
    """``61.3us``."""
    return NONE if time_ps is None else format_time(time_ps, 3)


def size_text(size_bytes: float | None) -> str:
    """``2.1MB``."""
    return NONE if size_bytes is None else format_size(round(size_bytes), 3)


def exact_text(size_bytes: float | None) -> str:
    """``2,097,152``: for what is compared with a threshold."""
    return NONE if size_bytes is None else f"{size_bytes:,.0f}"


def count_text(count: int | None) -> str:
    """``1,234``."""
    return NONE if count is None else f"{count:,}"


def short_count_text(count: int) -> str:
    """``1,234``; ``12.3M`` from a million on."""
    return f"{count:,}" if count < 10**6 else _with_prefix(count)


def ratio_text(ratio: float | None) -> str:
    """``1.05``, ``12.3``, ``1.23k``; just below 1 with the digits that show it."""
    if ratio is None:
        return NONE
    if 0.99 < ratio < 1:
        return f"{ratio:.6f}".rstrip("0")
    if ratio < 100:
        return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"
    return _with_prefix(ratio)


def per_second_text(count: float | None) -> str:
    """``12.3 M``."""
    return NONE if count is None else _with_prefix(count, " ")


def _with_prefix(value: float, space: str = "") -> str:
    """Three significant digits and an SI prefix."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{space}{prefix}"
    return f"{value:.3g}"
