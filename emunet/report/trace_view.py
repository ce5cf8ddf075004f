"""What is in a trace file: ``emunet trace info``, ``tables`` and ``head``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emunet.errors import UsageError, did_you_mean, one_of
from emunet.report.console import new_table, print_line, print_table
from emunet.report.unfinished import unfinished_reasons
from emunet.report.words import NONE, count_text, time_text
from emunet.trace.schema import datasets_of
from emunet.trace.tables import TABLES, Tables

if TYPE_CHECKING:
    from rich.console import Console

_FIRST = ("schema", "emunet_version", "seed", "complete", "reason", "digest", "plan_digest")
_WITH_THOUSANDS = 99_999


def print_info(run: Tables, console: Console) -> None:
    """Print where a trace comes from, how its run ended, what is unfinished, and its rows."""
    meta, plan = run.meta, run.plan
    table = new_table(header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for key in _FIRST:
        table.add_row(key, _text(meta.get(key)))
    n_switch = plan.n_node - plan.n_host
    table.add_row("fabric", f"{plan.n_host:,} hosts, {n_switch:,} switches, {plan.n_port:,} ports")
    table.add_row("transport", f"{plan.cc_name}, MTU {plan.mtu_bytes} B")
    table.add_row("simulated", time_text(meta.get("engine", {}).get("now_ps")))
    for key, value in sorted(meta.items()):
        if key not in _FIRST and not key.startswith("digest_"):
            table.add_row(key, _text(value))
    for name in TABLES:
        table.add_row(f"/{name}", f"{count_text(run.source.length(name))} rows")
    print_line(console, run.name, "bold cyan")
    console.print(table)
    for line in unfinished_reasons(run):
        print_line(console, f"unfinished: {line}", "red")
    for warning in run.warnings:
        print_line(console, f"warning: {warning}", "yellow")


def print_tables(run: Tables, console: Console) -> None:
    """Print every table with its rows and columns: dtype, unit, meaning."""
    for name in TABLES:
        present = set(run.source.datasets(name))
        table = new_table()
        for head in ("column", "dtype", "unit"):
            table.add_column(head, no_wrap=True)
        table.add_column("meaning")
        for spec in datasets_of(name):
            if spec.name in present:
                table.add_row(spec.name, spec.dtype, spec.unit, spec.meaning)
        if table.row_count:
            print_table(console, f"/{name}: {count_text(run.source.length(name))} rows", table)
        else:
            print_line(console, f"\n/{name}: not recorded", "bold cyan")


def print_head(run: Tables, table: str, n_row: int, console: Console) -> None:
    """Print the first rows of a table, wide ones in several parts.

    Parameters
    ----------
    run : Tables
        From a trace file.
    table : str
        One of `TABLES`, or its last part: ``queues``.
    n_row : int
        Rows.
    console : rich.console.Console
        See `make_console`.
    """
    found = table_name(table)
    total = run.source.length(found)
    if total:
        frame = run.head(found, n_row)
        console.print(frame.to_string(line_width=console.width), soft_wrap=True)
    print_line(console, f"/{found}: {min(n_row, total):,} of {total:,} rows")


def table_name(text: str) -> str:
    """The table that a user means by ``flows``, ``/flows``, ``samples/queues`` or ``queues``.

    Raises
    ------
    UsageError
        There is no such table.
    """
    wanted = text.strip("/")
    for name in TABLES:
        if wanted in (name, name.split("/")[-1]):
            return name
    hint = did_you_mean(wanted, TABLES)
    said = f'"{text}" is not a table of the trace; {hint}'.rstrip("; ")
    raise UsageError(f"{said} (allowed: {one_of(TABLES)})")


def _text(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return NONE
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool) and value > _WITH_THOUSANDS:
        return f"{value:,}"
    return str(value)
