"""Random histories of one log with producers and their transactions, and a plain model of the state after each history.
One integer reproduces each history.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from muster.coordinator.log import LogConfig, LogManager, MemoryStorage, UnifiedLog
from muster.coordinator.log.producers.append_checks import NOT_NEEDED
from muster.coordinator.log.records.headers import BatchHeader, iterate
from muster.coordinator.log.records.markers import EndMarker, read_marker
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.system.jobs import at_once
from muster.virtual.faulty_storage import Died, FaultyStorage
from tests.coordinator.log.support import NOW, PendingResult, batch, manage

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100)
PRODUCERS = (1, 2, 3)

Known = tuple[int, int, int, int, int | None]
"""Producer id, epoch, last sequence, coordinator epoch, first offset of its open transaction."""


class Expected(NamedTuple):
    """What a log says of its producers."""

    producers: list[Known]
    first_open: int | None
    aborted: list[AbortedTransaction]


def expected(batches: Iterable[tuple[BatchHeader, bytes]]) -> Expected:
    """The state by the rules: a marker ends the producer's open transaction, and with a newer epoch its sequence begins
    again. The last stable offset is where the oldest open transaction begins.
    """
    known: dict[int, Known] = {}
    aborted: list[AbortedTransaction] = []
    for header, data in batches:
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            continue
        _, old_epoch, sequence, coordinator_epoch, start = known.get(producer_id, (0, -1, -1, -1, None))
        if epoch != old_epoch:
            sequence = -1
        if header.is_control:
            marker = read_marker(data, header)
            assert marker is not None
            known[producer_id] = (producer_id, epoch, sequence, marker.coordinator_epoch, None)
            if start is not None and not marker.is_committed:
                others = [row[4] for row in known.values() if row[4] is not None]
                stable = min(others, default=header.base_offset + 1)
                aborted.append(AbortedTransaction(producer_id, start, header.base_offset, stable))
        else:
            if header.is_transactional and start is None:
                start = header.base_offset
            known[producer_id] = (producer_id, epoch, header.last_sequence, coordinator_epoch, start)
    starts = [row[4] for row in known.values() if row[4] is not None]
    return Expected(sorted(known.values()), min(starts, default=None), aborted)


def producer_states(log: UnifiedLog) -> Expected:
    """What a log says of its producers when it is asked."""
    at_once(log.producers.loading())
    producers = [
        (p.producer_id, p.epoch, p.last_sequence, p.coordinator_epoch, p.transaction_start)
        for p in log.producers.producers.all()
    ]
    indexes = log.producers._files.indexes.values()
    aborted = [entry for index in indexes for part in index.since(0) for entry in part]
    return Expected(sorted(producers), log.producers.producers.first_unstable_offset(log.end_offset), aborted)


def stored(log: UnifiedLog) -> list[tuple[BatchHeader, bytes]]:
    """All batches of a log."""
    found = []
    for chunk in log.replay(log.start_offset):
        found += [(header, chunk[at : at + header.size]) for at, header in iterate(chunk)]
    return found


def opened(
    storage: MemoryStorage, later: PendingResult | None = None, **configs: bool
) -> tuple[LogManager, UnifiedLog]:
    manager = manage(storage) if later is None else manage(storage, sync=later.sync)
    return manager, manager.open_log("t", 0, config=CONFIG, **configs)


class History:
    """A server whose log is written, rolled, synced, closed and opened at random, until its storage dies."""

    def __init__(self, seed: int, dies_at: int = 120) -> None:
        self.draw = random.Random(seed)
        self.storage = FaultyStorage(seed, self.draw.randrange(10, dies_at))
        self.later = PendingResult()
        self.wait_for_sync = self.draw.random() < 0.5
        self.manager: LogManager
        self.log: UnifiedLog

    def live(self) -> None:
        try:
            self._open()
            while True:
                self._step()
        except Died:
            pass

    def _open(self) -> None:
        self.manager, self.log = opened(self.storage, self.later, wait_for_sync=self.wait_for_sync)

    def _step(self) -> None:
        draw, chance = self.draw, self.draw.random()
        if chance < 0.5:
            self._send(draw.choice(PRODUCERS), transactional=draw.random() < 0.8)
        elif chance < 0.72:
            self._mark(draw.choice(PRODUCERS), is_committed=draw.random() < 0.4, version=draw.choice((0, 2)))
        elif chance < 0.77:
            self.log.append(0, batch(b"x"), wall_ms=NOW)
        elif chance < 0.8:
            self.log.roll(NOW)
        elif chance < 0.95:
            self.later.work()
            self.later.deliver()
        elif chance < 0.97:
            self.manager.checkpoint()
        elif chance < 0.99:
            assert producer_states(self.log) == expected(stored(self.log))
        else:
            self.later.settle()
            self.manager.close()
            self._open()

    def _send(self, producer_id: int, *, transactional: bool) -> None:
        known = self.log.producers.get(producer_id)
        epoch, sequence = (0, 0) if known is None else (known.epoch, known.last_sequence + 1)
        if known is not None and known.transaction_start is not None:
            transactional = True
        data = batch(
            b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        ((_, header),) = iterate(data)
        assert self.log.producers.check(header, NOT_NEEDED) is None
        self.log.append(0, data, wall_ms=NOW)

    def _mark(self, producer_id: int, *, is_committed: bool, version: int) -> None:
        known = self.log.producers.get(producer_id)
        epoch = 0 if known is None else known.epoch + (version == 2)
        self.log.append_marker(0, EndMarker(producer_id, epoch, is_committed, 5, version), wall_ms=NOW)
