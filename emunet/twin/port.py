"""Packets, and ports with the links that leave them (docs/semantics.md 1 and 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from emunet._core.rows import PORT_COUNTERS
from emunet.plan.schema import N_CLASS, Plan

SLOT_BYTES = 20
"""Preamble and start delimiter 8, inter-frame gap 12: what a link counts more per frame."""

RESPONSE_BYTES = 66
CNP_BYTES = 78
PAUSE_BYTES = 64
PAUSE_BIT_TIMES = 65535 * 512
NO_AUX = 65535
"""`aux` of a response that names no packet beyond the cumulative ones."""


def data_frame_bytes(payload_bytes: int, first: bool) -> int:
    """Frame bytes of WRITE: Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, pad, ICRC 4, FCS 4."""
    return max(64, 62 + (payload_bytes + 3) // 4 * 4 + (16 if first else 0))


@dataclass(slots=True)
class Packet:
    """One packet of a connection."""

    kind: int  # PACKET_*
    flow: int  # connection, which is the message number
    dst: int  # host to which it goes
    klass: int  # priority class
    psn: int  # data: its own; ACK, NACK: the expected one; CNP: 0
    bytes: int  # frame bytes
    key: int  # entropy, 16 bits
    stamp_ns: int  # start of the data's transmission, modulo 2^32; echoed by responses
    marked: bool = False  # congestion mark (CE); echoed by responses
    retransmission: bool = False
    last: bool = False  # of its message
    aux: int = NO_AUX  # selective repeat: PSN answered less the expected one


@dataclass(slots=True)
class Held:
    """A packet in a switch, charged to its in-port and out-port."""

    packet: Packet
    in_port: int
    admitted_ps: int


class Port:
    """A port of a node with its outgoing link and what pauses it.

    Parameters
    ----------
    plan : Plan
    index : int
        Global port number.
    """

    def __init__(self, plan: Plan, index: int) -> None:
        self.index = index
        self.node = int(plan.port_node[index])
        self.local = index - int(plan.node_port_start[self.node])
        self.peer = int(plan.port_peer[index])
        self.delay_ps = int(plan.port_delay_ps[index])
        self.rx_latency_ps = int(plan.port_rx_latency_ps[index])
        self.pause_latency_ps = int(plan.port_pause_latency_ps[index])
        self.set_rate(int(plan.port_rate_bps[index]))
        self.pause_ps = (
            PAUSE_BIT_TIMES * 10**12 // self.rate_bps
        )  # duration of an XOFF sent from here, whatever the rate becomes
        self.busy_until_ps = 0
        self.sending: Held | None = None  # switch: packet whose bytes are still charged
        self.sending_end_ps = 0
        self.paused = [False] * N_CLASS
        self.paused_since_ps = [0] * N_CLASS
        self.sampled_bytes = 0  # value of the last sample row
        self.mark_draws = 0
        self.count = dict.fromkeys(PORT_COUNTERS, 0)

    def set_rate(self, rate_bps: int) -> None:
        """Frames that start from now on have this rate; nothing is carried over to them."""
        self.rate_bps = rate_bps
        self.byte_ps = Fraction(8 * 10**12, rate_bps)
        self.carry = 0

    def occupy(self, now: int, frame_bytes: int) -> int:
        """Put a frame on the link as soon as it is free, and give the end of its transmission.

        Rounding up loses less than 1 ps a frame; the carry makes up for it from frame to frame
        while they follow one another without a gap.
        """
        if now > self.busy_until_ps:
            self.carry = 0
        n, d = self.byte_ps.numerator, self.byte_ps.denominator
        x = (frame_bytes + SLOT_BYTES) * n - self.carry
        serialisation_ps = -(-x // d)
        self.carry = serialisation_ps * d - x
        self.busy_until_ps = max(now, self.busy_until_ps) + serialisation_ps
        return self.busy_until_ps

    def paused_ps(self, now: int) -> int:
        """Time paused so far, summed over classes."""
        open_ps = sum(
            now - since for since, on in zip(self.paused_since_ps, self.paused, strict=True) if on
        )
        return self.count["paused_ps"] + open_ps
