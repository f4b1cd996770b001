"""What the leader of a group does in a replay.

Subscriptions and assignments are numbers, so that equal ones are computed once for all settings. Metadata and
assignments are a few bytes that name an entry of an `AssignmentBook`. The core never reads these bytes. Assignments of
known strategies are computed. For other strategies, the recorded assignment of the same members is used.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from muster.assignors.assignor import Assignor, Member, RebalanceProtocol, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS
from muster.assignors.sticky import decode_owned
from muster.pipeline.whatif.history import Generation, Owned
from muster.pipeline.whatif.processes import Clients
from muster.protocol.consumer import decode_subscription
from muster.protocol.message import MalformedMessage

NOTHING: Final[Owned] = {}


class NoAssignment(Exception):
    """Nobody knows which assignment the leader would have made. The text says why."""


class SentMetadata(NamedTuple):
    """A member's metadata for one strategy. Equal metadata with different values of `bump` count as different."""

    topics: tuple[str, ...]
    share: int
    """The member's last assignment, as its number in the book; 0: no assignment yet."""
    generation: int
    bump: int


def is_cooperative(name: str) -> bool:
    """Whether members keep their partitions while they join under this strategy. Unknown strategies count as eager."""
    known = CLIENT_ASSIGNORS.get(name)
    return known is not None and known.protocols[0] is RebalanceProtocol.COOPERATIVE


def keeps(name: str) -> bool:
    """Whether a member's metadata depends on the partitions that the member had."""
    return name in ("sticky", "cooperative-sticky")


def claims(metadata: str | None) -> bool:
    """Whether a subscription (base64) has partitions in the user data of the sticky strategies. None: not known."""
    if metadata is None:
        return False
    try:
        user_data = decode_subscription(b64decode(metadata))[1].user_data
    except (MalformedMessage, BadBase64):
        return False
    return bool(decode_owned(user_data)[0])


class AssignmentBook:
    """The subscriptions and assignments of one group, by their numbers."""

    def __init__(self, clients: Clients, *, other_assignor: bool = False) -> None:
        """`other_assignor`: whether the leader's client assigns differently from Kafka's own strategy."""
        self._foreign = other_assignor
        self._said: list[SentMetadata] = []
        self._numbers: dict[SentMetadata, bytes] = {}
        self.shares: list[Owned] = [NOTHING, NOTHING]
        """The assignments by number. Number 0 means no assignment yet, and number 1 is an empty assignment."""
        self._share_numbers: dict[tuple[tuple[str, tuple[int, ...]], ...], int] = {(): 1}
        self._known: dict[object, list[tuple[str, bytes]]] = {}
        self._recorded: dict[tuple[str, frozenset[object]], Mapping[str, Owned]] = {}
        before: Mapping[str, Owned] = {}
        for generation in [*([clients.history.given] if clients.history.given else []), *clients.history.generations]:
            self._record(clients, generation, before)
            before = generation.shares

    def metadata_bytes(self, said: SentMetadata) -> bytes:
        """The bytes of the metadata in a JoinGroup."""
        token = self._numbers.get(said)
        if token is None:
            token = self._numbers[said] = b"%d" % len(self._said)
            self._said.append(said)
        return token

    def number(self, share: Owned) -> int:
        """The number of an assignment."""
        key = tuple((topic, tuple(partitions)) for topic, partitions in share.items())
        number = self._share_numbers.get(key)
        if number is None:
            number = self._share_numbers[key] = len(self.shares)
            self.shares.append(share)
        return number

    def read(self, assignment: bytes) -> Owned:
        """The assignment with the number in these bytes. It is empty if the leader left the member out."""
        return self.shares[int(assignment)] if assignment else NOTHING

    def assign(
        self,
        strategy: str,
        members: Sequence[tuple[str, str | None, bytes]],
        counts: Mapping[str, Topic],
        counts_id: tuple[tuple[str, int], ...],
        slots: Mapping[str, str],
    ) -> list[tuple[str, bytes]]:
        """The assignments of all members. Raises NoAssignment.

        `members`: (id, instance, metadata) in the order of the JoinGroup response; `slots`: the names under which their
        assignments were recorded.
        """
        key = (strategy, counts_id, *members)
        found = self._known.get(key)
        if found is None:
            assignor = CLIENT_ASSIGNORS.get(strategy)
            if assignor is None or self._foreign:
                recorded = self._as_recorded(strategy, members, slots)
                if recorded is not None:
                    return recorded
            if assignor is None:
                text = f"strategy {strategy!r} is not known here, and nobody saw what it gives these members"
                raise NoAssignment(text)
            found = self._known[key] = self._compute(assignor, members, counts)
        return found

    def _compute(
        self, assignor: Assignor, members: Sequence[tuple[str, str | None, bytes]], counts: Mapping[str, Topic]
    ) -> list[tuple[str, bytes]]:
        group = []
        cooperative = assignor.protocols[0] is RebalanceProtocol.COOPERATIVE
        for member_id, instance_id, metadata in members:
            topics, share, generation, _ = self._said[int(metadata)]
            owned = self.shares[share]
            if cooperative:
                data = assignor.user_data(owned, generation)
                group.append(Member(member_id, topics, owned, generation, instance_id, None, data))
            else:
                data = assignor.user_data(owned if share else None, generation)
                group.append(Member(member_id, topics, instance_id=instance_id, user_data=data))
        assignment = assignor.assign(group, counts)
        return [(member_id, b"%d" % self.number(share)) for member_id, share in assignment.items()]

    def _as_recorded(
        self, strategy: str, members: Sequence[tuple[str, str | None, bytes]], slots: Mapping[str, str]
    ) -> list[tuple[str, bytes]] | None:
        """The recorded assignment for these `members`, or else for members in the same places (`slots`).

        It is None if nothing was recorded. Under a cooperative strategy, a recorded assignment counts only if each
        member owned the same partitions before it as now.
        """
        ids = [member_id for member_id, _, _ in members]
        had = [self._said[int(metadata)].share for _, _, metadata in members]
        for names in (ids, [slots[member_id] for member_id in ids]):
            found = self._recorded.get((strategy, _circumstances(strategy, zip(names, had, strict=True))))
            if found is not None:
                shares = [found.get(name, NOTHING) for name in names]
                return [(member_id, b"%d" % self.number(share)) for member_id, share in zip(ids, shares, strict=True)]
        return None

    def _record(self, clients: Clients, generation: Generation, before: Mapping[str, Owned]) -> None:
        known = [(name, share) for name, share in generation.shares.items() if name in clients.by_member]
        had = [self.number(before[name]) if name in before else 0 for name, _ in known]
        for names in ([name for name, _ in known], [clients.by_member[name].slot for name, _ in known]):
            circumstances = _circumstances(generation.protocol, zip(names, had, strict=True))
            shares = (share for _, share in known)
            self._recorded[generation.protocol, circumstances] = dict(zip(names, shares, strict=True))


def _circumstances(strategy: str, had: Iterable[tuple[str, int]]) -> frozenset[object]:
    return frozenset(had) if is_cooperative(strategy) else frozenset(name for name, _ in had)
