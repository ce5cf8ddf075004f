"""Percentiles as emunet defines them: of n values, the ``ceil(p * n / 100)``-th smallest.

This is numpy's ``inverted_cdf``: always a value that occurred, so percentiles of integer
picoseconds are integers, and p99 of fewer than 100 values is the greatest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def percentile(ordered: np.ndarray, p: int) -> Any:
    """Percentile `p` (0 to 100, whole) of values in ascending order; a Python number."""
    rank = -(-p * len(ordered) // 100)
    return ordered[max(rank, 1) - 1].item()


def spread(values: np.ndarray, ps: Sequence[int] = (50, 95, 99)) -> dict[str, Any]:
    """``{"p50": ..., "p95": ..., "p99": ..., "max": ...}``; None if there are no values."""
    if not len(values):
        return {**{f"p{p}": None for p in ps}, "max": None}
    ordered = np.sort(values)
    return {**{f"p{p}": percentile(ordered, p) for p in ps}, "max": ordered[-1].item()}


def weighted_percentile(values: np.ndarray, weights: np.ndarray, total: int, p: int) -> int:
    """Percentile of integers that hold for integer `weights`; what is left of `total` holds 0.

    The smallest value such that values not above it have at least ``p / 100`` of the weight.
    Values are >= 0.
    """
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order]) + (total - int(weights.sum()))
    reached = np.flatnonzero(100.0 * cumulative >= p * float(total))
    zero_is_enough = 100 * (total - int(weights.sum())) >= p * total
    return 0 if zero_is_enough or not len(reached) else int(values[order[reached[0]]])
