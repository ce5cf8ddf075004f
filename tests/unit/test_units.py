"""Units: text to exact integers and back. Authority: SI and IEC 80000-13 prefixes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet import units


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("400Gbps", 400 * 10**9),
        ("50GB/s", 400 * 10**9),
        ("400 Gbit/s", 400 * 10**9),
        ("400Gb/s", 400 * 10**9),
        ("0.4Tbps", 400 * 10**9),
        ("4e2Gbps", 400 * 10**9),
        ("1kbps", 1000),
        ("1Kbps", 1000),
        ("2.5Gbps", 2_500_000_000),
        ("425Gbps", 425 * 10**9),
        ("1GiB/s", 8 * 2**30),
        ("8bps", 8),
        (" 100Gbps ", 10**11),
    ],
)
def test_rates(text: str, rate_bps: int) -> None:
    """Rates are decimal bits per second whatever their spelling."""
    assert units.parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("9MB", 9_000_000),
        ("9MiB", 9_437_184),
        ("4KiB", 4096),
        ("400KB", 400_000),
        ("400kB", 400_000),
        ("1.5KiB", 1536),
        ("1500B", 1500),
        ("0", 0),
        ("0B", 0),
        ("4294967297B", 2**32 + 1),
        ("1TB", 10**12),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    """SI prefixes are powers of 1000, IEC ones of 1024, and 4 GiB + 1 survives."""
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "time_ps"),
    [
        ("1us", 10**6),
        ("1\u00b5s", 10**6),
        ("1\u03bcs", 10**6),
        ("167.77216us", 167_772_160),
        ("4194304ns", 4_194_304_000),
        ("0.1ns", 100),
        ("1ps", 1),
        ("0", 0),
        ("0.0", 0),
        ("1.000000000001s", 10**12 + 1),
        ("0.000025ms", 25_000),
    ],
)
def test_times(text: str, time_ps: int) -> None:
    """Times are exact: two instants 1 ps apart at 1 s stay apart."""
    assert units.parse_time(text) == time_ps


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (units.parse_rate, "400", 'no unit; did you mean "400Gbps"?'),
        (units.parse_rate, "0", "no unit"),
        (units.parse_rate, "400G", 'did you mean "400Gbps"?'),
        (units.parse_rate, "400Gb", 'did you mean "400Gbps"?'),
        (units.parse_rate, "400gbps", 'did you mean "400Gbps"?'),
        (units.parse_rate, "50GB", 'did you mean "50GB/s"?'),
        (units.parse_rate, "50GBps", '"50GB/s" or "50Gbps"'),
        (units.parse_rate, "0.5bps", "not a whole number of bit/s"),
        (units.parse_rate, "1us", 'the unit "us"'),
        (units.parse_size, "4096", 'did you mean "4096B"?'),
        (units.parse_size, "4K", '"4KB" or "4KiB"'),
        (units.parse_size, "4Ki", 'did you mean "4KiB"?'),
        (units.parse_size, "8Mb", "sizes are in bytes"),
        (units.parse_size, "8mb", "sizes are in bytes"),
        (units.parse_size, "1.5B", "not a whole number of bytes"),
        (units.parse_size, "1,000B", "digits together"),
        (units.parse_size, "1_000B", "digits together"),
        (units.parse_size, "-1B", "is negative"),
        (units.parse_size, "big", "does not begin with a number"),
        (units.parse_size, "\u0665B", "does not begin with a number"),
        (units.parse_time, "10", 'did you mean "10us"?'),
        (units.parse_time, "5m", '"5ms" or "5us"'),
        (units.parse_time, "5usec", 'did you mean "5us"?'),
        (units.parse_time, "5 US", 'did you mean "5us"?'),
        (units.parse_time, "1:30", "not accepted"),
        (units.parse_time, "0.5ps", "not a whole number of ps"),
        (units.parse_time, "200000000s", "more than"),
        (units.parse_time, "1e999999s", "out of range"),
        (units.parse_time, "1e9999999999s", "is not a number"),
        (units.parse_time, "1" * 5000 + "s", "does not begin with a number"),
        (units.parse_time, "", "is empty"),
        (units.parse_time, "nan", "does not begin with a number"),
        (units.parse_time, "1us\n2us", "not accepted"),
    ],
)
def test_ambiguous_and_wrong_spellings(parse: Callable[[str], int], text: str, says: str) -> None:
    """What can be read in two ways, or not at all, is refused with what was probably meant."""
    with pytest.raises(units.UnitError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert caught.value.problem and caught.value.allowed
    assert len(str(caught.value)) < 300


def test_only_text_is_parsed() -> None:
    """A number has no unit, whatever its type."""
    with pytest.raises(units.UnitError, match="400Gbps"):
        units.parse_rate(400)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "ratio"),
    [
        ("1/8", 0.125),
        ("12.5%", 0.125),
        (0.125, 0.125),
        ("0.125", 0.125),
        (1, 1.0),
        ("1e-3", 1e-3),
        (" 3 / 4 ", 0.75),
        ("1/3", 1 / 3),
        (0.1, 0.1),
        ("50%", 0.5),
    ],
)
def test_ratios(value: str | float, ratio: float) -> None:
    """A ratio is the double nearest to the exact quotient (IEEE 754)."""
    assert units.parse_ratio(value) == ratio


@pytest.mark.parametrize(
    "value", ["1/0", "", "x", "nan", "1/2/3", "%", float("nan"), float("inf"), True, None]
)
def test_wrong_ratios(value: Any) -> None:
    """What is not a finite quotient is refused."""
    with pytest.raises(units.UnitError):
        units.parse_ratio(value)


@settings(max_examples=300, derandomize=True)
@given(st.integers(0, units.INT64_MAX))
def test_round_trip(value: int) -> None:
    """Formatting is exact: parsing it gives the integer back, for every unit and every int64."""
    assert units.parse_rate(units.format_rate(value)) == value
    assert units.parse_size(units.format_size(value)) == value
    assert units.parse_time(units.format_time(value)) == value


@settings(max_examples=300, derandomize=True)
@given(st.integers(0, 9), st.integers(0, 10**6), st.sampled_from(sorted(units.TIME_UNITS)))
def test_decimals_are_exact(places: int, digits: int, unit: str) -> None:
    """A decimal time is either its exact number of picoseconds or refused, never rounded."""
    text = f"{Decimal(digits).scaleb(-places):f}{unit}"
    exact = digits * units.TIME_UNITS[unit]
    if exact % 10**places:
        with pytest.raises(units.UnitError):
            units.parse_time(text)
    else:
        assert units.parse_time(text) == exact // 10**places


@settings(max_examples=300, derandomize=True)
@given(st.text(max_size=12))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text makes a parser fail in another way than `UnitError`."""
    for parse in (units.parse_rate, units.parse_size, units.parse_time, units.parse_ratio):
        try:
            parse(text)
        except units.UnitError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (units.format_rate(400 * 10**9), "400Gbps"),
        (units.format_rate(425 * 10**9), "425Gbps"),
        (units.format_size(32_000_000), "32MB"),
        (units.format_size(4096), "4KiB"),
        (units.format_size(1500), "1.5KB"),
        (units.format_size(0), "0B"),
        (units.format_time(500_000), "500ns"),
        (units.format_time(-1_500_000), "-1.5us"),
        (units.format_time(467_234_567, digits=4), "467.2us"),
        (units.format_size(123_456_789, digits=4), "123.5MB"),
        (units.format_size(999, digits=2), "999B"),
    ],
)
def test_spelling(written: str, text: str) -> None:
    """The shortest exact spelling without a leading zero is chosen; `digits` rounds for people."""
    assert written == text


def test_units_are_a_leaf() -> None:
    """Everything may import the units, so they import neither pydantic nor numpy."""
    heavy = ("pydantic", "numpy", "yaml")
    code = f"import sys, emunet.units; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
