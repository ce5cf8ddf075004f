"""Permutation: every host sends to one other and receives from one other; no host to itself."""

from __future__ import annotations

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
    return derangements(n, seed, element, np.array([round_number]))[0]


def derangements(n: int, seed: int, element: int, rounds: np.ndarray) -> np.ndarray:
    """int64[n_round, n]: the derangement of each round."""
    key = draws.element_key(seed, element, draws.SHUFFLE)
    hosts = np.arange(n, dtype=np.uint64)
    found = np.empty((len(rounds), n), dtype=np.int64)
    left = np.arange(len(rounds))
    attempt = 0
    while len(left):
        attempt_key = draws.draw(key, rounds[left], np.array([attempt]))
        order = draws.draw(attempt_key[:, None], hosts, np.zeros(1))
        found[left] = np.argsort(order, axis=1, kind="stable")
        left = left[(found[left] == np.arange(n)).any(axis=1)]
        attempt += 1
    return found


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
        together = max(1, rows // n)
        for first in range(0, rounds, together):
            number = np.arange(first, min(first + together, rounds))
            yield make_messages(
                src=np.tile(np.arange(n), len(number)),
                dst=derangements(n, context.seed, context.index, number).ravel(),
                size_bytes=size,
                start_ps=np.repeat(start_ps + number * period_ps, n),
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
        start_ps=start_ps,
        largest_bytes={context.klass: size},
        facts={"pattern": f"{n} hosts, one message of {format_size(size)} each{again}"},
    )
