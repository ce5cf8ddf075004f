"""Messages as columns, and what is known of one element of a workload before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from emunet.errors import NO_VALUE, Problems
from emunet.scenario.fields import MOST_PACKETS


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages in the order (start, order of making).

    Attributes
    ----------
    src, dst : int32[n]
        Host numbers.
    size_bytes, start_ps : int64[n]
        Payload; start.
    klass : uint8[n]
        Priority class.
    background : bool[n]
        Counted apart at the end; does not make a run incomplete.
    tag : int32[n]
        Index into the stream's `tags`.
    first_id : int
        Number of the first message; the others follow.
    """

    src: np.ndarray
    dst: np.ndarray
    size_bytes: np.ndarray
    start_ps: np.ndarray
    klass: np.ndarray
    background: np.ndarray
    tag: np.ndarray
    first_id: int = 0

    def __len__(self) -> int:
        return len(self.src)

    @property
    def ids(self) -> np.ndarray:
        """int64[n]: number of each message."""
        return np.arange(self.first_id, self.first_id + len(self), dtype=np.int64)

    def take(self, index: np.ndarray | slice, first_id: int = 0) -> Messages:
        """Some of the messages, in the order of `index`."""
        return _from({name: getattr(self, name)[index] for name in COLUMNS}, first_id)


DTYPES: dict[str, type] = {
    "src": np.int32,
    "dst": np.int32,
    "size_bytes": np.int64,
    "start_ps": np.int64,
    "klass": np.uint8,
    "background": np.bool_,
    "tag": np.int32,
}
COLUMNS = tuple(DTYPES)


def make_messages(**columns: np.ndarray | int | bool) -> Messages:
    """Messages from columns of any integer type; single values stand for all rows."""
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(columns[name])) for name in COLUMNS))
    return _from(dict(zip(COLUMNS, arrays, strict=True)))


def concatenate(parts: Sequence[Messages]) -> Messages:
    """All messages of `parts`, in that order."""
    if len(parts) == 1:
        return parts[0]
    none = [np.empty(0)]
    return _from(
        {name: np.concatenate([getattr(p, name) for p in parts] or none) for name in COLUMNS}
    )


def _from(columns: Mapping[str, np.ndarray], first_id: int = 0) -> Messages:
    typed: dict[str, np.ndarray] = {
        name: np.ascontiguousarray(columns[name], dtype=DTYPES[name]) for name in COLUMNS
    }
    return Messages(
        typed["src"],
        typed["dst"],
        typed["size_bytes"],
        typed["start_ps"],
        typed["klass"],
        typed["background"],
        typed["tag"],
        first_id,
    )


@dataclass
class Element:
    """One element of a workload, ready to be generated; each time it gives the same messages.

    Attributes
    ----------
    kind, tag : str
        Generator, and the name under which its messages are reported.
    blocks : callable
        ``blocks(rows)`` iterates over `Messages` in start order, in pieces of about `rows`; `tag`
        counts within `tags`.
    total : int or None
        Messages, if that is certain before generating.
    expected_messages, expected_bytes, expected_packets, expected_slot_bytes : float
        Means (exact where `total` is known): messages, payload, data packets, bytes on the wire
        without ACKs.
    span_ps : int
        From the first possible start to the last.
    start_ps : int
        The first possible start.
    starts_ps : int64[total], optional
        Every start in order, where they are known; otherwise they are spread evenly.
    tags : list of str
        Names that its messages' `tag` counts; the first is the element's own.
    largest_bytes : dict of int to int
        Largest message of each priority class.
    facts : dict of str to str
        What a user may want to see before the run: mean size, load, dialect.
    warnings : list of str
        What was odd in its input.
    """

    kind: str
    tag: str
    blocks: Callable[[int], Iterator[Messages]]
    total: int | None
    expected_messages: float
    expected_bytes: float
    expected_packets: float
    expected_slot_bytes: float
    span_ps: int
    start_ps: int = 0
    starts_ps: np.ndarray | None = None
    tags: list[str] = field(default_factory=list)
    largest_bytes: dict[int, int] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """One line: sizes, loads, pattern, file."""
        said = "; ".join(f"{name} {text}" for name, text in self.facts.items())
        name = "" if self.tag == self.kind else f" ({self.tag})"
        return f"{self.kind}{name}: {said}"

    def part_before(self, end_ps: int | None) -> float:
        """Part of its messages that start before a time; None: the end of time."""
        if end_ps is None:
            return 1.0
        if self.starts_ps is not None:
            return int(np.searchsorted(self.starts_ps, end_ps)) / max(1, len(self.starts_ps))
        if not self.span_ps:
            return float(self.start_ps < end_ps)
        return min(1.0, max(0.0, (end_ps - self.start_ps) / self.span_ps))


@dataclass(frozen=True)
class Context:
    """What a generator may know beside its own options.

    Attributes
    ----------
    index : int
        Position in the workload.
    path : str
        JSON path of the options, for errors: ``$.workload[2].poisson``.
    seed : int
        Of the scenario.
    n_host : int
    names : sequence of str
        Node names, hosts first.
    host_rate_bps : int64[n_host]
        Sum of the rates of a host's ports.
    mtu_bytes : int
    klass : int
        Priority class of the element's messages.
    klass_given : bool
        The element names its class itself.
    background : bool
    tag : str
    until_ps : int or None
        End of the scenario.
    base_dir : pathlib.Path
        Where relative paths begin.
    problems : Problems
        Where errors are noted.
    """

    index: int
    path: str
    seed: int
    n_host: int
    names: Sequence[str]
    host_rate_bps: np.ndarray
    mtu_bytes: int
    klass: int
    klass_given: bool
    background: bool
    tag: str
    until_ps: int | None
    base_dir: Path
    problems: Problems

    def host(self, key: str, value: object) -> int:
        """Number of the host that an option names; -1 after noting the problem."""
        return self.problems.host(f"{self.path}.{key}", value, self.names, self.n_host)

    def host_list(self, key: str, values: Sequence[object] | None) -> np.ndarray:
        """int64[n]: hosts that an option lists; all hosts for None."""
        if values is None:
            return np.arange(self.n_host, dtype=np.int64)
        found = [self.host(f"{key}[{i}]", value) for i, value in enumerate(values)]
        for i, host in enumerate(found):
            if host >= 0 and host in found[:i]:
                self.note(
                    f"{key}[{i}]",
                    values[i],
                    f"names host {host} a second time",
                    fix="name each host once",
                )
        return np.array(found, dtype=np.int64)

    def note(self, key: str, value: object, problem: str, allowed: str = "", fix: str = "") -> None:
        """Note a problem with an option."""
        self.problems.add(f"{self.path}.{key}" if key else self.path, value, problem, allowed, fix)

    @property
    def most_bytes(self) -> int:
        """The largest message that the engine takes."""
        return MOST_PACKETS * self.mtu_bytes

    def end_ps(self, until_ps: int | None, start_ps: int) -> int:
        """End of a generator, its own or the scenario's; notes a problem if there is none."""
        end = self.until_ps if until_ps is None else until_ps
        if end is None:
            self.note(
                "until",
                NO_VALUE,
                "is needed: nothing else ends these arrivals",
                fix="add until, such as until: 2ms",
            )
            return start_ps + 1
        if end <= start_ps:
            shown: object = NO_VALUE if until_ps is None else f"{end}ps"
            self.note(
                "until",
                shown,
                f"is not after the start, {start_ps} ps",
                fix="the end comes after the start",
            )
            return start_ps + 1
        return end
