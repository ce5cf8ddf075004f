"""Flow-size distributions: what tables mean, how they are sampled, and which ones are refused."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunet import draws
from emunet.errors import InputFileError
from emunet.ingest.cdf import SizeCdf, catalogue, fixed_size, load_cdf, read_cdf
from emunet.workload import wire

MTU = 4096


def uniform(n: int, key: int = 7) -> np.ndarray:
    """n draws in (0, 1]."""
    return draws.unit(draws.draw(np.array([key], np.uint64), np.zeros(1), np.arange(n)))


def table(tmp_path: Path, text: str, name: str = "sizes.txt") -> SizeCdf:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_cdf(path, name)


@pytest.mark.parametrize(
    ("name", "points", "largest", "mean"),
    [
        ("websearch", 12, 30_000_000, 1_711_250.0),
        ("fb_hadoop", 461, 10_000_000, 121_848.942005),
        ("alistorage2019", 9, 2_000_000, 40_869.8),
        ("google_rpc", 120, 15_158_197, 2_967.8910155),
        ("solar2022", 8, 262_144, 39_423.50452),
    ],
)
def test_the_catalogue_has_the_published_means(
    name: str, points: int, largest: int, mean: float
) -> None:
    """Claim: means by linear interpolation are those published with the tables (catalog/cdf)."""
    cdf = load_cdf(name)
    assert len(cdf.size_bytes) == points
    assert cdf.max_bytes == largest
    assert cdf.mean_bytes == pytest.approx(mean, rel=1e-9)
    assert name in catalogue()


@pytest.mark.parametrize("name", ["websearch", "google_rpc", "solar2022"])
def test_samples_have_the_mean_of_the_table(name: str) -> None:
    """Claim: the sample mean of n sizes is within 4 sigma / sqrt(n) (central limit theorem)."""
    cdf, n = load_cdf(name), 200_000
    sizes = cdf.sample(uniform(n))
    square = cdf.expect(lambda k: k * (k + 1) * (2 * k + 1) // 6)
    sigma = math.sqrt(square - cdf.message_bytes**2)
    assert abs(sizes.mean() - cdf.message_bytes) <= 4 * sigma / math.sqrt(n)
    assert sizes.min() >= 1
    assert sizes.max() <= cdf.max_bytes


@pytest.mark.parametrize("name", ["websearch", "fb_hadoop", "alistorage2019", "solar2022"])
def test_the_fraction_up_to_every_point_is_that_of_the_table(name: str) -> None:
    """Claim: P(size <= s) is the table's fraction at each of its sizes, exactly (inversion)."""
    cdf = load_cdf(name)
    inner = cdf.fraction[(cdf.fraction > 0) & (cdf.fraction < 1)]
    at, above = cdf.sample(inner), cdf.sample(np.nextafter(inner, 1))
    points = [int(cdf.size_bytes[np.searchsorted(cdf.fraction, f, "right") - 1]) for f in inner]
    first = [int(cdf.size_bytes[np.searchsorted(cdf.fraction, f, "left")]) for f in inner]
    assert (at <= first).all()
    assert (above >= points).all()


def test_a_step_of_one_byte_is_one_size() -> None:
    """Claim: a step written as a rise of one byte (solar2022) gives its upper size."""
    sizes = load_cdf("solar2022").sample(uniform(50_000))
    assert not np.isin(sizes, (16383, 65535)).any()
    share = np.mean(sizes == 4096)
    assert abs(share - 0.29999) <= 4 * math.sqrt(0.3 * 0.7 / 50_000)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=6),
    st.sampled_from([1, 3, 4, 7, 16]),
)
def test_expectations_agree_with_enumeration(steps: list[tuple[int, int]], mtu: int) -> None:
    """Claim: means over a table equal the sum over all whole sizes, each with its probability."""
    sizes = np.cumsum([size for size, _ in steps])
    weights = np.cumsum([weight for _, weight in steps]) + 1
    cdf = SizeCdf("made", sizes.astype(np.int64), weights / weights[-1])
    every = np.arange(0, int(sizes[-1]) + 2)
    below = np.zeros(len(every))
    for k, size in enumerate(every):
        reached = np.flatnonzero(sizes <= size)
        if len(reached):
            last = reached[-1]
            below[k] = cdf.fraction[last]
            if last + 1 < len(sizes):
                rise = (size - sizes[last]) / (sizes[last + 1] - sizes[last])
                below[k] += rise * (cdf.fraction[last + 1] - cdf.fraction[last])
    probability = np.diff(below, prepend=0.0)
    whole = np.maximum(every, 1)
    for total, single in (
        (lambda n: n * (n + 1) // 2, whole),
        (partial(wire.sum_packets, mtu_bytes=mtu), wire.packets(whole, mtu)),
        (partial(wire.sum_slot_bytes, mtu_bytes=mtu), wire.slot_bytes(whole, mtu)),
    ):
        assert cdf.expect(total) == pytest.approx(float(probability @ single), rel=1e-9)


def test_slot_bytes_are_those_of_the_frames() -> None:
    """Claim of docs/semantics.md 1.1: 62 + pad4(payload) + 20 a packet, RETH 16 once a message."""
    sizes = np.array([1, 4096, 4097, 10_000, 8192 + 5])
    expected = [
        4 + 62 + 16 + 20,
        4096 + 62 + 16 + 20,
        4096 + 62 + 16 + 20 + 4 + 62 + 20,
        4178 + 16 + 4178 + 1808 + 62 + 20,
        4178 + 16 + 4178 + 8 + 62 + 20,
    ]
    assert wire.slot_bytes(sizes, MTU).tolist() == expected
    assert wire.packets(sizes, MTU).tolist() == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    "text",
    [
        "0 0\n10000 0.5\n20000 1\n",
        "0 0\n10000 50\n20000 100\n",
        "size_bytes,cdf\r\n0,0\r\n10000,0.5\r\n20000,1",
        "\ufeff0\t0\n1e4\t0.5\n2e+04\t1\n",
        "# from a figure\n\n0;0\n10000;50%\n20000;100%  # end\n",
        "0 0\n10000 0.50000000\n20000 0.99999998\n",
    ],
    ids=[
        "fractions",
        "per cent",
        "CRLF, header, no newline",
        "BOM, exponents",
        "comments",
        "0.99999998",
    ],
)
def test_forms_of_a_table_mean_the_same(tmp_path: Path, text: str) -> None:
    """Claim: per cent and fractions, separators, line ends and a last 0.99999998 are tolerated."""
    cdf = table(tmp_path, text)
    assert cdf.size_bytes.tolist() == [0, 10_000, 20_000]
    assert cdf.fraction.tolist() == [0.0, 0.5, 1.0]
    assert cdf.mean_bytes == 10_000.0


