"""The writer of one partition of `__group_events`, for the events of one shard's groups as they happen.

Events are appended before an answer shows their effects, at the latest at the end of the event loop's iteration. So a
killed process loses no event whose effect a client has seen. Rows of small events are made at once. Rows of large
groups are made a few pieces at a time, and later events wait for these rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import ceil
from typing import Final

import structlog

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history import counts, schema
from muster.coordinator.history.event_writer import EventLog, EventWriter, Row, record_key
from muster.coordinator.history.schema import plain_json
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock
from muster.protocol.errors import ErrorCode, error_name

log = structlog.get_logger("muster.events")

PIECES_AT_ONCE: Final = 10
"""How many pieces of events (`schema.pieces`) one iteration of the event loop makes: some 5 ms."""

SHORTEST_EVENT: Final = 0.01
"""The least part of a piece for which an event counts, since many short events take time too."""
BYTES_AS_A_PIECE: Final = 64 * 1024
"""This many bytes of a short event count as one piece. Most of these bytes are metadata, which is encoded fast."""
MAX_ROWS_WAITING: Final = 100_000
"""The most members in all waiting events, so that a group that always rebalances does not fill the memory."""


class PendingRows:
    """Makes the rows of events. `lost(event, why)` is called for events that cannot be written."""

    def __init__(self, lost: Callable[[Event, str], object]) -> None:
        self.rows: list[Row] = []
        """The finished rows, which the caller removes."""
        self._lost = lost
        self._waiting: deque[tuple[Event, int]] = deque()
        self._rows_waiting = 0
        self._pieces: Iterator[str | None] | None = None
        self._done: list[bytes] = []
        self._size = 0
        self._left = float(PIECES_AT_ONCE)
        """How many pieces may still be made in this iteration of the event loop."""

    @property
    def is_behind(self) -> bool:
        """Whether events wait for `go_on`."""
        return bool(self._waiting)

    def add(self, event: Event, wall_ms: int) -> None:
        """Add an event. The event's row is ready at once, unless the event or an earlier waiting event is large."""
        if not self._waiting and self._left > 0 and self._make_short(event, wall_ms):
            return
        rows = _rows(event)
        if self._rows_waiting and self._rows_waiting + rows > MAX_ROWS_WAITING:
            self._lost(event, f"events of {self._rows_waiting} members are before it, and not written yet")
            return
        self._rows_waiting += rows
        self._waiting.append((event, wall_ms))
        if len(self._waiting) == 1:
            self._go_on()

    def go_on(self) -> None:
        """Make the pieces of one iteration of the event loop, `PIECES_AT_ONCE` or a few more."""
        self._left = float(PIECES_AT_ONCE)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._left > 0:
            event, wall_ms = self._waiting[0]
            if self._pieces is None:
                if self._make_short(event, wall_ms):
                    self._begin_next()
                    continue
                self._pieces = schema.pieces(event, wall_ms)
            most = ceil(self._left)
            try:
                made = list(islice(self._pieces, most))
                self._take("".join(filter(None, made)).encode("utf-8", "surrogatepass"))
            except schema.TooLarge as error:
                self._begin_next()
                self._lost(event, str(error))
                self._left -= 1
                continue
            if len(made) < most:
                self.rows.append((record_key(event.group_id), b"".join(self._done)))
                self._begin_next()
            self._left -= len(made)

    def _make_short(self, event: Event, wall_ms: int) -> bool:
        """Make the row of a short event. Returns False for a long event, without effect."""
        value = schema.short_json(event, wall_ms)
        if value is None:
            return False
        self._left -= max(SHORTEST_EVENT, len(value) / BYTES_AS_A_PIECE)
        self.rows.append((record_key(event.group_id), value))
        return True

    def finish(self) -> None:
        """Make all remaining rows."""
        while self._waiting:
            self.go_on()

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > schema.MAX_BYTES:
            raise schema.TooLarge(self._size)
        self._done.append(data)

    def _begin_next(self) -> None:
        self._rows_waiting -= _rows(self._waiting.popleft()[0])
        self._pieces = None
        self._done, self._size = [], 0


def _rows(event: Event) -> int:
    members = event.facts.get("changes", event.facts.get("members"))
    return max(len(members), 1) if isinstance(members, tuple) else 1


SHARD_LOADED: Final = "shard_loaded"
"""partition, groups, records, took_ms. The event belongs to no group."""
REQUESTS_REFUSED: Final = "requests_refused"
"""api, error, error_code, client_id, host, instance, count (in one second)."""
MEMBER_FENCED: Final = "member_fenced"
"""The facts of REQUESTS_REFUSED: the instance id has another member, or the member epoch is wrong."""
PRODUCER_FENCED: Final = "producer_fenced"
"""The facts of REQUESTS_REFUSED: a TxnOffsetCommit of a producer whose transactional id has a newer producer."""
_FENCED: Final = {
    ErrorCode.FENCED_INSTANCE_ID: MEMBER_FENCED,
    ErrorCode.FENCED_MEMBER_EPOCH: MEMBER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: PRODUCER_FENCED,
    ErrorCode.PRODUCER_FENCED: PRODUCER_FENCED,
}


