"""The writer of one partition of `__group_events`, for the events of one shard's groups as they happen.

Events are appended before an answer that shows them leaves. At the latest they are appended at the end of the same
iteration of the event loop. So a killed process loses no event that a client has seen. Only events of a large group
take several iterations, and later events wait for them (`pending_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.event_writer import EventLog, EventWriter, Row, record_key
from muster.coordinator.history.pending_rows import PendingRows
from muster.coordinator.history.refusal_counts import SECOND_MS, RefusalCounts, key_of
from muster.coordinator.history.schema import plain_json
from muster.coordinator.history.transaction_counts import KINDS, TransactionCounts
from muster.coordinator.history.unstable_members import KINDS as LOOPING
from muster.coordinator.history.unstable_members import UnstableMembers
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock
from muster.protocol.errors import ErrorCode, error_name

log = structlog.get_logger("muster.events")

SHARD_LOADED: Final = "shard_loaded"
"""partition, groups, records, took_ms. The event belongs to no group."""
REQUESTS_REFUSED: Final = "requests_refused"
"""api, error, error_code, client_id, host, instance, count: of one second."""
MEMBER_FENCED: Final = "member_fenced"
"""As REQUESTS_REFUSED, for requests of a member with an old instance or epoch.

Its instance id now belongs to another member, or its epoch is not that of its group.
"""
PRODUCER_FENCED: Final = "producer_fenced"
"""As REQUESTS_REFUSED, for offsets of a transaction whose transactional id now belongs to a newer producer."""
_FENCED: Final = {
    ErrorCode.FENCED_INSTANCE_ID: MEMBER_FENCED,
    ErrorCode.FENCED_MEMBER_EPOCH: MEMBER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: PRODUCER_FENCED,
    ErrorCode.PRODUCER_FENCED: PRODUCER_FENCED,
}


class Journal:
    """See the module."""

    def __init__(
        self,
        partition: int,
        open_log: Callable[[], tuple[EventLog, int]],
        clock: Clock,
        restless: Callable[[Event], object] = lambda _: None,
    ) -> None:
        """`open_log`: see `EventWriter`.

        `restless` is called when members of a group begin to leave and join in a loop.
        """
        self.partition = partition
        self._clock = clock
        self._writer = EventWriter(partition, open_log, clock)
        self._refused = RefusalCounts()
        self._ended = TransactionCounts()
        self._pending = PendingRows(self._cannot_be_said)
        self._loops = UnstableMembers()
        self._restless = restless
        self._is_asked = False

    def tell(self, happened: Sequence[Event], now: Now) -> None:
        """Take events. They are written by `flush`, or at the end of this iteration of the event loop.

        Refusals and ends of transactions are counted and written within a second.
        """
        for event in happened:
            if event.kind == events.REQUEST_REFUSED:
                self._count(event, now)
            elif event.kind in KINDS:
                self._count_end(event, now)
            else:
                if not self._is_asked:
                    self._is_asked = True
                    self._clock.call_soon(self._end_of_turn)
                self._pending.add(event, now.wall_ms)
                if event.kind in LOOPING:
                    self._look(event, now.wall_ms)

    def _look(self, event: Event, wall_ms: int) -> None:
        """Check whether a member leaves and joins again and again."""
        told = self._loops.see(event, wall_ms)
        if told is not None:
            self._pending.add(told, wall_ms)
            self._restless(told)

    def flush(self) -> None:
        """Write all events, because an answer is about to show them. Harmless without events."""
        if self._pending.rows:
            self._write()

    def _end_of_turn(self) -> None:
        self._is_asked = False
        was_behind = self._pending.is_behind
        self._pending.go_on()
        if was_behind:
            self._is_asked = True
            self._clock.call_soon(self._end_of_turn)
        self.flush()

    def _write(self) -> None:
        rows, self._pending.rows = self._pending.rows, []
        self._writer.write(rows, self._clock.now())

    def _cannot_be_said(self, event: Event, why: str) -> None:
        # A group may have any number of members.
        log.error("an event is lost: there is too much of it", partition=self.partition, kind=event.kind,
                  group=event.group_id, why=why)  # fmt: skip

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        """The shard has loaded its state from the log."""
        facts = {"partition": self.partition, "groups": groups, "records": records, "took_ms": took_ms}
        self._writer.append([(None, plain_json(SHARD_LOADED, None, now.wall_ms, facts))], now)

    def renew(self) -> None:
        """See `EventWriter`."""
        self._writer.renew()

    def hand_over(self) -> list[Row]:
        """Another process leads the partition now: return the rows that it has to write."""
        self._writer.let_go()
        self.close()
        return self._writer.give_up()

    def take_over(self, rows: Sequence[Row]) -> None:
        """Write the rows that the leader before has handed over."""
        self._writer.write(rows, self._clock.now())

    def close(self) -> None:
        """Write the remaining events and the counted refusals."""
        self._pending.finish()
        self.flush()
        self._write_refused()
        self._write_ended()

    # ---- counted events

    def _count(self, event: Event, now: Now) -> None:
        if self._refused.began_ms is None:
            self._clock.machine.call_at(self._clock.machine.mono_ms() + SECOND_MS, self._write_refused)
        self._refused.add(event, now.wall_ms)

    def _write_refused(self) -> None:
        if self._refused.began_ms is None:  # closed meanwhile
            return
        rows: list[Row] = []
        for group_id, first_ms, facts in self._refused.take():
            code = facts["error_code"]
            kind = REQUESTS_REFUSED if code is None else _FENCED.get(code, REQUESTS_REFUSED)
            facts["error"] = None if code is None else error_name(code)
            rows.append((key_of(group_id), plain_json(kind, group_id, first_ms, facts)))
        self._writer.append(rows, self._clock.now())

    def _count_end(self, event: Event, now: Now) -> None:
        if self._ended.began_ms is None:
            self._clock.machine.call_at(self._clock.machine.mono_ms() + SECOND_MS, self._write_ended)
        self._ended.add(event, now.wall_ms)
        if self._ended.is_full:
            self._write_ended()

    def _write_ended(self) -> None:
        if self._ended.began_ms is None:  # written meanwhile
            return
        rows = [
            (record_key(group_id), plain_json(kind, group_id, first_ms, facts))
            for kind, group_id, first_ms, facts in self._ended.take()
        ]
        self._writer.write(rows, self._clock.now())
