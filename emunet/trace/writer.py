"""Writes a run to HDF5 while it goes on.

The file grows as ``PATH.part`` and gets its own name at the end, complete or not. What can be
lost when the process is killed is what came after the last checkpoint: every few seconds all rows
so far, and the results so far of messages in flight, are written and flushed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import h5py
import numpy as np

from emunet.errors import EmunetError, InputFileError, OutputError, ScenarioError
from emunet.trace.digest import FLOW_BLOCK
from emunet.trace.flows import Columns
from emunet.trace.recorder import Recorder
from emunet.trace.schema import NOT_KNOWN, Dataset, datasets_of

COMPRESSIONS = ("portable", "fast")

UNDER_WAY: dict[Path, bool] = {}
"""Files that this process is writing, and whether they hold results already."""

# What a file system says that knows no locks.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
# Groups that `finish` makes.
_RESULTS = (
    "ports", "switches", "totals", "unfinished", "watermarks", "meta/warnings", "meta/engine"
)  # fmt: skip

_SMALL_BYTES = 4096
_CHUNK_BYTES = 1 << 18
# Checkpoints may take this share of the time at most.
_CHECKPOINT_SHARE = 1 / 20


class _Table:
    """Columns of one group that grow together; rows wait in memory until they fill a chunk."""

    def __init__(self, datasets: dict[str, h5py.Dataset], chunk: int) -> None:
        self.n_written = 0
        self._datasets = datasets
        self._chunk = chunk
        self._waiting: list[Columns] = []
        self._n_waiting = 0

    def append(self, columns: Columns) -> None:
        self._waiting.append(columns)
        self._n_waiting += len(next(iter(columns.values())))
        whole = (self.n_written + self._n_waiting) // self._chunk * self._chunk
        if whole > self.n_written:
            self._write(whole - self.n_written)

    def flush(self) -> None:
        if self._n_waiting:
            self._write(self._n_waiting)

    def place(self, first: int, columns: Columns) -> None:
        for name, dataset in self._datasets.items():
            stop = first + len(columns[name])
            if dataset.shape[0] < stop:
                dataset.resize((stop,))
            dataset[first:stop] = columns[name]

    def resize(self, n_row: int) -> None:
        """Cut or fill all columns to the same length."""
        for dataset in self._datasets.values():
            if dataset.shape[0] != n_row:
                dataset.resize((n_row,))

    def _write(self, n: int) -> None:
        stop = self.n_written + n
        joined = {name: np.concatenate([c[name] for c in self._waiting]) for name in self._datasets}
        for name, dataset in self._datasets.items():
            dataset.resize((stop,))
            dataset[self.n_written : stop] = joined[name][:n]
        # Only now: an interruption before this line writes the same rows again at the same place.
        rest = {name: column[n:] for name, column in joined.items()}
        self.n_written, self._waiting, self._n_waiting = stop, [rest], self._n_waiting - n


class _Patience:
    """While entered, the first Ctrl-C or SIGTERM waits until the end; the second interrupts.

    Closing a file is soon done, and an impatient second key must not cost a whole run.
    """

    def __init__(self) -> None:
        self._waiting: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if self._waiting is not None:
            signal.raise_signal(self._waiting)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._waiting is not None:
            self._waiting = None
            raise KeyboardInterrupt
        self._waiting = number


class TraceWriter(Recorder):
    """A trace file in the making; use it as a context manager.

    Leaving the ``with`` block gives the file its name: complete if `finish` said so, otherwise
    marked incomplete with the reason (Ctrl-C: "interrupted"). Nothing is left behind if the
    scenario or an input file was at fault, if `begin` was never reached, or if the disk refused.

    Parameters
    ----------
    path : path-like
        Final name.
    compression : {"portable", "fast"}
        gzip and shuffle, which every HDF5 reads; or bitshuffle and LZ4, about ten times as fast,
        which needs ``hdf5plugin`` to write and to read.
    force : bool
        Replace an existing file.
    keep : sequence of path
        Files that are never replaced: what the run reads.
    checkpoint_s : float
        Least wall time between checkpoints.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str = "portable",
        force: bool = False,
        keep: Sequence[Path] = (),
        checkpoint_s: float = 5.0,
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.folder = self.path.parent
        self.part_path = self.path.with_name(self.path.name + ".part")
        self._filters = _filters(compression)
        self._force, self._keep = force, keep
        self._checkpoint_s = checkpoint_s
        self._next_checkpoint = time.monotonic() + checkpoint_s
        self._file: h5py.File | None = None
        self._lock = -1
        self._tables: dict[str, _Table] = {}
        self._begun = self._finished = False

    def __enter__(self) -> TraceWriter:
        self._check_path()
        try:
            self._lock_part()
            UNDER_WAY[self.part_path] = False
            # The oldest format: every HDF5 reads it, and opens it after a crash without repair.
            # The lock is held already, and HDF5's own would clash with it.
            self._file = h5py.File(self.part_path, "w", libver=("earliest", "v110"), locking=False)
        except OSError as error:
            self._discard()
            raise OutputError(f"{self.path}: cannot create the trace: {_reason(error)}") from None
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is None:
            return
        if not self._begun or isinstance(error, (ScenarioError, InputFileError)):
            self._discard()
            return
        with _Patience():
            try:
                with self._writing():
                    if not self._finished:
                        self._break_off(error)
                    self.checkpoint()
                    self._file.close()
                self._file = None
                self._rename()
            except KeyboardInterrupt:
                self._discard()
                raise
            finally:
                self._unlock()

    def abandon(self) -> None:
        """See `Recorder.abandon`."""
        self.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    def begin(self, *args: Any, **options: Any) -> None:
        """See `Recorder.begin`."""
        with self._writing():
            super().begin(*args, **options)
            self.checkpoint()
        self._begun = UNDER_WAY[self.part_path] = True

    def append_messages(self, *args: Any) -> None:
        """See `Recorder.append_messages`."""
        with self._writing():
            super().append_messages(*args)

    def append_rows(self, drained: Mapping[str, np.ndarray]) -> None:
        """See `Recorder.append_rows`."""
        with self._writing():
            super().append_rows(drained)
            if time.monotonic() >= self._next_checkpoint:
                self.checkpoint()

    def finish(self, *args: Any, **options: Any) -> list[str]:
        """See `Recorder.finish`."""
        with self._writing():
            warnings = super().finish(*args, **options)
            self._finished = True
            return warnings

    def checkpoint(self) -> None:
        """Bring everything so far to the disk, messages in flight included."""
        with self._writing():
            began = time.monotonic()
            for number, columns in self._flows.changed():
                self._place("flows/results", number * FLOW_BLOCK, columns)
            n_flow = 0
            for name, table in self._tables.items():
                table.flush()
                n_flow = table.n_written if name == "flows" else n_flow
                table.resize(n_flow if name == "flows/results" else table.n_written)
            self._open.flush()
            now = time.monotonic()
            self._next_checkpoint = now + max(self._checkpoint_s, (now - began) / _CHECKPOINT_SHARE)

    # files

    def _lock_part(self) -> None:
        """Make the file and lock it, before anything in it changes.

        With ``force`` it may be there already: what a run that was killed has left is taken, what
        another run is writing is not. A writer holds the lock until its file has its name.
        """
        new = 0 if self._force else os.O_EXCL
        while True:
            self._lock = os.open(self.part_path, os.O_RDWR | os.O_CREAT | new, 0o666)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._unlock()
                raise OutputError(
                    f"{self.part_path}: another run is writing it; wait for it, or choose another "
                    "name"
                ) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            # Between the two calls its writer may have given it its name, or removed it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._lock), os.stat(self.part_path)):
                    return
            os.close(self._lock)
            self._lock = -1

    def _unlock(self) -> None:
        """Let others have the name."""
        UNDER_WAY.pop(self.part_path, None)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _break_off(self, error: BaseException | None) -> None:
        """Mark the file incomplete; what `finish` may have begun goes."""
        for group in _RESULTS:
            self._tables.pop(group, None)
            if group in self._open:
                del self._open[group]
        said = "interrupted" if isinstance(error, KeyboardInterrupt) else _said(error)
        self._flows.finish()
        self._attributes("", {"complete": False, "reason": said, "digest": ""})

    def _check_path(self) -> None:
        directory = self.path.parent
        if self.path.is_dir():
            raise OutputError(
                f"{self.path}: is a directory; name a file in it, such as {self.path / 'run.h5'}"
            )
        if not directory.is_dir():
            problem = "is not a directory" if directory.exists() else "does not exist"
            raise OutputError(f"{self.path}: cannot create the trace: {directory} {problem}")
        for path in (self.path, self.part_path):
            self._check_replaceable(path)
        if self._force:
            return
        if self.path.exists():
            raise OutputError(f"{self.path}: exists already; choose another name or give --force")
        if self.part_path.exists():
            raise OutputError(
                f"{self.part_path}: another run is writing it, or was killed; "
                "move it away or give --force"
            )

    def _check_replaceable(self, path: Path) -> None:
        """Refuse to make anything in the place of what ``force`` must not replace either."""
        if not path.exists():
            return
        if not path.is_file():
            raise OutputError(f"{path}: is not an ordinary file; name another for the trace")
        for read in self._keep:
            with suppress(OSError, ValueError):
                if path.samefile(read):
                    raise OutputError(f"{path}: this run reads it; name another for the trace")

    def _rename(self) -> None:
        if not self._force and self.path.exists():
            raise EmunetError(
                f"{self.path}: appeared while the run went on; the trace is in {self.part_path}"
            )
        try:
            os.replace(self.part_path, self.path)
        except OSError as error:
            raise EmunetError(
                f"{self.path}: {_reason(error)}; the trace is in {self.part_path}"
            ) from None

    def _discard(self) -> None:
        """Leave nothing behind."""
        file, self._file = self._file, None
        if self._lock >= 0:
            self.part_path.unlink(missing_ok=True)
        self._unlock()
        if file is None:
            return
        # Where the disk refuses, closing fails and the library crashes at exit, because it cannot
        # write what it still holds: let it write to nowhere.
        with suppress(OSError, RuntimeError, ValueError):
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, file.id.get_vfd_handle())
            os.close(nowhere)
        self._tables.clear()
        with suppress(OSError, RuntimeError, ValueError):
            file.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn what the HDF5 library raises into one clear error, leaving no file."""
        if self._file is None:
            raise EmunetError(f"{self.path}: the trace is not open")
        try:
            yield
        except (OSError, RuntimeError) as error:
            self._discard()
            said = f"{self.path}: cannot write the trace: {_reason(error)}; no file was left"
            raise EmunetError(said) from None

    # HDF5

    @property
    def _open(self) -> h5py.File:
        assert self._file is not None
        return self._file

    def _attributes(self, group: str, values: Mapping[str, Any]) -> None:
        attributes = self._open.require_group(group or "/").attrs
        for name, value in values.items():
            if isinstance(value, Mapping):
                self._attributes(f"{group}/{name}", value)
            elif value is not None:
                attributes[name] = value

    def _texts(self, group: str, name: str, value: str | list[str]) -> None:
        parent = self._open.require_group(group)
        if isinstance(value, str):
            parent.create_dataset(name, data=value, dtype=h5py.string_dtype())
            return
        encoded = [text.encode() for text in value]
        width = max((len(text) for text in encoded), default=0)
        data = np.array(encoded, dtype=h5py.string_dtype(length=max(1, width)))
        parent.create_dataset(name, data=data, **self._storage(data))

    def _array(self, group: str, name: str, value: np.ndarray) -> None:
        dataset = self._open.require_group(group).create_dataset(
            name, data=value, **self._storage(value)
        )
        _describe(dataset, group, name)

    def _table(self, group: str, columns: Sequence[Dataset], chunk: int = 65536) -> None:
        parent = self._open.require_group("flows" if group == "flows/results" else group)
        datasets = {}
        for spec in columns:
            fill = NOT_KNOWN if group == "flows/results" and spec.dtype != "uint8" else 0
            datasets[spec.name] = parent.create_dataset(
                spec.name,
                (0,),
                spec.dtype,
                maxshape=(None,),
                chunks=(chunk,),
                fillvalue=fill,
                **self._filters,
            )
            _describe(datasets[spec.name], spec.group, spec.name)
        self._tables[group] = _Table(datasets, chunk)

    def _append(self, group: str, columns: Columns) -> None:
        self._tables[group].append(columns)

    def _place(self, group: str, first: int, columns: Columns) -> None:
        self._tables[group].place(first, columns)

    def _storage(self, value: np.ndarray) -> dict[str, Any]:
        """How to store a whole array: small ones plainly, others in chunks."""
        if value.nbytes <= _SMALL_BYTES:
            return {}
        rows = max(1, _CHUNK_BYTES * len(value) // value.nbytes)
        return {"chunks": (min(rows, len(value)), *value.shape[1:]), **self._filters}


def _filters(compression: str) -> dict[str, Any]:
    """Keyword arguments of ``create_dataset``."""
    if compression == "portable":
        return {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    if compression != "fast":
        raise EmunetError(
            f'compression "{compression}" is not known (allowed: {", ".join(COMPRESSIONS)})'
        )
    try:
        import hdf5plugin
    except ImportError:
        raise EmunetError(
            'compression "fast" needs hdf5plugin: pip install "emunet[fast]"'
        ) from None
    return dict(hdf5plugin.Bitshuffle(cname="lz4"))


def _describe(dataset: h5py.Dataset, group: str, name: str) -> None:
    spec = next(s for s in datasets_of(group) if s.name == name)
    dataset.attrs["unit"] = spec.unit
    dataset.attrs["long_name"] = spec.meaning
    if spec.enum:
        dataset.attrs["enum"] = list(spec.enum)


def _said(error: BaseException | None) -> str:
    if error is None:
        return "not finished"
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _reason(error: BaseException) -> str:
    """What the operating system said, without the HDF5 library's wrapping."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    found = re.search(r"errno = (\d+)", str(error))
    return os.strerror(int(found[1])) if found else str(error)
