"""Results of messages in flight: filled in by flow rows, handed on in whole blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from emunet._core.rows import FLOW_FAILED, FLOW_RX_DONE, FLOW_TX_DONE
from emunet.trace.digest import FLOW_BLOCK
from emunet.trace.schema import (
    NOT_KNOWN,
    RESULT_COLUMNS,
    STATUS_DELIVERED,
    STATUS_FAILED,
    STATUS_FINISHED,
    STATUS_UNFINISHED,
)

Columns = dict[str, np.ndarray]

_AT_SENDER = ("retransmitted", "timeouts", "nacks", "cnps")
_AT_RECEIVER = ("marked", "out_of_order", "duplicates")


class _Block:
    """`FLOW_BLOCK` consecutive messages."""

    def __init__(self) -> None:
        self.n_flow = 0
        self.n_closed = 0
        self.dirty = False
        self.start_ps = np.empty(FLOW_BLOCK, np.int64)
        self.closed = np.zeros(FLOW_BLOCK, bool)
        self.columns: Columns = {
            s.name: np.full(FLOW_BLOCK, NOT_KNOWN).astype(s.dtype) for s in RESULT_COLUMNS
        }
        self.columns["status"][:] = STATUS_UNFINISHED

    def results(self) -> Columns:
        return {name: column[: self.n_flow] for name, column in self.columns.items()}

    def update(self, index: np.ndarray, rows: np.ndarray) -> None:
        """Take flow rows; `index` is the place of each row's message in this block."""
        c = self.columns
        at_receiver = rows["kind"] == FLOW_RX_DONE
        i, r = index[at_receiver], rows[at_receiver]
        c["fct_rx_ps"][i] = r["time_ps"] - self.start_ps[i]
        for name in _AT_RECEIVER:
            c[name][i] = r[name]
        i, r = index[~at_receiver], rows[~at_receiver]
        for name in _AT_SENDER:
            c[name][i] = r[name]
        done = r["kind"] == FLOW_TX_DONE
        c["fct_ack_ps"][i[done]] = r["time_ps"][done] - self.start_ps[i[done]]
        c["status"][i[r["kind"] == FLOW_FAILED]] = STATUS_FAILED
        self._close(np.unique(index))

    def _close(self, touched: np.ndarray) -> None:
        c = self.columns
        delivered, acked = c["fct_rx_ps"][touched] >= 0, c["fct_ack_ps"][touched] >= 0
        failed = c["status"][touched] == STATUS_FAILED
        reached = np.select(
            [failed, acked, delivered],
            [STATUS_FAILED, STATUS_FINISHED, STATUS_DELIVERED],
            STATUS_UNFINISHED,
        )
        c["status"][touched] = reached
        # Packets on their way may still complete a message that its sender gave up: it stays open.
        closed = delivered & (acked | failed)
        self.n_closed += int(np.count_nonzero(closed & ~self.closed[touched]))
        self.closed[touched] = closed
        self.dirty = True


class FlowResults:
    """Result columns of all messages, kept only for blocks in which something is still in flight.

    Parameters
    ----------
    done : callable
        Called as ``done(block, columns)`` once for each block, when the results of all its
        messages are final.

    Notes
    -----
    An open block takes about 450 kB, so the memory is bounded by 450 kB for each block of
    `FLOW_BLOCK` consecutive messages of which at least one is unfinished.
    """

    def __init__(self, done: Callable[[int, Columns], None]) -> None:
        self.n_flow = 0
        self._done = done
        self._open: dict[int, _Block] = {}

    @property
    def n_open(self) -> int:
        """Blocks in memory."""
        return len(self._open)

    def add(self, start_ps: np.ndarray) -> None:
        """Open the next ``len(start_ps)`` messages."""
        taken = 0
        while taken < len(start_ps):
            number, at = divmod(self.n_flow, FLOW_BLOCK)
            if at == 0:
                self._open[number] = _Block()
            block = self._open[number]
            n = min(FLOW_BLOCK - at, len(start_ps) - taken)
            block.start_ps[at : at + n] = start_ps[taken : taken + n]
            block.n_flow += n
            block.dirty = True
            self.n_flow += n
            taken += n
            self._hand_on(number)

    def update(self, rows: np.ndarray) -> None:
        """Take flow rows (`FLOW_ROW`) in any order; blocks that become final are handed on."""
        if not len(rows):
            return
        if rows["flow"].min() < 0 or rows["flow"].max() >= self.n_flow:
            raise ValueError("a flow row names a message that was never added")
        number, index = np.divmod(rows["flow"], FLOW_BLOCK)
        for block in np.unique(number).tolist():
            mine = number == block
            if block not in self._open:
                raise ValueError(f"a flow row for block {block}, which was final")
            self._open[block].update(index[mine], rows[mine])
            self._hand_on(block)

    def changed(self) -> Iterator[tuple[int, Columns]]:
        """Open blocks that have changed since the last call, as they stand."""
        for number, block in self._open.items():
            if block.dirty:
                block.dirty = False
                yield number, block.results()

    def finish(self) -> None:
        """Hand on what is left, final or not."""
        for number in sorted(self._open):
            self._done(number, self._open[number].results())
        self._open.clear()

    def _hand_on(self, number: int) -> None:
        block = self._open[number]
        if block.n_closed == FLOW_BLOCK:
            self._done(number, block.results())
            del self._open[number]
