"""One step of a member towards its target: the decision, and its record (Kafka: CurrentAssignmentBuilder).

`next_position` has the rule that no partition has two owners. So a member gets no partition that another member has, or
is still giving up. The replay of the record moves the member (`ConsumerGroup.update_position`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import history, replay
from muster.coordinator.groups.consumer.group import ConsumerGroup, free_partitions
from muster.coordinator.groups.consumer.member import (
    AFTER,
    ALL_FREE,
    COMPLETE,
    NONE_FREE,
    NOTHING,
    REVOCATION,
    SOME_FREE,
    STABLE,
    TO_REVOKE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    CurrentAssignment,
    Position,
    Row,
    TargetAssignment,
    all_since,
    assigned_since,
    current_assignment,
    epochs_of,
    row_of,
    start_timer,
    stop_timer,
)
from muster.coordinator.groups.consumer.topics import existing_topics
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

Owned = Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None
"""The partitions that a member says it owns. None when the heartbeat does not have this field."""


class Target(NamedTuple):
    """The target of a member in an epoch. `subscribed`: the ids of topics that the member subscribes to now."""

    member_id: str
    epoch: int
    target: TargetAssignment
    subscribed: Collection[bytes]


def maybe_reconcile(
    step: Step,
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    *,
    is_subscription_new: bool,
) -> None:
    """Move a member one step nearer to its target."""
    position, epoch = member.position, group.assignment_epoch
    if not position.epoch and group.lacks_targets() and member.description.classic is None:
        return  # the member waits for the first targets
    if not is_subscription_new and member.is_reconciled_to(epoch):
        return
    subscribed = existing_topics(group, step.state.image).ids_of(group, member.description)
    target_state = Target(member.member_id, epoch, group.targets.get(member.member_id, NOTHING), subscribed)
    owned = request.topic_partitions
    after = next_position(group, position, target_state, owned, is_subscription_new=is_subscription_new)
    if after == position:
        return
    if is_waiting(position, target_state, owned):
        tables = kafka_order.without_topics(position.assigned), kafka_order.without_topics(position.revoking)
    else:
        tables = (
            kafka_order.stepped(position.assigned, after.assigned, group.target_rows(member.member_id)),
            kafka_order.stepped(position.assigned, after.revoking, group.target_rows(member.member_id)),
        )
    replay.record_current(step, group, member, after, *tables)
    history.position_changed(step, group, member, position)
    if member.description.classic is None:
        update_revocation_timer(step, member)


def update_revocation_timer(step: Step, member: ConsumerMember) -> None:
    """Start the timer of a member's pending revocation, or stop the timer when no revocation is pending."""
    deadlines = step.state.deadlines
    if member.position.state == UNREVOKED_PARTITIONS:
        start_timer(deadlines, member, REVOCATION, step.now.mono_ms + member.description.rebalance_timeout_ms)
    else:
        stop_timer(deadlines, member, REVOCATION)


def next_position(
    group: ConsumerGroup, position: Position, target_state: Target, owned: Owned, *, is_subscription_new: bool
) -> Position:
    """The `Position` of the member after this heartbeat; the same object if nothing changes. Raises Refused."""
    if is_waiting(position, target_state, owned):
        return _update_current_assignment(position, target_state, owned) if is_subscription_new else position
    check_known_state(position, owned)
    return _compute_next_assignment(group, position, target_state, owned)


def is_waiting(position: Position, target_state: Target, owned: Owned) -> bool:
    """Whether a member makes no step, because it is at its target, or has a pending revocation. Such a member loses
    only topics that it no longer subscribes to.
    """
    if position.state == STABLE:
        return position.epoch == target_state.epoch
    return position.state == UNREVOKED_PARTITIONS and owns_revoked_partitions(owned, position.revoking)


def check_known_state(position: Position, owned: Owned) -> None:
    """Raise Refused if a member in an unknown state may have partitions."""
    if position.state not in (STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS) and (owned is None or list(owned)):
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )


