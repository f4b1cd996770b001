"""A consumer group becomes a classic group, when it has no members, or only classic members stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.coordinator.groups.classic import join, rebalance
from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import STABLE, ClassicGroup
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.state import Step, tombstone, tombstones
from muster.coordinator.groups.consumer import classic_members, history
from muster.coordinator.groups.consumer.commands import Downgrade, Joined
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import NOTHING, ConsumerMember, assigned_since, trigger_of
from muster.coordinator.state_machine.interface import Record
from muster.protocol.messages.join_group import JoinGroupRequest

_DOWNGRADES: Final = ("downgrade", "bidirectional")


def join_consumer_group(step: Step, command: JoinCommand, request: JoinGroupRequest, group: ConsumerGroup) -> None:
    """Answer a JoinGroup to a consumer group. A group without members becomes a classic group."""
    if group.members and not join.request_error(step, request):
        classic_members.join(step, command, request, group)  # type: ignore[arg-type]  # it has the fields of `_Join`
    else:
        join.create_group(step, command, request, group)


def _may_downgrade(step: Step, group: ConsumerGroup, going: Sequence[ConsumerMember], joining: int = 0) -> bool:
    """Whether only classic members stay, and not too many, if the members `going` leave and `joining` members join."""
    settings, gone = step.state.settings, {one.member_id: one.description.classic for one in going}
    staying = len(group.members) - len(gone)
    classic = group.classic_count - sum(one is not None for one in gone.values())
    return (
        staying + joining > 0
        and staying == classic
        and settings.group_consumer_migration_policy.lower() in _DOWNGRADES
        and staying + joining <= settings.group_max_size
    )


def _downgrade_after_leave(step: Step, group: ConsumerGroup, leaving: Sequence[ConsumerMember], cause: str) -> None:
    gone = {one.member_id for one in leaving}
    staying = [group.members[one] for one in group.member_ids() if one not in gone]
    made = _classic_group(step, group, staying, group.epoch)
    first = staying[0].description.classic
    assert first is not None
    # The history needs the assignments that the rebalance replaces.
    image, metadata = step.state.image, first.protocols[0][1]
    made.departed = {one.member_id: classic_members.encoded(metadata, one.position.assigned, image) for one in leaving}
    _replace(step, made, tombstones(group))
    trigger = trigger_of(leaving[0].member_id, leaving[0])
    history.downgraded(step, group, len(staying), cause, trigger)
    rebalance.begin(step, made, cause, trigger)


def _downgrade_after_join(step: Step, group: ConsumerGroup, joined: Joined) -> None:
    joiner = group.members[joined.member_id]
    staying = [group.members[one] for one in joined.member_ids if one != joined.replaced_id]
    made = _classic_group(step, group, [*staying, joiner], joined.epoch)
    names = {joined.replaced_id: joined.member_id}
    keys = group.record_keys([names.get(one, one) for one in joined.member_ids])
    _replace(step, made, [tombstone(key) for key in keys])
    history.downgraded(step, group, len(made.members), events.STATIC_MEMBER_BACK, None)
    if joined.is_stale:
        rebalance.begin(step, made, events.STATIC_MEMBER_BACK, trigger_of(joiner.member_id, joiner))


DOWNGRADE: Final = Downgrade(_may_downgrade, _downgrade_after_leave, _downgrade_after_join)


def _classic_group(
    step: Step, group: ConsumerGroup, members: Sequence[ConsumerMember], generation: int
) -> ClassicGroup:
    made = ClassicGroup(group.group_id, step.now.wall_ms)
    made.state, made.generation, made.protocol_type = STABLE, generation, group.protocol_type
    for one in members:
        description = one.description
        assert description.classic is not None
        made.add(
            Member(
                group.group_id,
                one.member_id,
                description.instance_id,
                description.client_id,
                description.client_host,
                description.rebalance_timeout_ms,
                description.classic.session_timeout_ms,
                description.classic.protocols,
                b"",
            )
        )
    made.protocol_name = made.vote()
    for one in members:
        target = assigned_since(group.targets.get(one.member_id, NOTHING), 0)
        member = made.members[one.member_id]
        member.assignment = classic_members.encoded(member.metadata(made.protocol_name), target, step.state.image)
    return made


def _replace(step: Step, made: ClassicGroup, removed: list[Record]) -> None:
    step.record_all(removed)
    step.state.groups[made.group_id] = made
    step.record(classic_records.group_metadata(made))
    made.note_subscriptions()
    for member in made.members.values():
        rebalance.restart_session(step, member)
