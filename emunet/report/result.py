"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from emunet.report.console import new_table, print_line, print_table
from emunet.report.words import (
    NONE,
    count_text,
    exact_text,
    per_second_text,
    ratio_text,
    short_count_text,
    size_text,
    time_text,
)

if TYPE_CHECKING:
    from rich.console import Console

Summary = Mapping[str, Any]

_PERCENTILES = ("p50", "p95", "p99", "max")


def print_result(summary: Summary, console: Console) -> None:
    """Print what came out: flows by size, packets, pauses, queues by kind of port, buffers, speed.

    Parameters
    ----------
    summary : mapping
        From `emunet.analysis.summary`.
    console : rich.console.Console
        See `make_console`.
    """
    _print_heading(summary, console)
    _print_flows(summary["flows"], console)
    _print_packets(summary, console)
    for found in summary["deadlocks"]:
        line = f"deadlock, seen at {time_text(found['time_ps'])}: {found['cycle']}"
        print_line(console, line, "red")
    _print_ports(summary["ports"], console)
    _print_buffers(summary["buffers"], console)
    _print_engine(summary["engine"], console)
    print_line(console, f"digest {summary['digest'] or NONE}")


def _print_heading(s: Summary, console: Console) -> None:
    flows = s["flows"]
    total, size = count_text(flows["total"]), size_text(flows["size_bytes"])
    # Later messages of a run that was broken off have not even been generated.
    so_far = "" if s["complete"] else " submitted so far"
    simulated = time_text(s["engine"]["simulated_ps"])
    line = f"{total} flows{so_far}, {size}; {simulated} simulated, end: {s['reason']}"
    print_line(console, line, "bold")
    parts = [f"{count_text(flows['finished'])} finished"]
    words = {"unfinished": "unfinished", "cut": "cut by until", "background": "background"}
    parts += [f"{count_text(flows[key])} {word}" for key, word in words.items() if flows[key]]
    print_line(console, ", ".join(parts), "red" if flows["unfinished"] else None)
    if flows["failed"]:
        failed, arrived = count_text(flows["failed"]), count_text(flows["failed_delivered"])
        line = f"{failed} of the unfinished given up by their sender; of these {arrived} delivered"
        print_line(console, line, "red")
    if not s["complete"]:
        print_line(console, "incomplete: these are the results up to the end", "red")


