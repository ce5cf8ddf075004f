"""What a flow list becomes: columns in start order, and a description of what was found on the way.

Every reader fills a `FlowBuilder`; the checks that all dialects share (hosts, sizes, self-flows,
order) are here, once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from emunet.errors import NO_VALUE, InputFileError, did_you_mean
from emunet.ingest.flows_text import NumberProblem, Source, check_range, parse_time_ps, parse_whole
from emunet.units import INT64_MAX, format_size, format_time

N_CLASS = 8
NONE = -1
"""In `klass`, `id` and `tag`: the file says nothing."""

_NAME_BASE = 10**9
_N_FIRST = 3


@dataclass(frozen=True)
class Hosts:
    """The hosts that a flow list may name.

    Parameters
    ----------
    n_host : int
        Hosts are numbered 0 .. n_host-1.
    names : sequence of str
        Names of all nodes, hosts first; may be empty.
    """

    n_host: int
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Limits:
    """The largest message and the latest start that a flow list may hold.

    Parameters
    ----------
    most_bytes : int
    last_start_ps : int
    """

    most_bytes: int = INT64_MAX
    last_start_ps: int = INT64_MAX


NO_LIMITS = Limits()


@dataclass
class FlowFileInfo:
    """What was sniffed and found in a flow list; `lines` prints it."""

    file: str  # as the user named it
    dialect: str  # name in `emunet.ingest.flows_read.dialects`
    reason: str  # why this dialect was chosen
    compressed: bool  # gzip
    digest: str  # blake2b of the file, 32 hex digits
    size_unit: str = "bytes"
    start_unit: str = ""
    declared_count: int | None = None  # flows that the header announces; None: no header count
    found_count: int = 0  # flows taken
    declared_hosts: int | None = None  # hosts that the header announces
    n_host_used: int = 0  # different hosts that send or receive
    first_start_ps: int = 0
    last_start_ps: int = 0
    total_bytes: int = 0
    min_size_bytes: int = 0
    max_size_bytes: int = 0
    unsorted_count: int = 0  # flows that start before the one above them
    duplicate_count: int = 0  # flows equal to another in src, dst, size and start
    self_flow_count: int = 0  # counted in a survey only; otherwise an error
    unknown_host_count: int = 0  # ditto
    zero_size_count: int = 0  # ditto
    rounded_start_count: int = 0  # starts finer than 1 ps
    extra_token_count: int = 0  # words behind the declared flows
    first_flows: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The description, one fact a line."""
        declared = (
            "no count declared"
            if self.declared_count is None
            else f"{self.declared_count} declared"
        )
        units = f"sizes in {self.size_unit}, starts in {self.start_unit}"
        text = [
            f"file      {self.file}{' (gzip)' if self.compressed else ''}",
            f"dialect   {self.dialect}: {self.reason}",
            f"units     {units}",
            f"flows     {self.found_count} found, {declared}; {self.n_host_used} hosts used",
            f"starts    {format_time(self.first_start_ps)} to {format_time(self.last_start_ps)}",
            f"bytes     {self.total_bytes} in all ({format_size(self.total_bytes, 4)}), "
            f"sizes {self.min_size_bytes} to {self.max_size_bytes}",
            f"oddities  {self.unsorted_count} out of order, {self.duplicate_count} duplicates, "
            f"{self.self_flow_count} self-flows, {self.unknown_host_count} with unknown hosts, "
            f"{self.zero_size_count} of 0 bytes",
        ]
        text += [f"first     {flow}" for flow in self.first_flows]
        return text + [f"warning   {warning}" for warning in self.warnings]


@dataclass(frozen=True)
class FlowTable:
    """A flow list in start order (equal starts keep the order of the file).

    Attributes
    ----------
    src, dst : int32[n_flow]
        Host numbers.
    size_bytes, start_ps : int64[n_flow]
        Payload bytes; start time.
    klass : int16[n_flow]
        Priority class, -1 if the file says none.
    id : int64[n_flow]
        The file's own number of the flow, -1 if none; carried, not interpreted.
    tag : int32[n_flow]
        Index into `tags`, -1 if none.
    tags : list of str
        Tags in order of appearance.
    info : FlowFileInfo
        What was found.
    """

    src: np.ndarray
    dst: np.ndarray
    size_bytes: np.ndarray
    start_ps: np.ndarray
    klass: np.ndarray
    id: np.ndarray
    tag: np.ndarray
    tags: list[str]
    info: FlowFileInfo

    def __len__(self) -> int:
        return len(self.src)


