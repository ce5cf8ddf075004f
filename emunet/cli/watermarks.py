"""``emunet watermarks``: what filled the switches of a run, beside its thresholds."""

from __future__ import annotations

import click

from emunet.cli.options import json_option


@click.command(name="watermarks")
@click.argument("trace", type=click.Path())
@click.option("--device", metavar="NAME", help="One switch only, with all that it held.")
@click.option("--all", "everything", is_flag=True, help="All rows, those of idle ports too.")
@json_option
def command(trace: str, device: str | None, everything: bool, as_json: bool) -> None:
    """Print the watermarks of queues, priority groups and buffer pools, fullest first.

    User, persistent and periodic ones as in SONiC's `show queue watermark`, `show priority-group
    watermark` and `show buffer_pool watermark`; p99 and mean beside them. Fabric and last-hop ports
    are apart.
    """
    from emunet.analysis import load, watermarks
    from emunet.cli.output import print_json
    from emunet.report import make_console, print_watermarks
    from emunet.report.watermarks import MOST_ROWS

    with load(trace) as run:
        found = watermarks(run, device, idle=everything)
    if as_json:
        print_json(found)
    else:
        limit = None if everything or device is not None else MOST_ROWS
        print_watermarks(found, make_console(), limit)
