"""Connection matrices of htsim (``.cm``, ``.tm``).

``Nodes n``, ``Connections n``, then ``src->dst id n start t size B`` line by line.

Source: the grammar of htsim's connection matrix loader, https://github.com/Broadcom/csg-htsim and
https://github.com/ultraethernet/uet-htsim. Starts are picoseconds as in its present loaders; files
of older generators hold microseconds (``unit: us``). Here starts and sizes are exact 64-bit
integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from emunet.errors import NO_VALUE, EmunetError, InputFileError, did_you_mean
from emunet.ingest.flows_table import NONE, FlowBuilder, FlowTable
from emunet.ingest.flows_text import Source, format_time_in, time_scale_ps

DIALECTS = {"cm": "htsim connection matrix: Nodes, Connections, src->dst [id n] start t size B"}
START_UNITS = {"cm": ("ps", "us")}

_HEADERS = ("nodes", "connections", "triggers", "failures")
_ARROW = re.compile(r"([^\s>-]+)->(\S+)")
_VALUED = (
    "id",
    "start",
    "size",
    "trigger",
    "send_done_trigger",
    "recv_done_trigger",
    "prio",
    "msg",
)
_TRIGGERS = ("trigger", "send_done_trigger", "recv_done_trigger")
_SHORT_PS = 1000


def sniff(head: Sequence[tuple[int, str]]) -> tuple[str, str] | None:
    """Dialect and reason, if the first significant line is a header of a matrix or has an arrow."""
    if head and (head[0][1].split()[0].lower() in _HEADERS or "->" in head[0][1]):
        return "cm", f"line {head[0][0]} begins a connection matrix"
    return None


def read(
    source: Source, builder: FlowBuilder, dialect: str, start_unit: str, lenient: bool
) -> None:
    """Read the matrix into `builder`; header and body must agree unless `lenient`."""
    _Reader(source, builder, start_unit, lenient).read()


class _Reader:
    """One matrix being read: its header and what the connections said so far."""

    def __init__(
        self, source: Source, builder: FlowBuilder, start_unit: str, lenient: bool
    ) -> None:
        self.source, self.builder, self.lenient = source, builder, lenient
        self.start_scale = time_scale_ps(start_unit)
        self.start_unit = start_unit
        self.header: dict[str, int] = {}
        self.header_place: dict[str, tuple[int, int]] = {}
        self.n_connection = self.n_message = self.n_prio = 0

    def read(self) -> None:
        for line in self.source.lines():
            words = [token for token, _ in self.source.words(line)]
            if not words:
                continue
            first = words[0].lower()
            if first in _HEADERS:
                self._take_header(words)
            elif "->" in words[0]:
                self._take_connection(words)
            elif first == "trigger":
                self._refuse_trigger(0, "declares a trigger")
            elif first == "failure":
                self.source.fail(
                    0, "is a link failure, which a flow list cannot carry", "delete the line"
                )
            else:
                self.source.fail(
                    0,
                    "begins no line of a connection matrix",
                    did_you_mean(words[0], ("Nodes", "Connections", "Triggers", "Failures"))
                    or "a connection is: src->dst id n start t size B",
                )
        self._check_counts()

    def _refuse_trigger(self, index: int, what: str) -> None:
        self.source.fail(
            index,
            f"{what}: dependencies are not supported yet",
            "give every connection a start",
        )

    def _take_header(self, words: list[str]) -> None:
        key = words[0].lower()
        if key in self.header:
            self.source.fail(0, "is declared twice", f"first on line {self.header_place[key][0]}")
        if len(words) != 2:
            self.source.fail(
                min(len(words), 2),
                f"the count of {words[0]} is missing"
                if len(words) < 2
                else f"follows the count of {words[0]}",
            )
        count = self.builder.number(words[1], 1, f"a count of {key}")
        self.header[key] = count
        self.header_place[key] = self.source.line_number, self.source.words(self.source.line)[1][1]
        info, hosts = self.builder.info, self.builder.hosts
        if key == "nodes":
            info.declared_hosts = count
            if hosts is not None and count > hosts.n_host:
                self.source.fail(
                    1,
                    f"nodes are declared, the topology has {hosts.n_host} hosts",
                    "choose a topology with at least as many hosts",
                )
            if hosts is not None and count < hosts.n_host:
                info.warnings.append(
                    f"the matrix is for {count} nodes; the topology has {hosts.n_host} hosts"
                )
        elif key == "connections":
            info.declared_count = count

    def _take_connection(self, words: list[str]) -> None:
        for key in ("nodes", "connections"):
            if key not in self.header:
                self.source.fail(
                    0,
                    f"comes before the line {key.capitalize()}",
                    "a matrix begins with Nodes and Connections",
                )
        match = _ARROW.fullmatch(words[0])
        if match is None:
            self.source.fail(0, "is not src->dst", "write it without blanks, such as 3->17")
        self.n_connection += 1
        src, dst = self._host(match[1], match.start(1)), self._host(match[2], match.start(2))
        place = self._keys(words)
        if "size" not in place:
            self.source.fail(len(words), "the connection has no size", "add: size BYTES")
        for key in _TRIGGERS:
            if key in place:
                what = "waits for a trigger" if key == "trigger" else "fires a trigger"
                self._refuse_trigger(place[key] - 1, what)
        if "start" not in place:
            self.source.fail(len(words), "the connection has no start", "add: start 0")
        builder = self.builder
        number = NONE
        if "id" in place:
            number = builder.number(words[place["id"]], place["id"], "an id")
            if number == 0:
                self.source.fail(place["id"], "is not an id", "ids begin at 1")
        self.n_prio += "prio" in place
        builder.add(
            src,
            dst,
            builder.size(words[place["size"]], place["size"]),
            builder.start(words[place["start"]], place["start"], self.start_scale),
            id=number,
            at=(0, place["size"]),
            zero_is="is an endless flow, which never finishes",
            zero_fix="give it the bytes it sends until the end of the run",
        )

    def _host(self, token: str, offset: int) -> int:
        nodes = self.header["nodes"]
        if token.isascii() and token.isdigit() and int(token[:12]) < nodes:
            return self.builder.host(token, 0)
        if self.builder.survey:
            return NONE
        column = self.source.words(self.source.line)[0][1] + offset
        self.source.fail_at(
            column, token, "is not a node of the matrix", f"nodes are 0 to {nodes - 1}"
        )

    def _keys(self, words: list[str]) -> dict[str, int]:
        """Token number of each key's value; `msg` may have none."""
        place: dict[str, int] = {}
        at = 1
        while at < len(words):
            key = words[at].lower()
            if key not in _VALUED:
                self.source.fail(
                    at,
                    "is not a word of a connection",
                    did_you_mean(key, _VALUED) or f"words: {', '.join(_VALUED)}",
                )
            if key in place:
                self.source.fail(at, "is given twice on one line", "keep one of them")
            if key == "msg":
                self.n_message += 1
                place[key] = at
                if at + 1 < len(words) and words[at + 1].isdigit():
                    at += 1
                    if int(words[at][:12]) == 0:
                        self.source.fail(
                            at,
                            "is not a message number",
                            "messages begin at 1; msg alone numbers itself",
                        )
            elif at + 1 == len(words):
                self.source.fail(at + 1, f"the value of {key} is missing")
            else:
                at += 1
                place[key] = at
            at += 1
        return place

    def _check_counts(self) -> None:
        info, source = self.builder.info, self.source
        for key in ("nodes", "connections"):
            if key not in self.header:
                raise InputFileError(
                    source.name,
                    0,
                    0,
                    NO_VALUE,
                    f"has no line {key.capitalize()}",
                    "a matrix begins with Nodes and Connections",
                )
        declared = self.header["connections"]
        if declared != self.n_connection:
            problem = f"connections are declared, the file holds {self.n_connection}"
            if not self.lenient:
                raise InputFileError(
                    source.name,
                    *self.header_place["connections"],
                    str(declared),
                    problem,
                    "correct the count, or read the file with lenient: true",
                )
            info.warnings.append(f"{declared} {problem}; the {self.n_connection} are taken")
        if self.n_message:
            info.warnings.append(
                f"{self.n_message} messages of shared connections run on a connection each"
            )
        if self.n_prio:
            info.warnings.append(
                f"{self.n_prio} values of prio are ignored; say class in the scenario"
            )
        last_ps = self.builder.last_start_ps()
        if self.start_unit == "ps" and 0 < last_ps < _SHORT_PS:
            info.warnings.append(
                f"all starts lie within {last_ps} ps; older generators wrote us (unit: us)"
            )


