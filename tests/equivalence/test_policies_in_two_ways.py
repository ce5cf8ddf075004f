"""One policy text, two ways to run it: compiled for the native engine, plain in the twin."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.mix import digests

import emunet as api

pytestmark = pytest.mark.checked

SCENARIO: dict[str, Any] = {
    "seed": 7,
    "topology": {
        "kind": "dumbbell", "left": 4, "right": 2, "rate": "100Gbps", "bottleneck": "40Gbps",
    },
    "switch": {"buffer": "600KB", "ecn": {"kmin": "5KB", "kmax": "40KB", "pmax": 0.5}},
    "workload": [
        {"incast": {"fan_in": 4, "receiver": 4, "size": "600KB"}},
        {"incast": {"fan_in": 3, "receiver": 5, "size": "300KB", "start": "20us"}},
    ],
    "record": {"packets": True, "queues": {"every": "2us"}},
}  # fmt: skip

USERS = '''
"""Gentle: half the rate on a CNP, an eighth more every 10 us, a window of four packets on loss.

Source: none; a user's own file.
"""

import math

import numpy as np
from emunet.plugin import Param

PARAMS = (Param("step", 0.125, "", 0.0, 1.0, "part of the line rate added in a period"),)
STATE = np.dtype([("cnps", "i8"), ("smooth_ps", "f8"), ("seen", "f8", (2,))], align=True)
CLAIMS = ("the rate stays at or below line rate",)


def start(ctx, params, state, out):
    out.rate_bps = ctx.line_rate_bps * 0.9
    out.timer_ps[2] = 10_000_000


def ack(ctx, params, state, out):
    state.smooth_ps += (ctx.rtt_ps - state.smooth_ps) / 8
    state.seen[ctx.marked] = math.sqrt(state.seen[ctx.marked] + ctx.acked_bytes)


def cnp(ctx, params, state, out):
    state.cnps += 1
    out.rate_bps = max(ctx.rate_bps * 0.5, ctx.line_rate_bps / 100)


def loss(ctx, params, state, out):
    out.window_bytes = 4 * ctx.mtu_bytes


def timer(ctx, params, state, out):
    out.rate_bps = ctx.rate_bps + params.step * ctx.line_rate_bps / (1 + state.cnps)
    out.timer_ps[2] = 10_000_000
'''

CASES: dict[str, dict[str, Any]] = {
    "none": {"cc": "none"},
    "fixed-33G": {"cc": "fixed", "cc_params": {"rate": "33Gbps"}},
    "fixed-window": {"cc": "fixed", "cc_params": {"window": "20000B"}},
    "dcqcn-mellanox": {"cc": "dcqcn", "cc_set": "mellanox"},
    "dcqcn-paper": {"cc": "dcqcn", "cc_set": "paper", "cc_params": {"increase_period": "7us"}},
    "dcqcn-alibaba_window": {"cc": "dcqcn", "cc_set": "alibaba_window"},
    "users-file": {"cc": "./gentle.py", "cc_params": {"step": 0.25}},
}
FABRICS: dict[str, dict[str, Any]] = {
    "pfc": {},
    "lossy": {
        "switch": {**SCENARIO["switch"], "pfc": False, "buffer": "90KB", "dt_alpha": 1},
        "until": "400us",
    },
}


def in_two_ways(folder: Path, transport: dict[str, Any], changes: dict[str, Any]) -> list[Any]:
    """The same scenario by the native engine and by the twin, from a file beside the user's."""
    (folder / "gentle.py").write_text(USERS)
    scenario = {**SCENARIO, **changes, "transport": {**transport, "rto": "80us", "max_retries": 90}}
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(scenario))  # JSON is YAML, too
    return [api.run(file, twin=twin) for twin in (False, True)]


@pytest.mark.parametrize("changes", FABRICS.values(), ids=FABRICS)
@pytest.mark.parametrize("transport", CASES.values(), ids=CASES)
def test_compiled_and_interpreted_policies_give_one_result(
    tmp_path: Path, transport: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Policies page: hooks run as plain Python and as native code from one text, to equal results.

    Every packet event, queue sample, flow and counter of a run of the native engine with compiled
    hooks is that of the twin, which calls the file's own functions.
    """
    native, plain = in_two_ways(tmp_path, transport, changes)
    assert native.meta["engine"]["engine"] != plain.meta["engine"]["engine"] == "twin"
    assert native.reason == plain.reason
    assert digests(native) == digests(plain)
    lossy = "switch" in changes
    assert (native.totals["dropped_packets"] > 0) == lossy
    assert native.totals["marked_packets"] > 0
    assert (native.totals["cnp_packets"] > 0) == (transport["cc"] not in ("none", "fixed"))


def test_the_policies_are_told_apart(tmp_path: Path) -> None:
    """Differential: the seven give seven results, so equality above is that of the policy run."""
    found = [in_two_ways(tmp_path, transport, {})[0] for transport in CASES.values()]
    assert len({digests(run)["digest_flows"] for run in found}) == len(CASES)


def test_a_policy_by_path_is_the_policy_by_name(tmp_path: Path) -> None:
    """Policies page: emunet's own policies have no privilege; a copy of dcqcn by path is dcqcn.

    So it is with the path in the scenario, seen from its folder, or as an option, seen from here.
    """
    import emunet.policies.congestion.dcqcn as own

    copy = tmp_path / "mine.py"
    shutil.copy(own.__file__, copy)
    scenario = {**SCENARIO, "transport": {"cc": "dcqcn"}}
    by_name = digests(api.run(scenario))
    assert digests(api.run(scenario, cc=str(copy))) == by_name
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps({**SCENARIO, "transport": {"cc": "./mine.py"}}))
    assert digests(api.run(file)) == by_name
