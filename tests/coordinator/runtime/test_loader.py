"""Loading at a start: what is loaded before the server listens, what beside its clients, and how progress is
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
import structlog

from muster.coordinator.runtime.loader import LOAD_CHUNK_BYTES, LOG_EVERY_MS, Loader, replay_chunks
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock

CHUNK_MS = 10


class SteppedClock(ManualClock):
    """A clock on which time also passes during a computation."""

    def advance_now(self, ms: int) -> None:
        self._move_to(self._now.mono_ms + ms)


class LoaderHarness:
    """Loads of some chunks each. A chunk takes 10 ms."""

    def __init__(self, *chunks: int) -> None:
        self.clock = SteppedClock()
        self.done: list[list[int]] = []
        self.loaded = [0] * len(chunks)
        self.loading = Loader(self.clock, "groups", lambda: self.done.append(list(self.loaded)))
        for index, count in enumerate(chunks):
            self.loading.add(self.steps(index, count), count * LOAD_CHUNK_BYTES)

    def steps(self, index: int, count: int) -> Iterator[None]:
        for _ in range(count):
            self.clock.advance_now(CHUNK_MS)
            self.loaded[index] += 1
            yield


def test_short_loads_are_done_at_once_without_log_lines() -> None:
    harness = LoaderHarness(3, 2)
    with structlog.testing.capture_logs() as logged:
        harness.loading.run_for(200)
    assert harness.done == [[3, 2]]
    assert logged == []


def test_long_loads_continue_in_later_iterations() -> None:
    harness = LoaderHarness(30, 30)
    harness.loading.run_for(200)
    assert sum(harness.loaded) == 21
    assert harness.done == []
    harness.clock.advance(60 * CHUNK_MS)
    assert harness.done == [[30, 30]]


def test_a_long_load_logs_its_progress() -> None:
    harness = LoaderHarness(300, 100)
    with structlog.testing.capture_logs() as logged:
        harness.loading.run_for(0)
        harness.clock.advance(500 * CHUNK_MS)
    assert [line["percent"] for line in logged[:-1]] == [0, 50]
    assert [line["partitions_left"] for line in logged[:-1]] == [2, 1]
    assert logged[-1]["event"] == "all groups are loaded"
    assert LOG_EVERY_MS // CHUNK_MS == 200


def test_a_stop_ends_the_loading() -> None:
    harness = LoaderHarness(30)
    harness.loading.run_for(0)
    harness.loading.stop()
    harness.clock.advance(1_000)
    assert (harness.loaded, harness.done) == ([1], [])


def test_loading_without_shards_is_done_at_once() -> None:
    harness = LoaderHarness()
    harness.loading.run_for(200)
    assert harness.done == [[]]


class SlowReader:
    """A chunk with one part of records. The replay of each record takes `ms`."""

    offset = -1
    replaced = 0

    def __init__(self, records: int) -> None:
        self.records = records

    def read(self, chunk: bytes) -> Iterator[Iterator[int]]:
        yield iter(range(self.records))

    def rest(self) -> Iterator[int]:
        return iter(())


class SlowCore:
    """A core whose replay of records takes time."""

    def __init__(self, clock: SteppedClock, ms: int) -> None:
        self.clock, self.ms = clock, ms
        self.replayed: list[int] = []

    def replay(self, records: Iterable[int], now: Now) -> int:
        before = len(self.replayed)
        for record in records:
            self.clock.advance_now(self.ms)
            self.replayed.append(record)
        return len(self.replayed) - before


def steps_of(records: int, ms: int) -> list[int]:
    """How many records each step replays. All records are replayed once, in their order."""
    clock = SteppedClock()
    core = SlowCore(clock, ms)
    steps = list(replay_chunks([b""], cast(Any, SlowReader(records)), cast(Any, core), clock))
    assert core.replayed == list(range(records))
    assert sum(steps) == records
    return steps


def test_large_records_are_replayed_in_steps_of_their_own() -> None:
    assert max(steps_of(50, 40)) == 1
    assert max(steps_of(50, 4)) <= 4


@pytest.mark.parametrize("records", [0, 1, 2, 3, 1_000])
def test_a_chunk_of_small_records_is_one_step(records: int) -> None:
    assert steps_of(records, 0) == [records]
