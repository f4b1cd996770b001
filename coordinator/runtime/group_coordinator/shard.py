"""One shard of the group coordinator: a `CoordinatorShard` whose state machine is a `GroupCore`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from muster.coordinator.groups.classic import sessions
from muster.coordinator.groups.classic.sessions import GenerationMember
from muster.coordinator.groups.common.committed_offsets import OpenTransaction
from muster.coordinator.groups.common.events import request_refused
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupConfigs, GroupConfigured, IntervalConfigured
from muster.coordinator.groups.consumer import heartbeat
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets import commit
from muster.coordinator.groups.offsets.commit import CommitTemplate
from muster.coordinator.groups.streams import steady
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.runtime import interfaces
from muster.coordinator.runtime.figures import ShardFigures
from muster.coordinator.runtime.group_coordinator import error_responses
from muster.coordinator.runtime.group_coordinator.background_work import helpers
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.runtime.group_coordinator.record_codec import RecordCodec
from muster.coordinator.runtime.loader import in_background
from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Client, Command, Now, Producer, Respond
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue, at_once
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor
    from muster.coordinator.groups.consumer.commands import (
        AnswersDue,
        AssignmentComputed,
        TopicsFound,
        UpgradePrepared,
    )
    from muster.coordinator.groups.consumer.heartbeat import SteadyMember
    from muster.coordinator.groups.share.commands import StatesCreated, StatesDeleted
    from muster.coordinator.groups.streams.steady import SteadyMember as SteadyTasks
    from muster.coordinator.log.producers.append_checks import VerificationGuard
    from muster.coordinator.share_state.persister import Persister
    from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

    Result = AssignmentComputed | TopicsFound | AnswersDue | UpgradePrepared | StatesCreated | StatesDeleted

log = structlog.get_logger("muster.shard")

WHAT: Final = "groups"


RECHECK_MS: Final = 60_000
"""After this time the shard checks again whether another cluster must end an old transaction."""

KnownProducers = Callable[[Collection[int]], Collection[int]]
"""A function that returns which of these producer ids this node's transaction coordinator knows, or may know."""


def none_of_them(_: Collection[int]) -> Collection[int]:
    """A `KnownProducers` for a server without a transaction coordinator: no producer is known."""
    return ()


class Observer(interfaces.Observer, Protocol):
    """Gets the events of groups (`history.journal`)."""

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        """Report that the groups were built from the log."""


