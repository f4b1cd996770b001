"""One step of a member towards its target, without a core."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    STABLE,
    START,
    UNKNOWN,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    CurrentAssignment,
    Position,
    current_assignment,
    partition_sets,
    same_partitions,
    target_assignment,
    without_epochs,
)
from muster.coordinator.groups.consumer.reconcile import Target, next_position
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions

T, U = b"T" * 16, b"U" * 16


def held(epoch: int, *partitions: int, topic: bytes = T) -> CurrentAssignment:
    return current_assignment({topic: dict.fromkeys(partitions, epoch)})


def owned(*partitions: int, topic: bytes = T) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [ConsumerGroupHeartbeatRequestTopicPartitions(topic, list(partitions))]


def aim(epoch: int, *partitions: int, subscribed: tuple[bytes, ...] = (T, U)) -> Target:
    return Target("A", epoch, target_assignment({T: partitions}), subscribed)


def group(**holders: str) -> ConsumerGroup:
    """A group in which p3="B" means that B has partition 3 of T."""
    made = ConsumerGroup("g")
    made.owners[T] = {int(name[1:]): who for name, who in holders.items()}
    return made


def step(present: ConsumerGroup, at: Position, to: Target, has: object = None, *, new: bool = False) -> Position:
    return next_position(present, at, to, has, is_subscription_new=new)


def test_a_member_that_has_its_target_does_not_change() -> None:
    at = Position(3, 2, STABLE, held(3, 0), NOTHING)
    assert step(group(p0="A"), at, aim(3, 0)) is at


def test_a_member_takes_free_partitions_and_waits_for_the_rest() -> None:
    assert step(group(), START, aim(2, 0, 1)) == Position(2, 0, STABLE, held(2, 0, 1), NOTHING)
    some = step(group(p1="B"), START, aim(2, 0, 1))
    assert some == Position(2, 0, UNRELEASED_PARTITIONS, held(2, 0), NOTHING)
    none = step(group(p0="B"), START, aim(2, 0))
    assert none == Position(2, 0, UNRELEASED_PARTITIONS, NOTHING, NOTHING)
    assert step(group(p1="A"), some, aim(2, 0, 1)) == Position(2, 2, STABLE, held(2, 0, 1), NOTHING)


def test_partitions_that_a_member_keeps_keep_their_epoch() -> None:
    at = Position(2, 1, STABLE, held(1, 0), NOTHING)
    assert step(group(p0="A"), at, aim(3, 0, 1)).assigned == current_assignment({T: {0: 1, 1: 3}})


def test_a_member_revokes_partitions_before_it_gets_new_ones() -> None:
    at = Position(2, 1, STABLE, held(2, 0, 1), NOTHING)
    waiting = step(group(p0="A", p1="A"), at, aim(3, 0, 2), owned(0, 1))
    assert waiting == Position(2, 2, UNREVOKED_PARTITIONS, held(2, 0), held(2, 1))
    assert step(group(), waiting, aim(3, 0, 2), owned(0, 1)) is waiting
    assert step(group(), waiting, aim(3, 0, 2)) is waiting  # the heartbeat does not have the field
    done = step(group(), waiting, aim(3, 0, 2), owned(0))
    assert done == Position(3, 2, STABLE, current_assignment({T: {0: 2, 2: 3}}), NOTHING)


def test_partitions_that_a_member_does_not_own_need_no_revocation() -> None:
    at = Position(2, 1, STABLE, held(2, 0, 1), NOTHING)
    assert step(group(), at, aim(3, 0), owned(0)) == Position(3, 2, STABLE, held(2, 0), NOTHING)


def test_a_partition_to_revoke_may_return_to_its_member() -> None:
    waiting = Position(2, 2, UNREVOKED_PARTITIONS, held(2, 0), held(2, 1))
    back = step(group(p0="A", p1="A"), waiting, aim(4, 0, 1), owned(0))
    assert back == Position(4, 2, STABLE, current_assignment({T: {0: 2, 1: 4}}), NOTHING)


def test_topics_that_a_member_no_longer_subscribes_to_are_revoked_at_once() -> None:
    at = Position(2, 1, STABLE, current_assignment({T: {0: 2}, U: {0: 2}}), NOTHING)
    only_t = aim(2, 0, subscribed=(T,))
    waiting = step(group(), at, only_t, new=True)
    assert waiting == Position(2, 2, UNREVOKED_PARTITIONS, held(2, 0), held(2, 0, topic=U))
    assert step(group(), at, only_t, owned(0), new=True) == Position(2, 2, STABLE, held(2, 0), NOTHING)
    assert step(group(), at, aim(2, 0), new=True) is at
    more = step(group(), waiting, aim(2, 0, subscribed=()), owned(0, topic=U), new=True)
    assert more.assigned == NOTHING
    assert more.revoking == current_assignment({T: {0: 2}, U: {0: 2}})


def test_a_member_in_an_unknown_state_is_refused_until_it_owns_nothing_to_revoke() -> None:
    at = Position(2, 1, UNKNOWN, held(2, 0), NOTHING)
    with pytest.raises(Refused) as refused:
        step(group(), at, aim(3, 0), owned(0))
    assert refused.value.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert "in a unknown state" in refused.value.message
    assert step(group(p0="A"), at, aim(3, 0), []) == Position(3, 2, STABLE, held(2, 0), NOTHING)


def test_current_assignments_are_compared_by_value() -> None:
    value = current_assignment({U: {}, T: {2: 5, 0: 4}})
    assert value == ((T, (0, 2), (4, 5)),)
    assert partition_sets(value) == {T: {0, 2}}
    assert without_epochs(value) == ((T, (0, 2), (0, 0)),)
    assert same_partitions(value, without_epochs(value))
    assert not same_partitions(value, NOTHING)
