"""Bounds of an expression of `emunet.scenario.where`: packet events that an engine need not keep.

An engine can drop events by kind and by a range of flows at no cost; the expression itself is
applied afterwards to what is left. So the bounds may be too wide, never too narrow.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from emunet._core.rows import EVENT_KINDS
from emunet.scenario.where import _literal, _parse

MOST_FLOW = (1 << 63) - 1
ALL_KINDS = (1 << len(EVENT_KINDS)) - 1


class Bounds(NamedTuple):
    """Events that can pass: a kind in the bit mask, and ``flow_start <= flow < flow_end``."""

    kinds: int
    flow_start: int
    flow_end: int


EVERYTHING = Bounds(ALL_KINDS, -1, MOST_FLOW)


def event_bounds(text: str) -> Bounds:
    """Bounds of an expression; it must compile."""
    return _bounds(_parse(text)) if text.strip() else EVERYTHING


def _bounds(node: ast.expr) -> Bounds:
    if isinstance(node, ast.BoolOp):
        parts = [_bounds(value) for value in node.values]
        together = _both if isinstance(node.op, ast.And) else _either
        found = parts[0]
        for part in parts[1:]:
            found = together(found, part)
        return found
    if isinstance(node, ast.Compare):
        found = EVERYTHING
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            found = _both(found, _comparison(left, op, right))
        return found
    return EVERYTHING


def _both(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(a.kinds & b.kinds, max(a.flow_start, b.flow_start), min(a.flow_end, b.flow_end))


def _either(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(a.kinds | b.kinds, min(a.flow_start, b.flow_start), max(a.flow_end, b.flow_end))


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Bounds:
    """Bounds of a comparison of `kind` or `flow`; everything for any other."""
    if isinstance(right, ast.Name) and isinstance(op, ast.Eq):
        left, right = right, left
    if not isinstance(left, ast.Name) or left.id not in ("kind", "flow"):
        return EVERYTHING
    if isinstance(op, ast.In) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        values = [_literal(left.id, item) for item in right.elts]
    elif isinstance(op, (ast.Eq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        values = [_literal(left.id, right)]
    else:
        return EVERYTHING
    if left.id == "kind":
        return EVERYTHING._replace(kinds=sum({1 << value for value in values}))
    if isinstance(op, (ast.Lt, ast.LtE)):
        return EVERYTHING._replace(flow_end=max(-1, values[0]) + isinstance(op, ast.LtE))
    if isinstance(op, (ast.Gt, ast.GtE)):
        return EVERYTHING._replace(flow_start=max(-1, values[0]) + isinstance(op, ast.Gt))
    return EVERYTHING._replace(flow_start=max(-1, min(values)), flow_end=max(-1, *values) + 1)
