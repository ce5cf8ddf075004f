"""Message sizes in bins: each size by itself if there are few, decades otherwise."""

from __future__ import annotations

import numpy as np

FEW_SIZES = 6
"""Up to so many different sizes, each is a bin."""


def size_bins(size_bytes: np.ndarray) -> list[tuple[int, int]]:
    """Bins ``(least, greatest)``, both included, ascending; every bin holds a message.

    Decades are 1 to 9 bytes, 10 to 99, and so on: bins of different runs line up.
    """
    sizes = np.unique(size_bytes)
    if len(sizes) <= FEW_SIZES:
        return [(int(s), int(s)) for s in sizes]
    decades = sorted({len(str(int(s))) for s in sizes})
    return [(10 ** (digits - 1), 10**digits - 1) for digits in decades]
