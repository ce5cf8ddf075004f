"""Plain flow lists: ``src dst size_bytes start_ns``, no header (the ``.htsim`` lists of Opera).

Source: the flow lists of Mellette et al., "Expanding across time to deliver bandwidth efficiency
and low latency" (NSDI 2020), https://github.com/TritonNetworking/opera-sim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from emunet.ingest.flows_table import FlowBuilder
from emunet.ingest.flows_text import Source, time_scale_ps

DIALECTS = {"list": "src dst size_bytes start_ns between blanks, no header (Opera's .htsim lists)"}
START_UNITS = {"list": ("ns", "ps", "us", "ms", "s")}

_FIELDS = ("the source", "the destination", "the size in bytes", "the start time")
_NUMBERS = re.compile(r"\S+\s+\S+(\s+[-+]?[0-9.]+(e[-+]?[0-9]+)?){2}", re.I)


def sniff(head: Sequence[tuple[int, str]]) -> tuple[str, str] | None:
    """Dialect and reason, if the first significant line is four words, the last two numbers."""
    if head and _NUMBERS.fullmatch(head[0][1]):
        return "list", f"line {head[0][0]} is four words, the last two numbers"
    return None


def read(
    source: Source, builder: FlowBuilder, dialect: str, start_unit: str, lenient: bool
) -> None:
    """Read every line of `source` into `builder`."""
    start_scale = time_scale_ps(start_unit)
    for line in source.lines():
        row = line.partition("#")[0].split()
        if not row:
            continue
        if len(row) < 4:
            source.fail(
                len(row),
                f"the line ends before {_FIELDS[len(row)]}",
                "a flow is: src dst size_bytes start_ns",
            )
        if len(row) > 4:
            source.fail(
                4, "is a fifth word on a line of four", "a flow is: src dst size_bytes start_ns"
            )
        src, dst = builder.host(row[0], 0), builder.host(row[1], 1)
        builder.add(src, dst, builder.size(row[2], 2), builder.start(row[3], 3, start_scale))
