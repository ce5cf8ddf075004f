"""Incast: several senders, one receiver, one instant; once, regularly, or as an overlay at a load.

An overlay at a load has events at random times such that their bytes on the wire make up that
fraction of the line rate of the hosts that can be the receiver: of the one named, or of all. This
is the overlay of the HPCC evaluation (Li et al., SIGCOMM 2019, section 5.1: 60 senders of 500 KB at
2 % of the capacity).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from emunet import draws
from emunet.scenario.fields import LAST_PS
from emunet.units import format_size, format_time
from emunet.workload import wire
from emunet.workload.messages import Context, Element, Messages, make_messages
from emunet.workload.poisson import Arrivals


@dataclass(frozen=True, eq=False)
class Incast:
    """Who takes part.

    Attributes
    ----------
    fan_in : int
        Senders of an event.
    size_bytes : int
        From each sender.
    receiver : int
        -1: drawn for each event among all hosts.
    senders : int64[n]
        Hosts among which the senders are drawn: all hosts if the receiver is drawn, else without
        the receiver; if there are just `fan_in`, all of them send, in this order.
    """

    fan_in: int
    size_bytes: int
    receiver: int
    senders: np.ndarray


@dataclass(frozen=True)
class Events:
    """When incasts happen.

    Attributes
    ----------
    times : callable
        ``times(rows)`` iterates over int64 arrays of times in ps, in order.
    count : int or None
        Events, if that is certain.
    expected : float
        Mean number of events.
    span_ps : int
        From the first to the last.
    when : str
        The same in words.
    """

    times: Callable[[int], Iterator[np.ndarray]]
    count: int | None
    expected: float
    span_ps: int
    when: str


def element(options: Any, context: Context) -> Element:
    """The incast events that the options say."""
    incast = _who(options, context)
    sizes = np.array([incast.size_bytes])
    slot = int(wire.slot_bytes(sizes, context.mtu_bytes)[0])
    events = (
        _at_load(options, context, incast, slot)
        if options.load is not None
        else _regular(options, context)
    )
    last_ps = int(options.start) + events.span_ps
    if last_ps > LAST_PS:
        context.note(
            "count",
            options.count,
            f"makes events up to {format_time(last_ps, 4)}, later than the last time of a run",
            f"events up to {format_time(LAST_PS)} (53 days)",
            "lower count, or add until",
        )
    n = events.expected * incast.fan_in
    where = context.names[incast.receiver] if incast.receiver >= 0 else "a random host"
    pattern = f"{incast.fan_in} to 1, {format_size(incast.size_bytes)} each, to {where}"
    return Element(
        kind="incast",
        tag=context.tag,
        blocks=partial(_blocks, events.times, incast, context),
        total=None if events.count is None else events.count * incast.fan_in,
        expected_messages=n,
        expected_bytes=n * incast.size_bytes,
        expected_slot_bytes=n * slot,
        span_ps=events.span_ps,
        start_ps=int(options.start),
        expected_packets=n * int(wire.packets(sizes, context.mtu_bytes)[0]),
        largest_bytes={context.klass: incast.size_bytes},
        facts={"pattern": pattern, "when": events.when},
    )


def _regular(options: Any, context: Context) -> Events:
    """Once, or every so often: `count` times, up to `until`, or both."""
    start_ps, every_ps = int(options.start), options.every
    if every_ps is None:
        return Events(
            partial(_regular_times, start_ps, 0, 1), 1, 1.0, 0, f"once at {format_time(start_ps)}"
        )
    count = options.count
    if count is None or options.until is not None:
        fitting = -(-(context.end_ps(options.until, start_ps) - start_ps) // every_ps)
        count = fitting if count is None else min(count, fitting)
    when = f"{count} times from {format_time(start_ps)}, every {format_time(every_ps)}"
    return Events(
        partial(_regular_times, start_ps, every_ps, count),
        count,
        float(count),
        (count - 1) * every_ps,
        when,
    )


def _at_load(options: Any, context: Context, incast: Incast, slot_bytes: int) -> Events:
    """At exponential gaps: up to `until`, `count` times, or whichever comes first."""
    start_ps, count, until_ps = int(options.start), options.count, options.until
    receivers = slice(None) if incast.receiver < 0 else slice(incast.receiver, incast.receiver + 1)
    capacity_bps = int(context.host_rate_bps[receivers].sum())
    gap_ps = 8e12 * incast.fan_in * slot_bytes / (capacity_bps * options.load)
    if count is not None and until_ps is None:
        # Event `count` is never that late: Chernoff's bound is below e^-1000.
        end_ps = start_ps + int(min(gap_ps * (2.0 * count + 2000.0), 2.0**61))
    else:
        end_ps = context.end_ps(until_ps, start_ps)
    arrivals = Arrivals(
        draws.element_key(context.seed, context.index, draws.GAP),
        np.zeros(1, dtype=np.uint64),
        np.array([gap_ps]),
        start_ps,
        end_ps,
    )
    expected = arrivals.expected if count is None else min(arrivals.expected, float(count))
    every = format_time(int(gap_ps), 4)
    when = f"at {options.load:g} of the receivers' line rate: every {every} on average"
    return Events(
        partial(_poisson_times, arrivals, count),
        count if until_ps is None else None,
        expected,
        int(min(expected * gap_ps, float(end_ps - start_ps))),
        when,
    )


def _who(options: Any, context: Context) -> Incast:
    """Receiver and senders, checked."""
    receiver = -1 if options.receiver is None else context.host("receiver", options.receiver)
    named = options.senders is not None
    senders = context.host_list("senders", options.senders)
    if receiver >= 0:
        if named and receiver in senders:
            context.note(
                "receiver",
                options.receiver,
                "is a sender as well",
                fix="leave it out of the senders",
            )
        senders = senders[senders != receiver]
    usable = len(senders) if named or receiver >= 0 else len(senders) - 1
    fan_in = int(options.fan_in)
    if fan_in > usable:
        context.note(
            "fan_in",
            fan_in,
            f"is more than the {usable} hosts that can send",
            f"1 to {usable}",
            "a host sends once in an event: add events (every, count) or hosts",
        )
        fan_in = max(usable, 1)
    return Incast(fan_in, int(options.size), receiver, senders)


def _regular_times(start_ps: int, every_ps: int, count: int, rows: int) -> Iterator[np.ndarray]:
    for first in range(0, count, rows):
        yield start_ps + every_ps * np.arange(first, min(first + rows, count), dtype=np.int64)


def _poisson_times(arrivals: Arrivals, count: int | None, rows: int) -> Iterator[np.ndarray]:
    left = count
    for time, _, _ in arrivals.blocks(rows):
        yield time[:left]
        if left is not None:
            left -= len(time)
            if left <= 0:
                return


def _blocks(
    times: Callable[[int], Iterator[np.ndarray]], incast: Incast, context: Context, rows: int
) -> Iterator[Messages]:
    """Whole events, about `rows` messages at a time."""
    per_block = max(1, rows // incast.fan_in)
    event = 0
    for piece in times(per_block):
        for at in range(0, len(piece), per_block):
            starts = piece[at : at + per_block]
            numbers = np.arange(event, event + len(starts))
            receivers = _receivers(incast, context, numbers)
            yield make_messages(
                src=_senders(incast, context, numbers, receivers).ravel(),
                dst=np.repeat(receivers, incast.fan_in),
                size_bytes=incast.size_bytes,
                start_ps=np.repeat(starts, incast.fan_in),
                klass=context.klass,
                background=context.background,
                tag=0,
            )
            event += len(starts)


def _receivers(incast: Incast, context: Context, events: np.ndarray) -> np.ndarray:
    """int64[n]: receiver of each event."""
    if incast.receiver >= 0:
        return np.full(len(events), incast.receiver, dtype=np.int64)
    key = draws.element_key(context.seed, context.index, draws.RECEIVER)
    return draws.below(draws.draw(key, np.zeros(1), events), context.n_host)


def _senders(
    incast: Incast, context: Context, events: np.ndarray, receivers: np.ndarray
) -> np.ndarray:
    """int64[n, fan_in]: senders of each event."""
    fan_in, n = incast.fan_in, len(incast.senders)
    if incast.receiver >= 0 and fan_in == n:
        return np.tile(incast.senders, (len(events), 1))
    key = draws.element_key(context.seed, context.index, draws.PARTNER)
    bits = draws.draw(key, events[:, None], np.arange(fan_in))
    if incast.receiver >= 0:
        return incast.senders[np.array([draws.choose(row, n) for row in bits])]
    # All hosts can send and receive: choose among the others, numbered without the receiver.
    others = np.array([draws.choose(row, n - 1) for row in bits], dtype=np.int64)
    return others + (others >= receivers[:, None])
