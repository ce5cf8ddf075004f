"""Leaves of the scenario: a small class per kind of value, with its check, schema and spelling.

A leaf is used as the metadata of an annotation: ``rate: Annotated[int, Rate()]``. Values from text
must carry their unit; values given in Python may also be integers in base units (bit/s, bytes, ps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NoReturn

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from emunet import catalog, units
from emunet.errors import NO_VALUE, did_you_mean, one_of

CLASSES = 8

LAST_PS = (1 << 62) - 1
"""Latest time of a run, 53 days: nothing starts later."""

MOST_PACKETS = (1 << 32) - 1
"""Packets of a message: the engine numbers them with 32 bits."""


class Finding:
    """One problem below some point of the scenario; `at` is the path from that point."""

    def __init__(
        self,
        value: object,
        problem: str,
        allowed: str = "",
        fix: str = "",
        at: tuple[str | int, ...] = (),
    ) -> None:
        self.value, self.problem, self.allowed, self.fix, self.at = value, problem, allowed, fix, at

    def below(self, *at: str | int) -> Finding:
        """The same problem, seen from further up."""
        return Finding(self.value, self.problem, self.allowed, self.fix, (*at, *self.at))


class Findings(ValueError):
    """Problems on their way up through pydantic, which passes a `ValueError` on."""

    def __init__(self, items: Sequence[Finding]) -> None:
        super().__init__(items[0].problem)
        self.items = list(items)


def refuse(
    value: object, problem: str, allowed: str = "", fix: str = "", at: tuple[str | int, ...] = ()
) -> NoReturn:
    """Raise one `Finding`."""
    raise Findings([Finding(value, problem, allowed, fix, at)])


def from_text(info: ValidationInfo) -> bool:
    """Whether the values come from a file or the command line, where numbers must carry units."""
    return bool(info.context and info.context.get("text"))


def about(meaning: str, source: str = "") -> Any:
    """Meaning of a key and where its default comes from, for the schema and the documentation."""
    return Field(description=meaning, json_schema_extra={"x-source": source} if source else None)


class Leaf:
    """A kind of value.

    Subclasses give `parse` (raises `Findings`), `schema` (JSON schema), `allowed` (to read) and,
    where the text is not the value itself, `spell`.
    """

    def parse(self, value: Any, text: bool) -> Any:
        """The checked value; `text`: it was written in a file."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """JSON schema of what can be written."""
        raise NotImplementedError

    def allowed(self) -> str:
        """What can be written, to read."""
        raise NotImplementedError

    def spell(self, value: Any) -> Any:
        """The value as it would be written in a file."""
        return list(value) if isinstance(value, tuple) else value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            lambda value, info: self.parse(value, from_text(info)),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.spell, when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict:
        return self.schema()


class Quantity(Leaf):
    """A number with a unit, between `low` and `high` base units."""

    name = "quantity"
    base = ""
    pattern = ""
    example = ""
    bare_zero = True
    least = 0
    most = units.INT64_MAX

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        self.low = self.least if low is None else low
        self.high = self.most if high is None else high

    def read(self, text: str) -> int:
        """Base units of a text; raises `UnitError`."""
        raise NotImplementedError

    def parse(self, value: Any, text: bool) -> int:
        number = self._number(value, text)
        if not self.low <= number <= self.high:
            refuse(value, "is too small" if number < self.low else "is too large", self.allowed())
        return number

    def _number(self, value: Any, text: bool) -> int:
        if isinstance(value, bool) or not isinstance(value, (str, Real)):
            refuse(value, f"is not a {self.name}", self.allowed())
        if isinstance(value, Integral) and not text:
            return int(value)
        if not isinstance(value, (str, Integral)) and not text:
            refuse(
                value,
                f"is a float; numbers in Python are whole {self.base}",
                self.allowed(),
                "write an int, or text with a unit",
            )
        try:
            return self.read(str(value))
        except units.UnitError as error:
            refuse(value, error.problem, self.allowed(), error.fix)

    def schema(self) -> dict[str, Any]:
        text = {"type": "string", "pattern": self.pattern, "examples": [self.example]}
        return {"anyOf": [text, {"const": 0}]} if self.bare_zero and self.low == 0 else text

    def allowed(self) -> str:
        span = ""
        if self.high < units.INT64_MAX:
            span = f", {self.spell(self.low)} to {self.spell(self.high)}"
        elif self.low > 0:
            span = f", {self.spell(self.low)} or more"
        return f'{self.name} with its unit, such as "{self.example}"{span}'


_DIGITS = r"^\s*(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*"


class Rate(Quantity):
    """Bits per second."""

    name, base, example, bare_zero = "rate", "bit/s", "400Gbps", False
    least, most = units.LEAST_RATE_BPS, units.MOST_RATE_BPS
    pattern = _DIGITS + r"(?:[kKMGT]?(?:bps|b/s|bit/s|B/s)|[KMGT]iB/s)\s*$"

    def read(self, text: str) -> int:
        return units.parse_rate(text)

    def spell(self, value: int) -> str:
        return units.format_rate(value)


class Size(Quantity):
    """Bytes."""

    name, base, example = "size", "bytes", "2MB"
    pattern = _DIGITS + r"(?:[kKMGT]?B|[KMGT]iB)\s*$|^0$"

    def read(self, text: str) -> int:
        return units.parse_size(text)

    def spell(self, value: int) -> str:
        return units.format_size(value)


class Time(Quantity):
    """Picoseconds."""

    name, base, example = "time", "ps", "1us"
    pattern = _DIGITS + "(?:s|ms|us|\u00b5s|\u03bcs|ns|ps)" + r"\s*$|^0$"

    def read(self, text: str) -> int:
        return units.parse_time(text)

    def spell(self, value: int) -> str:
        return units.format_time(value)


class Delay(Time):
    """Picoseconds between two events of the network."""

    most = units.MOST_DELAY_PS


class Bytes(Size):
    """A size that is customarily written as a bare number of bytes, such as an MTU."""

    def parse(self, value: Any, text: bool) -> int:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return super().parse(int(value) if whole else value, text and not whole)

    def schema(self) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "integer", "minimum": self.low, "maximum": self.high},
                super().schema(),
            ]
        }

    def spell(self, value: int) -> Any:
        return value

    def allowed(self) -> str:
        return f"bytes, {self.low} to {self.high}"


class Whole(Leaf):
    """An integer between `low` and `high`; `even` and `power` (of two) narrow it further."""

    def __init__(self, low: int, high: int, *, even: bool = False, power: bool = False) -> None:
        self.low, self.high, self.even, self.power = low, high, even, power

    def parse(self, value: Any, text: bool) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            bare = isinstance(value, str) and value.isdecimal() and len(value) < 19
            fix = f"write {value} without quotes" if bare else ""
            if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
                fix = f"write {int(value)}"
            refuse(value, "is not a whole number", self.allowed(), fix)
        number = int(value)
        if not self.low <= number <= self.high:
            refuse(number, "is too small" if number < self.low else "is too large", self.allowed())
        if self.even and number % 2:
            refuse(
                number,
                "is odd",
                self.allowed(),
                f"write {number - 1 if number > self.high - 1 else number + 1}",
            )
        if self.power and number & (number - 1):
            below = 1 << (number.bit_length() - 1)
            refuse(number, "is not a power of two", self.allowed(), f"write {below} or {2 * below}")
        return number

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "integer", "minimum": self.low, "maximum": self.high}
        if self.even:
            schema["multipleOf"] = 2
        if self.power:
            span = range(self.low.bit_length() - 1, self.high.bit_length())
            return {"enum": [1 << e for e in span]}
        return schema

    def allowed(self) -> str:
        kind = "even number" if self.even else "power of two" if self.power else "whole number"
        return f"{kind}, {self.low} to {self.high}"


class Ratio(Leaf):
    """A double from `low` (exclusive if `above`) to `high`: a number, ``1/8`` or ``12.5%``.

    `hint` says what the ratio is a part of, for those who wrote more than `high`.
    """

    def __init__(self, low: float, high: float, *, above: bool = False, hint: str = "") -> None:
        self.low, self.high, self.above, self.hint = low, high, above, hint

    def parse(self, value: Any, text: bool) -> float:
        if isinstance(value, bool) or not isinstance(value, (str, Real)):
            refuse(value, "is not a ratio", self.allowed())
        try:
            ratio = units.parse_ratio(value if isinstance(value, str) else float(value))
        except (units.UnitError, OverflowError) as error:
            refuse(value, getattr(error, "problem", "is not a ratio"), self.allowed())
        if ratio < self.low or ratio > self.high or (self.above and ratio == self.low):
            # 30 may be meant as a percentage; 1.3 is a ratio that is too large
            is_percent = not isinstance(value, str) and 2 <= ratio <= 100 and self.high == 1
            hints = [self.hint] if self.hint and ratio > self.high else []
            hints += [f'for a percentage write "{value}%"'] if is_percent else []
            refuse(value, "is out of range", self.allowed(), "; ".join(hints))
        return ratio

    def schema(self) -> dict[str, Any]:
        low = "exclusiveMinimum" if self.above else "minimum"
        return {
            "anyOf": [
                {"type": "number", low: self.low, "maximum": self.high},
                {"type": "string", "pattern": r"^\s*[0-9.eE+-]+\s*(?:/\s*[0-9.eE+-]+\s*)?%?\s*$"},
            ]
        }

    def allowed(self) -> str:
        low = f"above {self.low:g} up to" if self.above else f"{self.low:g} to"
        return f'a ratio such as 0.3, "1/8" or "30%", {low} {self.high:g}'


_MEANT = {"yes": "true", "on": "true", "no": "false", "off": "false", "1": "true", "0": "false"}


class Flag(Leaf):
    """true or false."""

    def parse(self, value: Any, text: bool) -> bool:
        if not isinstance(value, bool):
            meant = _MEANT.get(str(value).lower(), "")
            refuse(
                value,
                "is neither true nor false",
                self.allowed(),
                f"did you mean {meant}?" if meant else "",
            )
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def allowed(self) -> str:
        return "true or false"


class Word(Leaf):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def parse(self, value: Any, text: bool) -> str:
        if value not in self.words:
            refuse(value, "is not known", self.allowed(), did_you_mean(value, self.words))
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}

    def allowed(self) -> str:
        return one_of(self.words)


class Text(Leaf):
    """Some text, on one line."""

    def __init__(self, what: str, longest: int = 4096) -> None:
        self.what, self.longest = what, longest

    def parse(self, value: Any, text: bool) -> str:
        if not isinstance(value, str):
            bare = isinstance(value, (int, float)) and not isinstance(value, bool)
            refuse(value, "is not text", self.what, f'write "{value}" in quotes' if bare else "")
        if not value.strip():
            refuse(value, "is empty", self.what)
        if not value.isprintable():
            refuse(value, "has characters that cannot be printed", self.what)
        if len(value) > self.longest:
            refuse(value, f"is longer than {self.longest} characters", self.what)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def allowed(self) -> str:
        return self.what


class CatalogName(Leaf):
    """Name of an entry of the catalogue."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def parse(self, value: Any, text: bool) -> str:
        known = catalog.names(self.kind)
        if value not in known:
            hint = did_you_mean(str(value), known)
            refuse(value, f"is not among the {self.kind} of the catalogue", one_of(known), hint)
        return str(value)

    def schema(self) -> dict[str, Any]:
        return {"enum": catalog.names(self.kind)}

    def allowed(self) -> str:
        return f"an entry of `emunet catalog {self.kind}`"


