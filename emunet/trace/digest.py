"""Digest of the results of a run: equal results, equal digest, however the run was cut into pieces.

Covered: the result columns of `/flows`, the counters of ports, switches and totals (all but
`events`, which counts the work of one engine, not what happened), the rows of `/watermarks`, and
those of `/samples/queues`, `/samples/periodic`, `/packets` and `/pfc` as recorded. Not covered:
wall times, threads, memory, versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from emunet._core.rows import CLASS_COUNTERS, PORT_COUNTERS, SWITCH_COUNTERS, TOTALS
from emunet.trace.schema import QUEUE_TIME, RESULT_COLUMNS, ROW_TABLES

FLOW_BLOCK = 8192
"""Messages hashed together; also the HDF5 chunk of `/flows`."""

_SIZE = 16


def _hash(data: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=_SIZE)


class ResultDigest:
    """Collects results in any pieces and hashes them in an order of their own.

    Flows come in aligned blocks of `FLOW_BLOCK` that may arrive in any order (16 bytes are kept
    of each); rows come in the engine's canonical order and are hashed as a stream; counters come
    once, at the end.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, bytes] = {}
        self._rows = {key: _hash() for key in ROW_TABLES}
        self._counters: dict[str, bytes] = {}

    def add_flows(self, block: int, columns: Mapping[str, np.ndarray]) -> None:
        """Take the final results of one block of messages; only the last may be short."""
        h = _hash()
        for spec in RESULT_COLUMNS:
            h.update(columns[spec.name].astype(np.dtype(spec.dtype).newbyteorder("<")).tobytes())
        self._blocks[block] = h.digest()

    def add_rows(self, key: str, rows: np.ndarray) -> None:
        """Take rows of ``Engine.drain()[key]`` that follow those taken before."""
        if len(rows):
            rows = rows.copy()
            if "pad" in (rows.dtype.names or ()):
                rows["pad"] = 0
            self._rows[key].update(rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes())

    def add_counters(
        self,
        ports: Mapping[str, np.ndarray],
        switches: Mapping[str, np.ndarray],
        totals: Mapping[str, int],
    ) -> None:
        """Take what the engine had counted at the end."""
        port_names = [*PORT_COUNTERS, *CLASS_COUNTERS, QUEUE_TIME]
        self._counters["ports"] = _of_arrays({n: np.asarray(ports[n]) for n in port_names})
        self._counters["switches"] = _of_arrays(
            {n: np.asarray(switches[n]) for n in SWITCH_COUNTERS}
        )
        self._counters["totals"] = _of_arrays(
            {n: np.asarray(totals[n], "<i8") for n in TOTALS if n != "events"}
        )

    def add_watermarks(self, rows: np.ndarray) -> None:
        """Take what ``Engine.watermarks()`` gave at the end."""
        plain = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        self._counters["watermarks"] = _hash(plain.tobytes()).digest()

    def parts(self) -> dict[str, str]:
        """Digest of each part, 32 hex digits; shows what differs between two runs."""
        blocks = _hash(b"".join(self._blocks[i] for i in sorted(self._blocks)))
        return {
            "flows": blocks.hexdigest(),
            **{name: value.hex() for name, value in sorted(self._counters.items())},
            **{ROW_TABLES[key][0].split("/")[-1]: h.hexdigest() for key, h in self._rows.items()},
        }

    def hexdigest(self) -> str:
        """Digest of the whole, 32 hex digits."""
        return _hash(
            "".join(f"{name}={part};" for name, part in sorted(self.parts().items())).encode()
        ).hexdigest()


def _of_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    h = _hash()
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"))
        h.update(f"{name}:{a.dtype.str}:{a.shape};".encode())
        h.update(a.tobytes())
    return h.digest()
