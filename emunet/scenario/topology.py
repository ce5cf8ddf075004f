"""Topologies of the scenario: the parameters of each kind; builders are in `emunet.topology`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ValidationInfo

from emunet.errors import NO_VALUE, did_you_mean, one_of
from emunet.scenario.base import Model
from emunet.scenario.fields import (
    CountOrNames,
    Delay,
    Finding,
    ListOf,
    Maybe,
    Node,
    Rate,
    Text,
    Whole,
    about,
    refuse,
)

RATE_BPS = 400 * 10**9
DELAY_PS = 10**6
MOST_HOSTS = 1 << 20

_RATE = about("rate of every link")
_HOST_RATE = about("rate of the host links")
_DELAY = about("propagation delay of every link, one way", "HPCC simulations, SIGCOMM 2019")


class TopologyModel(Model):
    """What all topologies share."""


class Star(TopologyModel):
    """Hosts on one switch."""

    noun: ClassVar[str] = "a star topology"

    kind: Literal["star"] = "star"
    hosts: Annotated[int, Whole(1, MOST_HOSTS), about("number of hosts")]
    rate: Annotated[int, Rate(), _RATE] = RATE_BPS
    delay: Annotated[int, Delay(), _DELAY] = DELAY_PS


class Dumbbell(TopologyModel):
    """Hosts on two switches with one link between them; the left hosts have the lower numbers."""

    noun: ClassVar[str] = "a dumbbell topology"

    kind: Literal["dumbbell"] = "dumbbell"
    left: Annotated[int, Whole(1, MOST_HOSTS), about("number of hosts on the left switch")]
    right: Annotated[int, Whole(1, MOST_HOSTS), about("number of hosts on the right switch")]
    rate: Annotated[int, Rate(), _HOST_RATE] = RATE_BPS
    bottleneck: Annotated[
        int | None, Maybe(Rate()), about("rate of the link between the switches; null: `rate`")
    ] = None
    delay: Annotated[int, Delay(), _DELAY] = DELAY_PS


class LeafSpine(TopologyModel):
    """Two tiers: every leaf has `parallel` links to every spine."""

    noun: ClassVar[str] = "a leaf_spine topology"

    kind: Literal["leaf_spine"] = "leaf_spine"
    leaves: Annotated[int, Whole(1, 1 << 16), about("number of leaf switches")]
    spines: Annotated[int, Whole(1, 1 << 16), about("number of spine switches")]
    hosts_per_leaf: Annotated[int, Whole(1, 1 << 16), about("number of hosts on each leaf")]
    rate: Annotated[int, Rate(), _HOST_RATE] = RATE_BPS
    uplink_rate: Annotated[
        int | None, Maybe(Rate()), about("rate of each link between leaf and spine; null: `rate`")
    ] = None
    parallel: Annotated[int, Whole(1, 1024), about("links between each leaf and each spine")] = 1
    delay: Annotated[int, Delay(), _DELAY] = DELAY_PS

    def cross_checks(self) -> Iterable[Finding]:
        hosts = self.leaves * self.hosts_per_leaf
        if hosts > MOST_HOSTS:
            yield Finding(
                NO_VALUE,
                f"{self.leaves} leaves of {self.hosts_per_leaf} hosts are {hosts} hosts",
                f"at most {MOST_HOSTS}",
                "lower `leaves` or `hosts_per_leaf`",
            )


class FatTree(TopologyModel):
    """Three tiers of k-port switches: k pods, k^3/4 hosts (Al-Fares et al., SIGCOMM 2008)."""

    noun: ClassVar[str] = "a fat_tree topology"

    kind: Literal["fat_tree"] = "fat_tree"
    k: Annotated[int, Whole(2, 160, even=True), about("ports of each switch")]
    rate: Annotated[int, Rate(), _RATE] = RATE_BPS
    tier_rates: Annotated[
        tuple[int, ...] | None,
        Maybe(
            ListOf(
                Rate(),
                "three rates: host to edge, edge to aggregation, aggregation to core",
                least=3,
                most=3,
            )
        ),
        about("rates of the tiers from the hosts up; null: `rate` everywhere"),
    ] = None
    delay: Annotated[int, Delay(), _DELAY] = DELAY_PS


class Link(Model):
    """One cable of an explicit topology; two with the same ends are two cables."""

    noun: ClassVar[str] = "a link"

    a: Annotated[int | str, Node(), about("node at one end")]
    b: Annotated[int | str, Node(), about("node at the other end")]
    rate: Annotated[
        int | None, Maybe(Rate()), about("rate from a to b; null: that of the topology")
    ] = None
    delay: Annotated[
        int | None, Maybe(Delay()), about("propagation delay, one way; null: that of the topology")
    ] = None
    rate_back: Annotated[
        int | None, Maybe(Rate()), about("rate from b to a; null: as from a to b")
    ] = None

    def cross_checks(self) -> Iterable[Finding]:
        if self.a == self.b:
            yield Finding(self.b, "is at both ends of the link", "two different nodes", at=("b",))


def _links(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, (list, tuple)):
        refuse(value, "is not a list", "a list of links {a, b, rate, delay, rate_back}")
    return value


class Explicit(TopologyModel):
    """Nodes and links written out.

    Nodes are named as given, else host0, ... and switch0, ...; numbers count hosts first.
    """

    noun: ClassVar[str] = "an explicit topology"

    kind: Literal["explicit"] = "explicit"
    hosts: Annotated[
        int | tuple[str, ...], CountOrNames(1, MOST_HOSTS), about("number or names of the hosts")
    ]
    switches: Annotated[
        int | tuple[str, ...], CountOrNames(0, MOST_HOSTS), about("number or names of the switches")
    ] = 0
    links: Annotated[tuple[Link, ...], BeforeValidator(_links), about("the cables")]
    rate: Annotated[int, Rate(), about("rate of links that give none")] = RATE_BPS
    delay: Annotated[int, Delay(), about("propagation delay of links that give none, one way")] = (
        DELAY_PS
    )

    @property
    def host_names(self) -> list[str]:
        """Names of the hosts in the order of their numbers."""
        return _names("host", self.hosts)

    @property
    def switch_names(self) -> list[str]:
        """Names of the switches; their numbers follow those of the hosts."""
        return _names("switch", self.switches)

    def cross_checks(self) -> Iterable[Finding]:
        names = self.host_names + self.switch_names
        numbers = {name: i for i, name in enumerate(names)}
        if len(numbers) < len(names):
            twice = next(name for i, name in enumerate(names) if numbers[name] != i)
            yield Finding(
                twice, "names two nodes", "a name of its own for each node", at=("switches",)
            )
        for i, link in enumerate(self.links):
            ends = []
            for end in ("a", "b"):
                node = getattr(link, end)
                number = numbers.get(node) if isinstance(node, str) else node
                if number is None or number >= len(names):
                    yield Finding(
                        node,
                        "is not a node",
                        f"numbers 0 to {len(names) - 1}, or {one_of(names, 8)}",
                        did_you_mean(node, names) if isinstance(node, str) else "",
                        at=("links", i, end),
                    )
                ends.append(number)
            if ends[0] is not None and ends[0] == ends[1] and link.a != link.b:
                yield Finding(
                    link.b,
                    "is at both ends of the link",
                    "two different nodes",
                    at=("links", i, "b"),
                )


class TopologyFile(TopologyModel):
    """A topology file of another simulator."""

    noun: ClassVar[str] = "a file topology"

    kind: Literal["file"] = "file"
    path: Annotated[str, Text("a file, seen from the scenario's folder"), about("topology file")]
    dialect: Annotated[
        str, Text("auto, or a dialect", 64), about("grammar of the file; auto: recognise it")
    ] = "auto"


def _names(word: str, nodes: int | tuple[str, ...]) -> list[str]:
    return [f"{word}{i}" for i in range(nodes)] if isinstance(nodes, int) else list(nodes)


TOPOLOGIES: dict[str, type[TopologyModel]] = {
    "star": Star,
    "dumbbell": Dumbbell,
    "leaf_spine": LeafSpine,
    "fat_tree": FatTree,
    "explicit": Explicit,
    "file": TopologyFile,
}
"""Models by `kind`."""


def _topology(value: Any, info: ValidationInfo) -> Any:
    """Model of the kind that the mapping names."""
    if isinstance(value, TopologyModel):
        return value
    kinds = one_of(TOPOLOGIES)
    if not isinstance(value, Mapping):
        refuse(
            value,
            "is not a mapping",
            f"a mapping with a kind: {kinds}",
            'write {kind: file, path: "..."} for a file' if isinstance(value, str) else "",
        )
    if "kind" not in value:
        refuse(NO_VALUE, "is missing", kinds, at=("kind",))
    kind = value["kind"]
    if not isinstance(kind, str) or kind not in TOPOLOGIES:
        refuse(kind, "is not a topology", kinds, did_you_mean(kind, TOPOLOGIES), at=("kind",))
    return TOPOLOGIES[kind].read(value, info)


Topology = Annotated[
    Star | Dumbbell | LeafSpine | FatTree | Explicit | TopologyFile, BeforeValidator(_topology)
]