class OrWord(Leaf):
    """Another leaf, or one word in its place."""

    def __init__(self, leaf: Leaf, word: str) -> None:
        self.leaf, self.word = leaf, word

    def parse(self, value: Any, text: bool) -> Any:
        if value == self.word:
            return value
        if isinstance(value, str) and value.strip().isalpha():
            refuse(value, "is not known", self.allowed(), did_you_mean(value, [self.word]))
        return self.leaf.parse(value, text)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"const": self.word}, self.leaf.schema()]}

    def spell(self, value: Any) -> Any:
        return value if value == self.word else self.leaf.spell(value)

    def allowed(self) -> str:
        return f"{self.word}, or a {self.leaf.allowed()}"


class Node(Leaf):
    """A node: its number (hosts first, then switches) or its name."""

    def parse(self, value: Any, text: bool) -> int | str:
        if isinstance(value, Integral) and not isinstance(value, bool):
            if value < 0:
                refuse(value, "is negative", self.allowed())
            return int(value)
        if not isinstance(value, str) or not value.strip():
            refuse(value, "is neither a number nor a name", self.allowed())
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "minLength": 1}]}

    def allowed(self) -> str:
        return "a number from 0, or a name"


class ListOf(Leaf):
    """A list of leaves, without repetitions if `unique`, of `least` to `most` entries."""

    def __init__(
        self, leaf: Leaf, what: str, *, unique: bool = False, least: int = 1, most: int = 1 << 24
    ) -> None:
        self.leaf, self.what, self.unique, self.least, self.most = leaf, what, unique, least, most

    def parse(self, value: Any, text: bool) -> tuple:
        if not isinstance(value, (list, tuple)):
            refuse(
                value,
                "is not a list",
                self.allowed(),
                f"write [{value}]" if isinstance(value, (str, int)) else "",
            )
        if not self.least <= len(value) <= self.most:
            refuse(value, f"has {len(value)} entries", self.allowed())
        found: list[Finding] = []
        seen: dict[Any, int] = {}
        items = []
        for i, entry in enumerate(value):
            try:
                item = self.leaf.parse(entry, text)
            except Findings as error:
                found += [finding.below(i) for finding in error.items]
                continue
            if self.unique and item in seen:
                found.append(Finding(entry, f"is entry [{seen[item]}] too", "each once", at=(i,)))
            seen.setdefault(item, i)
            items.append(item)
        if found:
            raise Findings(found)
        return tuple(items)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "array",
            "items": self.leaf.schema(),
            "minItems": self.least,
            "maxItems": self.most,
            "uniqueItems": self.unique,
        }

    def spell(self, value: tuple) -> list:
        return [self.leaf.spell(item) for item in value]

    def allowed(self) -> str:
        return self.what


