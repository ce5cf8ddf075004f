"""YAML text as nodes that know where they stand, by the YAML 1.2 core rules, with limits.

``yes`` and ``no`` are text, ``010`` is ten, ``1:30`` is text: nothing is read as something that its
author did not write. Repeated keys, tags and more than one document are refused. The reader works
on parser events with a stack of its own, so that deep nesting and aliases that multiply are errors,
not crashes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emunet.errors import NO_VALUE, ScenarioError

MOST_BYTES = 64 << 20
MOST_VALUES = 4_000_000
DEEPEST = 40
_YAML_TAG = "tag:yaml.org,2002:"

_INT = re.compile(r"[-+]?[0-9]{1,30}")
_BASED = re.compile(r"0o[0-7]{1,30}|0x[0-9a-fA-F]{1,30}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass
class Node:
    """A value and its place.

    Attributes
    ----------
    value : dict of str to Node, list of Node, or a scalar
    where : str
        ``FILE:LINE:COLUMN``, or the option that set it.
    key_where : str
        Place of the key before it, if it has one.
    """

    value: Any
    where: str
    key_where: str = ""

    def plain(self) -> Any:
        """Python data: dict, list, str, int, float, bool, None."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def locate(self, at: Sequence[str | int]) -> str:
        """Place of the value at a path, or of the nearest thing around it that exists."""
        node = self
        for i, step in enumerate(at):
            child = node.child(step)
            if child is None:
                return node.key_where or node.where
            node = child
            if i == len(at) - 1 and isinstance(node.value, (dict, list)):
                return node.key_where or node.where
        return node.where

    def child(self, step: str | int) -> Node | None:
        """Entry of a mapping or list, or None."""
        if isinstance(self.value, dict):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and -1 < step < len(self.value):
            return self.value[step]
        return None


@dataclass
class _Open:
    """A mapping or list being read."""

    node: Node
    anchor: str | None
    key: tuple[str, str] | None = None
    size: int = 1


@dataclass
class _Reader:
    """Builds nodes from parser events."""

    name: str
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    root: Node | None = None
    values: int = 0

    def fail(
        self, mark: Any, value: object, problem: str, fix: str = "", allowed: str = ""
    ) -> ScenarioError:
        return ScenarioError(self.path(), value, problem, allowed, fix, where=self.where(mark))

    def where(self, mark: Any) -> str:
        return f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def path(self) -> str:
        from emunet.scenario.base import spell_path

        steps: list[str | int] = []
        for part in self.stack:
            if isinstance(part.node.value, list):
                steps.append(len(part.node.value))
            elif part.key:
                steps.append(part.key[0])
        return spell_path(steps[:8])

    def open(self, event: Any, value: dict | list) -> None:
        if len(self.stack) >= DEEPEST:
            raise self.fail(
                event.start_mark, NO_VALUE, f"is nested more than {DEEPEST} levels deep"
            )
        self._key_must_be_text(event)
        self.stack.append(_Open(Node(value, self.where(event.start_mark)), event.anchor))

    def close(self) -> None:
        part = self.stack.pop()
        self.put(part.node, part.anchor, part.size)

    def scalar(self, event: Any) -> None:
        part = self.stack[-1] if self.stack else None
        if part and isinstance(part.node.value, dict) and part.key is None:
            self._key(part, event)
            return
        plain = event.style is None or event.style == ""
        value = resolve(event.value) if plain else event.value
        self.put(Node(value, self.where(event.start_mark)), event.anchor, 1, event)

    def alias(self, event: Any) -> None:
        self._key_must_be_text(event)
        if event.anchor not in self.anchors:
            raise self.fail(
                event.start_mark,
                f"*{event.anchor}",
                "refers to nothing",
                f"put &{event.anchor} before the value it should repeat",
            )
        node, size = self.anchors[event.anchor]
        self.put(Node(node.value, node.where), None, size, event)

    def put(self, node: Node, anchor: str | None, size: int, event: Any = None) -> None:
        """Place a finished value in what is open around it."""
        self.values += 0 if event is None else size
        part = self.stack[-1] if self.stack else None
        total = size if part is None else part.size + size
        if max(total, self.values) > MOST_VALUES:
            raise ScenarioError(
                "$",
                NO_VALUE,
                f"holds more than {MOST_VALUES} values",
                "",
                "aliases multiply what they repeat",
                where=node.where,
            )
        if anchor:
            self.anchors[anchor] = (node, size)
        if part is None:
            self.root = node
            return
        part.size = total
        if isinstance(part.node.value, list):
            part.node.value.append(node)
        elif part.key is not None:
            key, node.key_where = part.key
            part.node.value[key] = node
            part.key = None

    def _key(self, part: _Open, event: Any) -> None:
        where = self.where(event.start_mark)
        key = event.value
        if key in part.node.value:
            first = part.node.value[key].key_where
            part.key = (key, where)
            raise self.fail(
                event.start_mark,
                NO_VALUE,
                f'the key "{key}" stands here twice',
                "remove one of the two",
                f"each key once; the first is at {first}",
            )
        if key == "<<":
            raise self.fail(
                event.start_mark,
                NO_VALUE,
                "merge keys (<<) are not part of YAML 1.2",
                "write the keys out, or repeat a whole value with an alias",
            )
        part.key = (key, where)

    def _key_must_be_text(self, event: Any) -> None:
        part = self.stack[-1] if self.stack else None
        if part and isinstance(part.node.value, dict) and part.key is None:
            raise self.fail(
                event.start_mark, NO_VALUE, "a key is not plain text", 'write "key: value"'
            )


