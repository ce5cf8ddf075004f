"""Poisson arrivals: every host starts messages at a load of its line rate, to random other hosts.

A host of line rate R starts ``R * load / (8 * mean)`` messages a second; the mean is that of the
bytes on the wire (``of: wire``) or of the payload (``of: payload``). Draws are keyed by (seed,
element, host, number of the arrival), so a host's arrivals do not depend on other hosts, on the
end, or on how many are generated at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from emunet import draws
from emunet.errors import InputFileError
from emunet.ingest.cdf import SizeCdf, fixed_size, load_cdf
from emunet.units import format_rate
from emunet.workload import wire
from emunet.workload.messages import Context, Element, Messages, make_messages


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Independent Poisson processes, one for each of `entity`.

    Attributes
    ----------
    key : uint64[1]
        Key of the gaps.
    entity : uint64[n]
        What the draws of each process are keyed by.
    mean_gap_ps : float64[n]
        Mean time between arrivals.
    start_ps, end_ps : int
        Arrivals lie in ``[start, end)``.
    """

    key: np.ndarray
    entity: np.ndarray
    mean_gap_ps: np.ndarray
    start_ps: int
    end_ps: int

    @property
    def expected(self) -> float:
        """Mean number of arrivals."""
        return float(np.sum((self.end_ps - self.start_ps) / self.mean_gap_ps))

    def blocks(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(time in ps, process, number within the process) in that order, about `rows` at a time.

        A process keeps the time and number of its latest arrival. Gaps are whole picoseconds, so
        sums of them do not depend on where blocks end.
        """
        n = len(self.entity)
        window_ps = max(1, int(rows / np.sum(1.0 / self.mean_gap_ps)))
        depth = int(1.3 * window_ps / np.min(self.mean_gap_ps)) + 4
        depth = max(1, min(depth, 4 * rows // n + 1))
        latest = np.full(n, self.start_ps, dtype=np.int64)
        number = np.zeros(n, dtype=np.int64)
        horizon = self.start_ps
        while horizon < self.end_ps:
            horizon = min(horizon + window_ps, self.end_ps)
            pieces = []
            open_ = np.arange(n)
            while len(open_):
                times, count = self._until(open_, latest, number, depth, horizon)
                row, column = np.nonzero(np.arange(depth) < count[:, None])
                pieces.append((times[row, column], open_[row], number[open_[row]] + column))
                latest[open_] = np.where(
                    count > 0, times[np.arange(len(open_)), np.maximum(count, 1) - 1], latest[open_]
                )
                number[open_] += count
                open_ = open_[count == depth]
            time, process, k = (np.concatenate(column) for column in zip(*pieces, strict=True))
            order = np.lexsort((k, process, time))
            if len(order):
                yield time[order], process[order], k[order]

    def _until(
        self, which: np.ndarray, latest: np.ndarray, number: np.ndarray, depth: int, horizon: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Next `depth` arrivals of some processes, and how many of them come before `horizon`."""
        numbers = number[which][:, None] + np.arange(depth)
        gaps = draws.exponential(draws.draw(self.key, self.entity[which][:, None], numbers))
        longest = float(self.end_ps - self.start_ps) + 1.0
        whole = np.floor(np.minimum(gaps * self.mean_gap_ps[which][:, None], longest) + 0.5).astype(
            np.int64
        )
        times = latest[which][:, None] + np.cumsum(whole, axis=1)
        # Long after the end sums leave int64; before it, doubles tell them apart by far.
        times[np.cumsum(whole, axis=1, dtype=np.float64) > 1.5 * longest] = self.end_ps
        return times, (times < horizon).sum(axis=1)


def element(options: Any, context: Context) -> Element:
    """Arrivals at `load` from `start` to `until`."""
    hosts = context.host_list("hosts", options.hosts)
    start_ps = int(options.start)
    end_ps = context.end_ps(options.until, start_ps)
    if len(hosts) < 2:
        context.note(
            "hosts",
            len(hosts),
            "host is too few: a message needs another host to go to",
            "2 or more hosts",
        )
        hosts = np.arange(min(context.n_host, 2))
    cdf = _sizes(options.sizes, context)
    of_wire = cdf.expect(partial(wire.sum_slot_bytes, mtu_bytes=context.mtu_bytes))
    mean_bytes = of_wire if options.of == "wire" else cdf.message_bytes
    rate_bps = context.host_rate_bps[hosts].astype(np.float64)
    arrivals = Arrivals(
        key=draws.element_key(context.seed, context.index, draws.GAP),
        entity=hosts.astype(np.uint64),
        mean_gap_ps=8e12 * mean_bytes / (rate_bps * options.load),
        start_ps=start_ps,
        end_ps=end_ps,
    )
    n = arrivals.expected
    facts = {
        "sizes": f"{cdf.name}, mean {cdf.mean_bytes:.1f} bytes",
        "load": f"{options.load:g} of {options.of}: on the wire "
        f"{options.load * of_wire / mean_bytes:.4g} of the line rate, "
        f"{options.load * cdf.message_bytes / mean_bytes:.4g} as payload",
        "rate": f"{n / (end_ps - start_ps) * 1e12:.6g} messages/s from {len(hosts)} hosts "
        f"of {format_rate(int(rate_bps.sum() / len(hosts)), 4)}",
    }
    return Element(
        kind="poisson",
        tag=context.tag,
        blocks=partial(_blocks, arrivals, cdf, hosts, context),
        total=None,
        expected_messages=n,
        expected_bytes=n * cdf.message_bytes,
        expected_packets=n * cdf.expect(partial(wire.sum_packets, mtu_bytes=context.mtu_bytes)),
        expected_slot_bytes=n * of_wire,
        span_ps=end_ps - start_ps,
        start_ps=start_ps,
        largest_bytes={context.klass: cdf.max_bytes},
        facts=facts,
    )


def _sizes(name: str, context: Context) -> SizeCdf:
    try:
        cdf = load_cdf(name, context.base_dir)
        if cdf.max_bytes > context.most_bytes:
            context.note(
                "sizes",
                name,
                f"holds a message of {cdf.max_bytes} bytes, more than the largest, 2^32 - 1 "
                f"packets of {context.mtu_bytes} bytes",
                f"sizes up to {context.most_bytes} bytes",
                "cut the distribution there",
            )
        return cdf
    except InputFileError as error:
        if error.line:
            raise
        context.note("sizes", name, error.problem, fix=error.fix)
        return fixed_size(1)


def _blocks(
    arrivals: Arrivals, cdf: SizeCdf, hosts: np.ndarray, context: Context, rows: int
) -> Iterator[Messages]:
    size_key = draws.element_key(context.seed, context.index, draws.SIZE)
    partner_key = draws.element_key(context.seed, context.index, draws.PARTNER)
    for time, process, number in arrivals.blocks(rows):
        entity = arrivals.entity[process]
        size = cdf.sample(draws.unit(draws.draw(size_key, entity, number)))
        other = draws.below(draws.draw(partner_key, entity, number), len(hosts) - 1)
        other += other >= process
        yield make_messages(
            src=hosts[process],
            dst=hosts[other],
            size_bytes=size,
            start_ps=time,
            klass=context.klass,
            background=context.background,
            tag=0,
        )
