"""How long an XOFF lasts where the two directions of a cable have different rates."""

from __future__ import annotations

import pytest
from support.fabric import plan_of
from support.oracle import GBPS, MTU, PAUSE, US, gaps, pause_ps, slot_ps
from support.run import Message, run

from emunet._core import rows as R
from emunet.topology.explicit import Cable, explicit

pytestmark = pytest.mark.checked

HEADROOM = 300_000


@pytest.mark.parametrize(("up_gbps", "down_gbps"), [(400, 100), (100, 400), (100, 100)])
def test_the_quantum_is_that_of_the_port_that_sends(up_gbps: int, down_gbps: int) -> None:
    """IEEE 802.3 annex 31B, semantics 3.4: 65,535 quanta of 512 bit times of the frame's own link.

    The host sends at one rate and is paused over a link of another. XOFF decided at t is on that
    link for 84 slot bytes, and the class is paused for 65,535 * 512 of its bit times; the frame is
    repeated every half of that. The group stays in XOFF: its receiver has 10 Mb/s.
    """
    up, down = up_gbps * GBPS, down_gbps * GBPS
    cables = [Cable(0, 2, up, US, down), Cable(1, 2, GBPS // 100, US)]
    plan = plan_of(
        explicit(["a", "b"], ["s"], cables),
        buffer_bytes=60_000 + 2 * HEADROOM,
        headroom_bytes=HEADROOM,
        alpha=1.0,
    )
    assert plan.port_rate_bps[[0, 2]].tolist() == [up, down]
    # more packets than fit below the threshold and in what is under way after it
    messages = [Message(0, 1, 90 * MTU)]
    lasts = pause_ps(down)
    xoff = run(plan, messages, until_ps=100 * US, expect=R.UNTIL).times(kind=R.EVENT_PAUSE_TX)[0]
    acts = xoff + slot_ps(PAUSE, down) + US
    result = run(plan, messages, until_ps=acts + 1, expect=R.UNTIL)
    (row,) = result.unfinished
    assert (row["wait"], row["until_ps"]) == (R.WAIT_PAUSED, acts + lasts)
    result = run(plan, messages, until_ps=xoff + 3 * lasts, expect=R.UNTIL)
    decided = result.times(kind=R.EVENT_PAUSE_TX)
    assert decided[:2] == [xoff, xoff + lasts // 2] and set(gaps(decided)) == {lasts // 2}
    # repeated in time, so it never runs out
    assert result.times(node=0, kind=R.EVENT_RESUME_RX) == []
    assert int(result.ports["paused_ps"][0]) == result.now_ps - acts
