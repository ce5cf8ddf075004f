"""Checks of a policy file that need its text only: syntax, imports, fields, undefined names.

What these checks find, a compiler would report too, but later and in its own words; here the error
names the file, the line and the fix before anything runs.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from emunet.errors import PolicyFileError, did_you_mean, one_of
from emunet.plugin.slots import HOOK_ARGUMENTS, Slot

ALLOWED_IMPORTS = ("__future__", "collections", "emunet", "math", "numba", "numpy", "typing")
"""Packages that a policy may import."""

_REFUSED: dict[type[ast.AST], str] = {
    ast.AsyncFor: "async for",
    ast.AsyncFunctionDef: "async functions",
    ast.AsyncWith: "async with",
    ast.Await: "await",
    ast.ClassDef: "classes",
    ast.FunctionDef: "functions inside functions",
    ast.Global: "global",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Lambda: "lambda",
    ast.Nonlocal: "nonlocal",
    ast.With: "with",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
}
"""Constructs that cannot be part of a hook or of a function that it calls."""

_ENDS = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException", "exit", "quit")
"""Names by which plain Python would leave the program, not the hook."""


@dataclass
class SourceFile:
    """Text and syntax tree of a policy file.

    Attributes
    ----------
    file : str
        Path as the user named it.
    text : str
    tree : ast.Module
    functions : dict of str to ast.FunctionDef
        Functions at the top level of the file.
    """

    file: str
    text: str
    tree: ast.Module = field(repr=False)
    functions: dict[str, ast.FunctionDef] = field(repr=False)

    def line(self, number: int) -> str:
        """Text of a line, or an empty text."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def error(self, message: str, number: int = 0) -> PolicyFileError:
        """An error about this file, at a line if `number` is not 0."""
        return PolicyFileError(message, self.file, number, self.line(number))

    def line_of(self, name: str) -> int:
        """Line where a module-level name is first assigned or defined; 0 if nowhere."""
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return node.lineno
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    return node.lineno
        return 0


def parse(file: str, text: str) -> SourceFile:
    """The file's syntax tree.

    Raises
    ------
    PolicyFileError
        A syntax error, or an import that a policy may not have.
    """
    try:
        tree = ast.parse(text, file)
    except SyntaxError as error:
        raise PolicyFileError(
            f"syntax error: {error.msg}", file, error.lineno or 0, error.text or ""
        ) from None
    except ValueError as error:
        raise PolicyFileError(f"not a Python file: {error}", file) from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    source = SourceFile(file, text, tree, functions)
    for node in ast.walk(tree):
        for name in _imports(node):
            if name.split(".")[0] not in ALLOWED_IMPORTS:
                raise source.error(
                    f"imports {name or 'a neighbouring file'}, but a policy stands alone, so that "
                    f"its text says all that runs (it may import {one_of(ALLOWED_IMPORTS)})",
                    getattr(node, "lineno", 0),
                )
    return source


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "" if node.level == 0 else ""]
    return []


def hook_names(source: SourceFile, slot: Slot) -> list[str]:
    """Hooks that the file defines, in the slot's order.

    Raises
    ------
    PolicyFileError
        A hook with other arguments, or a function that looks like a hook and has another name.
    """
    wanted = ", ".join(HOOK_ARGUMENTS)
    for name, node in source.functions.items():
        arguments = _argument_names(node)
        if name in slot.hooks:
            if arguments != HOOK_ARGUMENTS:
                said = ", ".join(arguments)
                raise source.error(
                    f"the hook must be {name}({wanted}), not {name}({said})", node.lineno
                )
        elif arguments == HOOK_ARGUMENTS and not name.startswith("_"):
            fix = did_you_mean(name.removeprefix("on_"), slot.hooks)
            advice = f"; {fix}" if fix else ""
            raise source.error(
                f"{name} is not a hook of {slot.name}{advice} (hooks: "
                f"{one_of(slot.hooks)}; names of other functions with these arguments begin with "
                "an underscore)",
                node.lineno,
            )
    return [name for name in slot.hooks if name in source.functions]


