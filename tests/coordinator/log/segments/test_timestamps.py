from typing import Any

import pytest

from muster.coordinator.log import LogConfig, MemoryStorage, UnifiedLog, batches
from muster.coordinator.log.records import compression
from muster.coordinator.log.segments.reading import MANY_RECORDS
from muster.coordinator.system.jobs import Job, OffloadedWork, at_once
from tests.coordinator.log.support import NOW, batch, manage


@pytest.fixture
def log() -> UnifiedLog:
    return manage(MemoryStorage()).open_log("t", 0, config=LogConfig(index_interval_bytes=100))


def test_nothing_is_found_by_time_in_an_empty_log(log: UnifiedLog) -> None:
    assert at_once(log.offset_for_timestamp(0)) is None
    assert at_once(log.offset_of_max_timestamp()) is None


def test_the_first_record_at_or_after_a_time_is_found(log: UnifiedLog) -> None:
    for timestamp_ms in (100, 200, 150, 300):
        log.append(2, batch(b"a", b"b", timestamp_ms=timestamp_ms), wall_ms=NOW)
    assert at_once(log.offset_for_timestamp(0)) == (100, 0, 2)
    assert at_once(log.offset_for_timestamp(100)) == (100, 0, 2)
    assert at_once(log.offset_for_timestamp(101)) == (200, 2, 2)
    assert at_once(log.offset_for_timestamp(250)) == (300, 6, 2)
    assert at_once(log.offset_for_timestamp(301)) is None


def test_records_are_found_by_time_within_a_batch(log: UnifiedLog) -> None:
    builder = batches.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    for delta, timestamp in enumerate([100, 300, 200]):
        builder.append(delta, timestamp, None, b"v", [])
    log.append(0, builder.build(), wall_ms=NOW)
    assert [at_once(log.offset_for_timestamp(t))[:2] for t in (50, 150, 250)] == [(100, 0), (300, 1), (300, 1)]
    assert at_once(log.offset_of_max_timestamp()) == (300, 1, 0)


def test_records_before_the_log_start_are_not_found_by_time(log: UnifiedLog) -> None:
    for timestamp_ms in (100, 200, 300):
        log.append(0, batch(b"a", b"b", timestamp_ms=timestamp_ms), wall_ms=NOW)
    log.delete_records_before(3)
    assert at_once(log.offset_for_timestamp(0)) == (200, 3, 0)
    assert at_once(log.offset_for_timestamp(100)) == (200, 3, 0)


def test_compressed_and_stamped_batches_are_found_by_time(log: UnifiedLog) -> None:
    data = batches.build([(b"k", b"v" * 200)] * 3, timestamp_ms=100, compression=compression.ZSTD)
    log.append(0, data, wall_ms=NOW)
    log.config = LogConfig(message_timestamp_type="LogAppendTime")
    log.append(0, data, wall_ms=500)
    assert at_once(log.offset_for_timestamp(101)) == (500, 3, 0)


def test_the_greatest_time_may_lie_in_any_segment(log: UnifiedLog) -> None:
    for timestamp_ms in (100, 300, 200):
        log.append(1, batch(b"a", b"b", timestamp_ms=timestamp_ms), wall_ms=NOW)
        log.roll(NOW)
    assert at_once(log.offset_of_max_timestamp()) == (300, 2, 1)


def test_records_without_times_are_not_found_by_a_time(log: UnifiedLog) -> None:
    log.append(3, batch(b"a", timestamp_ms=-1), wall_ms=NOW)
    assert at_once(log.offset_for_timestamp(0)) is None
    # but Kafka 4.3 answers with them when there is no greater time
    assert at_once(log.offset_of_max_timestamp()) == (-1, 0, 3)
    log.append(4, batch(b"a", timestamp_ms=0), wall_ms=NOW)
    assert at_once(log.offset_of_max_timestamp()) == (0, 1, 4)


@pytest.mark.parametrize("before", [1, 3, 5])
def test_the_greatest_time_may_be_that_of_a_deleted_record(log: UnifiedLog, before: int) -> None:
    # as on Kafka 4.3, which uses the segment and not the start of the log
    for timestamp_ms in (200, 100, 200):
        log.append(0, batch(b"a", b"b", timestamp_ms=timestamp_ms), wall_ms=NOW)
    log.delete_records_before(before)
    assert at_once(log.offset_of_max_timestamp()) == (200, 0, 0)


def test_the_greatest_time_is_found_beyond_the_first_entry_of_the_index(log: UnifiedLog) -> None:
    for timestamp_ms in range(100, 200):
        log.append(0, batch(b"a", b"b", timestamp_ms=timestamp_ms), wall_ms=NOW)
    log.append(0, batch(b"a", timestamp_ms=150), wall_ms=NOW)
    assert len(log.segments[0].time_index().timestamps) > 1
    assert at_once(log.offset_of_max_timestamp()) == (199, 198, 0)


@pytest.mark.parametrize(("compression", "records", "apart"), [(0, 3, 0), (0, MANY_RECORDS + 1, 1), (4, 3, 1)])
def test_a_long_search_by_time_runs_in_the_thread(compression: int, records: int, apart: int) -> None:
    log = manage(MemoryStorage()).open_log("t", 0)
    pairs = [(None, b"x")] * records
    log.append(0, batches.build(pairs, timestamp_ms=NOW, compression=compression), wall_ms=NOW)
    for job in (log.offset_for_timestamp(NOW), log.offset_of_max_timestamp()):
        steps, found = walked(job)
        assert found == (NOW, 0, 0)
        assert sum(isinstance(step, OffloadedWork) for step in steps) == apart


def walked(job: Job[Any]) -> tuple[list[Any], Any]:
    """The work that a job requests, step by step, and its result."""
    steps: list[Any] = []
    value = None
    while True:
        try:
            steps.append(job.send(value))
        except StopIteration as end:
            return steps, end.value
        value = steps[-1].work() if isinstance(steps[-1], OffloadedWork) else None
