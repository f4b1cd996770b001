"""The protocol of a classic group: how many members offer each name, and the vote among the common names.

The counts change when members join and leave. Members that offer the same names in the same order are counted together.
Most groups have one such list of names. So neither a joining member nor the vote has to read all members twice.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.shared_values import Protocols

_NAME_OF: Final = itemgetter(0)
_METADATA_OF: Final = itemgetter(1)


class Support:
    """How many members offer each protocol name. A name that one member offers twice counts once."""

    __slots__ = ("_counts", "_lists", "_votes", "metadata_bytes")

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], int] = {}
        """How many members offer this list of names."""
        self._counts: dict[str, int] = {}
        """In how many of the lists each name is."""
        self._votes: dict[str, int] | None = None
        """The votes, if they were counted since the lists changed."""
        self.metadata_bytes = 0
        """The sum, over all members, of each member's longest metadata. An answer to the leader has no more."""

    def add(self, protocols: Protocols) -> None:
        """A member offers these protocols."""
        self.metadata_bytes += longest(protocols)
        self._votes = None
        lists, names = self._lists, _names(protocols)
        if names in lists:
            lists[names] += 1
            return
        lists[names] = 1
        counts = self._counts
        for name in dict.fromkeys(names):
            counts[name] = counts.get(name, 0) + 1

    def remove(self, protocols: Protocols) -> None:
        """A member offers these protocols no longer."""
        self.metadata_bytes -= longest(protocols)
        self._votes = None
        lists, names = self._lists, _names(protocols)
        if lists[names] > 1:
            lists[names] -= 1
            return
        del lists[names]
        counts = self._counts
        for name in dict.fromkeys(names):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def has_common(self, protocols: Protocols) -> bool:
        """Whether all members offer one of these names."""
        counts, lists = self._counts, len(self._lists)
        return any(counts.get(name, 0) == lists for name, _ in protocols)

    def candidates(self) -> list[str]:
        """The names that all members offer, in the order of the list that was first offered."""
        counts, lists = self._counts, len(self._lists)
        return [name for name in dict.fromkeys(next(iter(self._lists), ())) if counts[name] == lists]

    def votes(self) -> dict[str, int]:
        """The number of votes for each candidate. Each member votes for the first candidate of its own list."""
        if self._votes is None:
            self._votes = votes = dict.fromkeys(self.candidates(), 0)
            if len(votes) == 1:
                votes[next(iter(votes))] = sum(self._lists.values())
            elif votes:
                for names, members in self._lists.items():
                    # in C: hundreds of members may have hundreds of names before their first candidate
                    votes[next(filter(votes.__contains__, names))] += members
        return self._votes


def longest(protocols: Protocols) -> int:
    """Bytes of the longest metadata that a member offers."""
    if len(protocols) == 1:
        return len(protocols[0][1])
    return max(map(len, map(_METADATA_OF, protocols)), default=0)


def elect(support: Support, leader: Member | None) -> str:
    """The protocol for the next generation: the one with most votes.

    Kafka leaves ties to its hash order. Here the leader's own preference decides, because the leader computes the
    assignment. Raises ValueError when no name is offered by all: the checks of JoinGroup never allow that.
    """
    votes = support.votes()
    if not votes:
        raise ValueError("no protocol is offered by every member")
    most = max(votes.values())
    tied = {name: None for name, count in votes.items() if count == most}
    first = next(iter(tied))
    if len(tied) > 1 and leader is not None:
        return next((name for name, _ in leader.protocols if name in tied), first)
    return first


def _names(protocols: Protocols) -> tuple[str, ...]:
    if len(protocols) == 1:
        return (protocols[0][0],)
    return tuple(map(_NAME_OF, protocols))
