"""What every trace does with the output of an engine; where it goes is up to its subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emunet.plan.schema import Plan
from emunet.trace.digest import FLOW_BLOCK, ResultDigest
from emunet.trace.flows import Columns, FlowResults
from emunet.trace.schema import (
    DEADLOCK_COLUMNS,
    MESSAGE_COLUMNS,
    PORT_COLUMNS,
    RESULT_COLUMNS,
    ROW_TABLES,
    SCHEMA,
    SWITCH_COLUMNS,
    UNFINISHED_COLUMNS,
    WATERMARK_COLUMNS,
    Dataset,
)

PacketFilter = Callable[[np.ndarray], np.ndarray]
"""Takes event rows (`EVENT_ROW`), gives a boolean mask of those to keep."""

_SUBMITTED = ("src", "dst", "size_bytes", "start_ps", "klass", "background", "tag")


@dataclass(frozen=True)
class WatermarkTimes:
    """When watermarks are sampled and cleared; see the engine's parameters of these names."""

    measure_every_ps: int = 0
    periodic_ps: int = 0
    clear_user_ps: Sequence[int] = ()
    clear_persistent_ps: Sequence[int] = ()

    def past(self, end_ps: int) -> dict[str, int]:
        """Attributes of `/watermarks` of a run that ended then."""
        found = {"every_ps": self.measure_every_ps}
        for kind, times in (("user", self.clear_user_ps), ("persistent", self.clear_persistent_ps)):
            found[f"{kind}_cleared_ps"] = max((t for t in times if t < end_ps), default=0)
        return found


