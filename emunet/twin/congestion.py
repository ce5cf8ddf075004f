"""Calls the hooks of the congestion policy, undecorated (docs/semantics.md 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emunet.plan.schema import NO_LIMIT, Plan
from emunet.plugin.records import as_record
from emunet.plugin.slots import CTX, KEEP, N_TIMER, OUT

if TYPE_CHECKING:
    from emunet.twin.sender import Sender

LEAST_RATE_BPS = 1e6


class PolicyFailed(Exception):
    """A hook raised, or decided on a rate that is not a number."""

    def __init__(self, failure: dict[str, Any]) -> None:
        super().__init__(failure["hook"])
        self.failure = failure


class Congestion:
    """The plan's congestion policy; without one senders keep line rate and no window."""

    def __init__(self, plan: Plan) -> None:
        policy: Any = plan.congestion
        self.hooks = dict(policy.hooks) if policy is not None else {}
        self.state_dtype = policy.state_dtype if policy is not None else np.dtype([])
        if policy is not None:
            self.params = as_record(policy.params, policy.params.dtype, writable=False)
        self.mtu_bytes = int(plan.mtu_bytes)

    def new_state(self) -> np.ndarray:
        """State of a new connection: one record, all zero."""
        return np.zeros(1, self.state_dtype)

    def call(
        self,
        hook: str,
        sender: Sender,
        now: int,
        *,
        rtt_ps: int = 0,
        acked_bytes: int = 0,
        marked: bool = False,
        cause: int = 0,
        timer: int = -1,
    ) -> list[int]:
        """Run a hook if there is one, apply rate and window, give its decisions about timers."""
        if hook not in self.hooks:
            return []
        s, line_rate_bps = sender, float(sender.line_rate_bps)
        bdp_bytes = int(line_rate_bps * float(s.base_rtt_ps) / 8e12)
        ctx, out = np.zeros(1, CTX), np.zeros(1, OUT)
        ctx[0] = (
            now, rtt_ps, acked_bytes, s.inflight_bytes, marked, cause, timer, line_rate_bps,
            s.base_rtt_ps, bdp_bytes, self.mtu_bytes, s.size_bytes, s.bytes_below(s.una),
            s.bytes_below(s.next), s.rate_bps, s.window_bytes,
        )  # fmt: skip
        out[0] = (s.rate_bps, s.window_bytes, (KEEP,) * N_TIMER)
        before = s.state.tobytes()
        decision = as_record(out, OUT)
        try:
            self.hooks[hook](
                as_record(ctx, CTX), self.params, as_record(s.state, self.state_dtype), decision
            )
            rate_bps = float(out["rate_bps"][0])
            if rate_bps != rate_bps:
                raise ValueError("rate_bps is not a number")
        except Exception as error:
            failure = {"flow": s.flow, "time_ps": now, "hook": hook}
            raise PolicyFailed({**failure, "ctx": ctx.tobytes(), "state": before}) from error
        if rate_bps != s.rate_bps:
            s.rate_bps = min(max(rate_bps, LEAST_RATE_BPS), line_rate_bps)
        s.window_bytes = min(max(int(out["window_bytes"][0]), 1), NO_LIMIT)
        return [int(value) for value in out["timer_ps"][0]]
