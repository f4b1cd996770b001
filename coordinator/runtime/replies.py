"""What a shard has to do later: gathered records, replies that wait for a durable log, and the timer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from muster.coordinator.state_machine.deadlines import NEVER, LateAnswers
from muster.coordinator.state_machine.interface import Producer, Reply
from muster.coordinator.system.clock import Clock, Timer
from muster.protocol.errors import ErrorCode

_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # The transaction coordinator sends this code, with which old producers try again.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: Exception) -> int:
    """The error code that clients get when an append fails (Kafka's CoordinatorOperationExceptionHelper)."""
    error_code: int = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
    return _APPEND_ERRORS.get(error_code, error_code)


BATCH_BYTES: Final = 64 * 1024
"""How many bytes are gathered into one batch. The records of one command may have more."""


class Batch:
    """Records of `size` bytes since `began_ms` (monotonic), with events and replies. `producer`: of a transaction."""

    __slots__ = ("began_ms", "events", "producer", "replies", "rows", "size")

    def __init__(
        self, began_ms: int, rows: list[Any], size: int, producer: Producer | None, replies: list[Reply],
        events: list[Any],
    ) -> None:  # fmt: skip
        """The lists belong to the batch."""
        self.began_ms = began_ms
        self.producer = producer
        self.rows = rows
        self.size = size
        self.replies = replies
        self.events = events


class AppendQueue:
    """The batches to be appended, in their order. With `at_once` the caller calls `flush`, else the queue calls it."""

    __slots__ = ("_clock", "_flush", "_is_timed", "_linger_ms", "at_once", "batches")

    def __init__(self, clock: Clock, linger_ms: int, flush: Callable[[], object]) -> None:
        """`linger_ms`: see `ShardSettings`."""
        self._clock = clock
        self._linger_ms = linger_ms
        self._flush = flush
        self._is_timed = False
        self.at_once = linger_ms == 0
        self.batches: list[Batch] = []

    def add(
        self, rows: list[Any], size: int, producer: Producer | None, replies: list[Reply], events: list[Any]
    ) -> Batch:
        """Add the records of one command, which have `size` bytes, to the newest batch or to a new batch. The lists
        belong to the queue from now on. Returns the batch.
        """
        batches = self.batches
        if batches:
            batch = batches[-1]
            if batch.size + size <= BATCH_BYTES and batch.producer == producer:
                batch.size += size
                batch.rows += rows
                batch.replies += replies
                batch.events += events
                return batch
        elif self._linger_ms < 0:
            self._clock.call_soon(self._flush)
        elif self._linger_ms > 0:
            self._clock.machine.call_at(self._clock.machine.mono_ms() + self._linger_ms, self._flush)
        batch = Batch(self._clock.moment().mono_ms, rows, size, producer, replies, events)
        batches.append(batch)
        return batch

    def flush_within(self, ms: int) -> None:
        """Let the added records wait at most `ms` for more records. Other records may cause an earlier flush."""
        if self.at_once and not self._is_timed:
            self._is_timed = True
            self._clock.machine.call_at(self._clock.machine.mono_ms() + ms, self._flush_now)

    def _flush_now(self) -> None:
        self._is_timed = False
        self._flush()

    def remove_all(self) -> list[Batch]:
        """Remove and return all batches, which are then not appended."""
        batches, self.batches = self.batches, []
        return batches


LATE_MS: Final = 100
ANSWERS_AT_ONCE: Final = 25
"""How many answers of one command leave in one iteration of the event loop. This takes 1 to 35 ms."""


class Parked(NamedTuple):
    """Replies that wait until the log is durable up to `position`. The oldest request is of `began_ms` (monotonic)."""

    position: int
    replies: Sequence[Reply]
    began_ms: int


class PendingReplies:
    """The replies of a shard that cannot leave yet. `parked` is in the order of the positions."""

    __slots__ = ("_clock", "_leaving", "_waits", "parked")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits = LateAnswers()
        self._leaving: deque[Reply] = deque()
        self.parked: deque[Parked] = deque()

    def park(self, position: int, replies: Sequence[Reply], began_ms: int) -> None:
        """Park replies until the log is durable up to `position`."""
        self.parked.append(Parked(position, replies, began_ms))

    def park_behind(self, reply: Reply) -> None:
        """Park a reply behind all replies that are parked now."""
        newest = self.parked[-1]
        self.park(newest.position, (reply,), newest.began_ms)

    def release(self, durable: int) -> None:
        """Send the replies that waited for a position up to `durable`."""
        parked = self.parked
        if not parked or parked[0].position > durable:
            return
        began_ms, now_ms = parked[0].began_ms, self._clock.mono_ms()
        if now_ms - began_ms > LATE_MS:
            self._waits.late(began_ms, now_ms)
        while parked and parked[0].position <= durable:
            self.send(parked.popleft().replies)
            parked = self.parked  # an answer may cause `remove_all`

    def remove_all(self) -> list[Reply]:
        """Remove and return the parked replies, which are then not sent."""
        parked, self.parked = self.parked, deque()
        return [reply for one in parked for reply in one.replies]

    def send(self, replies: Sequence[Reply]) -> None:
        """Send replies, up to `ANSWERS_AT_ONCE` in one iteration of the loop, which also serves other clients."""
        if len(replies) > ANSWERS_AT_ONCE:
            if not self._leaving:
                self._clock.call_soon(self._send_some)
            self._leaving.extend(replies[ANSWERS_AT_ONCE:])
            replies = replies[:ANSWERS_AT_ONCE]
        for respond, response in replies:
            respond(response)

    def _send_some(self) -> None:
        leaving = self._leaving
        some = [leaving.popleft() for _ in range(min(ANSWERS_AT_ONCE, len(leaving)))]
        if leaving:
            self._clock.call_soon(self._send_some)
        self.send(some)

    def send_rest(self) -> None:
        """Send the rest of the replies that `send` spreads over later iterations."""
        while self._leaving:
            respond, response = self._leaving.popleft()
            respond(response)

    def waits(self, gathered_since_ms: int = NEVER) -> LateAnswers:
        """The late answers, including answers that are parked now, or gathered since `gathered_since_ms`."""
        self._waits.since_ms = self.parked[0].began_ms if self.parked else gathered_since_ms
        return self._waits


NO_DELAY_MS: Final = 5
"""The least time until a new deadline, such as the end of a join phase with `group.initial.rebalance.delay.ms=0`.

Members that start together then get one assignment, as on Kafka. On Kafka 4 to 7 ms pass from the first JoinGroup to
the assignment. This wait is in the machine's time, which passes even while a test has stopped the server's time.
"""


class ShardTimer:
    """The timer of a shard. `due_ms`: when the timer fires (monotonic ms); NEVER when the timer is off."""

    __slots__ = ("_clock", "_is_ringing", "_ring", "_timer", "due_ms")

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self._is_ringing = False
        self.due_ms = NEVER

    def set(self, deadline_ms: int | None) -> None:
        """Let the timer fire at `deadline_ms`, or before: a later deadline does not change a timer that runs.

        If the deadline is due already, the timer fires after `NO_DELAY_MS`, or at once if `set` is called while firing.
        """
        if deadline_ms is None:
            self.cancel()
        elif deadline_ms < self.due_ms:
            self.cancel()
            self.due_ms = deadline_ms
            clock = self._clock
            if deadline_ms <= clock.mono_ms() and not self._is_ringing:
                clock = clock.machine
                deadline_ms = clock.mono_ms() + NO_DELAY_MS
            self._timer = clock.call_at(deadline_ms, self._rang)

    def cancel(self) -> None:
        """Switch the timer off."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.due_ms = None, NEVER

    def _rang(self) -> None:
        self._timer, self.due_ms = None, NEVER
        self._is_ringing = True
        try:
            self._ring()
        finally:
            self._is_ringing = False
