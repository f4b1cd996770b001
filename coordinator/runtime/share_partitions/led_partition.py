"""One share partition that this node leads: its core, kept by the persister, with a timer for its locks.

The partition is loaded first (`load`), and serves until it is closed. It closes when another node leads the topic
partition, or when its state is fenced. It also closes when the group has no more sessions here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import structlog

from muster.coordinator.groups.common.events import Event
from muster.coordinator.log import LogError
from muster.coordinator.runtime.share_partitions.endings import (
    DEAD_LETTER,
    LETTER_LOST,
    LOCK_OVER,
    RELEASED,
    SESSION_ENDED,
    Ending,
    Endings,
    Held,
)
from muster.coordinator.runtime.share_partitions.group_configs import EARLIEST, LATEST, ShareConfig, age_ms
from muster.coordinator.runtime.share_partitions.persister_errors import CLOSING, refusal_of
from muster.coordinator.share.acknowledge import Acknowledgement, Refusal, acknowledge
from muster.coordinator.share.acquire import Wish, acquire, take_out_aborted
from muster.coordinator.share.in_flight import AVAILABLE, Acquired, Row, Span
from muster.coordinator.share.partition import Change, DeadLetter, SharePartition
from muster.coordinator.share.release import archive_letters, expire, overdue, release
from muster.coordinator.share_state.persister import (
    UNKNOWN,
    LoadedState,
    Persister,
    ReadState,
    StateKey,
    StateResponse,
    WriteState,
)
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode

log = structlog.get_logger("muster.share")

Ended = Callable[[Refusal | None], object]
"""A function that takes the end of a change: a refusal, or None when the change is durable."""

_NOT_WRITTEN: Final = "Error in write state RPC. "
"""The words with which Kafka begins the message of a failed write."""
FEW_ROWS: Final = 50
"""A change of more rows is made, written and ended in an iteration of the event loop each."""
REST_MS: Final = 1_000
"""Records in flight that nobody has used for this time are packed."""
NOT_READ: Final = -1
_USUAL_BYTES: Final = 100.0


class DeadLetters(Protocol):
    """Takes the records that go to the dead-letter queue."""

    def queue(self, share: LedSharePartition, letter: DeadLetter, done: Callable[[bool], object]) -> None:
        """Write the records to the queue of the group. `done` is called with whether they are there."""


class Machine(NamedTuple):
    """What all share partitions of a node use."""

    clock: Clock
    persister: Persister
    dead_letters: DeadLetters
    run_behind: Callable[[Job[None]], object]
    closed: Callable[[LedSharePartition], object]
    """Called when a share partition was closed."""
    report: Callable[[Event], object]
    """Takes the events for the histories of the groups."""
    ended: Callable[[StateKey, Ending, Change], object]
    """Called when a change of records is durable."""


class LedSharePartition:
    """See the module. `failure`: why the state could not be loaded. `is_read`: a fetch reads the log for it now."""

    __slots__ = (
        "_changing", "_endings", "_gave_way", "_is_leaving", "_letters", "_machine", "_pack_timer", "_rest_timer",
        "_state_epoch", "_timer", "_timer_ms", "bytes_of_record", "config", "core", "failure", "is_active", "is_closed",
        "is_read", "key", "partition", "read_offset", "waiting",
    )  # fmt: skip

    def __init__(self, key: StateKey, partition: Partition, config: ShareConfig, machine: Machine) -> None:
        self.key = key
        self.partition = partition
        self.config = config
        self.core = SharePartition(config.partition)
        self.failure: Refusal | None = None
        self.is_active = False
        self.is_closed = False
        self.is_read = False
        self.bytes_of_record = _USUAL_BYTES
        """About how many bytes a record has, as a fetch has found lately."""
        self.read_offset = NOT_READ
        """The offset at which a fetch read the log last (Kafka: fetchOffsetMetadata)."""
        self.waiting: dict[object, Callable[[], object]] = {}
        """Functions that are called when records may have become available."""
        self._machine = machine
        self._state_epoch = 0
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._gave_way = False
        self._is_leaving = False
        self._endings = Endings()
        self._letters: list[tuple[Row, bool]] = []
        """The letters that are done, but not archived yet, and whether the queue has them."""
        self._rest_timer: Timer | None = None
        self._pack_timer: Timer | None = None
        self._changing = 0
        """How many changes are not durable yet."""
        partition.wait(self, self._log_changed)

    def configured(self, config: ShareConfig) -> None:
        """Use new configs of the group."""
        self.config = config
        self.core.settings = config.partition

    # ---- the state at the beginning

    def load(self, done: Callable[[], object]) -> None:
        """Read the state, and call `done`. `waiting` is called when the partition is active, or has failed."""
        self._machine.persister.read(ReadState(self.key, self.partition.leader_epoch), partial(self._read, done))

    def _read(self, done: Callable[[], object], state: LoadedState) -> None:
        done()
        if self.is_closed:
            return
        if state.error_code:
            self._fail(refusal_of(state))
            return
        records, reset = self.partition.log, self.config.reset
        if state.start_offset != UNKNOWN:
            self._start(state, state.start_offset)
        elif reset in (EARLIEST, LATEST):
            self._start(state, records.start_offset if reset == EARLIEST else records.durable_offset)
        else:
            self._machine.run_behind(self._starting(state, age_ms(reset)))

    def _starting(self, state: LoadedState, age: int) -> Job[None]:
        """Begin at the first record that is at most `age` milliseconds old."""
        records = self.partition.log
        try:
            found = yield from records.offset_for_timestamp(self._machine.clock.now().wall_ms - age)
        except (LogError, OSError) as error:
            self._fail(Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        if self.is_closed:
            return
        if found is None or found.offset >= records.durable_offset:
            # as on Kafka, the group cannot begin before there is such a record
            self._fail(Refusal(ErrorCode.OFFSET_NOT_AVAILABLE, f"There is no record of the last {age} ms."))
        else:
            self._start(state, found.offset)

    def _start(self, state: LoadedState, start_offset: int) -> None:
        try:
            letters = self.core.load(start_offset, state.rows)
        except ValueError as error:
            log.error("the state of a share partition is invalid", **self.facts(), reason=str(error))
            self._fail(Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to initialize the share partition {self.name}"))
            return
        self._state_epoch = state.state_epoch
        self.is_active = True
        self._queue(letters)
        self.wake()

    def _fail(self, why: Refusal) -> None:
        self.failure = why
        self.close()

    # ---- reading

    @property
    def may_acquire(self) -> bool:
        """Whether a fetch may read records for a member now (Kafka: the fetch lock, and canAcquireRecords)."""
        if not self.is_active or self.is_closed:
            return False
        if self.is_read:
            self._gave_way = True
            return False
        core = self.core
        return core.next_offset() != core.end_offset + 1 or core.in_flight < core.settings.max_in_flight

    def stop_reading(self, reader: object, *, has_acquired: bool) -> None:
        """End the reading of a fetch, and let others read that had to give way."""
        self.is_read = False
        if self._gave_way or has_acquired:
            self._gave_way = False
            self.wake(reader)

    def acquire(
        self, wish: Wish, fetched: Sequence[Span], fetch_offset: int, aborted: Sequence[Span]
    ) -> tuple[list[Acquired], int]:
        """Acquire records for a member, without those of aborted transactions. Returns Kafka's count of them too."""
        if not self.is_active or self.is_closed:
            return [], 0
        now_ms = self._machine.clock.now().mono_ms
        found, count = acquire(self.core, wish, fetched, fetch_offset, now_ms)
        if found:
            self._set_timer(now_ms + self.core.settings.lock_ms)
            self._pack_later(now_ms)
        if aborted and found:
            found = take_out_aborted(self.core, found, aborted)
            count = sum(row.last - row.first + 1 for row in found)
        return found, count

    def log_starts_at(self, offset: int) -> None:
        """Note that the log has no records before `offset` any more."""
        self.core.log_starts_at(offset)

    # ---- changes

    def acknowledge(self, member: str, some: Sequence[Acknowledgement], done: Ended) -> Callable[[], object]:
        """Acknowledge records of a member. `done` is called when the change is durable, or refused.

        Returns the function that writes the change. The caller must call it, at once or in the next iteration of the
        event loop.
        """
        now_ms = self._machine.clock.now().mono_ms
        change = acknowledge(self.core, member, some, now_ms)
        if change is None or isinstance(change, Refusal):
            return partial(done, change)
        return partial(self._persist, change, done, Ending(RELEASED, member))

    def releasing(self, member: str, ended_ms: int) -> Job[None]:
        """Make the records of a member available again, whose share session ended at `ended_ms`."""
        change = release(self.core, member, ended_ms + self.core.settings.lock_ms)
        if change is not None:
            yield from self._persisting(change, Ending(SESSION_ENDED, member))

    def expire_locks(self) -> None:
        """Make the records available again whose locks have ended."""
        self._timer = None
        self._machine.run_behind(self._expiring())

    def _expiring(self) -> Job[None]:
        now_ms = self._machine.clock.now().mono_ms
        holders = [Held(*one) for one in overdue(self.core, now_ms)]
        change = expire(self.core, now_ms)
        if change is not None:
            yield from self._persisting(change, Ending(LOCK_OVER, holders=holders))
            self.wake()
        self._watch_locks()

    def _persisting(self, change: Change, ending: Ending) -> Job[None]:
        try:
            if len(change.rows) > FEW_ROWS:
                yield None
        finally:
            self._persist(change, _nothing, ending)

    def _watch_locks(self) -> None:
        deadline_ms = self.core.deadline_ms()
        if deadline_ms is not None:
            self._set_timer(deadline_ms)

    def _set_timer(self, at_ms: int) -> None:
        """Expire locks at this time or before."""
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._machine.clock.call_at(at_ms, self.expire_locks)

    def _pack_later(self, now_ms: int) -> None:
        """Pack the records in flight when nobody has used them for a while."""
        if self._pack_timer is None and not self.is_closed and self.core.has_many_runs:
            self._pack_timer = self._machine.clock.call_at(now_ms + REST_MS, self._pack)

    def _pack(self) -> None:
        self._machine.run_behind(self._packing())

    def _packing(self) -> Job[None]:
        self._pack_timer = None
        self.core.rest()
        self._pack_later(self._machine.clock.now().mono_ms)
        yield None

    def _persist(self, change: Change, done: Ended, ending: Ending) -> None:
        if self.is_closed:
            self._persisted(change, done, ending, StateResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        self._changing += 1
        request = WriteState(
            self.key,
            self._state_epoch,
            self.partition.leader_epoch,
            change.start_offset,
            change.done_count,
            change.rows,
        )
        self._machine.persister.write(request, partial(self._written, change, done, ending))

    def _written(self, change: Change, done: Ended, ending: Ending, response: StateResponse) -> None:
        if response.error_code:
            response = StateResponse(response.error_code, _NOT_WRITTEN + (response.error_message or ""))
        if len(change.rows) > FEW_ROWS:  # one sync of the disk may end the changes of many partitions
            self._machine.run_behind(self._ending(change, done, ending, response))
        else:
            self._end(change, done, ending, response)

    def _ending(self, change: Change, done: Ended, ending: Ending, response: StateResponse) -> Job[None]:
        self._end(change, done, ending, response)
        yield None

    def _end(self, change: Change, done: Ended, ending: Ending, response: StateResponse) -> None:
        self._changing -= 1
        self._persisted(change, done, ending, response)
        self._leave_if_idle()

    def _persisted(self, change: Change, done: Ended, ending: Ending, response: StateResponse) -> None:
        refusal = refusal_of(response) if response.error_code else None
        now_ms = self._machine.clock.now().mono_ms
        moved, letters = self.core.complete(change, now_ms, is_durable=refusal is None)
        self._pack_later(now_ms)
        if refusal is not None and not self.is_closed:
            log.error("a change of a share partition was not persisted", **self.facts(), reason=refusal.message)
            if refusal.error_code in CLOSING:
                self.close()
            else:
                self._watch_locks()  # records may be acquired again, as they were before the change
        if refusal is None:
            place = self.partition.topic, self.key.partition
            limit = self.core.settings.max_deliveries
            self._machine.ended(self.key, ending, change)
            for event in self._endings.events(self.key.group_id, place, ending, change, limit, now_ms):
                self._machine.report(event)
            due_ms = self._endings.rest_due_ms
            if due_ms is not None and self._rest_timer is None:
                self._rest_timer = self._machine.clock.call_at(due_ms, self._report_rest)
        done(refusal)
        if self.is_closed:
            return
        self._queue(letters)
        if moved or refusal is not None or any(row.state == AVAILABLE for row in change.rows):
            self.wake()

    def _report_rest(self) -> None:
        """Report the records whose failed deliveries were only counted until now."""
        self._rest_timer = None
        event = self._endings.rest()
        if event is not None:
            self._machine.report(event)

    def _queue(self, letters: Sequence[DeadLetter]) -> None:
        for letter in letters:
            self._machine.dead_letters.queue(self, letter, partial(self._queued, letter))

    def _queued(self, letter: DeadLetter, is_queued: bool) -> None:
        self._letters.append((letter.row, is_queued))
        if len(self._letters) == 1:
            self._machine.run_behind(self._archiving())

    def _archiving(self) -> Job[None]:
        """Archive the records of all letters that are done by now, by one change."""
        letters, self._letters = self._letters, []
        for cause, is_queued in ((DEAD_LETTER, True), (LETTER_LOST, False)):
            rows = [row for row, was_queued in letters if was_queued == is_queued]
            if rows and not self.is_closed:
                yield from self._persisting(archive_letters(self.core, rows), Ending(cause))

    # ---- those who wait

    def wake(self, but: object = None) -> None:
        """Let waiting fetches look again, all but one."""
        for waiting, look in list(self.waiting.items()):
            if waiting is not but:
                look()

    def _log_changed(self, partition: Partition) -> None:
        if partition.closed:
            self.close()
        else:
            self.wake()

    def leave(self) -> None:
        """Close the partition when all its changes are durable, unless a fetch needs it before (`stay`)."""
        self._is_leaving = True
        self._leave_if_idle()

    def stay(self) -> None:
        """Take back `leave`, because a fetch needs the partition."""
        self._is_leaving = False

    def _leave_if_idle(self) -> None:
        if self._is_leaving and not self._changing:
            self.close()

    def close(self) -> None:
        """Serve no more. The call has no effect for a partition that is closed."""
        if self.is_closed:
            return
        self.is_closed = True
        self.partition.stop_waiting(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pack_timer is not None:
            self._pack_timer.cancel()
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._report_rest()
        self._machine.closed(self)
        self.wake()

    # ---- for log lines

    @property
    def name(self) -> str:
        """The name in Kafka's sentences."""
        return f"{self.key.group_id}-{self.partition.topic}-{self.key.partition}"

    def facts(self) -> dict[str, object]:
        """The fields for log lines."""
        return {"group": self.key.group_id, "topic": self.partition.topic, "partition": self.key.partition}


def _nothing(_: object) -> None:
    pass
