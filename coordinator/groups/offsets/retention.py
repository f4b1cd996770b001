"""Retention (KIP-211): offsets expire after `offsets.retention.minutes` without use. Unused groups are removed.

Every `offsets.retention.check.interval.ms` all groups are checked, by the wall clock, as in Kafka's
cleanupGroupMetadata. The check runs in slices, so that requests need not wait. Groups may change between two slices, so
each offset is checked again in its own slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.committed_offsets import times_of
from muster.coordinator.groups.common.group import NOT_NOW, SINCE_COMMIT, Group
from muster.coordinator.groups.common.state import State, Step, offset_tombstone, tombstones
from muster.coordinator.state_machine.deadlines import ExpiryCheck

RETENTION: Final = "retention"
"""The kind of the deadline of a check."""
SLICE: Final = 4_000
"""The work of one slice, about a millisecond. Each checked offset counts 1."""
CHECK: Final = 5
"""The work for each group, and for each topic of a group, beside the work for its offsets."""
REMOVE: Final = 20
"""The work for each written record."""
CHUNK: Final = 250
"""The largest number of offsets in one proposal; all are of one topic."""


class Proposal(NamedTuple):
    """Some offsets to check. `topic` None: the group itself is to be checked, after all its offsets."""

    group_id: str
    topic: str | None
    partitions: list[int]


def on_deadline(step: Step, _: object, check: ExpiryCheck) -> None:
    """Begin or continue a check."""
    check.run(step.state.deadlines, step.now, lambda: _propose(step.state), lambda proposals: _slice(step, proposals))


def _propose(state: State) -> Iterator[Proposal]:
    for group_id in list(state.groups):
        for topic, partitions in list(state.offsets.topics(group_id).items()):
            known = list(partitions)
            for at in range(0, len(known), CHUNK):
                yield Proposal(group_id, topic, known[at : at + CHUNK])
        yield Proposal(group_id, None, [])


def _slice(step: Step, proposals: Iterator[Proposal]) -> bool:
    """Check some proposals. Returns whether no proposal remains."""
    budget, expired, group_id = SLICE, dict[str, list[int]](), ""
    for proposal in proposals:
        group_id, before = proposal.group_id, len(step.records)
        group = step.state.groups.get(group_id)
        if group is not None and proposal.topic is not None:
            _expire(step, group, proposal.topic, proposal.partitions, expired)
        elif group is not None:
            _report(step, group_id, expired)
            _remove_group(step, group)
        budget -= CHECK + len(proposal.partitions) + REMOVE * (len(step.records) - before)
        if budget <= 0:
            break
    _report(step, group_id, expired)
    return budget > 0


def _expire(step: Step, group: Group, topic: str, partitions: list[int], expired: dict[str, list[int]]) -> None:
    since_ms, group_id = group.unused_since_ms(), group.group_id
    if since_ms == NOT_NOW or group.subscribes_to(topic):
        return
    offsets, wall_ms = step.state.offsets, step.now.wall_ms
    retention_ms = step.state.settings.offsets_retention_minutes * 60_000
    committed = offsets.partitions(group_id, topic)
    for partition in partitions:
        value = committed.get(partition)
        if value is None:
            continue
        commit_ms, expire_ms = times_of(value)
        if expire_ms != -1:
            over = wall_ms >= expire_ms  # the OffsetCommit (v2-4) had a retention time
        else:
            over = wall_ms - (commit_ms if since_ms == SINCE_COMMIT else since_ms) >= retention_ms
        if over and not offsets.is_unstable(group_id, topic, partition):
            step.record(offset_tombstone(group_id, topic, partition))
            expired.setdefault(topic, []).append(partition)


def _remove_group(step: Step, group: Group) -> None:
    group_id, offsets = group.group_id, step.state.offsets
    if group.is_unused() and not offsets.topics(group_id) and not offsets.has_open_transaction(group_id):
        for record in tombstones(group):
            step.record(record)
        step.event(events.GROUP_DELETED, group_id)


def _report(step: Step, group_id: str, expired: dict[str, list[int]]) -> None:
    if expired:
        step.event(events.OFFSETS_EXPIRED, group_id, topics={topic: sorted(expired[topic]) for topic in expired})
        expired.clear()
