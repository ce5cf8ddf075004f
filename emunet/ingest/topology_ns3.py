"""Topology files of the HPCC/ns-3 family (``topology.txt``): counts, switch numbers, then one link
a line.

The first line tells the dialects apart; the links are ``src dst rate delay error_rate`` in all of
them. A rate is a number with ns-3's units (``100Gbps``, ``12.5GBps``; bare: bit/s), a delay
likewise (``1us``, ``0.001ms``; bare: seconds). The declared counts win, as in the programs that
read these files: what follows the last declared link is counted and ignored; too few links are an
error. Two lines for one pair of nodes are two links (HPCC itself keeps only the last of them).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import NoReturn

import numpy as np

from emunet.errors import NO_VALUE, ScenarioError, did_you_mean, one_of, show
from emunet.ingest.flows_text import NumberProblem, Token, parse_decimal
from emunet.ingest.topology_table import LocatedSource, TopologyTable
from emunet.units import LEAST_RATE_BPS, MOST_DELAY_PS, MOST_RATE_BPS, format_rate, format_time

DIALECTS = {
    "hpcc": "node_num switch_num link_num",
    "ns3-datacenter": "node_num switch_num tor_num link_num",
    "reverie": "node_num switch_num tor_num link_num leaf_bps spine_bps",
    "simai": "node_num gpus_per_server nvswitch_num switch_num link_num gpu_type",
}
"""First line of each dialect."""

LINK_FIELDS = ("src", "dst", "rate", "delay", "error_rate")
GPU_TYPES = ("A100", "A800", "H100", "H800", "NONE")

_SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
RATE_UNITS = {
    f"{prefix}{unit}": scale * bits
    for prefix, scale in {**_SI, **_IEC}.items()
    for unit, bits in (("bps", 1), ("b/s", 1), ("Bps", 8), ("B/s", 8))
}
"""Spellings of ns-3's DataRate, in bit/s."""

TIME_UNITS: dict[str, int | Decimal] = {
    "s": 10**12,
    "ms": 10**9,
    "us": 10**6,
    "ns": 10**3,
    "ps": 1,
    "fs": Decimal("0.001"),
    "min": 60 * 10**12,
}
"""Spellings of ns-3's Time, in ps."""

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)(.*)")
_MOST_NODES = 1 << 24

Row = tuple[int, list[Token]]
"""Line number and tokens of a line that is not blank."""