def _print_flows(flows: Summary, console: Console) -> None:
    bins = flows["by_size"]
    # The times are those of delivered messages: where some are missing, say of how many. Both
    # counts and the bytes would be wider than 80 columns.
    missing = any(row["delivered"] < row["flows"] for row in bins)
    table = new_table()
    table.add_column("size", no_wrap=True)
    for head in ("flows", "done" if missing else "bytes"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("FCT", "slowdown"):
        for p in _PERCENTILES:
            first = f"{head}\n{p}" if p == "p50" else f"\n{p}"
            table.add_column(first, justify="right", no_wrap=True)
    rows = [(_size_range(row), row, row) for row in bins]
    if len(bins) > 1:
        keys = ("flows", "delivered", "size_bytes")
        rows.append(("all", {key: sum(row[key] for row in bins) for key in keys}, flows))
    for name, sums, times in rows:
        done, size = short_count_text(sums["delivered"]), size_text(sums["size_bytes"])
        flow_count = short_count_text(sums["flows"])
        table.add_row(name, flow_count, done if missing else size, *_times(times))
    if bins:
        apart = ", background apart" if flows["background"] else ""
        only = "; times of those done (delivered)" if missing else ""
        print_table(console, f"Flows by size{apart}{only}", table)


def _times(row: Summary) -> list[str]:
    return [
        *(time_text(row["fct_ps"][p]) for p in _PERCENTILES),
        *(ratio_text(row["slowdown"][p]) for p in _PERCENTILES),
    ]


def _size_range(row: Summary) -> str:
    least, greatest = row["least_bytes"], row["greatest_bytes"]
    if least == greatest:
        return size_text(least)
    return f"{size_text(least)}-{size_text(greatest + 1)}"


_FAULTS = {
    "lost, link down": "down",
    "no way on": "unrouted",
    "flushed, port down": "flushed",
}
"""Losses that only faults bring about, shown where there are any."""


def _print_packets(s: Summary, console: Console) -> None:
    packets, pfc = s["packets"], s["pfc"]
    kinds = {"hops": "hops", "data": "data", "ACK": "ack", "NACK": "nack", "CNP": "cnp"}
    left = [(word, count_text(packets[key])) for word, key in kinds.items()]
    right = [
        ("dropped", count_text(packets["dropped"])),
        ("of these lossless", count_text(packets["dropped_lossless"])),
        ("of these by watchdogs", count_text(packets["dropped_watchdog"])),
        ("lost on links", count_text(packets["lost"])),
        *((word, count_text(packets[key])) for word, key in _FAULTS.items() if packets[key]),
        ("marked", count_text(packets["marked"])),
        ("retransmitted", count_text(packets["retransmitted"])),
        ("timeouts", count_text(s["flows"]["timeouts"])),
        ("pauses (XOFF)", count_text(pfc["pauses"])),
        ("paused, summed", time_text(pfc["paused_ps"])),
    ]
    table = new_table(header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for (kind, count), (effect, text) in zip_longest(left, right, fillvalue=("", "")):
        table.add_row(kind, count, f"   {effect}", text)
    print_table(console, "Packets", table)


def _print_ports(ports: Summary, console: Console) -> None:
    table = new_table()
    table.add_column("ports", no_wrap=True)
    for name in ("n", "greatest", "Kmin", "Kmax", "p99", "mean"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("greatest at")
    for role, word in (("fabric", "fabric"), ("last_hop", "last hop")):
        p = ports[role]
        if p["ports"]:
            keys = ("watermark_bytes", "ecn_kmin_bytes", "ecn_kmax_bytes", "queue_p99_bytes")
            values = [exact_text(p.get(key)) for key in (*keys, "queue_mean_bytes")]
            table.add_row(word, count_text(p["ports"]), *values, p.get("watermark_port", NONE))
    if table.row_count:
        title = "Switch egress queues, bytes; p99 and mean over all n ports, idle ones too"
        print_table(console, title, table)


_BUFFERS = (
    ("group", "ingress group", "xoff_bytes", "XOFF, a group alone"),
    ("headroom", "headroom", "limit_bytes", "headroom"),
    ("pool", "shared pool", "shared_bytes", "shared part"),
)


def _print_buffers(buffers: Summary, console: Console) -> None:
    table = new_table()
    table.add_column("fullest", no_wrap=True)
    table.add_column("greatest", justify="right", no_wrap=True)
    table.add_column("limit", justify="right", no_wrap=True)
    table.add_column("limit is", no_wrap=True)
    table.add_column("at")
    for key, word, bound, meaning in _BUFFERS:
        b = buffers[key]
        if b is not None:
            at = b["switch"] if key == "pool" else f"{b['port']} class {b['klass']}"
            greatest, limit = exact_text(b["watermark_bytes"]), exact_text(b[bound])
            table.add_row(word, greatest, limit, meaning, at)
    if table.row_count:
        print_table(console, "Switch buffers, bytes", table)


def _print_engine(engine: Summary, console: Console) -> None:
    seconds = {key: engine[key] for key in ("wall_s", "cpu_s")}
    wall, cpu = (NONE if s is None else f"{s:.2f} s" for s in seconds.values())
    n_thread = engine["threads"]
    table = new_table(header=False)
    table.add_row("packet-hops per CPU second", per_second_text(engine["packet_hops_per_cpu_s"]))
    table.add_row("time", f"{wall} wall, {cpu} CPU, threads {count_text(n_thread)}")
    table.add_row("greatest memory", size_text(engine["peak_rss_bytes"]))
    print_table(console, "Speed", table)
