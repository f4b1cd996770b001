from dataclasses import replace
from pathlib import Path

import pytest

from muster.coordinator.log import (
    CorruptBatch,
    FencedLeaderEpoch,
    LogConfig,
    LogOffline,
    MemoryStorage,
    OffsetOutOfRange,
    RecordListTooLarge,
    TruncatedBatch,
    UnifiedLog,
    batches,
)
from muster.coordinator.log.records import compression
from muster.coordinator.log.records.headers import HEADER_SIZE, read_header
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import NOW, SMALL, base_offsets, batch, everything, fill, manage, on_files, values


@pytest.fixture(params=["files", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> UnifiedLog:
    manager = on_files(tmp_path) if request.param == "files" else manage(MemoryStorage())
    return manager.open_log("t", 0, config=SMALL)


# -- appending


def test_appended_records_get_consecutive_offsets(log: UnifiedLog) -> None:
    assert (log.start_offset, log.end_offset, log.durable_offset) == (0, 0, 0)
    assert log.append(0, batch(b"a", b"b"), wall_ms=NOW) == (0, 1, -1, 0)
    assert log.append(0, batch(b"c"), wall_ms=NOW) == (2, 2, -1, 0)
    assert (log.end_offset, log.durable_offset) == (3, 3)
    assert everything(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [10, 100_000])
def test_any_buffer_is_stored_unchanged_except_for_its_stamp(log: UnifiedLog, kind: type, size: int) -> None:
    log.config = LogConfig()
    log.append(0, batch(b"first"), wall_ms=NOW)
    source = bytes(batch(b"x" * size, b"y", producer_id=5, producer_epoch=1, base_sequence=3))
    given = kind(source)
    log.append(4, given, wall_ms=NOW)
    stored = log.read(1, 1_000_000)
    assert stored[16:] == source[16:]
    header = read_header(stored)
    assert (header.base_offset, header.leader_epoch, header.producer_id) == (1, 4, 5)
    assert kind is bytearray or bytes(given) == source


@pytest.mark.parametrize("codec", list(compression.CODECS.values()))
def test_compressed_batches_are_stored_unchanged(log: UnifiedLog, codec: int) -> None:
    source = batches.build([(b"k", b"v" * 300)] * 3, timestamp_ms=NOW, compression=codec)
    log.append(0, bytes(source), wall_ms=NOW)
    assert log.read(0, 1)[16:] == source[16:]
    assert len(everything(log)) == 3


@pytest.mark.parametrize("size", [10, 100_000])
def test_log_append_time_is_stamped(log: UnifiedLog, size: int) -> None:
    log.config = LogConfig(message_timestamp_type="LogAppendTime")
    result = log.append(0, bytes(batch(b"x" * size, b"b", timestamp_ms=5)), wall_ms=NOW)
    assert result.log_append_time_ms == NOW
    ((header, records),) = batches.read(log.read(0, 1))
    assert header.is_log_append_time
    assert [record.timestamp for record in records] == [NOW, NOW]
    assert at_once(log.offset_for_timestamp(NOW)) == (NOW, 0, 0)


def test_several_batches_in_one_buffer_are_appended(log: UnifiedLog) -> None:
    log.append(0, batch(b"0"), wall_ms=NOW)
    result = log.append(0, batch(b"a", b"b") + batch(b"c"), wall_ms=NOW)
    assert result == (1, 3, -1, 0)
    assert everything(log) == [(0, b"0"), (1, b"a"), (2, b"b"), (3, b"c")]


@pytest.mark.parametrize("cut", [1, 30, HEADER_SIZE, -1])
def test_a_partial_batch_is_not_appended(log: UnifiedLog, cut: int) -> None:
    whole = batch(b"a")
    with pytest.raises(CorruptBatch):
        log.append(0, whole + batch(b"b")[:cut], wall_ms=NOW)
    with pytest.raises(CorruptBatch):
        log.append_as_is(whole + batch(b"b")[:cut])
    with pytest.raises(TruncatedBatch):
        log.append(0, b"", wall_ms=NOW)
    assert log.end_offset == 0


def test_a_batch_of_another_magic_is_not_appended(log: UnifiedLog) -> None:
    old = batch(b"a")
    old[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1"):
        log.append(0, old, wall_ms=NOW)


def test_append_as_is_keeps_offsets_and_leader_epochs(log: UnifiedLog) -> None:
    data = batch(b"a", b"b", base_offset=10, leader_epoch=2) + batch(b"c", base_offset=20, leader_epoch=5)
    assert log.append_as_is(data) == (10, 20, -1, 0)
    assert log.end_offset == 21
    assert everything(log) == [(10, b"a"), (11, b"b"), (20, b"c")]
    assert log.epochs.entries() == [(2, 10), (5, 20)]
    assert base_offsets(log.read(12, 1)) == [20]
    with pytest.raises(CorruptBatch, match="offset 20 cannot follow offset 20"):
        log.append_as_is(batch(b"d", base_offset=20))


def test_a_batch_larger_than_a_segment_is_refused(log: UnifiedLog) -> None:
    with pytest.raises(RecordListTooLarge) as refused:
        log.append(0, batch(b"x" * 4000), wall_ms=NOW)
    assert refused.value.error_code == 18
    log.append(0, batch(b"x" * 3800), wall_ms=NOW)


# -- epochs


def test_an_older_epoch_is_fenced(log: UnifiedLog) -> None:
    log.begin_epoch(3)
    log.append(3, batch(b"a"), wall_ms=NOW)
    with pytest.raises(FencedLeaderEpoch) as fenced:
        log.append(2, batch(b"b"), wall_ms=NOW)
    assert fenced.value.error_code == 74
    with pytest.raises(FencedLeaderEpoch):
        log.begin_epoch(2)
    log.append(4, batch(b"b"), wall_ms=NOW)
    assert log.leader_epoch == 4
    assert log.epochs.entries() == [(3, 0), (4, 1)]
    assert log.epochs.end_offset(3, log.end_offset) == (3, 1)
    assert log.epochs.end_offset(4, log.end_offset) == (4, 2)
    assert [log.epochs.epoch_of(offset) for offset in (0, 1)] == [3, 4]
    assert [read_header(log.read(offset, 1)).leader_epoch for offset in (0, 1)] == [3, 4]


# -- rolling


def test_a_log_rolls_by_size(log: UnifiedLog) -> None:
    list(fill(log, 100))
    assert len(log.segments) > 2
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    assert sum(segment.size for segment in log.segments) == log.size_bytes
    assert [offset for offset, _ in everything(log)] == list(range(100))


def test_a_log_rolls_by_the_records_time(log: UnifiedLog) -> None:
    log.config = LogConfig(segment_ms=1000)
    for timestamp_ms in (0, 1000, 1001, 2001, 2002):
        log.append(0, batch(b"x", timestamp_ms=timestamp_ms), wall_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_a_log_rolls_by_the_clock_if_records_have_no_time(log: UnifiedLog) -> None:
    log.config = LogConfig(segment_ms=1000)
    for wall_ms in (NOW, NOW + 1000, NOW + 1001, NOW + 2001):
        log.append(0, batch(b"x", timestamp_ms=-1), wall_ms=wall_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_log_rolls_earlier_by_a_constant_jitter(log: UnifiedLog) -> None:
    log.config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    log.append(0, batch(b"x", timestamp_ms=0), wall_ms=NOW)
    log.append(0, batch(b"x", timestamp_ms=1000), wall_ms=NOW)
    assert len(log.segments) == 2


def test_a_log_rolls_when_an_index_is_full(log: UnifiedLog) -> None:
    log.config = replace(SMALL, segment_bytes=1_000_000, segment_index_bytes=60)
    list(fill(log, 100))
    assert len(log.segments) > 2
    # five entries of 12 bytes fit; the last is reserved for the roll
    assert all(len(segment.time_index()) <= 5 for segment in log.segments)
    assert [offset for offset, _ in everything(log)] == list(range(100))


def test_a_log_rolls_when_offsets_exceed_the_segments_range(log: UnifiedLog) -> None:
    log.append_as_is(batch(b"a"))
    log.append_as_is(batch(b"b", base_offset=2**31 - 1))
    log.append_as_is(batch(b"c", base_offset=2**31))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert values(log.read(2**31, 1)) == [(2**31, b"c")]


def test_an_empty_segment_is_not_rolled(log: UnifiedLog) -> None:
    log.roll(NOW)
    assert len(log.segments) == 1
    log.append(0, batch(b"a"), wall_ms=NOW)
    log.roll(NOW)
    log.roll(NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.append(0, batch(b"b"), wall_ms=NOW).base_offset == 1
    assert everything(log) == [(0, b"a"), (1, b"b")]


# -- reading


def test_reads_begin_with_the_batch_that_holds_the_offset(log: UnifiedLog) -> None:
    for _ in range(3):
        log.append(0, batch(b"a", b"b", b"c"), wall_ms=NOW)
    assert [base_offsets(log.read(offset, 1)) for offset in range(9)] == [[0]] * 3 + [[3]] * 3 + [[6]] * 3
    assert log.read(9, 100) == b""


def test_a_read_may_cut_the_last_batch_at_max_bytes(log: UnifiedLog) -> None:
    one = len(batch(b"abc"))
    for _ in range(3):
        log.append(0, batch(b"abc"), wall_ms=NOW)
    assert len(log.read(0, one * 2 + 10)) == one * 2 + 10
    assert len(log.read(0, 1_000_000)) == one * 3


def test_a_read_returns_at_least_one_batch_if_asked_to(log: UnifiedLog) -> None:
    size = len(batch(b"abc"))
    log.append(0, batch(b"abc"), wall_ms=NOW)
    assert len(log.read(0, 0)) == size
    assert log.read(0, size - 1, min_one_message=False) == b""
    assert len(log.read(0, size, min_one_message=False)) == size


def test_a_read_outside_of_the_log_is_refused(log: UnifiedLog) -> None:
    for offset in (-1, 1):
        with pytest.raises(OffsetOutOfRange) as refused:
            log.read(offset, 10)
        assert refused.value.error_code == 1
    assert log.read(0, 10) == b""


def test_a_read_ends_at_its_upper_bound(log: UnifiedLog) -> None:
    list(fill(log, 100))
    for bound in (0, 1, 50, 51, 99, 100, 1000):
        for offset in (0, 40, 99):
            seen = base_offsets(log.read(offset, 1_000_000, up_to=bound))
            assert all(offset <= found < bound for found in seen)
            assert bool(seen) == (offset < min(bound, 100))


def test_every_offset_of_a_log_is_found(log: UnifiedLog) -> None:
    """Near the end the newest batches find it, before that the sparse index, and also after both were freed."""
    list(fill(log, 200))
    for _ in range(2):
        for offset in range(200):
            for max_bytes in (1, 300, 100_000):
                assert base_offsets(log.read(offset, max_bytes))[0] == offset
        for segment in log.segments:
            segment.store_indexes()
            segment.release()


def test_headers_and_replay_begin_at_an_offset(log: UnifiedLog) -> None:
    list(fill(log, 100))
    for start in (0, 1, 50, 99, 100):
        assert [header.base_offset for header in log.headers(start)] == list(range(start, 100))
        for chunk in (1, 500, 1_000_000):
            chunks = list(log.replay(start, chunk_bytes=chunk))
            assert [offset for data in chunks for offset, _ in values(data)] == list(range(start, 100))
    with pytest.raises(OffsetOutOfRange):
        log.replay(101)


def test_a_replay_ends_where_the_log_ended_at_its_start(log: UnifiedLog) -> None:
    list(fill(log, 3))
    chunks = log.replay()
    list(fill(log, 3))
    assert sum(len(values(chunk)) for chunk in chunks) == 3


def test_offsets_are_found_beyond_the_newest_batches_in_memory(log: UnifiedLog) -> None:
    log.config = LogConfig(index_interval_bytes=50_000)
    data = b"".join(bytes(batch(b"", base_offset=offset)) for offset in range(9000))
    log.append_as_is(data)
    assert len(log.segments) == 1
    for offset in (0, 1, 4095, 4096, 4097, 5000, 8191, 8999):
        assert base_offsets(log.read(offset, 1)) == [offset]


# -- cutting


@pytest.mark.parametrize("offset", [0, 1, 37, 50, 99, 100, 150])
def test_truncation_removes_records_and_epochs_from_an_offset_on(log: UnifiedLog, offset: int) -> None:
    kept = list(fill(log, 100))[:offset]
    log.append(1, batch(b"next epoch"), wall_ms=NOW)
    log.truncate(min(offset, 100))
    assert log.end_offset == log.durable_offset == min(offset, 100)
    assert log.leader_epoch == (0 if offset else -1)
    assert [value for _, value in everything(log)] == kept
    log.append(2, batch(b"new"), wall_ms=NOW)
    assert everything(log)[-1] == (min(offset, 100), b"new")
    assert log.epochs.end_offset(2, log.end_offset) == (2, min(offset, 100) + 1)


def test_truncation_removes_whole_batches(log: UnifiedLog) -> None:
    log.append(0, batch(b"a"), wall_ms=NOW)
    log.append(0, batch(b"b", b"c", b"d"), wall_ms=NOW)
    log.truncate(2)
    assert log.end_offset == 1


def test_a_log_restarted_at_an_offset_is_empty_and_begins_there(log: UnifiedLog) -> None:
    list(fill(log, 100))
    log.restart_at(500)
    assert (log.start_offset, log.end_offset, log.durable_offset, log.size_bytes) == (500, 500, 500, 0)
    assert log.append(3, batch(b"x"), wall_ms=NOW).base_offset == 500
    assert everything(log) == [(500, b"x")]


def test_deleting_records_moves_the_log_start(log: UnifiedLog) -> None:
    list(fill(log, 100))
    before = len(log.segments)
    assert log.delete_records_before(60) == 60
    assert log.start_offset == 60
    assert len(log.segments) < before
    assert log.segments[0].base_offset <= 60
    with pytest.raises(OffsetOutOfRange):
        log.read(59, 1)
    assert everything(log)[0][0] <= 60
    assert log.epochs.entries() == [(0, 60)]
    assert log.delete_records_before(10) == 60
    for offset in (-1, 101):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records_before(offset)
    assert log.delete_records_before(100) == 100
    assert log.append(0, batch(b"x"), wall_ms=NOW).log_start_offset == 100


# -- listeners, config, closing


def test_listeners_are_called_after_each_append_until_removed(log: UnifiedLog) -> None:
    seen: list[int] = []
    remove = log.on_append(lambda: seen.append(log.durable_offset))
    list(fill(log, 2))
    remove()
    remove()
    list(fill(log, 1))
    assert seen == [1, 2]


def test_a_new_config_takes_effect_at_once(log: UnifiedLog) -> None:
    log.config = replace(SMALL, segment_bytes=1_000_000)
    list(fill(log, 100))
    assert len(log.segments) == 1


def test_a_closed_log_refuses_appends_and_reads(log: UnifiedLog) -> None:
    list(fill(log, 3))
    log.close()
    assert log.closed_cleanly
    for attempt in (
        lambda: log.append(0, batch(b"x"), wall_ms=NOW),
        lambda: log.append_as_is(batch(b"x", base_offset=3)),
        lambda: log.begin_epoch(5),
    ):
        with pytest.raises(LogOffline) as refused:
            attempt()
        assert refused.value.error_code == 56
