"""The generators draw what their names promise, within bounds that follow from their laws."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from emunet import draws
from emunet.ingest.cdf import load_cdf
from emunet.scenario import Incast, LeafSpine, Permutation, Poisson, Scenario, Star
from emunet.topology import build
from emunet.workload import Messages, WorkloadStream, stream, wire
from emunet.workload.messages import concatenate
from emunet.workload.permutation import derangement
from emunet.workload.poisson import Arrivals

US, MS = 10**6, 10**9
RATE_BPS = 400 * 10**9


def run(*workload: Any, n_host: int = 16, seed: int = 1, chunk: int = 65536) -> WorkloadStream:
    """Stream of a workload on a star of hosts at 400 Gb/s."""
    scenario = Scenario(topology=Star(hosts=n_host), workload=list(workload), seed=seed)
    return stream(scenario, build(scenario.topology), chunk=chunk)


def everything(made: WorkloadStream) -> Messages:
    return concatenate(list(made))


def bits(n: int, key: int = 3) -> np.ndarray:
    return draws.draw(np.array([key], np.uint64), np.zeros(1), np.arange(n))


def test_draws_are_those_of_the_semantics_page() -> None:
    """Claim of docs/semantics.md 1.2: mix64 and draw, here in plain integers."""
    mask = 2**64 - 1

    def mix(x: int) -> int:
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        return x ^ x >> 31

    def draw(key: int, a: int, b: int) -> int:
        return mix((mix(key ^ a) + b * 0x9E3779B97F4A7C15) & mask)

    for key, a, b in ((0, 0, 0), (1, 2, 3), (mask, 65535, 2**40), (12345, 7, 1)):
        assert int(draws.draw(np.array([key], np.uint64), np.array([a]), np.array([b]))[0]) == draw(
            key, a, b
        )


def test_the_logarithm_is_right_to_the_last_places() -> None:
    """Claim: our logarithm is within 4 units in the last place of the C library's."""
    x = np.concatenate(
        (draws.unit(bits(20_000)), 2.0 ** -np.arange(54.0), [1.0, 1 - 2**-53, 0.5 + 2**-53])
    )
    exact = np.array([math.log(v) for v in x])
    assert (np.abs(draws.log(x) - exact) <= 4 * np.spacing(np.abs(exact))).all()
    assert draws.log(np.array([1.0]))[0] == 0.0


def test_gaps_are_exponential() -> None:
    """Claim: mean 1, variance 1, and the distribution function within the Kolmogorov bound."""
    n = 100_000
    gaps = np.sort(draws.exponential(bits(n)))
    assert abs(gaps.mean() - 1) <= 4 / math.sqrt(n)
    assert abs(gaps.var() - 1) <= 4 * math.sqrt(8 / n)
    distance = np.abs(1 - np.exp(-gaps) - (np.arange(n) + 0.5) / n).max()
    assert 0.2 / math.sqrt(n) < distance < 2.4 / math.sqrt(n)  # P(outside) < 1e-4


@pytest.mark.parametrize("n", [2, 3, 16])
def test_a_permutation_is_a_derangement_for_every_seed(n: int) -> None:
    """Claim: no host sends to itself and every host receives once, seeds 0 to 99."""
    for seed in range(100):
        partner = derangement(n, seed)
        assert sorted(partner) == list(range(n))
        assert (partner != np.arange(n)).all()


def test_every_derangement_is_equally_likely() -> None:
    """Claim: the 9 derangements of 4 hosts occur with probability 1/9 each, within 5 sigma."""
    n = 9000
    counts = Counter(tuple(derangement(4, seed).tolist()) for seed in range(n))
    assert len(counts) == 9
    sigma = math.sqrt(n * (1 / 9) * (8 / 9))
    assert all(abs(count - n / 9) <= 5 * sigma for count in counts.values())


def test_a_permutation_starts_once_or_in_rounds_at_line_rate() -> None:
    """Claim: with until, rounds follow one another at line rate, each rearranged."""
    once = everything(run(Permutation(size=1_000_000, start=3 * US)))
    assert once.start_ps.tolist() == [3 * US] * 16
    made = everything(run(Permutation(size=1_000_000, start=3 * US, until=100 * US)))
    slot = int(wire.slot_bytes(np.array([1_000_000]), 4096)[0])
    period_ps = slot * 20
    assert len(made) == 16 * math.ceil(97 * US / period_ps)
    assert np.unique(np.diff(np.unique(made.start_ps))).tolist() == [period_ps]
    rounds = made.dst.reshape(-1, 16)
    assert (np.sort(rounds, axis=1) == np.arange(16)).all()
    assert not np.array_equal(rounds[0], rounds[1])


