"""The writer of one partition of a history (`__group_events`, `__transaction_events`): it appends rows in batches.

No answer waits for the disk. If the log has failed, or is not on this node yet, `MAX_KEPT` rows wait until it can be
opened. Further rows are lost, with one log line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from muster.coordinator.log import batches
from muster.coordinator.log.errors import LogError, LogOffline, RecordListTooLarge
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """The broker properties of the history; a field's name is the property's with "." as "_"."""

    muster_group_events_enable: bool = True
    """Whether events of groups are written to __group_events."""
    muster_transaction_events_enable: bool = True
    """Whether events of transactional ids are written to __transaction_events."""


log = structlog.get_logger("muster.events")

SYNC_MS: Final = 1_000
"""How long appended rows may wait for the disk. A power cut may lose the events of this time."""
REOPEN_MS: Final = 10_000
"""After a failure the log is not opened again within this time."""
MAX_KEPT: Final = 1_000
"""How many rows wait for a log that has failed, or is not on this node yet."""
ROWS_BYTES: Final = 256 * 1024
"""How many bytes are gathered into one batch."""

Row = tuple[bytes | None, bytes]
"""Key and value of a record."""


class EventLog(Protocol):
    """The required methods of the partition's log (`log.Log`)."""

    def append(self, leader_epoch: int, batch: bytes | bytearray, *, wall_ms: int) -> object:
        """Append one batch. Raises the log's errors or OSError."""

    def sync_if_older(self, mono_ms: int) -> None:
        """Begin a sync of data that has waited for `flush.ms`."""


class EventWriter:
    """Writes the events of one partition of `__group_events` or `__transaction_events`."""

    def __init__(
        self, partition: int, open_log: Callable[[], tuple[EventLog, int]], clock: Clock, topic: str | None = None
    ) -> None:
        """`open_log` returns the partition's log and its leader epoch. A failed log is opened again."""
        self._place = {"partition": partition} if topic is None else {"topic": topic, "partition": partition}
        self._open_log = open_log
        self._clock = clock
        self._leader_epoch = 0
        self._log: EventLog | None = None
        self._closed_until_ms = 0
        self._lost = 0
        self._kept: list[Row] = []
        self._sync_is_due = False

    def renew(self) -> None:
        """Let the log be opened again: now if rows wait, else with the next event."""
        self._log = None
        self._closed_until_ms = 0
        if self._kept:
            self.append([], self._clock.now())

    def hand_over(self, finish: Callable[[], object]) -> list[Row]:
        """Note that another process now leads the partition, and return the rows that this process must write. `finish`
        writes the last events.
        """
        self._log = None
        self._closed_until_ms = 0
        finish()
        kept, self._kept = self._kept, []
        return kept

    def write(self, rows: Sequence[Row], now: Now) -> None:
        """Append rows in batches of at most about ROWS_BYTES."""
        some: list[Row] = []
        size = 0
        for row in rows:
            size += len(row[1])
            if size > ROWS_BYTES and some:
                self.append(some, now)
                some, size = [], len(row[1])
            some.append(row)
        self.append(some, now)

    def append(self, rows: Sequence[Row], now: Now) -> None:
        """Append rows as one batch."""
        if self._log is None and now.mono_ms < self._closed_until_ms:
            self._keep(rows)
            return
        is_open = self._log is not None
        try:
            if self._log is None:
                self._log, self._leader_epoch = self._open_log()
                is_open = True
                kept, self._kept = self._kept, []
                if self._lost:
                    log.warning("events are written again", **self._place, lost=self._lost)
                    self._lost = 0
                if kept:
                    self.write([*kept, *rows], now)
                    return
            self._log.append(self._leader_epoch, batches.build(rows, timestamp_ms=now.wall_ms), wall_ms=now.wall_ms)
            if not self._sync_is_due:
                self._sync_is_due = True
                self._clock.machine.call_at(self._clock.machine.mono_ms() + SYNC_MS, self._sync)
        except RecordListTooLarge as error:
            # The topic's `segment.bytes` is too small for these rows.
            if len(rows) > 1:
                for row in rows:
                    self.append([row], now)
            else:
                log.error("an event cannot be written, and is lost", **self._place, why=str(error))
        except (LogError, OSError) as error:
            self._log = None
            self._closed_until_ms = now.mono_ms + REOPEN_MS
            if is_open:
                self._lost += len(rows)
            else:
                self._keep(rows)
            if not (isinstance(error, LogOffline) and error.is_reported):
                log.error("events cannot be written until their log is open again, and may be lost",
                          **self._place, error=str(error))  # fmt: skip

    def _keep(self, rows: Sequence[Row]) -> None:
        kept = rows[: MAX_KEPT - len(self._kept)]
        self._kept += kept
        self._lost += len(rows) - len(kept)

    def _sync(self) -> None:
        self._sync_is_due = False
        if self._log is not None:
            self._log.sync_if_older(self._clock.machine.mono_ms())


def record_key(name: str) -> bytes:
    """The record key of the events of a group or a transactional id."""
    return name.encode("utf-8", "surrogatepass")
