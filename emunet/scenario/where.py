"""Expressions that choose packet events: ``flow == 3 and kind == 'drop' and time < '100us'``.

A Python expression of comparisons between one name and literals, joined by ``and``, ``or``, ``not``
and parentheses. It is parsed, checked against a white list and turned into array operations;
nothing is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from emunet.errors import did_you_mean, one_of
from emunet.units import UnitError, parse_time

if TYPE_CHECKING:
    import numpy as np

    Mask = Callable[[np.ndarray], np.ndarray]

COLUMNS = {
    "flow": "flow",
    "node": "node",
    "port": "port",
    "psn": "psn",
    "klass": "klass",
    "time": "time_ps",
    "kind": "kind",
    "packet": "packet",
}
"""Column of the event rows behind each name."""

_NAMES_OF = {
    "class": "klass",
    "time_ps": "time",
    "prio": "klass",
    "priority": "klass",
    "type": "kind",
    "qp": "flow",
}
_ORDER = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_MIRROR = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LONGEST = 2000
_DEEPEST = 50


class WhereError(ValueError):
    """An expression that is not one.

    Attributes
    ----------
    problem : str
        What is wrong, with the place in the expression.
    fix : str
        What to write instead; may be empty.
    """

    def __init__(self, problem: str, fix: str = "", node: ast.AST | None = None) -> None:
        column = getattr(node, "col_offset", -1)
        self.problem = f"{problem}, at character {column + 1}" if column >= 0 else problem
        self.fix = fix
        super().__init__(f"{self.problem}; {fix}" if fix else self.problem)


def compile_where(text: str) -> Mask:
    """Function from event rows to the mask of those chosen.

    Parameters
    ----------
    text : str
        The expression; blank chooses all.

    Returns
    -------
    callable
        Takes a structured array of ``emunet._core.rows.EVENT_ROW`` and gives bool[n_row].

    Raises
    ------
    WhereError
        The expression is not one, or compares what cannot be compared.
    """
    if not text.strip():
        return _everything
    return _mask(_parse(text), 0)


def check_where(text: str) -> None:
    """Raise `WhereError` unless `text` compiles."""
    compile_where(text)


def _everything(rows: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.ones(len(rows), dtype=bool)


def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise WhereError(f"is longer than {_LONGEST} characters")
    if not text.isascii():
        raise WhereError("has characters outside ASCII")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(" ".join(text.split()), mode="eval").body
    except SyntaxError as error:
        fix = ""
        if "class" in text and "klass" not in text:
            fix = 'the priority class is called "klass"'
        elif "&&" in text or "||" in text or "!" in text.replace("!=", ""):
            fix = 'write "and", "or" and "not"'
        elif "=" in text.replace("==", "").replace("!=", "").replace("<=", "").replace(">=", ""):
            fix = 'write "==" to compare'
        raise WhereError(
            f"is not an expression, from character {error.offset or 1} on", fix
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise WhereError("is not an expression") from None


def _mask(node: ast.expr, depth: int) -> Mask:
    """Mask function of a boolean expression."""
    if depth > _DEEPEST:
        raise WhereError("is nested too deeply")
    if isinstance(node, ast.BoolOp):
        parts = [_mask(value, depth + 1) for value in node.values]
        return _joined(parts, isinstance(node.op, ast.And))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _mask(node.operand, depth + 1)
        return lambda rows: ~inner(rows)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return _joined([_comparison(left, op, right) for left, op, right in pairs], True)
    if isinstance(node, ast.Name):
        _column(node)
        raise WhereError(f'has "{node.id}" alone', f'compare it, such as "{node.id} == 3"', node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        raise WhereError('joins with "&" or "|"', 'write "and" or "or"', node)
    raise WhereError("has something that is not a comparison", node=node)


def _joined(parts: list[Mask], every: bool) -> Mask:
    if len(parts) == 1:
        return parts[0]

    def joined(rows: np.ndarray) -> np.ndarray:
        mask = parts[0](rows)
        for part in parts[1:]:
            mask = mask & part(rows) if every else mask | part(rows)
        return mask

    return joined


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Mask:
    """One name against a literal, or a tuple or list of literals for `in`."""
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(left, right, isinstance(op, ast.NotIn))
    if type(op) not in _ORDER:
        raise WhereError('compares with "is"', 'write "=="', left)
    sign = _ORDER[type(op)]
    if not isinstance(left, ast.Name) and isinstance(right, ast.Name):
        left, right, sign = right, left, _MIRROR[sign]
    name = _column(left)
    value = _literal(name, right)
    if name in ("kind", "packet") and sign not in ("==", "!="):
        raise WhereError(f'orders {name} with "{sign}"', 'write "==", "!=" or "in"', left)
    return _compare(COLUMNS[name], sign, value)


def _compare(column: str, sign: str, value: int) -> Mask:
    import operator

    function: Any = {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }[sign]
    return lambda rows: function(rows[column].astype("i8"), value)


def _membership(left: ast.expr, right: ast.expr, negated: bool) -> Mask:
    import numpy as np

    name = _column(left)
    if not isinstance(right, (ast.Tuple, ast.List, ast.Set)) or not right.elts:
        raise WhereError('has no list after "in"', f'write "{name} in (1, 2)"', right)
    column, values = (
        COLUMNS[name],
        np.array([_literal(name, item) for item in right.elts], dtype=np.int64),
    )
    return lambda rows: np.isin(rows[column], values, invert=negated)


def _column(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise WhereError("compares something that is not a name", f"names: {one_of(COLUMNS)}", node)
    if node.id not in COLUMNS:
        close = _NAMES_OF.get(node.id)
        fix = f'did you mean "{close}"?' if close else did_you_mean(node.id, COLUMNS)
        raise WhereError(
            f'has the unknown name "{node.id}"', fix or f"names: {one_of(COLUMNS)}", node
        )
    return node.id


def _literal(name: str, node: ast.expr) -> int:
    """Number that stands in the column for a literal."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    if not isinstance(inner, ast.Constant):
        raise WhereError(f"compares {name} with something that is not a number or text", node=node)
    value = inner.value
    if name in ("kind", "packet"):
        return _named(name, value, node)
    if name == "time":
        return _time(value, negative, node)
    if isinstance(value, bool) or not isinstance(value, int):
        raise WhereError(f"compares {name} with {value!r}, which is not a whole number", node=node)
    if value >= 2**62:
        raise WhereError(f"compares {name} with a number that is too large", node=node)
    return -value if negative else value


def _named(name: str, value: object, node: ast.expr) -> int:
    from emunet._core.rows import EVENT_KINDS, PACKET_KINDS

    words = EVENT_KINDS if name == "kind" else PACKET_KINDS
    if value not in words:
        fix = did_you_mean(value, words) or f"one of {one_of(words)}"
        raise WhereError(f"compares {name} with {value!r}, which is none of its words", fix, node)
    return words.index(str(value))


def _time(value: object, negative: bool, node: ast.expr) -> int:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and not negative:
        try:
            return parse_time(str(value))
        except UnitError as error:
            fix = error.fix.replace('"', "'") if error.fix else "write a time such as '100us'"
            raise WhereError(
                f"compares time with {value!r}, which {error.problem}", fix, node
            ) from None
    raise WhereError(
        "compares time with something that is not a time", "write a time such as '100us'", node
    )
