"""Flow lists as CSV: one header line that says the units, one flow a line.

``src,dst,size_bytes,start_ns`` and, optionally, ``class``, ``id``, ``tag``. Sizes may be
``size_KB``, ``size_KiB``, ``size_MB`` and so on, starts ``start_ps``, ``start_ns``, ``start_us``,
``start_ms`` or ``start_s``. Hosts are numbers or names. ``#`` begins a comment; columns may stand
in any order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from emunet.errors import EmunetError, did_you_mean
from emunet.ingest.flows_table import NONE, FlowBuilder, FlowTable
from emunet.ingest.flows_text import NumberProblem, Source, parse_decimal
from emunet.units import SIZE_UNITS, TIME_UNITS

DIALECTS = {"csv": "CSV with units in its header: src,dst,size_bytes,start_ns[,class][,id][,tag]"}
START_UNITS: dict[str, tuple[str, ...]] = {"csv": ()}
EXAMPLE = "src,dst,size_bytes,start_ns"

_SIZES = {"bytes": 1, **SIZE_UNITS}
_TIMES = {unit: ps for unit, ps in TIME_UNITS.items() if unit.isascii()}
_PLAIN = {
    "src": "src",
    "source": "src",
    "dst": "dst",
    "destination": "dst",
    "class": "class",
    "id": "id",
    "tag": "tag",
}


def sniff(head: Sequence[tuple[int, str]]) -> tuple[str, str] | None:
    """Dialect and reason, if the first significant line has commas."""
    if head and "," in head[0][1]:
        return "csv", f"line {head[0][0]} has commas"
    return None


def read(
    source: Source, builder: FlowBuilder, dialect: str, start_unit: str, lenient: bool
) -> None:
    """Read every line of `source` into `builder`."""
    source.split = Source.cells
    place: dict[str, int] = {}
    width = size_scale = start_scale = 0
    for line in source.lines():
        row = _cells(source, line)
        if not row:
            continue
        if not place:
            place, size_scale, start_scale = _header(source, builder, row)
            width = len(row)
            continue
        if len(row) != width:
            _refuse_width(source, row, width)
        _flow(builder, row, place, size_scale, start_scale)


def _refuse_width(source: Source, row: list[str], width: int) -> NoReturn:
    """The error of a line with more or fewer cells than the header."""
    if len(row) < width:
        source.fail(len(row), f"the line has {len(row)} cells, the header has {width} columns")
    said = "is one cell too many" if row[width] else "the line ends with a comma too many"
    source.fail(width, said, f"the header has {width} columns")


def _cells(source: Source, line: str) -> list[str]:
    if '"' in line or "#" in line:
        return [token for token, _ in source.cells(line)]
    return [cell.strip() for cell in line.split(",")] if line and not line.isspace() else []


def _flow(
    builder: FlowBuilder, row: list[str], place: dict[str, int], size_scale: int, start_scale: int
) -> None:
    src_at, dst_at, size_at, start_at = place["src"], place["dst"], place["size"], place["start"]
    src, dst = builder.host(row[src_at], src_at), builder.host(row[dst_at], dst_at)
    size_bytes = builder.size(row[size_at], size_at, size_scale)
    start_ps = builder.start(row[start_at], start_at, start_scale)
    klass, number, tag = NONE, NONE, NONE
    if "class" in place and row[place["class"]]:
        klass = builder.klass(row[place["class"]], place["class"])
    if "id" in place and row[place["id"]]:
        number = builder.number(row[place["id"]], place["id"], "a flow id")
    if "tag" in place:
        tag = builder.tag(row[place["tag"]])
    builder.add(
        src, dst, size_bytes, start_ps, klass=klass, id=number, tag=tag, at=(dst_at, size_at)
    )


def _header(
    source: Source, builder: FlowBuilder, row: list[str]
) -> tuple[dict[str, int], int, int]:
    """Column of each field, bytes in a unit of size, ps in a unit of start."""
    place: dict[str, int] = {}
    size_scale = start_scale = 0
    for index, cell in enumerate(row):
        field, unit = _column(source, index, cell)
        if field in place:
            source.fail(index, "is a second column of the same kind", "keep one of them")
        place[field] = index
        if field == "size":
            size_scale, builder.info.size_unit = _SIZES[unit], unit
        elif field == "start":
            start_scale, builder.info.start_unit = _TIMES[unit], unit
    missing = [name for name in ("src", "dst", "size", "start") if name not in place]
    if missing:
        written = {"size": "size_bytes", "start": "start_ns"}
        source.fail(
            len(row),
            f"the header lacks the column {written.get(missing[0], missing[0])}",
            f"the least header is {EXAMPLE}",
        )
    return place, size_scale, start_scale


def _column(source: Source, index: int, cell: str) -> tuple[str, str]:
    """Field and unit of one cell of the header."""
    name = cell.lower()
    if name in _PLAIN:
        return _PLAIN[name], ""
    match = re.fullmatch(r"(size|start)_(.+)", cell, re.I)
    if match:
        kind, unit = match[1].lower(), match[2]
        units = _SIZES if kind == "size" else _TIMES
        if unit.lower() in ("bytes", *_TIMES):
            unit = unit.lower()
        if unit in units:
            return kind, unit
        nearest = did_you_mean(cell, [f"{kind}_{unit}" for unit in units])
        source.fail(
            index, "has a unit that is not accepted", nearest or f"units are {', '.join(units)}"
        )
    if name in ("size", "start", "bytes", "time", "arrival"):
        wanted = "size_bytes" if name in ("size", "bytes") else "start_ns"
        source.fail(index, "has no unit", f'did you mean "{wanted}"?')
    try:
        parse_decimal(cell, "a number")
    except NumberProblem:
        known = [*_PLAIN, *(f"size_{u}" for u in _SIZES), *(f"start_{u}" for u in _TIMES)]
        source.fail(
            index,
            "is not a column of a flow list" if cell else "a column of the header has no name",
            did_you_mean(cell, known)
            or "columns are src, dst, size_UNIT, start_UNIT, class, id, tag",
        )
    source.fail(
        index, "is a number where the header is expected", f"begin the file with the line {EXAMPLE}"
    )


def write(path: Path | str, table: FlowTable, names: Sequence[str] = ()) -> None:
    """Write a flow list as CSV in bytes and picoseconds; what `read` reads back is equal.

    Parameters
    ----------
    path : path
        File to write.
    table : FlowTable
        Flows.
    names : sequence of str
        Host names to write instead of numbers.

    Raises
    ------
    EmunetError
        A tag or name holds a line break, which a line cannot carry.
    """
    optional = [
        name
        for name, column in (("class", table.klass), ("id", table.id), ("tag", table.tag))
        if (column != NONE).any()
    ]
    tags = [_quoted(tag) for tag in table.tags]
    hosts = [_quoted(name) for name in names]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(",".join(["src", "dst", "size_bytes", "start_ps", *optional]) + "\n")
        for i in range(len(table)):
            src, dst = int(table.src[i]), int(table.dst[i])
            cells = [hosts[src], hosts[dst]] if hosts else [str(src), str(dst)]
            cells += [str(table.size_bytes[i]), str(table.start_ps[i])]
            if "class" in optional:
                cells.append("" if table.klass[i] == NONE else str(table.klass[i]))
            if "id" in optional:
                cells.append("" if table.id[i] == NONE else str(table.id[i]))
            if "tag" in optional:
                cells.append("" if table.tag[i] == NONE else tags[table.tag[i]])
            file.write(",".join(cells) + "\n")


def _quoted(text: str) -> str:
    """A text as one cell."""
    if "\n" in text or "\r" in text or "\0" in text:
        raise EmunetError(f"{text!r} holds a line break and cannot be written to a flow list")
    if text != text.strip() or any(sign in text for sign in ',"#') or text.startswith("\ufeff"):
        return '"' + text.replace('"', '""') + '"'
    return text
