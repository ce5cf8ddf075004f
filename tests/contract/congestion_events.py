"""Random but plausible lives of a connection, played as plain Python and as native code at once."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass, field

from emunet.plugin import CANCEL, CTX, KEEP, N_TIMER, OUT, Policy, Record, make_record
from emunet.plugin.slots import NACK, REORDER, TIMEOUT

HOOK_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)

NO_WINDOW = 2**63 - 1
LEAST_RATE_BPS = 1e6


def pointer(record: Record) -> int:
    """Address of a record's memory."""
    return record.array.ctypes.data


def copy(record: Record) -> Record:
    """A record of its own memory with equal content."""
    twin = make_record(record.dtype)
    twin.array[:] = record.array
    return twin


class Native:
    """The compiled hooks of a policy, called through ctypes as the engine calls them."""

    def __init__(self, policy: Policy) -> None:
        self.hooks = {name: HOOK_TYPE(address) for name, address in policy.addresses().items()}
        self.params = policy.params.copy()

    def call(self, hook: str, ctx: Record, state: Record, out: Record) -> int:
        """The hook's result: 1, or 0 if it failed."""
        params = self.params.ctypes.data
        return self.hooks[hook](pointer(ctx), params, pointer(state), pointer(out))


@dataclass
class Connection:
    """What an engine keeps of a connection, as far as semantics 4.4 says."""

    policy: Policy
    line_rate_bps: float
    size_bytes: int
    base_rtt_ps: int = 10_000_000
    mtu_bytes: int = 4096
    now_ps: int = 0
    una_bytes: int = 0
    next_bytes: int = 0
    window_bytes: int = NO_WINDOW
    timers: list[int] = field(default_factory=lambda: [-1] * N_TIMER)

    def __post_init__(self) -> None:
        self.rate_bps = self.line_rate_bps
        self.state = make_record(self.policy.state_dtype)

    def context(self, **what: int) -> Record:
        """What the hook sees."""
        ctx = make_record(CTX)
        ctx.now_ps, ctx.timer = self.now_ps, -1
        ctx.line_rate_bps, ctx.base_rtt_ps = self.line_rate_bps, self.base_rtt_ps
        ctx.bdp_bytes = int(self.line_rate_bps * self.base_rtt_ps / 8e12)
        ctx.mtu_bytes, ctx.size_bytes = self.mtu_bytes, self.size_bytes
        ctx.una_bytes, ctx.next_bytes = self.una_bytes, self.next_bytes
        ctx.inflight_bytes = self.next_bytes - self.una_bytes
        ctx.rate_bps, ctx.window_bytes = self.rate_bps, self.window_bytes
        for name, value in what.items():
            setattr(ctx, name, value)
        return ctx

    def decision(self) -> Record:
        """The decision, as filled in before a call."""
        out = make_record(OUT)
        out.rate_bps, out.window_bytes = self.rate_bps, self.window_bytes
        for k in range(N_TIMER):
            out.timer_ps[k] = KEEP
        return out

    def apply(self, out: Record) -> None:
        """Take a decision over."""
        self.rate_bps = min(max(out.rate_bps, LEAST_RATE_BPS), self.line_rate_bps)
        self.window_bytes = max(out.window_bytes, 1)
        for k in range(N_TIMER):
            if out.timer_ps[k] >= 0:
                self.timers[k] = self.now_ps + out.timer_ps[k]
            elif out.timer_ps[k] == CANCEL:
                self.timers[k] = -1

    def call(self, hook: str, **what: int) -> Record | None:
        """Run a hook as plain Python, if there is one, and give its raw decision."""
        if hook not in self.policy.hooks:
            return None
        out = self.decision()
        self.policy.call(hook, self.context(**what), self.state, out)
        self.apply(out)
        return out

    def due(self, until_ps: int) -> int | None:
        """Number of the next timer due up to and including a time; the clock moves to it."""
        timers = [(at, k) for k, at in enumerate(self.timers) if 0 <= at <= until_ps]
        if not timers:
            self.now_ps = until_ps
            return None
        self.now_ps, k = min(timers)
        self.timers[k] = -1
        return k

    def advance(self, until_ps: int) -> None:
        """Fire the timers due up to and including a time, then let it be that time."""
        while (k := self.due(until_ps)) is not None:
            self.call("timer", timer=k)


@dataclass
class Step:
    """One call of a hook: raw decision and state after it."""

    hook: str
    now_ps: int
    line_rate_bps: float
    decision: Record
    state: bytes


def random_life(
    policy: Policy, seed: int, n_event: int, native: Native | None = None
) -> list[Step]:
    """Play a random sequence of events; with `native`, compare every call bit for bit.

    Parameters
    ----------
    policy : Policy
    seed : int
        Decides everything.
    n_event : int
        ACKs, CNPs and losses; timers come on top.
    native : Native, optional
        Called on copies of the same memory.
    """
    draw = random.Random(seed)
    rate = draw.choice([10e9, 25e9, 40e9, 100e9, 400e9, 800e9])
    life = Connection(policy, rate, size_bytes=draw.randrange(10**6, 10**9))
    steps: list[Step] = []

    def call(hook: str, **what: int) -> None:
        if hook not in policy.hooks:
            return
        ctx, out = life.context(**what), life.decision()
        other_state, other_out = copy(life.state), copy(out)
        policy.call(hook, ctx, life.state, out)
        if native is not None:
            where = f"seed {seed}, call {len(steps)}: {hook} at {life.now_ps} ps"
            assert native.call(hook, ctx, other_state, other_out) == 1, where
            assert other_out.tobytes() == out.tobytes(), f"{where}: {other_out} != {out}"
            assert other_state.tobytes() == life.state.tobytes(), f"{where}: state"
        steps.append(Step(hook, life.now_ps, rate, copy(out), life.state.tobytes()))
        life.apply(out)

    call("start")
    for _ in range(n_event):
        target_ps = life.now_ps + int(draw.expovariate(1 / draw.choice([5e4, 2e6, 2e7])))
        while (k := life.due(target_ps)) is not None:
            call("timer", timer=k)
        life.next_bytes = min(life.next_bytes + draw.randrange(0, 200_000), life.size_bytes)
        kind = draw.random()
        if kind < 0.6:
            acked = draw.choice([0, 1, 4096, life.next_bytes - life.una_bytes])
            acked = min(acked, life.next_bytes - life.una_bytes)
            life.una_bytes += acked
            rtt_ps = life.base_rtt_ps + 1000 * draw.randrange(0, 50_000)
            call("ack", acked_bytes=acked, rtt_ps=rtt_ps, marked=draw.randrange(2))
        elif kind < 0.95:
            call("cnp")
        else:
            call("loss", cause=draw.choice([NACK, REORDER, TIMEOUT]))
    return steps
