"""Loads the state of a shard from its log, in steps, and runs all loads of a start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import structlog

from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.runtime.interfaces import RecordReader, StateMachine
from muster.coordinator.state_machine.interface import Decoded, EndTransaction, TransactionalBatch
from muster.coordinator.system.clock import Clock
from muster.protocol.message import MalformedMessage
from muster.protocol.records import UnknownRecord

shard_log = structlog.get_logger("muster.shard")


class Unreadable:
    """The unreadable records of one load."""

    __slots__ = ("_partition", "_reported")

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._reported: set[tuple[int, int | None]] = set()

    def report(self, error: UnknownRecord | MalformedMessage) -> None:
        """Log an unreadable record: it is damaged, or of an unknown kind. Each unknown kind is logged once."""
        if not isinstance(error, UnknownRecord):
            shard_log.error("skipped a record that cannot be read", partition=self._partition, error=str(error))
            return
        what = (error.type, error.version)
        if what not in self._reported:
            self._reported.add(what)
            shard_log.warning("records of an unknown kind are left alone", partition=self._partition, what=str(error))


log = structlog.get_logger("muster.server")

LOAD_CHUNK_BYTES: Final = 256 * 1024
"""How many bytes of a log are replayed in one step, which takes some 10 ms."""
STEP_MS: Final = 10
"""A chunk that takes longer is replayed in several steps. One record of a member with 20,000 topics takes 20 ms."""
LOG_EVERY_MS: Final = 2_000


def replay(partition_log: UnifiedLog, reader: RecordReader, core: StateMachine, clock: Clock) -> Iterator[int]:
    """Replay a log, at most a chunk in each step; yield each step's number of records. Raises BatchError, LogError."""
    if partition_log.end_offset > partition_log.start_offset:
        yield from replay_chunks(partition_log.replay(chunk_bytes=LOAD_CHUNK_BYTES), reader, core, clock)


def replay_chunks(chunks: Iterable[bytes], reader: RecordReader, core: StateMachine, clock: Clock) -> Iterator[int]:
    """Replay all batches of a log; each step takes some `STEP_MS`. Yields the number of records of each step."""
    for chunk in chunks:
        yield from _replay(reader.read(chunk), core, clock)
    for count in _replay([reader.rest()], core, clock):
        if count:
            yield count
    if reader.replaced:
        yield reader.replaced


def _replay(
    parts: Iterable[Iterator[Decoded] | TransactionalBatch | EndTransaction], core: StateMachine, clock: Clock
) -> Iterator[int]:
    """Replay the records of a chunk, in steps of some `STEP_MS`. Yields the number of records of each step."""
    machine = clock.machine
    count, size, now, began_ms = 0, 1, clock.now(), machine.mono_ms()
    for part in parts:
        if isinstance(part, TransactionalBatch):
            count += core.replay_transactional(part, now)
        elif isinstance(part, EndTransaction):
            for _ in core.end_transaction(part, now):
                if machine.mono_ms() - began_ms > STEP_MS:
                    yield count
                    count, began_ms = 0, machine.mono_ms()
        else:
            records = iter(part)
            while (replayed := core.replay(islice(records, size), now)) == size:
                count += replayed
                used_ms = machine.mono_ms() - began_ms
                if used_ms > STEP_MS:
                    yield count
                    count, size, now, began_ms = 0, 1, clock.now(), machine.mono_ms()
                elif used_ms <= STEP_MS // 4:
                    size *= 2
            count += replayed
    yield count


def in_background(clock: Clock, steps: Iterator[None]) -> None:
    """Run one step in each iteration of the event loop."""
    for _ in steps:
        clock.call_soon(lambda: in_background(clock, steps))
        return


class Loader:
    """Runs all loads of a start, one by one, and logs progress. Call `add` for each load, then `run_for` once."""

    def __init__(self, clock: Clock, what: str, done: Callable[[], object]) -> None:
        """`what`: the noun for the shards' content, for log lines. `done` is called once, when all loads have ended."""
        self._clock = clock
        self._what = what
        self._done = done
        self._loads: list[tuple[Iterator[None], int]] = []
        self._total = self._finished = self._begun = 0
        self._logged_ms = 0

    def add(self, steps: Iterator[None], size_bytes: int) -> None:
        """`steps`: the result of `CoordinatorShard.start`, for a log of `size_bytes` bytes."""
        self._loads.append((steps, size_bytes))
        self._total += size_bytes

    def run_for(self, budget_ms: int) -> None:
        """Load for about `budget_ms` now. Later iterations of the event loop do the remaining loads."""
        end = self._clock.machine.mono_ms() + budget_ms
        while self._loads and self._clock.machine.mono_ms() <= end:
            self._step()
        if self._loads:
            self._log_progress()
            self._clock.call_soon(self._next_step)
        else:
            self._done()

    def stop(self) -> None:
        """Stop: the remaining loads do not run."""
        self._loads.clear()

    def _step(self) -> None:
        steps, size_bytes = self._loads[-1]
        try:
            next(steps)
        except StopIteration:
            self._loads.pop()
            self._finished += size_bytes
            self._begun = 0
        else:
            self._begun = min(self._begun + LOAD_CHUNK_BYTES, size_bytes)

    def _next_step(self) -> None:
        if not self._loads:
            return
        self._step()
        if self._loads:
            if self._clock.machine.mono_ms() - self._logged_ms >= LOG_EVERY_MS:
                self._log_progress()
            self._clock.call_soon(self._next_step)
        else:
            log.info(f"all {self._what} are loaded")
            self._done()

    def _log_progress(self) -> None:
        self._logged_ms = self._clock.machine.mono_ms()
        done = self._finished + self._begun
        log.info(f"the {self._what} are being loaded", percent=100 * done // max(self._total, 1),
                 mb_done=done // 1_000_000, mb=self._total // 1_000_000, partitions_left=len(self._loads))  # fmt: skip
