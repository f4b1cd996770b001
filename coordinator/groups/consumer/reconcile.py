"""One step of a member towards its target: what it gives up first, what it gets then. Decides; changes nothing.

This module has the rule that no partition has two owners. A member only gets partitions that no other member has or
gives up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from muster.coordinator.groups.consumer.assignments import (
    NOTHING,
    CurrentAssignment,
    Row,
    TargetAssignment,
    all_since,
    assigned_since,
    current_assignment,
    epochs_of,
    row_of,
)
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.group import ConsumerGroup, free_partitions
from muster.coordinator.groups.consumer.member import (
    AFTER,
    ALL_FREE,
    COMPLETE,
    NONE_FREE,
    SOME_FREE,
    STABLE,
    TO_REVOKE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Position,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions

Owned = Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None
"""The partitions that a member says it owns. None when it does not send them."""


class Target(NamedTuple):
    """The target of an epoch. Only topics count that the member subscribes to now."""

    member_id: str
    epoch: int
    target: TargetAssignment
    subscribed: Collection[bytes]


def next_position(
    group: ConsumerGroup, at: Position, aim: Target, owned: Owned, *, is_subscription_new: bool
) -> Position:
    """The position of a member after this heartbeat, or `at` itself when nothing has changed. Raises Refused."""
    if is_waiting(at, aim, owned):
        return _without_unsubscribed(at, aim, owned) if is_subscription_new else at
    if at.state in (STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS):
        return _step(group, at, aim, owned)
    check_known_state(at, owned)
    return _step(group, at, aim, owned)


def is_waiting(at: Position, aim: Target, owned: Owned) -> bool:
    """Whether a member makes no step: it is at its target, or has a pending revocation.

    Then it loses only topics that it does not subscribe to any more.
    """
    if at.state == STABLE:
        return at.epoch == aim.epoch
    return at.state == UNREVOKED_PARTITIONS and still_owns(owned, at.revoking)


def check_known_state(at: Position, owned: Owned) -> None:
    """A member with an unknown state must have no partitions. Raises Refused."""
    if at.state not in (STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS) and (owned is None or list(owned)):
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )


def still_owns(owned: Owned, revoking: CurrentAssignment) -> bool:
    """Whether a member may still have any of these partitions. A member that does not send its partitions may."""
    if owned is None:
        return True
    given_up = {topic_id: partitions for topic_id, partitions, _ in revoking} if owned else {}
    sets: dict[bytes, frozenset[int]] = {}
    for one in owned:
        its = given_up.get(one.topic_id)
        if its is None:
            continue
        if len(its) == 1:
            if its[0] in one.partitions:
                return True
            continue
        among = sets.get(one.topic_id)
        if among is None:
            among = sets[one.topic_id] = frozenset(its)
        if not among.isdisjoint(one.partitions):
            return True
    return False


def _step(group: ConsumerGroup, at: Position, aim: Target, owned: Owned) -> Position:
    """Compare what a member has with its target. Kafka: computeNextAssignment."""
    # A member may have 10,000 topics: a row without changes is reused.
    subscribed = aim.subscribed
    targets = {topic_id: its for topic_id, its in aim.target if topic_id in subscribed}
    if not at.assigned and group.holders.keys().isdisjoint(targets):  # most members begin so
        return _at(
            at, aim, ALL_FREE if targets else COMPLETE, assigned_since(tuple(targets.items()), aim.epoch), NOTHING
        )
    assigned: dict[bytes, Row] = {}
    revoking: list[Row] = []
    for row in at.assigned:
        target = targets.get(row[0])
        if target is None:
            revoking.append(row)
        elif target == row[1]:
            assigned[row[0]] = row
        else:
            _share_out(row, target, assigned, revoking)
    if revoking and still_owns(owned, tuple(revoking)):
        return _at(at, aim, TO_REVOKE, tuple(assigned.values()), tuple(revoking))
    has_new = has_unreleased = False
    holders = group.holders
    made: list[Row] = []
    for topic_id, target in targets.items():
        had = assigned.get(topic_id)
        if had is not None and had[1] == target:
            # One tuple for both, where they are equal: the tuple stays as long as the member.
            made.append(had if had[1] is target else (topic_id, target, had[2]))
            continue
        if had is None and topic_id not in holders:
            has_new = True
            made.append((topic_id, target, all_since(aim.epoch, len(target))))
            continue
        its = _lacking(target, had)
        free = free_partitions(group, topic_id, its, aim.member_id)
        has_new |= bool(free)
        has_unreleased |= len(free) < len(its)
        if had is None and len(free) == len(target):
            made.append((topic_id, target, all_since(aim.epoch, len(target))))
        elif had is not None or free:
            made.append(_with(topic_id, had, free, aim.epoch))
    found = (SOME_FREE if has_new else NONE_FREE) if has_unreleased else (ALL_FREE if has_new else COMPLETE)
    return _at(at, aim, found, tuple(made), NOTHING)


def _share_out(row: Row, target: Sequence[int], assigned: dict[bytes, Row], revoking: list[Row]) -> None:
    """Divide a member's partitions of a topic into those that it keeps, and those that it has to give up."""
    topic_id, partitions, epochs = row
    wanted = frozenset(target)
    kept = [one for one in zip(partitions, epochs, strict=True) if one[0] in wanted]
    lost = [one for one in zip(partitions, epochs, strict=True) if one[0] not in wanted]
    if kept:
        assigned[topic_id] = row_of(topic_id, kept)
    if lost:
        revoking.append(row_of(topic_id, lost))


def _lacking(target: tuple[int, ...], had: Row | None) -> Sequence[int]:
    if had is None:
        return target
    its = frozenset(had[1])
    return [one for one in target if one not in its]


def _with(topic_id: bytes, had: Row | None, new: Sequence[int], epoch: int) -> Row:
    """The row of a member's topic with these further partitions, assigned at this epoch."""
    pairs = [(one, epoch) for one in new]
    if had is not None:
        pairs = sorted([*zip(had[1], had[2], strict=True), *pairs])
    return row_of(topic_id, pairs)


def _at(at: Position, aim: Target, found: str, assigned: CurrentAssignment, revoking: CurrentAssignment) -> Position:
    state, is_there = AFTER[found]
    return Position(aim.epoch if is_there else at.epoch, at.epoch, state, assigned, revoking)


def _without_unsubscribed(at: Position, aim: Target, owned: Owned) -> Position:
    """The subscription has changed without a new target: topics that it does not cover are given up at once.

    Kafka: updateCurrentAssignment.
    """
    dropped = tuple([row for row in at.assigned if row[0] not in aim.subscribed])
    if not dropped and (aim.subscribed or at.revoking):
        return at
    kept = tuple([row for row in at.assigned if row[0] in aim.subscribed])
    to_revoke = dropped
    if at.revoking:
        revoking = epochs_of(at.revoking)
        for topic_id, epochs in epochs_of(dropped).items():
            revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
        to_revoke = current_assignment(revoking)
    if still_owns(owned, to_revoke):
        return Position(at.epoch, at.epoch, UNREVOKED_PARTITIONS, kept, to_revoke)
    return at._replace(previous_epoch=at.epoch, assigned=kept)
