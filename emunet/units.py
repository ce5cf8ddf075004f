"""Text with units to exact integers (bit/s, bytes, picoseconds) and back.

The only parser of units in emunet.
Rates are decimal (``400Gbps`` is 400e9 bit/s; ``50GB/s`` is the same). Sizes take SI prefixes
(``9MB`` is 9,000,000 bytes) and IEC ones spelled out (``9MiB`` is 9,437,184 bytes). Times are
``s``, ``ms``, ``us``, ``ns``, ``ps``. Spellings that people read in two ways (``400``, ``100G``,
``8Gb``, ``4K``) are refused with the spellings that they may have meant. Every `parse_*` raises
`ValueError`; the caller knows the path and adds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

INT64_MAX = 2**63 - 1

LEAST_RATE_BPS, MOST_RATE_BPS = 10**6, 10**15
"""Rates that a link can have."""

MOST_DELAY_PS = 10**15
"""Longest delay or latency, 1000 s: there and back over 1,000 links, each with a delay and a
latency, are 4 * 10^18 ps, still before the end of time at 2^62 ps."""

_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>.*)",
    re.S,
)
_MAX_TEXT = 64
_SI = (("", 0), ("k", 3), ("K", 3), ("M", 6), ("G", 9), ("T", 12))
_IEC = (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40))

RATE_UNITS: dict[str, int] = {
    **{f"{p}{u}": 10**e for u in ("bps", "bit/s", "b/s") for p, e in _SI},
    **{f"{p}B/s": 8 * 10**e for p, e in _SI},
    **{f"{p}B/s": 8 * 2**e for p, e in _IEC},
}
"""Accepted spellings of a rate and their value in bit/s."""

SIZE_UNITS: dict[str, int] = {
    **{f"{p}B": 10**e for p, e in _SI},
    **{f"{p}B": 2**e for p, e in _IEC},
}
"""Accepted spellings of a size and their value in bytes."""

TIME_UNITS: dict[str, int] = {
    "s": 10**12,
    "ms": 10**9,
    "us": 10**6,
    "\u00b5s": 10**6,
    "\u03bcs": 10**6,
    "ns": 10**3,
    "ps": 1,
}
"""Accepted spellings of a time and their value in ps."""

RATE_ALLOWED = 'a rate with its unit, such as "400Gbps", "25Gbit/s" or "50GB/s"'
SIZE_ALLOWED = 'a size with its unit, such as "2MB", "4KiB" or "1500B"'
TIME_ALLOWED = 'a time with its unit, such as "1us", "500ns" or "2.5ms"'
RATIO_ALLOWED = 'a ratio such as 0.125, "1/8" or "12.5%"'


class UnitError(ValueError):
    """A text that is not a quantity.

    Attributes
    ----------
    problem : str
        What is wrong, as the end of a sentence that begins with the text: ``has no unit``.
    fix : str
        What the author probably meant; may be empty.
    allowed : str
        What can be written.
    """

    def __init__(self, text: str, problem: str, allowed: str, fix: str = "") -> None:
        shown = text if len(text) <= 40 else text[:37] + "..."
        super().__init__(f"{shown} {problem}; {fix or 'allowed: ' + allowed}")
        self.problem = problem
        self.allowed = allowed
        self.fix = fix


def parse_rate(text: str) -> int:
    """Rate in bit/s.

    Parameters
    ----------
    text : str
        Such as ``400Gbps``, ``25 Gbit/s``, ``50GB/s``.

    Raises
    ------
    UnitError
        No or unknown unit, negative, or not a whole number of bits per second.
    """
    return _parse(text, RATE_UNITS, RATE_ALLOWED, "bit/s", _rate_fix)


def parse_size(text: str) -> int:
    """Size in bytes, from text such as ``2MB``, ``4KiB`` or ``0``; raises `UnitError`."""
    return _parse(text, SIZE_UNITS, SIZE_ALLOWED, "bytes", _size_fix, bare_zero=True)


def parse_time(text: str) -> int:
    """Time in ps, from text such as ``1us``, ``2.5ms`` or ``0``; raises `UnitError`."""
    return _parse(text, TIME_UNITS, TIME_ALLOWED, "ps", _time_fix, bare_zero=True)


def parse_ratio(value: str | int | float) -> float:
    """Ratio as the nearest double, from ``1/8``, ``12.5%`` or a number; raises `UnitError`."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnitError(str(value), "is not a ratio", RATIO_ALLOWED)
    text = str(value).strip()
    percent = text.endswith("%")
    above, slash, below = text.removesuffix("%").partition("/")
    try:
        ratio = Fraction(_decimal(above.strip(), text, RATIO_ALLOWED))
        if slash:
            ratio /= Fraction(_decimal(below.strip(), text, RATIO_ALLOWED))
    except ZeroDivisionError:
        raise UnitError(text, "divides by zero", RATIO_ALLOWED) from None
    return float(ratio / 100 if percent else ratio)


