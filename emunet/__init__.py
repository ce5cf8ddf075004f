"""Packet-level emulation of RDMA data-centre fabrics: scenario in, trace and result out."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emunet.analysis import Run, load
    from emunet.errors import EmunetError
    from emunet.plugin import Param
    from emunet.run import run
    from emunet.scenario import Scenario, load_scenario

__version__ = "0.1.0"

_HOMES = {
    "EmunetError": "emunet.errors",
    "Param": "emunet.plugin",
    "Run": "emunet.analysis",
    "Scenario": "emunet.scenario",
    "load": "emunet.analysis",
    "load_scenario": "emunet.scenario",
    "run": "emunet.run",
}
"""Public names and the modules that they are imported from when first used."""

__all__ = ["EmunetError", "Param", "Run", "Scenario", "__version__", "load", "load_scenario", "run"]


class _Package(ModuleType):
    """Keeps ``emunet.run`` the function when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _HOMES:
            value = getattr(value, name)
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'emunet' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


sys.modules[__name__].__class__ = _Package
