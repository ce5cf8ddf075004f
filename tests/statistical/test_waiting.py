"""M/D/1 beyond its mean: who waits at all, how far waits spread, how many are there."""

from __future__ import annotations

import numpy as np
import pytest
from support.run import run
from test_queueing import SERVICE_PS, batch_means, fast_hosts, poisson, through_the_switch

from emunet._core import rows as R

LOG = ((1 << R.EVENT_ARRIVE) | (1 << R.EVENT_DEPART), -1, 1 << 32)
SEED = 5

SIGMAS = 3.3
"""Student's t of 29 degrees of freedom at 99.7 %."""


@pytest.mark.parametrize(("load", "n"), [(0.2, 30_000), (0.5, 60_000), (0.7, 100_000)])
def test_waits_are_distributed_as_in_md1(load: float, n: int) -> None:
    """M/D/1 (Takacs): P(no wait) = 1 - rho, E[W] = rho D / (2 (1 - rho)), and the second moment.

    E[W^2] = 2 E[W]^2 + rho D^2 / (3 (1 - rho)). Poisson arrivals see time averages, so arrivals are
    what is counted; each mean is within 3.3 standard errors of 30 batch means. The hosts' links of
    40 Tb/s hold a packet up only behind another of the same host within 839 ps, 1 % of a service:
    one in 64 * 100 / rho, far below the errors. M/M/1 would have twice the mean wait.
    """
    result = run(fast_hosts(), poisson(load, n, SEED), event_filter=LOG)
    came, began = through_the_switch(result)
    waited = (began - came)[np.argsort(came, kind="stable")] / SERVICE_PS
    mean = load / (2 * (1 - load))
    theory = {
        "without a wait": (waited == 0, 1 - load),
        "first moment": (waited, mean),
        "second moment": (waited**2, 2 * mean**2 + load / (3 * (1 - load))),
    }
    for name, (values, expected) in theory.items():
        found, error = batch_means(np.asarray(values, float))
        assert abs(found - expected) < SIGMAS * error, f"seed {SEED}: {name} {found} {expected}"
        assert SIGMAS * error < 0.25 * expected, f"seed {SEED}: {name} is too uncertain to tell"


@pytest.mark.parametrize(("load", "n"), [(0.4, 40_000), (0.75, 80_000)])
def test_a_sampled_queue_is_that_of_md1(load: float, n: int) -> None:
    """M/D/1 by time average: P(empty) = 1 - rho, mean in system rho + rho^2 / (2 (1 - rho)).

    Seen by samples every 0.93 service times, over the whole run, in packets: samples of a port
    write a row when the bytes have changed, so the value holds until the next row. Two-sided, 3.3
    standard errors of 30 batches.
    """
    every_ps = int(0.93 * SERVICE_PS)
    plan = fast_hosts()
    work = poisson(load, n, SEED)
    result = run(plan, work, log=False, sample_every_ps=every_ps)
    port = int(plan.port_peer[0])
    rows = result.queues[result.queues["port"] == port]
    last = work[-1].start_ps // every_ps
    number = rows["time_ps"] // every_ps
    assert (rows["time_ps"] % every_ps == 0).all()
    held = np.searchsorted(number, np.arange(1, last), side="right") - 1
    frame = int(result.ports["tx_bytes"][port]) // n
    packets = np.where(held >= 0, rows["queue_bytes"][held], 0) // frame
    mean = load + load**2 / (2 * (1 - load))
    for name, values, expected in (
        ("empty", packets == 0, 1 - load), ("mean", packets, mean),
    ):  # fmt: skip
        found, error = batch_means(np.asarray(values, float))
        assert abs(found - expected) < SIGMAS * error, f"seed {SEED}: {name} {found} {expected}"
        assert SIGMAS * error < 0.25 * expected
