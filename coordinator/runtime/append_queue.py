"""What a shard has decided and is yet to write, and the answers that wait for it: gathered, appended as one batch,
told, and given when the log is durable that far. Decides nothing, knows no group; what fails is the shard's to mend.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from muster.coordinator.clock import Clock
from muster.coordinator.core.deadlines import NEVER
from muster.coordinator.core.interface import Event, Now, Output, Reply, Respond
from muster.coordinator.core.late_answers import LateAnswers
from muster.coordinator.log.errors import LogError
from muster.coordinator.runtime.interfaces import Batch, Codec, Observer
from muster.protocol.message import Message

LATE_MS: Final = 100
"""What an answer may wait for the log without being called late."""
BATCH_BYTES: Final = 64 * 1024
"""How much is gathered into one batch; the records of one command may be more."""

ANSWERS_AT_ONCE: Final = 300
"""How many answers of one command leave in one turn of the loop: some 5 ms. The others follow in the next ones."""


class Ledger:
    """See the module. `leader_epoch` stands in what is appended; `_term` changes when all that waits is of no use."""

    def __init__(self, codec: Codec, clock: Clock, observer: Observer | None, linger_ms: int) -> None:
        """`linger_ms`: see `interfaces.ShardSettings`."""
        self.leader_epoch = 0
        self._codec = codec
        self._clock = clock
        self._observer = observer
        self._linger_ms = linger_ms
        self._log: Any = None
        self._batches: list[Batch] = []
        self._parked: deque[tuple[int, Sequence[Reply], int]] = deque()
        """Position, answers, and since when at most these wait (monotonic ms)."""
        self._leaving: deque[Reply] = deque()
        """Answers that may leave, and have not yet for want of time."""
        self._waits = LateAnswers()
        self._failures = 0
        self._term = 0

    def _failed(self, what: str, error: Exception) -> None:
        """The core is ahead of its log, and what waits will not come."""
        raise NotImplementedError

    def is_settled(self) -> bool:
        """Whether all that an answer could show is durable."""
        return not (self._batches or self._parked)

    def hold(self, respond: Respond, response: Message) -> None:
        """Give this answer when all is durable that it shows."""
        if self._batches:
            self._batches[-1].replies.append((respond, response))
        else:
            position, _, began_ms = self._parked[-1]
            self._parked.append((position, ((respond, response),), began_ms))

    def _waits_now(self) -> LateAnswers:
        """How long answers wait, those included that wait now."""
        since_ms = self._batches[0].began_ms if self._batches else NEVER
        self._waits.since_ms = self._parked[0][2] if self._parked else since_ms
        return self._waits

    def _settle(self, output: Output, now: Now) -> None:
        """Gather the records of an output; what it tells and answers comes behind all that is to be appended."""
        if output.records:
            try:
                rows, size = self._codec.encode(output.records)
            except ValueError as error:
                # the core is ahead of its log now
                self._append()
                self._parked.append((-1, output.replies, now.mono_ms))
                self._failed("records cannot be written", error)
                return
            batch = self._batch_for(size)
            batch.rows += rows
            batch.replies += output.replies
            batch.events += output.events
            if self._linger_ms == 0:
                self._append()
        elif self._batches:
            self._batches[-1].replies += output.replies
            self._batches[-1].events += output.events
        else:
            self._tell_and_answer(output.events, output.replies, now, now.mono_ms)

    def _batch_for(self, size: int) -> Batch:
        """The batch that takes the records of one command, of `size` bytes: the newest one, or a new one when that is
        full.
        """
        batches = self._batches
        if not batches:
            if self._linger_ms < 0:
                self._clock.call_soon(self._append)
            elif self._linger_ms > 0:
                self._clock.call_at(self._clock.mono_ms() + self._linger_ms, self._append)
            batches.append(Batch(self._clock.moment().mono_ms))
        elif batches[-1].size + size > BATCH_BYTES:
            batches.append(Batch(self._clock.moment().mono_ms))
        batch = batches[-1]
        batch.size += size
        return batch

    def _append(self) -> None:
        """Append all that was gathered, batch by batch."""
        if not self._batches:
            return
        now, term = self._clock.moment(), self._term
        while self._batches:
            batch = self._batches.pop(0)
            try:
                self._log.append(self.leader_epoch, self._codec.build(batch.rows, now), wall_ms=now.wall_ms)
            except (LogError, OSError, ValueError) as error:
                # the core is ahead of its log now
                self._parked.append((-1, batch.replies, batch.began_ms))
                self._failed("an append failed", error)
                return
            # records without a reply are parked as well: what they changed is not shown before they are durable
            self._tell_and_answer(batch.events, batch.replies, now, batch.began_ms)
            if self._failures and not self._parked and term == self._term:
                self._failures = 0

    def _tell_and_answer(self, events: Sequence[Event], replies: Sequence[Reply], now: Now, began_ms: int) -> None:
        """Tell events, and give answers to what came since `began_ms` as soon as the log is durable up to here."""
        if self._observer is not None:
            if events:
                self._observer.tell(events, now)
            if replies:
                # they may show what is told
                self._observer.flush()
        position = self._log.end_offset
        if self._log.durable_offset >= position and not self._parked:
            self._answer(replies)
        else:
            self._parked.append((position, replies, began_ms))
            self._log.when_durable(position, self._when_durable(self._term))

    def _when_durable(self, term: int) -> Callable[[Exception | None], object]:
        def callback(error: Exception | None) -> None:
            if term != self._term:
                return
            if error is not None:
                self._failed("a sync failed", error)
                return
            self._failures = 0  # a write that a sync has not confirmed says nothing about the disk
            durable = self._log.durable_offset
            if not self._parked or self._parked[0][0] > durable:
                return
            began_ms, now_ms = self._parked[0][2], self._clock.mono_ms()
            if now_ms - began_ms > LATE_MS:
                self._waits.late(began_ms, now_ms)
            while self._parked and self._parked[0][0] <= durable:
                self._answer(self._parked.popleft()[1])

        return callback

    def _answer(self, replies: Sequence[Reply]) -> None:
        """Give answers, those of a large group over some turns of the loop: who else waits has his turn meanwhile."""
        if len(replies) > ANSWERS_AT_ONCE:
            if not self._leaving:
                self._clock.call_soon(self._answer_some)
            self._leaving.extend(replies[ANSWERS_AT_ONCE:])
            replies = replies[:ANSWERS_AT_ONCE]
        for respond, response in replies:
            respond(response)

    def _answer_some(self) -> None:
        leaving = self._leaving
        some = [leaving.popleft() for _ in range(min(ANSWERS_AT_ONCE, len(leaving)))]
        if leaving:
            self._clock.call_soon(self._answer_some)
        self._answer(some)

    def _answer_all(self) -> None:
        """Give what is left of those, now."""
        while self._leaving:
            respond, response = self._leaving.popleft()
            respond(response)
