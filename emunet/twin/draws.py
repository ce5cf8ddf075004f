"""Draws are functions of the seed, a purpose and an entity (docs/semantics.md 1.2)."""

from __future__ import annotations

from emunet.plan.schema import TIES_PORT

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15

TIE, ECMP, MARK, ENTROPY, SPRAY, LOSS = 1, 2, 3, 4, 5, 9
"""Purposes."""


def mix64(x: int) -> int:
    """A bijection of 64-bit numbers that leaves no trace of patterns in its argument."""
    x &= MASK64
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


class Draws:
    """All draws of one simulation."""

    def __init__(self, seed: int, ties: int) -> None:
        self.by_port = ties == TIES_PORT
        purposes = (TIE, ECMP, MARK, ENTROPY, SPRAY, LOSS)
        self.purpose_key = {p: mix64(seed + p * GOLDEN) for p in purposes}

    def draw(self, purpose: int, a: int, b: int) -> int:
        """64 bits for the pair (a, b)."""
        return mix64(mix64(self.purpose_key[purpose] ^ a) + b * GOLDEN)

    def tie(self, node: int, time_ps: int, port: int) -> int:
        """Rank of a node's port among equals of one instant; 0 if the port index decides."""
        return 0 if self.by_port else mix64(self.draw(TIE, node, time_ps) + port * GOLDEN)

    def choose(self, node: int, key: int, dst: int, n: int) -> int:
        """Which of n candidate ports a packet with this entropy key takes at a node."""
        salt = self.draw(ECMP, node, 0)
        return (mix64(salt ^ (key << 32 | dst)) >> 32) * n >> 32

    def entropy_key(self, src: int, dst: int, connection: int) -> int:
        """16 bits that stand for the 5-tuple; for responses the hosts change places."""
        return self.draw(ENTROPY, src << 32 | dst, connection) >> 48

    def spray_key(self, connection: int, transmission: int) -> int:
        """16 bits for one data transmission of a connection."""
        return self.draw(SPRAY, connection, transmission) >> 48

    def mark_unit(self, port: int, count: int) -> float:
        """A number in [0, 1) for the marking draw number `count` of a global port."""
        return (self.draw(MARK, port, count) >> 11) * 2.0**-53

    def loss_unit(self, port: int, count: int) -> float:
        """A number in [0, 1) for draw number `count` of the link that leaves a global port."""
        return (self.draw(LOSS, port, count) >> 11) * 2.0**-53
