"""The door to flow lists: sniff the dialect, say what was sniffed, read.

A dialect is one module ``emunet/ingest/flows_*.py`` with ``DIALECTS`` (name to one line about it),
``START_UNITS`` (name to the units in which its starts may be, the usual one first), ``sniff(head)``
and ``read(source, builder, dialect, start_unit, lenient)``; adding the file adds the dialect.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import emunet.ingest
from emunet.errors import NO_VALUE, InputFileError, did_you_mean, one_of
from emunet.ingest.flows_ns3 import Ambiguous, ask
from emunet.ingest.flows_table import (
    NO_LIMITS,
    FlowBuilder,
    FlowFileInfo,
    FlowTable,
    Hosts,
    Limits,
)
from emunet.ingest.flows_text import Source

_N_HEAD = 4


def dialects() -> dict[str, str]:
    """Every dialect and one line about it."""
    return {name: about for module in _modules() for name, about in module.DIALECTS.items()}


@functools.cache
def _modules() -> tuple[ModuleType, ...]:
    names = sorted(
        m.name for m in pkgutil.iter_modules(emunet.ingest.__path__) if m.name.startswith("flows_")
    )
    found = [
        importlib.import_module(f"emunet.ingest.{name}") for name in names if name != "flows_read"
    ]
    return tuple(module for module in found if hasattr(module, "DIALECTS"))


def read_flows(
    path: Path | str,
    *,
    hosts: Hosts | None = None,
    dialect: str = "auto",
    start_unit: str | None = None,
    lenient: bool = False,
    survey: bool = False,
    name: str | None = None,
    limits: Limits = NO_LIMITS,
) -> FlowTable:
    """Read a flow list.

    Parameters
    ----------
    path : path
        File; gzip is recognised.
    hosts : Hosts, optional
        The hosts that may be named; without them any number is taken and names are numbered by
        appearance.
    dialect : str
        A name of `dialects`, or ``auto``.
    start_unit : str, optional
        Unit of start times where the dialect leaves it open: ``us`` for connection matrices of
        older generators.
    lenient : bool
        Where the header's count and the flows disagree, take the flows and warn.
    survey : bool
        Count self-flows, unknown hosts and empty flows and leave them out, instead of raising.
    name : str, optional
        The file as the user named it, for errors.
    limits : Limits
        Larger sizes and later starts are refused.

    Returns
    -------
    FlowTable
        In start order, with a `FlowFileInfo` in `info`.

    Raises
    ------
    InputFileError
        With file, line, column, the token and what was expected.
    """
    source = Source(Path(path), name)
    module, chosen, reason = _choose(source, dialect)
    units = module.START_UNITS[chosen]
    if start_unit is not None and start_unit not in units:
        raise InputFileError(
            source.name,
            0,
            0,
            NO_VALUE,
            f'start times of the dialect {chosen} cannot be in "{start_unit}"',
            f"units: {one_of(units)}" if units else "its header says the unit",
        )
    info = FlowFileInfo(
        file=source.name,
        dialect=chosen,
        reason=reason,
        compressed=source.compressed,
        digest=source.digest(),
        start_unit=start_unit or (units[0] if units else ""),
    )
    builder = FlowBuilder(source, info, hosts, survey, limits)
    module.read(source, builder, chosen, info.start_unit, lenient)
    return builder.finish()


def describe_flows(
    path: Path | str,
    *,
    hosts: Hosts | None = None,
    dialect: str = "auto",
    start_unit: str | None = None,
    name: str | None = None,
) -> FlowFileInfo:
    """What a flow list holds, its oddities counted; lines that cannot be read are refused."""
    return read_flows(
        path,
        hosts=hosts,
        dialect=dialect,
        start_unit=start_unit,
        lenient=True,
        survey=True,
        name=name,
    ).info


def _choose(source: Source, dialect: str) -> tuple[ModuleType, str, str]:
    """Module, dialect and reason."""
    if dialect != "auto":
        for module in _modules():
            if dialect in module.DIALECTS:
                return module, dialect, "as asked for"
        raise InputFileError(
            source.name,
            0,
            0,
            NO_VALUE,
            f'is to be read as "{dialect}", which is not a dialect',
            did_you_mean(dialect, dialects()) or f"dialects: {one_of(dialects())}",
        )
    head = list(_head(source))
    if not head:
        raise InputFileError(
            source.name, 0, 0, NO_VALUE, "is empty", "a flow list has at least one flow"
        )
    for module in _modules():
        try:
            sniffed = module.sniff(head)
        except Ambiguous as ambiguous:
            raise ask(source.name, ambiguous) from None
        if sniffed is not None:
            return module, *sniffed
    counted = len(head) > 1 and head[0][1].isdigit()
    line_number, line = head[1] if counted else head[0]
    raise InputFileError(
        source.name,
        line_number,
        1,
        line,
        "begins no flow list that emunet reads",
        "after a count, a flow has 5 or 6 numbers"
        if counted
        else f"name the dialect if you know it: {one_of(dialects())}",
    )


def _head(source: Source) -> Iterator[tuple[int, str]]:
    """The first significant lines with their numbers."""
    found = 0
    for line in source.lines():
        text = line.partition("#")[0].strip()
        if text:
            yield source.line_number, text
            found += 1
            if found == _N_HEAD:
                return
