"""The members of streams groups of a running server: their tasks, and what they do. This module changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.streams import restoration
from muster.coordinator.groups.streams.group import STREAMS, StreamsGroup
from muster.coordinator.groups.streams.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    STABLE,
    UNRELEASED_TASKS,
    UNREVOKED_TASKS,
    StreamsMember,
)
from muster.coordinator.groups.streams.tasks import NO_TASKS
from muster.coordinator.groups.streams.topology import sources_of
from muster.coordinator.history.words import plural
from muster.coordinator.server.group_views import MemberView, Owned, Roles

MAX_NAMED: Final = 3
"""How many tasks that restore their state one sentence names."""
_WORDS: Final[Mapping[int, str]] = {
    UNREVOKED_TASKS: "is to give tasks up",
    UNRELEASED_TASKS: "waits for tasks that others have",
}
_ROLE_WORDS: Final[Mapping[str, str]] = {"warmup": "warm-up"}
"""The words for roles that are not one word."""


def member_view(group: StreamsGroup, member: StreamsMember, image: TopicsImage, session_timeout_ms: int) -> MemberView:
    """A member. Its partitions are those that its active tasks read."""
    said, at = member.description, member.position
    target = group.targets.get(member.member_id, NO_TASKS)
    is_settled = member.is_reconciled_to(group.assignment_epoch) and _is_ready(group) and not _is_assigning(group)
    return MemberView(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        STREAMS,
        at.epoch,
        _restores(group, member) or "has come to its target" if is_settled else _moves(group, member),
        _read_by(group, at.assigned.active, image),
        _read_by(group, target.active, image),
        _read_by(group, at.revoking.active, image),
        () if group.topology is None else tuple(sorted(group.topology.of_source)),
        session_timeout_ms,
        False,
        is_settled,
        {"assignment": _by_role(at.assigned), "target": _by_role(target), "revoking": _by_role(at.revoking)},
    )


# `group.state` looks at all members, and each member has a view.
def _is_ready(group: StreamsGroup) -> bool:
    return group.topology is not None and group.topology.epoch == group.validated_epoch


def _is_assigning(group: StreamsGroup) -> bool:
    return group.epoch > group.assignment_epoch


def _moves(group: StreamsGroup, member: StreamsMember) -> str:
    """What a member does that has not reached its target."""
    at = member.position
    if at.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return "has left, and will return"
    if at.state == STABLE and not _is_ready(group):
        return "waits for the topics of the application"
    if at.state == STABLE and _is_assigning(group):
        return f"waits for the target of epoch {group.epoch}"
    if at.state == STABLE:
        return f"has not come to epoch {group.epoch} yet"
    return _WORDS.get(at.state, "is to come again")


def _restores(group: StreamsGroup, member: StreamsMember) -> str | None:
    """Which tasks lack state, as the member last reported, the most first. None means that it reported no such task."""
    rows = sorted(_lacking(group, member), key=lambda one: (-one[0], one[1]))
    if not rows:
        return None
    named = ", ".join(
        f"the {role} task {task} ({plural(behind, 'record')} behind)" for behind, task, role in rows[:MAX_NAMED]
    )
    more = f" and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    return f"restores {named}{more}"


def _lacking(group: StreamsGroup, member: StreamsMember) -> Iterator[tuple[int, str, str]]:
    offsets = group.offsets.get(member.member_id, ({}, {}))
    for place, one in [*member.restoring.items()]:
        behind = restoration.records_behind(*offsets, place)
        if one.behind is not None and behind:
            role, name, number = place
            yield behind, f"{name}_{number}", _ROLE_WORDS.get(role, role)


def _by_role(tasks: Any) -> Roles:
    """The tasks of each role, by subtopology. A role without tasks is left out."""
    return {
        role: {name: tuple(sorted(its[name])) for name in sorted(its)} for role, its in tasks._asdict().items() if its
    }


def _read_by(group: StreamsGroup, active: Mapping[str, Collection[int]], image: TopicsImage) -> Owned:
    """The partitions that these active tasks read. A task has the partition of its number in each topic, if any."""
    found: dict[str, tuple[int, ...]] = {}
    rows = {} if group.topology is None else group.topology.subtopologies
    for name in active.keys() & rows.keys():
        for topic in sources_of(rows[name]):
            count = image.by_name[topic].partitions if topic in image.by_name else 0
            numbers = tuple(sorted(number for number in active[name] if number < count))
            if numbers:
                found[topic] = numbers
    return dict(sorted(found.items()))