def sniff(first_line: str) -> tuple[str, str] | None:
    """Dialect and reason by the first line that is not blank; None if it is none of these."""
    words = first_line.split()
    numeric = [re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", word) is not None for word in words]
    found = None
    if len(words) in (3, 4) and all(numeric):
        found = "hpcc" if len(words) == 3 else "ns3-datacenter"
    elif len(words) == 6 and all(numeric[:5]):
        found = "reverie" if numeric[5] else "simai"
    return (found, f"the first line has {len(words)} words: {DIALECTS[found]}") if found else None


def read(source: LocatedSource, dialect: str) -> TopologyTable:
    """Read a file of one of `DIALECTS`.

    Parameters
    ----------
    source : LocatedSource
    dialect : str

    Raises
    ------
    InputFileError
        With line and column.
    """
    rows = _rows(source)
    warnings: list[str] = []
    header, places = _header(source, rows, dialect)
    counts = {name: int(text) for name, text in header.items() if name.endswith("_num")}
    _check_counts(source, counts, places)
    switches = _switches(source, rows, counts, places)
    a, b, rate, delay = _links(
        source, rows, counts["node_num"], counts["link_num"], places["link_num"]
    )
    extra = sum(len(tokens) for _, tokens in rows)
    if extra:
        warnings.append(
            f"{extra} extra words after the {counts['link_num']} declared links ignored"
        )
    n_host = counts["node_num"] - len(switches)
    if dialect == "simai":
        _check_servers(header, n_host, warnings)
    _note_parallel(a, b, warnings)
    return TopologyTable(
        dialect,
        "asked for",
        counts["node_num"],
        switches,
        a,
        b,
        rate,
        delay,
        header=header,
        warnings=warnings,
    )


def _rows(source: LocatedSource) -> Iterator[Row]:
    for line in source.lines():
        tokens = [(m.group(), m.start() + 1) for m in re.finditer(r"\S+", line)]
        if tokens:
            yield source.line_number, tokens


def _header(
    source: LocatedSource, rows: Iterator[Row], dialect: str
) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
    """Fields of the first line, and their places."""
    fields = DIALECTS[dialect].split()
    line, tokens = next(rows, (0, []))
    if not tokens:
        source.refuse(0, 0, NO_VALUE, "is empty", f"the first line is: {DIALECTS[dialect]}")
    if len(tokens) != len(fields):
        source.refuse(
            line,
            tokens[-1][1],
            tokens[-1][0],
            f"ends a first line of {len(tokens)} words; {dialect} has {len(fields)}",
            f"the first line is: {DIALECTS[dialect]}",
        )
    header, places = {}, {}
    for name, (text, column) in zip(fields, tokens, strict=True):
        if name.endswith("_num") or name == "gpus_per_server":
            _whole(source, line, (text, column), name, _MOST_NODES)
        header[name], places[name] = text, (line, column)
    return header, places


def _check_counts(
    source: LocatedSource, counts: dict[str, int], places: dict[str, tuple[int, int]]
) -> None:
    n_switch = counts["switch_num"] + counts.get("nvswitch_num", 0)
    if n_switch >= counts["node_num"]:
        source.refuse(
            *places["node_num"],
            str(counts["node_num"]),
            f"nodes, {n_switch} of them switches, leave no host",
            "node_num counts hosts and switches",
        )
    if counts.get("tor_num", 0) > counts["switch_num"]:
        source.refuse(
            *places["tor_num"],
            str(counts["tor_num"]),
            f"ToRs are more than the {counts['switch_num']} switches",
        )


def _switches(
    source: LocatedSource,
    rows: Iterator[Row],
    counts: dict[str, int],
    places: dict[str, tuple[int, int]],
) -> list[int]:
    """Numbers of the switches (NVSwitches first where the dialect has them); they may take several
    lines.
    """
    wanted = counts["switch_num"] + counts.get("nvswitch_num", 0)
    found: dict[int, tuple[int, int]] = {}
    while len(found) < wanted:
        line, tokens = next(rows, (0, []))
        if not tokens:
            source.refuse(
                *places["switch_num"],
                str(counts["switch_num"]),
                f"makes {wanted} switch numbers, the file ends after {len(found)}",
            )
        left = wanted - len(found)
        if len(tokens) > left:
            text, column = tokens[left]
            source.refuse(
                line,
                column,
                text,
                f"follows the last of the {wanted} declared switch numbers",
                "correct the counts, or begin the links on a new line",
            )
        for token in tokens:
            node = _node(source, line, token, counts["node_num"])
            if node in found:
                source.refuse(
                    line, token[1], token[0], f"is listed as a switch twice (line {found[node][0]})"
                )
            found[node] = (line, token[1])
    return list(found)


def _links(
    source: LocatedSource,
    rows: Iterator[Row],
    n_node: int,
    n_link: int,
    declared_at: tuple[int, int],
) -> list[np.ndarray]:
    ends: list[tuple[int, int]] = []
    speeds: list[tuple[int, int]] = []
    while len(ends) < n_link:
        line, tokens = next(rows, (0, []))
        if not tokens:
            source.refuse(
                *declared_at,
                str(n_link),
                f"links are declared, the file ends after {len(ends)}",
                "correct the count",
            )
        if len(tokens) != len(LINK_FIELDS):
            _wrong_length(source, line, tokens)
        a, b = (_node(source, line, token, n_node) for token in tokens[:2])
        if a == b:
            source.refuse(
                line,
                tokens[1][1],
                tokens[1][0],
                "is at both ends of the link",
                "two different nodes",
            )
        rate = _quantity(source, line, tokens[2], "rate")
        delay = _quantity(source, line, tokens[3], "delay")
        _no_loss(source, line, tokens[4])
        ends.append((a, b))
        speeds.append((rate, delay))
    node = np.array(ends, np.int32).reshape(-1, 2)
    speed = np.array(speeds, np.int64).reshape(-1, 2)
    return [node[:, 0], node[:, 1], speed[:, 0], speed[:, 1]]


def _wrong_length(source: LocatedSource, line: int, tokens: list[Token]) -> NoReturn:
    wanted, fix = len(LINK_FIELDS), f"a link is: {' '.join(LINK_FIELDS)}"
    if len(tokens) > wanted:
        text, column = tokens[wanted]
        source.refuse(line, column, text, f"is one word more than the {wanted} of a link", fix)
    text, column = tokens[-1]
    source.refuse(line, column, text, f"ends a line of {len(tokens)} words", fix)


def _whole(source: LocatedSource, line: int, token: Token, name: str, most: int) -> int:
    text, column = token
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        source.refuse(line, column, text, f"is not a whole number ({name})")
    if int(text) > most:
        source.refuse(line, column, text, f"is too large for {name}", f"at most {most}")
    return int(text)


def _node(source: LocatedSource, line: int, token: Token, n_node: int) -> int:
    text, column = token
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        source.refuse(line, column, text, "is not a node number", f"nodes are 0 to {n_node - 1}")
    if int(text) >= n_node:
        source.refuse(
            line, column, text, f"is not one of the {n_node} nodes", f"nodes are 0 to {n_node - 1}"
        )
    return int(text)


def _quantity(source: LocatedSource, line: int, token: Token, what: str) -> int:
    """Rate in bit/s or delay in ps."""
    text, column = token
    if what == "rate":
        units: dict[str, int | Decimal] = dict(RATE_UNITS)
        bare, base, examples = 1, "bit/s", '"100Gbps", "2880Gbps" or bare bit/s'
    else:
        units = dict(TIME_UNITS)
        bare, base, examples = 10**12, "ps", '"1us", "0.001ms" or bare seconds'
    match = _QUANTITY.fullmatch(text)
    if match is None:
        source.refuse(line, column, text, f"is not a {what}", f"a {what} is {examples}")
    number, unit = match.groups()
    if unit and unit not in units:
        near = did_you_mean(unit, [name for name in units if "B" not in name])
        source.refuse(
            line,
            column,
            text,
            f"has the unit {show(unit, 40)}, which is not one of a {what}",
            near or f"a {what} is {examples}",
        )
    try:
        value = parse_decimal(number, f"a {what}") * (units[unit] if unit else bare)
    except NumberProblem as bad:
        source.refuse(line, column, text, bad.problem, bad.fix)
    if value != value.to_integral_value():
        source.refuse(
            line,
            column,
            text,
            f"is not a whole number of {base}",
            f"nearest: {value.to_integral_value()} {base}",
        )
    if what == "rate" and value == 0:
        source.refuse(line, column, text, "is no rate for a link", f"a rate is {examples}")
    low, high = (LEAST_RATE_BPS, MOST_RATE_BPS) if what == "rate" else (0, MOST_DELAY_PS)
    if not low <= value <= high:
        size = "large" if value > high else "small"
        ends = (format_rate(v) if what == "rate" else format_time(v) for v in (low, high))
        fix = f"{' to '.join(ends)} are possible"
        source.refuse(line, column, text, f"is too {size} for a {what}", fix)
    return int(value)


def _no_loss(source: LocatedSource, line: int, token: Token) -> None:
    text, column = token
    try:
        rate = parse_decimal(text, "an error rate")
    except NumberProblem as bad:
        source.refuse(
            line, column, text, bad.problem, bad.fix or "links do not lose packets: write 0"
        )
    if rate:
        source.refuse(
            line,
            column,
            text,
            "is an error rate: links that lose packets are not modelled",
            "write 0",
        )


def _check_servers(header: dict[str, str], n_host: int, warnings: list[str]) -> None:
    per_server = int(header["gpus_per_server"])
    if per_server == 0 or n_host % per_server:
        warnings.append(f"{n_host} GPUs do not fill servers of {per_server}")
    if header["gpu_type"] not in GPU_TYPES:
        warnings.append(
            f'gpu_type "{header["gpu_type"]}" is none of {one_of(GPU_TYPES)}; it has no effect'
        )


def _note_parallel(a: np.ndarray, b: np.ndarray, warnings: list[str]) -> None:
    pairs = Counter(zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True))
    several = sum(1 for count in pairs.values() if count > 1)
    if several:
        warnings.append(
            f"{several} pairs of nodes have several links; each line is a link of its own "
            "(HPCC keeps the last)"
        )