def format_rate(rate_bps: int, digits: int | None = None) -> str:
    """Shortest exact text of a rate, or with `digits` significant digits: ``400Gbps``."""
    return _format(rate_bps, ("bps", "Kbps", "Mbps", "Gbps", "Tbps"), RATE_UNITS, digits)


def format_size(size_bytes: int, digits: int | None = None) -> str:
    """Shortest exact text of a size, or with `digits` significant digits: ``2MB``, ``4KiB``."""
    text = _format(size_bytes, ("B", "KB", "MB", "GB", "TB"), SIZE_UNITS, digits)
    if digits is None and size_bytes:
        for unit in ("KiB", "MiB", "GiB", "TiB"):
            count, rest = divmod(size_bytes, SIZE_UNITS[unit])
            if not rest and len(f"{count}{unit}") < len(text):
                text = f"{count}{unit}"
    return text


def format_time(time_ps: int, digits: int | None = None) -> str:
    """Shortest exact text of a time, or with `digits` significant digits: ``1us``."""
    return _format(time_ps, ("ps", "ns", "us", "ms", "s"), TIME_UNITS, digits)


def _parse(
    text: str,
    units: dict[str, int],
    allowed: str,
    base: str,
    fix: Callable[[str, str], str],
    bare_zero: bool = False,
) -> int:
    """Whole number of base units; `fix(number, unit)` proposes spellings for an unknown unit."""
    if not isinstance(text, str):
        raise UnitError(str(text), "is not text", allowed, fix(str(text), ""))
    text = text.strip()
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise UnitError(text, "does not begin with a number" if text else "is empty", allowed)
    number, unit = match["number"], match["unit"].strip()
    if match["sign"] == "-":
        raise UnitError(text, "is negative", allowed)
    if not unit:
        if bare_zero and Decimal(number) == 0:
            return 0
        raise UnitError(text, "has no unit", allowed, fix(number, ""))
    if unit not in units:
        if re.match(r"[,_'][0-9]", unit):
            raise UnitError(
                text,
                "groups or splits digits with a sign that is not a point",
                allowed,
                "write the digits together and a point before decimals",
            )
        raise UnitError(
            text, f'has the unit "{unit[:20]}", which is not accepted', allowed, fix(number, unit)
        )
    value = Fraction(_decimal(number, text, allowed)) * units[unit]
    if value.denominator != 1:
        raise UnitError(text, f"is not a whole number of {base}", allowed)
    if value > INT64_MAX:
        raise UnitError(text, f"is more than {INT64_MAX} {base}", allowed)
    return int(value)


def _decimal(number: str, text: str, allowed: str) -> Decimal:
    """Exact value of decimal digits, refusing exponents that would blow up integer arithmetic."""
    if len(number) > _MAX_TEXT or not re.fullmatch(
        r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?", number
    ):
        raise UnitError(text, "is not a number", allowed)
    value = Decimal(number)
    if value and abs(value.adjusted()) > 40:
        raise UnitError(text, "is far out of range", allowed)
    return value


