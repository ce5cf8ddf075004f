"""Queues that theory knows: M/D/1, D/D/1, Lindley and Little."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabric import BARE, plan_of, spokes
from support.oracle import FIRST, FULL, GAP, GBPS, MTU, US
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.schema import Plan

N_HOST = 64
SERVICE_PS = (FIRST + GAP) * 20
"""One-packet messages of 4096 B at 400 Gb/s: 83,880 ps."""


def fast_hosts() -> Plan:
    """64 hosts on links so fast (40 Tb/s) that they hold nothing up, and a receiver of 400G."""
    rates = [400 * GBPS] + [40_000 * GBPS] * N_HOST
    return plan_of(spokes(rates), BARE, buffer_bytes=10**9, alpha=8.0, linger_ps=1)


def through_the_switch(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """When each message's packet came to the switch and when its transmission began, by arrival."""
    switch = N_HOST + 1
    came = result.select(node=switch, kind=R.EVENT_ARRIVE, packet=R.PACKET_DATA)
    left = result.select(node=switch, kind=R.EVENT_DEPART, packet=R.PACKET_DATA)
    began = np.zeros(len(came), np.int64)
    began[left["flow"]] = left["time_ps"]
    return came["time_ps"], began[came["flow"]]


def poisson(load: float, n: int, seed: int) -> list[Message]:
    """Poisson arrivals at a load of the receiver's link, each from a host drawn at random."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.exponential(SERVICE_PS / load, n)).astype(np.int64)
    return [
        Message(int(h), 0, MTU, int(t))
        for h, t in zip(rng.integers(1, N_HOST + 1, n), starts, strict=True)
    ]


def batch_means(values: np.ndarray, n_batch: int = 30) -> tuple[float, float]:
    """Mean, and its standard error from the means of batches (which are nearly independent)."""
    size = len(values) // n_batch
    means = values[: size * n_batch].reshape(n_batch, size).mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(n_batch))


@pytest.mark.parametrize(("load", "n"), [(0.3, 40_000), (0.6, 80_000), (0.8, 120_000)])
def test_poisson_arrivals_wait_as_pollaczek_and_khinchine_say(load: float, n: int) -> None:
    """M/D/1: the mean waiting time is rho D / (2 (1 - rho)).

    That is within 3.3 standard errors of 30 batch means (Student, 99.7 %). Nothing but the 40 Tb/s
    links stands between draw and switch: they delay a packet only behind another of the same host
    within 839 ps. The interval is narrow enough to tell M/M/1 (twice the waiting) apart. Waiting
    follows from the arrivals exactly (Lindley), and the port's integral of bytes is bytes times
    residence (Little).
    """
    seed = 5
    result = run(
        fast_hosts(),
        poisson(load, n, seed),
        event_filter=((1 << R.EVENT_ARRIVE) | (1 << R.EVENT_DEPART), -1, 1 << 32),
    )
    came, began = through_the_switch(result)
    waited = began - came
    assert len(waited) == n and waited.min() == 0
    mean, error = batch_means(waited)
    theory = load * SERVICE_PS / (2 * (1 - load))
    assert abs(mean - theory) < 3.3 * error, f"seed {seed}"
    assert 3.3 * error < 0.25 * theory
    steps = np.arange(n) * SERVICE_PS
    lindley = np.maximum.accumulate(came - steps) + steps
    assert np.array_equal(np.sort(began), lindley)
    residence = int(waited.sum()) + n * SERVICE_PS
    port = int(fast_hosts().port_peer[0])
    integral = float(result.ports["queue_byte_ps"][port])
    assert integral == pytest.approx(FIRST * residence, rel=n * 2.0**-53)


def test_regular_arrivals_below_capacity_do_not_wait() -> None:
    """D/D/1: up to load 1 exactly no arrival waits; 1 ps closer, and packet k waits k ps."""
    n = 5000
    for period_ps, step in ((SERVICE_PS, 0), (SERVICE_PS + 1, 0), (SERVICE_PS - 1, 1)):
        work = [Message(1 + k % N_HOST, 0, MTU, k * period_ps) for k in range(n)]
        came, began = through_the_switch(run(fast_hosts(), work))
        assert (began - came == step * np.arange(n)).all()
        assert len(set((came - np.arange(n) * period_ps).tolist())) == 1


@pytest.mark.parametrize("n_sender", [2, 4])
def test_periodic_bursts_wait_for_those_before_them(n_sender: int) -> None:
    """D/D/1 with batches: k packets together wait 0, D, .., (k - 1) D, in every period."""
    rounds = 200
    period_ps = 2 * n_sender * SERVICE_PS
    work = [
        Message(1 + h, 0, MTU, r * period_ps) for r in range(rounds) for h in range(n_sender)
    ]
    came, began = through_the_switch(run(fast_hosts(), work))
    waited = np.sort((began - came).reshape(rounds, n_sender), axis=1)
    assert (waited == np.arange(n_sender) * SERVICE_PS).all()


def test_load_is_what_was_asked_for() -> None:
    """The receiver's link carries load times its rate: slot bytes (4194) and spacing say so."""
    n, load = 20_000, 0.5
    work = poisson(load, n, 9)
    result = run(fast_hosts(), work, log=False)
    took_ps = work[-1].start_ps
    carried = result.ports["tx_bytes"][int(fast_hosts().port_peer[0])] + GAP * n
    # the exponential gaps' sum has a relative standard deviation of 1 / sqrt(n)
    assert abs(float(carried) * 20 / took_ps / load - 1) < 3 / np.sqrt(n)
    assert FULL + 16 == FIRST and result.totals["flows_finished"] == n
    assert result.now_ps < took_ps + 1000 * US
