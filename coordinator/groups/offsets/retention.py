"""Retention (KIP-211): offsets that were of no use for `offsets.retention.minutes` are forgotten, and then groups of
which nothing is left.

Every `offsets.retention.check.interval.ms` all groups are looked at, by the wall clock, as Kafka's cleanupGroupMetadata
does; but a slice at a time, so that nobody waits for it. Between two slices groups may change: what is found first is
only proposed, and looked at again when it is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from muster.coordinator.core.deadlines import Deadline
from muster.coordinator.groups.common import events, records
from muster.coordinator.groups.common.committed_offsets import times_of
from muster.coordinator.groups.common.group import NOT_NOW, SINCE_COMMIT, Group
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.common.step import Step

RETENTION: Final = "retention"
"""Kind of the deadline at which offsets and groups are looked for that can go."""
SLICE: Final = 4_000
"""How much is done at once, about a millisecond: to look at one offset counts as 1."""
LOOK: Final = 5
"""What each group, and each topic of a group, counts besides."""
FORGET: Final = 20
"""What a record that is written counts in a slice."""
CHUNK: Final = 250
"""Offsets of one topic that are looked at in one go."""
BELIEVABLE_MS: Final = 60_000
"""By how much the wall clock may have been set since the last look; else it is believed only if it is still so at the
next one. A wrong clock would cost all offsets of all Empty groups.
"""
SLICE_AFTER_MS: Final = 1


class Proposal(NamedTuple):
    """Some offsets to look at; `topic` None: all of the group were proposed before, now look at itself."""

    group_id: str
    topic: str | None
    partitions: list[int]


class Retention:
    """How far the present look has got. Soft state: after a load it begins anew."""

    __slots__ = ("ahead_ms", "deadline", "first_ms", "proposals")

    def __init__(self, first_ms: int) -> None:
        """`first_ms`: how long after loading is looked for the first time."""
        self.first_ms = first_ms
        self.deadline = Deadline(RETENTION, "")
        self.proposals: Iterator[Proposal] | None = None
        self.ahead_ms = 0
        """By how much the wall clock was ahead of the monotonic one when last looked at."""


def start(step: Step, retention: Retention) -> None:
    """The groups are loaded."""
    retention.ahead_ms = step.now.wall_ms - step.now.mono_ms
    step.state.deadlines.set(retention.deadline, step.now.mono_ms + retention.first_ms)


def on_deadline(step: Step, retention: Retention) -> None:
    """Begin to look, or go on with it."""
    deadlines, mono_ms = step.state.deadlines, step.now.mono_ms
    if retention.proposals is None and _is_believable(step, retention):
        retention.proposals = _propose(step.state)
    if retention.proposals is not None and not _slice(step, retention.proposals):
        deadlines.set(retention.deadline, mono_ms + SLICE_AFTER_MS)
        return
    retention.proposals = None
    deadlines.set(retention.deadline, mono_ms + step.state.settings.offsets_retention_check_interval_ms)


def _is_believable(step: Step, retention: Retention) -> bool:
    before_ms, retention.ahead_ms = retention.ahead_ms, step.now.wall_ms - step.now.mono_ms
    return abs(retention.ahead_ms - before_ms) <= BELIEVABLE_MS


def _propose(state: State) -> Iterator[Proposal]:
    for group_id in list(state.groups):
        for topic, partitions in list(state.offsets.topics(group_id).items()):
            known = list(partitions)
            for at in range(0, len(known), CHUNK):
                yield Proposal(group_id, topic, known[at : at + CHUNK])
        yield Proposal(group_id, None, [])


def _slice(step: Step, proposals: Iterator[Proposal]) -> bool:
    """Look at some; True when that was all."""
    budget, expired, group_id = SLICE, dict[str, list[int]](), ""
    for proposal in proposals:
        group_id, before = proposal.group_id, len(step.records)
        group = step.state.groups.get(group_id)
        if group is not None and proposal.topic is not None:
            _expire(step, group, proposal.topic, proposal.partitions, expired)
        elif group is not None:
            _tell(step, group_id, expired)
            _forget_group(step, group)
        budget -= LOOK + len(proposal.partitions) + FORGET * (len(step.records) - before)
        if budget <= 0:
            break
    _tell(step, group_id, expired)
    return budget > 0


def _expire(step: Step, group: Group, topic: str, partitions: list[int], expired: dict[str, list[int]]) -> None:
    """Forget those of these offsets whose time is over, and note them in `expired`."""
    since_ms, group_id = group.unused_since_ms(), group.group_id
    if since_ms == NOT_NOW or group.subscribes_to(topic):
        return
    offsets, wall_ms = step.state.offsets, step.now.wall_ms
    kept_ms = step.state.settings.offsets_retention_minutes * 60_000
    committed = offsets.partitions(group_id, topic)
    for partition in partitions:
        value = committed.get(partition)
        if value is None:
            continue
        commit_ms, expire_ms = times_of(value)
        if expire_ms != -1:
            over = wall_ms >= expire_ms  # its OffsetCommit (v2-4) said how long it is to be kept
        else:
            over = wall_ms - (commit_ms if since_ms == SINCE_COMMIT else since_ms) >= kept_ms
        if over and not offsets.is_unstable(group_id, topic, partition):
            step.record(records.offset_tombstone(group_id, topic, partition))
            expired.setdefault(topic, []).append(partition)


def _forget_group(step: Step, group: Group) -> None:
    """A group without members and offsets goes, also one that nobody ever got into."""
    group_id, offsets = group.group_id, step.state.offsets
    if group.is_of_no_use() and not offsets.topics(group_id) and not offsets.has_open_transaction(group_id):
        for record in records.tombstones(group):
            step.record(record)
        step.event(events.GROUP_DELETED, group_id)


def _tell(step: Step, group_id: str, expired: dict[str, list[int]]) -> None:
    if expired:
        step.event(events.OFFSETS_EXPIRED, group_id, topics={topic: sorted(expired[topic]) for topic in expired})
        expired.clear()
