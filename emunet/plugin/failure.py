"""Tells a policy's author what went wrong: which line of the file, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from emunet.errors import PluginError, PolicyFileError
from emunet.plugin import check
from emunet.plugin.records import Record, as_record, make_record
from emunet.plugin.slots import KEEP

if TYPE_CHECKING:
    from emunet.plugin.load import Policy

_HINTS = (
    (
        r"Unknown attribute '\w+' of type (?:Record|class\(Record)",
        "records have the fields of docs/policies.md and of STATE and PARAMS only",
    ),
    (
        r"Unknown attribute|NumPy function",
        "only math and the functions of numpy that Numba knows can be called",
    ),
    (
        r"Untyped global name",
        "module constants must be numbers, tuples of numbers or numpy arrays; values that change "
        "belong in STATE",
    ),
    (r"NameError", "define the name in the file, or pass it in"),
    (
        r"[Cc]annot unify",
        "give the variable one type on every path: 1.0 and not 1 where it becomes a float",
    ),
    (r"imprecise type|undefined", "use numbers; empty lists and dicts have no type"),
    (
        r"No implementation of function|Invalid use of|No conversion",
        "one operand is not a number, or the function is not among those that Numba compiles",
    ),
    (r"recursion", "write the recursion as a loop"),
    (
        r"[Uu]nsupported|not supported|not yet implemented",
        "this construct cannot be compiled; write it with numbers, if and loops",
    ),
    (r"Cannot cast", "assign a number to the field"),
)
"""What a compiler message contains, and the advice that goes with it; the first that fits."""

_GENERAL_HINT = "hooks use numbers, math and functions of the same file only; see docs/policies.md"


def compile_failure(source: check.SourceFile, hook: str, error: Exception) -> PolicyFileError:
    """The error of a hook that Numba cannot compile, at the line that it is about.

    Parameters
    ----------
    source : SourceFile
    hook : str
    error : Exception
        Numba's.
    """
    text = str(error)
    found = re.search(
        rf'(?:File "[^"\n]*{_tail(source.file)}", line |{_tail(source.file)} \()(\d+)', text
    )
    node = source.functions.get(hook)
    line = int(found[1]) if found else node.lineno if node else 0
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, text)), _GENERAL_HINT)
    return source.error(f"{hook} cannot be compiled: {_reason(text)}; {hint}", line)


def _tail(file: str) -> str:
    """Pattern of a file's name: messages shorten its folder."""
    return re.escape(re.split(r"[/\\]", file)[-1])


def _reason(text: str) -> str:
    """First sentence of a compiler message that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Failed in nopython mode")] or [
        "no reason given"
    ]
    reason = lines[0].rstrip(".")
    if reason.endswith(":"):
        reason += next(
            (f" {line.removeprefix('>>> ')}" for line in lines[1:] if line.startswith(">>>")), ""
        )
    return re.sub(r"(?:\.? Raised from|, defined at) .*$", "", reason)


def explain_failure(policy: Policy, hook: str, ctx: Any, state: Any) -> PluginError:
    """Why a call of a hook failed, found by repeating it as plain Python on copies.

    Parameters
    ----------
    policy : Policy
    hook : str
    ctx, state : Record, numpy record, structured array of length one, or bytes
        What the failing call was given. A native hook that fails leaves its state as it was.

    Returns
    -------
    PluginError
        With the file, the line, its text and the exception; to be raised by the caller.
    """
    source = check.parse(str(policy.path), policy.source)
    seen = _copy(ctx, policy.slot.ctx)
    try:
        policy.call(hook, seen, _copy(state, policy.state_dtype), _decision(policy, seen))
    except Exception as error:
        from emunet.plugin.load import line_in

        what = f"{type(error).__name__}: {error}"
        number = line_in(error, source.file) or _line(source, hook)
        failure = _failure(source, f"{hook} failed: {what}", number)
        failure.__cause__ = error
        return failure
    return _failure(
        source,
        f"{hook} failed as native code but not when repeated as plain Python: look for a "
        "whole number beyond 2^63, or a name that is not assigned on every path",
        _line(source, hook),
    )


def _failure(source: check.SourceFile, message: str, number: int) -> PluginError:
    """An error of a run, not of the text that it shows."""
    return PluginError(message, source.file, number, source.line(number))


def _copy(record: Any, dtype: np.dtype) -> Record:
    """A record of its own memory with the same content."""
    return as_record(as_record(record, dtype).tobytes(), dtype)


def _decision(policy: Policy, ctx: Record) -> Record:
    """The decision as an engine fills it in before a call."""
    out = make_record(policy.slot.out)
    for field in policy.slot.out_fields:
        if field.count > 1:
            out.array[field.name] = KEEP
        else:
            setattr(out, field.name, getattr(ctx, field.name))
    return out


def _line(source: check.SourceFile, hook: str) -> int:
    node = source.functions.get(hook)
    return node.lineno if node else 0
