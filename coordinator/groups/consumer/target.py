"""The target assignment of a group in a new epoch. Heartbeats cause the computation of a target; time alone never does.

A small target is computed in the heartbeat. A large target is computed in the background: the request leaves with the
replies, and the result is a command. Meanwhile answers follow the targets in force. Only members without an epoch wait
for the result. The thread also prepares the order of the members, each target by topic id, and each target's record.
For 1,000 members this preparation is most of the work to put a target in force.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from muster.assignors.assignor import Assignment
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.assignors.java_order import FEW_LETTERS, string_hash, string_order
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.kafka_order import Tables
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import Step, with_bytes
from muster.coordinator.groups.consumer import history, records, replay
from muster.coordinator.groups.consumer.checks import names_of
from muster.coordinator.groups.consumer.commands import AssignmentComputed, AssignmentWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup, topics_of
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    Description,
    Resolved,
    TargetAssignment,
    target_assignment,
)
from muster.coordinator.groups.consumer.topics import existing_topics
from muster.coordinator.state_machine.interface import Record

RANGE: Final = "range"


class PreparedTarget(NamedTuple):
    """A computed target, valid while the topics do not change. `order` is valid while the members do not change."""

    image_version: int
    order: Sequence[str]
    """Member ids in the order of the records."""
    member_targets: Mapping[str, TargetAssignment]
    records: Mapping[str, tuple[TargetAssignment | None, Description, Record]]
    """For each member with a new target: the old target, the description, and the record of the new target."""

    def has_all(self, members: Collection[str]) -> bool:
        """Whether the group still has the same members."""
        return len(members) == len(self.order) and all(map(members.__contains__, self.order))


class Ranges:
    """The hash tables in which Kafka's "range" makes a member's new target, as they depend on the member's topics."""

    __slots__ = ("_known", "_resolved", "_wanted")

    def __init__(self, wanted: AssignmentWanted, resolved: Mapping[str, Resolved]) -> None:
        """`resolved`: the topics of patterns."""
        self._wanted = wanted
        self._resolved = resolved
        self._known: dict[tuple[int, str | None], Tables] = {}

    def of(self, description: Description) -> Tables:
        """The tables of a member with this description, which must stay alive as long as this object."""
        key = id(description.topics), description.pattern
        found = self._known.get(key)
        if found is None:
            topics = self._wanted.topics
            count = sum([name in topics for name in topics_of(description, self._resolved)])
            found = self._known[key] = kafka_order.ranges(count)
        return found


def _is_unchanged(
    before: TargetAssignment, given: Mapping[str, Collection[int]], by_id: Mapping[bytes, TopicImage]
) -> bool:
    """Whether an assignment by name is the target that the member has. Most members keep their target."""
    if len(given) != len(before):
        return False
    for topic_id, partitions in before:
        topic = by_id.get(topic_id)
        if topic is None or tuple(given.get(topic.name, ())) != partitions:
            return False
    return True


def prepare_target(wanted: AssignmentWanted, assignment: Assignment) -> AssignmentComputed:
    """Prepare a computed target. Call this function in a thread."""
    topics, targets = wanted.topics, wanted.targets
    nothing: dict[str, list[int]] = {}
    member_targets: dict[str, TargetAssignment] = {}
    made: dict[str, tuple[TargetAssignment | None, Description, Record]] = {}
    ranges = Ranges(wanted, wanted.resolved)
    by_id = wanted.image.by_id
    for member_id, description in wanted.descriptions:
        given, before = assignment.get(member_id, nothing), targets.get(member_id)
        if before is not None and _is_unchanged(before, given, by_id):
            member_targets[member_id] = before
            continue
        member_target = target_assignment({topics[name].topic_id: its for name, its in given.items()})
        if before is not None and member_target == before:
            member_target = before  # an unchanged target stays the same object, which makes comparisons fast
        else:
            tables = ranges.of(description) if wanted.assignor == RANGE else kafka_order.changed(before or NOTHING)
            record = records.target(wanted.group_id, member_id, member_target, tables)
            made[member_id] = before, description, with_bytes(record)
        member_targets[member_id] = member_target
    order = string_order(member_targets)
    return AssignmentComputed(wanted, assignment, PreparedTarget(wanted.image.version, order, member_targets, made))


UNIFORM: Final = "uniform"
_DESCRIPTION: Final = attrgetter("description")
NOT_READY: Final = (None, None, None)
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
        made = wanted.assign(SERVER_ASSIGNORS[wanted.assignor])
        apply(step, group, wanted, made)
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


def apply(
    step: Step,
    group: ConsumerGroup,
    wanted: AssignmentWanted,
    assignment: Assignment,
    prepared_target: PreparedTarget | None = None,
) -> int:
    """Put these targets in force, in one batch: a record for each member with a new target, then the epoch. If the
    batch is too large, the old targets stay in force. Returns the number of topics in the records.
    """
    image, targets, members = step.state.image, group.targets, group.members
    made, changes = [], []
    order: Sequence[str]
    member_targets: Mapping[str, TargetAssignment] = {}
    ready: Mapping[str, tuple[TargetAssignment | None, Description, Record]] = {}
    ranges = Ranges(wanted, group.resolved)
    if prepared_target is not None and prepared_target.image_version == image.version:
        member_targets, ready = prepared_target.member_targets, prepared_target.records
    if prepared_target is not None and prepared_target.has_all(members):
        order = prepared_target.order
        if member_targets and targets == wanted.targets:
            order = list(filter(ready.__contains__, order))
    else:
        # A member that left during the computation gets no target. A member that joined has no target yet.
        present = [member_id for member_id, _ in wanted.descriptions if member_id in members]
        order = string_order([*present, *members])
    for member_id in order:
        member_target = member_targets.get(member_id)
        if member_target is None:
            given = assignment.get(member_id)  # thousands may have joined meanwhile
            member_target = _member_target(given, image) if given else NOTHING
        before = targets.get(member_id)
        is_another = member_target is not before and member_target != before
        if is_another:
            changes.append((member_id, before or NOTHING, member_target))
            then, description_then, record = ready.get(member_id, NOT_READY)
            description = members[member_id].description
            is_range = wanted.assignor == RANGE
            # With "range" a prepared record is valid only if the member has the same topics.
            if (
                record is None
                or then is not before
                or (is_range and (description_then is not description or description.pattern))
            ):
                tables = ranges.of(description) if is_range else kafka_order.changed(before or NOTHING)
                record = records.target(group.group_id, member_id, member_target, tables)
            made.append(record)
    epoch = records.target_epoch(group.group_id, wanted.epoch, step.now.wall_ms)
    if not records.is_more_than_fits(step, [*made, epoch]):
        replay.record_targets(
            step, group, made, [(member_id, member_target) for member_id, _, member_target in changes]
        )
        step.record(epoch)
        history.target_assigned(step, group, wanted.assignor, changes)
    return sum([len(member_target) for _, _, member_target in changes])


def _member_target(partitions: Mapping[str, Collection[int]], image: TopicsImage) -> TargetAssignment:
    by_name = image.by_name
    return target_assignment({by_name[name].topic_id: its for name, its in partitions.items() if name in by_name})
