"""The one queue of future events, in the order of docs/semantics.md 2."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

LINK_CONTROL, TIMER, ARRIVAL, SAMPLE, DEPARTURE = range(5)
"""Kinds of events: the order of events of one node at one instant."""

WORK, CONTROL, IDLE = range(3)
"""What an event is to the end of the run: work; pauses and their timers; samples and releases."""


class Event(NamedTuple):
    """One future event; tuples compare in the order in which events run."""

    time_ps: int
    node: int
    kind: int
    tie: int  # ports: tie draw; timers: 0
    entity: int  # ports: index within the node; timers: connection, or port - n_port for pauses
    number: int  # timers: number within the entity
    load: Any  # what arrives, (effort, packet or pause); None: can be cancelled


Key = tuple[int, int, int, int]
"""What can be armed once: (node, kind, entity, number)."""


class Agenda:
    """Future events: arrivals are certain; timers, samples, departures can move or be cancelled."""

    def __init__(self) -> None:
        self.heap: list[Event] = []
        self.due: dict[Key, tuple[int, int]] = {}  # (time, effort) of what is armed
        self.pending = [0, 0, 0]  # live events by effort

    def post(self, event: Event) -> None:
        """Add an arrival."""
        self.pending[event.load[0]] += 1
        heapq.heappush(self.heap, event)

    def arm(self, time_ps: int, key: Key, *, tie: int = 0, effort: int = WORK) -> None:
        """Let something happen at a time, instead of any time for which it was armed before."""
        if self.due.get(key) == (time_ps, effort):
            return
        self.cancel(key)
        self.due[key] = time_ps, effort
        self.pending[effort] += 1
        node, kind, entity, number = key
        heapq.heappush(self.heap, Event(time_ps, node, kind, tie, entity, number, None))

    def cancel(self, key: Key) -> None:
        """Forget what was armed, if anything."""
        armed = self.due.pop(key, None)
        if armed is not None:
            self.pending[armed[1]] -= 1

    def armed_ps(self, key: Key) -> int:
        """When it is armed for; -1: it is not."""
        return self.due.get(key, (-1, 0))[0]

    def next_time_ps(self) -> int | None:
        """Time of the first live event."""
        while self.heap:
            event = self.heap[0]
            if event.load is not None or self.armed_ps(self._key(event)) == event.time_ps:
                return event.time_ps
            heapq.heappop(self.heap)
        return None

    def pop(self) -> Event:
        """Take the first live event; `next_time_ps` has just said that there is one."""
        event = heapq.heappop(self.heap)
        if event.load is not None:
            self.pending[event.load[0]] -= 1
        else:
            self.cancel(self._key(event))
        return event

    @staticmethod
    def _key(event: Event) -> Key:
        return event.node, event.kind, event.entity, event.number
