"""Targets that are computed and prepared: the order of members, each target by topic id, and each target's record.

A thread does this for large targets. For 1,000 members this preparation is most of the work to put a target in force.

If all members subscribe to the same topics, the group keeps its last targets with their numbers of partitions
(`EqualTargets`). When a member has come or left, only the members whose shares change cost anything then. Targets are
compared as objects, so targets that were changed since by other means are found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress, filterfalse
from operator import is_not, itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.assignors.assignor import Assignment, Assignor
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.assignors.changing_target import ChangingTarget
from muster.assignors.equal_shares import changed_shares, order_of_topics
from muster.assignors.java_order import string_order
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.kafka_order import TargetRows
from muster.coordinator.groups.common.state import with_bytes
from muster.coordinator.groups.consumer import records
from muster.coordinator.groups.consumer.commands import AssignmentComputed, AssignmentWanted
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    TargetAssignment,
    rows_of,
    target_assignment,
)
from muster.coordinator.state_machine.interface import Record

UNIFORM: Final = "uniform"
_FIRST: Final = itemgetter(0)


class EqualTargets(NamedTuple):
    """Targets by which all partitions of a group's topics are shared equally. Nothing of it changes."""

    names: Collection[str]
    """The names of the topics: the object that `AssignmentWanted` had."""
    sizes: Mapping[bytes, int]
    """The number of partitions of each topic. The topics are in the order in which free partitions are assigned."""
    targets: Mapping[str, TargetAssignment]
    counts: Mapping[str, int]
    """Each member's number of partitions."""


class PreparedTarget(NamedTuple):
    """A computed target. `order` is valid while the members do not change, the rest while the topics do not change."""

    image: TopicsImage
    member_targets: Mapping[str, TargetAssignment]
    order: Sequence[str] = ()
    """Member ids in the order of the records. Empty when the order has not been prepared."""
    rows: Mapping[str, TargetAssignment] = MappingProxyType({})
    """The new targets in the order of their records."""
    records: Mapping[str, tuple[TargetAssignment | None, Record]] = MappingProxyType({})
    """For each member with a new target: the old target, and the record of the new target."""
    equal: EqualTargets | None = None
    """What the group keeps for its next targets."""

    def has_all(self, members: Collection[str]) -> bool:
        """Whether the group still has the same members, and their order has been prepared."""
        return len(members) == len(self.order) and all(map(members.__contains__, self.order))


def compute(wanted: AssignmentWanted, assignor: Assignor) -> AssignmentComputed:
    """Compute and prepare a target. Call this function in a thread."""
    return AssignmentComputed(wanted, prepare(wanted, assignor))


def prepare(wanted: AssignmentWanted, assignor: Assignor) -> PreparedTarget:
    """Compute and prepare a target."""
    if assignor is SERVER_ASSIGNORS[UNIFORM] and wanted.equal is not None:
        prepared = _next_equal(wanted, wanted.equal)
        if prepared is not None:
            return prepared
    prepared = prepare_target(wanted, wanted.assign(assignor))
    if assignor is SERVER_ASSIGNORS[UNIFORM]:
        return prepared._replace(equal=_equal_targets(wanted, prepared.member_targets))
    return prepared


def prepare_target(wanted: AssignmentWanted, assignment: Assignment) -> PreparedTarget:
    """Prepare a computed target."""
    targets = wanted.targets
    nothing: dict[str, list[int]] = {}
    member_targets: dict[str, TargetAssignment] = {}
    changed: dict[str, TargetAssignment] = {}
    by_id = wanted.image.by_id
    for member_id, _ in wanted.descriptions:
        given, before = assignment.get(member_id, nothing), targets.get(member_id)
        if before is not None and _is_unchanged(before, given, by_id):
            member_targets[member_id] = before
            continue
        rows = _by_id(wanted, given)
        member_target = target_assignment(dict(rows))
        if member_target == before:
            member_target = before  # an unchanged target stays the same object, which makes comparisons fast
        else:
            changed[member_id] = rows
        member_targets[member_id] = member_target
    return _with_records(wanted, member_targets, string_order(member_targets), changed)


def _by_id(wanted: AssignmentWanted, given: Mapping[str, Sequence[int]]) -> TargetAssignment:
    topics = wanted.topics
    return rows_of({topics[name].topic_id: its for name, its in given.items()})


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


