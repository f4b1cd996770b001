"""GroupCore: the door to the core. Dispatches commands and deadlines to the modules that decide; decides nothing
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from muster.coordinator.core.deadlines import Deadline, Due
from muster.coordinator.core.interface import Command, Now, Output
from muster.coordinator.core.late_answers import NO_LATE_ANSWERS, LateAnswers
from muster.coordinator.groups import describe
from muster.coordinator.groups.classic import heartbeat, join, leave, parked_requests, pending_members, rebalance, sync
from muster.coordinator.groups.classic.group import JOIN_PHASE, SYNC_PHASE, ClassicGroup
from muster.coordinator.groups.classic.heartbeat import GenerationMember
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import MOST_BYTES, State
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.offsets import commit, commit_template, deletion, fetch, retention
from muster.coordinator.groups.offsets.commit_template import CommitTemplate
from muster.coordinator.groups.offsets.retention import RETENTION, Retention
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.offset_delete import OffsetDeleteRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest
from muster.protocol.messages.sync_group import SyncGroupRequest

_HANDLERS: Final[dict[type[Message], Callable[[Step, Any, Any], None]]] = {
    JoinGroupRequest: join.handle,
    SyncGroupRequest: sync.handle,
    LeaveGroupRequest: leave.handle,
    OffsetCommitRequest: commit.handle,
    OffsetFetchRequest: fetch.handle,
    OffsetDeleteRequest: deletion.delete_offsets,
    DescribeGroupsRequest: describe.describe,
    ListGroupsRequest: describe.list_groups,
    DeleteGroupsRequest: deletion.delete_groups,
}
"""What answers each request, but for Heartbeat."""

MOST_AT_ONCE: Final = 500
"""Deadlines that ring in one go: some 5 ms. Of a large group whose members all go silent the others follow."""


class GroupCore:
    """The groups of one partition of the offsets topic.

    Life: `replay` every record of the log, then `loaded`, then `handle` and `advance`, at last perhaps `resign`. Each
    returns what the shell is to do; whenever it has called one of them it asks `next_deadline_ms`. Nothing here is
    safe to call from two threads.
    """

    __slots__ = ("_retention", "_state", "deadlines")

    def __init__(
        self,
        settings: GroupSettings,
        image: TopicsImage,
        first_check_ms: int | None = None,
        most_bytes: Callable[[], int] = lambda: MOST_BYTES,
    ) -> None:
        """`first_check_ms`: how long after loading offsets that can go are looked for; None: as long as ever after.
        `most_bytes`: the present `max.message.bytes` of `__consumer_offsets`, which is a part of what a command finds.
        """
        interval_ms = settings.offsets_retention_check_interval_ms
        self._retention = Retention(interval_ms if first_check_ms is None else first_check_ms)
        self._state = State(settings, image, most_bytes)
        self.deadlines = self._state.deadlines

    @property
    def state(self) -> State:
        """What the core remembers: for tests and tools, to look at."""
        return self._state

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self._state.groups)

    def handle(self, command: Command | TopicsChanged, now: Now) -> Output:
        """Work on one command. Raises TypeError for a request that is not the core's to answer."""
        step = Step(self._state, now)
        if isinstance(command, TopicsChanged):
            deletion.change_topics(step, command)
            return step.output()
        request = command.request
        handler = _HANDLERS.get(type(request))
        if handler is not None:
            handler(step, command, request)
        elif type(request) is HeartbeatRequest:
            step.reply(command.respond, self.heartbeat(request, now.mono_ms))
        else:
            raise TypeError(f"the core does not answer {type(request).__name__}")
        return step.output()

    def heartbeat(self, request: HeartbeatRequest, mono_ms: int) -> HeartbeatResponse:
        """Answer a Heartbeat, of which nothing comes but its answer, without a command and an output around it."""
        return heartbeat.answer(self._state, request, mono_ms)

    def beating(self, request: HeartbeatRequest) -> GenerationMember | None:
        """Who sends such heartbeats, to be asked before `heartbeat` is; None when it is no member now."""
        return heartbeat.beating(self._state, request)

    def prepare_commit(self, request: OffsetCommitRequest) -> CommitTemplate | None:
        """Make a commit ready that is expected again with other offsets; None when that cannot be done."""
        return commit_template.prepare(self._state, request)

    def commit_again(
        self, commit: CommitTemplate, offsets: Sequence[int], leader_epochs: Sequence[int], now: Now
    ) -> list[bytes] | None:
        """Do what `handle` would with such a request when all is well: the records, as `records.pack` gives them. Else
        None, and nothing has changed.
        """
        return commit_template.commit(self._state, commit, offsets, leader_epochs, now)

    def advance(self, now: Now, waits: LateAnswers = NO_LATE_ANSWERS) -> Output:
        """Let everything happen that is due by `now`, in the order of its times: of very much, the first of it, and
        `next_deadline_ms` is past then. Nobody is put out for a silence that was a wait for us: `waits` tells.
        """
        step = Step(self._state, now, waits)
        deadlines = self._state.deadlines
        for _ in range(MOST_AT_ONCE):
            deadline = deadlines.pop_due(now.mono_ms)
            if deadline is None:
                break
            self._ring(step, deadline)
        return step.output()

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` (monotonic ms, perhaps past, perhaps earlier than need be); None: not before the
        next command.
        """
        return self._state.deadlines.next_ms()

    def replay(self, records: Iterable[tuple[Message, Message | None]], now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Take over records of the log, in its order: how many these were. Those of a type that this core does not know
        are skipped.
        """
        return self._state.evolve_all(records)

    def set_unstable(self, offsets: Iterable[tuple[str, str, int]]) -> None:
        """These (group, topic, partition), and no others, are covered by open transactions."""
        self._state.offsets.set_unstable(offsets)

    def loaded(self, now: Now) -> Output:
        """All records are replayed: groups with members are Stable, with fresh sessions; a group above the size limit
        rebalances.
        """
        step = Step(self._state, now)
        deletion.forget_deleted_topics(step)
        retention.start(step, self._retention)
        max_size = self._state.settings.group_max_size
        for group in self._state.groups.values():
            group.reload()
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    parked_requests.answered(step, member)
                if len(group.members) > max_size:
                    rebalance.begin(step, group, events.OVER_CAPACITY)
        return step.output()

    def resign(self, error_code: int) -> Output:
        """Give the groups up: everything parked is answered with `error_code`. The core is of no use afterwards."""
        replies = parked_requests.answer_all(self._state, error_code)
        self._state.groups.clear()
        self._state.deadlines.clear()
        return Output(replies)

    def _ring(self, step: Step, deadline: Due) -> None:
        if deadline.kind == parked_requests.ORPHAN:
            parked_requests.answer_orphan(step, deadline)
            return
        if deadline.kind == RETENTION:
            retention.on_deadline(step, self._retention)
            return
        # a group that goes takes its deadlines along, and only classic ones have any
        group = cast("ClassicGroup", self._state.groups[deadline.group_id])
        if isinstance(deadline, Member):
            rebalance.on_session_deadline(step, group, deadline)
        elif deadline.kind == JOIN_PHASE:
            rebalance.on_join_deadline(step, group)
        elif deadline.kind == SYNC_PHASE:
            rebalance.on_sync_deadline(step, group)
        else:
            pending_members.on_pending_deadline(step, group, cast("Deadline", deadline))