def write(path: Path | str, table: FlowTable, n_host: int, start_unit: str = "ps") -> None:
    """Write flows as a connection matrix; what `read` reads back (with the same unit) is equal.

    Parameters
    ----------
    path : path
        File to write.
    table : FlowTable
        Flows; an id is written where the flow has one.
    n_host : int
        Hosts of the topology (``Nodes``).
    start_unit : str
        ``ps`` or ``us`` (exact decimals).

    Raises
    ------
    EmunetError
        The flows have classes, tags, an id 0 or hosts beyond `n_host`: the format cannot say that.
    """
    for name, column in (("classes", table.klass), ("tags", table.tag)):
        if (column != NONE).any():
            raise EmunetError(
                f"flows with {name} cannot be written as a connection matrix; write CSV"
            )
    if (table.id == 0).any():
        raise EmunetError(
            "a flow with id 0 cannot be written as a connection matrix, whose ids begin at 1"
        )
    if len(table) and max(int(table.src.max()), int(table.dst.max())) >= n_host:
        raise EmunetError(f"the flows name hosts beyond the {n_host} of the connection matrix")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"Nodes {n_host}\nConnections {len(table)}\n")
        for src, dst, size, start, number in zip(
            table.src, table.dst, table.size_bytes, table.start_ps, table.id, strict=True
        ):
            label = "" if number == NONE else f" id {number}"
            file.write(
                f"{src}->{dst}{label} start {format_time_in(int(start), start_unit)} size {size}\n"
            )