def test_arrivals_do_not_depend_on_their_end() -> None:
    """Claim: an end that is 53 days away changes no arrival before it, seen in blocks of any size.

    Sums of gaps cut to such a span would leave 64 bits.
    """
    rates = np.array([2.0, 1.0, 1e-9, 1e-16])

    def first(end_ps: int, rows: int) -> list[tuple[int, int, int]]:
        made = Arrivals(draws.element_key(7, 0, draws.GAP), np.arange(4, dtype=np.uint64),
                        1e6 / rates, 5, end_ps)  # fmt: skip
        found: list[tuple[int, int, int]] = []
        for block in made.blocks(rows):
            found += zip(*(column.tolist() for column in block), strict=True)
            if found[-1][0] > 400 * US:
                break
        return [row for row in found if row[0] < 400 * US]

    expected = first(400 * US, 100)
    assert 1000 < len(expected) < 1400
    for rows in (1, 100, 65536):
        assert first((1 << 62) - 1, rows) == expected


@pytest.mark.parametrize("of", ["wire", "payload"])
@pytest.mark.parametrize("sizes", ["google_rpc", "20KB"])
def test_poisson_arrivals_make_up_their_load(of: str, sizes: str) -> None:
    """Claim: count, bytes and load are within 4 sigma (Poisson; compound Poisson for the bytes)."""
    load, until, n_host = 0.4, 20 * MS, 8
    messages = everything(run(Poisson(sizes=sizes, load=load, of=of, until=until), n_host=n_host))
    made = run(Poisson(sizes=sizes, load=load, of=of, until=until), n_host=n_host)
    n = made.expected_messages
    assert abs(len(messages) - n) <= 4 * math.sqrt(n)
    counted = wire.slot_bytes(messages.size_bytes, 4096) if of == "wire" else messages.size_bytes
    capacity_bytes = n_host * RATE_BPS * until / 8e12
    square = float(np.mean(counted.astype(float) ** 2))
    assert abs(counted.sum() - load * capacity_bytes) <= 4.5 * math.sqrt(n * square)
    mean = made.expected_slot_bytes if of == "wire" else made.expected_bytes
    assert mean == pytest.approx(load * capacity_bytes, rel=1e-12)
    assert made.expected_packets == pytest.approx(
        wire.packets(messages.size_bytes, 4096).sum(), rel=0.05
    )


def test_poisson_gaps_of_one_host_are_exponential() -> None:
    """Claim: each host is a Poisson process of its own (Kolmogorov bound on its gaps)."""
    messages = everything(run(Poisson(sizes="10KB", load=0.5, until=20 * MS), n_host=4))
    slot = int(wire.slot_bytes(np.array([10_000]), 4096)[0])
    mean_ps = slot * 8e12 / (RATE_BPS * 0.5)
    for host in range(4):
        starts = messages.start_ps[messages.src == host]
        gaps = np.sort(np.diff(starts, prepend=0)) / mean_ps
        n = len(gaps)
        assert n > 10_000
        distance = np.abs(1 - np.exp(-gaps) - (np.arange(n) + 0.5) / n).max()
        assert distance < 2.4 / math.sqrt(n)


def test_poisson_partners_are_uniform() -> None:
    """Claim: each of the other hosts is equally likely, the sender never, within 5 sigma a pair."""
    messages = everything(run(Poisson(sizes="1KB", load=0.5, until=5 * MS), n_host=5))
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (messages.src, messages.dst), 1)
    assert (np.diag(pairs) == 0).all()
    for host in range(5):
        n = pairs[host].sum()
        others = np.delete(pairs[host], host)
        assert (np.abs(others - n / 4) <= 5 * math.sqrt(n * (1 / 4) * (3 / 4))).all()


def test_poisson_hosts_do_not_depend_on_each_other_or_on_the_end() -> None:
    """Claim: a host's arrivals are keyed by (seed, element, host, number) and by nothing else."""
    long = everything(run(Poisson(sizes="websearch", load=0.5, until=4 * MS)))
    short = everything(run(Poisson(sizes="websearch", load=0.5, until=1 * MS)))
    early = long.take(long.start_ps < 1 * MS)
    for name in ("src", "dst", "size_bytes", "start_ps"):
        assert np.array_equal(getattr(early, name), getattr(short, name))
    few = everything(run(Poisson(sizes="websearch", load=0.5, until=4 * MS, hosts=(3, "host5"))))
    assert set(few.src) == set(few.dst) == {3, 5}
    for host in (3, 5):
        alone, among = few.src == host, long.src == host
        assert np.array_equal(few.start_ps[alone], long.start_ps[among])
        assert np.array_equal(few.size_bytes[alone], long.size_bytes[among])


def test_other_seeds_and_elements_draw_differently() -> None:
    """Claim: seed and position in the workload are part of every key."""
    item = Poisson(sizes="websearch", load=0.5, until=1 * MS)
    first, second = everything(run(item)), everything(run(item, seed=2))
    assert not np.array_equal(first.start_ps[:50], second.start_ps[:50])
    both = everything(run(item, item))
    a, b = both.start_ps[both.tag == 0], both.start_ps[both.tag == 1]
    assert np.array_equal(a, first.start_ps)
    assert len(np.intersect1d(a, b)) < 3