class CountOrNames(Leaf):
    """How many nodes, or their names."""

    def __init__(self, low: int, high: int) -> None:
        self.count = Whole(low, high)
        self.names = ListOf(Text("a name", 64), "a list of names", unique=True, most=high)

    def parse(self, value: Any, text: bool) -> int | tuple[str, ...]:
        if isinstance(value, (list, tuple)):
            return self.names.parse(value, text)
        if isinstance(value, bool) or not isinstance(value, Integral):
            refuse(value, "is neither a number nor a list of names", self.allowed())
        return self.count.parse(value, text)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.count.schema(), self.names.schema()]}

    def allowed(self) -> str:
        return f"how many ({self.count.low} to {self.count.high}), or a list of names"


class Parameters(Leaf):
    """Parameter names with numbers, texts with units, or flags; the policy checks them."""

    def parse(self, value: Any, text: bool) -> dict[str, Any]:
        if not isinstance(value, dict):
            refuse(value, "is not a mapping", self.allowed())
        found = []
        for name, entry in value.items():
            if not isinstance(name, str) or not name.isidentifier():
                found.append(
                    Finding(NO_VALUE, f"{name} is not the name of a parameter", at=(str(name),))
                )
            elif not isinstance(entry, (str, int, float, bool)):
                found.append(Finding(entry, "is not one value", self.allowed(), at=(name,)))
        if found:
            raise Findings(found)
        return dict(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean"]}}

    def allowed(self) -> str:
        return "a mapping of names to numbers, texts with units, or true and false"


class NumberMap(Leaf):
    """A mapping of whole numbers to whole numbers."""

    def __init__(self, key: Whole, value: Whole, what: str) -> None:
        self.key, self.value, self.what = key, value, what

    def parse(self, value: Any, text: bool) -> dict[int, int]:
        if not isinstance(value, Mapping):
            refuse(value, "is not a mapping", self.allowed())
        found: list[Finding] = []
        read = {}
        for name, entry in value.items():
            try:
                # keys of a file are text, even if they are numbers
                key = int(name) if isinstance(name, str) and name.isdecimal() else name
                read[self.key.parse(key, text=False)] = self.value.parse(entry, text)
            except Findings as error:
                found += [finding.below(str(name)) for finding in error.items]
        if found:
            raise Findings(found)
        return dict(sorted(read.items()))

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.schema()}

    def allowed(self) -> str:
        return self.what


class Maybe(Leaf):
    """Another leaf, or null for a default that the meaning of the key tells."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf

    def parse(self, value: Any, text: bool) -> Any:
        return None if value is None else self.leaf.parse(value, text)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.leaf.schema(), {"type": "null"}]}

    def spell(self, value: Any) -> Any:
        return None if value is None else self.leaf.spell(value)

    def allowed(self) -> str:
        return f"{self.leaf.allowed()}; or null"
