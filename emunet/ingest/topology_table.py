"""What a topology file becomes: nodes by their number in the file, and cables in the order of the
file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import NoReturn

import numpy as np

import emunet.ingest
from emunet.errors import NO_VALUE, InputFileError, did_you_mean, one_of
from emunet.ingest.flows_text import Source


@dataclass
class TopologyTable:
    """Nodes and cables of a topology file.

    Attributes
    ----------
    dialect, reason : str
        Grammar, and why the file was taken for it.
    n_node : int
        Nodes; they are numbered 0 .. n_node-1 in the file.
    switch_ids : list of int
        Nodes that are switches, in the order of the file; all others are hosts.
    cable_a, cable_b : int32[n_cable]
        Ends, as numbered in the file.
    rate_bps, delay_ps : int64[n_cable]
    header : dict of str to str
        The first line, field by field.
    warnings : list of str
        What was tolerated.
    """

    dialect: str
    reason: str
    n_node: int
    switch_ids: list[int]
    cable_a: np.ndarray
    cable_b: np.ndarray
    rate_bps: np.ndarray
    delay_ps: np.ndarray
    header: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def host_ids(self) -> list[int]:
        """Nodes that are hosts, ascending."""
        switches = set(self.switch_ids)
        return [node for node in range(self.n_node) if node not in switches]


class LocatedSource(Source):
    """A text file whose errors may be about any line already read."""

    def refuse(
        self, line: int, column: int, token: object, problem: str, fix: str = ""
    ) -> NoReturn:
        """Raise `InputFileError` about a place in this file."""
        raise InputFileError(self.name, line, column, token, problem, fix)


def readers() -> dict[str, ModuleType]:
    """Module that reads each dialect: every ``topology_*.py`` here that has `DIALECTS`."""
    found: dict[str, ModuleType] = {}
    for info in sorted(iter_modules(emunet.ingest.__path__), key=lambda info: info.name):
        if info.name.startswith("topology_"):
            module = import_module(f"emunet.ingest.{info.name}")
            found.update(dict.fromkeys(getattr(module, "DIALECTS", ()), module))
    return found


def read_topology(
    path: str | Path, dialect: str = "auto", name: str | None = None
) -> TopologyTable:
    """Read a topology file.

    Parameters
    ----------
    path : path
    dialect : str
        One of `readers`, or "auto".
    name : str, optional
        The file as the user named it, for errors.

    Raises
    ------
    InputFileError
        What is wrong, with file, line and column.
    """
    source = LocatedSource(Path(path), name)
    known = readers()
    if dialect != "auto":
        if dialect not in known:
            raise InputFileError(
                source.name,
                0,
                0,
                NO_VALUE,
                f'cannot be read as "{dialect}", which is no dialect',
                did_you_mean(dialect, known) or f"one of auto, {one_of(known)}",
            )
        table: TopologyTable = known[dialect].read(source, dialect)
        return table
    first = next((line for line in source.lines() if line.strip()), None)
    if first is None:
        raise InputFileError(source.name, 0, 0, NO_VALUE, "is empty", "a topology file is expected")
    for module in _distinct(known.values()):
        sniffed = module.sniff(first)
        if sniffed is not None:
            table = module.read(source, sniffed[0])
            table.reason = sniffed[1]
            return table
    grammars = "; ".join(f"{d}: {module.DIALECTS[d]}" for d, module in known.items())
    source.refuse(source.line_number, 1, first.strip(), "begins no known topology file", grammars)


def _distinct(modules: Iterable[ModuleType]) -> list[ModuleType]:
    return list(dict.fromkeys(modules))