def test_poisson_rates_follow_the_hosts_ports() -> None:
    """Claim: the load is of each host's own line rate: half the rate, half the arrivals."""
    counts = []
    for rate in (400, 200):
        fabric = LeafSpine(leaves=2, spines=1, hosts_per_leaf=4, rate=rate * 10**9)
        scenario = Scenario(
            topology=fabric, workload=[Poisson(sizes="10KB", load=0.3, until=10 * MS)]
        )
        counts.append(stream(scenario, build(fabric)).expected_messages)
    assert counts[0] == pytest.approx(2 * counts[1], rel=1e-12)


def test_an_incast_has_different_senders_and_one_receiver() -> None:
    """Claim: fan_in different hosts other than the receiver send once each at the same instant."""
    messages = everything(run(Incast(fan_in=9, receiver="host4", size=1000, start=5 * US)))
    assert len(set(messages.src)) == len(messages) == 9
    assert set(messages.dst) == {4}
    assert set(messages.start_ps) == {5 * US}
    assert 4 not in messages.src
    every = everything(run(Incast(fan_in=15, receiver=4, size=1000)))
    assert sorted(every.src) == [h for h in range(16) if h != 4]


def test_named_senders_are_drawn_from_their_list() -> None:
    """Claim: senders come from the list; if all are needed, in the order of the list."""
    named = (9, 3, "host12", 7)
    messages = everything(run(Incast(fan_in=4, receiver=0, size=5, senders=named)))
    assert messages.src.tolist() == [9, 3, 12, 7]
    some = everything(run(Incast(fan_in=2, receiver=0, size=5, senders=named, every=US, count=40)))
    assert set(some.src) == {9, 3, 12, 7}


def test_choosing_is_uniform_over_ordered_choices() -> None:
    """Claim: the 12 ordered pairs below 4 occur with probability 1/12 each, within 5 sigma."""
    n = 12_000
    keys = bits(2 * n).reshape(n, 2)
    counts = Counter(tuple(draws.choose(row, 4)) for row in keys)
    assert len(counts) == 12
    assert all(abs(c - 1000) <= 5 * math.sqrt(n / 12 * 11 / 12) for c in counts.values())
    assert sorted(draws.choose(bits(4), 4)) == [0, 1, 2, 3]


def test_regular_incasts_repeat_exactly() -> None:
    """Claim: every, count and until place events at start + k * every, k < count, before until."""
    starts = everything(
        run(Incast(fan_in=2, receiver=0, size=5, start=3, every=7, count=4))
    ).start_ps
    assert starts.tolist() == [3, 3, 10, 10, 17, 17, 24, 24]
    cut = everything(run(Incast(fan_in=1, receiver=0, size=5, start=3, every=7, until=17))).start_ps
    assert cut.tolist() == [3, 10]
    both = run(Incast(fan_in=1, receiver=0, size=5, start=3, every=7, until=18, count=99))
    assert everything(both).start_ps.tolist() == [3, 10, 17]
    assert both.total == 3


def test_an_incast_overlay_makes_up_its_load() -> None:
    """Claim: load of all hosts' line rate within 4 sigma; uniform receivers within 5 sigma."""
    until, n_host = 40 * MS, 10
    made = run(Incast(fan_in=6, size=50_000, load=0.2, until=until), n_host=n_host)
    messages = everything(made)
    events = len(messages) // 6
    slot = int(wire.slot_bytes(np.array([50_000]), 4096)[0])
    mean = 0.2 * n_host * RATE_BPS * until / (8e12 * 6 * slot)
    assert made.expected_messages == pytest.approx(6 * mean, rel=1e-12)
    assert abs(events - mean) <= 4 * math.sqrt(mean)
    receivers = np.bincount(messages.dst[::6], minlength=n_host)
    assert (np.abs(receivers - events / 10) <= 5 * math.sqrt(events * 0.09)).all()
    assert (messages.dst.reshape(-1, 6) == messages.dst[::6, None]).all()
    assert (messages.src != messages.dst).all()
    assert all(len(set(row)) == 6 for row in messages.src.reshape(-1, 6)[:500])


def test_an_overlay_on_one_receiver_loads_its_link() -> None:
    """Claim: with a receiver, the load is of that host's line rate; count ends it exactly."""
    made = run(Incast(fan_in=6, receiver=1, size=50_000, load=0.2, count=700))
    messages = everything(made)
    assert made.total == len(messages) == 4200
    slot = int(wire.slot_bytes(np.array([50_000]), 4096)[0])
    gap_ps = 8e12 * 6 * slot / (0.2 * RATE_BPS)
    mean_gap = messages.start_ps[-1] / 700
    assert abs(mean_gap / gap_ps - 1) <= 4 / math.sqrt(700)


def test_sizes_of_arrivals_follow_the_table() -> None:
    """Claim: the fraction of arrivals up to each size of the table is within 5 sigma of it."""
    cdf = load_cdf("websearch")
    sizes = everything(run(Poisson(sizes="websearch", load=0.8, until=50 * MS))).size_bytes
    n = len(sizes)
    assert n > 10_000
    for size, fraction in zip(cdf.size_bytes[1:-1], cdf.fraction[1:-1], strict=True):
        sigma = math.sqrt(fraction * (1 - fraction) / n)
        assert abs(np.mean(sizes <= size) - fraction) <= 5 * sigma
