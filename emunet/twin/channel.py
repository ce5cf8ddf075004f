"""Links that lose frames (semantics 1.3): down, two states of loss, and bit errors."""

from __future__ import annotations

import math

from emunet.plan.schema import Plan
from emunet.twin.draws import Draws


class Channel:
    """What becomes of the frames that leave a port.

    Parameters
    ----------
    plan : Plan
    port : int
        Global port number.
    draws : Draws
    """

    def __init__(self, plan: Plan, port: int, draws: Draws) -> None:
        self.port = port
        self.draws = draws
        self.start_ps = int(plan.port_loss_start_ps[port])
        self.end_ps = int(plan.port_loss_end_ps[port])
        self.loss = [float(p) for p in plan.port_loss[port]]
        self.change = [float(p) for p in plan.port_loss_change[port]]
        self.bit_log = math.log1p(-float(plan.port_bit_error[port]))
        self.bad = False
        self.n_draw = 0
        first, end = plan.port_down_start[port : port + 2]
        self.down = list(
            zip(plan.down_from_ps[first:end], plan.down_until_ps[first:end], strict=True)
        )

    def is_down(self, start_ps: int, end_ps: int) -> bool:
        """Whether the link carries nothing at some time in [start, end)."""
        return any(start_ps < until and begin < end_ps for begin, until in self.down)

    def loses(self, frame_bytes: int, start_ps: int) -> bool:
        """Whether a frame whose transmission starts then does not arrive; the state moves."""
        if not self.start_ps <= start_ps < self.end_ps:
            return False
        p, move = self.loss[self.bad], self.change[self.bad]
        if self.bit_log < 0:
            p = 1.0 - (1.0 - p) * math.exp(float(8 * frame_bytes) * self.bit_log)
        lost = p > 0 and self._draw() < p
        if move > 0 and self._draw() < move:
            self.bad = not self.bad
        return lost

    def _draw(self) -> float:
        self.n_draw += 1
        return self.draws.loss_unit(self.port, self.n_draw - 1)
