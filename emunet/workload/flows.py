"""Flows from a file: any dialect of `emunet.ingest`, times moved and stretched exactly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from emunet.ingest.flows_read import describe_flows, read_flows
from emunet.ingest.flows_table import NONE, FlowFileInfo, FlowTable, Hosts, Limits
from emunet.scenario.fields import LAST_PS
from emunet.units import INT64_MAX, format_time
from emunet.workload import wire
from emunet.workload.messages import Context, Element, Messages, make_messages

_DENOMINATOR = 10**6
_HDF5 = b"\x89HDF\r\n\x1a\n"


def element(options: Any, context: Context) -> Element:
    """The flows of `path`."""
    path = Path(options.path)
    table = read_flows(
        context.base_dir / path,
        name=str(path),
        hosts=Hosts(context.n_host, context.names),
        dialect=options.dialect,
        start_unit=options.unit,
        lenient=options.lenient,
        limits=Limits(
            context.most_bytes,
            LAST_PS if options.start is None and options.time_scale == 1 else INT64_MAX,
        ),
    )
    start_ps = _starts(table, options, context)
    own = context.klass_given | (table.klass == NONE)
    klass = np.where(own, context.klass, table.klass).astype(np.uint8)
    span_ps = int(start_ps[-1] - start_ps[0])
    packets = wire.packets(table.size_bytes, context.mtu_bytes)
    slot = wire.slot_bytes(table.size_bytes, context.mtu_bytes)
    return Element(
        kind="flows",
        tag=context.tag,
        blocks=partial(_blocks, table, start_ps, klass, context),
        total=len(table),
        expected_messages=len(table),
        expected_bytes=table.info.total_bytes,
        expected_packets=float(packets.sum(dtype=np.float64)),
        expected_slot_bytes=float(slot.sum(dtype=np.float64)),
        span_ps=span_ps,
        start_ps=int(start_ps[0]),
        starts_ps=start_ps,
        tags=[context.tag, *(f"{context.tag}/{tag}" for tag in table.tags)],
        largest_bytes={int(c): int(table.size_bytes[klass == c].max()) for c in np.unique(klass)},
        facts=_facts(
            table, span_ps, options.time_scale, float(slot.sum(dtype=np.float64)), context
        ),
        warnings=[f"{path}: {warning}" for warning in table.info.warnings],
    )


def _starts(table: FlowTable, options: Any, context: Context) -> np.ndarray:
    """int64[n], ps: starts as the options scale and move them; notes what leaves a run."""
    allowed = f"starts up to {format_time(LAST_PS)} (53 days)"
    problem = "moves starts beyond the last time of a run"
    start_ps = scale_times(table.start_ps, _exact(options.time_scale))
    if start_ps is None:
        fix = "write a smaller time_scale"
        context.note("time_scale", options.time_scale, problem, allowed, fix)
        return table.start_ps
    first, last = int(start_ps[0]), int(start_ps[-1])
    shift = 0 if options.start is None else int(options.start) - first
    if last + shift <= LAST_PS:
        return start_ps + shift if shift else start_ps
    if options.start is None:
        fix = "write a smaller time_scale, or move the flows with start"
        context.note("time_scale", options.time_scale, problem, allowed, fix)
    else:
        fix = f"the flows span {format_time(last - first)}: write an earlier start"
        context.note("start", format_time(int(options.start)), problem, allowed, fix)
    return start_ps


def _exact(scale: float) -> Fraction:
    """The simple fraction that the double stands for (1/40, 1/3), or its decimal digits."""
    simple = Fraction(scale).limit_denominator(_DENOMINATOR)
    return simple if float(simple) == scale else Fraction(repr(scale))


def describe_if_flows(path: Path | str) -> FlowFileInfo | None:
    """What a flow list holds; None for a trace (HDF5) or a file that is not there."""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError:
        return None
    return None if start == _HDF5 else describe_flows(path)


def scale_times(start_ps: np.ndarray, scale: Fraction) -> np.ndarray | None:
    """Times multiplied exactly, rounded to the nearest ps (halves up); None if one leaves int64.

    The order of the times does not change.
    """
    up, down = scale.numerator, scale.denominator
    if len(start_ps) and int(start_ps.max()) * up // down >= INT64_MAX:
        return None
    if up == down:
        return start_ps
    if down <= _DENOMINATOR and up < 2**40:
        whole, rest = np.divmod(start_ps, down)
        return whole * up + (2 * rest * up + down) // (2 * down)
    return np.array([(2 * int(t) * up + down) // (2 * down) for t in start_ps], dtype=np.int64)


def _facts(
    table: FlowTable, span_ps: int, time_scale: float, slot_bytes: float, context: Context
) -> dict[str, str]:
    info = table.info
    facts = {
        "file": f"{info.file}, dialect {info.dialect} ({info.reason})",
        "units": f"sizes in {info.size_unit}, starts in {info.start_unit}"
        + (f", times {time_scale:g} of the file's" if time_scale != 1 else ""),
        "digest": info.digest,
    }
    if span_ps:
        capacity = int(context.host_rate_bps.sum()) * span_ps / 8e12
        facts["load"] = f"{slot_bytes / capacity:.4g} of the line rate of all hosts, on the wire"
    return facts


def _blocks(
    table: FlowTable, start_ps: np.ndarray, klass: np.ndarray, context: Context, rows: int
) -> Iterator[Messages]:
    for at in range(0, len(table), rows):
        part = slice(at, at + rows)
        yield make_messages(
            src=table.src[part],
            dst=table.dst[part],
            size_bytes=table.size_bytes[part],
            start_ps=start_ps[part],
            klass=klass[part],
            background=context.background,
            tag=table.tag[part] + 1,
        )
