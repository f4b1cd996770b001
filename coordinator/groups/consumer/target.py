"""The target assignment of a group: who is to own what in a new epoch. Asked for by a heartbeat, never by time.

A small one is computed at once. A large one is computed elsewhere: it goes out with the replies, and its result comes
back as a command; meanwhile members are answered as within `group.consumer.assignment.interval.ms`, by the targets that
are in force. Only who has no epoch yet waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from muster.assignors.assignor import Assignment
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.assignors.java_order import string_order
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import history, kafka_order, records
from muster.coordinator.groups.consumer.assignments import NOTHING, TargetAssignment, target_assignment
from muster.coordinator.groups.consumer.assignors import names_of
from muster.coordinator.groups.consumer.commands import AssignmentWanted
from muster.coordinator.groups.consumer.existing import existing
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import Description
from muster.coordinator.groups.consumer.prepared_target import RANGE, PreparedTarget, Ranges
from muster.coordinator.state_machine.interface import Record

UNIFORM: Final = "uniform"
NOT_READY: Final = (None, None, None)
AT_ONCE: Final = 500
"""Members and partitions of a target that is computed on the spot: some 2 ms."""
NAMES_AS_A_MEMBER: Final = 8
"""Names of different subscriptions that count for one of these, be there such topics or not."""


def bring_up_to_date(
    step: Step,
    group: ConsumerGroup,
    wish: str | None = None,
    newcomer: str | None = None,
    *,
    is_alike: bool | None = None,
    since_ms: int | None = None,
) -> None:
    """Compute the targets of the group's epoch, or have it done, if they are older and it is time. `wish`: the assignor
    that the member wants which has just spoken; `newcomer`: who joins by this request; `is_alike`: whether all
    subscribe alike as Kafka counts now, None: as it last counted; `since_ms`: see `AssignmentWanted`.
    """
    if group.assignment_epoch >= group.epoch or group.computing_epoch or not _is_due(step, group):
        return
    topics = existing(group, step.state.image)
    wanted = wanted_assignment(step, group, wish, newcomer, is_alike=group.is_alike if is_alike is None else is_alike)
    helpers = step.state.helpers
    size = len(wanted.said) + topics.partitions + group.named // NAMES_AS_A_MEMBER
    if helpers is None or (size <= AT_ONCE and wanted.assignor in SERVER_ASSIGNORS):
        made = wanted.assign(SERVER_ASSIGNORS[wanted.assignor])
        apply(step, group, wanted, made, newcomer)
        return
    if since_ms is not None:
        wanted.since_ms = since_ms
    group.computing_epoch = group.epoch
    history.wanted(step, group)
    step.reply(helpers.compute, wanted)


def is_too_early(step: Step, group: ConsumerGroup, wanted: AssignmentWanted) -> bool:
    """Whether the first targets of a group, which are there now, are not worth being put in force: more members have
    come meanwhile, and wait for them. Who was alone would be given all there is, and have to give it up a moment later.
    That goes on no longer than an assignment is good for.
    """
    return (
        group.lacks_targets()
        and len(group.members) > len(wanted.said)
        and step.now.mono_ms < wanted.since_ms + step.state.configs.of(group.group_id).assignment_interval_ms
    )


def _is_due(step: Step, group: ConsumerGroup) -> bool:
    interval_ms = step.state.configs.of(group.group_id).assignment_interval_ms
    return not group.assignment_ms or not interval_ms or step.now.wall_ms >= group.assignment_ms + interval_ms


def wanted_assignment(
    step: Step, group: ConsumerGroup, wish: str | None = None, newcomer: str | None = None, *, is_alike: bool = True
) -> AssignmentWanted:
    """All that an assignor needs; members in the order in which Kafka comes to them."""
    members = group.members
    said = [(member_id, members[member_id].said) for member_id in _in_order(group, newcomer)]
    assignor = preferred_assignor(group, step.state.settings, wish)
    return AssignmentWanted(
        group.group_id,
        group.epoch,
        assignor,
        said,
        existing(group, step.state.image).names,
        step.state.image,
        dict(group.targets),
        dict(group.resolved),
        group.waiting,
        step.now.mono_ms,
        is_general=assignor == UNIFORM and not is_alike,
    )


def _in_order(group: ConsumerGroup, newcomer: str | None) -> list[str]:
    ids = group.member_ids()
    if newcomer is not None:
        ids.remove(newcomer)
        ids.append(newcomer)
    return ids


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings, wish: str | None = None) -> str:
    """The one that most members wish for. Of several the first as Java walks its table; but for an assignment it is the
    `wish` of the member that brings it about, if nobody else has it: Kafka takes it out of the table and puts it back
    in front. In a log that came from elsewhere members may wish for one that is not there.
    """
    there = names_of(settings.group_consumer_assignors)
    counts = {name: count for name, count in group.assignors.items() if name in there}
    if not counts:
        return there[0]
    most = max(counts.values())
    if most == 1 and wish in counts:
        return str(wish)
    return next(name for name in string_order(counts) if counts[name] == most)


def apply(
    step: Step,
    group: ConsumerGroup,
    wanted: AssignmentWanted,
    assignment: Assignment,
    newcomer: str | None = None,
    prepared_target: PreparedTarget | None = None,
) -> int:
    """The targets are these now: a record for each member whose target is another, then the epoch. All of them are one
    batch: if that is too large, the targets that are in force stay. Returns of how many topics it wrote.
    """
    image, targets = step.state.image, group.targets
    made, changes = [], []
    order: Sequence[str]
    shares: Mapping[str, TargetAssignment] | None = None
    ready: Mapping[str, tuple[TargetAssignment | None, Description, Record]] = {}
    ranges = Ranges(wanted, group.resolved)
    if prepared_target is not None and prepared_target.holds(group, image):
        order, shares, ready = prepared_target.order, prepared_target.shares, prepared_target.records
    else:
        # who has left while targets were computed has none any more, and who has joined has none yet
        present = [member_id for member_id, _ in wanted.said if member_id in group.members]
        order = string_order([*present, *group.members])
    for member_id in order:
        share = _share(assignment.get(member_id, {}), image) if shares is None else shares[member_id]
        before = targets.get(member_id)
        is_another = share is not before and share != before
        if is_another:
            changes.append((member_id, before or NOTHING, share))
        # as Kafka, which does not look at what a newcomer has from its predecessor
        if is_another or member_id == newcomer:
            then, said_then, record = ready.get(member_id, NOT_READY)
            said = group.members[member_id].said
            is_range = wanted.assignor == RANGE
            # a range's tables depend on what the member subscribes to by now
            if record is None or then is not before or (is_range and (said_then is not said or said.pattern)):
                tables = ranges.of(said) if is_range else kafka_order.changed(before or NOTHING)
                record = records.target(group.group_id, member_id, share, tables)
            made.append(record)
    epoch = records.target_epoch(group.group_id, wanted.epoch, step.now.wall_ms)
    if not records.is_more_than_fits(step, [*made, epoch]):
        records.record_targets(step, group, made, [(member_id, share) for member_id, _, share in changes])
        step.record(epoch)
        history.assigned(step, group, wanted.assignor, changes)
    return sum([len(share) for _, _, share in changes])


def _share(partitions: Mapping[str, Collection[int]], image: TopicsImage) -> TargetAssignment:
    by_name = image.by_name
    return target_assignment({by_name[name].topic_id: its for name, its in partitions.items() if name in by_name})
