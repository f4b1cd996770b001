"""Whether a node still holds its registration, and what has happened to a database write. Pure.

A node counts its lease from the moment in which it *sent* the extension, by its own clock. The database counts from the
later moment in which it stored the extension. So the lease ends first for the node, if both clocks are equally fast. No
clock decides whether a write counts: the epoch decides that.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from muster.postgres.store import NodeRegistration


class Outcome(Enum):
    """The state of a database write that was refused, or whose answer was lost."""

    SEEN = "it can be read, and need not last: only the answer to a later turn says so"
    AGAIN = "it does not count, and may be sent again"
    LOST = "the seat is another node's, or free, or the database has lost what this node has read or written"


def outcome(
    found: NodeRegistration | None, epoch: int, before: Container[int], sent: Container[int], barrier: int
) -> Outcome:
    """The state of a database write of `epoch`, by the registration that the database has. `sent`: the numbers of the
    write and of the writes that were to prove it. `before`: the writes that it may follow. The write may still be under
    way in the database: sent again, it counts once. `barrier`: the least number that the registration must have.
    """
    if found is None or found.epoch != epoch or found.barrier < barrier:
        return Outcome.LOST
    if found.turn in sent:
        return Outcome.SEEN
    return Outcome.AGAIN if found.turn in before else Outcome.LOST  # written by a process that this node does not know


class Lease:
    """How long the registration is held, by the monotonic clock of its node."""

    __slots__ = ("ends_ms", "length_ms")

    def __init__(self, length_ms: int, since_ms: int) -> None:
        """`since_ms`: when the registration was requested."""
        self.length_ms = length_ms
        self.ends_ms = since_ms + length_ms
        """From then on another process may hold the registration. It is a field, not a property: each answer reads it.
        """

    @property
    def renew_ms(self) -> int:
        """From then on the lease has to be extended, even without records to write."""
        return self.ends_ms - self.length_ms + self.length_ms // 4

    def extended(self, sent_ms: int) -> None:
        """A request that was sent at that time has extended the lease."""
        self.ends_ms = max(self.ends_ms, sent_ms + self.length_ms)

    def is_over(self, now_ms: int) -> bool:
        """Whether another process may hold the registration."""
        return now_ms >= self.ends_ms
