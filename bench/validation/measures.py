"""What a run of a validation scenario is asked for. Times in us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

US = 1e6
"""Picoseconds."""


def done_us(run: Any) -> Any:
    """When each sender has its last ACK: what the other simulators call completion."""
    return run.flows.fct_ack_ps.to_numpy() / US


def last_us(run: Any) -> float:
    """The last message of all."""
    return float(done_us(run).max())


def mean_us(run: Any) -> float:
    """The mean over the messages."""
    return float(done_us(run).mean())


def first_us(run: Any) -> float:
    """The first message that is done."""
    return float(done_us(run).min())


def one_to_zero_us(run: Any) -> float:
    """The message from host 1 to host 0."""
    flows = run.flows
    return float(flows[(flows.src == 1) & (flows.dst == 0)].fct_ack_ps.iloc[0]) / US


def goodput_gbps(run: Any) -> float:
    """Payload from the first delivery to the last, of equal messages."""
    flows = run.flows
    at = flows.start_ps + flows.fct_rx_ps
    bits = 8 * (int(flows.size_bytes.sum()) - int(flows.size_bytes.iloc[0]))
    return bits * 1e3 / float(at.max() - at.min())


def uplink_bytes(run: Any) -> float:
    """Watermark of the fullest port between switches."""
    return float(run.summary["ports"]["fabric"]["watermark_bytes"])


def last_hop_bytes(run: Any) -> float:
    """Watermark of the fullest port to a host."""
    return float(run.summary["ports"]["last_hop"]["watermark_bytes"])


def queue_bytes(run: Any) -> float:
    """Mean of the queues to the receivers over ports and samples, from 200 us on.

    The receivers have the slow ports. A sample that does not differ from the one before leaves no
    row.
    """
    rows = pd.DataFrame(run.columns("samples/queues"))
    rates = run.plan.port_rate_bps[rows["port"]]
    rows = rows[rates == run.plan.port_rate_bps.min()]
    table = rows.pivot_table(index="time_ps", columns="port", values="queue_bytes").ffill()
    return float(table[table.index > 200 * US].to_numpy().mean())


Measure = Callable[[Any], float]
