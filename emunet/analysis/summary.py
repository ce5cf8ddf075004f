"""The summary of a run: one JSON object, the same from a file and from memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from emunet.analysis.deadlock import deadlocks
from emunet.analysis.percentiles import spread
from emunet.analysis.queues import buffer_summary, port_summary
from emunet.analysis.sizes import size_bins
from emunet.trace.schema import STATUS_FAILED, STATUS_FINISHED
from emunet.trace.tables import Tables, slowdown

CUT_REASON = "until"
"""A run that ended for this reason has cut messages, not unfinished ones."""

_PACKETS = {
    "hops": "packet_hops",
    "data": "data_packets",
    "ack": "ack_packets",
    "nack": "nack_packets",
    "cnp": "cnp_packets",
    "dropped": "dropped_packets",
    "dropped_lossless": "dropped_lossless_packets",
    "dropped_watchdog": "dropped_watchdog_packets",
    "lost": "lost_packets",
    "down": "down_packets",
    "unrouted": "unrouted_packets",
    "flushed": "flushed_packets",
    "marked": "marked_packets",
    "retransmitted": "retransmitted_packets",
    "out_of_order": "out_of_order_packets",
    "duplicate": "duplicate_packets",
}
_PFC = {"pauses": "pause_frames", "resumes": "resume_frames", "paused_ps": "paused_ps"}


def summary(run: Tables) -> dict[str, Any]:
    """What a run adds up to; every value can be written as JSON, None where the run left nothing.

    Parameters
    ----------
    run : Tables
        From a trace file or from memory.

    Returns
    -------
    dict
        ``flows``: messages. ``total == finished + unfinished + cut + background``: those not
        marked background whose sender has the last ACK; those that have not (`failed` of them
        were given up, and `failed_delivered` of these have arrived all the same); those cut by
        ``until``; those marked background. `total` counts what was submitted: of a run that is
        not complete, messages may be missing that were to start later. A message is `delivered`
        when its receiver has all of it, whatever its sender knows. ``fct_ps`` (receiver's) and
        ``slowdown`` are of all delivered messages that are not background, and of no others;
        ``by_size`` splits them, next to the number of messages (`flows`) and of delivered ones;
        ``by_tag`` splits all delivered messages by workload item. ``packets``, ``pfc``:
        totals (`pauses` are XOFF frames, refreshes included; `paused_ps` is summed over ports and
        classes). ``deadlocks``: see `emunet.analysis.deadlock`. ``ports``, ``buffers``: see
        `emunet.analysis.queues`. ``engine``: speed; ``digest``: of the results.

        Percentiles are values that occurred (`emunet.analysis.percentiles`).
    """
    meta, totals = run.meta, run.totals
    engine = meta.get("engine", {})
    end_ps = int(engine.get("now_ps", 0))
    return {
        "complete": bool(meta.get("complete", False)),
        "reason": meta.get("reason", ""),
        "flows": _flows(run, cut=meta.get("reason") == CUT_REASON),
        "packets": {key: totals.get(name) for key, name in _PACKETS.items()},
        "pfc": {key: totals.get(name) for key, name in _PFC.items()},
        "deadlocks": deadlocks(run),
        "ports": port_summary(run, end_ps),
        "buffers": buffer_summary(run),
        "engine": _engine(engine, totals.get("packet_hops")),
        "warnings": run.warnings,
        "digest": run.digest,
    }


def _flows(run: Tables, cut: bool) -> dict[str, Any]:
    c = run.columns(
        "flows", "size_bytes", "background", "tag", "fct_rx_ps", "ideal_fct_ps", "status"
    )
    background = c["background"] == 1
    front = ~background
    finished = c["status"] == STATUS_FINISHED
    failed = c["status"] == STATUS_FAILED
    open_ended = front & ~finished & ~failed
    n_cut = int(np.count_nonzero(open_ended)) if cut else 0
    delivered = c["fct_rx_ps"] >= 0
    slow = slowdown(c["fct_rx_ps"], c["ideal_fct_ps"])
    chosen = front & delivered
    return {
        "total": len(front),
        "finished": int(np.count_nonzero(front & finished)),
        "unfinished": int(np.count_nonzero(front & ~finished)) - n_cut,
        "failed": int(np.count_nonzero(front & failed)),
        "failed_delivered": int(np.count_nonzero(chosen & failed)),
        "cut": n_cut,
        "background": int(np.count_nonzero(background)),
        "background_finished": int(np.count_nonzero(background & finished)),
        "delivered": int(np.count_nonzero(delivered)),
        "size_bytes": int(c["size_bytes"].sum()),
        "delivered_bytes": int(c["size_bytes"][delivered].sum()),
        "timeouts": run.totals.get("timeouts"),
        **_times(c["fct_rx_ps"][chosen], slow[chosen]),
        "by_size": _by_size(c["size_bytes"], c["fct_rx_ps"], slow, front, delivered),
        "by_tag": _by_tag(run, c["tag"], c["fct_rx_ps"], slow, delivered),
    }


def _times(fct_ps: np.ndarray, slow: np.ndarray) -> dict[str, Any]:
    return {"fct_ps": spread(fct_ps), "slowdown": spread(slow[np.isfinite(slow)])}


def _by_size(
    size: np.ndarray, fct_ps: np.ndarray, slow: np.ndarray, front: np.ndarray, delivered: np.ndarray
) -> list[dict[str, Any]]:
    found = []
    for least, greatest in size_bins(size[front]):
        inside = front & (size >= least) & (size <= greatest)
        chosen = inside & delivered
        found.append(
            {
                "least_bytes": least,
                "greatest_bytes": greatest,
                "flows": int(np.count_nonzero(inside)),
                "delivered": int(np.count_nonzero(chosen)),
                "size_bytes": int(size[inside].sum()),
                **_times(fct_ps[chosen], slow[chosen]),
            }
        )
    return found


def _by_tag(
    run: Tables, tag: np.ndarray, fct_ps: np.ndarray, slow: np.ndarray, delivered: np.ndarray
) -> list[dict[str, Any]]:
    found = []
    for number, name in enumerate(run.tags):
        inside = tag == number
        chosen = inside & delivered
        found.append(
            {
                "tag": name,
                "flows": int(np.count_nonzero(inside)),
                "delivered": int(np.count_nonzero(chosen)),
                **_times(fct_ps[chosen], slow[chosen]),
            }
        )
    return found


def _engine(engine: dict[str, Any], hops: int | None) -> dict[str, Any]:
    cpu_s = engine.get("cpu_s")
    return {
        "wall_s": engine.get("wall_s"),
        "cpu_s": cpu_s,
        "packet_hops_per_cpu_s": hops / cpu_s if hops is not None and cpu_s else None,
        "threads": engine.get("threads"),
        "peak_rss_bytes": engine.get("peak_rss_bytes"),
        "simulated_ps": engine.get("now_ps"),
    }
