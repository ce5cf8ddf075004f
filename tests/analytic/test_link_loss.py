"""Links that lose frames, in the long run as often and in as long runs as they say."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from support.fabric import BARE, spokes
from support.oracle import ACK, FULL, GBPS, MTU, US
from support.run import Message, Result, run

from emunet._core import rows as R
from emunet.plan.compile import compile_scenario, compile_topology
from emunet.scenario import LinkChange, parse_scenario

pytestmark = pytest.mark.checked

LOG = (1 << R.EVENT_DEPART | 1 << R.EVENT_LOST, -1, 1 << 32)
PACKETS = 20_000


def lossy(n_packet: int = PACKETS, **link: Any) -> Result:
    """One message from host 0 to host 1; the link from the switch to host 1 is changed.

    Selective repeat without a limit on retries: every packet is sent until it has arrived.
    """
    change = LinkChange(**{"from": "switch0", "to": "host1", "one_way": True, **link})
    plan = compile_topology(
        spokes([400 * GBPS] * 2), BARE, links=[change], recovery="sr", rto_ps=50 * US,
        max_retries=1000, seed=7,
    ).plan  # fmt: skip
    return run(plan, [Message(0, 1, n_packet * MTU)], event_filter=LOG)


def fates(result: Result, node: int = 2, port: int = 1) -> np.ndarray:
    """Of each frame that left a port, in order: whether it was lost."""
    sent = result.select(kind=R.EVENT_DEPART, node=node, port=port)["time_ps"]
    gone = result.select(kind=R.EVENT_LOST, node=node, port=port)["time_ps"]
    return np.isin(sent, gone)


@pytest.mark.parametrize("loss", [1e-3, 0.02, 0.3])
def test_frames_are_lost_by_themselves(loss: float) -> None:
    """Bernoulli: of n frames p n are lost within 4 sigma, and pairs in a row as often as p says."""
    lost = fates(lossy(loss=loss))
    n = len(lost)
    assert abs(lost.sum() - n * loss) < 4 * sqrt(n * loss * (1 - loss))
    pairs, p2 = (lost[1:] & lost[:-1]).sum(), loss * loss
    # neighbouring pairs share a frame, which at most triples the variance
    assert abs(pairs - n * p2) < 4 * sqrt(3 * n * p2) + 1


@pytest.mark.parametrize(("loss", "burst"), [(0.02, 5), (0.1, 2), (0.01, 20)])
def test_bursts_are_as_long_as_they_say(loss: float, burst: float) -> None:
    """Gilbert 1960: runs of lost frames are geometric with mean B, hence B (B - 1) is the variance
    of one; their number is n (p / B), less variable than that of independent events.
    """
    lost = fates(lossy(loss=loss, burst=burst, n_packet=60_000))
    edges = np.diff(np.concatenate(([0], lost.astype(int), [0])))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    runs = len(lengths)
    assert abs(lengths.mean() - burst) < 4 * sqrt(burst * (burst - 1) / runs)
    assert abs(runs - len(lost) * loss / burst) < 4 * sqrt(len(lost) * loss / burst)


def test_bad_times_may_lose_only_a_part() -> None:
    """Elliott 1963: with half of the frames of a bad time lost, the share of all is still `loss`.

    A run of L frames in a bad time adds variance to the count: at most 2 B times that of
    independent losses.
    """
    lost = fates(lossy(loss=0.05, burst=10, bad_loss=0.5, n_packet=60_000))
    n = len(lost)
    assert abs(lost.sum() - n * 0.05) < 4 * sqrt(2 * 10 * n * 0.05)
    # a frame after a lost one is lost with bad_loss (1 - 1 / B), or with `loss` if by chance
    again = lost[1:][lost[:-1]].mean()
    assert abs(again - 0.5 * 0.9) < 4 * sqrt(0.25 / lost.sum()) + 0.05 * 0.1


def test_bit_errors_hit_long_frames() -> None:
    """A frame of b bytes survives with (1 - e)^(8 b): 4158 bytes and 66 at e = 1e-6."""
    change = LinkChange(**{"from": "switch0", "to": "host*", "bit_errors": 1e-6})
    plan = compile_topology(
        spokes([400 * GBPS] * 2), BARE, links=[change], recovery="sr", rto_ps=50 * US, seed=3,
        max_retries=1000,
    ).plan  # fmt: skip
    result = run(plan, [Message(0, 1, PACKETS * MTU)], event_filter=LOG)
    for node, port, frame in ((2, 1, FULL), (2, 0, ACK)):
        lost = fates(result, node, port)
        p = 1 - (1 - 1e-6) ** (8 * frame)
        assert abs(lost.sum() - len(lost) * p) < 4 * sqrt(len(lost) * p) + 1, frame
    assert fates(result, 0, 0).sum() > 0    # both ways, unless one_way


def test_losses_begin_and_end_on_time() -> None:
    """docs/scenario.md: exactly the frames that start within [start, end) are exposed."""
    result = lossy(400, loss=1.0, start="10us", end="12us")
    sent = result.select(kind=R.EVENT_DEPART, node=2, port=1)["time_ps"]
    lost = fates(result)
    exposed = (sent >= 10 * US) & (sent < 12 * US)
    assert (lost == exposed).all() and 20 < lost.sum() < 30
    assert result.totals["lost_packets"] == lost.sum() == result.ports["lost_packets"][3]
    assert result.ports["lost_bytes"][3] == lost.sum() * FULL
    assert result.totals["flows_finished"] == 1


def test_lost_pause_frames_are_missed() -> None:
    """Why PFC needs links that do not lose: with every frame from the switch to its sender lost,
    XOFF does not come, headroom overflows and a lossless class drops; with none lost it does not.
    """
    drops = {}
    for loss in (0.0, 1.0):
        change = LinkChange(**{"from": "switch0", "to": "host0", "one_way": True, "loss": loss})
        plan = compile_topology(
            spokes([400 * GBPS, 100 * GBPS]), BARE, links=[change], buffer_bytes=600_000
        ).plan
        result = run(plan, [Message(0, 1, 1000 * MTU)], until_ps=60 * US, expect=R.UNTIL)
        drops[loss] = result.totals["dropped_lossless_packets"]
        assert (result.ports["lost_pauses"].sum() > 0) == (loss > 0)
        assert (result.ports["pause_rx"].sum() > 0) == (loss == 0)
    assert drops[0.0] == 0 and drops[1.0] > 0


LEAVES = "topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 400Gbps}\n"
SLOW = LEAVES + "links: [{from: leaf0, to: spine0, rate: 100Gbps, one_way: true}]\n"


def test_a_degraded_uplink_is_slow_one_way() -> None:
    """One rate is changed and nothing else; the ideal is that of the best path, which avoids it."""
    plan, whole = (compile_scenario(parse_scenario(text)) for text in (SLOW, LEAVES))
    differs = np.flatnonzero(plan.topology.port_rate_bps != whole.topology.port_rate_bps)
    assert [plan.topology.link_name(p) for p in differs] == ["leaf0 -> spine0"]
    size, pair = np.array([10**6]), (np.array([0]), np.array([2]))
    assert plan.paths.ideal_fct_ps(*pair, size) == whole.paths.ideal_fct_ps(*pair, size)
    ways = {tuple(link.rate_bps // GBPS for link in way) for way in plan.paths.ways(0, 2)}
    assert ways == {(400, 400, 400, 400), (400, 100, 400, 400)}
