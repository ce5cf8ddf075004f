"""The catalogue: distributions of flow sizes, and switches, each value with its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

from emunet.errors import UsageError, did_you_mean, one_of

KINDS = ("switches",)
"""Kinds of devices."""

EVIDENCE = {
    "config": "shipped configuration of a switch operating system",
    "vendor": "said by the maker",
    "paper": "published and reviewed",
    "code": "source code of a published simulation",
    "assumed": "no source: a plausible value, to be varied",
}
"""Classes of evidence, and what each means."""


@dataclass(frozen=True)
class Value:
    """One value of an entry.

    Attributes
    ----------
    key : str
        Key of the scenario; of a fact, what it is.
    value : Any
        As it would be written in a scenario.
    evidence : str
        One of `EVIDENCE`.
    source, note : str
    """

    key: str
    value: Any
    evidence: str
    source: str
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A device: what a scenario takes from it, and what else is known."""

    name: str
    title: str
    fields: tuple[Value, ...]
    facts: tuple[Value, ...]


def names(kind: str) -> list[str]:
    """Names of the entries of a kind, such as ``switches``."""
    folder = resources.files("emunet.catalog") / kind
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if ".yaml" in f.name)


@cache
def entry(kind: str, name: str) -> Entry:
    """An entry by its name, one of `names`."""
    import yaml

    text = (resources.files("emunet.catalog") / kind / f"{name}.yaml").read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    parts = [
        tuple(Value(key, **about) for key, about in read.get(part, {}).items())
        for part in ("fields", "facts")
    ]
    return Entry(name, read["title"], *parts)


def find(name: str) -> Entry:
    """An entry of any kind.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    for kind in KINDS:
        if name in names(kind):
            return entry(kind, name)
    known = [known for kind in KINDS for known in names(kind)]
    raise UsageError(
        f"{name!r} is not in the catalogue; {did_you_mean(name, known) or one_of(known)}"
    )


def as_dict(found: Entry) -> dict[str, Any]:
    """An entry as plain data."""
    return asdict(found)


def values(kind: str, name: str) -> dict[str, Any]:
    """What a scenario takes from an entry, by key."""
    return {value.key: value.value for value in entry(kind, name).fields}
