"""``--dry-run`` of `run` and `replay`: the scenario as it would run, and what it would need."""

from __future__ import annotations

from typing import Any

from emunet.cli.failures import OK


def show_dry_run(scenario: Any, *, as_json: bool, twin: bool, **options: Any) -> int:
    """Print the scenario with every default filled in, then packet-hops, memory, disk and time."""
    from emunet.cli.output import print_json, print_pairs, warn
    from emunet.dryrun import cpu_times, needs, time_lines
    from emunet.run import prepare
    from emunet.selftest import speed

    prepared = prepare(scenario, **options)
    for text in prepared.warnings:
        warn(text)
    found = needs(prepared)
    rate = speed(prepared, twin=twin)
    if as_json:
        print_json(
            {
                "scenario": prepared.scenario.to_dict(),
                **found.numbers,
                **rate.numbers(found.packet_hops),
                "cpu_s": cpu_times(found, rate),
                "warnings": prepared.warnings,
            }
        )
    else:
        print(prepared.scenario.to_yaml(), end="")
        print()
        print_pairs([*found.lines, *time_lines(found, rate)])
    return OK
