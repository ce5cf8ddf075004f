"""``emunet topo``: what a topology is."""

from __future__ import annotations

from pathlib import Path

import click

from emunet.cli.options import json_option, set_option


@click.group(name="topo")
def command() -> None:
    """Look at topologies."""


@command.command(name="show")
@click.argument("topology", metavar="SCENARIO|FILE|KIND[,KEY=VALUE...]")
@set_option
@json_option
def show(topology: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print counts, tiers, oversubscription, diameter, base RTT and BDP.

    BDP is the largest base RTT times the rate of the slowest link between those hosts.

    TOPOLOGY is a scenario (.yaml), a topology file, or a kind with options: fat_tree,k=8.
    """
    import json

    from emunet.cli.output import print_json, print_tree
    from emunet.cli.specs import topology_of
    from emunet.errors import Problems
    from emunet.plan.compile import path_model, settings_of
    from emunet.scenario import load_scenario, parse_scenario
    from emunet.topology import build, describe
    from emunet.topology.changes import changed

    if Path(topology).suffix in (".yaml", ".yml"):
        scenario = load_scenario(topology, overrides)
    else:
        text = json.dumps({"topology": topology_of(topology)})
        scenario = parse_scenario(text, overrides, name="topology")
    problems = Problems(scenario.locate)
    fabric = changed(build(scenario.topology, scenario.base_dir), scenario.links, problems)
    problems.check()
    facts = describe(fabric, path_model(fabric, settings_of(scenario)))
    if as_json:
        print_json(facts)
    else:
        print_tree(facts)
