"""Devices of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emunet.catalog import EVIDENCE, Entry, Value
from emunet.report.console import new_table, print_line, print_table
from emunet.report.words import NONE

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = ("buffer", "cell", "dt_alpha", "headroom", "latency")
"""Keys that the list shows."""


def print_entries(entries: Sequence[Entry], console: Console) -> None:
    """One line for each device; what an entry does not give is the scenario's own."""
    table = new_table()
    for name in ("name", *COLUMNS, "device"):
        table.add_column(name, no_wrap=name != "device", overflow="fold")
    for entry in entries:
        known = {value.key: _text(value.value) for value in entry.fields}
        table.add_row(entry.name, *(known.get(key, NONE) for key in COLUMNS), entry.title)
    print_table(console, "switches, by what a scenario takes from them", table)


def print_entry(entry: Entry, console: Console) -> None:
    """Every value with its source, and what the classes of evidence mean."""
    print_line(console, f"{entry.name}: {entry.title}", "bold")
    for title, values in (("taken by a scenario", entry.fields), ("also known", entry.facts)):
        if not values:
            continue
        table = new_table()
        for name in ("key", "value", "evidence", "source and note"):
            table.add_column(name, no_wrap=name in ("key", "evidence"), overflow="fold")
        for value in values:
            said = "; ".join(text for text in (value.source, value.note) if text)
            table.add_row(value.key, _text(value.value), value.evidence, said)
        print_table(console, title, table)
    console.print()
    for name in sorted({value.evidence for value in (*entry.fields, *entry.facts)}):
        print_line(console, f"{name}: {EVIDENCE[name]}")


def _text(value: Value | Any) -> str:
    """A value as it would be written in a scenario."""
    return value if isinstance(value, str) else json.dumps(value).replace('"', "")