def _format(value: int, names: tuple[str, ...], units: dict[str, int], digits: int | None) -> str:
    sign, value = ("-", -value) if value < 0 else ("", int(value))
    if digits is not None:
        fitting = [n for n in names if value >= units[n]] or [names[0]]
        scaled = Decimal(value) / units[fitting[-1]]
        rounded = format(float(scaled), f".{digits}g")
        if "e" in rounded:
            rounded = format(round(scaled), "d")
        return f"{sign}{rounded}{fitting[-1]}"
    texts = [f"{_plain(Fraction(value, units[n]))}{n}" for n in names if value >= units[n]]
    return sign + min(reversed(texts), key=len) if value else f"0{names[0]}"


def _plain(value: Fraction) -> str:
    """Exact decimal digits of a fraction whose denominator is a power of ten."""
    whole, rest = divmod(value.numerator, value.denominator)
    if not rest:
        return str(whole)
    places = len(str(value.denominator)) + 40
    digits = str(rest * 10**places // value.denominator).rjust(places, "0").rstrip("0")
    return f"{whole}.{digits}"


def _did_you_mean(number: str, *units: str) -> str:
    quoted = [f'"{number}{unit}"' for unit in units]
    return f"did you mean {' or '.join(quoted)}?"


def _prefix(unit: str) -> str:
    return unit[0].upper() if unit[:1].lower() in ("k", "m", "g", "t") and unit else ""


def _rate_fix(number: str, unit: str) -> str:
    prefix = _prefix(unit)
    tail = unit[1:] if prefix else unit
    if not unit:
        return _did_you_mean(number, "Gbps")
    if tail.removeprefix("i") in ("B", "Bps", "Byte/s", "bytes/s", "B/sec"):
        iec = "i" if tail.startswith("i") else ""
        both = (f"{prefix}{iec}B/s",) if tail == "B" else (f"{prefix}{iec}B/s", f"{prefix}bps")
        return _did_you_mean(number, *both)
    if tail.lower() in (
        "",
        "b",
        "bps",
        "bit",
        "bits",
        "b/s",
        "bit/s",
        "bits/s",
        "bits/sec",
        "bit/sec",
        "bp/s",
        "be",
        "bs",
    ):
        return _did_you_mean(number, f"{prefix}bps")
    return ""


def _size_fix(number: str, unit: str) -> str:
    prefix = _prefix(unit)
    tail = unit[1:] if prefix else unit
    if not unit:
        return _did_you_mean(number, "B")
    if prefix and tail == "":
        return _did_you_mean(number, f"{prefix}B", f"{prefix}iB")
    if prefix and tail.lower() in ("i", "ib"):
        return _did_you_mean(number, f"{prefix}iB")
    if tail.lower() in ("b", "bit", "bits", "bps", "b/s"):
        return "sizes are in bytes; " + _did_you_mean(number, f"{prefix}B")
    if tail.lower() in ("byte", "bytes"):
        return _did_you_mean(number, f"{prefix}B")
    return ""


def _time_fix(number: str, unit: str) -> str:
    words = {
        "": ("us",),
        "u": ("us",),
        "n": ("ns",),
        "p": ("ps",),
        "m": ("ms", "us"),
        "min": ("s",),
        "usec": ("us",),
        "sec": ("s",),
        "msec": ("ms",),
        "nsec": ("ns",),
        "secs": ("s",),
        "second": ("s",),
        "seconds": ("s",),
        "milliseconds": ("ms",),
        "microseconds": ("us",),
        "micros": ("us",),
        "nanoseconds": ("ns",),
        "nanos": ("ns",),
        "picoseconds": ("ps",),
    }
    lower = unit.lower()
    if lower in words:
        return _did_you_mean(number, *words[lower])
    return _did_you_mean(number, lower) if lower in TIME_UNITS else ""
