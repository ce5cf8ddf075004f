"""Checks of a finished run: its books balance, and a second run gives the same results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from emunet._core.rows import (
    EVENT_ROW,
    LOSSES,
    PERIODIC_ROW,
    PFC_ROW,
    QUEUE_ROW,
    REASONS,
    STUCK,
    WATERMARK_ROW,
)
from emunet.trace.digest import FLOW_BLOCK, ResultDigest
from emunet.trace.schema import (
    RESULT_COLUMNS,
    ROW_TABLES,
    STATUS_DELIVERED,
    STATUS_FAILED,
    STATUS_FINISHED,
    STATUS_NAMES,
    STATUS_UNFINISHED,
)

if TYPE_CHECKING:
    from emunet.progress import Progress
    from emunet.trace.tables import Tables

ROW_TYPES = {
    "queues": QUEUE_ROW, "events": EVENT_ROW, "pfc": PFC_ROW, "periodic": PERIODIC_ROW
}  # fmt: skip
ROW_BLOCK = 1 << 18
"""Rows looked at together."""

ROUNDING_PS = 1000
"""A completion may be so much earlier than its ideal time.

Where a bit does not last whole picoseconds, the carry of semantics 1 can make a frame that follows
another without a gap a picosecond shorter at each hop than the same frame alone; paths have fewer
hops than this.
"""


@dataclass
class Verification:
    """What `verify` found.

    Attributes
    ----------
    digest, digest_again : str
        Of the file, and of the run made now; the latter is empty if there was none.
    problems : list of str
        One line each; empty if all is well.
    stuck : bool
        The run ended incomplete: nothing could finish its last messages.
    interrupted : bool
        The second run was interrupted, and nothing compared.
    """

    digest: str
    digest_again: str = ""
    problems: list[str] = field(default_factory=list)
    stuck: bool = False
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Nothing was found wrong."""
        return not self.problems

    def lines(self) -> list[str]:
        """The finding as text."""
        if self.problems:
            return self.problems
        said = ["the books balance"]
        if self.stuck:
            said.append("the run got stuck with messages unfinished")
        if self.digest_again:
            said.append(f"running it again gives the same results: {self.digest_again}")
        return said


def verify(
    path: str | Path,
    *,
    threads: int = 1,
    again: bool = True,
    progress: Progress | None = None,
) -> Verification:
    """Check a trace from the file alone, then run its scenario again and compare all results.

    Parameters
    ----------
    path : path
        Trace file.
    threads : int
        Threads of the second run.
    again : bool
        Whether to run the scenario again. A run that was broken off cannot be compared; one that
        got stuck can, for it must get stuck again.
    progress : Progress, optional
        Of the second run.

    Raises
    ------
    InputFileError
        Not a trace, or cut short.
    """
    from emunet.trace.tables import open_tables

    with open_tables(path) as tables:
        found = Verification(tables.digest, problems=books(tables))
        found.stuck = tables.meta.get("reason") == REASONS[STUCK]
        if not tables.meta.get("complete") and not found.stuck:
            found.problems.append(f"the run was broken off: {tables.meta.get('reason')}")
        elif again:
            _compare(tables, found, threads, progress)
    return found


def _compare(tables: Tables, found: Verification, threads: int, progress: Progress | None) -> None:
    """Run the scenario of a trace again and note what differs."""
    from emunet.analysis.difference import differences
    from emunet.run import run
    from emunet.scenario import parse_scenario

    base_dir = Path(tables.name).resolve().parent / str(tables.meta.get("base_dir", "."))
    scenario = parse_scenario(tables.scenario, base_dir=base_dir, name=tables.name)
    result = run(scenario, threads=threads, progress=progress)
    if result.reason == "interrupted":
        found.interrupted = True
        found.problems.append("the second run was interrupted: not compared")
        return
    found.digest_again = result.digest
    if result.digest != tables.digest:
        found.problems.append(f"the results differ: digest {tables.digest}, now {result.digest}")
        parts = sorted(name for name in result.meta if name.startswith("digest_"))
        different = [
            name.removeprefix("digest_")
            for name in parts
            if result.meta[name] != tables.meta.get(name)
        ]
        found.problems.append(f"parts whose digests differ: {', '.join(different) or 'none'}")
    if result.meta["plan_digest"] != tables.meta["plan_digest"]:
        found.problems.append(
            "the Plan differs: another version of emunet, or an input file has changed"
        )
    for name in ("complete", "reason"):
        if result.meta[name] != tables.meta[name]:
            found.problems.append(f"{name} is {tables.meta[name]}, again {result.meta[name]}")
    found.problems += differences(tables, result)


