"""One step of a member towards its target: what it gives up first, what it gets then. Decides; changes nothing.

The rule that no partition has two owners stands here: a member only gets what nobody else has or is giving up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.group import ConsumerGroup, is_free
from muster.coordinator.groups.consumer.member import Position
from muster.coordinator.groups.consumer.partitions import (
    NOTHING,
    Epochs,
    Held,
    Share,
    epochs_of,
    held_of,
    partition_sets,
)
from muster.coordinator.groups.consumer.states import (
    AFTER,
    ALL_FREE,
    COMPLETE,
    NONE_FREE,
    SOME_FREE,
    STABLE,
    TO_REVOKE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions

Owned = Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None
"""What a member says that it owns; None when it does not say it."""


class Aim(NamedTuple):
    """Where a member is to come: the target of an epoch, of which only topics count that it subscribes to now."""

    member_id: str
    epoch: int
    target: Share
    subscribed: Collection[bytes]


def next_position(group: ConsumerGroup, at: Position, aim: Aim, owned: Owned, *, is_subscription_new: bool) -> Position:
    """Where a member is after this heartbeat; `at` itself when nothing has changed. Raises Refused."""
    if is_waiting(at, aim, owned):
        return _without_unsubscribed(at, aim, owned) if is_subscription_new else at
    if at.state in (STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS):
        return _step(group, at, aim, owned)
    check_known_state(at, owned)
    return _step(group, at, aim, owned)


def is_waiting(at: Position, aim: Aim, owned: Owned) -> bool:
    """Whether a member makes no step: it is at its target, or has still to give up what it was told to. Then only what
    it does not subscribe to any more is taken away.
    """
    if at.state == STABLE:
        return at.epoch == aim.epoch
    return at.state == UNREVOKED_PARTITIONS and still_owns(owned, at.revoking)


def check_known_state(at: Position, owned: Owned) -> None:
    """A member whose state is not known must have nothing. Raises Refused."""
    if at.state not in (STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS) and (owned is None or list(owned)):
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )


def still_owns(owned: Owned, revoking: Held) -> bool:
    """Whether a member has, for all that it says, any of these partitions; one that says nothing may."""
    if owned is None:
        return True
    given_up = partition_sets(revoking)
    return any(not given_up[one.topic_id].isdisjoint(one.partitions) for one in owned if one.topic_id in given_up)


def _step(group: ConsumerGroup, at: Position, aim: Aim, owned: Owned) -> Position:
    """Compare what a member has with its target. Kafka: computeNextAssignment."""
    targets = {topic_id: set(partitions) for topic_id, partitions in aim.target if topic_id in aim.subscribed}
    assigned: dict[bytes, Epochs] = {}
    revoking: dict[bytes, Epochs] = {}
    for topic_id, epochs in epochs_of(at.assigned).items():
        wanted = targets.get(topic_id, ())
        assigned[topic_id] = {one: epoch for one, epoch in epochs.items() if one in wanted}
        revoking[topic_id] = {one: epoch for one, epoch in epochs.items() if one not in wanted}
    to_revoke = held_of(revoking)
    if to_revoke and still_owns(owned, to_revoke):
        return _at(at, aim, TO_REVOKE, held_of(assigned), to_revoke)
    has_new = has_unreleased = False
    for topic_id, target in targets.items():
        has = assigned.setdefault(topic_id, {})
        for partition in target - has.keys():
            if is_free(group, topic_id, partition, aim.member_id):
                has[partition] = aim.epoch
                has_new = True
            else:
                has_unreleased = True
    found = (SOME_FREE if has_new else NONE_FREE) if has_unreleased else (ALL_FREE if has_new else COMPLETE)
    return _at(at, aim, found, held_of(assigned), NOTHING)


def _at(at: Position, aim: Aim, found: str, assigned: Held, revoking: Held) -> Position:
    state, is_there = AFTER[found]
    return Position(aim.epoch if is_there else at.epoch, at.epoch, state, assigned, revoking)


def _without_unsubscribed(at: Position, aim: Aim, owned: Owned) -> Position:
    """The subscription has changed, and no new target is there: what it does not cover any more is given up at once.
    Kafka: updateCurrentAssignment.
    """
    assigned, revoking = epochs_of(at.assigned), epochs_of(at.revoking)
    dropped = [topic_id for topic_id in assigned if topic_id not in aim.subscribed]
    if not dropped and (aim.subscribed or at.revoking):
        return at
    for topic_id in dropped:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **assigned.pop(topic_id)}
    to_revoke = held_of(revoking)
    if still_owns(owned, to_revoke):
        return Position(at.epoch, at.epoch, UNREVOKED_PARTITIONS, held_of(assigned), to_revoke)
    return at._replace(previous_epoch=at.epoch, assigned=held_of(assigned))
