"""Queues and buffers of a run, fabric and last-hop ports apart, next to their thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from emunet.analysis.percentiles import weighted_percentile
from emunet.plan.schema import N_CLASS, NO_LIMIT
from emunet.trace.schema import QUEUE_TIME
from emunet.trace.tables import FABRIC, LAST_HOP, Tables

Columns = dict[str, np.ndarray]


def port_summary(run: Tables, end_ps: int) -> dict[str, Any]:
    """``{"fabric": {...}, "last_hop": {...}}``: egress bytes and the thresholds of marking.

    `watermark_bytes` is the greatest of all ports, `watermark_port` where; the thresholds are those
    of that port. `queue_mean_bytes` is the mean over the simulated time and over all ports of the
    kind, `queue_p99_bytes` the percentile over the same (of samples); a port that nothing passed
    counts in both, with an empty queue. `queue_mean_greatest_bytes` is the mean over time of the
    port with the greatest.

    Parameters
    ----------
    run : Tables
        A run whose port counters were stored.
    end_ps : int
        Simulated time; means are over it.
    """
    names = ("watermark_bytes", QUEUE_TIME, "marked_packets", "dropped_packets")
    columns = run.columns("ports", *names)
    return {role: _of_role(run, role, columns, end_ps) for role in (FABRIC, LAST_HOP)}


def _of_role(run: Tables, role: str, columns: Columns, end_ps: int) -> dict[str, Any]:
    plan = run.plan
    ports = np.flatnonzero(run.port_roles == role)
    if not len(ports) or not len(columns["watermark_bytes"]):
        return {"ports": len(ports), "watermark_bytes": None}
    watermark = columns["watermark_bytes"][ports]
    worst = ports[int(np.argmax(watermark))]
    mean = columns[QUEUE_TIME][ports] / max(end_ps, 1)
    kmin = int(plan.port_ecn_kmin_bytes[worst])
    return {
        "ports": len(ports),
        "watermark_bytes": int(watermark.max()),
        "watermark_port": run.port_name(worst),
        "ecn_kmin_bytes": None if kmin == NO_LIMIT else kmin,
        "ecn_kmax_bytes": None if kmin == NO_LIMIT else int(plan.port_ecn_kmax_bytes[worst]),
        "queue_mean_bytes": float(mean.mean()),
        "queue_mean_greatest_bytes": float(mean.max()),
        "queue_p99_bytes": _sampled_p99(run, role, ports, end_ps),
        "marked": int(columns["marked_packets"][ports].sum()),
        "dropped_on_arrival": int(columns["dropped_packets"][ports].sum()),
    }


def _sampled_p99(run: Tables, role: str, ports: np.ndarray, end_ps: int) -> int | None:
    """p99 of the sampled queues over ports and time; None if these ports were not sampled."""
    if run.source.attributes("samples/queues").get("ports") not in ("all", role):
        return None
    c = run.columns("samples/queues")
    mine = np.isin(c["port"], ports)
    port, time_ps, queue_bytes = c["port"][mine], c["time_ps"][mine], c["queue_bytes"][mine]
    order = np.lexsort((time_ps, port))
    port, time_ps, queue_bytes = port[order], time_ps[order], queue_bytes[order]
    until = np.append(time_ps[1:], end_ps)[: len(port)]
    until[np.flatnonzero(np.diff(port))] = end_ps
    return weighted_percentile(queue_bytes, np.maximum(until - time_ps, 0), len(ports) * end_ps, 99)


def buffer_summary(run: Tables) -> dict[str, Any]:
    """Fullest lossless ingress group, headroom and pool, with their limits; None if not stored.

    `xoff_bytes` is where a group alone in its buffer would send XOFF: ``reserved + alpha / (1 +
    alpha) * shared``. A fuller pool lowers the threshold; it is never above ``reserved + alpha *
    shared``. A static threshold is itself, if the pool is larger.
    """
    plan = run.plan
    found: dict[str, Any] = {"group": None, "headroom": None, "pool": None}
    c = run.columns("ports", "pg_watermark_bytes", "headroom_watermark_bytes")
    pool = run.columns("switches", "pool_watermark_bytes")["pool_watermark_bytes"]
    if not len(pool) or not len(c["pg_watermark_bytes"]):
        return found
    fullest = int(np.argmax(pool / np.maximum(plan.switch_shared_bytes, 1)))
    found["pool"] = {
        "watermark_bytes": int(pool[fullest]),
        "switch": plan.names[plan.n_host + fullest],
        "shared_bytes": int(plan.switch_shared_bytes[fullest]),
    }
    switch = np.maximum(plan.port_node - plan.n_host, 0)
    lossless = (plan.switch_lossless[switch, None] >> np.arange(N_CLASS)) & 1
    lossless[plan.port_node < plan.n_host] = 0
    if not lossless.any():
        return found
    alpha, static = plan.switch_group_alpha, plan.switch_group_limit_bytes
    shared = plan.switch_shared_bytes[:, None]
    alone = (alpha / (1 + alpha) * shared).astype(np.int64)
    alone = np.where(static >= 0, np.minimum(static, shared), alone)
    xoff = (plan.switch_reserved_bytes + alone)[switch]
    limit = np.broadcast_to(plan.port_headroom_bytes[:, None], xoff.shape)
    for key, used, bound, name in (
        ("group", c["pg_watermark_bytes"], xoff, "xoff_bytes"),
        ("headroom", c["headroom_watermark_bytes"], limit, "limit_bytes"),
    ):
        ratio = np.where(lossless == 1, used / np.maximum(bound, 1), -1.0)
        port, klass = (int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
        found[key] = {
            "watermark_bytes": int(used[port, klass]),
            "port": run.port_name(port),
            "klass": klass,
            name: int(bound[port, klass]),
        }
    return found