def _with_records(
    wanted: AssignmentWanted,
    member_targets: Mapping[str, TargetAssignment],
    order: Sequence[str],
    changed: Mapping[str, TargetAssignment],
) -> PreparedTarget:
    made: dict[str, tuple[TargetAssignment | None, Record]] = {}
    for member_id, rows in changed.items():
        record = records.target(wanted.group_id, member_id, rows)
        made[member_id] = wanted.targets.get(member_id), with_bytes(record)
    return PreparedTarget(wanted.image, member_targets, order, changed, made)


# ---- members who all subscribe to the same topics


def _equal_targets(wanted: AssignmentWanted, targets: Mapping[str, TargetAssignment]) -> EqualTargets | None:
    """What the group keeps of its targets. None if members differ in their topics: then shares are no equal shares."""
    if not wanted.are_equal or wanted.is_general or not targets:
        return None
    counts = {member_id: _size(member_target) for member_id, member_target in targets.items()}
    return EqualTargets(wanted.names, _sizes(wanted), targets, counts)


def _size(member_target: TargetAssignment) -> int:
    return sum([len(partitions) for _, partitions in member_target])


def _sizes(wanted: AssignmentWanted) -> dict[bytes, int]:
    topics = wanted.topics
    found = [topics[name] for name in order_of_topics(wanted.subscription(wanted.descriptions[0][1]), topics)]
    return {topic.topic_id: topic.partitions for topic in found}


def _next_equal(wanted: AssignmentWanted, last: EqualTargets) -> PreparedTarget | None:
    """The targets that `UniformAssignor` would compute. None when that assignor is needed, because the members' topics
    differ or have changed, or no assignor made the targets.
    """
    if not wanted.are_equal or wanted.is_general:
        return None
    sizes = last.sizes if last.names is wanted.names else _sizes(wanted)
    if sizes != last.sizes:
        return None
    targets, counts = wanted.targets, dict(last.counts)
    order = string_order(map(_FIRST, wanted.descriptions))
    if not targets.keys() <= set(order):
        return None
    free = _take_back(last, targets, counts)
    new = list(filterfalse(counts.__contains__, order))
    for member_id in new:
        had = targets.get(member_id, NOTHING)
        if not _take(free, had):
            return None
        counts[member_id] = _size(had)
    changed = changed_shares(
        list(map(counts.__getitem__, order)),
        [(topic_id, one) for topic_id in sizes if topic_id in free for one in sorted(free[topic_id])],
        lambda member: _copy(wanted.orders.get(order[member]) or targets.get(order[member], NOTHING)),
    )
    member_targets, rows = dict(targets), dict[str, TargetAssignment]()
    for place, share in changed.items():
        member_targets[order[place]] = made = target_assignment(share)
        counts[order[place]], rows[order[place]] = _size(made), rows_of(share)
    for member_id in new:
        if member_id not in member_targets:
            member_targets[member_id] = rows[member_id] = NOTHING
    equal = EqualTargets(wanted.names, sizes, member_targets, counts)
    return _with_records(wanted, member_targets, order, rows)._replace(equal=equal)


def _take_back(
    last: EqualTargets, targets: Mapping[str, TargetAssignment], counts: dict[str, int]
) -> dict[bytes, set[int]]:
    """The partitions of members whose last target is not in force any more. These members leave `counts`."""
    free: dict[bytes, set[int]] = {}
    are_others = map(is_not, map(targets.get, last.targets), last.targets.values())
    for member_id in compress(last.targets, are_others):
        del counts[member_id]
        for topic_id, partitions in last.targets[member_id]:
            free.setdefault(topic_id, set()).update(partitions)
    return free


def _take(free: dict[bytes, set[int]], member_target: TargetAssignment) -> bool:
    """Whether all partitions of a target are free, which they are not any more then."""
    for topic_id, partitions in member_target:
        its = free.get(topic_id)
        if its is None or not its.issuperset(partitions):
            return False
        its.difference_update(partitions)
    return True


def _copy(rows: TargetRows) -> ChangingTarget[bytes]:
    in_order = kafka_order.read(rows)
    return ChangingTarget(dict(in_order), len(in_order), kafka_order.hash_of)
