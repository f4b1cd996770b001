"""GroupCore: the entry to the core. It hands commands and deadlines to the functions of `dispatch`, and decides
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.groups import dispatch, replay
from muster.coordinator.groups.classic import heartbeat
from muster.coordinator.groups.classic.heartbeat import GenerationMember
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.group import NEWEST_COMMIT
from muster.coordinator.groups.common.group_configs import GroupConfigs, GroupConfigured, IntervalConfigured
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.common.pending_offsets import OpenTransaction
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.common.step import NO_LIMIT, Step
from muster.coordinator.groups.dispatch import DEADLINES, HEARTBEATS, LOADED, MEMBER_REQUESTS, REQUESTS, TOLD, UNLOADED
from muster.coordinator.groups.offsets import commit_template, retention, topic_deletion
from muster.coordinator.groups.offsets.commit_template import CommitTemplate
from muster.coordinator.groups.offsets.retention import Retention
from muster.coordinator.state_machine.interface import (
    Client,
    Command,
    EndTransaction,
    Now,
    Output,
    Reply,
    TransactionalBatch,
)
from muster.coordinator.state_machine.late_answers import NO_LATE_ANSWERS, LateAnswers
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from muster.coordinator.groups.consumer.commands import (
        AnswersDue,
        AssignmentComputed,
        Helpers,
        TopicsFound,
        UpgradePrepared,
    )
    from muster.coordinator.groups.consumer.steady import SteadyMember
    from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

    Notice = (
        TopicsChanged
        | AssignmentComputed
        | AnswersDue
        | TopicsFound
        | UpgradePrepared
        | GroupConfigured
        | IntervalConfigured
    )
    """The input of the core besides requests."""
MOST_AT_ONCE: Final = 500
"""Deadlines that are handled at once: some 5 ms. The others follow, as in a large group with only silent members."""


class _Downgrade:
    """`migration.downgrade.DOWNGRADE`, imported when it is needed, because it imports consumer groups."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("muster.coordinator.groups.migration.downgrade").DOWNGRADE, name)


