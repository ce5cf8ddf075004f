"""Topologies named on the command line: ``fat_tree,k=8,rate=100Gbps``, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def topology_of(spec: str) -> dict[str, Any]:
    """The scenario's ``topology`` entry for a kind with options, or for a file.

    Parameters
    ----------
    spec : str
        ``KIND[,KEY=VALUE]...``, values spelled as in a scenario; anything else is a file.
    """
    from emunet.scenario.topology import TOPOLOGIES

    kind, *options = spec.split(",")
    if kind not in TOPOLOGIES:
        if Path(spec).is_file():
            return {"kind": "file", "path": spec}
        raise click.BadParameter(
            f"{spec!r} is neither a file nor one of {', '.join(TOPOLOGIES)} with options, "
            f"such as fat_tree,k=8",
            param_hint="topology",
        )
    entry: dict[str, Any] = {"kind": kind}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{option!r} is not KEY=VALUE", param_hint="topology")
        entry[key.strip()] = int(value) if value.strip().isdecimal() else value.strip()
    return entry
