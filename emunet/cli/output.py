"""Printing: one JSON object, or lines of text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    print(json.dumps(value, indent=2, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    """Numpy scalars and arrays, paths and records as what JSON knows."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, values aligned."""
    rows = [(name, str(value)) for name, value in pairs]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def warn(text: str) -> None:
    """A line on stderr, after what stdout has so far; lost if stderr cannot be written."""
    sys.stdout.flush()
    with suppress(OSError):
        print(f"warning: {text}", file=sys.stderr)


UNITS = ("_bps", "_bytes", "_ps")
"""Endings of names whose values are quantities."""


def print_tree(values: Mapping[str, Any], indent: str = "", unit: str = "") -> None:
    """Names and values, nested ones indented below their name, quantities with units.

    `unit` is the ending of a name around, if its parts have none of their own.
    """
    shown = {name: value for name, value in values.items() if value not in ([], (), "")}
    flat = [_bare(name) for name, value in shown.items() if not _is_nested(value)]
    width = max(map(len, flat), default=0)
    for name, value in shown.items():
        if isinstance(value, Mapping):
            print(f"{indent}{_bare(name)}")
            print_tree(value, indent + "  ", _unit(name))
        elif _is_nested(value):
            print(f"{indent}{_bare(name)}")
            for item in value:
                words = (
                    f"{_bare(key)} {_quantity(part, _unit(key))}" for key, part in item.items()
                )
                print(f"{indent}  {', '.join(words)}")
        else:
            print(f"{indent}{_bare(name):<{width}}  {_quantity(value, _unit(name) or unit)}")


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)
    )


def _unit(name: str) -> str:
    """Ending of a name that is a unit, or an empty text."""
    return next((unit for unit in UNITS if name.endswith(unit)), "")


def _bare(name: str) -> str:
    """``base_rtt_ps`` -> ``base rtt``: the unit goes to the value."""
    return name.removesuffix(_unit(name)).replace("_", " ")


def _quantity(value: Any, unit: str) -> str:
    """A value with its unit."""
    from emunet.units import format_rate, format_size, format_time

    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    if unit:
        return dict(zip(UNITS, (format_rate, format_size, format_time), strict=True))[unit](
            int(value)
        )
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
