"""``--set a.b[0].c=value``: paths, and values in YAML, put into a document before it is checked."""

from __future__ import annotations

import re
from collections.abc import Iterable

from emunet.errors import NO_VALUE, ScenarioError, raise_errors
from emunet.scenario.base import spell_path
from emunet.scenario.document import Node, read_text

_STEP = re.compile(
    r"""\.?(?P<key>[A-Za-z_][\w-]*)|\.(?P<number>[0-9]{1,9})"""
    r"""|\["(?P<quoted>[^"]*)"\]|\[(?P<index>[0-9]{1,9})\]"""
)


def parse_path(text: str) -> list[str | int]:
    """Keys and indices of a path: ``workload[0].incast.size``, ``switch.classes.3.weight``.

    Raises `ValueError`.
    """
    rest = text.strip().removeprefix("$")
    steps: list[str | int] = []
    while rest:
        match = _STEP.match(rest)
        if match is None or (match["key"] and steps and not rest.startswith(".")):
            raise ValueError(f'"{text}" is not a path')
        key = match["key"] or match["number"] or match["quoted"]
        steps.append(int(match["index"]) if match["index"] else key)
        rest = rest[match.end() :]
    if not steps:
        raise ValueError("the path is empty")
    return steps


def apply_overrides(root: Node, overrides: Iterable[str]) -> None:
    """Put every ``path=value`` into the document, in order; raises `ScenarioError`."""
    errors: list[ScenarioError] = []
    for text in overrides:
        try:
            _apply(root, text)
        except ScenarioError as error:
            errors += error.errors
    raise_errors(errors)


def _apply(root: Node, text: str) -> None:
    where = f"--set {text}" if len(text) <= 60 else f"--set {text[:59]}\u2026"
    path, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError("there is no = in it")
        steps = parse_path(path)
    except ValueError as error:
        raise ScenarioError(
            "$",
            text,
            f"is not a setting: {error}",
            "path=value, such as switch.buffer=9MB or workload[0].permutation.size=1MB",
            where=where,
        ) from None
    node = root
    for i, step in enumerate(steps[:-1]):
        child = _enter(node, step, steps[:i], where)
        if child is None:
            child = Node([] if isinstance(steps[i + 1], int) else {}, where, where)
        node = _put(node, step, Node(child.value, child.where, child.key_where))
    _enter(node, steps[-1], steps[:-1], where)
    _put(node, steps[-1], _value(value, where))


def _enter(node: Node, step: str | int, at: list[str | int], where: str) -> Node | None:
    """Entry of a node; None if it can be added there; raises if it cannot."""
    path = spell_path(at)
    if isinstance(step, int):
        if not isinstance(node.value, list):
            raise ScenarioError(
                path, NO_VALUE, f"[{step}] is not in it: it is not a list", where=where
            )
        if step > len(node.value):
            allowed = f"[0] to [{len(node.value)}]; the last one adds an entry"
            raise ScenarioError(
                path,
                NO_VALUE,
                f"[{step}] is beyond its {len(node.value)} entries",
                allowed,
                where=where,
            )
    elif isinstance(node.value, list):
        allowed = f"{path}[0] to {path}[{len(node.value) - 1}]" if node.value else ""
        raise ScenarioError(
            path,
            NO_VALUE,
            f'"{step}" is not in it: it is a list',
            allowed,
            f"write {path}[0].{step}",
            where=where,
        )
    elif not isinstance(node.value, dict):
        raise ScenarioError(
            path,
            node.value,
            f'has no "{step}": it is one value, not a mapping',
            "",
            f"set {path} to a mapping",
            where=where,
        )
    return node.child(step)


def _put(node: Node, step: str | int, child: Node) -> Node:
    """Place an entry that `_enter` has allowed.

    What is below may be shared by aliases, so it is copied, never changed.
    """
    if isinstance(step, int):
        node.value = [*node.value[:step], child, *node.value[step + 1 :]]
    else:
        node.value = {**node.value, step: child}
    return child


def _value(text: str, where: str) -> Node:
    if not text.strip():
        return Node("", where, where)
    try:
        node = read_text(text, where)
    except ScenarioError as error:
        if error.problem.endswith("is empty"):
            return Node(None, where, where)
        raise ScenarioError(
            "$", text, error.problem, error.allowed, error.fix, where=where
        ) from None
    return _moved(node, where)


def _moved(node: Node, where: str) -> Node:
    """The same value, standing on the command line."""
    if isinstance(node.value, dict):
        return Node({key: _moved(child, where) for key, child in node.value.items()}, where, where)
    if isinstance(node.value, list):
        return Node([_moved(child, where) for child in node.value], where, where)
    return Node(node.value, where, where)
