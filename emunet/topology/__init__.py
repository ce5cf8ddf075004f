"""Fabrics: one builder per file, the physical graph, and what follows from it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from emunet.topology.core import Blocks, CableList, Topology, make_topology

__all__ = ["Blocks", "CableList", "Topology", "build", "describe", "make_topology"]


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """Topology of a scenario's ``topology``, by the builder file named like its kind.

    Parameters
    ----------
    model : object
        Has `kind` and the fields of that kind.
    base_dir : path
        Relative file names are looked up here.
    """
    name = {"file": "from_file"}.get(model.kind, model.kind)
    return import_module(f"emunet.topology.{name}").build(model, base_dir)


def describe(topology: Topology, paths: Any = None) -> dict[str, Any]:
    """Facts of a topology for people; see `emunet.topology.facts.describe`."""
    from emunet.topology.facts import describe as facts

    return facts(topology, paths)
