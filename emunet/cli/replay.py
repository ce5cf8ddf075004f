"""``emunet replay``: a flow list and a topology in one line, without a scenario file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from emunet.cli.options import run_options


@click.command(name="replay")
@click.argument("flows", type=click.Path())
@click.option(
    "--topology",
    "-t",
    required=True,
    metavar="KIND[,KEY=VALUE...]|FILE",
    help="Fabric: a kind with its keys, such as fat_tree,k=8, or a topology file.",
)
@click.option("--dialect", default="auto", show_default=True, help="Grammar of the flow list.")
@click.option(
    "--unit",
    type=click.Choice(["s", "ms", "us", "ns", "ps"]),
    help="Unit of start times, where the flow list leaves it open.",
)
@click.option(
    "--lenient",
    is_flag=True,
    help="Take the flows that are there although the list's header counts others.",
)
@run_options
def command(
    flows: str,
    topology: str,
    dialect: str,
    unit: str | None,
    lenient: bool,
    overrides: tuple[str, ...],
    **options: Any,
) -> int:
    """Replay a flow list over a topology.

    The scenario that this builds has defaults everywhere else; --set changes them.
    """
    import json

    from emunet.cli.execute import execute
    from emunet.cli.specs import topology_of
    from emunet.scenario import parse_scenario

    listed = {"path": flows, "dialect": dialect, "unit": unit, "lenient": lenient}
    text = json.dumps(
        {
            "name": Path(flows).stem,
            "topology": topology_of(topology),
            "workload": [{"flows": listed}],
        }
    )
    return execute(parse_scenario(text, overrides, name="replay"), overrides=(), **options)
