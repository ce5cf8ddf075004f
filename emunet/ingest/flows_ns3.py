"""Flow lists of the HPCC/ns-3 family (``flow.txt``): a count, then one flow a line, starts in s.

Three dialects: ``hpcc`` has ``src dst pg dport size_bytes start_s``, ``conweave`` has ``src dst pg
size_bytes start_s``, ``ns3-rdma`` has ``src dst pg size_bytes start_s stop_s``. The header's count
wins, as in the programs that read these files: what stands behind the declared flows is counted and
ignored. Too few flows are an error. ``pg`` is the priority class.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from emunet.errors import NO_VALUE, InputFileError
from emunet.ingest.flows_table import NONE, FlowBuilder
from emunet.ingest.flows_text import NumberProblem, Source, parse_decimal, time_scale_ps

DIALECTS = {
    "hpcc": "a count, then src dst pg dport size_bytes start_s",
    "conweave": "a count, then src dst pg size_bytes start_s",
    "ns3-rdma": "a count, then src dst pg size_bytes start_s stop_s",
}
START_UNITS = dict.fromkeys(DIALECTS, ("s", "ms", "us", "ns", "ps"))

_FIELDS = {
    "hpcc": ("src", "dst", "pg", "dport", "size_bytes", "start_s"),
    "conweave": ("src", "dst", "pg", "size_bytes", "start_s"),
    "ns3-rdma": ("src", "dst", "pg", "size_bytes", "start_s", "stop_s"),
}
_PORT_MAX = 65535


class Ambiguous(Exception):
    """The first flow fits two dialects; the argument is its (line number, line)."""


def sniff(head: Sequence[tuple[int, str]]) -> tuple[str, str] | None:
    """Dialect and reason, if the first significant line is one number and the next has five or six.

    Raises
    ------
    Ambiguous
        Six numbers that make sense as ``dport size start`` and as ``size start stop``.
    """
    if not head or not _is_count(head[0][1]):
        return None
    if len(head) < 2:
        return "hpcc", f"line {head[0][0]} is a count of flows"
    number, line = head[1]
    row = _numbers(line)
    if len(row) == 5:
        return "conweave", f"line {number} has five numbers"
    if len(row) != 6:
        return None
    port_form = (
        row[3] <= _PORT_MAX
        and row[3] == int(row[3])
        and row[4] == int(row[4])
        and "." not in line.split()[4]
    )
    if not port_form:
        return "ns3-rdma", f"line {number} has six numbers and no destination port in the fourth"
    if row[4] <= row[5]:
        raise Ambiguous(head[1])
    return (
        "hpcc",
        f"line {number} has six numbers, the fourth a port, the fifth whole bytes",
    )


def _is_count(line: str) -> bool:
    words = line.split()
    return len(words) == 1 and words[0].isascii() and words[0].isdigit()


def _numbers(line: str) -> list[Decimal]:
    """The numbers of a line without their signs; empty if one word is none."""
    try:
        return [parse_decimal(word.removeprefix("-"), "a number") for word in line.split()]
    except NumberProblem:
        return []


def read(
    source: Source, builder: FlowBuilder, dialect: str, start_unit: str, lenient: bool
) -> None:
    """Read the declared number of flows into `builder` and count what follows."""
    info = builder.info
    fields = _FIELDS[dialect]
    start_scale = time_scale_ps(start_unit)
    header_line, taken = 0, 0
    for line in source.lines():
        row = line.partition("#")[0].split()
        if not row:
            continue
        if info.declared_count is None:
            info.declared_count = builder.number(row[0], 0, "a count of flows")
            header_line = source.line_number
            if len(row) > 1:
                source.fail(1, "follows the count of flows", "the first line is the count alone")
        elif taken < info.declared_count:
            _flow(source, builder, row, fields, start_scale)
            taken += 1
        else:
            info.extra_token_count += len(row)
    if info.declared_count is not None and taken < info.declared_count:
        if not lenient:
            raise InputFileError(
                source.name,
                header_line,
                1,
                str(info.declared_count),
                f"flows are declared, the file ends after {taken}",
                "correct the count, or read the file with lenient: true",
            )
        info.warnings.append(
            f"{info.declared_count} flows are declared, the file holds {taken}; those are taken"
        )
    if info.extra_token_count:
        info.warnings.append(
            f"{info.extra_token_count} extra words after the {info.declared_count} declared flows "
            "ignored"
        )
    if dialect == "ns3-rdma":
        info.warnings.append("stop times are ignored: a flow ends with its last byte")


def _flow(
    source: Source, builder: FlowBuilder, row: list[str], fields: tuple[str, ...], start_scale: int
) -> None:
    if len(row) != len(fields):
        what = f"a flow is: {' '.join(fields)}"
        if len(row) > len(fields):
            source.fail(len(fields), f"is one word more than the {len(fields)} of a flow", what)
        source.fail(len(row), f"the line has {len(row)} of {len(fields)} words", what)
    size_at = fields.index("size_bytes")
    src, dst = builder.host(row[0], 0), builder.host(row[1], 1)
    klass = builder.klass(row[2], 2)
    if fields[3] == "dport" and builder.number(row[3], 3, "a port") > _PORT_MAX:
        source.fail(3, "is not a port", f"ports are 0 to {_PORT_MAX}")
    size_bytes = builder.size(row[size_at], size_at)
    start_ps = builder.start(row[size_at + 1], size_at + 1, start_scale)
    builder.add(src, dst, size_bytes, start_ps, klass=klass, id=NONE, at=(1, size_at))


def ask(name: str, ambiguous: Ambiguous) -> InputFileError:
    """The error that asks for a dialect."""
    line_number, line = ambiguous.args[0]
    return InputFileError(
        name,
        line_number,
        0,
        line.strip() or NO_VALUE,
        "fits two dialects: dport size start, and size start stop",
        "say dialect: hpcc or dialect: ns3-rdma",
    )
