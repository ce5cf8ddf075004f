"""Reads a trace file; every problem with the file is an error that names it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from emunet.errors import NO_VALUE, InputFileError
from emunet.trace import structure
from emunet.trace.schema import SCHEMA, datasets_of

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# What h5py raises on damage: it depends on the structure that the damaged byte belongs to.
_DAMAGE = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError)
# Tables have all their columns, or are not there.
_WHOLE = (
    "flows", "ports", "switches", "watermarks", "samples/queues", "samples/periodic", "packets",
    "pfc", "deadlocks", "unfinished",
)  # fmt: skip
# Without a lock first: a `.part` file may be locked by its writer. All opens of a file in one
# process must agree, so the others follow what somebody else in this process has chosen.
_LOCKINGS = (False, None, True, "best-effort")
_AGAIN = "copy it again, or run the scenario again"
_DISAGREE = "flag values don't match"


class FileSource:
    """A trace file, open for reading; datasets are read when asked for.

    Parameters
    ----------
    path : path-like
        A trace, or the ``.part`` file of a run that was killed.
    ours : bool
        This process has just written it: it need not be looked through.

    Raises
    ------
    InputFileError
        Not there, not HDF5, cut short, damaged, not a trace, or of another schema version.
    """

    def __init__(self, path: str | os.PathLike[str], *, ours: bool = False) -> None:
        self.name = str(path)
        self._ours = ours
        self._file = self._opened(Path(path))
        try:
            with self._reading():
                self._check_schema()
                self._load_filter()
                for part, problem in () if ours else structure.misfits(self._file):
                    raise self._error(f"{part} is damaged: {problem}", _AGAIN)
        except InputFileError:
            self._file.close()
            raise

    def length(self, group: str) -> int:
        with self._reading(f"/{group}"):
            if group not in self._file:
                return 0
            # Columns of a killed run may differ in length by what was being written.
            lengths = [
                d.shape[0]
                for d in self._file[group].values()
                if isinstance(d, h5py.Dataset) and d.shape
            ]
            return min(lengths, default=0)

    def datasets(self, group: str) -> list[str]:
        with self._reading(f"/{group}"):
            if group not in self._file:
                return []
            items = self._file[group].items()
            found = [name for name, item in items if isinstance(item, h5py.Dataset)]
        if group in _WHOLE:
            for spec in datasets_of(group):
                if spec.name not in found:
                    raise self._error(f"has no dataset /{group}/{spec.name}")
        return found

    def read(self, group: str, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        with self._reading(f"/{group}/{name}"):
            return self._file[group][name][start:stop]

    def texts(self, group: str, name: str) -> list[str]:
        if name not in self.datasets(group):
            return []
        with self._reading(f"/{group}/{name}"):
            value = self._file[group][name].asstr()[()]
            found = [value] if isinstance(value, str) else value.tolist()
            "".join(found).encode()
            return found

    def attributes(self, group: str) -> dict[str, Any]:
        with self._reading(f"/{group}"):
            if group and group not in self._file:
                return {}
            node = self._file[group or "/"]
            values = _Attributes(self, group)
            values.update({str(name): _python(value) for name, value in node.attrs.items()})
            for name, value in values.items():
                f"{name} {value}".encode()
                problem = structure.attribute_misfit(group, name, value)
                if problem:
                    raise self._error(f"/{group} is damaged: {problem}", _AGAIN)
            if group:
                for name, item in node.items():
                    if isinstance(item, h5py.Group):
                        values[name] = self.attributes(f"{group}/{name}")
            return values

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _opened(self, path: Path) -> h5py.File:
        try:
            with path.open("rb") as plain:
                if plain.read(len(_SIGNATURE)) != _SIGNATURE:
                    raise self._error("is not an HDF5 file", "give a trace that emunet run wrote")
            if not self._ours and structure.loops(path):
                said = "is damaged: the HDF5 library does not get through it"
                raise self._error(said, _AGAIN)
            return self._unlocked(path)
        except FileNotFoundError:
            part = path.with_name(path.name + ".part")
            fix = f"a run that goes on or was killed left {part}" if part.exists() else ""
            raise self._error("does not exist", fix) from None
        except OSError as error:
            if error.errno:
                raise self._error(f"cannot be read: {os.strerror(error.errno)}") from None
            problem = "is cut short" if "truncated" in str(error) else f"cannot be opened: {error}"
            raise self._error(problem, _AGAIN) from None

    def _unlocked(self, path: Path) -> h5py.File:
        """The file, opened as whoever has it open in this process did."""
        for locking in _LOCKINGS:
            try:
                return h5py.File(path, "r", locking=locking)
            except OSError as error:
                if "already open for write" in str(error):
                    break
                if _DISAGREE not in str(error):
                    raise
        raise self._error(
            "is open in this process already, in a way that excludes readers",
            "close it there (h5py.File.close) and load it again",
        )

    def _check_schema(self) -> None:
        found = self._file.attrs.get("schema")
        if not isinstance(found, str) or not found.startswith("emunet/"):
            raise self._error(
                "is HDF5 but not an emunet trace: it has no attribute schema",
                "give a trace that emunet run wrote",
            )
        if found != SCHEMA:
            raise self._error(
                f"has the schema {found}; this emunet reads {SCHEMA}",
                f"use the emunet that wrote it ({self._file.attrs.get('emunet_version')})",
            )

    def _load_filter(self) -> None:
        """Make sure that the compression of the columns, one for all, can be read."""
        if "flows/flow" not in self._file:
            return
        filters = self._file["flows/flow"].id.get_create_plist()
        numbers = [filters.get_filter(i)[0] for i in range(filters.get_nfilters())]
        if all(h5py.h5z.filter_avail(number) for number in numbers):
            return
        try:
            importlib.import_module("hdf5plugin")
        except ImportError:
            problem = "is compressed with a filter that is not installed"
            raise self._error(problem, "pip install hdf5plugin") from None

    @contextmanager
    def _reading(self, what: str = "") -> Iterator[None]:
        """Turn what the HDF5 library raises into an error that names the file and the part."""
        try:
            yield
        except _DAMAGE as error:
            if isinstance(error, KeyError) and "doesn't exist" in str(error):
                raise self._error(f"has no dataset {what}") from None
            said = str(error.args[0] if error.args else error).splitlines() or [""]
            problem = f"{what} is damaged: {said[0]}".lstrip()
            raise self._error(problem, _AGAIN if not what else "") from None

    def _error(self, problem: str, fix: str = "") -> InputFileError:
        return InputFileError(self.name, 0, 0, NO_VALUE, problem, fix)


class _Attributes(dict[str, Any]):
    """Attributes of a group; one that is asked for and missing is the file's fault."""

    def __init__(self, source: FileSource, group: str) -> None:
        super().__init__()
        self._source, self._group = source, group

    def __missing__(self, name: str) -> Any:
        raise self._source._error(f"/{self._group} has no attribute {name}")


def _python(value: Any) -> Any:
    """A plain Python value of an attribute."""
    if isinstance(value, np.ndarray):
        return [_python(v) for v in value.tolist()]
    if isinstance(value, np.generic):
        return value.item()
    return value.decode() if isinstance(value, bytes) else value
