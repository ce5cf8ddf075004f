"""Measure the engine: `python -m bench`; against another checkout: `... --against ../other`."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import click

from bench.measure import ROOT, Measured, count_instructions, run_once

JOBS = ("perm-128", "perm-1024", "perm-8192")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("jobs", nargs=-1)
@click.option(
    "--repeat",
    default=5,
    show_default=True,
    help="Rounds; all jobs and checkouts in turn in each.",
)
@click.option(
    "--threads",
    default="1",
    show_default=True,
    help="Thread counts, comma-separated: 1,2.",
)
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another checkout with its engine built: A/B ratios, interleaved.",
)
@click.option(
    "--instructions",
    is_flag=True,
    help="Also count instructions per packet-hop under callgrind.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change the jobs' scenarios.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    jobs: tuple[str, ...],
    repeat: int,
    threads: str,
    against: Path | None,
    instructions: bool,
    changes: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run JOBS and print what they took.

    JOBS are names in bench/scenarios or scenario files; by default the three permutations.

    Rounds are interleaved, so that a change of the machine's mood meets all alike; compare best
    with best and median with median of one call, never with a figure from another day.
    """
    options = tuple(part for change in changes for part in ("--set", change))
    checkouts = {"this": ROOT} | ({"other": against.resolve()} if against else {})
    cases = [(job, int(n)) for job in jobs or JOBS for n in threads.split(",")]
    runs: dict[tuple[str, int, str], list[Measured]] = {}
    for _ in range(repeat):
        for job, n in cases:
            for name, checkout in checkouts.items():
                runs.setdefault((job, n, name), []).append(
                    run_once(job, threads=n, checkout=checkout, options=options)
                )
    counts = {}
    if instructions:
        counts = {
            (job, name): count_instructions(job, checkout=checkout, options=options)
            for job in dict(cases)
            for name, checkout in checkouts.items()
        }
    table = [
        row(job, n, name, found, counts.get((job, name))) for (job, n, name), found in runs.items()
    ]
    if as_json:
        click.echo(json.dumps(table, indent=2))
        return
    for line in table:
        click.echo(text(line))
    if against:
        for job, n in cases:
            rates = [[m.hops_per_cpu_s for m in runs[job, n, name]] for name in ("this", "other")]
            best, middle = [max(r) for r in rates], [median(r) for r in rates]
            click.echo(
                f"{job}, {n} thread(s): this / other = {best[0] / best[1]:.3f} best, "
                f"{middle[0] / middle[1]:.3f} median"
            )


def row(
    job: str, threads: int, name: str, found: list[Measured], counted: tuple[int, int] | None
) -> dict[str, Any]:
    """What one job took over all rounds."""
    rates = [m.hops_per_cpu_s for m in found]
    return {
        "job": job,
        "threads": threads,
        "checkout": name,
        "packet_hops": found[0].packet_hops,
        "hops_per_cpu_s_best": max(rates),
        "hops_per_cpu_s_median": median(rates),
        "hops_per_wall_s_best": max(m.hops_per_wall_s for m in found),
        "peak_rss_bytes": max(m.peak_rss_bytes for m in found),
        "instructions_per_hop": counted[0] / counted[1] if counted else None,
        "digests": sorted({m.digest for m in found}),
    }


def text(line: dict[str, Any]) -> str:
    """One line of the table."""
    counted = line["instructions_per_hop"]
    more = f", {counted:.0f} instructions per packet-hop" if counted else ""
    same = "" if len(line["digests"]) == 1 else "  RESULTS DIFFER BETWEEN ROUNDS"
    return (
        f"{line['job']}, {line['threads']} thread(s), {line['checkout']}: "
        f"{line['hops_per_cpu_s_best'] / 1e6:.2f} M packet-hops per CPU-second best, "
        f"{line['hops_per_cpu_s_median'] / 1e6:.2f} median, "
        f"{line['hops_per_wall_s_best'] / 1e6:.2f} M per wall second; "
        f"{line['peak_rss_bytes'] / 1e6:.0f} MB{more}{same}"
    )


if __name__ == "__main__":
    main()
