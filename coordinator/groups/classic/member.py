"""Members of a classic group: their fields, the vote for the protocol, and their topics.

The vote: members that offer the same names in the same order are counted together. So neither a JoinGroup nor a vote
has to read all members.

The topics are taken from the metadata of the chosen protocol at each new generation (Kafka's computeSubscribedTopics).
Topics are decoded only when needed, as version 0 whatever version the metadata claims. Topics are unknown if the
metadata is no subscription, or too long for the record of a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import Final

from muster.coordinator.groups.common.group import Protocols
from muster.coordinator.state_machine.deadlines import NEVER, Due
from muster.coordinator.state_machine.interface import Respond
from muster.protocol.consumer import subscribed_topics
from muster.protocol.message import MalformedMessage

SESSION: Final = "session"
"""The kind of the deadline at which a silent member is removed."""
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""The session timeout while a member's first JoinGroup is parked: Kafka's classicGroupNewMemberJoinTimeoutMs."""


class Member(Due):
    """One member of a classic group. The object is also the deadline of its session, or of its first JoinGroup while
    the member `is_new`.

    `parked_join` and `parked_sync` are the functions that answer the member's parked requests. `put_off`: if late
    answers extended the deadline, `due_ms` with and without the extension. For the history only: `joined_ms` is the
    time (wall) of the last JoinGroup, `synced_ms` that of this generation's SyncGroup. A time is 0 when unknown. While
    `restarted_ms` equals `due_ms`, the member has sent nothing since its session was restarted.
    """

    __slots__ = (
        "assignment", "client_host", "client_id", "instance_id", "is_new", "joined_ms", "member_id", "parked_join",
        "parked_sync", "protocols", "put_off", "rebalance_timeout_ms", "restarted_ms", "session_timeout_ms",
        "synced_ms",
    )  # fmt: skip

    kind = SESSION

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.parked_join: Respond | None = None
        self.parked_sync: Respond | None = None
        self.joined_ms = self.synced_ms = 0
        self.restarted_ms = NEVER
        self.put_off: tuple[int, int] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether a parked request (not a first JoinGroup) counts as a heartbeat (Kafka's hasSatisfiedHeartbeat)."""
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    def asked_ms(self, due_ms: int) -> int:
        """`due_ms` of the session without the extension for late answers."""
        return self.put_off[1] if self.put_off is not None and self.put_off[0] == due_ms else due_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for a protocol; b"" when the member does not offer that protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


_NAME_OF: Final = itemgetter(0)
_METADATA_OF: Final = itemgetter(1)


class Support:
    """Counts the members that offer each protocol name. A name that one member offers twice counts once."""

    __slots__ = ("_counts", "_lists", "_votes", "metadata_bytes")

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], int] = {}
        """The number of members that offer this list of names, for each list."""
        self._counts: dict[str, int] = {}
        """The number of `_lists` that have this name, for each name."""
        self._votes: dict[str, int] | None = None
        """The votes, or None if the lists have changed since the votes were counted."""
        self.metadata_bytes = 0
        """The sum of each member's longest metadata, in bytes: the limit for metadata in an answer to the leader."""

    def add(self, protocols: Protocols) -> None:
        """Count the protocols of a member that was added."""
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
        """Stop counting these protocols of a member."""
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
        """Whether at least one of these names is offered by all members."""
        counts, lists = self._counts, len(self._lists)
        return any(counts.get(name, 0) == lists for name, _ in protocols)

    def candidates(self) -> list[str]:
        """The names that all members offer, in the order of the oldest list."""
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
                    # this search runs in C: hundreds of members may have hundreds of names before a candidate
                    votes[next(filter(votes.__contains__, names))] += members
        return self._votes


def longest(protocols: Protocols) -> int:
    """The size of the longest metadata that a member offers, in bytes."""
    if len(protocols) == 1:
        return len(protocols[0][1])
    return max(map(len, map(_METADATA_OF, protocols)), default=0)


def elect(support: Support, leader: Member | None) -> str:
    """The protocol with most votes, for the next generation. If several have most votes, the leader's order decides."""
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


SHORT: Final = 64 * 1024
"""Equal metadata of up to this many bytes is decoded once for all members, longer metadata for each member."""
MAX_GROUP_METADATA_BYTES: Final = 16 * 1024 * 1024
"""The limit for the metadata of all members together, in bytes. Above this limit, the topics are unknown."""


MAX_TOPIC_NAMES: Final = 100_000
"""The history does not decode metadata with more topic names in all: this many names take some 30 ms."""
_NUMBER_OF_TOPICS: Final = itemgetter(slice(2, 6))


class Subscriptions:
    """The topics in the `metadata` of a group's members. None: the topics are unknown."""

    __slots__ = ("_metadata", "_topics")

    def __init__(self, metadata: Sequence[bytes] | None) -> None:
        distinct: Collection[bytes] = metadata or ()
        if len(distinct) > 1:
            # Long metadata is compared by identity, because a hash would read all bytes.
            distinct = {one if len(one) <= SHORT else id(one): one for one in distinct}.values()
        is_known = metadata is not None and sum(map(len, distinct)) <= MAX_GROUP_METADATA_BYTES
        self._metadata: tuple[bytes, ...] | None = tuple(distinct) if is_known else None  # None: decoded or unknown
        self._topics: frozenset[str] | None = None

    @property
    def is_long(self) -> bool:
        """Whether the members' metadata names too many topics for the history."""
        if self._metadata is None:
            return len(self._topics or ()) > MAX_TOPIC_NAMES
        return sum([int.from_bytes(_NUMBER_OF_TOPICS(one), signed=True) for one in self._metadata]) > MAX_TOPIC_NAMES

    def topics(self) -> frozenset[str] | None:
        """The topics that members subscribe to. None when the topics are unknown."""
        if self._metadata is not None:
            self._topics, self._metadata = _decode(self._metadata), None
        return self._topics


UNKNOWN = Subscriptions(None)


def _decode(metadata: Iterable[bytes]) -> frozenset[str] | None:
    try:
        return frozenset(topic for one in metadata for topic in subscribed_topics(one))
    except MalformedMessage:
        return None
