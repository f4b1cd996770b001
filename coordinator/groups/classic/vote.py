"""The protocol of a classic group: how many members offer each name, and the vote among the common names.

The counts change when members join and leave. So neither a joining member nor the vote has to read all members twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.shared_values import Protocols


class Support:
    """How many members offer each protocol name. A name that one member offers twice counts once."""

    __slots__ = ("_counts", "metadata_bytes")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.metadata_bytes = 0
        """The sum, over all members, of each member's longest metadata. An answer to the leader has no more."""

    def add(self, protocols: Protocols) -> None:
        """A member offers these protocols."""
        self.metadata_bytes += longest(protocols)
        counts = self._counts
        for name in _names(protocols):
            counts[name] = counts.get(name, 0) + 1

    def remove(self, protocols: Protocols) -> None:
        """A member offers these protocols no longer."""
        self.metadata_bytes -= longest(protocols)
        counts = self._counts
        for name in _names(protocols):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def has_common(self, protocols: Protocols, members: int) -> bool:
        """Whether all of `members` members offer one of these names."""
        counts = self._counts
        return any(counts.get(name, 0) == members for name, _ in protocols)

    def candidates(self, members: int) -> list[str]:
        """The names that all members offer, in the order in which they were first offered."""
        return [name for name, count in self._counts.items() if count == members]


def longest(protocols: Protocols) -> int:
    """Bytes of the longest metadata that a member offers."""
    return max([len(metadata) for _, metadata in protocols], default=0)


def elect(support: Support, members: Iterable[Member], size: int, leader: Member | None) -> str:
    """The protocol for the next generation. Each member votes for the first candidate of its own list; most votes win.

    Kafka leaves ties to its hash order. Here the leader's own preference decides, because the leader computes the
    assignment. Raises ValueError when no name is offered by all: the checks of JoinGroup never allow that.
    """
    candidates = support.candidates(size)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise ValueError("no protocol is offered by every member")
    votes = _count(candidates, members)
    most = max(votes.values())
    tied = [name for name in candidates if votes[name] == most]
    if len(tied) > 1 and leader is not None:
        return next((name for name, _ in leader.protocols if name in tied), tied[0])
    return tied[0]


def tally(support: Support, members: Iterable[Member], size: int) -> dict[str, int]:
    """The number of votes for each candidate, for the history."""
    candidates = support.candidates(size)
    return {candidates[0]: size} if len(candidates) == 1 else _count(candidates, members)


def _count(candidates: list[str], members: Iterable[Member]) -> dict[str, int]:
    votes = dict.fromkeys(candidates, 0)
    for member in members:
        votes[next(name for name, _ in member.protocols if name in votes)] += 1
    return votes


def _names(protocols: Protocols) -> Iterable[str]:
    if len(protocols) == 1:
        return (protocols[0][0],)
    return dict.fromkeys(name for name, _ in protocols)
