"""Facts of a consumer group for its history, from the first new epoch until every member has reached its target.

The size of the facts is bounded, even if thousands of members and partitions move. `history` reports these facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from muster.coordinator.groups.common.epoch_history import Settling
from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    NOTHING,
    STABLE_GROUP,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    CurrentAssignment,
    Position,
    same_partitions,
    trigger_of,
)

MAX_SLOWEST: Final = 10
"""How many of the slowest members EPOCH_RECONCILED has, and how many members that others waited for."""
MAX_OWNERS: Final = 100
"""How many members that others wait for are noted during a reconciliation."""
MAX_FREED: Final = 20_000
"""The time without an owner is measured for at most this many partitions at once."""


@dataclass(slots=True, eq=False, repr=False)
class MemberProgress:
    """The progress of one member towards its target."""

    began_ms: int
    revoking_since_ms: int | None = None
    lacking_ms: int | None = None
    revoked: list[CurrentAssignment] = field(default_factory=list)
    revoking_ms: int = 0
    waited_ms: int = 0
    assigned: int = 0
    waits_for: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class AwaitedOwner:
    """A member with partitions that others wait for."""

    who: Trigger
    since_ms: int
    until_ms: int | None = None
    partitions: int = 0


class ReconciliationFacts(Settling):
    """The facts of one reconciliation.

    `wanted_ms`: when a computation of targets began. `target_ms`: when the last targets came into force. `freed`: when
    partitions lost their owner, while they have none.
    """

    __slots__ = ("assignor", "freed", "members", "owners", "reported", "slowest", "target_ms", "wanted_ms")

    def __init__(self, first_epoch: int, mono_ms: int, cause: str | None, trigger: Trigger | None) -> None:
        super().__init__(first_epoch, mono_ms, cause, trigger)
        self.target_ms = mono_ms
        self.wanted_ms: int | None = None
        self.assignor: str | None = None
        self.members: dict[str, MemberProgress] = {}
        self.owners: dict[str, AwaitedOwner] = {}
        self.slowest: list[dict[str, Any]] = []
        self.reported = 0
        self.freed: dict[tuple[bytes, int], int] = {}

    def hand_over(self, before: CurrentAssignment, after: CurrentAssignment, now_ms: int) -> None:
        """Note that a member now has the partitions `after` instead of `before`."""
        if (not before and not self.freed) or same_partitions(before, after):
            return
        freed = self.freed
        known = set(map(id, before)).intersection(map(id, after))
        if known:  # rows without changes
            before = tuple([row for row in before if id(row) not in known])
            after = tuple([row for row in after if id(row) not in known])
        had = {topic_id: partitions for topic_id, partitions, _ in before}
        for topic_id, partitions, _ in after:
            mine = had.pop(topic_id, ())
            if mine != partitions:
                for partition in set(partitions).difference(mine) if mine else partitions:
                    since_ms = freed.pop((topic_id, partition), None)
                    if since_ms is not None:
                        self.paused_ms += now_ms - since_ms
                if mine:
                    _free(freed, topic_id, set(mine).difference(partitions), now_ms)
        for topic_id, mine in had.items():
            if len(freed) >= MAX_FREED:
                break
            for partition in mine:
                freed[topic_id, partition] = now_ms

    def note(
        self, group: ConsumerGroup, progress: MemberProgress, member: ConsumerMember, before: Position, now_ms: int
    ) -> None:
        """Note a step of a member towards its target. `before`: the member's `Position` before the step."""
        after = member.position
        if before.state == UNREVOKED_PARTITIONS and progress.revoking_since_ms is not None:
            progress.revoking_ms += now_ms - progress.revoking_since_ms
            progress.revoking_since_ms = None
        if before.state == UNRELEASED_PARTITIONS and progress.lacking_ms is not None:
            progress.waited_ms += now_ms - progress.lacking_ms
            progress.lacking_ms = None
        had, has = size(before.assigned), size(after.assigned)
        if after.state == UNREVOKED_PARTITIONS:
            progress.revoking_since_ms = now_ms
            if not same_partitions(after.revoking, before.revoking):
                progress.revoked.append(after.revoking)
            return
        if has > had:
            progress.assigned += has - had
        elif has < had and before.state != UNREVOKED_PARTITIONS:
            # The member has given up these partitions without being asked.
            progress.revoked.append(_lost(before.assigned, after.assigned))
        if after.state == UNRELEASED_PARTITIONS:
            progress.lacking_ms = now_ms
            self._find_awaited_owners(group, progress, member)

    def _find_awaited_owners(self, group: ConsumerGroup, progress: MemberProgress, member: ConsumerMember) -> None:
        progress.waits_for = {}
        for topic_id, partitions in group.targets.get(member.member_id, NOTHING):
            of_topic = group.owners.get(topic_id, {})
            for partition in partitions:
                who = of_topic.get(partition, member.member_id)
                if who != member.member_id:
                    progress.waits_for[who] = progress.waits_for.get(who, 0) + 1
        for who, count in progress.waits_for.items():
            owner = self.owners.get(who)
            there = group.members.get(who)
            if owner is None and there is not None and len(self.owners) < MAX_OWNERS:
                owner = self.owners[who] = AwaitedOwner(trigger_of(who, there), self.target_ms)
            if owner is not None:
                owner.until_ms = None
                owner.partitions = max(owner.partitions, count)

    def released(self, member_id: str, now_ms: int) -> None:
        """Note that a member no longer has partitions that others wait for."""
        owner = self.owners.get(member_id)
        if owner is not None and owner.until_ms is None:
            owner.until_ms = now_ms


def _free(freed: dict[tuple[bytes, int], int], topic_id: bytes, partitions: Iterable[int], now_ms: int) -> None:
    if len(freed) < MAX_FREED:
        for partition in partitions:
            freed[topic_id, partition] = now_ms


def is_settled(group: ConsumerGroup) -> bool:
    """Whether all members have reached their targets, except static members that have left and will return."""
    if group.state == STABLE_GROUP:
        return True
    epoch = group.assignment_epoch
    return (
        bool(group.static_ids)
        and group.epoch == epoch
        and all(
            one.position.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH or one.is_reconciled_to(epoch)
            for one in group.members.values()
        )
    )


def size(current: CurrentAssignment) -> int:
    """The number of partitions in a current assignment."""
    return sum([len(row[1]) for row in current])


def _lost(before: CurrentAssignment, after: CurrentAssignment) -> CurrentAssignment:
    kept = {row[0]: row[1] for row in after}
    rows = []
    for topic_id, partitions, epochs in before:
        lost = [one for one in zip(partitions, epochs, strict=True) if one[0] not in kept.get(topic_id, ())]
        if lost:
            rows.append((topic_id, tuple([one[0] for one in lost]), tuple([one[1] for one in lost])))
    return tuple(rows)
