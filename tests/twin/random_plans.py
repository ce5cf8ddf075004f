"""Seeded small scenarios in which everything happens: for the comparison of two engines, event
for event.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from plans import GBPS, US, Block, Cable, Message, make_fabric, ring
from random_faults import with_faults

from emunet.plan.schema import (
    DYNAMIC,
    NO_LIMIT,
    PATH_ECMP,
    PATH_SPRAY,
    RECOVERY_GBN,
    RECOVERY_SR,
    TIES_DRAW,
    TIES_PORT,
    Plan,
)
from emunet.plugin import load

RATES_BPS = [25 * GBPS, 40 * GBPS, 100 * GBPS, 400 * GBPS, 425 * GBPS]
CLASSES = [0, 3, 5]
REACTIVE = Path(__file__).with_name("reactive.py")


@dataclass(frozen=True)
class Case:
    """One scenario.

    Attributes
    ----------
    seed : int
        What it follows from.
    shape : str
        Topology, in words.
    plan : Plan
    messages : list of Message
    until_ps : int
        Long enough for nearly all cases to finish by themselves, or in the middle of things.
    options : dict
        For the engines, beside the event log.
    """

    seed: int
    shape: str
    plan: Plan
    messages: list[Message]
    until_ps: int
    options: dict[str, Any]


def random_case(case_seed: int, **changes: Any) -> Case:
    """The case that follows from a seed; `changes` are settings of `plans.make_fabric` to force."""
    rng = random.Random(f"emunet twin {case_seed}")
    shape, n_host, n_switch, pairs, blocks = _topology(rng)
    alike = rng.random() < 0.5  # equal links make ties
    rates = [rng.choice(RATES_BPS)] if alike else RATES_BPS
    delays = [rng.choice([50_000, 100_000, US])] if alike else None
    cables = [
        Cable(
            a, b, rng.choice(rates), rng.choice(delays) if delays else rng.randint(50_000, 2 * US)
        )
        for a, b in pairs
    ]
    plan = make_fabric(
        n_host,
        n_switch,
        cables,
        blocks,
        _policy(rng),
        **{
            **_settings(rng),
            **_buffers(case_seed),
            **_losses(case_seed),
            **_marks(case_seed),
            **_watchdogs(case_seed),
            **changes,
        },
    )
    if case_seed % 5 == 1:
        plan = with_faults(plan, random.Random(f"emunet twin faults {case_seed}"))
    mask = np.array([rng.random() < 0.7 for _ in range(plan.n_port)], np.uint8)
    options = {"sample_every_ps": rng.choice([0, 333_333, 2 * US]), "sample_port_mask": mask}
    until_ps = rng.choice([20_000 * US, 20_000 * US, rng.randint(20 * US, 150 * US)])
    options |= _schedule(random.Random(f"watermarks {case_seed}"))
    return Case(case_seed, shape, plan, _messages(rng, n_host), until_ps, options)


def _schedule(rng: random.Random) -> dict[str, Any]:
    """When watermarks are measured and cleared; some at the same instants."""
    period = rng.choice([0, 3 * US, 7_777_777])
    times = [rng.randint(1, 150 * US) for _ in range(4)] + [6 * US, 6 * US, 21 * US]
    return {
        "measure_every_ps": rng.choice([0, 500_000, US]),
        "periodic_ps": period,
        "clear_user_ps": rng.choice([(), times[:3], times[4:]]),
        "clear_persistent_ps": rng.choice([(), times[3:5]]),
    }


def deadlock_case(**watchdog: int) -> Case:
    """Not random: a ring in which all hosts send two hops clockwise, until all wait for all.

    An engine that does not see that would go on with pause frames until `until_ps`, which is some
    hundred of them.
    """
    n = 5
    plan = ring(
        n,
        shared_bytes=40_000,
        alpha=1.0,
        headroom_bytes=30_000,
        rto_ps=50 * US,
        switch_latency_ps=0,
        nic_latency_ps=0,
        switch_pause_latency_ps=0,
        nic_pause_latency_ps=0,
        **watchdog,
    )
    messages = [Message(h, (h + 2) % n, 200_000) for h in range(n)]
    messages += [Message(h, (h + 2) % n, 4096, 300 * US) for h in range(n)]
    options = {"measure_every_ps": 3 * US, "periodic_ps": 40 * US, "clear_user_ps": [777 * US]}
    return Case(-1, "ring", plan, messages, 5_000 * US, options)


def _topology(
    rng: random.Random,
) -> tuple[str, int, int, list[tuple[int, int]], list[Block] | None]:
    """Shape, hosts, switches, cables as pairs of nodes, and block routes if the switches have
    them.
    """
    shape = rng.choice(["star", "line", "leaf-spine", "dual-homed"])
    by_block = rng.random() < 0.5
    if shape == "star":
        n = rng.randint(2, 8)
        return (
            shape,
            n,
            1,
            [(h, n) for h in range(n)],
            [Block(0, n, 1, 0, 1, 0, 0)] if by_block else None,
        )
    if shape == "line":
        left, right, trunks = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 3)
        n = left + right
        pairs = [(h, n if h < left else n + 1) for h in range(n)] + [(n, n + 1)] * trunks
        blocks = [Block(0, left, 1, 0, 1, left, trunks), Block(left, n, 1, 0, 1, right, trunks)]
        return shape, n, 2, pairs, blocks if by_block else None
    if shape == "leaf-spine":
        leaves, spines, parallel = rng.randint(2, 3), rng.randint(1, 3), rng.randint(1, 2)
        each = rng.randint(1, 2 if leaves == 3 else 4)
        n = leaves * each
        pairs = [(h, n + h // each) for h in range(n)]
        pairs += [
            (n + leaf, n + leaves + spine)
            for leaf in range(leaves)
            for spine in range(spines)
            for _ in range(parallel)
        ]
        blocks = [
            Block(leaf * each, (leaf + 1) * each, 1, 0, 1, each, spines * parallel)
            for leaf in range(leaves)
        ]
        blocks += [Block(0, n, each, 0, parallel, 0, 0) for _ in range(spines)]
        return shape, n, leaves + spines, pairs, blocks if by_block else None
    n = rng.randint(2, 5)
    pairs = [(h, n + s) for h in range(n) for s in range(2)] + [(n, n + 1)]
    return shape, n, 2, pairs, None


def _settings(rng: random.Random) -> dict[str, Any]:
    """Everything that hosts and switches can be told."""
    kmin_bytes = rng.choice([NO_LIMIT, 0, 5_000, 10_000])
    kmax_bytes = (
        kmin_bytes if kmin_bytes == NO_LIMIT else kmin_bytes + rng.choice([0, 8_000, 30_000])
    )
    settings = {
        "seed": rng.randint(0, 2**31),
        "ties": rng.choice([TIES_DRAW, TIES_DRAW, TIES_PORT]),
        "path": rng.choice([PATH_ECMP, PATH_SPRAY]),
        "recovery": rng.choice([RECOVERY_GBN, RECOVERY_SR]),
        "mtu_bytes": rng.choice([256, 1024, 1500, 4096]),
        "ack_every": rng.randint(1, 4),
        "rto_ps": rng.choice([rng.randint(25 * US, 150 * US), rng.randint(4 * US, 20 * US)]),
        "max_retries": rng.choice([0, 2, 7, 50]),
        "sr_window_packets": rng.choice([64, 128]),
        "sr_reorder_packets": rng.choice([1, 3, 16]),
        "linger_ps": rng.randint(5 * US, 500 * US),
        "cnp_interval_ps": rng.choice([0, 1 * US, 4 * US]),
        "cnp_class": rng.choice([3, 6]),
        "switch_latency_ps": rng.randint(0, 700_000),
        "nic_latency_ps": rng.randint(0, 700_000),
        "switch_pause_latency_ps": rng.randint(0, 700_000),
        "nic_pause_latency_ps": rng.randint(0, 700_000),
        "shared_bytes": rng.choice([rng.randint(9_000, 30_000), rng.randint(9_000, 90_000)]),
        "alpha": rng.choice([0.125, 0.5, 1.0, 2.0]),
        "reserved_bytes": rng.choice([0, 0, 1_500, 5_000]),
        "headroom_bytes": rng.choice([0, 4_000, 40_000, 200_000]),
        "lossless_classes": tuple(c for c in CLASSES if rng.random() < 0.5),
        "xon_offset_bytes": rng.choice([0, 1_000, 3_000]),
        "kmin_bytes": kmin_bytes,
        "kmax_bytes": kmax_bytes,
        "pmax": rng.choice([0.1, 0.5, 1.0]),
    }
    if settings["linger_ps"] % 4 == 0:
        settings["linger_ps"] = 0  # which counts as L
    return settings


def _buffers(case_seed: int) -> dict[str, Any]:
    """In three of four cases cells, common headroom, thresholds of each class, classes in turn."""
    rng = random.Random(f"emunet twin buffers {case_seed}")
    if case_seed % 4 == 0:
        return {}

    def static() -> list[int]:
        return [rng.choice([DYNAMIC, NO_LIMIT, rng.randint(9_000, 60_000)]) for _ in range(8)]

    def alpha() -> list[float]:
        return [rng.choice([0.25, 1.0, 4.0]) for _ in range(8)]

    return {
        "cell_bytes": rng.choice([1, 1, 208, 254]),
        "headroom_pool_bytes": rng.choice([NO_LIMIT, 5_000, 12_000]),
        "by_class": {
            "switch_group_limit_bytes": static(),
            "switch_group_alpha": alpha(),
            "switch_queue_limit_bytes": static(),
            "switch_queue_alpha": alpha(),
            "switch_quantum_bytes": [rng.choice([0, 700, 5_000, 12_000]) for _ in range(8)],
        },
    }


def _losses(case_seed: int) -> dict[str, Any]:
    """In one of three cases links that lose frames, by themselves, in bursts, for a time."""
    rng = random.Random(f"emunet twin losses {case_seed}")
    if case_seed % 3:
        return {}
    n = 5
    return {
        "losses": {
            "port_loss_start_ps": [rng.choice([0, 0, 20 * US]) for _ in range(n)],
            "port_loss_end_ps": [rng.choice([0, 60 * US, NO_LIMIT]) for _ in range(n)],
            "port_loss": [[rng.choice([0.0, 0.02]), rng.choice([0.5, 1.0])] for _ in range(n)],
            "port_loss_change": [[rng.choice([0.0, 0.05]), 0.4] for _ in range(n)],
            "port_bit_error": [rng.choice([0.0, 1e-6]) for _ in range(n)],
        }
    }


def _marks(case_seed: int) -> dict[str, Any]:
    """In two of three cases other moments of marking, and classes that are not the hosts'."""
    rng = random.Random(f"emunet twin marks {case_seed}")
    if case_seed % 3 == 2:
        return {}
    tmin_ps = rng.choice([0, 1 * US, 5 * US])
    return {
        "class_of": rng.choice([range(8), [0, 1, 2, 5, 4, 3, 6, 7], [3] * 8]),
        "mark_when": [rng.randrange(3) for _ in range(7)],
        "tmin_ps": tmin_ps,
        "tmax_ps": tmin_ps + rng.choice([0, 3 * US, 20 * US]),
    }


