"""GroupCore: the entry to the core. This module decides nothing. `muster.coordinator.state_machine` says how to call
this class.

Tables name the function that decides, by request or notice, type of the group, or kind of deadline. `RECORDS` names the
function that changes the state, by type of record. Each type of group is a class with the methods of
`common.group.Group`, and has rows in these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from sys import intern
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar

from muster.coordinator.groups import describe
from muster.coordinator.groups.classic import join, rebalance, sessions
from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import JOIN_PHASE, SYNC_PHASE, ClassicGroup
from muster.coordinator.groups.classic.member import SESSION
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.committed_offsets import OpenTransaction, pack, position_of
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupConfigs, GroupConfigured, GroupSettings, IntervalConfigured
from muster.coordinator.groups.common.state import Replay, State, Step
from muster.coordinator.groups.consumer import classic_members, computed_targets, heartbeat, leave, member, topics
from muster.coordinator.groups.consumer import describe as consumer_describe
from muster.coordinator.groups.consumer import replay as consumer_replay
from muster.coordinator.groups.consumer.commands import (
    AnswersDue,
    AssignmentComputed,
    TopicsFound,
    UpgradePrepared,
)
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.migration import downgrade, upgrade
from muster.coordinator.groups.offsets import commit, deletion, fetch, retention, txn_commit
from muster.coordinator.groups.share import administration as share_administration
from muster.coordinator.groups.share import describe as share_describe
from muster.coordinator.groups.share import heartbeat as share_heartbeat
from muster.coordinator.groups.share import member as share_member
from muster.coordinator.groups.share import partition_states
from muster.coordinator.groups.share import replay as share_replay
from muster.coordinator.groups.share.commands import StatesCreated, StatesDeleted
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.groups.streams import computed_targets as streams_targets
from muster.coordinator.groups.streams import describe as streams_describe
from muster.coordinator.groups.streams import heartbeat as streams_heartbeat
from muster.coordinator.groups.streams import leave as streams_leave
from muster.coordinator.groups.streams import member as streams_member
from muster.coordinator.groups.streams import replay as streams_replay
from muster.coordinator.groups.streams.group import INITIAL_DELAY, StreamsGroup
from muster.coordinator.groups.streams.target import TasksComputed
from muster.coordinator.state_machine.deadlines import NO_LATE_ANSWERS, ExpiryCheck, LateAnswers
from muster.coordinator.state_machine.interface import NO_LIMIT, Command, EndTransaction, Now, Reply, TransactionalBatch
from muster.coordinator.state_machine.output import Output
from muster.protocol.message import Message
from muster.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.offset_delete import OffsetDeleteRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

T = TypeVar("T")


def _as_if_absent(answer: Callable[..., T]) -> Callable[..., T]:
    """Call `answer` with None as the group, because a group of another type does not exist for this request."""
    return lambda *before_group: answer(*before_group[:-1], None)


NO_GROUP: Final = NoneType
MEMBER_REQUESTS: Final[Mapping[type[Message], Mapping[type, Callable[[Step, Any, Any, Any], None]]]] = {
    JoinGroupRequest: {
        ClassicGroup: join.handle,
        ConsumerGroup: downgrade.join_consumer_group,
        ShareGroup: join.refuse_share_group,
        StreamsGroup: join.create_group,
        NO_GROUP: join.create_group,
    },
    SyncGroupRequest: {
        ClassicGroup: rebalance.sync_group,
        ConsumerGroup: classic_members.sync,
        ShareGroup: _as_if_absent(rebalance.sync_group),
        StreamsGroup: _as_if_absent(rebalance.sync_group),
        NO_GROUP: rebalance.sync_group,
    },
    LeaveGroupRequest: {
        ClassicGroup: sessions.leave_group,
        ConsumerGroup: classic_members.leave_group,
        ShareGroup: _as_if_absent(sessions.leave_group),
        StreamsGroup: _as_if_absent(sessions.leave_group),
        NO_GROUP: sessions.leave_group,
    },
    ConsumerGroupHeartbeatRequest: {
        ClassicGroup: upgrade.heartbeat_to_classic_group,
        ConsumerGroup: heartbeat.handle,
        ShareGroup: heartbeat.handle,
        StreamsGroup: heartbeat.handle,
        NO_GROUP: heartbeat.handle,
    },
    ShareGroupHeartbeatRequest: dict.fromkeys(
        (ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup, NO_GROUP), share_heartbeat.handle
    ),
    StreamsGroupHeartbeatRequest: dict.fromkeys(
        (ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup, NO_GROUP), streams_heartbeat.handle
    ),
}
"""The functions for requests of members, by request and type of group: function(step, command, request, group)."""

HEARTBEATS: Final[Mapping[type, Callable[[State, HeartbeatRequest, int, Any], HeartbeatResponse]]] = {
    ClassicGroup: sessions.heartbeat,
    ConsumerGroup: classic_members.beat,
    ShareGroup: _as_if_absent(sessions.heartbeat),
    StreamsGroup: _as_if_absent(sessions.heartbeat),
    NO_GROUP: sessions.heartbeat,
}
"""The functions for Heartbeat, which return the answer, by type of group: function(state, request, mono_ms, group)."""


def _member_request(step: Step, command: Any, request: Any) -> None:
    group = step.state.groups.get(request.group_id)
    MEMBER_REQUESTS[type(request)][type(group)](step, command, request, group)


def _heartbeat(step: Step, command: Any, request: HeartbeatRequest) -> None:
    group = step.state.groups.get(request.group_id)
    step.reply(command.respond, HEARTBEATS[type(group)](step.state, request, step.now.mono_ms, group))


def _upgrade_prepared(step: Step, _: object, notice: UpgradePrepared) -> None:
    """Answer the heartbeat that upgrades a large classic group, after the group was read."""
    command = notice.command
    command.prepared = notice.prepared or upgrade.NOTHING_READ
    _member_request(step, command, command.request)


def _delete_groups(step: Step, command: Command, request: DeleteGroupsRequest) -> None:
    """Delete groups. The states of share partitions are deleted before their group."""
    if not share_administration.begin_deletion(step, command, request):
        deletion.delete_groups(step, command, request)


def _states_deleted(step: Step, _: object, result: StatesDeleted) -> None:
    """Delete groups, or answer a DeleteShareGroupOffsets, after states of share partitions were deleted."""
    request = result.command.request
    if isinstance(request, DeleteGroupsRequest):
        deletion.delete_groups(step, result.command, request, share_administration.failed_groups(result))
    else:
        share_administration.offsets_deleted(step, result)


def _change_topics(step: Step, _: object, notice: TopicsChanged) -> None:
    gone = notice.image.gone_since(step.state.image)
    deletion.change_topics(step, notice)
    share_administration.forget_topics(step, gone.keys())


HANDLERS: Final[Mapping[type, Callable[[Step, Any, Any], None]]] = {
    # requests with one function for all types of groups
    OffsetCommitRequest: commit.handle,
    TxnOffsetCommitRequest: txn_commit.handle,
    OffsetFetchRequest: fetch.handle,
    OffsetDeleteRequest: deletion.delete_offsets,
    DeleteGroupsRequest: _delete_groups,
    DescribeGroupsRequest: describe.describe_groups,
    ListGroupsRequest: describe.list_groups,
    ConsumerGroupDescribeRequest: consumer_describe.handle,
    ShareGroupDescribeRequest: share_describe.handle,
    StreamsGroupDescribeRequest: streams_describe.handle,
    DescribeShareGroupOffsetsRequest: share_describe.list_partitions,
    AlterShareGroupOffsetsRequest: share_administration.alter,
    DeleteShareGroupOffsetsRequest: share_administration.delete_offsets,
    # requests of members, by type of group
    **dict.fromkeys(MEMBER_REQUESTS, _member_request),
    HeartbeatRequest: _heartbeat,
    # notices: input that is not a request
    TopicsChanged: _change_topics,
    GroupConfigured: lambda step, _, notice: step.state.configs.apply(notice),
    IntervalConfigured: lambda step, _, notice: step.state.configs.apply(notice),
    AssignmentComputed: lambda step, _, notice: computed_targets.computed(step, notice),
    AnswersDue: lambda step, _, notice: computed_targets.answer(step, notice),
    TasksComputed: lambda step, _, notice: streams_targets.computed(step, notice),
    TopicsFound: lambda step, _, notice: topics.apply_resolved_patterns(step, notice),
    UpgradePrepared: _upgrade_prepared,
    StatesCreated: lambda step, _, result: partition_states.created(step, result),
    StatesDeleted: _states_deleted,
}
"""The functions by type of the request or notice: function(step, command, request or notice)."""

DEADLINES: Final[Mapping[str, Callable[[Step, Any, Any], None]]] = {
    SESSION: rebalance.on_session_deadline,
    JOIN_PHASE: rebalance.on_join_deadline,
    SYNC_PHASE: rebalance.on_sync_deadline,
    rebalance.PENDING: rebalance.on_pending_deadline,
    rebalance.ABANDONED: rebalance.on_abandoned_deadline,
    member.SESSION: leave.on_deadline,
    share_member.SESSION: share_heartbeat.on_deadline,
    streams_member.SESSION: streams_leave.on_session_deadline,
    streams_member.REVOCATION: streams_leave.on_revocation_deadline,
    INITIAL_DELAY: streams_leave.on_delay_deadline,
    member.REVOCATION: leave.on_rebalance_deadline,
    member.JOIN: leave.on_rebalance_deadline,
    member.SYNC: leave.on_rebalance_deadline,
    retention.RETENTION: retention.on_deadline,
    deletion.TOPIC_DELETION: deletion.on_topic_deletion_deadline,
}
"""The functions by the kind of the deadline: function(step, group, deadline). The group of a deadline may be None."""

LOADED: Final[Mapping[type, Callable[[Step, Any], None]]] = {
    ClassicGroup: rebalance.loaded,
    ConsumerGroup: computed_targets.loaded,
    ShareGroup: share_heartbeat.loaded,
    StreamsGroup: streams_leave.loaded,
}
"""The function that is called for each group when all records are replayed, by the group's class."""