def write(table: TopologyTable) -> str:
    """Text of a file of the ``hpcc`` dialect.

    Raises
    ------
    ScenarioError
        Parallel links, which the dialect cannot say.
    """
    a, b = table.cable_a.tolist(), table.cable_b.tolist()
    seen: set[tuple[int, int]] = set()
    lines = [
        f"{table.n_node} {len(table.switch_ids)} {len(a)}",
        " ".join(map(str, table.switch_ids)),
    ]
    for x, y, rate, delay in zip(
        a, b, table.rate_bps.tolist(), table.delay_ps.tolist(), strict=True
    ):
        pair = (min(x, y), max(x, y))
        if pair in seen:
            raise ScenarioError(
                "$.topology",
                NO_VALUE,
                f"nodes {x} and {y} have several links",
                "one link for each pair of nodes in an HPCC topology file",
                "use one link of the summed rate, or another format",
            )
        seen.add(pair)
        lines.append(f"{x} {y} {_spell(rate, _WRITE_RATES)} {_spell(delay, _WRITE_TIMES)} 0")
    return "\n".join(lines) + "\n"


_WRITE_RATES = {"Gbps": 10**9, "Mbps": 10**6, "Kbps": 10**3, "bps": 1}
_WRITE_TIMES = {"us": 10**6, "ns": 10**3, "ps": 1}


def _spell(value: int, units: dict[str, int]) -> str:
    """Whole number in the largest unit that divides it."""
    unit = next(name for name, scale in units.items() if value % scale == 0)
    return f"{value // units[unit]}{unit}"
