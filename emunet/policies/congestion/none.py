"""No congestion control: line rate, no window, no CNPs.

Source: none needed; what semantics 4.4 gives a connection before any hook has run. There is no
hook, so nothing is compiled and receivers send no CNPs.
"""

import numpy as np

PARAMS = ()

SETS: dict[str, dict[str, float]] = {}

STATE = np.dtype([])

CLAIMS = ("every flow sends at line rate as long as it has something to send and is not paused",)
