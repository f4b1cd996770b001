"""One shard of a coordinator: one partition of its topic. The shard keeps its state machine, log and timer consistent.

The state machine decides a command, and changes its state. Then the shard appends the records of the decision. The
replies leave when the log is durable up to its present end. Records of many commands are appended as one batch (Kafka's
append linger). The records of one command are never split. When an append or a sync fails, the state is dropped and
built again from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog

from muster.coordinator.log.errors import BatchError, DamagedLog, LogError, LogOffline, ProducerError
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.runtime.figures import ShardFigures
from muster.coordinator.runtime.interfaces import ErrorResponses, Observer, RecordCodec, StateMachine
from muster.coordinator.runtime.loader import in_background, replay
from muster.coordinator.runtime.replies import AppendQueue, PendingReplies, ShardTimer, append_error
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Command, EndTransaction, Now, Producer, Reply, Respond
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, at_once
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

log = structlog.get_logger("muster.shard")

RETRY_MS: Final = (0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 60_000)
"""The time from a failure of the log until the shard is built again, by the number of successive failures."""
AWAY_MS: Final = 1_000
"""The time instead of `RETRY_MS` if the whole data directory is missing, which is cheap to check."""
_NOT_WRITTEN: Final = -1

S = TypeVar("S", bound=StateMachine)


class CoordinatorShard(Generic[S]):
    """One partition, with its state machine, its log and its timer.

    `core`: the state machine while the shard is active; callers must never keep it. None: commands are refused with
    `state_error`. `log`: the partition's log, while `core` is set. `trouble`: why the shard is, or was, not active.
    """

    def __init__(
        self,
        partition: int,
        what: str,
        make_core: Callable[[], S],
        open_log: Callable[[], tuple[UnifiedLog, int]],
        codec: RecordCodec,
        errors: ErrorResponses,
        clock: Clock,
        *,
        observer: Observer | None = None,
        linger_ms: int = 0,
        on_load: Callable[[S, int, int], object] = lambda *_: None,
        on_stop: Callable[[], object] = lambda: None,
        run_job: Callable[[Job[None]], object] = at_once,
        figures: ShardFigures | None = None,
    ) -> None:
        """`what`: the noun for the content of the state machine, for log lines.

        `open_log` returns the log of the partition and its leader epoch, and opens a failed log again. `open_log`
        raises OSError or the log's errors. `linger_ms`: see `AppendQueue`. `on_load(core, records, took_ms)` is called
        when the shard is active, before `core.loaded`. `on_stop` is called before the shard resigns or is dropped.
        `run_job` runs work that takes long, such as the end of a large transaction. `figures`: what takes the duration
        of appends; None: they are not timed.
        """
        self.partition = partition
        self.core: S | None = None
        self.state_error: int = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.trouble: Exception | None = None
        self.flush: Callable[[], None] = self._flush if figures is None else self._counted_flush(figures)
        """Append all gathered records, batch by batch."""
        self.queue = AppendQueue(clock, linger_ms, self.flush)
        self.replies = PendingReplies(clock)
        self.timer = ShardTimer(clock, self._ring)
        self._what = what
        self._make_core = make_core
        self._open_log = open_log
        self._codec = codec
        self._errors = errors
        self._clock = clock
        self._observer = observer
        self._on_load = on_load
        self._on_stop = on_stop
        self._run_job = run_job
        self.log: UnifiedLog
        self._leader_epoch = -1
        self._term = 0
        """The number of loads and ends of leadership. Callbacks and steps of an earlier term do nothing."""
        self._when_durable = self._callback(self._term)
        self._failures = 0
        self._logged = ("", "")

    # ---- commands

    def submit(self, command: Command, producer: Producer | None = None) -> None:
        """Decide a command, in a transaction of `producer`. `command.respond` gets the response when it may leave."""
        core = self.core
        if core is None:
            command.respond(self._errors.refuse(command.request, self.state_error, self.trouble))
            return
        now = self._clock.now()
        output = core.handle(command, now, self.log.segments.config.max_message_bytes)
        if output.records or self.queue.batches or self.replies.parked or output.events:
            self._queue_output(output, now, producer)
        else:
            if self._observer is not None:
                self._observer.flush()  # the replies may show the effects of earlier events
            self.replies.send(output.replies)
        if core.deadlines.earliest_ms < self.timer.due_ms:
            self.rearm()

    def run(self, decide: Callable[[S, Now], Output], *, waits_ms: int = 0) -> None:
        """Let `decide` call the state machine, without a command. While the shard is not active, nothing happens.

        `waits_ms`: how long the records may be gathered, because no client waits for them.
        """
        core = self.core
        if core is not None:
            now = self._clock.now()
            self._queue_output(decide(core, now), now, None, waits_ms)
            self.rearm()

    def append(self, rows: Sequence[Any], size: int, respond: Respond, response: Message) -> None:
        """Append the encoded records of a decision, then answer. The shard must be active."""
        self.queue.add([*rows], size, None, [(respond, response)], [])
        if self.queue.at_once:
            self.flush()
        core = self.core
        if core is not None and core.deadlines.earliest_ms < self.timer.due_ms:
            self.rearm()

    def complete_transaction(
        self,
        producer: Producer,
        *,
        is_committed: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        ended: Callable[[int], object] = lambda _: None,
    ) -> None:
        """End the transaction of a producer with a marker in the log.

        `ended` gets NONE once the marker is durable, or the reason why it is not written. While the shard is not
        active, the reason is `state_error`.

        `coordinator_epoch`: the epoch of the transaction coordinator. `transaction_version`: see `EndMarker`.
        """
        self.flush()
        core = self.core
        if core is None:
            ended(self.state_error)
            return
        now = self._clock.now()
        marker = EndMarker(*producer, is_committed, coordinator_epoch, transaction_version)
        try:
            self.log.append_marker(self._leader_epoch, marker, wall_ms=now.wall_ms)
        except ProducerError as refusal:
            ended(refusal.error_code)
            return
        except (LogError, OSError) as error:
            self._failed("an append failed", error)
            ended(append_error(error))
            return
        # From now on answers may show the transaction's offsets. So answers wait until the marker is durable.
        self._report_and_reply((), (), now, now.mono_ms)
        job = self._end_transaction(core, EndTransaction(*producer, is_committed), now, self.log.end_offset, ended)
        for _ in job:
            self._run_job(job)
            break

    def _end_transaction(
        self, core: S, end: EndTransaction, now: Now, marker_end: int, ended: Callable[[int], object]
    ) -> Job[None]:
        """Change the state after the marker, which ends at `marker_end`. A small transaction takes one step."""
        events = yield from core.end_transaction(end, now)
        if core is not self.core:
            ended(self.state_error or ErrorCode.NOT_COORDINATOR)
            return
        if events and self._observer is not None:
            self._observer.report(events, now)
        self.log.when_durable(marker_end, lambda error: ended(ErrorCode.NONE if error is None else append_error(error)))

    def is_settled(self) -> bool:
        """Whether everything that an answer could show is durable."""
        return not (self.queue.batches or self.replies.parked)

    def hold(self, respond: Respond, response: Message) -> None:
        """Send a response when all that it shows is durable. Call this method only while `is_settled` is False."""
        if self.queue.batches:
            self.queue.batches[-1].replies.append((respond, response))
        else:
            self.replies.park_behind((respond, response))

    # ---- taking and giving up leadership

    def start(self) -> Iterator[None]:
        """Become active: build the state from the log, in steps. Until then, commands are refused."""
        self._term += 1
        if self.core is None:
            self.state_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self._load(self._term)

    def resign(self, error_code: int = ErrorCode.NOT_COORDINATOR, *, gradually: bool = False) -> None:
        """Become inactive. All parked requests, and all later commands, are answered with the error.

        `gradually`: many answers leave over several iterations of the event loop.
        """
        self._on_stop()
        if self.core is not None:
            self.flush()
        self._leave(error_code, error_code, error_code, gradually=gradually)

    def drop(self) -> None:
        """Give up everything without a write or an answer, because the node has died."""
        self._on_stop()
        self._term += 1
        self.timer.cancel()
        core, self.core, self.state_error = self.core, None, ErrorCode.NOT_COORDINATOR
        self.replies.remove_all()
        self.queue.remove_all()
        if core is not None:
            core.resign(ErrorCode.NOT_COORDINATOR)  # this ends the timers and requests of the core

    def _leave(
        self, error_code: int, parked_error_code: int, waiting_error_code: int, *, gradually: bool = False
    ) -> None:
        """Become inactive, with three error codes.

        `error_code` is for later commands. `parked_error_code` is for answers whose records may not be durable.
        `waiting_error_code` is for gathered records and for parked requests. `gradually`: see `resign`.
        """
        self._term += 1
        self.timer.cancel()
        # The state changes before the answers: an answer may cause the next request of its connection.
        core, self.core, self.state_error = self.core, None, error_code
        self.replies.send_rest()
        parked, gathered = self.replies.remove_all(), self.queue.remove_all()
        answers: list[Reply] = [
            (respond, self._errors.with_error(response, parked_error_code)) for respond, response in parked
        ]
        answers += (
            (respond, self._errors.with_error(response, waiting_error_code))
            for batch in gathered
            for respond, response in batch.replies
        )
        if core is not None:
            answers += core.resign(waiting_error_code).replies
        if gradually:
            self.replies.send(answers)
            return
        for respond, response in answers:
            respond(response)

    def _load(self, term: int) -> Iterator[None]:
        if term != self._term:
            return
        self.core, self.state_error = None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        core, reader = self._make_core(), self._codec.reader()
        began_ms, records = self._clock.mono_ms(), 0
        try:
            self.log, self._leader_epoch = self._open_log()
            for count in replay(self.log, reader, core, self._clock):
                records += count
                yield
                if term != self._term:
                    return
        except DamagedLog as damage:
            self._damaged(damage)
            return
        except BatchError as unreadable:
            # a start after a clean stop does not check every batch, so the replay may find damage
            self._damaged(self.log.damaged_at(reader.offset, unreadable))
            return
        except (LogError, OSError, ValueError) as error:
            # Without its state the shard can decide nothing.
            self._failed(f"the {self._what} cannot be loaded", error)
            return
        self.core, self.state_error, self.trouble = core, ErrorCode.NONE, None
        self._when_durable = self._callback(term)
        self._on_load(core, records, self._clock.mono_ms() - began_ms)
        if self.core is core:
            self.run(_loaded)

    def _damaged(self, damage: DamagedLog) -> None:
        """Stay offline until an operator acts: another load would find the same bytes. Other shards continue."""
        log.error(f"the {self._what} of this partition are offline until their log is repaired",
                  partition=self.partition, path=damage.path, position=damage.position, reason=damage.reason,
                  what_to_do=damage.advice)  # fmt: skip
        self.trouble = damage
        offline = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._leave(offline, offline, offline)

    def _failed(self, what: str, error: Exception) -> None:
        """Answer all waiting requests, and build the shard again later: the state is missing, or ahead of the log."""
        self.trouble = error
        if isinstance(error, LogOffline) and error.is_reported:
            delay_ms = AWAY_MS
        else:
            delay_ms = RETRY_MS[min(self._failures, len(RETRY_MS) - 1)]
            self._failures += 1
            reason = what, str(error)
            if self._failures == 1 or reason != self._logged:  # a retry does not log the same line again
                self._logged = reason
                log.error(f"{what}; the {self._what} of this partition are built anew from their log",
                          partition=self.partition, error=str(error), in_ms=delay_ms)  # fmt: skip
        self._leave(ErrorCode.COORDINATOR_NOT_AVAILABLE, append_error(error), ErrorCode.NOT_COORDINATOR)
        term = self._term
        self._clock.machine.call_at(self._clock.machine.mono_ms() + delay_ms, lambda: self._reload(term))

    def _reload(self, term: int) -> None:
        if term == self._term:
            in_background(self._clock, self.start())

    # ---- outputs

    def _queue_output(self, output: Output, now: Now, producer: Producer | None, waits_ms: int = 0) -> None:
        """Gather the records of an output. The output's events and answers follow all gathered records."""
        if output.records:
            try:
                rows, size = self._codec.encode(output.records)
            except ValueError as error:
                self.flush()
                self.replies.park(_NOT_WRITTEN, output.replies, now.mono_ms)
                self._failed("records cannot be written", error)
                return
            queue = self.queue
            batch = queue.add(rows, size, producer, output.replies, output.events)
            if waits_ms and not batch.replies:
                queue.flush_within(waits_ms)
            elif queue.at_once:
                self.flush()
        elif self.queue.batches:
            batch = self.queue.batches[-1]
            batch.replies += output.replies
            batch.events += output.events
            if self.queue.at_once:
                self.flush()
        else:
            self._report_and_reply(output.events, output.replies, now, now.mono_ms)

    def _counted_flush(self, figures: ShardFigures) -> Callable[[], None]:
        """`flush` for a server whose appends are counted, and timed sometimes."""

        def flush() -> None:
            if self.queue.batches:
                figures.flushes += 1
                if figures.is_due:
                    self._timed_flush(figures)
                else:
                    self._flush()

        return flush

    def _timed_flush(self, figures: ShardFigures) -> None:
        clock = self._clock.machine
        linger_ms, began_us = self._clock.moment().mono_ms - self.queue.batches[0].began_ms, clock.mono_us()
        self._flush()
        figures.time_append(clock, linger_ms, began_us, partial(self.log.when_durable, self.log.end_offset))

    def _flush(self) -> None:
        queue = self.queue
        if not queue.batches:
            return
        now, term = self._clock.moment(), self._term
        while queue.batches:
            batch = queue.batches.pop(0)
            try:
                built = self._codec.build(batch.rows, now, batch.producer)
                self.log.append(self._leader_epoch, built, wall_ms=now.wall_ms)
            except (LogError, OSError, ValueError) as error:
                self.replies.park(_NOT_WRITTEN, batch.replies, batch.began_ms)
                self._failed("an append failed", error)
                return
            # Records without a reply are parked as well: their changes are not shown before the records are durable.
            self._report_and_reply(batch.events, batch.replies, now, batch.began_ms)
            if self._failures and not self.replies.parked and term == self._term:
                self._failures = 0

    def _report_and_reply(self, events: Sequence[Any], replies: Sequence[Reply], now: Now, began_ms: int) -> None:
        """Report events, and send replies when the log is durable up to its present end. `began_ms`: see `Parked`."""
        if self._observer is not None:
            if events:
                self._observer.report(events, now)
            if replies:
                # The replies may show the effects of these events.
                self._observer.flush()
        log, pending = self.log, self.replies
        position, durability = log.segments.end_offset, log.durability
        if durability.durable_offset >= position and not pending.parked:
            pending.send(replies)
        else:
            pending.park(position, replies, began_ms)
            durability.when_durable(position, self._when_durable)

    def _callback(self, term: int) -> Callable[[Exception | None], object]:
        """What the log calls, during this term, when more records are durable."""

        def callback(error: Exception | None) -> None:
            if term != self._term:
                return
            if error is not None:
                self._failed("a sync failed", error)
                return
            self._failures = 0  # a sync has ended well; a write alone proves nothing
            self.replies.release(self.log.durable_offset)

        return callback

    # ---- deadlines

    def rearm(self) -> None:
        """Set the timer to the state machine's next deadline."""
        if self.core is not None:
            self.timer.set(self.core.next_deadline_ms())

    def look_past_repeated(self) -> None:
        """Let only deadlines without repetition set the timer until `leave_out`: a test is about to move the time."""
        if self.core is not None:
            self.timer.cancel()
            due_ms = self.core.deadlines.next_once_ms()
            self.timer.set(None if due_ms == NEVER else due_ms)

    def leave_out(self, until_ms: int) -> None:
        """Move the time to `until_ms`. The earliest repeated work is done once for the whole move, at its last time."""
        if self.core is not None:
            self.core.deadlines.leave_out(until_ms)
            self.timer.cancel()
            self.rearm()

    def _ring(self) -> None:
        # If the deadline has moved to a later time, `advance` does nothing, and the timer is set again.
        gathered = self.queue.batches
        waits = self.replies.waits(gathered[0].began_ms if gathered else NEVER)
        self.run(lambda core, now: core.advance(now, waits))


def _loaded(core: StateMachine, now: Now) -> Output:
    return core.loaded(now)
