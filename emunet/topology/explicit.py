"""Explicit: nodes and links written out in the scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emunet.errors import NO_VALUE, ScenarioError, did_you_mean, one_of
from emunet.topology.core import CableList, Topology, make_topology


class Cable(NamedTuple):
    """A cable between two nodes, given by number (hosts first) or name.

    `rate_back_bps` is the rate from `b` to `a`; None: as from `a` to `b`.
    """

    a: int | str
    b: int | str
    rate_bps: int
    delay_ps: int
    rate_back_bps: int | None = None


def explicit(hosts: Sequence[str], switches: Sequence[str], cables: Iterable[Cable]) -> Topology:
    """Any graph: hosts do not forward, two cables between two nodes are two links.

    Parameters
    ----------
    hosts, switches : sequence of str
        Names; hosts are numbered first.
    cables : iterable of Cable

    Raises
    ------
    ScenarioError
        A cable names a node that does not exist, or one node twice.
    """
    names = [*hosts, *switches]
    numbers = {name: i for i, name in enumerate(names)}
    listed = CableList()
    for i, cable in enumerate(cables):
        a = _node(cable.a, names, numbers, f"$.topology.links[{i}].a")
        b = _node(cable.b, names, numbers, f"$.topology.links[{i}].b")
        if a == b:
            raise ScenarioError(
                f"$.topology.links[{i}].b", cable.b, "is at both ends of the link", "two nodes"
            )
        listed.add(a, b, cable.rate_bps, cable.delay_ps, cable.rate_back_bps)
    return make_topology("explicit", len(hosts), names, None, listed)


def _node(node: int | str, names: list[str], numbers: dict[str, int], path: str) -> int:
    if isinstance(node, str) and node in numbers:
        return numbers[node]
    if isinstance(node, int) and 0 <= node < len(names):
        return node
    fix = did_you_mean(node, names) if isinstance(node, str) else ""
    allowed = f"numbers 0 to {len(names) - 1}, or {one_of(names, 8)}" if names else ""
    raise ScenarioError(path, node, "is not a node", allowed, fix)


def build(model: Any, base_dir: str | Path = ".") -> Topology:
    """From the scenario's ``topology: {kind: explicit, ...}``."""
    if not model.host_names:
        raise ScenarioError("$.topology.hosts", NO_VALUE, "there is no host", "1 host and more")
    cables = [
        Cable(
            link.a,
            link.b,
            model.rate if link.rate is None else link.rate,
            model.delay if link.delay is None else link.delay,
            link.rate_back,
        )
        for link in model.links
    ]
    return explicit(model.host_names, model.switch_names, cables)
