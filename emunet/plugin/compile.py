"""Compiles the hooks of a policy to native code that the engine calls by address.

The policy's text runs a second time in a module of its own, in which Numba takes the place of its
functions, so that hooks find compiled helpers under the same names. Around each hook goes a
generated wrapper of C signature; the wrappers lie in a file of the cache, beside which Numba keeps
the machine code of wrapper and hook together.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from emunet.errors import PluginError
from emunet.plugin import cache, check, whole
from emunet.plugin.failure import compile_failure
from emunet.plugin.load import run_module
from emunet.plugin.slots import ABI, SLOTS, Slot

if TYPE_CHECKING:
    from emunet.plugin.load import Policy

EMPTY = np.dtype([("unused", "i1")])
"""Stands for a record without fields, which Numba has no type for; its memory is never touched."""


def compile_hooks(policy: Policy) -> Mapping[str, Any]:
    """Numba's C callbacks of a policy by hook; they live as long as the process.

    Raises
    ------
    PluginError
        Numba is missing or switched off, or a hook cannot be compiled.
    """
    return _compile(
        policy.slot.name,
        str(policy.path),
        policy.source,
        policy.source_digest,
        tuple(policy.hooks),
        policy.param_set.dtype,
        policy.state_dtype,
    )


@lru_cache(maxsize=256)
def _compile(
    slot_name: str,
    file: str,
    text: str,
    source_digest: str,
    hooks: tuple[str, ...],
    params: np.dtype,
    state: np.dtype,
) -> Mapping[str, Any]:
    try:
        import numba
    except ImportError as error:
        raise PluginError(
            f"native policies need Numba, which cannot be imported: {error}", file
        ) from None
    if getattr(numba.config, "DISABLE_JIT", 0):
        raise PluginError(
            "native policies need Numba's compiler, which NUMBA_DISABLE_JIT switches off", file
        )
    slot = SLOTS[slot_name]
    source = check.parse(file, text)
    wrapper = wrapper_text(slot, hooks, state)
    parts = (
        ABI,
        slot_name,
        source_digest,
        wrapper,
        slot.ctx.descr,
        slot.out.descr,
        params.descr,
        state.descr,
        numba.__version__,
        np.__version__,
        sys.version,
    )
    key = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    whole_fields = [
        name
        for dtype in (slot.out, state)
        for name in dtype.names or ()
        if dtype[name].base.kind == "i"
    ]
    native = _native_module(source, f"emunet_native_{source_digest}", whole_fields)
    records = {
        "CTX": slot.ctx,
        "PARAMS": params if params.itemsize else EMPTY,
        "STATE": state if state.itemsize else EMPTY,
        "OUT": slot.out,
        "WORD": np.dtype(f"i{state.alignment}"),
    }
    kept = cache.entry(key, wrapper)
    if kept is not None:
        try:
            return _callbacks(source, hooks, native, records, wrapper, key, kept)
        except PluginError:
            raise
        except Exception:
            # What another program left in the cache must not stop a run: compile as if there were
            # none.
            cache.discard(kept)
    return _callbacks(source, hooks, native, records, wrapper, key, None)


def wrapper_text(slot: Slot, hooks: tuple[str, ...], state: np.dtype) -> str:
    """Source of the wrappers: memory to records, exceptions and NaN to a result of 0.

    A failing call leaves the state as it was, so that it can be repeated to find the reason.
    """
    ok = " and ".join(f"decided.{name} == decided.{name}" for name in slot.numbers) or "True"
    n_word = state.itemsize // state.alignment
    keep = "".join(f"    old_{k} = words[{k}]\n" for k in range(n_word))
    restore = "".join(f"    words[{k}] = old_{k}\n" for k in range(n_word))
    functions = [
        f"""

def {name}(ctx, params, state, out):
    words = carray(state, {n_word}, WORD)
    decided = carray(out, 1, OUT)[0]
{keep}    failed = False
    try:
        policy_{name}(
            carray(ctx, 1, CTX)[0],
            carray(params, 1, PARAMS)[0],
            carray(state, 1, STATE)[0],
            decided,
        )
    except Exception:
        failed = True
    if not failed and {ok}:
        return 1
{restore}    return 0
"""
        for name in hooks
    ]
    return '"""Generated: the C face of the hooks of one policy."""\n' + "".join(functions)


def _native_module(source: check.SourceFile, name: str, whole_fields: list[str]) -> ModuleType:
    """The policy's module with its functions replaced by ones that Numba compiles on first use."""
    import numba

    whole.register()
    tree = whole.checked_tree(source.text, source.file, whole_fields)
    module = run_module(source, name, tree, **{whole.NAME: whole.whole})
    for key, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and value.__globals__ is vars(module):
            setattr(module, key, numba.njit(boundscheck=True)(value))
    return module


def _callbacks(
    source: check.SourceFile,
    hooks: tuple[str, ...],
    native: ModuleType,
    records: Mapping[str, np.dtype],
    wrapper: str,
    key: str,
    kept: Path | None,
) -> Mapping[str, Any]:
    """Compile, or load from the cache, one C callback for each hook."""
    import numba

    module = ModuleType(f"emunet_hooks_{key}")
    sys.modules[module.__name__] = module
    vars(module).update(
        {f"policy_{name}": getattr(native, name) for name in hooks}, carray=numba.carray, **records
    )
    exec(compile(wrapper, str(kept or "<emunet hooks>"), "exec"), vars(module))
    pointer = numba.types.voidptr
    as_callback = numba.cfunc(
        numba.types.int32(pointer, pointer, pointer, pointer), cache=kept is not None
    )
    callbacks = {}
    for name in hooks:
        try:
            callbacks[name] = as_callback(getattr(module, name))
        except Exception as error:
            if kept is not None and not isinstance(error, numba.core.errors.NumbaError):
                raise
            raise compile_failure(source, name, error) from None
    return MappingProxyType(callbacks)
