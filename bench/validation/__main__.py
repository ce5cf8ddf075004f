"""Run every validation scenario: `python -m bench.validation`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import click

import emunet
from bench.validation.cases import CASES, ECMP, LAST_HOP, Case, thresholds

HERE = Path(__file__).resolve().parent


class Runs:
    """Runs of scenarios, each made once, reduced to what the cases ask for."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.wanted: dict[Any, set[Any]] = {}
        for case in cases:
            self.wanted.setdefault((case.scenario, case.changes), set()).add(case.measure)
        self.made: dict[Any, dict[Any, float]] = {}

    def values(self, case: Case) -> list[float]:
        """The measure of a case, for each of its seeds."""
        key = case.scenario, case.changes
        for seed in range(1, case.seeds + 1):
            if (key, seed) not in self.made:
                run = emunet.run(HERE / f"{case.scenario}.yaml", seed=seed, set=[*case.changes])
                self.made[key, seed] = {measure: measure(run) for measure in self.wanted[key]}
        return [self.made[key, seed][case.measure] for seed in range(1, case.seeds + 1)]


def row(case: Case, values: list[float]) -> dict[str, Any]:
    """One line of the table; the ratio is that of the median."""
    return {
        "scenario": case.scenario,
        "what": case.what,
        "least": min(values),
        "median": median(values),
        "greatest": max(values),
        "seeds": case.seeds,
        "published": case.published,
        "source": case.source,
        "ratio": median(values) / case.published,
    }


def number(value: float) -> str:
    """Four to six digits."""
    return f"{value:,.2f}" if value < 1000 else f"{value:,.1f}" if value < 1e5 else f"{value:,.0f}"


def text(line: dict[str, Any]) -> str:
    """One line in Markdown."""
    ours = number(line["median"])
    if line["seeds"] > 1:
        ours += f" ({number(line['least'])} to {number(line['greatest'])}, {line['seeds']} seeds)"
    cells = (f"{line['scenario']}: {line['what']}", ours, number(line["published"]),
             line["source"], f"{line['ratio']:.4f}")  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def last_hop() -> list[dict[str, Any]]:
    """Watermarks of the last-hop incast, hashed and sprayed, over 20 seeds."""
    cases = [
        (what, Case("last-hop", what, measure, 1.0, "", changes, 20))
        for what, measure in LAST_HOP
        for changes in (ECMP, ())
    ]
    runs = Runs(case for _, case in cases)
    out = []
    for what in dict(LAST_HOP):
        hashed, sprayed = (runs.values(case) for w, case in cases if w == what)
        changes = [s / h - 1 for h, s in zip(hashed, sprayed, strict=True)]
        out.append({
            "what": what, "ecmp_bytes": median(hashed), "spray_bytes": median(sprayed),
            "change_least": min(changes), "change_median": median(changes),
            "change_greatest": max(changes),
        })  # fmt: skip
    return out


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("scenarios", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(scenarios: tuple[str, ...], as_json: bool) -> None:
    """Run SCENARIOS of bench/validation, by default all, and print each value beside the other's.

    Where an answer depends on hashes it is the median over seeds, with the least and the greatest.
    """
    known = {case.scenario for case in CASES} | {"thresholds", "last-hop"}
    if unknown := set(scenarios) - known:
        raise SystemExit(f"bench: no {', '.join(sorted(unknown))}; there are {sorted(known)}")
    chosen = set(scenarios) or known
    cases = [case for case in CASES if case.scenario in chosen]
    if "thresholds" in chosen:
        cases += thresholds()
    runs, lines = Runs(cases), []
    if cases and not as_json:
        click.echo("| scenario | emunet | published | source | ratio |\n|---|---|---|---|---|")
    for case in cases:
        lines.append(row(case, runs.values(case)))
        if not as_json:
            click.echo(text(lines[-1]))
    marks = last_hop() if "last-hop" in chosen else []
    if as_json:
        click.echo(json.dumps({"cases": lines, "last_hop": marks}, indent=2))
        return
    for mark in marks:
        click.echo(
            f"last-hop, {mark['what']}: {mark['ecmp_bytes']:,.0f} B by hash, "
            f"{mark['spray_bytes']:,.0f} B sprayed: {mark['change_median']:+.1%} "
            f"({mark['change_least']:+.1%} to {mark['change_greatest']:+.1%}, 20 seeds)"
        )


if __name__ == "__main__":
    main()
