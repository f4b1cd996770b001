from dataclasses import replace

import pytest

from muster.coordinator.log import LogConfig, MemoryStorage, UnifiedLog
from tests.coordinator.log.support import NOW, batch, fill, manage

FOREVER = LogConfig(segment_bytes=1000, retention_ms=-1)
HOUR = 3_600_000


def made(config: LogConfig, *, segments: int = 4, step_ms: int = HOUR) -> UnifiedLog:
    """Segments of three batches each. The records of the n-th segment are `n * step_ms` younger than those of the
    first.
    """
    log = manage(MemoryStorage()).open_log("t", 0, config=FOREVER)
    for index in range(segments):
        for _ in range(3):
            log.append(0, batch(b"x" * 100, timestamp_ms=NOW + index * step_ms), wall_ms=NOW + index * step_ms)
        if index + 1 < segments:
            log.roll(NOW)
    log.config = config
    return log


def test_nothing_is_deleted_without_retention_limits() -> None:
    log = made(FOREVER)
    assert log.enforce_retention(NOW * 2) == 0
    assert log.start_offset == 0


@pytest.mark.parametrize(("age_ms", "start"), [(0, 0), (HOUR, 0), (HOUR + 1, 3), (3 * HOUR + 1, 9), (4 * HOUR, 9)])
def test_segments_are_deleted_by_time(age_ms: int, start: int) -> None:
    log = made(replace(FOREVER, retention_ms=HOUR))
    assert log.enforce_retention(NOW + age_ms) == start // 3
    assert log.start_offset == start


def test_an_old_active_segment_is_deleted_and_offsets_continue() -> None:
    log = made(replace(FOREVER, retention_ms=HOUR))
    assert log.enforce_retention(NOW + 10 * HOUR) == 4
    assert (log.start_offset, log.end_offset, log.size_bytes) == (12, 12, 0)
    assert log.enforce_retention(NOW + 20 * HOUR) == 0
    assert log.append(0, batch(b"x"), wall_ms=NOW).base_offset == 12


def test_a_young_segment_keeps_those_behind_it() -> None:
    log = made(replace(FOREVER, retention_ms=HOUR), step_ms=-HOUR)
    assert log.enforce_retention(NOW + HOUR) == 0
    assert log.enforce_retention(NOW + HOUR + 1) == 4


@pytest.mark.parametrize(("limit", "left"), [(10_000, 4), (1, 1), (0, 0)])
def test_segments_are_deleted_by_size_down_to_the_limit(limit: int, left: int) -> None:
    log = made(replace(FOREVER, retention_bytes=limit))
    log.enforce_retention(NOW)
    assert log.end_offset - log.start_offset == left * 3


def test_deletion_by_size_never_goes_below_the_limit() -> None:
    log = made(FOREVER)
    one = log.segments[0].size
    for limit, left in [(4 * one, 4), (4 * one - 1, 4), (3 * one + 1, 4), (3 * one, 3), (2 * one + 1, 3), (one, 1)]:
        log = made(replace(FOREVER, retention_bytes=limit))
        log.enforce_retention(NOW)
        assert log.size_bytes == left * one


def test_retention_deletes_nothing_of_compacted_topics() -> None:
    log = made(replace(FOREVER, retention_ms=1, retention_bytes=1, cleanup_policy=("compact",)))
    assert log.enforce_retention(NOW + 10 * HOUR) == 0
    log.config = replace(log.config, cleanup_policy=("compact", "delete"))
    assert log.enforce_retention(NOW + 10 * HOUR) == 4


def test_segments_before_the_log_start_are_deleted_under_every_policy() -> None:
    log = made(replace(FOREVER, cleanup_policy=("compact",)))
    log._raise_start(7)
    assert log.enforce_retention(NOW) == 2
    assert log.segments[0].base_offset == 6


def test_records_without_timestamps_age_from_their_writing() -> None:
    log = manage(MemoryStorage()).open_log("t", 0, config=replace(FOREVER, retention_ms=HOUR))
    log.append(0, batch(b"x", timestamp_ms=-1), wall_ms=NOW)
    assert log.enforce_retention(NOW + HOUR) == 0
    assert log.enforce_retention(NOW + HOUR + 1) == 1


def test_removed_segments_leave_no_file() -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=replace(FOREVER, retention_bytes=0))
    list(fill(log, 50))
    log.enforce_retention(NOW)
    assert [name for name in storage.files if name.endswith((".log", ".deleted"))] == [f"t-0/{50:020d}.log"]


def test_segment_ages_are_known_after_reopening() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0, config=FOREVER)
    for index in range(4):
        log.append(0, batch(b"x", timestamp_ms=NOW + index * HOUR), wall_ms=NOW)
        log.roll(NOW)
    manager.close()
    log = manage(storage).open_log("t", 0, config=replace(FOREVER, retention_ms=HOUR))
    assert log.enforce_retention(NOW + 2 * HOUR + 1) == 2
    assert log.start_offset == 2


def test_retention_skips_an_offline_log() -> None:
    log = made(replace(FOREVER, retention_bytes=0))
    log.abandon()
    assert log.enforce_retention(NOW) == 0