class GroupShard:
    """The shard of one partition of __consumer_offsets."""

    def __init__(
        self,
        partition: int,
        make_core: Callable[..., GroupCore],
        open_log: Callable[[], tuple[UnifiedLog, int]],
        clock: Clock,
        image: TopicsImage,
        *,
        observer: Observer | None = None,
        linger_ms: int = 0,
        transaction_max_ms: int = 900_000,
        codec: interfaces.RecordCodec | None = None,
        known_producers: KnownProducers = none_of_them,
        job_queue: JobQueue | None = None,
        configs: GroupConfigs | None = None,
        assignors: Mapping[str, Assignor] | None = None,
        persister: Callable[[], Persister] | None = None,
        figures: ShardFigures | None = None,
    ) -> None:
        """`make_core(image, helpers=..., configs=...)` makes the core.

        `job_queue`: for large work of groups; None: all work is done directly. `configs`: the initial configs of single
        groups; the shard changes this object. `assignors`: by name; None: Muster's assignors. `open_log`: see
        `CoordinatorShard`. `linger_ms`, `transaction_max_ms`: see `ShardSettings`. `persister`: see
        `background_work.helpers`.
        """
        self.partition = partition
        self._image = image
        self._clock = clock
        self._observer = observer
        self._transaction_max_ms = transaction_max_ms
        self._known_producers = known_producers
        self._make_core_with = make_core
        self._configs = configs
        self.figures = figures
        """What counts the commits; None means that they are not counted."""
        self._helpers = (
            None if job_queue is None else helpers(job_queue, self._notify, assignors, clock.call_soon, persister)
        )
        self.runtime: CoordinatorShard[GroupCore] = CoordinatorShard(
            partition,
            WHAT,
            self._make_core,
            open_log,
            codec or RecordCodec(partition),
            error_responses,
            clock,
            observer=observer,
            linger_ms=linger_ms,
            on_load=self._on_load,
            run_job=at_once if job_queue is None else partial(self._run_job, job_queue),
            figures=figures,
        )

    # ---- work that takes long

    closed = False
    """See `Owner`. Always False: work that has begun is completed."""

    def fault(self, error: Exception) -> None:
        """See `Owner`. The state stays incomplete until the next load."""
        log.error("the end of a transaction failed, because of a bug in the server", exc_info=error)

    def _run_job(self, job_queue: JobQueue, job: Job[None]) -> None:
        job_queue.run(job, lambda _: None, self)

    # ---- leadership

    @property
    def active(self) -> bool:
        """Whether the shard can decide commands."""
        return self.runtime.core is not None

    def topics_changed(self, image: TopicsImage) -> None:
        """Give the core a changed image of the topics."""
        self._image = image
        self.runtime.run(lambda core, now: core.handle(TopicsChanged(image), now, self.max_bytes))

    def _make_core(self) -> GroupCore:
        more: dict[str, Any] = {} if self._helpers is None else {"helpers": self._helpers}
        if self._configs is not None:
            more["configs"] = self._configs.copy()
        return self._make_core_with(self._image, **more)

    def configured(self, what: GroupConfigured | IntervalConfigured) -> None:
        """Follow a changed configuration of a group or of the broker, in this core and later cores."""
        if self._configs is not None:
            self._configs.apply(what)
        self.runtime.run(lambda core, now: core.handle(what, now, self.max_bytes))

    def _notify(self, what: Result) -> None:
        """Give the core a result of background work."""
        command: Command | None = getattr(what, "command", None)
        if command is not None and self.runtime.core is None:
            command.respond(refuse(command.request, self.runtime.state_error))
            return
        self.runtime.run(lambda core, now: core.handle(what, now, self.max_bytes))

    def _on_load(self, core: GroupCore, records: int, took_ms: int) -> None:
        if records and self._observer is not None:
            self._observer.loaded(self._clock.now(), groups=core.group_count, records=records, took_ms=took_ms)
        self._abort_left_open(core)
        if core.state.image is not self._image:  # the image has changed during the load
            self.topics_changed(self._image)

    def _abort_left_open(self, core: GroupCore) -> None:
        """Abort transactions that another cluster has left open in this log, when that cluster would have aborted them.

        Otherwise the transactions would stay open with unstable offsets, and compaction would wait for ever. If the
        transaction coordinator of this node knows the producer, the coordinator ends the transaction.
        """
        if core is not self.runtime.core:
            return
        now, next_ms = self._clock.now(), NEVER
        over: list[OpenTransaction] = []
        for one in core.open_transactions():
            over_ms = now.mono_ms + one.newest_ms + self._transaction_max_ms - now.wall_ms
            if over_ms > now.mono_ms:
                next_ms = min(next_ms, over_ms)
            else:
                over.append(one)
        known = self._known_producers({one.producer_id for one in over}) if over else ()
        if known:
            next_ms = min(next_ms, now.mono_ms + RECHECK_MS)
        if next_ms != NEVER:
            self._clock.call_at(next_ms, lambda: self._abort_left_open(core))
        if len(over) > len(known):
            in_background(self._clock, self._abort(core, [one for one in over if one.producer_id not in known]))

    def _abort(self, core: GroupCore, over: Sequence[OpenTransaction]) -> Iterator[None]:
        log_ = self.runtime.log
        with suppress(LogError, OSError):  # the next read of the log raises the same error
            for _ in log_.producers.loading():
                yield
        for one in over:
            if not self._has(core) or one not in core.open_transactions():
                continue
            written, offsets = log_.producers.get(one.producer_id), len(one.offsets)
            self.runtime.complete_transaction(
                Producer(one.producer_id, one.producer_epoch),
                is_committed=False,
                coordinator_epoch=0 if written is None else max(written.coordinator_epoch, 0),
            )
            if self._has(core):
                log.warning("a transaction that was left open is aborted: nobody could end it here",
                            partition=self.partition, producer_id=one.producer_id, offsets=offsets,
                            idle_ms=self._clock.now().wall_ms - one.newest_ms)  # fmt: skip

    def _has(self, core: GroupCore) -> bool:
        """Whether the shard is active with this state. A call between two questions may change the answer."""
        return core is self.runtime.core

    def append_error(self, producer: Producer, guard: VerificationGuard | None) -> int:
        """The error code for an append in this producer's transaction now; 0 when the append is allowed.

        `guard`: the result of the log's `verification`. Call this method just before `submit`.
        """
        runtime = self.runtime
        runtime.flush()  # gathered records may belong to the same producer
        if runtime.core is None:
            return 0  # `submit` answers with the failure
        try:
            runtime.log.producers.check_transactional(*producer, guard)
        except LogError as error:
            return error.error_code
        return 0

    # ---- the groups as they are now

    def group_ids(self) -> Iterable[str]:
        """The ids of the groups; none while the shard is not active."""
        core = self.runtime.core
        return () if core is None else core.state.groups

    def group_states(self) -> Iterator[tuple[str, str]]:
        """Type and state of each group, without groups that are added while the caller iterates."""
        core = self.runtime.core
        for group in [] if core is None else list(core.state.groups.values()):
            yield group.kind, group.state

    def committed(self, group_id: str) -> Mapping[str, Collection[int]]:
        """The partitions, by topic, with committed offsets of the group; none while the shard is not active."""
        core = self.runtime.core
        return {} if core is None else core.state.offsets.topics(group_id)

    def offset_groups(self) -> Iterable[str]:
        """The ids of the groups with committed offsets; none while the shard is not active."""
        core = self.runtime.core
        return () if core is None else core.state.offsets.group_ids()

    @property
    def max_bytes(self) -> int:
        """How many bytes the records of one command may take. While the shard is not active, nothing is too large."""
        return self.runtime.log.config.max_message_bytes if self.active else sys.maxsize

    # ---- heartbeats and commits, which are a thousand times as frequent as all other requests

    def heartbeat(self, request: HeartbeatRequest, respond: Respond, client: Client) -> Message | None:
        """Answer a heartbeat. Or return None: `respond` gets the answer when all state that it shows is durable."""
        runtime = self.runtime
        core = runtime.core
        if core is None:
            return refuse(request, runtime.state_error)
        response = core.heartbeat(request, self._clock.mono_ms())
        if response.error_code and self._observer is not None:
            if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                event = request_refused(
                    request,
                    client,
                    request.group_id,
                    response.error_code,
                    request.member_id,
                    request.group_instance_id,
                )
                self._observer.report((event,), self._clock.now())
            self._observer.flush()  # even an error may show the effect of events that were reported before
        if core.deadlines.earliest_ms < runtime.timer.due_ms:
            runtime.rearm()
        if runtime.is_settled():
            return response
        runtime.hold(respond, response)
        return None

    def prepare_heartbeat(self, request: HeartbeatRequest) -> GenerationMember | None:
        """The object that answers equal heartbeats (`api.cached_requests`); None if the member's state prevents it."""
        core = self.runtime.core
        return None if core is None else sessions.prepare_heartbeat(core.state, request)

    def prepare_consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> SteadyMember | None:
        """`prepare_heartbeat` for a member of a consumer group (KIP-848)."""
        core = self.runtime.core
        return None if core is None else heartbeat.prepare_heartbeat(core.state, request, client)

    def prepare_streams_heartbeat(self, request: StreamsGroupHeartbeatRequest, client: Client) -> SteadyTasks | None:
        """`prepare_heartbeat` for a member of a streams group (KIP-1071)."""
        core = self.runtime.core
        return None if core is None else steady.prepare_heartbeat(core.state, request, client)

    def prepare_commit(self, request: OffsetCommitRequest, version: int) -> CommitTemplate | None:
        """A template for equal commits of this version, for `commit_prepared`. None when only `submit` can answer."""
        core = self.runtime.core
        return None if core is None else commit.prepare_commit(core.state, request, self.max_bytes, version)
