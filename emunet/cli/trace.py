"""``emunet trace``: look into a trace file without other tools."""

from __future__ import annotations

import click

from emunet.cli.options import json_option


@click.group(name="trace")
def command() -> None:
    """Look into trace files."""


@command.command(name="info")
@click.argument("trace", type=click.Path())
@json_option
def info(trace: str, as_json: bool) -> None:
    """Print what ran, how it ended, and what the file holds; of a flow list, what it holds."""
    from emunet.cli.output import print_json
    from emunet.report import make_console, print_info
    from emunet.trace.tables import TABLES, open_tables
    from emunet.workload.flows import describe_if_flows

    described = describe_if_flows(trace)
    if described is not None:
        if as_json:
            print_json(vars(described))
        else:
            click.echo("\n".join(described.lines()))
        return
    with open_tables(trace) as tables:
        if as_json:
            print_json({**tables.meta, "rows": {t: tables.source.length(t) for t in TABLES}})
        else:
            print_info(tables, make_console())


@command.command(name="tables")
@click.argument("trace", type=click.Path())
@json_option
def tables(trace: str, as_json: bool) -> None:
    """List the tables with their columns, units and meanings."""
    from emunet.cli.output import print_json
    from emunet.report import make_console, print_tables
    from emunet.trace.schema import datasets_of
    from emunet.trace.tables import TABLES, open_tables

    with open_tables(trace) as opened:
        if as_json:
            print_json(
                {
                    name: {
                        "rows": opened.source.length(name),
                        "columns": [vars(column) for column in datasets_of(name)],
                    }
                    for name in TABLES
                }
            )
        else:
            print_tables(opened, make_console())


@command.command(name="head")
@click.argument("trace", type=click.Path())
@click.argument("table", default="flows")
@click.option("-n", "--rows", type=click.IntRange(min=0), default=10, show_default=True)
@json_option
def head(trace: str, table: str, rows: int, as_json: bool) -> None:
    """Print the first rows of a TABLE (flows)."""
    import json

    from emunet.cli.output import print_json
    from emunet.report import make_console, print_head, table_name
    from emunet.trace.tables import open_tables

    with open_tables(trace) as opened:
        if as_json:
            name = table_name(table)
            frame = opened.head(name, rows).reset_index(drop=name != "flows")
            print_json({"table": name, "rows": json.loads(frame.to_json(orient="records"))})
        else:
            print_head(opened, table, rows, make_console())
