"""Helpers of the tests of the log: batches in one line, logs opened in one line, and the log's lines captured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from muster.coordinator.log import (
    FileStorage,
    LogConfig,
    LogManager,
    LogSettings,
    SharedSync,
    Storage,
    UnifiedLog,
    batches,
)
from muster.coordinator.log.records.headers import iterate
from muster.coordinator.system.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden"
SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=200)
NOW = 1_700_000_000_000


def batch(*values: bytes | None, timestamp_ms: int = NOW, **more: int) -> bytearray:
    return batches.build([(b"k", value) for value in values], timestamp_ms=timestamp_ms, **more)


def values(data: bytes) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record in the whole batches of `data`."""
    return [(record.offset, record.value) for _, records in batches.read(data) for record in records]


def everything(log: UnifiedLog) -> list[tuple[int, bytes | None]]:
    return [pair for chunk in log.replay() for pair in values(chunk)]


def base_offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iterate(data)]


def drawing() -> Callable[[], bytes]:
    counter = itertools.count(1)
    return lambda: next(counter).to_bytes(16, "big")


def manage(storage: Storage, *, sync: SharedSync | None = None, **settings: int) -> LogManager:
    manager = LogManager(storage, LogSettings(**settings), sync=sync)
    manager.open(cluster_id=None, node_id=1, draw_uuid=drawing())
    return manager


def on_files(directory: Path, **settings: int) -> LogManager:
    return manage(FileStorage(directory), **settings)


class PendingResult:
    """An event loop and its threads under the test's control: jobs run, and their results arrive, when the test says
    so.
    """

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []
        self.outcomes: list[Callable[[], object]] = []
        self.sync = SharedSync(self.outcomes.append, executor=self)

    def share(self, sync_all: Callable[[], object]) -> None:
        """Let `sync_all` sync everything from now on; `clock` says how long other syncs are waited for."""
        self.clock = ManualClock()
        self.clock.call_soon = self.outcomes.append
        self.sync.share(sync_all, self.clock)

    def begin(self) -> None:
        """Let iterations pass until the threads have jobs."""
        while not self.jobs:
            self.deliver()

    def submit(self, job: Callable[[], object]) -> None:
        self.jobs.append(job)

    def shutdown(self, *, wait: bool) -> None:
        """Do what an executor's `shutdown` does."""

    def work(self) -> int:
        """Run the jobs that the threads have so far."""
        jobs, self.jobs[:] = list(self.jobs), []
        for job in jobs:
            job()
        return len(jobs)

    def deliver(self) -> None:
        outcomes, self.outcomes[:] = list(self.outcomes), []
        for outcome in outcomes:
            outcome()

    def settle(self) -> None:
        while self.jobs or self.outcomes:
            self.work()
            self.deliver()


def fill(log: UnifiedLog, count: int, *, size: int = 50, epoch: int = 0) -> Iterator[bytes]:
    """Append `count` batches of one record each; returns the bytes."""
    for _ in range(count):
        value = b"%d-" % log.end_offset + b"x" * size
        log.append(epoch, batch(value, timestamp_ms=NOW + log.end_offset), wall_ms=NOW)
        yield value
