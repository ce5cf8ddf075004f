"""Rows and counters that the twin hands out, as `emunet._core.rows` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emunet._core.rows import (
    EVENT_ORDER,
    EVENT_ROW,
    FLOW_ROW,
    PACKET_PAUSE,
    PERIODIC_ROW,
    PFC_ROW,
    QUEUE_ROW,
    TOTALS,
    WATERMARK_ORDER,
)
from emunet.twin.port import PAUSE_BYTES

if TYPE_CHECKING:
    from emunet.twin.port import Packet

PSN_MODULUS = 1 << 24


class Records:
    """Rows since the last drain, and totals since the start.

    Parameters
    ----------
    log_events : bool
        Keep packet events.
    event_filter : tuple of (int, int, int), optional
        Bit mask of event kinds, first flow, end (exclusive) of flows of the events to keep.
    """

    def __init__(self, log_events: bool, event_filter: tuple[int, int, int] | None) -> None:
        self.log_events = log_events
        self.event_filter = event_filter
        self.totals = dict.fromkeys(TOTALS, 0)
        self.clear()

    def clear(self) -> None:
        """Forget the rows."""
        self.flows: list[tuple] = []
        self.events: list[tuple] = []
        self.queues: list[tuple] = []
        self.pfc: list[tuple] = []
        self.periodic: list[tuple] = []

    def packet_event(
        self, now: int, node: int, port: int, kind: int, packet: Packet, occupancy: int
    ) -> None:
        """Note what happened to a packet at a node's port."""
        flags = packet.marked | packet.retransmission << 1 | packet.last << 2
        self._event(
            (
                now,
                packet.flow,
                occupancy,
                node,
                port,
                packet.psn % PSN_MODULUS,
                packet.bytes,
                kind,
                packet.kind,
                packet.klass,
                flags,
                0,
            )
        )

    def pause_event(
        self, now: int, node: int, port: int, kind: int, klass: int, occupancy: int
    ) -> None:
        """Note a pause or its end at a node's port."""
        self._event(
            (now, -1, occupancy, node, port, 0, PAUSE_BYTES, kind, PACKET_PAUSE, klass, 0, 0)
        )

    def _event(self, row: tuple) -> None:
        if not self.log_events:
            return
        if self.event_filter is not None:
            kind_mask, flow_start, flow_end = self.event_filter
            if not (kind_mask >> row[7] & 1 and flow_start <= row[1] < flow_end):
                return
        self.events.append(row)

    def drain(self) -> dict[str, np.ndarray]:
        """Rows since the last call, in canonical order."""
        flows = np.array(self.flows, FLOW_ROW)
        events = np.array(self.events, EVENT_ROW)
        queues = np.array(self.queues, QUEUE_ROW)
        pfc = np.array(self.pfc, PFC_ROW)
        periodic = np.array(self.periodic, PERIODIC_ROW)
        self.clear()
        return {
            "flows": flows[
                np.lexsort((flows["kind"], flows["flow"], flows["node"], flows["time_ps"]))
            ],
            "events": events[np.lexsort([events[name] for name in reversed(EVENT_ORDER)])],
            "queues": queues[np.lexsort((queues["port"], queues["time_ps"]))],
            "pfc": pfc[
                np.lexsort((-pfc["on"].astype(int), pfc["klass"], pfc["port"], pfc["time_ps"]))
            ],
            "periodic": periodic[
                np.lexsort([periodic[name] for name in (*reversed(WATERMARK_ORDER), "time_ps")])
            ],
        }
