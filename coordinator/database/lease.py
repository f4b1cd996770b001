"""What a holder of the office decides: whether it still holds it, and what has become of a turn. Pure.

A holder counts from the moment in which it *sent* what extended the lease, by its own clock; the database counts from
the later moment in which it did so. So the holder's lease is over first, as long as both clocks go equally fast.
Whether a turn counts does not hang on any clock: it is the epoch that says so.
"""

from __future__ import annotations

from enum import Enum

from muster.coordinator.database.store import Office


class Outcome(Enum):
    """Of a turn whose answer was lost, or that was refused."""

    DONE = "it counts"
    AGAIN = "it does not count, and may be sent again"
    LOST = "another node holds the office, or did"


def outcome(found: Office, epoch: int, turn: int) -> Outcome:
    """What the database says of turn `turn` of `epoch`. It may still be under way there: sent again it counts once."""
    if found.epoch != epoch:
        return Outcome.LOST
    if found.turn == turn:
        return Outcome.DONE
    # any other number than the one before was written by nobody whom we know of
    return Outcome.AGAIN if found.turn == turn - 1 else Outcome.LOST


class Lease:
    """How long the office is held, by the holder's monotonic clock."""

    __slots__ = ("_since_ms", "length_ms")

    def __init__(self, length_ms: int, since_ms: int) -> None:
        """`since_ms`: when it was asked for."""
        self.length_ms = length_ms
        self._since_ms = since_ms

    @property
    def ends_ms(self) -> int:
        """From then on another may hold the office."""
        return self._since_ms + self.length_ms

    @property
    def renew_ms(self) -> int:
        """From then on it is to be extended, also when there is nothing to write."""
        return self._since_ms + self.length_ms // 4

    def extended(self, sent_ms: int) -> None:
        """What was sent then has extended it."""
        self._since_ms = max(self._since_ms, sent_ms)

    def is_over(self, now_ms: int) -> bool:
        """Whether another may hold the office."""
        return now_ms >= self.ends_ms