def resolve(text: str) -> Any:
    """Value of an unquoted scalar by the YAML 1.2 core rules."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) and len(text) < 40 and math.isfinite(float(text)):
        return float(text)
    return text


def read_file(path: Path | str) -> Node:
    """Nodes of a YAML file; raises `ScenarioError`."""
    name = str(path)
    try:
        size = Path(path).stat().st_size
        if size > MOST_BYTES:
            raise ScenarioError(
                "$",
                NO_VALUE,
                f"{name} has {size} bytes",
                f"at most {MOST_BYTES} bytes",
                "keep long flow lists and topologies in files of their own",
                where=name,
            )
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ScenarioError(
            "$", name, _cause(error, path), "a YAML file", _other_file(path)
        ) from None
    return read_text(_decode(data, name), name)


def _cause(error: Exception, path: Path | str) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, IsADirectoryError):
        return "is a directory"
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"


def _other_file(path: Path | str) -> str:
    """The file in the same folder that was probably meant."""
    from emunet.errors import did_you_mean

    try:
        names = sorted(p.name for p in Path(path).parent.iterdir() if p.suffix in (".yaml", ".yml"))
    except (OSError, ValueError):
        return ""
    return did_you_mean(Path(path).name, names)


def _decode(data: bytes, name: str) -> str:
    """Text of UTF-8 bytes, with or without a byte order mark."""
    encodings = {
        b"\xff\xfe": "UTF-16",
        b"\xfe\xff": "UTF-16",
        b"\x1f\x8b": "gzip",
        b"\x89H": "HDF5",
    }
    found = encodings.get(data[:2])
    if found is None and b"\0" in data[:4096]:
        found = "binary"
    if found:
        raise ScenarioError(
            "$",
            NO_VALUE,
            f"{name} is {found} data, not text",
            "a YAML file in UTF-8",
            "save it as UTF-8" if found == "UTF-16" else "",
            where=name,
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ScenarioError(
            "$",
            NO_VALUE,
            f"the byte 0x{data[error.start]:02x} is not UTF-8",
            "a YAML file in UTF-8",
            "save it as UTF-8",
            where=f"{name}:{line}:{column}",
        ) from None


def read_text(text: str, name: str) -> Node:
    """Nodes of YAML text; `name` stands for the file in errors."""
    import yaml

    reader = _Reader(name)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            _take(reader, event, yaml)
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text, reader) from None
    except yaml.YAMLError as error:
        raise _unreadable(error, text, name) from None
    if reader.root is None or reader.root.value is None:
        raise ScenarioError(
            "$", NO_VALUE, f"{name} is empty", "a mapping with at least a topology", where=name
        )
    return reader.root


def _take(reader: _Reader, event: Any, yaml: Any) -> None:
    if isinstance(event, yaml.DocumentStartEvent) and reader.root is not None:
        raise reader.fail(
            event.start_mark, NO_VALUE, "a second document begins here", 'remove the line "---"'
        )
    if getattr(event, "tag", None) not in (None, "!"):
        raise reader.fail(
            event.start_mark,
            NO_VALUE,
            f"the tag {event.tag.replace(_YAML_TAG, '!!')} is not allowed",
            "remove it",
        )
    if isinstance(event, yaml.ScalarEvent):
        reader.scalar(event)
    elif isinstance(event, yaml.AliasEvent):
        reader.alias(event)
    elif isinstance(event, yaml.MappingStartEvent):
        reader.open(event, {})
    elif isinstance(event, yaml.SequenceStartEvent):
        reader.open(event, [])
    elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
        reader.close()


def _syntax(error: Any, text: str, reader: _Reader) -> ScenarioError:
    """What is wrong with text that is not YAML."""
    mark = error.problem_mark or error.context_mark
    problem, fix = str(error.problem or error.context), ""
    if mark is None:
        return ScenarioError("$", NO_VALUE, f"is not YAML: {problem}", where=reader.name)
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    if "\t" in line[: mark.column + 1] and not line[: mark.column].strip():
        problem, fix = "a tab indents this line", "indent with spaces"
    elif "mapping values are not allowed" in problem:
        fix = "a colon with a blank after it, inside a value: put the value in quotes"
    elif "<stream end>" in problem or mark.line >= len(text.rstrip().splitlines()):
        problem, fix = "the text ends inside a value", "close every bracket, brace and quote"
    elif "expected ',' or" in problem:
        fix = "entries in { } and [ ] are separated by commas, and each bracket is closed"
    elif "cannot start any token" in problem:
        fix = "put the value in quotes"
    return ScenarioError(
        reader.path(), NO_VALUE, f"is not YAML: {problem}", "", fix, where=reader.where(mark)
    )


def _unreadable(error: Any, text: str, name: str) -> ScenarioError:
    """A character that YAML does not allow."""
    found = next(_odd_characters(text), None)
    if found is None:
        return ScenarioError("$", NO_VALUE, f"is not YAML: {error}", where=name)
    line, column, character = found
    return ScenarioError(
        "$",
        NO_VALUE,
        f"the character U+{ord(character):04X} is not allowed",
        "",
        "remove it",
        where=f"{name}:{line}:{column}",
    )


def _odd_characters(text: str) -> Iterator[tuple[int, int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        for match in re.finditer("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", line):
            yield number, match.start() + 1, match.group()


def write_text(data: Any) -> str:
    """YAML text that `read_text` reads back as the same data."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):
        """Quotes what the core rules would not read as text."""

    def represent(dumper: Any, text: str) -> Any:
        style = None if isinstance(resolve(text), str) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    Dumper.ignore_aliases = lambda self, data: True
    return yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
