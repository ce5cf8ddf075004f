"""Permutation: every host sends to one other and receives from one other; no host to itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from emunet import draws
from emunet.units import format_size, format_time
from emunet.workload import wire
from emunet.workload.messages import Context, Element, Messages, make_messages


def derangement(n: int, seed: int, element: int = 0, round_number: int = 0) -> np.ndarray:
    """int64[n]: a permutation without fixed points, each equally likely.

    Shuffles (by sorting 64-bit draws) are repeated until one has no fixed point: about e tries.
    """
    key = draws.element_key(seed, element, draws.SHUFFLE)
    hosts, entity = np.arange(n, dtype=np.uint64), np.array([round_number], dtype=np.uint64)
    for attempt in itertools.count():
        attempt_key = draws.draw(key, entity, np.array([attempt]))
        shuffled = np.argsort(draws.draw(attempt_key, hosts, np.zeros(1)), kind="stable")
        if not (shuffled == np.arange(n)).any():
            return shuffled
    raise AssertionError("unreachable")


def element(options: Any, context: Context) -> Element:
    """One message from every host at `start`; with `until`, further rounds at line rate."""
    n, size, start_ps = context.n_host, int(options.size), int(options.start)
    if n < 2:
        context.note("", n, "host is too few for a permutation", "2 or more hosts")
        n = 2
    sizes = np.array([size])
    slot = int(wire.slot_bytes(sizes, context.mtu_bytes)[0])
    slowest_bps = int(context.host_rate_bps.min())
    period_ps = -(-slot * 8 * 10**12 // slowest_bps)
    rounds = 1 if options.until is None else -(-(options.until - start_ps) // period_ps)

    def blocks(rows: int) -> Iterator[Messages]:
        hosts = np.arange(n)
        for number in range(rounds):
            dst = derangement(n, context.seed, context.index, number)
            yield make_messages(
                src=hosts,
                dst=dst,
                size_bytes=size,
                start_ps=start_ps + number * period_ps,
                klass=context.klass,
                background=context.background,
                tag=0,
            )

    total = n * rounds
    again = f", {rounds} rounds of {format_time(period_ps)}" if rounds > 1 else ""
    return Element(
        kind="permutation",
        tag=context.tag,
        blocks=blocks,
        total=total,
        expected_messages=total,
        expected_bytes=total * size,
        expected_packets=total * int(wire.packets(sizes, context.mtu_bytes)[0]),
        expected_slot_bytes=total * slot,
        span_ps=(rounds - 1) * period_ps,
        largest_bytes={context.klass: size},
        facts={"pattern": f"{n} hosts, one message of {format_size(size)} each{again}"},
    )
