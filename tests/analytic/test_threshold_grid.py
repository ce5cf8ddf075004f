"""Where saturated queues settle under a dynamic threshold, over alpha and the number of queues."""

from __future__ import annotations

import numpy as np
import pytest
from support.fabric import LOSSY, plan_of, spokes
from support.oracle import FULL, GBPS, US
from support.run import Message, run

from emunet._core import rows as R

pytestmark = pytest.mark.checked

POOL = 4_000_000
SETTLE, END = 200 * US, 260 * US


@pytest.mark.parametrize("n_queue", [1, 2, 5, 15])
@pytest.mark.parametrize("alpha", [1 / 16, 1 / 4, 1.0, 3.0, 8.0])
def test_queues_settle_at_their_share_of_the_pool(alpha: float, n_queue: int) -> None:
    """K16 (Choudhury and Hahne 1998): k saturated queues hold alpha B / (1 + k alpha) each.

    Senders of 400G to receivers of 100G refill a queue before the next frame leaves it, so a queue
    is at its peak p once in every frame time, and never below p - b. A packet that was admitted to
    a queue at its peak found p <= alpha (B - U + b), and the other queues within a frame of their
    peaks, U >= k p - (k - 1) b: so p <= (alpha B + k b alpha) / (1 + k alpha). One that was refused
    found p + b > alpha (B - U) with U <= k p: so p > (alpha B - b) / (1 + k alpha). (The integer
    part of the threshold takes a byte.) The mean of the peaks over time and queues obeys the same.
    """
    plan = plan_of(
        spokes([400 * GBPS] * n_queue + [100 * GBPS] * n_queue), LOSSY,
        alpha=alpha, buffer_bytes=POOL,
    )  # fmt: skip
    messages = [Message(i, n_queue + i, 10**9) for i in range(n_queue)]
    log = (1 << R.EVENT_DEPART, -1, 1 << 32)
    result = run(plan, messages, until_ps=END, expect=R.UNTIL, event_filter=log)
    rows = result.select(node=2 * n_queue, packet=R.PACKET_DATA)
    rows = rows[rows["time_ps"] > SETTLE]
    means = []
    for queue in range(n_queue):
        # a departure is looked at after the frame ahead has left: one frame below the peak
        peaks = rows[rows["port"] == n_queue + queue]["occupancy"] + FULL
        assert len(peaks) > 170
        means.append(float(peaks.mean()))
    settled = alpha * POOL / (1 + n_queue * alpha)
    off = float(np.mean(means)) - settled
    assert -(FULL + 1) / (1 + n_queue * alpha) <= off, off
    assert off <= FULL * n_queue * alpha / (1 + n_queue * alpha), off
    # what one queue more would settle at is out of these bounds
    other = alpha * POOL / (1 + (n_queue + 1) * alpha)
    assert settled - other > (FULL + 1) / (1 + n_queue * alpha)