def test_a_first_point_above_zero_is_an_atom(tmp_path: Path) -> None:
    """Claim: a table that begins at 0.4 has 40 % of its messages at the first size."""
    cdf = table(tmp_path, "100 0.4\n200 1\n")
    assert cdf.sample(np.array([1e-9, 0.4])).tolist() == [100, 100]
    assert cdf.sample(0.4 + 1e-9) == 101
    assert cdf.mean_bytes == pytest.approx(0.4 * 100 + 0.6 * 150)


def test_repeated_points_are_atoms_or_nothing(tmp_path: Path) -> None:
    """Claim: a repeated size holds the rise between its rows, a repeated share holds no message."""
    cdf = table(tmp_path, "70 0\n70 0.25\n90 0.25\n100 1\n")
    sizes = cdf.sample(uniform(20_000))
    assert abs(np.mean(sizes == 70) - 0.25) <= 4 * math.sqrt(0.25 * 0.75 / 20_000)
    assert not ((sizes > 70) & (sizes <= 90)).any()
    assert cdf.mean_bytes == pytest.approx(0.25 * 70 + 0.75 * 95)


def test_size_zero_is_raised_to_one_byte(tmp_path: Path) -> None:
    """Claim: a table with messages of 0 bytes gives messages of 1 byte, since none can be empty."""
    cdf = table(tmp_path, "0 0.5\n4 1\n")
    assert set(cdf.sample(uniform(1000)).tolist()) == {1, 2, 3, 4}
    assert cdf.message_bytes == pytest.approx(0.5 * 1 + 0.5 * 2.5)


def test_a_size_is_a_distribution() -> None:
    """Claim: a size with its unit stands for messages of that size alone."""
    cdf = load_cdf("64KB")
    assert cdf.sample(uniform(10)).tolist() == [64_000] * 10
    assert cdf.mean_bytes == cdf.message_bytes == 64_000
    assert fixed_size(5).sample(1.0) == 5


BAD = {
    "": "sizes.txt: holds no points; a line is: size_bytes share",
    "0 0\n10 x\n": 'sizes.txt:2:4: "x" is not a share; digits are expected',
    "0 0\n10.5 1\n": 'sizes.txt:2:1: "10.5" is not a whole number of bytes; nearest: 10 bytes',
    "-1 0\n10 1\n": 'sizes.txt:1:1: "-1" is negative; a size is at least 0',
    "0 0\n10 0.6\n5 1\n": (
        'sizes.txt:3:1: "5" is less than the size before it, 10; sizes rise from line to line'
    ),
    "0 0\n10 0.6\n20 0.5\n30 1\n": (
        'sizes.txt:3:4: "0.5" is less than the share before it, 0.6; '
        "shares are cumulated: they never fall"
    ),
    "0 0\n10 0.9\n": (
        'sizes.txt:2: "0.9" is the last share; the table ends neither at 1 nor at 100; '
        "the last line is the largest size with the share 1 (or 100 per cent)"
    ),
    "6 1 0\n6 1 0.15\n": (
        'sizes.txt:1:5: "0" is a third column: ns-2 tables have sizes in packets there; '
        "write two columns, size in bytes (packets times 1460) and cumulated share"
    ),
    "1711250\n0 0\n": (
        "sizes.txt:1:8: the line lacks the cumulated share; a line is: size_bytes share"
    ),
    "0 0 0 0\n": 'sizes.txt:1:5: "0" is one word too many; a line is: size_bytes share',
    "99999999999999999999 1\n": (
        'sizes.txt:1:1: "99999999999999999999" is too large for a size; '
        "the largest is 9223372036854775807 bytes"
    ),
}


@pytest.mark.parametrize(("text", "error"), BAD.items(), ids=range(len(BAD)))
def test_a_wrong_table_is_refused_with_its_place(tmp_path: Path, text: str, error: str) -> None:
    """Claim of docs/workloads.md: the error names the place, the token and what is expected."""
    with pytest.raises(InputFileError) as caught:
        table(tmp_path, text)
    assert str(caught.value) == error


def test_unknown_distributions_come_with_the_nearest_name(tmp_path: Path) -> None:
    """Claim: a misspelt name is answered with the one that was probably meant."""
    with pytest.raises(InputFileError, match='did you mean "websearch"'):
        load_cdf("websearhc", tmp_path)
    (tmp_path / "mine.csv").write_text("0,0\n10,1\n")
    assert load_cdf("mine.csv", tmp_path).mean_bytes == 5.0
    with pytest.raises(InputFileError, match=r'does not exist; did you mean "mine\.csv"'):
        load_cdf("mime.csv", tmp_path)
