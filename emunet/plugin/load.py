"""Policies: loads a policy file, checks it, and binds its parameters.

A policy runs in two ways from one text: its hooks as plain Python (`Policy.call`), and compiled to
native code (`Policy.addresses`), which is done on first use; until then Numba is not imported.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from emunet.errors import PolicyFileError, ScenarioError, did_you_mean, one_of
from emunet.plugin import check, registry
from emunet.plugin.params import Param, ParamError, ParamSet
from emunet.plugin.records import Record, as_record
from emunet.plugin.slots import MAX_STATE_BYTES, Slot

Hook = Callable[[Any, Any, Any, Any], None]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy with its parameters bound.

    Attributes
    ----------
    slot : Slot
    name : str
        File name without ``.py``.
    path : pathlib.Path
    source : str
        Text of the file.
    source_digest : str
        blake2b of the text, 32 hex digits.
    doc : str
        The file's docstring.
    param_set : ParamSet
        Declared parameters.
    sets : dict of str to dict
        Named parameter sets, as written.
    set_name : str or None
        The set in force; with none asked for, the one that is empty (it names the defaults).
    params : numpy.recarray
        Length one; the values in force.
    state_dtype : numpy.dtype
        State of one connection; all zero before `start`.
    hooks : dict of str to function
        The file's own functions by hook, in the slot's order.
    claims : tuple of str
        What should hold of the policy.
    """

    slot: Slot
    name: str
    path: Path
    source: str = field(repr=False)
    source_digest: str
    doc: str = field(repr=False)
    param_set: ParamSet = field(repr=False)
    sets: Mapping[str, Mapping[str, Any]] = field(repr=False)
    set_name: str | None
    params: np.recarray
    state_dtype: np.dtype
    hooks: Mapping[str, Hook] = field(repr=False)
    claims: tuple[str, ...] = field(repr=False)

    @cached_property
    def _params_record(self) -> Record:
        return as_record(self.params, self.param_set.dtype, writable=False)

    @property
    def params_bytes(self) -> bytes:
        """Memory of the parameter record."""
        return self.params.tobytes()

    def param_values(self) -> dict[str, int | float]:
        """Values in force by name."""
        return {param.name: self.params[param.name][0].item() for param in self.param_set}

    def addresses(self) -> dict[str, int]:
        """Address of the native code of each hook.

        The functions are ``int32_t f(void *ctx, void *params, void *state, void *out)``.

        A hook returns 1, or 0 if it raised or left a rate that is not a number. The code stays in
        memory until the process ends. The first call compiles, or loads what an earlier process has
        compiled.

        Raises
        ------
        PolicyFileError
            A hook cannot be compiled; the error shows the line of the policy file.
        """
        if not self.hooks:
            return {}
        from emunet.plugin.compile import compile_hooks

        return {name: hook.address for name, hook in compile_hooks(self).items()}

    def call(self, hook: str, ctx: Any, state: Any, out: Any) -> None:
        """Run a hook as plain Python.

        Parameters
        ----------
        hook : str
        ctx, state, out : Record, numpy record, structured array of length one
            `state` and `out` are changed in place.

        Raises
        ------
        Exception
            Whatever the policy raises; ValueError if it leaves a rate that is not a number.
        """
        result = as_record(out, self.slot.out)
        self.hooks[hook](
            as_record(ctx, self.slot.ctx, writable=False),
            self._params_record,
            as_record(state, self.state_dtype),
            result,
        )
        for name in self.slot.numbers:
            if getattr(result, name) != getattr(result, name):
                raise ValueError(f"{hook} left out.{name} = nan")


def load(
    slot: str,
    name_or_path: str | os.PathLike[str],
    set_name: str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    base_dir: str | os.PathLike[str] = ".",
    path: str = "$.transport",
) -> Policy:
    """A policy by name or path.

    Parameters
    ----------
    slot : str
        ``congestion``.
    name_or_path : str or path
        A name such as ``dcqcn``, or a Python file.
    set_name : str, optional
        A named parameter set of the policy.
    params : mapping, optional
        Values over those of the set: numbers in the parameter's unit, or text with a unit.
    base_dir : path
        Where relative paths start.
    path : str
        Where in the scenario the policy is chosen, for errors.

    Raises
    ------
    ScenarioError
        Unknown policy, set or parameter, or a value out of range.
    PolicyFileError
        The file is not a policy; the error names its line.
    """
    the_slot = registry.slot_named(slot)
    file = registry.locate(the_slot, name_or_path, base_dir, f"{path}.{the_slot.key}")
    text = _read(file)
    source = check.parse(str(file), text)
    hooks = check.hook_names(source, the_slot)
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    module = run_module(source, f"emunet_policy_{digest}")
    param_set, sets = _params(module, source), _sets(module, source)
    state = _state(module, source)
    fields = {
        "ctx": the_slot.ctx.names or (),
        "params": param_set.dtype.names or (),
        "state": state.names or (),
        "out": the_slot.out.names or (),
    }
    check.check_functions(source, hooks, fields, module.__dict__)
    if not hooks and (len(param_set) or state.itemsize):
        raise source.error(
            "defines no hook, so its PARAMS and STATE have no effect "
            f"(hooks: {one_of(the_slot.hooks)})"
        )
    layers = _layers(source, param_set, sets, set_name, params or {}, path, the_slot.key)
    return Policy(
        slot=the_slot,
        name=file.stem,
        path=file,
        source=text,
        source_digest=digest,
        doc=(module.__doc__ or "").strip(),
        param_set=param_set,
        sets=sets,
        set_name=set_name or next((name for name, values in sets.items() if not values), None),
        params=param_set.pack(param_set.values(*layers)),
        state_dtype=state,
        hooks={name: getattr(module, name) for name in hooks},
        claims=_claims(module, source),
    )


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyFileError(f"cannot be read: {error}", file) from None


