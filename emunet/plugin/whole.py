"""Floats on their way into integers: out of range is an error in native code as in plain Python.

A bare conversion of a double that is not a number, or beyond 64 bits, is undefined in native code.
So the text that Numba compiles has `whole` around what is stored in integer fields, and in the
place of ``int``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

NAME = "_emunet_whole"
"""Name of `whole` in a policy's native module."""

LOW, HIGH = -(2.0**63), 2.0**63


def whole(value: Any) -> int:
    """``int(value)``; ValueError for a float that no int64 holds."""
    if isinstance(value, float) and not LOW <= value < HIGH:
        raise ValueError(f"{value} is no whole number of 64 bits")
    return int(value)


def register() -> None:
    """Teach Numba `whole`; once is enough, more does no harm."""
    from numba import types
    from numba.extending import overload

    @overload(whole)
    def _native(value):  # type: ignore[no-untyped-def]
        if isinstance(value, types.NoneType):
            return lambda value: value  # which cannot be stored: the compiler's own error
        if not isinstance(value, types.Float):
            return lambda value: int(value)

        def checked(value):  # type: ignore[no-untyped-def]
            if not (value >= LOW and value < HIGH):
                raise ValueError("no whole number of 64 bits")
            return int(value)

        return checked


def checked_tree(text: str, file: str, fields: Iterable[str]) -> ast.Module:
    """Syntax tree of a policy's text with `whole` where floats become integers.

    Parameters
    ----------
    text, file : str
    fields : iterable of str
        Names of the integer fields of `state` and `out`.
    """
    return ast.fix_missing_locations(_Checked(frozenset(fields)).visit(ast.parse(text, file)))


class _Checked(ast.NodeTransformer):
    def __init__(self, fields: frozenset[str]) -> None:
        self._fields = fields

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """``out.window_bytes = x``"""
        self.generic_visit(node)
        if any(self._is_field(target) for target in node.targets):
            node.value = _call(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """``state.count += x`` becomes ``state.count = whole(state.count + x)``."""
        self.generic_visit(node)
        if not self._is_field(node.target):
            return node
        present = ast.parse(ast.unparse(node.target), mode="eval").body
        total = ast.BinOp(present, node.op, node.value)
        for part in ast.walk(present):
            ast.copy_location(part, node)
        value = _call(ast.copy_location(total, node))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``int(x)``"""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1:
            node.func = ast.copy_location(ast.Name(NAME, ast.Load()), node.func)
        return node

    def _is_field(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Subscript):
            target = target.value
        return isinstance(target, ast.Attribute) and target.attr in self._fields


def _call(value: ast.expr) -> ast.Call:
    name = ast.copy_location(ast.Name(NAME, ast.Load()), value)
    return ast.copy_location(ast.Call(name, [value], []), value)
