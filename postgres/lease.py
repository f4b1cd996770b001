"""What the holder of a seat decides: whether it still holds it, and what has become of a turn. Pure.

A holder counts from the moment in which it *sent* what extended the lease, by its own clock; the database counts from
the later moment in which it did so. So the holder's lease is over first, as long as both clocks go equally fast.
Whether a turn counts does not hang on any clock: it is the epoch that says so.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from muster.postgres.store import NodeRegistration


class Outcome(Enum):
    """Of a turn whose answer was lost, or that was refused."""

    SEEN = "it can be read, and need not last: only the answer to a later turn says so"
    AGAIN = "it does not count, and may be sent again"
    LOST = "the seat is another node's, or free, or the database has lost what this node has read or written"


def outcome(
    found: NodeRegistration | None, epoch: int, before: Container[int], sent: Container[int], barrier: int
) -> Outcome:
    """What the database says of a turn of `epoch`. `sent`: the numbers of the turn and of those that were to prove it.
    `before`: the turns that it may stand behind. It may still be under way there: sent again it counts once. `barrier`:
    the least number that the seat must have.
    """
    if found is None or found.epoch != epoch or found.barrier < barrier:
        return Outcome.LOST
    if found.turn in sent:
        return Outcome.SEEN
    return Outcome.AGAIN if found.turn in before else Outcome.LOST  # written by nobody whom we know of


class Lease:
    """How long the seat is held, by the holder's monotonic clock."""

    __slots__ = ("ends_ms", "length_ms")

    def __init__(self, length_ms: int, since_ms: int) -> None:
        """`since_ms`: when it was asked for."""
        self.length_ms = length_ms
        self.ends_ms = since_ms + length_ms
        """From then on another may hold the seat. A field, and no property: each answer reads it."""

    @property
    def renew_ms(self) -> int:
        """From then on it is to be extended, also when there is nothing to write."""
        return self.ends_ms - self.length_ms + self.length_ms // 4

    def extended(self, sent_ms: int) -> None:
        """What was sent then has extended it."""
        self.ends_ms = max(self.ends_ms, sent_ms + self.length_ms)

    def is_over(self, now_ms: int) -> bool:
        """Whether another may hold the seat."""
        return now_ms >= self.ends_ms