class Journal:
    """The writer of the events of one shard's groups."""

    def __init__(
        self,
        partition: int,
        open_log: Callable[[], tuple[EventLog, int]],
        clock: Clock,
        on_unstable: Callable[[Event], object] = lambda _: None,
    ) -> None:
        """`open_log`: see `EventWriter`. `on_unstable` is called when members leave and join again and again."""
        self.partition = partition
        self._clock = clock
        self.writer = EventWriter(partition, open_log, clock)
        self._refused = counts.RefusalCounts()
        self._ended = counts.TransactionCounts()
        self._pending = PendingRows(self._log_lost)
        self._unstable = counts.UnstableMembers()
        self._on_unstable = on_unstable
        self._is_scheduled = False

    def report(self, happened: Sequence[Event], now: Now) -> None:
        """Take events for `flush`, or the end of this iteration. Counted events are written within a second."""
        for event in happened:
            if event.kind == events.REQUEST_REFUSED:
                self._count(event, now)
            elif event.kind in counts.COUNTED_ENDS:
                self._count_end(event, now)
            else:
                if not self._is_scheduled:
                    self._is_scheduled = True
                    self._clock.call_soon(self._end_of_iteration)
                self._pending.add(event, now.wall_ms)
                if event.kind in counts.MEMBER_KINDS:
                    self._check_members(event, now.wall_ms)

    def _check_members(self, event: Event, wall_ms: int) -> None:
        event_of_group = self._unstable.add(event, wall_ms)
        if event_of_group is not None:
            self._pending.add(event_of_group, wall_ms)
            self._on_unstable(event_of_group)

    def flush(self) -> None:
        """Write all finished events, because an answer is about to show their effects."""
        if self._pending.rows:
            self._write()

    def _end_of_iteration(self) -> None:
        self._is_scheduled = False
        was_behind = self._pending.is_behind
        self._pending.go_on()
        if was_behind:
            self._is_scheduled = True
            self._clock.call_soon(self._end_of_iteration)
        self.flush()

    def _write(self) -> None:
        rows, self._pending.rows = self._pending.rows, []
        self.writer.write(rows, self._clock.now())

    def _log_lost(self, event: Event, why: str) -> None:
        # So large an event is possible, because a group may have any number of members.
        log.error("an event cannot be written, and is lost", partition=self.partition, kind=event.kind,
                  group=event.group_id, why=why)  # fmt: skip

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        """Write that the shard has loaded its state from the log."""
        facts = {"partition": self.partition, "groups": groups, "records": records, "took_ms": took_ms}
        self.writer.append([(None, plain_json(SHARD_LOADED, None, now.wall_ms, facts))], now)

    def hand_over(self) -> list[Row]:
        """Note that another process now leads the partition, and return the rows that this process must write."""
        return self.writer.hand_over(self.close)

    def close(self) -> None:
        """Write the remaining events and all counts."""
        self._pending.finish()
        self.flush()
        self._write_refused()
        self._write_ended()

    # ---- counted events

    def _count(self, event: Event, now: Now) -> None:
        if self._refused.began_ms is None:
            self._clock.machine.call_at(self._clock.machine.mono_ms() + counts.SECOND_MS, self._write_refused)
        self._refused.add(event, now.wall_ms)

    def _write_refused(self) -> None:
        if self._refused.began_ms is None:  # the journal was closed before
            return
        rows: list[Row] = []
        for group_id, first_ms, facts in self._refused.take():
            code = facts["error_code"]
            kind = REQUESTS_REFUSED if code is None else _FENCED.get(code, REQUESTS_REFUSED)
            facts["error"] = None if code is None else error_name(code)
            rows.append((counts.key_of(group_id), plain_json(kind, group_id, first_ms, facts)))
        self.writer.append(rows, self._clock.now())

    def _count_end(self, event: Event, now: Now) -> None:
        if self._ended.began_ms is None:
            self._clock.machine.call_at(self._clock.machine.mono_ms() + counts.SECOND_MS, self._write_ended)
        self._ended.add(event, now.wall_ms)
        if self._ended.is_full:
            self._write_ended()

    def _write_ended(self) -> None:
        if self._ended.began_ms is None:  # the counts are already written
            return
        rows = [
            (record_key(group_id), plain_json(kind, group_id, first_ms, facts))
            for kind, group_id, first_ms, facts in self._ended.take()
        ]
        self.writer.write(rows, self._clock.now())
