"""What the holder of a seat decides: whether it still holds it, and what has become of a turn. Pure.

A holder counts from the moment in which it *sent* what extended the lease, by its own clock; the database counts from
the later moment in which it did so. So the holder's lease is over first, as long as both clocks go equally fast.
Whether a turn counts does not hang on any clock: it is the epoch that says so.
"""

from __future__ import annotations

from enum import Enum

from muster.coordinator.database.store import Seat


class Outcome(Enum):
    """Of a turn whose answer was lost, or that was refused."""

    DONE = "it counts"
    AGAIN = "it does not count, and may be sent again"
    BEHIND = "it counts once more of the metadata log is known, without what others lead by then"
    LOST = "the seat is another node's, or free"


def outcome(found: Seat | None, epoch: int, turn: int, known: int) -> Outcome:
    """What the database says of turn `turn` of `epoch`, by a node that knows so much of the metadata log. The turn may
    still be under way there: sent again it counts once.
    """
    if found is None or found.epoch != epoch:
        return Outcome.LOST
    if found.turn == turn:
        return Outcome.DONE
    if found.turn != turn - 1:
        return Outcome.LOST  # written by nobody whom we know of
    return Outcome.BEHIND if found.needs > known else Outcome.AGAIN


class Lease:
    """How long the seat is held, by the holder's monotonic clock."""

    __slots__ = ("_since_ms", "length_ms")

    def __init__(self, length_ms: int, since_ms: int) -> None:
        """`since_ms`: when it was asked for."""
        self.length_ms = length_ms
        self._since_ms = since_ms

    @property
    def ends_ms(self) -> int:
        """From then on another may hold the seat."""
        return self._since_ms + self.length_ms

    @property
    def renew_ms(self) -> int:
        """From then on it is to be extended, also when there is nothing to write."""
        return self._since_ms + self.length_ms // 4

    def extended(self, sent_ms: int) -> None:
        """What was sent then has extended it."""
        self._since_ms = max(self._since_ms, sent_ms)

    def is_over(self, now_ms: int) -> bool:
        """Whether another may hold the seat."""
        return now_ms >= self.ends_ms