def books(tables: Tables) -> list[str]:
    """Laws that a trace breaks, from the file alone: totals against totals, ports and flows."""
    totals = tables.totals
    if not totals:
        return ["the file has no totals: the run was killed"]
    return [
        *conservation(totals),
        *_port_books(tables, totals),
        *_flow_books(tables, totals),
        *_changed_parts(tables),
    ]


def _changed_parts(tables: Tables) -> list[str]:
    """Parts of the results that are not those whose digest the run wrote."""
    if not tables.digest:
        return []
    now = stored_results(tables)
    changed = [
        f"{name}: not what the run wrote: its digest was {tables.meta.get(f'digest_{name}')}, "
        f"that of the file's data is {part}"
        for name, part in now.parts().items()
        if part != tables.meta.get(f"digest_{name}")
    ]
    if not changed and now.hexdigest() != tables.digest:
        changed.append(f"the digest of the file is {tables.digest}, not {now.hexdigest()}")
    if tables.plan.digest != tables.meta.get("plan_digest"):
        changed.append(
            f"plan: not what the run wrote: its digest was {tables.meta.get('plan_digest')}, "
            f"that of the file's data is {tables.plan.digest}"
        )
    return changed


def stored_results(tables: Tables) -> ResultDigest:
    """The digest of what a trace holds, from its data alone, a block at a time."""
    results = ResultDigest()
    names = [spec.name for spec in RESULT_COLUMNS]
    n_flow = tables.source.length("flows")
    for block in range(-(-n_flow // FLOW_BLOCK)):
        first = block * FLOW_BLOCK
        results.add_flows(
            block, tables.columns("flows", *names, start=first, stop=first + FLOW_BLOCK)
        )
    for key, (group, _, renamed) in ROW_TABLES.items():
        n_row = tables.source.length(group)
        for first in range(0, n_row, ROW_BLOCK):
            stop = min(first + ROW_BLOCK, n_row)
            results.add_rows(
                key, stored_rows(tables, group, ROW_TYPES[key], renamed, first, stop)
            )
    results.add_watermarks(stored_rows(tables, "watermarks", WATERMARK_ROW))
    results.add_counters(tables.columns("ports"), tables.columns("switches"), tables.totals)
    return results


def stored_rows(
    tables: Tables,
    group: str,
    dtype: np.dtype,
    renamed: Mapping[str, str] | None = None,
    start: int = 0,
    stop: int | None = None,
) -> np.ndarray:
    """Rows of a table as an engine hands them out; `renamed`: fields of columns of other names."""
    columns = tables.columns(group, start=start, stop=stop)
    rows = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, column in columns.items():
        rows[(renamed or {}).get(name, name)] = column
    return rows


def conservation(totals: Mapping[str, int]) -> list[str]:
    """Laws that the totals of a run break.

    Every packet that was sent has been delivered or lost, is on a link, or waits in a queue.
    """
    sent = sum(totals[f"{kind}_packets"] for kind in ("data", "ack", "nack", "cnp"))
    found = sum(
        totals[f"{place}_packets"]
        for place in ("delivered", *LOSSES, "in_flight", "queued")
    )
    broken = []
    if sent != found:
        broken.append(
            f"{sent} packets sent, but {found} delivered, lost, in flight or queued"
        )
    for part, whole in (
        ("dropped_lossless_packets", "dropped_packets"),
        ("dropped_watchdog_packets", "dropped_packets"),
        ("retransmitted_packets", "data_packets"),
        ("flows_finished", "flows_delivered"),
        ("flows_delivered", "flows_submitted"),
    ):
        if totals[part] > totals[whole]:
            broken.append(f"{part} is {totals[part]}, more than {whole}, {totals[whole]}")
    broken += [f"{name} is negative: {value}" for name, value in totals.items() if value < 0]
    return broken


def _port_books(tables: Tables, totals: Mapping[str, int]) -> list[str]:
    """The ports' counters add up to the totals, and no watermark exceeds the buffer."""
    sums = {
        "tx_packets": "packet_hops",
        "dropped_lossless_packets": "dropped_lossless_packets",
        "dropped_watchdog_packets": "dropped_watchdog_packets",
        **{f"{cause}_packets": f"{cause}_packets" for cause in LOSSES},
        "marked_packets": "marked_packets",
        "pause_tx": "pause_frames",
        "resume_tx": "resume_frames",
        "paused_ps": "paused_ps",
    }
    columns = tables.columns("ports", *sums, "watermark_bytes")
    broken = []
    for column, total in sums.items():
        counted = int(columns[column].sum())
        if counted != totals[total]:
            broken.append(
                f"ports: {column} adds up to {counted}, the total {total} is {totals[total]}"
            )
    plan = tables.plan
    at_switch = plan.port_node >= plan.n_host
    switch = plan.port_node[at_switch] - plan.n_host
    over = columns["watermark_bytes"][at_switch] > plan.switch_buffer_bytes[switch]
    if over.any():
        port = int(np.flatnonzero(at_switch)[over][0])
        broken.append(
            f"ports: the watermark of {tables.port_name(port)} exceeds its switch's buffer"
        )
    return broken


def _flow_books(tables: Tables, totals: Mapping[str, int]) -> list[str]:
    """As many flows are delivered, finished and failed in the table as in the totals.

    What a flow's status says stands in its times, too, and no flow is faster than alone.
    """
    c = tables.columns("flows", "status", "fct_rx_ps", "fct_ack_ps", "ideal_fct_ps")
    status, delivered, acked = c["status"], c["fct_rx_ps"] >= 0, c["fct_ack_ps"] >= 0
    counted = {
        "flows_submitted": len(status),
        "flows_delivered": int(np.count_nonzero(delivered)),
        "flows_finished": int(np.count_nonzero(status == STATUS_FINISHED)),
        "flows_failed": int(np.count_nonzero(status == STATUS_FAILED)),
    }
    broken = [
        f"flows: {n} in the table, {name} is {totals[name]}"
        for name, n in counted.items()
        if n != totals[name]
    ]
    early = delivered & (c["fct_rx_ps"] < c["ideal_fct_ps"] - ROUNDING_PS)
    if early.any():
        flow = int(np.flatnonzero(early)[0])
        broken.append(
            f"flows: {np.count_nonzero(early)} completed before their ideal time; flow {flow}: "
            f"{c['fct_rx_ps'][flow]} ps of {c['ideal_fct_ps'][flow]} ps"
        )
    known = status <= max(STATUS_DELIVERED, STATUS_FINISHED, STATUS_FAILED)
    if not known.all():
        broken.append("flows: a status that does not exist")
    reached = np.select(
        [status == STATUS_FAILED, delivered & acked, delivered, ~acked],
        [STATUS_FAILED, STATUS_FINISHED, STATUS_DELIVERED, STATUS_UNFINISHED],
        default=-1,
    )
    odd = known & ((reached != status) | ((status == STATUS_FAILED) & acked))
    if odd.any():
        flow = int(np.flatnonzero(odd)[0])
        broken.append(
            f"flows: {np.count_nonzero(odd)} with a status that their times contradict; flow "
            f"{flow}: {STATUS_NAMES[status[flow]]}, fct_rx_ps {c['fct_rx_ps'][flow]}, fct_ack_ps "
            f"{c['fct_ack_ps'][flow]}"
        )
    return broken