def _argument_names(node: ast.FunctionDef) -> tuple[str, ...]:
    """Arguments as written; annotations do not count."""
    args = node.args
    if args.vararg or args.kwonlyargs or args.kwarg or args.defaults:
        return (ast.unparse(args),)
    return tuple(arg.arg for arg in (*args.posonlyargs, *args.args))


def check_functions(
    source: SourceFile, hooks: list[str], fields: dict[str, tuple[str, ...]], known: Container[str]
) -> None:
    """Refuse what a hook, or a function that it calls, cannot contain.

    Parameters
    ----------
    source : SourceFile
    hooks : list of str
    fields : dict of str to tuple of str
        Fields of the records named by the hooks' arguments.
    known : container of str
        Names of the module.

    Raises
    ------
    PolicyFileError
        An unknown field, an assignment to a field of `ctx` or `params`, an undefined name, a
        construct that cannot be compiled, recursion.
    """
    _check_recursion(source, hooks)
    for name in _reachable(source, hooks):
        node = source.functions[name]
        if node.decorator_list:
            if name in hooks:
                raise source.error(
                    f"the hook {name} has a decorator; hooks are plain functions", node.lineno
                )
            continue
        _check_constructs(source, node)
        _check_names(source, node, known)
        if name in hooks:
            _check_fields(source, node, fields)


def _reachable(source: SourceFile, hooks: list[str]) -> Iterator[str]:
    """The hooks and every function of the file that they lead to."""
    seen = dict.fromkeys(hooks)
    queue = list(hooks)
    while queue:
        name = queue.pop(0)
        yield name
        for node in _mentions(source, name):
            if node.id not in seen:
                seen[node.id] = None
                queue.append(node.id)


def _mentions(source: SourceFile, name: str) -> Iterator[ast.Name]:
    """Where a function of the file names others, or itself."""
    for node in ast.walk(source.functions[name]):
        if isinstance(node, ast.Name) and node.id in source.functions:
            yield node


def _check_recursion(source: SourceFile, hooks: list[str]) -> None:
    """Refuse functions that lead back to themselves: native code would overflow its stack."""
    for name in _reachable(source, hooks):
        for node in _mentions(source, name):
            if name in _reachable(source, [node.id]):
                raise source.error(
                    f"{name} leads back to itself; write the recursion as a loop", node.lineno
                )


def _check_constructs(source: SourceFile, function: ast.FunctionDef) -> None:
    for node in ast.walk(function):
        refused = _REFUSED.get(type(node))
        if refused and node is not function:
            raise source.error(
                f"{function.name}: {refused} cannot be compiled to native code",
                getattr(node, "lineno", function.lineno),
            )


def _check_names(source: SourceFile, function: ast.FunctionDef, known: Container[str]) -> None:
    local = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    local |= {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    local |= {
        node.name
        for node in ast.walk(function)
        if isinstance(node, ast.ExceptHandler) and node.name
    }
    body = [node for statement in function.body for node in ast.walk(statement)]
    for node in body:
        if isinstance(node, ast.Name) and node.id in _ENDS and node.id not in local:
            raise source.error(
                f"{function.name}: {node.id} would end the program; raise ValueError to end the "
                "run with an error",
                node.lineno,
            )
        if (
            isinstance(node, ast.Name)
            and node.id not in local
            and node.id not in known
            and not hasattr(builtins, node.id)
        ):
            fix = did_you_mean(node.id, sorted(local))
            raise source.error(
                f"{function.name}: the name {node.id} is not defined{'; ' + fix if fix else ''}",
                node.lineno,
            )


def _check_fields(
    source: SourceFile, function: ast.FunctionDef, fields: dict[str, tuple[str, ...]]
) -> None:
    for node in ast.walk(function):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        record, name = node.value.id, node.attr
        if record not in fields:
            continue
        if name not in fields[record]:
            fix = did_you_mean(name, fields[record])
            raise source.error(
                f"{function.name}: {record} has no field {name}{'; ' + fix if fix else ''} "
                f"(fields: {one_of(fields[record]) or 'none'})",
                node.lineno,
            )
        if record in ("ctx", "params") and not isinstance(node.ctx, ast.Load):
            raise source.error(
                f"{function.name}: {record} is read only; keep values in state, decide in out",
                node.lineno,
            )
