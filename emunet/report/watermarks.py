"""Watermarks as tables: a line for each queue, group and pool, its thresholds beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from emunet.analysis.watermarks import HEADROOM, SHARED, fullest
from emunet.report.console import new_table, print_line, print_table
from emunet.report.words import count_text, exact_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

Found = Mapping[str, Any]
Entries = list[dict[str, Any]]

MOST_ROWS = 20
"""Rows of a table unless all are wanted."""

_ROLES = (("fabric", "fabric ports"), ("last_hop", "last-hop ports"))


def print_watermarks(found: Found, console: Console, limit: int | None = MOST_ROWS) -> None:
    """Print what fills the switches, fullest first, and how far it is from PFC and ECN.

    Parameters
    ----------
    found : mapping
        From `emunet.analysis.watermarks`.
    console : rich.console.Console
        See `make_console`.
    limit : int, optional
        Rows of a table at most; None: all.
    """
    _print_kinds(found, console)
    _print_verdicts(found, console)
    queues, groups, pools = (found[name] for name in ("queues", "priority_groups", "pools"))
    for role, word in _ROLES:
        mine = [e for e in queues if e["port_role"] == role]
        heads = {"Kmin": "ecn_kmin", "Kmax": "ecn_kmax"}
        if any(e["threshold"] for e in mine):
            heads["drop"] = "threshold"
        _print_entries(found, f"Queues of {word}, bytes", mine, heads, console, limit)
    for role, word in _ROLES:
        for kind, heads in ((SHARED, {"XOFF": "xoff"}), (HEADROOM, {"limit": "limit"})):
            mine = [e for e in groups if (e["port_role"], e["kind"]) == (role, kind)]
            title = f"Priority groups of {word}, {kind}, bytes"
            _print_entries(found, title, mine, {**heads, "XOFFs": "xoffs"}, console, limit)
    _print_entries(found, "Buffer pools, bytes", pools, {"size": "size"}, console, limit)


def _print_kinds(found: Found, console: Console) -> None:
    """What the columns are of."""
    parts = [f"{time_text(found['simulated_ps'])} simulated"]
    cleared = {kind: found[f"{kind}_cleared_ps"] for kind in ("user", "persistent")}
    if not any(cleared.values()):
        parts.append("max: user and persistent alike, never cleared")
    for kind, time_ps in cleared.items() if any(cleared.values()) else ():
        parts.append(f"{kind}: since {'the start' if time_ps is None else time_text(time_ps)}")
    if found["periodic_every_ps"] is not None:
        end = found["periodic_end_ps"]
        when = "no interval ended: as max" if end is None else f"the one up to {time_text(end)}"
        parts.append(f"periodic: {time_text(found['periodic_every_ps'])}, {when}")
    every = found["sample_every_ps"]
    parts.append("p99: not sampled" if every is None else f"p99: every {time_text(every)}")
    print_line(console, "; ".join(parts))


def _print_verdicts(found: Found, console: Console) -> None:
    """Whether PFC fired and how close it came; the same of marking."""
    groups = [e for e in found["priority_groups"] if e["kind"] == SHARED]
    group = fullest(groups, lambda e: e["xoff"])
    if group is not None:
        n = found["pause_frames"]
        fired = f"PFC fired: {count_text(n)} pause frames" if n else "PFC never fired"
        print_line(console, f"{fired}; fullest group {_share(group, 'xoff', 'XOFF')}",
                   "yellow" if n else "green")
    queue = fullest(found["queues"], lambda e: e["ecn_kmin"])
    if queue is not None:
        print_line(console, f"fullest queue {_share(queue, 'ecn_kmin', 'Kmin')}")


def _share(entry: dict[str, Any], key: str, word: str) -> str:
    part = 100 * entry["max"] / entry[key]
    place = f"{_place(entry)} class {entry['class']}"
    held, bound = exact_text(entry["max"]), exact_text(entry[key])
    return f"({place}) held {held} bytes, {part:.3g} % of {word} at {bound}"


def _place(entry: dict[str, Any]) -> str:
    return f"{entry['device']}:{entry['port']}" if "port" in entry else str(entry["device"])


def _print_entries(
    found: Found,
    title: str,
    entries: Entries,
    thresholds: Mapping[str, str],
    console: Console,
    limit: int | None,
) -> None:
    """One table, fullest first; columns of which nothing is known are left out."""
    if not entries:
        return
    kinds = ["user", "persistent", "periodic", "max", "p99", "mean"]
    if found["user_cleared_ps"] is None and found["persistent_cleared_ps"] is None:
        kinds = ["max", "periodic", "p99", "mean"]
    if found["periodic_end_ps"] is None:
        kinds.remove("periodic")
    kinds = [kind for kind in kinds if any(e[kind] is not None for e in entries)]
    heads = {h: key for h, key in thresholds.items() if any(e[key] is not None for e in entries)}
    table = new_table()
    table.add_column("at", no_wrap=True)
    table.add_column("pool" if "pool" in entries[0] else "class", no_wrap=True)
    for head in (*kinds, *heads):
        table.add_column(head, justify="right", no_wrap=True)
    shown: Sequence[dict[str, Any]] = sorted(entries, key=lambda e: -e["max"])[:limit]
    for e in shown:
        values = [exact_text(e[key]) for key in (*kinds, *heads.values())]
        table.add_row(_place(e), str(e.get("pool", e.get("class"))), *values)
    print_table(console, title, table)
    if len(shown) < len(entries):
        left = len(entries) - len(shown)
        print_line(console, f"and {left:,} more that held less (--device NAME, --all)")
