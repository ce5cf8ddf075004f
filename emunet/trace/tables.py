"""The tables of a run as pandas data frames, made when first asked for and then kept."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from emunet._core.rows import CLASS_COUNTERS
from emunet.errors import NO_VALUE, InputFileError
from emunet.plan.schema import ARRAYS, N_CLASS, SCALARS, Plan, contradictions, make_plan
from emunet.trace.schema import datasets_of
from emunet.trace.source import Source

if TYPE_CHECKING:
    import pandas as pd

TABLES = (
    "flows", "ports", "switches", "watermarks", "samples/queues", "samples/periodic", "packets",
    "pfc", "deadlocks", "unfinished",
)  # fmt: skip
"""Groups that are tables."""

FABRIC, LAST_HOP, HOST = "fabric", "last_hop", "host"
"""Role of a port: switch to switch, switch to host, host to switch."""

_BOUNDS = {
    "src": (0, "n_host"), "dst": (0, "n_host"), "node": (0, "n_node"), "port": (-1, "n_port"),
}  # fmt: skip
"""Least value of a column, and the count of the plan that it is below."""


class Tables:
    """What a run left, by table.

    Parameters
    ----------
    source : Source
        A trace file (`FileSource`) or a `MemoryTrace`.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; tables already made stay."""
        self.source.close()

    # values

    @property
    def name(self) -> str:
        """File as the user named it; empty for a run without one."""
        return self.source.name

    @property
    def scenario(self) -> str:
        """The scenario as it was run, YAML."""
        return "".join(self.source.texts("meta", "scenario"))

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Version, seed, digests, machine, build, engine, `complete` and `reason`."""
        return {**self.source.attributes("meta"), **self.source.attributes("")}

    @property
    def digest(self) -> str:
        """Digest of the results, 32 hex digits; empty if the run broke off."""
        return str(self.meta.get("digest", ""))

    @cached_property
    def totals(self) -> dict[str, int]:
        """Counters of the whole run; none if it was killed."""
        return self.source.attributes("totals")

    @cached_property
    def plan(self) -> Plan:
        """The Plan that was run, without the compiled congestion policy."""
        attributes = self.source.attributes("plan")
        arrays = {spec.name: self.source.read("plan", spec.name) for spec in ARRAYS}
        scalars = {spec.name: attributes[spec.name] for spec in SCALARS}
        try:
            plan = make_plan(
                arrays,
                scalars,
                self.source.texts("plan", "names"),
                congestion_digest=attributes["congestion_digest"],
            )
        except ValueError as error:
            raise self._damaged("/plan", str(error)) from None
        for name, problem in contradictions(plan):
            raise self._damaged(f"/plan/{name}", problem)
        return plan

    @property
    def warnings(self) -> list[str]:
        """What the user should know about the recorded outputs."""
        return self.source.texts("meta", "warnings")

    @property
    def tags(self) -> list[str]:
        """Names of the workload items."""
        return self.source.texts("meta", "tags")

    def columns(
        self, group: str, *names: str, start: int = 0, stop: int | None = None
    ) -> dict[str, np.ndarray]:
        """Raw columns of a table, all of one length; every column if none is named.

        A table that the run has not got gives empty columns.
        """
        n = self.source.length(group)
        stop = n if stop is None else min(stop, n)
        present = set(self.source.datasets(group))
        specs = [s for s in datasets_of(group) if not names or s.name in names]
        return {
            s.name: self.source.read(group, s.name, start, stop)
            if s.name in present
            else np.empty(0, s.dtype)
            for s in specs
        }

    def head(self, group: str, n: int = 10) -> pd.DataFrame:
        """First `n` rows of a table."""
        return self._frame(group, self.columns(group, stop=n))

    # tables

    @cached_property
    def flows(self) -> pd.DataFrame:
        """One row for each message, indexed by its number; with `slowdown`, see there."""
        return self._frame("flows", self.columns("flows"))

    @cached_property
    def ports(self) -> pd.DataFrame:
        """One row for each port, indexed by its global number: where it is, and its counters."""
        return self._frame("ports", self.columns("ports"))

    @cached_property
    def port_classes(self) -> pd.DataFrame:
        """One row for each port and priority class: exact watermarks."""
        import pandas as pd

        columns = self.columns("ports", *CLASS_COUNTERS)
        index = pd.MultiIndex.from_product(
            [range(self.source.length("ports")), range(N_CLASS)], names=["port", "klass"]
        )
        return pd.DataFrame(
            {name: column.reshape(-1) for name, column in columns.items()}, index=index
        )

    @cached_property
    def switches(self) -> pd.DataFrame:
        """One row for each switch, indexed by its node number."""
        return self._frame("switches", self.columns("switches"))

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Queue samples: a row when a port's bytes differ from its row before (0 at first)."""
        return self._frame("samples/queues", self.columns("samples/queues"))

    @cached_property
    def periodic(self) -> pd.DataFrame:
        """Watermarks of intervals: a row for each object that held a byte, at the interval's end.

        `object` says what `port` and `klass` are: see `emunet._core.rows.WATERMARK_OBJECTS`.
        """
        return self._frame("samples/periodic", self.columns("samples/periodic"))

    @cached_property
    def packets(self) -> pd.DataFrame:
        """Packet events."""
        return self._frame("packets", self.columns("packets"))

    @cached_property
    def pfc(self) -> pd.DataFrame:
        """XOFF and XON decisions of switch ports."""
        return self._frame("pfc", self.columns("pfc"))

    @cached_property
    def deadlocks(self) -> pd.DataFrame:
        """Circles of pauses: a row for each switch of each, in order."""
        return self._frame("deadlocks", self.columns("deadlocks"))

    @cached_property
    def unfinished(self) -> pd.DataFrame:
        """Messages without an end, and what each waited for."""
        return self._frame("unfinished", self.columns("unfinished"))

    @cached_property
    def port_roles(self) -> np.ndarray:
        """`fabric`, `last_hop` or `host` for each port."""
        plan = self.plan
        return np.where(
            plan.port_node < plan.n_host, HOST, np.where(plan.port_last_hop == 1, LAST_HOP, FABRIC)
        )

    def port_name(self, port: int) -> str:
        """``leaf0:3``: node and index within it."""
        node = int(self.plan.port_node[port])
        return f"{self.plan.names[node]}:{port - int(self.plan.node_port_start[node])}"

    def _damaged(self, part: str, problem: str) -> InputFileError:
        fix = "copy it again, or run the scenario again"
        return InputFileError(self.name, 0, 0, NO_VALUE, f"{part} is damaged: {problem}", fix)

    def _frame(self, group: str, columns: dict[str, np.ndarray]) -> pd.DataFrame:
        import pandas as pd

        columns = {name: column for name, column in columns.items() if column.ndim == 1}
        self._check_length(group, len(next(iter(columns.values()))))
        self.check_values(group, columns)
        frame = pd.DataFrame(columns)
        for spec in datasets_of(group):
            if spec.enum:
                frame[spec.name] = pd.Categorical.from_codes(columns[spec.name], list(spec.enum))
        if group == "flows":
            return self._flow_frame(frame)
        if group == "ports":
            return self._port_frame(frame)
        if group == "switches":
            plan = self.plan
            frame.insert(0, "name", plan.names[plan.n_host : plan.n_host + len(frame)])
            frame.index = pd.RangeIndex(plan.n_host, plan.n_host + len(frame), name="node")
        return frame

    def check_values(self, group: str, columns: dict[str, np.ndarray]) -> None:
        """Refuse codes without a name, and numbers of nodes, ports and classes that do not exist.

        Raises
        ------
        InputFileError
            The column, and the first such value.
        """
        for spec in datasets_of(group):
            if spec.name not in columns or not len(columns[spec.name]):
                continue
            column = columns[spec.name]
            least, below = 0, len(spec.enum)
            if spec.name in _BOUNDS:
                least, count = _BOUNDS[spec.name]
                below = self.source.attributes("plan")[count]
            elif spec.name == "klass":
                least, below = -1, N_CLASS
            elif spec.name == "tag":
                least, below = -1, 1 << 20
            elif not spec.enum:
                continue
            wrong = np.flatnonzero((column < least) | (column >= below))
            if len(wrong):
                at = int(wrong[0])
                said = f"entry {at} is {column[at]}, not {least} to {below - 1}"
                raise self._damaged(f"/{group}/{spec.name}", said)

    def _check_length(self, group: str, n_row: int) -> None:
        """Tables of ports and switches have no more rows than the plan has; fewer, if killed."""
        if group in ("ports", "switches"):
            plan = self.plan
            most = plan.n_port if group == "ports" else plan.n_node - plan.n_host
            if n_row > most:
                raise self._damaged(f"/{group}", f"{n_row} rows for {most} {group}")

    def _flow_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        frame = frame.set_index("flow")
        frame["background"] = frame["background"].astype(bool)
        frame["tag"] = pd.Categorical.from_codes(
            frame["tag"].to_numpy(), self._tag_names(frame["tag"].max())
        )
        frame["slowdown"] = slowdown(
            frame["fct_rx_ps"].to_numpy(), frame["ideal_fct_ps"].to_numpy()
        )
        return frame

    def _tag_names(self, last: int) -> list[str]:
        """A name for each tag up to `last`; equal names are told apart by a number."""
        names = self.tags
        names += [f"item {i}" for i in range(len(names), 0 if last != last else last + 1)]
        return [
            f"{name} ({names[:i].count(name) + 1})" if names.count(name) > 1 else name
            for i, name in enumerate(names)
        ]

    def _port_frame(self, counters: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        plan, n = self.plan, len(counters)
        node, peer = plan.port_node[:n], plan.port_node[plan.port_peer[:n]]
        names = np.array(plan.names, dtype=object)
        place = pd.DataFrame(
            {
                "node": names[node],
                "index": np.arange(n) - plan.node_port_start[node],
                "peer": names[peer],
                "role": pd.Categorical(self.port_roles[:n], categories=[FABRIC, LAST_HOP, HOST]),
                "rate_bps": plan.port_rate_bps[:n],
            }
        )
        frame = pd.concat([place, counters], axis=1)
        frame.index.name = "port"
        return frame


def slowdown(fct_rx_ps: np.ndarray, ideal_fct_ps: np.ndarray) -> np.ndarray:
    """``fct_rx_ps / ideal_fct_ps`` as float64, never clamped; NaN if not delivered."""
    known = (fct_rx_ps >= 0) & (ideal_fct_ps > 0)
    return np.divide(fct_rx_ps, ideal_fct_ps, out=np.full(len(fct_rx_ps), np.nan), where=known)


def open_tables(path: str | os.PathLike[str]) -> Tables:
    """Tables of a trace file."""
    from emunet.trace.reader import FileSource

    return Tables(FileSource(path))