def _watchdogs(case_seed: int) -> dict[str, Any]:
    """In one of three cases watchdogs that are quick to bite."""
    rng = random.Random(f"emunet twin watchdogs {case_seed}")
    if case_seed % 3 != 1:
        return {}
    return {
        "watchdog_detect_ps": rng.choice([1, 100_000, 500_000, 2 * US]),
        "watchdog_restore_ps": rng.choice([1, 700_000, 5 * US, 40 * US]),
        "watchdog_forward": rng.choice([0, 0, 1]),
    }


def _policy(rng: random.Random) -> Any:
    """A policy that both engines can run."""
    kind = rng.choice(["none", "reactive", "reactive", "dcqcn"])
    if kind == "none":
        return None
    if kind == "dcqcn":
        return load("congestion", "dcqcn", rng.choice(["paper", "alibaba_window"]))
    params = {
        "floor": rng.choice([0.0, 0.02, 0.1]),
        "first": rng.choice([0.3, 1.0]),
        "window_bdp": rng.choice([0.5, 2.0, 50.0]),
    }
    return load("congestion", REACTIVE, None, params)


def _messages(rng: random.Random, n_host: int) -> list[Message]:
    """A few dozen messages, some at the same instants, to few receivers."""
    targets = [rng.randrange(n_host) for _ in range(rng.randint(1, 3))]
    starts = [0, 0, rng.randint(0, 20 * US), rng.randint(0, 60 * US)]
    left_bytes = 400_000
    messages: list[Message] = []
    while left_bytes > 0 and len(messages) < 40:
        dst = rng.choice(targets)
        src = rng.choice([h for h in range(n_host) if h != dst])
        size = rng.choice([1, 300, 4096, 4097, rng.randint(1, 20_000), rng.randint(1, 200_000)])
        left_bytes -= size
        start = rng.choice([*starts, rng.randint(0, 60 * US)])
        messages.append(
            Message(src, dst, size, start, rng.choice(CLASSES), rng.randint(US, 20 * US))
        )
    return messages