class Recorder(ABC):
    """Takes what a run produces: `begin`, then `append_messages` and `append_rows`, then `finish`.

    Attributes
    ----------
    digest : str
        Digest of the results, 32 hex digits; empty before `finish`.
    warnings : list of str
        What the user should know about the outputs; complete after `finish`.
    folder : pathlib.Path
        Where the trace is; the present one for a trace in memory.
    """

    def __init__(self) -> None:
        self.folder = Path()
        self.digest = ""
        self.warnings: list[str] = []
        self._result = ResultDigest()
        self._flows = FlowResults(self._final_block)
        self._recorded: dict[str, int] = {}
        self._packet_filter: PacketFilter | None = None
        self._packet_limit: int | None = None
        self._n_cut = 0
        self._times = WatermarkTimes()

    # what a recorder is told

    def begin(
        self,
        plan: Plan,
        scenario_text: str,
        meta: Mapping[str, Any],
        tags: Sequence[str] = (),
        *,
        workload: Sequence[str] = (),
        queues_every_ps: int = 0,
        queues_ports: str = "all",
        packets: bool = False,
        packet_filter: PacketFilter | None = None,
        packet_limit: int | None = None,
        pfc: bool = True,
        watermarks: WatermarkTimes | None = None,
    ) -> None:
        """Declare the outputs and store everything that is known before the run.

        Parameters
        ----------
        plan : Plan
            Stored whole.
        scenario_text : str
            The scenario as it is run, YAML, overrides applied.
        meta : mapping
            `version` at least; text, numbers, booleans, lists of them, and mappings of those
            (`machine`, `build`).
        tags : sequence of str
            Names of the workload items; column `tag` of the messages points into it.
        workload : sequence of str
            What each workload item is.
        queues_every_ps : int
            Sampling period; 0: queues are not sampled.
        queues_ports : {"all", "fabric", "last_hop"}
            Which ports are sampled.
        packets : bool
            Record packet events.
        packet_filter : callable, optional
            Mask of the event rows to keep.
        packet_limit : int, optional
            Keep at most so many packet events, the first in time.
        pfc : bool
            Record XOFF and XON decisions.
        watermarks : WatermarkTimes, optional
            Samples and clears.
        """
        self._times = watermarks or WatermarkTimes()
        wanted = {
            "queues": queues_every_ps > 0,
            "events": packets,
            "pfc": pfc,
            "periodic": self._times.periodic_ps > 0,
        }
        self._recorded = {key: 0 for key, on in wanted.items() if on}
        self._packet_filter, self._packet_limit = packet_filter, packet_limit
        self._open_books(plan, meta)
        self._texts("meta", "scenario", scenario_text)
        self._texts("meta", "tags", list(tags))
        self._texts("meta", "workload", list(workload))
        self._store_plan(plan)
        self._table("flows", MESSAGE_COLUMNS, FLOW_BLOCK)
        self._table("flows/results", RESULT_COLUMNS, FLOW_BLOCK)
        for key in self._recorded:
            self._table(ROW_TABLES[key][0], ROW_TABLES[key][1])
        self._table("deadlocks", DEADLOCK_COLUMNS, FLOW_BLOCK)
        if "queues" in self._recorded:
            self._attributes("samples/queues", {"every_ps": queues_every_ps, "ports": queues_ports})
        if "periodic" in self._recorded:
            self._attributes("samples/periodic", {"every_ps": self._times.periodic_ps})

    def append_messages(
        self, first_id: int, messages: Any, base_rtt_ps: np.ndarray, ideal_fct_ps: np.ndarray
    ) -> None:
        """Take messages ``first_id`` and on, which follow those taken before.

        Parameters
        ----------
        first_id : int
            Number of the first.
        messages : Messages
            Columns `src`, `dst`, `size_bytes`, `start_ps`, `klass`, `background`, `tag` as items
            or attributes.
        base_rtt_ps, ideal_fct_ps : int64[n], ps
            Of each message in an empty network.
        """
        if first_id != self._flows.n_flow:
            raise ValueError(f"message {first_id} follows message {self._flows.n_flow - 1}")
        columns = {name: np.asarray(_field(messages, name)) for name in _SUBMITTED}
        n = len(columns["src"])
        columns["flow"] = np.arange(first_id, first_id + n, dtype=np.int64)
        columns["base_rtt_ps"], columns["ideal_fct_ps"] = (
            np.asarray(base_rtt_ps),
            np.asarray(ideal_fct_ps),
        )
        self._append("flows", {s.name: columns[s.name].astype(s.dtype) for s in MESSAGE_COLUMNS})
        self._flows.add(columns["start_ps"])

    def append_rows(self, drained: Mapping[str, np.ndarray]) -> None:
        """Take what ``Engine.drain()`` gave: rows that follow those taken before."""
        self._flows.update(drained["flows"])
        for key in self._recorded:
            rows = drained[key]
            if key == "events":
                rows = self._kept(rows)
            if not len(rows):
                continue
            group, columns, renamed = ROW_TABLES[key]
            self._result.add_rows(key, rows)
            self._append(
                group, {s.name: rows[renamed.get(s.name, s.name)].astype(s.dtype) for s in columns}
            )
            self._recorded[key] += len(rows)

    def append_deadlocks(self, found: np.ndarray) -> None:
        """Take circles of pauses that have been found: DEADLOCK_ROW array."""
        if len(found):
            self._append(
                "deadlocks", {s.name: found[s.name].astype(s.dtype) for s in DEADLOCK_COLUMNS}
            )

    def finish(
        self,
        ports: Mapping[str, np.ndarray],
        switches: Mapping[str, np.ndarray],
        totals: Mapping[str, int],
        engine_meta: Mapping[str, Any],
        *,
        complete: bool,
        reason: str,
        unfinished: np.ndarray,
        watermarks: np.ndarray,
    ) -> list[str]:
        """Take the counters of the end and close the books.

        Parameters
        ----------
        ports, switches, totals
            As ``Engine.ports()``, ``.switches()`` and ``.totals()`` give them.
        engine_meta : mapping
            `now_ps`, `wall_s`, `cpu_s`, `threads`, `peak_rss_bytes` at least; may hold mappings
            (`high_water`).
        complete : bool
            The run came to its natural end, or to the `until` it was given.
        reason : str
            One of `REASONS`, or "interrupted".
        unfinished : UNFINISHED_ROW array
            What messages without an end wait for.
        watermarks : WATERMARK_ROW array
            As ``Engine.watermarks()`` gives them.

        Returns
        -------
        list of str
            Warnings: declared outputs that got no rows, rows cut by a limit.
        """
        self._flows.finish()
        for specs, values in ((PORT_COLUMNS, ports), (SWITCH_COLUMNS, switches)):
            for spec in specs:
                self._array(spec.group, spec.name, np.asarray(values[spec.name]).astype(spec.dtype))
        self._attributes("totals", {name: int(value) for name, value in totals.items()})
        for name, specs, table in (
            ("unfinished", UNFINISHED_COLUMNS, unfinished),
            ("watermarks", WATERMARK_COLUMNS, watermarks),
        ):
            self._table(name, specs, FLOW_BLOCK)
            self._append(name, {s.name: table[s.name].astype(s.dtype) for s in specs})
        self._attributes("watermarks", self._times.past(engine_meta["now_ps"]))
        self._result.add_counters(ports, switches, totals)
        self._result.add_watermarks(watermarks)
        self.digest = self._result.hexdigest()
        self.warnings = self._warn()
        self._texts("meta", "warnings", self.warnings)
        self._attributes(
            "meta", {f"digest_{name}": part for name, part in self._result.parts().items()}
        )
        self._attributes("meta", {"engine": engine_meta})
        self._attributes("", {"complete": complete, "reason": reason, "digest": self.digest})
        return self.warnings

    # helpers

    def _open_books(self, plan: Plan, meta: Mapping[str, Any]) -> None:
        self._attributes(
            "",
            {
                "schema": SCHEMA,
                "emunet_version": str(meta.get("version", "")),
                "seed": int(plan.scalars["seed"]),
                "complete": False,
                "reason": "running",
                "digest": "",
            },
        )
        self._attributes("meta", {**meta, "plan_digest": plan.digest})

    def _store_plan(self, plan: Plan) -> None:
        self._attributes("plan", {**plan.scalars, "congestion_digest": plan.congestion_digest})
        for name, array in plan.arrays.items():
            self._array("plan", name, array)
        self._texts("plan", "names", plan.names)

    def _kept(self, rows: np.ndarray) -> np.ndarray:
        """Event rows that pass the filter, as far as the limit allows."""
        if self._packet_filter is not None and len(rows):
            rows = rows[self._packet_filter(rows)]
        if self._packet_limit is None:
            return rows
        room = max(0, self._packet_limit - self._recorded["events"])
        self._n_cut += max(0, len(rows) - room)
        return rows[:room]

    def _warn(self) -> list[str]:
        said = []
        if not self._flows.n_flow:
            said.append("flows: no message was sent")
        if self._recorded.get("queues") == 0:
            said.append(
                "record.queues: no rows: no sampled port held a byte at any sampling instant"
            )
        if self._recorded.get("events") == 0:
            why = (
                "no packet event passed the filter"
                if self._packet_filter
                else "there was no packet event"
            )
            said.append(f"record.packets: no rows: {why}")
        if self._n_cut:
            said.append(
                f"record.packets: {self._n_cut:,} rows beyond the limit of {self._packet_limit:,} "
                "were left out"
            )
        return said

    def _final_block(self, block: int, columns: Columns) -> None:
        self._result.add_flows(block, columns)
        self._place("flows/results", block * FLOW_BLOCK, columns)

    # where it goes

    @abstractmethod
    def abandon(self) -> None:
        """Keep what there is, as after Ctrl-C; nothing follows."""

    @abstractmethod
    def _attributes(self, group: str, values: Mapping[str, Any]) -> None:
        """Set attributes of a group; a mapping among the values is a subgroup."""

    @abstractmethod
    def _texts(self, group: str, name: str, value: str | list[str]) -> None:
        """Store one text or a list of texts."""

    @abstractmethod
    def _array(self, group: str, name: str, value: np.ndarray) -> None:
        """Store a whole array."""

    @abstractmethod
    def _table(self, group: str, columns: Sequence[Dataset], chunk: int = 65536) -> None:
        """Create a table of growing columns."""

    @abstractmethod
    def _append(self, group: str, columns: Columns) -> None:
        """Add rows at the end of a table."""

    @abstractmethod
    def _place(self, group: str, first: int, columns: Columns) -> None:
        """Write rows ``first`` and on of a table."""


def _field(messages: Any, name: str) -> Any:
    if isinstance(messages, (np.ndarray, Mapping)):
        return messages[name]
    return getattr(messages, name)
