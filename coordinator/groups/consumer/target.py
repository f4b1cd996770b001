"""The target assignment of a group in a new epoch. Heartbeats cause the computation of a target; time alone never does.

A small target is computed in the heartbeat. A large target is computed in the background: the request leaves with the
replies, and the result is a command. Meanwhile answers follow the targets in force. Only members without an epoch wait
for the result (`prepared_target`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.assignors.java_order import FEW_LETTERS, string_hash, string_order
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import history, records, replay
from muster.coordinator.groups.consumer.checks import names_of
from muster.coordinator.groups.consumer.commands import AssignmentWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import NOTHING, TargetAssignment, target_assignment
from muster.coordinator.groups.consumer.prepared_target import UNIFORM, PreparedTarget, prepare
from muster.coordinator.groups.consumer.topics import existing_topics

_DESCRIPTION: Final = attrgetter("description")
NOT_READY: Final = (None, None)
AT_ONCE: Final = 500
"""A target of up to this many members and partitions is computed in the heartbeat, in some 2 ms."""
NAMES_AS_A_MEMBER: Final = 8
"""This many names in different subscriptions count as one member, whether the topics exist or not."""


def bring_up_to_date(
    step: Step,
    group: ConsumerGroup,
    wish: str | None = None,
    newcomer: str | None = None,
    *,
    is_alike: bool | None = None,
    since_ms: int | None = None,
) -> None:
    """Compute or request the targets of the group's epoch, if older targets are in force and the interval is over.

    `wish`: the assignor that the sender asks for. `newcomer`: whether the sender joins by this request. `is_alike`:
    whether Kafka treats all subscriptions as equal; None: `group.is_alike`. `since_ms`: see `AssignmentWanted`.
    """
    if newcomer is not None and len(newcomer) > FEW_LETTERS:
        string_hash(newcomer)  # the hash is cached, so a target never has to hash thousands of new ids at once
    if group.assignment_epoch >= group.epoch or group.computing_epoch or not _is_due(step, group):
        return
    topics = existing_topics(group, step.state.image)
    wanted = wanted_assignment(step, group, wish, newcomer, is_alike=group.is_alike if is_alike is None else is_alike)
    helpers = step.state.helpers
    size = len(wanted.descriptions) + topics.partitions + group.named // NAMES_AS_A_MEMBER
    if helpers is None or (size <= AT_ONCE and wanted.assignor in SERVER_ASSIGNORS):
        apply(step, group, wanted, prepare(wanted, SERVER_ASSIGNORS[wanted.assignor]))
        return
    if since_ms is not None:
        wanted.since_ms = since_ms
    group.computing_epoch = group.epoch
    history.target_requested(step, group)
    step.reply(helpers.compute, wanted)


def is_too_early(step: Step, group: ConsumerGroup, wanted: AssignmentWanted) -> bool:
    """Whether to drop computed first targets, because more members have joined meanwhile and wait.

    Otherwise the first member would get all partitions, and have to give up most of them a moment later. Targets are
    dropped during at most one assignment interval.
    """
    return (
        group.lacks_targets()
        and len(group.members) > len(wanted.descriptions)
        and step.now.mono_ms < wanted.since_ms + step.state.configs.of(group.group_id).assignment_interval_ms
    )


def _is_due(step: Step, group: ConsumerGroup) -> bool:
    interval_ms = step.state.configs.of(group.group_id).assignment_interval_ms
    return not group.assignment_ms or not interval_ms or step.now.wall_ms >= group.assignment_ms + interval_ms


def wanted_assignment(
    step: Step, group: ConsumerGroup, wish: str | None = None, newcomer: str | None = None, *, is_alike: bool = True
) -> AssignmentWanted:
    """The input of an assignor, with the members in the order in which Kafka iterates over them."""
    ids = _in_order(group, newcomer)
    members = map(group.members.__getitem__, ids)
    assignor = preferred_assignor(group, step.state.settings, wish)
    return AssignmentWanted(
        group.group_id,
        group.epoch,
        assignor,
        list(zip(ids, map(_DESCRIPTION, members), strict=True)),
        existing_topics(group, step.state.image).names,
        step.state.image,
        dict(group.targets),
        dict(group.orders),
        dict(group.resolved),
        group.waiting,
        step.now.mono_ms,
        is_general=assignor == UNIFORM and not is_alike,
        are_equal=_are_equal(group),
        equal=group.equal_targets,
    )


def _are_equal(group: ConsumerGroup) -> bool:
    if len(group.subscriptions) > 1 or len(group.patterns) > 1:
        return False
    counts = [*[count for _, count in group.subscriptions.values()], *group.patterns.values()]
    return bool(counts) and min(counts) == len(group.members)


def _in_order(group: ConsumerGroup, newcomer: str | None) -> list[str]:
    ids = group.member_ids()
    if newcomer is not None:
        ids.remove(newcomer)
        ids.append(newcomer)
    return ids


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings, wish: str | None = None) -> str:
    """The assignor that most members ask for. If several have equally many members, the first in Java's table is
    chosen. But if no assignor has two members, `wish` is chosen: Kafka inserts `wish` at the head. Assignors that this
    server does not have are ignored: a log of another cluster may name them.
    """
    there = names_of(settings.group_consumer_assignors)
    if not group.assignors:  # no member asks for an assignor, as usual
        return there[0]
    counts = {name: count for name, count in group.assignors.items() if name in there}
    if not counts:
        return there[0]
    most = max(counts.values())
    if most == 1 and wish in counts:
        return str(wish)
    return next(name for name in string_order(counts) if counts[name] == most)


def apply(step: Step, group: ConsumerGroup, wanted: AssignmentWanted, prepared: PreparedTarget) -> int:
    """Put these targets in force, in one batch: a record for each member with a new target, then the epoch. If the
    batch is too large, the old targets stay in force. Returns the number of topics in the records.
    """
    image, targets, members = step.state.image, group.targets, group.members
    made, changes, recorded = [], [], []
    order: Sequence[str]
    has_same_topics = prepared.image.version == image.version
    member_targets, ready = prepared.member_targets, prepared.records
    if prepared.has_all(members):
        order = prepared.order
        if has_same_topics and targets == wanted.targets:
            order = list(filter(ready.__contains__, order))
    else:
        # A member that left during the computation gets no target. A member that joined has no target yet.
        present = [member_id for member_id, _ in wanted.descriptions if member_id in members]
        order = string_order([*present, *members])
    for member_id in order:
        member_target = member_targets.get(member_id, NOTHING)
        if not has_same_topics and member_target:  # thousands may have joined meanwhile, without a target
            member_target = target_assignment(dict(_of_image(member_target, prepared.image, image)))
        before = targets.get(member_id)
        is_another = member_target is not before and member_target != before
        if is_another:
            changes.append((member_id, before or NOTHING, member_target))
            then, record = ready.get(member_id, NOT_READY)
            rows = prepared.rows.get(member_id, member_target)
            if not has_same_topics:
                rows = _of_image(rows, prepared.image, image)
            if record is None or not has_same_topics or then is not before:
                record = records.target(group.group_id, member_id, rows)
            made.append(record)
            recorded.append((member_id, member_target, rows))
    group.equal_targets = prepared.equal
    epoch = records.target_epoch(group.group_id, wanted.epoch, step.now.wall_ms)
    if not records.is_more_than_fits(step, [*made, epoch]):
        replay.record_targets(step, group, made, recorded)
        step.record(epoch)
        history.target_assigned(step, group, wanted.assignor, changes)
    return sum([len(member_target) for _, _, member_target in changes])


def _of_image(member_target: TargetAssignment, then: TopicsImage, now: TopicsImage) -> TargetAssignment:
    """The same topics by name and order in a later image, without those that do not exist any more."""
    named = [(now.by_name.get(then.by_id[topic_id].name), partitions) for topic_id, partitions in member_target]
    return tuple([(topic.topic_id, its) for topic, its in named if topic is not None])