class GroupCore:
    """The groups of one partition of the offsets topic.

    The order of calls: `replay` for every record of the log, `loaded`, `handle` and `advance`, perhaps `resign`. Each
    returns what the runtime is to do. After each call the runtime asks for `next_deadline_ms`. The same calls with the
    same arguments return the same. Nothing here is safe to call from two threads.
    """

    __slots__ = ("_retention", "_state", "deadlines")

    def __init__(
        self,
        settings: GroupSettings,
        image: TopicsImage,
        first_check_ms: int | None = None,
        helpers: Helpers | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        """`first_check_ms`: how long after loading the first check of retention is; None: the usual interval.

        `helpers`: do large work elsewhere; without them targets are computed at once, and no pattern finds a topic.
        `configs`: see `State`.
        """
        interval_ms = settings.offsets_retention_check_interval_ms
        self._retention = Retention(interval_ms if first_check_ms is None else first_check_ms)
        self._state = State(
            settings, image, replay.RECORDS, replay.OTHERS, replay.transactional, helpers, _Downgrade(), configs
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

    def handle(self, command: Command | Notice, now: Now, most_bytes: int = NO_LIMIT) -> Output:
        """Handle one command, or a notice. `most_bytes`: the present `max.message.bytes` of `__consumer_offsets`.

        Raises TypeError for a request that the core does not answer.
        """
        step = Step(self._state, now, most_bytes)
        if not isinstance(command, Command):
            TOLD[type(command)](step, command)
            return step
        request: Any = command.request
        handle = REQUESTS.get(type(request))
        if handle is not None:
            handle(step, command, request)
        elif type(request) is HeartbeatRequest:
            step.reply(command.respond, self.heartbeat(request, now.mono_ms))
        elif type(request) in MEMBER_REQUESTS:
            group = self._state.groups.get(request.group_id)
            MEMBER_REQUESTS[type(request)][type(group)](step, command, request, group)
        elif (seldom := dispatch.seldom(type(request))) is not None:
            seldom(step, command, request)
        else:
            raise TypeError(f"the core does not answer {type(request).__name__}")
        return step

    def heartbeat(self, request: HeartbeatRequest, mono_ms: int) -> HeartbeatResponse:
        """Answer a Heartbeat, which has no output but its answer, without a command and an output object."""
        group = self._state.groups.get(request.group_id)
        return HEARTBEATS[type(group)](self._state, request, mono_ms, group)

    def prepare_heartbeat(self, request: HeartbeatRequest) -> GenerationMember | None:
        """The sender of such heartbeats. None when no member can be prepared now. Call it before `heartbeat`."""
        return heartbeat.prepare(self._state, request)

    def prepare_consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> SteadyMember | None:
        """The sender of such heartbeats of KIP-848. None when no member can be prepared now.

        Call it before the heartbeat is handled.
        """
        steady = import_module("muster.coordinator.groups.consumer.steady")
        member: SteadyMember | None = steady.prepare(self._state, request, client)
        return member

    def prepare_commit(
        self, request: OffsetCommitRequest, most_bytes: int = NO_LIMIT, version: int = NEWEST_COMMIT
    ) -> CommitTemplate | None:
        """Prepare a commit that is expected again with other offsets. None when it cannot be prepared."""
        return commit_template.prepare(self._state, request, most_bytes, version)

    def prepared_commit(
        self,
        commit: CommitTemplate,
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        now: Now,
        most_bytes: int = NO_LIMIT,
    ) -> list[bytes] | None:
        """Do the work of `handle` for such a request when all is well. Returns the records, packed by `records.pack`.

        None: the request is to be handled, and nothing has changed.
        """
        return commit_template.commit(self._state, commit, offsets, leader_epochs, now, most_bytes)

    def advance(self, now: Now, waits: LateAnswers = NO_LATE_ANSWERS) -> Output:
        """Handle the deadlines that are due by `now`, in the order of their times.

        When there are very many, only the first are handled, and `next_deadline_ms` is past then. A member that was
        silent because its answer was late is not removed.
        """
        step = Step(self._state, now, late_answers=waits)
        deadlines, groups = self._state.deadlines, self._state.groups
        for _ in range(MOST_AT_ONCE):
            deadline = deadlines.pop_due(now.mono_ms)
            if deadline is None:
                break
            # The deadlines of a removed group are cancelled.
            DEADLINES[deadline.kind](step, groups.get(deadline.group_id), deadline)
        return step

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` (monotonic ms, perhaps past, perhaps earlier than needed).

        None: not before the next command.
        """
        return self._state.deadlines.next_ms()

    def replay(self, records: Iterable[tuple[Message, Message | None]], now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Replay records of the log, in its order. Returns their number. Records of unknown types are skipped."""
        return self._state.evolve_all(records)

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Replay records of a transaction, which count when it is committed. Returns their number."""
        return self._state.evolve_transactional(batch)

    def replay_end_transaction(self, end: EndTransaction, now: Now) -> None:  # noqa: ARG002  # every entry point takes the time
        """Replay the marker that ends a transaction."""
        self._state.offsets.end_transaction(end.producer_id, is_committed=end.is_committed)

    def events_of_end(self, end: EndTransaction, now: Now) -> Sequence[Event]:  # noqa: ARG002  # every entry point takes the time
        """The events to report when this transaction ends now. Call it before it has ended."""
        return replay.events_of_end(self._state, end)

    def open_transactions(self) -> Collection[OpenTransaction]:
        """The open transactions that have committed offsets here."""
        return self._state.offsets.pending.transactions()

    def loaded(self, now: Now) -> Output:
        """All records are replayed: groups with members are Stable, with fresh sessions.

        A group above the size limit rebalances.
        """
        step = Step(self._state, now)
        topic_deletion.delete_offsets_of_deleted_topics(step)
        retention.start(step, self._retention)
        for group in self._state.groups.values():
            LOADED[type(group)](step, group)
        return step

    def resign(self, error_code: int) -> Output:
        """Give the groups up: all parked requests are answered with `error_code`. The core cannot
        be used afterwards.
        """
        state = self._state
        replies: list[Reply] = []
        for group in state.groups.values():
            replies += UNLOADED[type(group)](group, error_code)
        replies.extend(state.orphans.values())
        state.orphans.clear()
        state.groups.clear()
        state.deadlines.clear()
        return Output(replies)