UNLOADED: Final[Mapping[type, Callable[[Any, int], list[Reply]]]] = {
    ClassicGroup: rebalance.unload,
    ConsumerGroup: computed_targets.unload,
    ShareGroup: lambda *_: [],
    StreamsGroup: lambda *_: [],
}
"""The function that returns replies to the group's parked requests at the end of the core: function(group, error)."""


def _offset(state: State, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is None:
        state.offsets.discard(key.group, key.topic, key.partition)
        return
    state.offsets.put(key.group, key.topic, key.partition, pack(value))
    if key.group not in state.groups:
        _simple_group(state, key.group, value)


def _simple_group(state: State, name: str, value: OffsetCommitValue) -> None:
    """Create a simple group, which has offsets, but no record of its own."""
    group_id = intern(name)
    state.groups[group_id] = ClassicGroup(group_id, value.commit_timestamp)


def _legacy_offset(state: State, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
    modern = None if value is None else OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    _offset(state, OffsetCommitKey(key.group, key.topic, key.partition), modern)


RECORDS: Final[Mapping[type[Message], Replay]] = {
    OffsetCommitKey: _offset,
    LegacyOffsetCommitKey: _legacy_offset,
    GroupMetadataKey: classic_records.replay,
    **consumer_replay.RECORDS,
    **share_replay.RECORDS,
    **streams_replay.RECORDS,
}
"""The function that applies a record to the state, live and in replay, by the type of the record's key."""


def _skip(*_: object) -> None:
    """Replay a record of a type that this server does not know: nothing changes."""


OTHERS: Final = _skip
"""The function for other records."""


ENDED_IN_A_STEP: Final = 1_000
"""After this many offsets the end of a transaction pauses. One such part takes some 2 ms."""


def replay_transactional(state: State, batch: TransactionalBatch) -> int:
    """Replay records of an open transaction, and return their number. Offsets wait for the end of the transaction."""
    state.offsets.pending.begin(batch.producer_id, batch.producer_epoch, batch.timestamp_ms)
    for key, value in batch.records:
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            state.offsets.put_pending(batch.producer_id, key.group, key.topic, key.partition, value)
            if key.group not in state.groups:
                _simple_group(state, key.group, value)
        else:
            state.evolve(key, value)
    return len(batch.records)


def end_transaction(state: State, end: EndTransaction) -> Generator[None, None, Sequence[Event]]:
    """End the transaction of a producer, in steps. Returns the events of all groups with offsets in the transaction."""
    newest_ms = state.offsets.pending.newest_ms(end.producer_id)
    groups: dict[str, dict[str, dict[int, int]]] = {}
    ended = state.offsets.end_transaction(end.producer_id, is_committed=end.is_committed)
    for count, ((group_id, (topic, partition)), packed) in enumerate(ended, 1):
        offset, _ = position_of(packed)
        groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset
        if count % ENDED_IN_A_STEP == 0:
            yield None
    kind = events.TRANSACTION_COMMITTED if end.is_committed else events.TRANSACTION_ABORTED
    return [
        Event(
            kind,
            group_id,
            {
                "producer_id": end.producer_id,
                "producer_epoch": end.producer_epoch,
                "offsets": offsets,
                "since_ms": newest_ms,
            },
        )
        for group_id, offsets in groups.items()
    ]


Notice: TypeAlias = (
    TopicsChanged
    | AssignmentComputed
    | AnswersDue
    | TasksComputed
    | TopicsFound
    | UpgradePrepared
    | GroupConfigured
    | IntervalConfigured
    | StatesCreated
    | StatesDeleted
)
"""The input of the core that is not a request."""
MAX_DEADLINES_AT_ONCE: Final = 500
"""The largest number of deadlines in one call, some 5 ms: many members may become silent at the same time."""
MAX_RECORDS_AT_ONCE: Final = 200
"""After this many records of deadlines, one call handles no more. A consumer member that expires has four records."""


class GroupCore:
    """The groups of one partition of `__consumer_offsets`, with the methods of `runtime.interfaces.StateMachine`."""

    __slots__ = ("_first_check_ms", "_retention", "_state", "deadlines")

    def __init__(
        self,
        settings: GroupSettings,
        image: TopicsImage,
        first_check_ms: int | None = None,
        helpers: Helpers | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        """`first_check_ms`: the time from loading to the first check of retention; None: the usual interval. `helpers`:
        what does large work. None: targets are computed in the heartbeat, and patterns match no topics.
        """
        interval_ms = settings.offsets_retention_check_interval_ms
        self._first_check_ms = interval_ms if first_check_ms is None else first_check_ms
        self._retention = ExpiryCheck(retention.RETENTION, interval_ms)
        self._state = State(
            settings, image, RECORDS, OTHERS, replay_transactional, helpers, downgrade.DOWNGRADE, configs
        )
        self.deadlines = self._state.deadlines

    @property
    def state(self) -> State:
        """The state of the core, for tests and tools to read."""
        return self._state

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return len(self._state.groups)

    def handle(self, command: Command | Notice, now: Now, max_bytes: int = NO_LIMIT) -> Output:
        """Handle a command or notice. `max_bytes`: the present limit for a batch. Raises TypeError for other input."""
        what: Any = command.request if isinstance(command, Command) else command
        decide = HANDLERS.get(type(what))
        if decide is None:
            raise TypeError(f"the core does not answer {type(what).__name__}")
        step = Step(self._state, now, max_bytes)
        decide(step, command, what)
        return step

    def heartbeat(self, request: HeartbeatRequest, mono_ms: int) -> HeartbeatResponse:
        """Return the answer to a Heartbeat, which has no other output. So no command and no output object are made."""
        group = self._state.groups.get(request.group_id)
        return HEARTBEATS[type(group)](self._state, request, mono_ms, group)

    def advance(self, now: Now, waits: LateAnswers = NO_LATE_ANSWERS) -> Output:
        """Handle the deadlines that are due by `now`, in their order, at most `MAX_DEADLINES_AT_ONCE`: then
        `next_deadline_ms` is past. A member that was silent because of a late answer is not removed.
        """
        step = Step(self._state, now, late_answers=waits)
        deadlines, groups = self._state.deadlines, self._state.groups
        for _ in range(MAX_DEADLINES_AT_ONCE):
            deadline = deadlines.pop_due(now.mono_ms)
            if deadline is None:
                break
            # The deadlines of a removed group are cancelled.
            DEADLINES[deadline.kind](step, groups.get(deadline.group_id), deadline)
            if len(step.records) >= MAX_RECORDS_AT_ONCE:
                break
        return step

    def next_deadline_ms(self) -> int | None:
        """When `advance` is to be called; None if only a command can change that."""
        return self._state.deadlines.next_ms()

    def replay(self, records: Iterable[tuple[Message, Message | None]], now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Replay records in the log's order; unknown types change nothing. Returns the number of records."""
        return self._state.evolve_all(records)

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Replay records of an open transaction, which count once it is committed. Returns the number of records."""
        return self._state.evolve_transactional(batch)

    def end_transaction(self, end: EndTransaction, now: Now) -> Generator[None, None, Sequence[Event]]:  # noqa: ARG002  # every entry point takes the time
        """End a transaction in steps; other calls may be made between two steps. Returns the events to report."""
        return end_transaction(self._state, end)

    def open_transactions(self) -> Collection[OpenTransaction]:
        """The open transactions with offsets of groups of this core."""
        return self._state.offsets.pending.transactions()

    def loaded(self, now: Now) -> Output:
        """End the load, when all records are replayed. Members get fresh sessions."""
        step = Step(self._state, now)
        deletion.delete_offsets_of_deleted_topics(step)
        self._retention.start(self.deadlines, now, self._first_check_ms)
        for group in self._state.groups.values():
            LOADED[type(group)](step, group)
        return step

    def resign(self, error_code: int) -> Output:
        """Give up all groups: parked requests are answered with `error_code`. The core cannot be used afterwards."""
        state = self._state
        replies: list[Reply] = []
        for group in state.groups.values():
            replies += UNLOADED[type(group)](group, error_code)
        replies.extend(state.abandoned.values())
        state.abandoned.clear()
        state.groups.clear()
        state.deadlines.clear()
        return Output(replies)
