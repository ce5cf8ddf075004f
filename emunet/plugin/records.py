"""Records for hooks that run as plain Python: numpy memory, read and written as Python numbers.

Compiled hooks compute with int64 and double. Python's own int and float follow the same rules (true
and floor division, comparisons, an exception on division by zero), where numpy scalars do not, and
they are faster. Stores convert as compiled code does: floats are truncated into integer fields (an
error if they are not numbers or beyond 64 bits), integers wrap at the field's width.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from emunet.plugin.whole import whole


class Record:
    """One record of a flat dtype; its fields are attributes.

    Attributes
    ----------
    array : numpy.ndarray
        Structured array of length one that holds the memory; shared, not copied.
    """

    __slots__ = ("_cells", "array")
    dtype: np.dtype

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._cells = tuple(_cell(array, name) for name in self.dtype.names or ())

    def tobytes(self) -> bytes:
        """The record's memory."""
        return self.array.tobytes()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.dtype.names or ())
        return f"Record({fields})"


class Cells:
    """An array field of a record: `timer_ps[0]`, `len(timer_ps)`."""

    __slots__ = ("_kind", "_view")

    def __init__(self, view: memoryview, dtype: np.dtype) -> None:
        self._view, self._kind = view, dtype

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, index: int) -> Any:
        return self._view[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self._view[index] = store(value, self._kind)

    def __repr__(self) -> str:
        return repr(self._view.tolist())


def store(value: Any, dtype: np.dtype) -> Any:
    """The Python number that a field of this dtype holds after the value is assigned to it."""
    if dtype.kind == "f":
        return float(value)
    if dtype.kind == "b":
        return bool(value)
    value = whole(value)
    half = 1 << (8 * dtype.itemsize - 1)
    return ((value + half) & (2 * half - 1)) - half


def _cell(array: np.ndarray, name: str) -> memoryview | Cells:
    field = array[name]
    if field.ndim == 1:
        return memoryview(field)  # type: ignore[arg-type]
    return Cells(memoryview(field[0]), field.dtype)


def _property(index: int, dtype: np.dtype, writable: bool) -> property:
    """Access to the field number `index`: a number, or the cells of an array field."""
    if dtype.subdtype is not None:
        return property(lambda self: self._cells[index])

    def get(self: Record) -> Any:
        return self._cells[index][0]

    def put(self: Record, value: Any) -> None:
        self._cells[index][0] = store(value, dtype)

    return property(get, put if writable else None)


@lru_cache(maxsize=64)
def record_type(dtype: np.dtype, writable: bool = True) -> type[Record]:
    """The class of records of one dtype; with `writable=False` their fields cannot be assigned."""
    names = dtype.names or ()
    fields = {name: _property(i, dtype[name], writable) for i, name in enumerate(names)}
    return type("Record", (Record,), {"__slots__": (), "dtype": dtype, **fields})


def make_record(dtype: np.dtype) -> Record:
    """A new record, all zero."""
    return record_type(dtype)(np.zeros(1, dtype))


def as_record(value: Any, dtype: np.dtype, writable: bool = True) -> Record:
    """A `Record` on the memory of `value`; bytes are copied.

    Parameters
    ----------
    value : Record, numpy.ndarray of length one, numpy.record, or bytes
        Of this dtype and size.
    """
    if isinstance(value, Record):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        array = (
            np.frombuffer(bytes(value), dtype, count=1).copy()
            if dtype.itemsize
            else np.zeros(1, dtype)
        )
    else:
        array = np.asarray(value).reshape(1)
        if array.dtype != dtype:
            array = array.view(dtype).reshape(1)
    return record_type(dtype, writable)(array)
