"""Percentiles and size bins against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from emunet.analysis.percentiles import percentile, spread, weighted_percentile
from emunet.analysis.sizes import size_bins


@pytest.mark.parametrize("n", [1, 2, 3, 19, 20, 21, 99, 100, 101, 1000])
def test_percentiles_are_values_that_occurred(n: int) -> None:
    """Claim: p is the ceil(p n / 100)-th smallest; authority: numpy's `inverted_cdf`."""
    values = np.random.default_rng(n).integers(0, 10**12, n)
    ordered = np.sort(values)
    for p in (1, 50, 95, 99, 100):
        # In whole numbers: numpy's own is off by one where the double p / 100 rounds up.
        rank = next(k for k in range(1, n + 1) if 100 * k >= p * n)
        assert percentile(ordered, p) == ordered[rank - 1]
        assert percentile(ordered, p) in values
    assert percentile(ordered, 50) == np.percentile(values, 50, method="inverted_cdf")


def test_spread_of_known_values() -> None:
    """Claim: of 1 to 200, p50 is 100, p95 is 190, p99 is 198; of nothing, nothing is known."""
    values = np.random.default_rng(1).permutation(np.arange(1, 201))
    assert spread(values) == {"p50": 100, "p95": 190, "p99": 198, "max": 200}
    assert spread(np.empty(0)) == {"p50": None, "p95": None, "p99": None, "max": None}
    assert type(spread(values)["p50"]) is int


@pytest.mark.parametrize("seed", range(5))
def test_weighted_percentile_is_that_of_the_spelled_out_values(seed: int) -> None:
    """Claim: a value with weight w counts w times, and the rest of the total is 0; authority:
    doing so."""
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(0, 50, 40), rng.integers(0, 30, 40)
    total = int(weights.sum()) + int(rng.integers(0, 2000))
    spelled = np.sort(
        np.concatenate([np.repeat(values, weights), np.zeros(total - weights.sum(), int)])
    )
    for p in (1, 50, 90, 99, 100):
        assert weighted_percentile(values, weights, total, p) == percentile(spelled, p)


def test_weighted_percentile_of_nothing() -> None:
    """Claim: a queue that never held a byte has p99 of 0."""
    assert weighted_percentile(np.empty(0, int), np.empty(0, int), 1000, 99) == 0


def test_few_sizes_are_bins_of_their_own() -> None:
    """Claim: up to six different sizes, each is a bin; from seven on, decades that hold
    something."""
    six = np.array([10, 1, 2, 3, 4, 5, 10])
    assert size_bins(six) == [(s, s) for s in (1, 2, 3, 4, 5, 10)]
    assert size_bins(np.append(six, 70_000)) == [(1, 9), (10, 99), (10_000, 99_999)]
    assert size_bins(np.empty(0, int)) == []


def test_every_size_is_in_one_bin() -> None:
    """Claim: bins neither overlap nor leave a size out; authority: counting."""
    sizes = 10 ** np.random.default_rng(3).integers(0, 12, 500) - np.random.default_rng(4).integers(
        0, 2, 500
    )
    sizes = np.maximum(sizes, 1)
    bins = size_bins(sizes)
    counts = [((sizes >= low) & (sizes <= high)).sum() for low, high in bins]
    assert sum(counts) == len(sizes) and min(counts) > 0