def owns_revoked_partitions(owned: Owned, revoking: CurrentAssignment) -> bool:
    """Whether a member may still have any of these partitions. `owned` None: the member may have all of these."""
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


def _compute_next_assignment(group: ConsumerGroup, position: Position, target_state: Target, owned: Owned) -> Position:
    """The position after the next step towards the target (Kafka's computeNextAssignment)."""
    # A member may have 10,000 topics, so a row without changes is reused.
    subscribed = target_state.subscribed
    targets = {topic_id: its for topic_id, its in target_state.target if topic_id in subscribed}
    if not position.assigned and group.owners.keys().isdisjoint(targets):  # most members begin without partitions
        return _at(
            position,
            target_state,
            ALL_FREE if targets else COMPLETE,
            assigned_since(tuple(targets.items()), target_state.epoch),
            NOTHING,
        )
    assigned: dict[bytes, Row] = {}
    revoking: list[Row] = []
    for row in position.assigned:
        target = targets.get(row[0])
        if target is None:
            revoking.append(row)
        elif target == row[1]:
            assigned[row[0]] = row
        else:
            _divide(row, target, assigned, revoking)
    if revoking and owns_revoked_partitions(owned, tuple(revoking)):
        return _at(position, target_state, TO_REVOKE, tuple(assigned.values()), tuple(revoking))
    has_new = has_unreleased = False
    owners = group.owners
    made: list[Row] = []
    for topic_id, target in targets.items():
        had = assigned.get(topic_id)
        if had is not None and had[1] == target:
            # The target's tuple is used instead of an equal tuple, to save memory.
            made.append(had if had[1] is target else (topic_id, target, had[2]))
            continue
        if had is None and topic_id not in owners:
            has_new = True
            made.append((topic_id, target, all_since(target_state.epoch, len(target))))
            continue
        its = _lacking(target, had)
        free = free_partitions(group, topic_id, its, target_state.member_id)
        has_new |= bool(free)
        has_unreleased |= len(free) < len(its)
        if had is None and len(free) == len(target):
            made.append((topic_id, target, all_since(target_state.epoch, len(target))))
        elif had is not None or free:
            made.append(_with(topic_id, had, free, target_state.epoch))
    found = (SOME_FREE if has_new else NONE_FREE) if has_unreleased else (ALL_FREE if has_new else COMPLETE)
    return _at(position, target_state, found, tuple(made), NOTHING)


def _divide(row: Row, target: Sequence[int], assigned: dict[bytes, Row], revoking: list[Row]) -> None:
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
    pairs = [(one, epoch) for one in new]
    if had is not None:
        pairs = sorted([*zip(had[1], had[2], strict=True), *pairs])
    return row_of(topic_id, pairs)


def _at(
    position: Position, target_state: Target, found: str, assigned: CurrentAssignment, revoking: CurrentAssignment
) -> Position:
    state, is_there = AFTER[found]
    return Position(target_state.epoch if is_there else position.epoch, position.epoch, state, assigned, revoking)


def _update_current_assignment(position: Position, target_state: Target, owned: Owned) -> Position:
    """Drop topics that are not in the subscription now, before a new target exists: Kafka's updateCurrentAssignment."""
    dropped = tuple([row for row in position.assigned if row[0] not in target_state.subscribed])
    if not dropped and (target_state.subscribed or position.revoking):
        return position
    kept = tuple([row for row in position.assigned if row[0] in target_state.subscribed])
    to_revoke = dropped
    if position.revoking:
        revoking = epochs_of(position.revoking)
        for topic_id, epochs in epochs_of(dropped).items():
            revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
        to_revoke = current_assignment(revoking)
    if owns_revoked_partitions(owned, to_revoke):
        return Position(position.epoch, position.epoch, UNREVOKED_PARTITIONS, kept, to_revoke)
    return position._replace(previous_epoch=position.epoch, assigned=kept)