def run_module(
    source: check.SourceFile, name: str, tree: ast.Module | None = None, **names: Any
) -> ModuleType:
    """Module made by running the file; tracebacks and compiler messages name the file itself.

    Parameters
    ----------
    source : SourceFile
    name : str
        Of the module.
    tree : ast.Module, optional
        What runs instead of the text.
    **names
        What the module knows from the start.

    Raises
    ------
    PolicyFileError
        The file raised an exception; the error names its line.
    """
    module = ModuleType(name)
    module.__file__ = source.file
    vars(module).update(names)
    sys.modules[name] = module
    try:
        text: Any = source.text if tree is None else tree
        exec(compile(text, source.file, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise source.error(said, line_in(error, source.file)) from error
    return module


def line_in(error: BaseException, file: str) -> int:
    """Last line of a file that an exception passed through; 0 if none."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == file), 0)


def _params(module: ModuleType, source: check.SourceFile) -> ParamSet:
    if not hasattr(module, "PARAMS"):
        raise source.error("has no PARAMS; write PARAMS = () for a policy without parameters")
    params, line = module.PARAMS, source.line_of("PARAMS")
    if not isinstance(params, (tuple, list)) or not all(
        isinstance(param, Param) for param in params
    ):
        raise source.error(
            'PARAMS must be a tuple of Param(name, default, unit, low, high, "meaning")', line
        )
    try:
        return ParamSet(tuple(params))
    except ValueError as error:
        raise source.error(f"PARAMS: {error}", line) from None


def _state(module: ModuleType, source: check.SourceFile) -> np.dtype:
    """The state's dtype, after checking that both ways of running a hook treat its fields alike."""
    if not hasattr(module, "STATE"):
        raise source.error("has no STATE; write STATE = np.dtype([]) for a policy without state")
    state, line = module.STATE, source.line_of("STATE")
    if not isinstance(state, np.dtype) or (state.names is None and state != np.dtype([])):
        raise source.error(
            "STATE must be a numpy dtype with named fields: "
            'np.dtype([("alpha", "f8"), ("count", "i8")], align=True)',
            line,
        )
    for name in state.names or ():
        base = state[name].base
        if state[name].names or base.names:
            raise source.error(
                f"STATE: {name} is a record in the record; write its fields one by one", line
            )
        if len(state[name].shape) > 1:
            raise source.error(
                f"STATE: {name} has {len(state[name].shape)} dimensions; one at most", line
            )
        if base.kind not in "ibf" or (base.kind == "f" and base.itemsize != 8) or not base.isnative:
            raise source.error(
                f"STATE: {name} is {base.name}; use f8, i8, i4, i2, i1 or ?, which compute alike "
                "in plain Python and in native code",
                line,
            )
    if state.itemsize and not state.isalignedstruct:
        raise source.error("STATE must be aligned: np.dtype([...], align=True)", line)
    if state.itemsize > MAX_STATE_BYTES:
        raise source.error(
            f"STATE takes {state.itemsize} bytes; at most {MAX_STATE_BYTES} for each connection",
            line,
        )
    return state


def _sets(module: ModuleType, source: check.SourceFile) -> dict[str, dict[str, Any]]:
    sets = getattr(module, "SETS", {})
    good = isinstance(sets, Mapping) and all(
        isinstance(name, str) and isinstance(values, Mapping) for name, values in sets.items()
    )
    if not good:
        raise source.error(
            'SETS must map names to values: {"paper": {"gain": 1 / 256}}', source.line_of("SETS")
        )
    return {name: dict(values) for name, values in sets.items()}


def _claims(module: ModuleType, source: check.SourceFile) -> tuple[str, ...]:
    claims = getattr(module, "CLAIMS", ())
    if not isinstance(claims, (tuple, list)) or not all(isinstance(claim, str) for claim in claims):
        raise source.error(
            'CLAIMS must be a tuple of sentences: ("two flows converge to equal rates",)',
            source.line_of("CLAIMS"),
        )
    return tuple(claims)


def _layers(
    source: check.SourceFile,
    param_set: ParamSet,
    sets: Mapping[str, Mapping[str, Any]],
    set_name: str | None,
    params: Mapping[str, Any],
    path: str,
    key: str,
) -> list[tuple[str, Mapping[str, Any]]]:
    """The set asked for and the overrides; every set of the file is checked on the way."""
    for name, values in sets.items():
        for param, value in values.items():
            try:
                param_set.convert(str(param), value)
            except KeyError:
                fix = did_you_mean(param, param_set.by_name)
                advice = f"; {fix}" if fix else ""
                raise source.error(
                    f"SETS: {name} names {param}, which is not in PARAMS{advice}",
                    source.line_of("SETS"),
                ) from None
            except ParamError as error:
                raise source.error(
                    f"SETS: {name}: {param}: {value} {error}", source.line_of("SETS")
                ) from None
    if set_name is not None and set_name not in sets:
        raise ScenarioError(
            f"{path}.{key}_set",
            set_name,
            "is not a parameter set of this policy",
            one_of(sets) or "none",
            did_you_mean(set_name, sets),
        )
    return [
        (f"{path}.{key}_set", sets[set_name] if set_name else {}),
        (f"{path}.{key}_params", params),
    ]
