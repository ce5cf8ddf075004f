"""The native packet engine, in two builds: normal, and with assertions at every event."""

from __future__ import annotations

import importlib
import os
from typing import Any

from emunet.errors import EngineError

CHECKED_VARIABLE = "EMUNET_CHECKED"
WAIT_VARIABLE = "OMP_WAIT_POLICY"

MOST_THREADS = 256
"""Threads that an engine takes."""


def is_checked() -> bool:
    """Whether the environment asks for the checked build (``EMUNET_CHECKED=1``)."""
    return os.environ.get(CHECKED_VARIABLE, "") not in ("", "0")


def load_engine() -> Any:
    """Class `Engine` of the build that `is_checked` selects.

    Raises
    ------
    EngineError
        The extension is not built, or not for this Python.
    """
    name = "engine_checked" if is_checked() else "engine"
    # Threads sleep, not spin, where they wait for one another at a window's edge: spinning beside
    # any other busy process cost a factor of 4 to 100 (docs/performance.md). Read at loading.
    ours = WAIT_VARIABLE not in os.environ
    if ours:
        os.environ[WAIT_VARIABLE] = "passive"
    try:
        return importlib.import_module(f"emunet._core.{name}").Engine
    except ImportError as error:
        raise EngineError(
            f"the native engine cannot be loaded ({error}); build it with `pip install -e .`, or "
            "run the slow plain-Python engine with --twin"
        ) from error
    finally:
        if ours:
            del os.environ[WAIT_VARIABLE]