class FlowBuilder:
    """Collects the flows of one file; every reader calls `host`, `size`, `start` and then `add`.

    Parameters
    ----------
    source : Source
        The file, for the place of errors.
    info : FlowFileInfo
        Counts are kept here.
    hosts : Hosts or None
        None: any host number is taken, names are numbered by appearance.
    survey : bool
        Count self-flows, unknown hosts and empty flows and leave them out, instead of raising.
    limits : Limits
        What is larger or later is refused.
    """

    def __init__(
        self,
        source: Source,
        info: FlowFileInfo,
        hosts: Hosts | None,
        survey: bool,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.source, self.info, self.hosts, self.survey = source, info, hosts, survey
        self.limits = limits
        self.tags: dict[str, int] = {}
        self._numbers = (
            {name: i for i, name in enumerate(hosts.names[: hosts.n_host])} if hosts else {}
        )
        self._switches = frozenset(hosts.names[hosts.n_host :]) if hosts else frozenset()
        self._n_name = 0
        self._src, self._dst, self._tag = array("i"), array("i"), array("i")
        self._size, self._start, self._id = array("q"), array("q"), array("q")
        self._klass = array("h")

    def __len__(self) -> int:
        return len(self._src)

    def host(self, token: str, index: int) -> int:
        """Number of the host that a token names; -1 in a survey if there is none."""
        number = self._numbers.get(token)
        return self._resolve(token, index) if number is None else number

    def _resolve(self, token: str, index: int) -> int:
        # a number that names a switch (nodes of a topology file) is no host number
        is_number = token.isascii() and token.isdigit() and len(token) < 10
        if is_number and token not in self._switches:
            number = int(token)
            if self.hosts is None or number < self.hosts.n_host:
                self._numbers[token] = number
                return number
        elif self.hosts is None and token and token[0] not in "+-." and not token.isdigit():
            self._numbers[token] = _NAME_BASE + self._n_name
            self._n_name += 1
            return self._numbers[token]
        if self.survey and token:
            return NONE
        names = self.hosts.names[: self.hosts.n_host] if self.hosts else ()
        last = (
            f"hosts are 0 to {self.hosts.n_host - 1}" if self.hosts else "hosts are numbers from 0"
        )
        also = f" or names such as {names[0]}" if names else ""
        fix = did_you_mean(token, names) if token and not token[0].isdigit() else ""
        if token in self._switches:
            self.source.fail(index, "is a switch, not a host", last)
        self.source.fail(
            index, "is not a host" if token else "the host is missing", fix or last + also
        )

    def size(self, token: str, index: int, scale: int = 1) -> int:
        """Bytes of a size token in units of `scale` bytes."""
        try:
            if token.isdigit() and token.isascii() and len(token) < 40:
                size_bytes = check_range(int(token) * scale, "a size", "bytes")
            else:
                size_bytes = parse_whole(token, scale, "a size", "bytes")
        except NumberProblem as bad:
            self.source.fail(index, bad.problem if token else "the size is missing", bad.fix)
        if size_bytes > self.limits.most_bytes:
            most = self.limits.most_bytes
            self.source.fail(
                index,
                f"is more than the largest message, {most} bytes (2^32 - 1 packets)",
                f"write at most {most // scale}, or split it into several flows",
            )
        return size_bytes

    def start(self, token: str, index: int, scale_ps: int) -> int:
        """Picoseconds of a time token in units of `scale_ps`; counts what had to be rounded."""
        try:
            if token.isdigit() and token.isascii() and len(token) < 40:
                start_ps, rounded = check_range(int(token) * scale_ps, "a time", "ps"), False
            else:
                start_ps, rounded = parse_time_ps(token, scale_ps)
        except NumberProblem as bad:
            self.source.fail(index, bad.problem if token else "the start time is missing", bad.fix)
        if start_ps > self.limits.last_start_ps:
            last = self.limits.last_start_ps
            self.source.fail(
                index,
                f"is later than the last start of a run, {format_time(last)}",
                f"write at most {last // scale_ps}, or move the flows with start",
            )
        self.info.rounded_start_count += rounded
        return start_ps

    def klass(self, token: str, index: int) -> int:
        """Priority class of a token."""
        if len(token) == 1 and token in "01234567":
            return int(token)
        self.source.fail(index, "is not a priority class", f"classes are 0 to {N_CLASS - 1}")

    def number(self, token: str, index: int, what: str) -> int:
        """A plain non-negative integer that is carried along."""
        if token.isascii() and token.isdigit() and len(token) < 20 and int(token) <= INT64_MAX:
            return int(token)
        self.source.fail(index, f"is not {what}", "a whole number from 0 is expected")

    def tag(self, token: str) -> int:
        """Index of a tag, new or known; -1 for an empty one."""
        return self.tags.setdefault(token, len(self.tags)) if token else NONE

    def add(
        self,
        src: int,
        dst: int,
        size_bytes: int,
        start_ps: int,
        *,
        klass: int = NONE,
        id: int = NONE,
        tag: int = NONE,
        at: tuple[int, int] = (1, 2),
        zero_is: str = "is a flow of 0 bytes",
        zero_fix: str = "a flow has at least 1 byte; delete the line or give it a size",
    ) -> None:
        """Take one flow; `at` holds the token numbers of destination and size, for errors."""
        if src == dst or size_bytes == 0 or src < 0 or dst < 0:
            if not self.survey:
                if src == dst:
                    self.source.fail(
                        at[0],
                        "is the source as well: a flow to itself",
                        "a flow joins two different hosts; delete the line",
                    )
                self.source.fail(at[1], zero_is, zero_fix)
            unknown = src < 0 or dst < 0
            self.info.unknown_host_count += unknown
            self.info.self_flow_count += not unknown and src == dst
            self.info.zero_size_count += size_bytes == 0
            return
        if len(self._src) < _N_FIRST:
            self.info.first_flows.append(self._say(src, dst, size_bytes, start_ps))
        self._src.append(src)
        self._dst.append(dst)
        self._size.append(size_bytes)
        self._start.append(start_ps)
        self._klass.append(klass)
        self._id.append(id)
        self._tag.append(tag)

    def _say(self, src: int, dst: int, size_bytes: int, start_ps: int) -> str:
        """One flow in emunet's units."""
        names = list(self._numbers) if max(src, dst) >= _NAME_BASE else []
        shown = [
            next(n for n in names if self._numbers[n] == h) if h >= _NAME_BASE else str(h)
            for h in (src, dst)
        ]
        return f"{shown[0]} -> {shown[1]}  {size_bytes} bytes at {format_time(start_ps)}"

    def last_start_ps(self) -> int:
        """Latest start taken so far, 0 without flows."""
        return max(self._start, default=0)

    def finish(self) -> FlowTable:
        """The flows in start order; raises `InputFileError` if there are none."""
        info = self.info
        if not self._src and not self.survey:
            raise InputFileError(
                self.source.name, 0, 0, NO_VALUE, "holds no flows", "an empty workload is not run"
            )
        columns: dict[str, np.ndarray] = {
            "src": _column(self._src, np.int32),
            "dst": _column(self._dst, np.int32),
            "size_bytes": _column(self._size, np.int64),
            "start_ps": _column(self._start, np.int64),
            "klass": _column(self._klass, np.int16),
            "id": _column(self._id, np.int64),
            "tag": _column(self._tag, np.int32),
        }
        start_ps = columns["start_ps"]
        info.unsorted_count = int(np.count_nonzero(start_ps[1:] < start_ps[:-1]))
        if info.unsorted_count:
            order = np.argsort(start_ps, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        self._describe(columns)
        return FlowTable(**columns, tags=list(self.tags), info=info)

    def _describe(self, columns: dict[str, np.ndarray]) -> None:
        """Fill counts and warnings of `info` from the sorted columns."""
        info, size, start = self.info, columns["size_bytes"], columns["start_ps"]
        info.found_count = len(size)
        if len(size):
            info.first_start_ps, info.last_start_ps = int(start[0]), int(start[-1])
            info.total_bytes = (int((size >> 32).sum()) << 32) + int((size & 0xFFFFFFFF).sum())
            info.min_size_bytes, info.max_size_bytes = int(size.min()), int(size.max())
            info.n_host_used = len(np.union1d(columns["src"], columns["dst"]))
            info.duplicate_count = _count_duplicates(columns)
        if info.unsorted_count:
            info.warnings.append(
                f"not in order of start: {info.unsorted_count} of {len(size)} flows start before "
                "the one above them; sorted (equal starts keep the order of the file)"
            )
        if info.duplicate_count:
            info.warnings.append(
                f"flows that repeat another (hosts, size and start): {info.duplicate_count}; kept"
            )
        if info.rounded_start_count:
            info.warnings.append(
                f"starts finer than 1 ps: {info.rounded_start_count}; rounded to the nearest"
            )


def _column(values: array, dtype: type) -> np.ndarray:
    """A collected column as an array over the same memory."""
    return np.frombuffer(values, dtype) if values else np.empty(0, dtype)


def _count_duplicates(columns: dict[str, np.ndarray]) -> int:
    """Flows equal to an earlier one in src, dst, size and start."""
    keys = [columns[name] for name in ("size_bytes", "dst", "src", "start_ps")]
    order = np.lexsort(keys)
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        ordered = key[order]
        same &= ordered[1:] == ordered[:-1]
    return int(np.count_nonzero(same))
