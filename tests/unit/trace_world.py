"""A small fabric and made-up engine output for the tests of trace, analysis and report.

Hosts 0 to 3, leaves 4 and 5, spine 6. Ports: 0 to 3 of the hosts; leaf 4 has 4, 5 (down), 6 (up);
leaf 5 has 7, 8 (down), 9 (up); the spine has 10, 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from emunet._core import rows
from emunet.plan.schema import ARRAYS, DYNAMIC, N_CLASS, NO_LIMIT, SCALARS, Plan, make_plan
from emunet.trace.recorder import Recorder, WatermarkTimes

N_HOST, N_SWITCH, N_PORT = 4, 3, 12
NAMES = ["h0", "h1", "h2", "h3", "leaf0", "leaf1", "spine0"]
ENGINE = {
    "now_ps": 50_000_000,
    "wall_s": 2.0,
    "cpu_s": 1.6,
    "threads": 2,
    "peak_rss_bytes": 123_456_789,
    "high_water": {"packets": 77},
}
META = {
    "version": "0.1.0",
    "name": "made-up",
    "machine": {"cpus": 2, "processor": "x"},
    "build": {"openmp": True},
}


def make_world_plan() -> Plan:
    """A plan whose arrays have the right shapes; those that trace and analysis read have sensible
    values."""
    size = {
        "n_node": 7,
        "n_node + 1": 8,
        "n_host": 4,
        "n_port": N_PORT,
        "n_port + 1": N_PORT + 1,
        "n_down": 0,
        "n_change": 0,
        "n_switch": N_SWITCH,
        "n_table * n_rack": 0,
        "n_set + 1": 1,
        "n_set_port": 0,
        "n_cc_param_byte": 16,
    }
    arrays = {
        a.name: np.zeros([size[n] if isinstance(n, str) else n for n in a.shape], a.dtype)
        for a in ARRAYS
    }
    arrays["node_port_start"][:] = [0, 1, 2, 3, 4, 7, 10, 12]
    arrays["port_node"][:] = [0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 6, 6]
    arrays["port_peer"][:] = [4, 5, 7, 8, 0, 1, 10, 2, 3, 11, 6, 9]
    arrays["port_rate_bps"][:] = 400_000_000_000
    arrays["port_last_hop"][[4, 5, 7, 8]] = 1
    arrays["port_ecn_kmin_bytes"][:] = 400_000
    arrays["port_ecn_kmax_bytes"][:] = 1_600_000
    arrays["port_headroom_bytes"][:] = 110_000
    arrays["switch_buffer_bytes"][:] = 32_000_000
    arrays["switch_shared_bytes"][:] = 31_000_000
    arrays["switch_cell_bytes"][:] = 1
    arrays["switch_headroom_bytes"][:] = 400_000
    arrays["switch_group_alpha"][:] = 0.125
    arrays["switch_group_limit_bytes"][:] = DYNAMIC
    arrays["switch_queue_limit_bytes"][:] = NO_LIMIT
    arrays["switch_lossless"][:] = 1 << 3
    scalars: dict[str, Any] = {s.name: "dcqcn" if s.kind is str else 1 for s in SCALARS}
    scalars |= {"n_host": N_HOST, "n_node": 7, "n_port": N_PORT, "mtu_bytes": 4096, "seed": 42}
    return make_plan(arrays, scalars, NAMES, congestion_digest="c0ffee")


@dataclass
class World:
    """Messages and engine output of one made-up run."""

    messages: dict[str, np.ndarray]
    base_rtt_ps: np.ndarray
    ideal_fct_ps: np.ndarray
    drained: dict[str, np.ndarray]
    ports: dict[str, np.ndarray]
    switches: dict[str, np.ndarray]
    totals: dict[str, int]
    unfinished: np.ndarray
    watermarks: np.ndarray

    @property
    def n_flow(self) -> int:
        return len(self.base_rtt_ps)


def make_world(n_flow: int = 50, seed: int = 1, n_row: int = 300) -> World:
    """A run of which flow 3 is given up, flow 5 is delivered but not acknowledged, and flow 7
    gets nowhere."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, 20_000_000, n_flow))
    src = rng.integers(0, N_HOST, n_flow)
    messages = {
        "src": src.astype(np.int32),
        "dst": ((src + 1) % N_HOST).astype(np.int32),
        "size_bytes": rng.choice([1000, 64_000, 2_000_000, 5_000_000_000], n_flow),
        "start_ps": start,
        "klass": np.full(n_flow, 3, np.uint8),
        "background": rng.random(n_flow) < 0.1,
        "tag": rng.integers(0, 2, n_flow).astype(np.int32),
    }
    ideal = rng.integers(1_000_000, 5_000_000, n_flow)
    return World(
        messages,
        np.full(n_flow, 8_000_000),
        ideal,
        {
            "flows": _flow_rows(rng, start, ideal, messages),
            "events": _event_rows(rng, n_row, n_flow),
            "queues": _queue_rows(rng, n_row),
            "pfc": _pfc_rows(rng, n_row // 10),
            "periodic": _periodic_rows(np.random.default_rng(seed + 1)),
        },
        *_counters(rng),
        _unfinished(messages),
        _watermarks(np.random.default_rng(seed + 2)),
    )


def _flow_rows(
    rng: np.random.Generator, start: np.ndarray, ideal: np.ndarray, messages: Any
) -> np.ndarray:
    n = len(start)
    rx = np.zeros(n, rows.FLOW_ROW)
    rx["flow"], rx["kind"], rx["node"] = np.arange(n), rows.FLOW_RX_DONE, messages["dst"]
    rx["time_ps"] = start + (ideal * rng.uniform(1, 6, n)).astype(np.int64)
    for name in ("marked", "out_of_order", "duplicates"):
        rx[name] = rng.integers(0, 100, n)
    tx = rx.copy()
    tx["kind"], tx["node"] = rows.FLOW_TX_DONE, messages["src"]
    tx["time_ps"] += 2_000_000
    for name in ("retransmitted", "timeouts", "nacks", "cnps"):
        tx[name] = rng.integers(0, 9, n)
    if n > 7:
        tx["kind"][3] = rows.FLOW_FAILED
    keep_rx, keep_tx = ~np.isin(rx["flow"], [3, 7]), ~np.isin(tx["flow"], [5, 7])
    both = np.concatenate([rx[keep_rx], tx[keep_tx]])
    return both[np.argsort(both["time_ps"], kind="stable")]


def _event_rows(rng: np.random.Generator, n: int, n_flow: int) -> np.ndarray:
    e = np.zeros(n, rows.EVENT_ROW)
    e["time_ps"] = np.sort(rng.integers(0, 40_000_000, n))
    e["flow"], e["occupancy"] = rng.integers(0, n_flow, n), rng.integers(0, 10**10, n)
    e["node"], e["port"], e["psn"] = (
        rng.integers(0, 7, n),
        rng.integers(0, 3, n),
        rng.integers(0, 1 << 24, n),
    )
    e["bytes"], e["kind"], e["packet"] = (
        rng.integers(64, 4200, n),
        rng.integers(0, 8, n),
        rng.integers(0, 5, n),
    )
    e["klass"], e["flags"] = 3, rng.integers(0, 8, n)
    return e


def _queue_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    q = np.zeros(n, rows.QUEUE_ROW)
    q["time_ps"] = np.sort(rng.integers(0, 40, n)) * 1_000_000
    q["port"], q["queue_bytes"] = rng.integers(4, N_PORT, n), rng.integers(0, 2_000_000, n)
    return q[np.lexsort((q["port"], q["time_ps"]))]


def _pfc_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    p = np.zeros(n, rows.PFC_ROW)
    p["time_ps"] = np.sort(rng.integers(0, 40_000_000, n))
    p["port"], p["klass"], p["on"] = rng.integers(4, N_PORT, n), 3, np.arange(n) % 2
    return p


def _objects() -> np.ndarray:
    """Queues and groups of all switch ports in class 3, and all pools, in their order."""
    places = [
        (what, 4 + (port - 4) // 3, port, 3)
        for what in (rows.QUEUE, rows.PG_SHARED, rows.PG_HEADROOM)
        for port in range(4, N_PORT)
    ]
    places += [(what, n, -1, -1) for what in (rows.POOL_SHARED, rows.POOL_HEADROOM)
               for n in (4, 5, 6)]  # fmt: skip
    return np.array(places, [(name, "i4") for name in rows.WATERMARK_ORDER])


def _watermarks(rng: np.random.Generator) -> np.ndarray:
    places = _objects()
    w = np.zeros(len(places), rows.WATERMARK_ROW)
    for name in rows.WATERMARK_ORDER:
        w[name] = places[name]
    w["watermark_bytes"] = rng.integers(1, 100_000, len(w))
    w["user_bytes"], w["persistent_bytes"] = w["watermark_bytes"] // 2, w["watermark_bytes"]
    w["p99_bytes"], w["byte_ps"] = w["watermark_bytes"] // 3, w["watermark_bytes"] * 1e7
    return w


def _periodic_rows(rng: np.random.Generator) -> np.ndarray:
    """Of four intervals of 10 us, some objects each."""
    places = _objects()
    parts = []
    for end_ps in range(10_000_000, 50_000_000, 10_000_000):
        mine = places[rng.random(len(places)) < 0.7]
        part = np.zeros(len(mine), rows.PERIODIC_ROW)
        for name in rows.WATERMARK_ORDER:
            part[name] = mine[name]
        part["time_ps"], part["watermark_bytes"] = end_ps, rng.integers(1, 90_000, len(mine))
        parts.append(part)
    return np.concatenate(parts)


def _counters(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    ports = {name: rng.integers(0, 1_000_000, N_PORT) for name in rows.PORT_COUNTERS}
    ports |= {name: rng.integers(0, 90_000, (N_PORT, N_CLASS)) for name in rows.CLASS_COUNTERS}
    ports["queue_byte_ps"] = rng.uniform(0, 1e12, N_PORT)
    switches = {name: rng.integers(0, 30_000_000, N_SWITCH) for name in rows.SWITCH_COUNTERS}
    totals = {name: int(rng.integers(1, 1_000_000)) for name in rows.TOTALS}
    return ports, switches, totals


def _unfinished(messages: dict[str, np.ndarray]) -> np.ndarray:
    flows = [f for f in (3, 5, 7) if f < len(messages["src"])]
    u = np.zeros(len(flows), rows.UNFINISHED_ROW)
    for i, (flow, wait) in enumerate(
        zip(flows, (rows.WAIT_FAILED, rows.WAIT_ACK_LOST, rows.WAIT_PAUSED), strict=False)
    ):
        size = int(messages["size_bytes"][flow])
        u[i] = (
            flow,
            60_000_000 if flow == 5 else -1,
            size // 2 if flow == 7 else 0,
            size,
            messages["src"][flow],
            messages["dst"][flow],
            6 if flow == 7 else -1,
            wait,
        )
    return u


def begin(recorder: Recorder, **options: Any) -> None:
    """Declare all outputs."""
    given = {
        "queues_every_ps": 1_000_000,
        "packets": True,
        "watermarks": WatermarkTimes(1_000_000, 10_000_000, [7_000_000, 60_000_000]),
        **options,
    }
    recorder.begin(
        make_world_plan(), "name: made-up\nseed: 42\n", META, ["poisson", "incast"], **given
    )


def feed(
    recorder: Recorder,
    world: World,
    message_cuts: Sequence[int] = (),
    time_cuts_ps: Sequence[int] = (),
) -> None:
    """Hand on messages and rows, the messages cut at numbers and the rows at times."""
    edges = [0, *message_cuts, world.n_flow]
    for first, stop in pairwise(edges):
        piece = {name: column[first:stop] for name, column in world.messages.items()}
        recorder.append_messages(
            first, piece, world.base_rtt_ps[first:stop], world.ideal_fct_ps[first:stop]
        )
    before = -1
    for cut in [*time_cuts_ps, 1 << 62]:
        recorder.append_rows(
            {
                key: r[(r["time_ps"] > before) & (r["time_ps"] <= cut)]
                for key, r in world.drained.items()
            }
        )
        before = cut


def finish(
    recorder: Recorder, world: World, *, complete: bool = True, reason: str = "done"
) -> list[str]:
    """Close the books."""
    return recorder.finish(
        world.ports,
        world.switches,
        world.totals,
        ENGINE,
        complete=complete,
        reason=reason,
        unfinished=world.unfinished,
        watermarks=world.watermarks,
    )


def record(recorder: Recorder, world: World, **cuts: Any) -> Recorder:
    """A whole run in one call."""
    with recorder:  # type: ignore[attr-defined]
        begin(recorder)
        feed(recorder, world, **cuts)
        finish(recorder, world)
    return recorder


def expected_flows(world: World) -> dict[str, np.ndarray]:
    """The result columns of `/flows`, message by message, straight from the rows."""
    n = world.n_flow
    at_receiver = ("marked", "out_of_order", "duplicates")
    at_sender = ("retransmitted", "timeouts", "nacks", "cnps")
    found = {name: np.full(n, -1) for name in ("fct_rx_ps", "fct_ack_ps", *at_receiver, *at_sender)}
    failed = np.zeros(n, bool)
    for row in world.drained["flows"]:
        flow, fct = row["flow"], row["time_ps"] - world.messages["start_ps"][row["flow"]]
        if row["kind"] == rows.FLOW_RX_DONE:
            found["fct_rx_ps"][flow] = fct
        elif row["kind"] == rows.FLOW_TX_DONE:
            found["fct_ack_ps"][flow] = fct
        failed[flow] |= row["kind"] == rows.FLOW_FAILED
        for name in at_receiver if row["kind"] == rows.FLOW_RX_DONE else at_sender:
            found[name][flow] = row[name]
    status = np.zeros(n, int)
    status[found["fct_rx_ps"] >= 0] = 1
    status[found["fct_ack_ps"] >= 0] = 2
    status[failed] = 3
    return {**found, "status": status}
