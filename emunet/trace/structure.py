"""Is a trace file sound, and are its datasets what the schema says?"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

from emunet.trace.schema import ATTRIBUTES, Dataset, datasets_of, groups

PATIENCE_S = 10
"""CPU time in which the HDF5 library must get through a file's structure; it takes milliseconds."""

# Groups whose datasets need not be equally long: single values and lists.
_LOOSE = ("meta", "plan")


def loops(path: str | os.PathLike[str]) -> bool:
    """Whether the HDF5 library loops for ever, or crashes, in the structure of this file.

    Damage can make it do so, deaf to signals, as it holds Python's lock. So a child process goes
    first, through every object and the place of every chunk, with a limit of CPU time. What it is
    told of other damage does not matter here: this process will meet it as well.
    """
    with warnings.catch_warnings():
        # of Python 3.12 where there are other threads: the child touches nothing of theirs
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE_S, PATIENCE_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        with h5py.File(path, "r", locking=False) as file:
            _walk(file, set())
    finally:
        os._exit(0)


def _walk(group: h5py.Group, seen: set[Any]) -> None:
    """Touch every object, groups' attributes, and every chunk's place."""
    with suppress(Exception):
        list(group.attrs.items())
    for name in list(group):
        # one that cannot be read does not hide those that come after it
        with suppress(Exception):
            item = group[name]
            if not isinstance(item, h5py.Group):
                _touch(item)
            elif item.id not in seen:
                seen.add(item.id)
                _walk(item, seen)


def _touch(item: h5py.Dataset) -> None:
    if item.chunks is not None:
        item.id.get_num_chunks()
        item[-1:]
    item[:1] if item.shape else item[()]


def misfits(file: h5py.File) -> Iterator[tuple[str, str]]:
    """Datasets that are not what the schema says: name, and what is found and expected."""
    for group in groups():
        if group not in file:
            continue
        found = file[group]
        if not isinstance(found, h5py.Group):
            yield f"/{group}", "it is not a group"
            continue
        lengths = {}
        for spec in datasets_of(group):
            if spec.name not in found:
                continue
            item = found[spec.name]
            problem = _misfit(spec, item)
            if problem:
                yield f"/{group}/{spec.name}", problem
            elif item.shape:
                lengths[spec.name] = item.shape[0]
        # columns of a run that was killed may differ by what was being written
        if group not in _LOOSE and file.attrs.get("reason") != "running":
            most = max(lengths.values(), default=0)
            for name, n in lengths.items():
                if n != most:
                    yield f"/{group}/{name}", f"it has {n} rows, others of /{group} have {most}"


def _misfit(spec: Dataset, item: Any) -> str:
    """What is wrong with a dataset, or an empty text."""
    if not isinstance(item, h5py.Dataset):
        return "it is not a dataset"
    n_dim = spec.shape.count(",") + 1 if spec.shape else 0
    text = h5py.check_string_dtype(item.dtype) is not None
    fits = text if spec.dtype == "text" else item.dtype == np.dtype(spec.dtype)
    shape = item.shape
    if fits and shape is not None and len(shape) == n_dim:
        tail = spec.shape.split(", ")[1:]
        if all(str(n) == want for n, want in zip(shape[1:], tail, strict=True) if want.isdigit()):
            return ""
    kind = "text" if text else item.dtype
    return f"it is {kind} of shape {shape}, not {spec.dtype} of shape ({spec.shape})"


_KINDS: dict[str, type | tuple[type, ...]] = {"int": int, "text": str, "bool": (bool, int)}
_KIND_OF = {(a.group, a.name): a.kind for a in ATTRIBUTES if a.kind in _KINDS}


def attribute_misfit(group: str, name: str, value: Any) -> str:
    """What is wrong with the type of an attribute, or an empty text."""
    kind = _KIND_OF.get((group, name))
    if kind is None or isinstance(value, _KINDS[kind]):
        return ""
    return f"attribute {name} is {type(value).__name__}, not {kind}"
