"""Why messages did not finish, one line each."""

from __future__ import annotations

import numpy as np

from emunet._core.rows import WAIT_FAILED, WAIT_NAMES
from emunet.analysis.summary import CUT_REASON
from emunet.report.words import size_text, time_text
from emunet.trace.tables import Tables


def unfinished_reasons(run: Tables, limit: int = 10) -> list[str]:
    """Lines such as ``flow 12, h3 -> h7: 1.2MB of 2MB delivered; waits for window``.

    Messages marked background are left out, and those that ``until`` has cut; given-up ones are
    always listed.

    Parameters
    ----------
    run : Tables
        A run whose end was recorded.
    limit : int
        Lines for messages; one more says how many are left out.
    """
    c = run.columns("unfinished")
    if not len(c["flow"]):
        return []
    listed = run.columns("flows", "background")["background"][c["flow"]] == 0
    if run.meta.get("reason") == CUT_REASON:
        listed &= c["wait"] == WAIT_FAILED
    places = np.flatnonzero(listed)
    lines = [
        _line(run, {name: int(column[i]) for name, column in c.items()}) for i in places[:limit]
    ]
    if len(places) > limit:
        lines.append(f"and {len(places) - limit:,} more (table `unfinished` of the trace)")
    return lines


def _line(run: Tables, row: dict[str, int]) -> str:
    names = run.plan.names
    line = (
        f"flow {row['flow']}, {names[row['src']]} -> {names[row['dst']]}: "
        f"{size_text(row['delivered_bytes'])} of {size_text(row['size_bytes'])} delivered; "
        f"waits for {WAIT_NAMES[row['wait']]}"
    )
    if row["port"] >= 0:
        line += f" at {run.port_name(row['port'])}"
    return line + (f", timer at {time_text(row['until_ps'])}" if row["until_ps"] >= 0 else "")
