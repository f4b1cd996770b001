"""One partition of __consumer_offsets: its groups (the core), its log and its deadlines, kept in step.

Decide, append, answer when durable: the core decides and has changed already, its records are appended, its replies
leave when the log is durable up to the newest position the core has seen. Records of many commands are appended as one
batch (Kafka's group.coordinator.append.linger.ms); those of one command are never split. When an append or a sync
fails, the core is thrown away and built anew from the log. Reads no clock but the one it is given, knows no socket.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import structlog

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.core.deadlines import NEVER
from muster.coordinator.core.interface import Client, Command, Now, Output, Respond
from muster.coordinator.group_coordinator.error_responses import append_error, refuse, spoil
from muster.coordinator.groups.classic.heartbeat import GenerationMember
from muster.coordinator.groups.common.events import request_refused
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.offsets.commit_template import CommitTemplate
from muster.coordinator.log.errors import BatchError, DamagedLog, LogError, LogOffline
from muster.coordinator.runtime.append_queue import BATCH_BYTES, Ledger
from muster.coordinator.runtime.interfaces import Codec, Core, Observer, ShardLog
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest

log = structlog.get_logger("muster.shard")

LOAD_CHUNK_BYTES: Final = 256 * 1024
"""How much of a log is replayed in one step: some 10 ms."""
RETRY_MS: Final = (0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 60_000)
"""How long a shard whose log failed waits before it is built anew: by how often that happened in a row."""
AWAY_MS: Final = 1_000
"""And when the whole data directory is away, which costs nothing to ask."""


class Shard(Ledger):
    """See the module. One per partition of __consumer_offsets, numbered as they are."""

    def __init__(
        self,
        index: int,
        make_core: Callable[[TopicsImage], Core],
        open_log: Callable[[], ShardLog],
        codec: Codec,
        clock: Clock,
        image: TopicsImage,
        leader_epoch: int = 0,
        observer: Observer | None = None,
        linger_ms: int = 0,
        transaction_max_ms: int = 900_000,
    ) -> None:
        """`open_log`: the partition's log, opened again when it had failed; raises OSError or the log's errors.

        `linger_ms`, `transaction_max_ms`: see `interfaces.ShardSettings`.
        """
        super().__init__(codec, clock, observer, linger_ms)
        self.index = index
        self.leader_epoch = leader_epoch
        self.state_error: int = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.trouble: Exception | None = None
        """Why the groups are out of reach, or were until the load that runs now; a DamagedLog waits for an operator."""
        self._transaction_max_ms = transaction_max_ms
        self._make_core = make_core
        self._open_log = open_log
        self._image = image
        self._core: Core = _NO_CORE
        self._timer: Timer | None = None
        self._timer_ms = NEVER

    @property
    def active(self) -> bool:
        """Whether commands are decided; else `state_error` says with what they are refused."""
        return self.state_error == ErrorCode.NONE

    def group_ids(self) -> Iterable[str]:
        """The groups there are; none out of office."""
        groups: Iterable[str] = self._core.state.groups if self.active else ()
        return groups

    def committed(self, group_id: str) -> Mapping[str, Collection[int]]:
        """The partitions, by topic, of which a group has committed offsets, as they are now; none out of office."""
        topics: Mapping[str, Collection[int]] = self._core.state.offsets.topics(group_id) if self.active else {}
        return topics

    @property
    def most_bytes(self) -> int:
        """How many bytes the records of one command may take; out of office nothing is too large."""
        most: int = self._log.config.max_message_bytes if self.active else sys.maxsize
        return most

    # ---- commands ----

    def submit(self, command: Command) -> None:
        """Decide a command; its `respond` gets the response: now, or when the log is durable."""
        if self.state_error:
            command.respond(refuse(command.request, self.state_error, self.trouble))
            return
        now = self._clock.now()
        output = self._core.handle(command, now, self._log.config.max_message_bytes)
        if output.records or self._batches or self._parked or output.events:
            self._settle(output, now)
            if not self.active:
                return
        else:
            if self._observer is not None:
                self._observer.flush()  # it may show what was told before
            self._answer(output.replies)
        if self._core.deadlines.earliest_ms < self._timer_ms:
            self._rearm()

    def heartbeat(self, request: HeartbeatRequest, respond: Respond, client: Client) -> Message | None:
        """Answer a heartbeat: what is returned; None: `respond` gets it when all that it tells of is durable."""
        if self.state_error:
            return refuse(request, self.state_error)
        core = self._core
        response = core.heartbeat(request, self._clock.mono_ms())
        if response.error_code and self._observer is not None:
            self._not_well(request, response.error_code, client, self._observer)
        if core.deadlines.earliest_ms < self._timer_ms:
            self._rearm()
        if self.is_settled():
            return response
        self.hold(respond, response)
        return None

    def beating(self, request: HeartbeatRequest) -> GenerationMember | None:
        """Who sends such heartbeats, to be kept for `beat`; None when it is no member, or not now."""
        return self._core.beating(request) if self.active else None

    def beat(self, beating: GenerationMember) -> bool | None:
        """Whether all is well with that member: True, as may be said now; None, as `hold` is to say. False: nothing was
        done.
        """
        if self.state_error or not beating.beat(self._clock.mono_ms()):
            return False
        return None if self._batches or self._parked else True

    def prepare_commit(self, request: OffsetCommitRequest) -> CommitTemplate | None:
        """Make a commit ready for `commit_again`; None when that cannot be done, or not now."""
        if not self.active:
            return None
        return self._core.prepare_commit(request, self._log.config.max_message_bytes)

    def commit_again(
        self, commit: CommitTemplate, offsets: Sequence[int], leader_epochs: Sequence[int], respond: Respond
    ) -> bool:
        """What `submit` does, with a commit that was made ready. False: nothing was done, it is to be submitted."""
        if self.state_error:
            return False
        core = self._core
        most_bytes = self._log.config.max_message_bytes
        rows = core.commit_again(commit, offsets, leader_epochs, self._clock.moment(), most_bytes)
        if rows is None:
            return False
        batches = self._batches
        if batches and batches[-1].size + commit.size <= BATCH_BYTES:
            batch = batches[-1]
            batch.size += commit.size
        else:
            batch = self._batch_for(commit.size)
        batch.rows += rows
        batch.replies.append((respond, commit.response))
        if self._linger_ms == 0:
            self._append()
            if not self.active:
                return True
        if core.deadlines.earliest_ms < self._timer_ms:
            self._rearm()
        return True

    def _not_well(self, request: HeartbeatRequest, error_code: int, client: Client, observer: Observer) -> None:
        if error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            event = request_refused(
                request, client, request.group_id, error_code, request.member_id, request.group_instance_id
            )
            observer.tell((event,), self._clock.now())
        observer.flush()  # whatever the error is, it shows what was told before

    def topics_changed(self, image: TopicsImage) -> None:
        """The topics are others now."""
        self._image = image
        if self.active:
            self._run(lambda now: self._core.handle(TopicsChanged(image), now, self._log.config.max_message_bytes))

    # ---- taking and leaving office ----

    def start(self, leader_epoch: int | None = None) -> Iterator[None]:
        """Take office: build the state from the log. Each step of what is returned replays one chunk of it.

        Until the last step commands are refused with COORDINATOR_LOAD_IN_PROGRESS.
        """
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        self._term += 1
        return self._load(self._term)

    def resign(self, error_code: int = ErrorCode.NOT_COORDINATOR) -> None:
        """Leave office: whatever is parked is answered with the error, and so is every command from now on."""
        if self.active:
            self._append()
        self._leave(error_code, error_code, error_code)

    def _leave(self, error_code: int, parked_error_code: int, waiting_error_code: int) -> None:
        """`error_code` for commands from now on, `parked_error_code` for answers whose records may not be durable, and
        `waiting_error_code` for all that was not written or waits for others.
        """
        self._term += 1
        self._disarm()
        core, active = self._core, self.active
        # first of all, for an answer may bring the next request of its connection
        self.state_error = error_code
        self._core = _NO_CORE
        self._answer_all()
        parked, self._parked = self._parked, deque()
        batches, self._batches = self._batches, []
        for _, replies, _ in parked:
            for respond, response in replies:
                respond(spoil(response, parked_error_code))
        for batch in batches:
            for respond, response in batch.replies:
                respond(spoil(response, waiting_error_code))
        if active:
            for respond, response in core.resign(waiting_error_code).replies:
                respond(response)

    def _load(self, term: int) -> Iterator[None]:
        self.state_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        core = self._make_core(self._image)
        image = self._image
        began_ms, records = self._clock.mono_ms(), 0
        try:
            self._log = self._open_log()
            if self._log.end_offset > self._log.start_offset:
                now = self._clock.now()
                for chunk in self._log.replay(chunk_bytes=LOAD_CHUNK_BYTES):
                    records += core.replay(self._codec.read(chunk), now)
                    yield
                    if term != self._term:
                        return
                    now = self._clock.now()
        except DamagedLog as damage:
            self._damaged(damage)
            return
        except BatchError as error:
            # only replay looks at every byte after a clean stop
            self._damaged(self._log.damaged_at(self._codec.reading, error))
            return
        except (LogError, OSError, ValueError) as error:
            # nothing can be decided without the state
            self._failed("the groups cannot be loaded", error)
            return
        self._core = core
        self.state_error = ErrorCode.NONE
        self.trouble = None
        if records and self._observer is not None:
            now = self._clock.now()
            self._observer.loaded(now, groups=core.group_count, records=records, took_ms=now.mono_ms - began_ms)
        self._end_transactions(self._term)
        if not self.active:
            return
        self._run(core.loaded)
        if image is not self._image and self.active:
            self.topics_changed(self._image)

    def _end_transactions(self, term: int) -> None:
        """Abort what a cluster's transactions have left open in this log, once that cluster would have: nobody could
        end them here, and compaction would wait for ever. Until then their offsets are not stable.
        """
        if term != self._term:
            return
        now, next_ms = self._clock.now(), NEVER
        still_open: list[tuple[str, str, int]] = []
        transactions = self._codec.open_transactions()
        for one in transactions:
            over_ms = now.mono_ms + one.newest_ms + self._transaction_max_ms - now.wall_ms
            if over_ms > now.mono_ms:
                next_ms = min(next_ms, over_ms)
                still_open += one.offsets
                continue
            try:
                self._log.append(self.leader_epoch, self._codec.abort(one, now), wall_ms=now.wall_ms)
            except (LogError, OSError) as error:
                self._failed("an append failed", error)
                return
            log.warning("a transaction that was left open is aborted: nobody could end it here", partition=self.index,
                        producer_id=one.producer_id, offsets=len(one.offsets),
                        idle_ms=now.wall_ms - one.newest_ms)  # fmt: skip
        if transactions:
            self._core.set_unstable(still_open)
        if next_ms != NEVER:
            self._clock.call_at(next_ms, lambda: self._end_transactions(term))

    def _damaged(self, damage: DamagedLog) -> None:
        """Stay offline. Trying again would find the same bytes: an operator decides, the other partitions serve."""
        log.error("the groups of this partition are offline until their log is repaired", partition=self.index,
                  path=damage.path, position=damage.position, reason=damage.reason,
                  what_to_do=damage.advice)  # fmt: skip
        self.trouble = damage
        offline = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._leave(offline, offline, offline)

    # ---- outputs ----

    def _run(self, decide: Callable[[Now], Output]) -> None:
        now = self._clock.now()
        self._settle(decide(now), now)
        if self.active:
            self._rearm()

    def _failed(self, what: str, error: Exception) -> None:
        """Throw the core away, answer everybody, and build another one from the log after a while."""
        code = append_error(getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR))
        self.trouble = error
        if isinstance(error, LogOffline) and error.is_told:
            delay_ms = AWAY_MS
        else:
            delay_ms = RETRY_MS[min(self._failures, len(RETRY_MS) - 1)]
            self._failures += 1
            log.error(f"{what}; the groups of this partition are built anew from their log", partition=self.index,
                      error=str(error), in_ms=delay_ms)  # fmt: skip
        self._leave(ErrorCode.COORDINATOR_NOT_AVAILABLE, code, ErrorCode.NOT_COORDINATOR)
        term = self._term
        self._clock.call_at(self._clock.now().mono_ms + delay_ms, lambda: self._reload(term))

    def _reload(self, term: int) -> None:
        if term == self._term:
            self._load_on(self.start())

    def _load_on(self, steps: Iterator[None]) -> None:
        """A chunk in each turn of the event loop: the other shards serve meanwhile."""
        for _ in steps:
            self._clock.call_soon(lambda: self._load_on(steps))
            return

    # ---- deadlines ----

    def _rearm(self) -> None:
        deadline = self._core.next_deadline_ms()
        if deadline is None:
            self._disarm()
        elif deadline < self._timer_ms:
            self._arm(deadline)

    def _arm(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._clock.call_at(deadline_ms, self._ring)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, NEVER

    def _ring(self) -> None:
        # a deadline that has moved on meanwhile lets this do nothing but arm the timer again
        self._timer, self._timer_ms = None, NEVER
        if self.active:
            self._run(lambda now: self._core.advance(now, self._waits_now()))


_NO_CORE: Any = None
"""Out of office, and while loading, nobody asks the core: `state_error` stands before it."""
