from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log import AppendResult, LogError, batches
from muster.coordinator.log.records import compression
from muster.coordinator.log.records.building import assemble
from muster.coordinator.log.records.headers import read_header
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics import validation
from muster.coordinator.topics.errors import ApiError, InvalidRecords
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce
from tests.support.markers import build_control

NOW = Now(0, 1_700_000_000_000)


def partition(**configs: str) -> Partition:
    return add_topic(make_topics(), "t", 1, **configs)


def append(target: Partition, data: bytes) -> AppendResult:
    return produce(target, data, NOW)


def code_of(target: Partition, data: bytes) -> int:
    with pytest.raises((ApiError, LogError)) as caught:
        append(target, data)
    error = caught.value
    assert isinstance(error, ApiError | LogError)
    assert target.log.end_offset == 0
    return error.error_code


def values(target: Partition, offset: int = 0, *, committed: bool = False) -> list[bytes | None]:
    up_to = target.last_stable_offset() if committed else target.log.durable_offset
    data = target.read(offset, 1 << 20, True, up_to)
    return [record.value for _, records in batches.read(data) for record in records]


def test_appended_records_are_read() -> None:
    target = partition()
    assert append(target, batch(b"a", b"b"))[:2] == (0, 1)
    assert append(target, batch(b"c"))[:2] == (2, 2)
    assert values(target) == [b"a", b"b", b"c"]
    assert values(target, 2) == [b"c"]
    assert (target.log.durable_offset, target.last_stable_offset()) == (3, 3)


def test_bad_batches_are_refused_with_kafkas_errors() -> None:
    broken = bytearray(batch(b"a"))
    broken[-1] ^= 1
    assert code_of(partition(), bytes(broken)) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(partition(), batch(b"a") + batch(b"b")) == ErrorCode.INVALID_RECORD
    assert code_of(partition(), b"") == ErrorCode.INVALID_RECORD
    assert code_of(partition(max_message_bytes="100"), batch(b"a" * 200)) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", ["producer", "gzip"])
def test_part_of_a_batch_behind_the_batch_is_not_stored(compression: str) -> None:
    target = partition(compression_type=compression)
    whole = batch(b"a", b"b")
    assert append(target, whole + whole[:-1])[:2] == (0, 1)
    assert values(target) == [b"a", b"b"]


def test_a_compacted_topic_needs_keys() -> None:
    target = partition(cleanup_policy="compact")
    with pytest.raises(InvalidRecords) as caught:
        append(target, batch(b"a", b"b", key=None))
    assert caught.value.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    assert append(target, batch(b"a")).base_offset == 0


def test_the_number_of_refused_records_in_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_FAULTS", 2)
    for configs, wanted in (
        ({"cleanup_policy": "compact"}, batch(b"a", b"b", b"c", key=None)),
        ({"message_timestamp_before_max_ms": "1000"}, batch(b"a", b"b", b"c", at_ms=1)),
    ):
        with pytest.raises(InvalidRecords) as caught:
            append(partition(**configs), wanted)
        assert [index for index, _ in caught.value.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_too_much_is_too_large(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "UNPACKED_BYTES", 0)
    monkeypatch.setattr(compression, "UNPACKED_TIMES", 1)
    monkeypatch.setattr(compression, "BYTES_PER_RECORD", 1)
    number = compression.CODECS[codec]
    zeros = bytes(50_000)
    assert code_of(partition(max_message_bytes="40000"), batch(zeros, compression=number)) == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    assert append(partition(max_message_bytes="50100"), batch(zeros, compression=number)).end_offset == 1


def test_timestamps_out_of_bounds_are_refused_record_by_record() -> None:
    late = partition(message_timestamp_after_max_ms="1000")
    with pytest.raises(InvalidRecords) as caught:
        append(late, batch(b"a", b"b", at_ms=NOW.wall_ms + 1001))
    assert caught.value.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    assert append(late, batch(b"a", at_ms=NOW.wall_ms + 1000)).base_offset == 0
    early = partition(message_timestamp_before_max_ms="1000")
    assert code_of(early, batch(b"a", at_ms=NOW.wall_ms - 1001)) == ErrorCode.INVALID_TIMESTAMP
    assert append(early, batch(b"a", at_ms=NOW.wall_ms - 1000)).base_offset == 0


def test_log_append_time_replaces_the_producers_timestamps() -> None:
    target = partition(message_timestamp_type="LogAppendTime")
    assert append(target, batch(b"a", at_ms=5)).log_append_time_ms == NOW.wall_ms
    found = at_once(target.log.offset_of_max_timestamp())
    assert found is not None
    assert found.timestamp_ms == NOW.wall_ms


def with_header(data: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and a correct CRC."""
    return assemble(read_header(data)._replace(**fields), data[61:], read_header(data).record_count)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=5) | st.just([-1, -1]),
    st.integers(-5, 60),
    st.sampled_from([0, 1, 4]),
    st.sampled_from(["producer", "gzip", "uncompressed"]),
)
def test_the_greatest_timestamp_is_that_of_the_records(
    times: list[int], reported: int, codec: int, compression: str
) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for delta, time in enumerate(times):
        builder.append(delta, time, b"k", b"v" * 40, [])
    target = partition(compression_type=compression)
    append(target, with_header(bytes(builder.build()), max_timestamp=reported))
    ((header, records),) = batches.read(target.read(0, 1 << 20, True, 100))
    assert header.max_timestamp == max(times)
    assert [record.timestamp for record in records] == times
    found = at_once(target.log.offset_of_max_timestamp())
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (max(times), times.index(max(times)))


@pytest.mark.parametrize("compression", ["producer", "gzip"])
def test_a_producers_batch_with_log_append_time_is_refused_or_reset(compression: str) -> None:
    target = partition(compression_type=compression)
    data = with_header(batch(b"a", at_ms=5), attributes=8, max_timestamp=7)
    append(target, data)
    (header,) = target.log.headers()
    assert (header.is_log_append_time, header.max_timestamp) == (False, 7)
    # but where no timestamp exists, or the topic uses append time, the record is refused
    stamping = partition(message_timestamp_type="LogAppendTime")
    for refusing, wanted in ((partition(), with_header(data, max_timestamp=-1)), (stamping, data)):
        with pytest.raises(InvalidRecords, match="rejected due to invalid timestamp") as caught:
            append(refusing, wanted)
        assert caught.value.error_code == ErrorCode.INVALID_TIMESTAMP
        ((index, sentence),) = caught.value.record_errors
        assert (index, sentence.partition(" DefaultRecord(")[0]) == (0, "Invalid timestamp type in message")
        assert sentence.endswith(
            f"timestamp={read_header(wanted).max_timestamp}, key=1 bytes, value=1 bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )


def test_all_faults_of_a_batch_are_named_in_kafkas_words() -> None:
    now = NOW.wall_ms
    target = partition(cleanup_policy="compact", message_timestamp_before_max_ms="1000")
    old = batches.build([(b"k", b"a"), (None, b"b"), (b"l", b"c")], timestamp_ms=now - 2000)
    with pytest.raises(InvalidRecords) as caught:
        append(target, bytes(old))
    no_key = "Compacted topic cannot accept message without key in topic partition t-0"
    late = f"out of range. The timestamp should be within [{now - 1000}, {now + 3_600_000}]"
    assert (caught.value.error_code, caught.value.message) == (
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
    )
    assert caught.value.record_errors == (
        (0, f"Timestamp {now - 2000} of message with offset 0 is {late}"),
        (1, no_key),
        (2, f"Timestamp {now - 2000} of message with offset 2 is {late}"),
    )
    with pytest.raises(InvalidRecords) as caught:
        append(target, batch(b"a", b"b", b"c", b"d", key=None))
    assert caught.value.error_code == ErrorCode.INVALID_RECORD
    assert caught.value.message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, message='{no_key}'), RecordError(batchIndex=1, "
        f"message='{no_key}'), RecordError(batchIndex=2, message='{no_key}')]"
    )


@pytest.mark.parametrize("codec", list(compression.CODECS.values()))
@pytest.mark.parametrize("configs", [{}, {"cleanup_policy": "compact"}])
def test_the_error_for_unreadable_records_is_not_retriable(codec: int, configs: dict[str, str]) -> None:
    good = batch(b"a")
    # correct CRC, correct counts, and no records after the header: CORRUPT_MESSAGE would make a client repeat it for
    # ever
    junk = assemble(read_header(good)._replace(attributes=codec), b"\x12\x34\x56\x78\x90", 1)
    assert code_of(partition(**configs), junk) == ErrorCode.INVALID_RECORD


def test_a_duplicate_gets_the_timestamp_of_the_log() -> None:
    target = partition(message_timestamp_type="LogAppendTime")
    first = batch(b"a", at_ms=5, producer_id=7, producer_epoch=0, base_sequence=0)
    assert append(target, first).log_append_time_ms == NOW.wall_ms
    assert [producer.last_timestamp_ms for producer in target.producers().all()] == [NOW.wall_ms]
    assert append(target, first) == (0, 0, NOW.wall_ms, 0)


@pytest.mark.parametrize(
    ("codec", "number"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0)]
)
def test_records_are_stored_with_the_topics_compression(codec: str, number: int) -> None:
    target = partition(compression_type=codec)
    append(target, batch(b"a" * 500, b"b", compression=1))
    assert [header.compression for header in target.log.headers()] == [number]
    assert values(target) == [b"a" * 500, b"b"]


def test_duplicates_get_their_first_offset_and_gaps_are_refused() -> None:
    target = partition()
    first = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    assert append(target, first).base_offset == 0
    append(target, batch(b"x"))
    assert append(target, first)[:2] == (0, 1)
    gap = batch(b"c", producer_id=7, producer_epoch=0, base_sequence=3)
    with pytest.raises(LogError) as caught:
        append(target, gap)
    assert caught.value.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert target.log.end_offset == 3


def test_producers_are_known_again_after_a_restart() -> None:
    target = partition()
    first = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    append(target, first)
    again = Partition("t", target.topic_id, 0, 0, target.log)
    assert append(again, first).base_offset == 0
    assert append(again, batch(b"b", producer_id=7, producer_epoch=0, base_sequence=1)).base_offset == 1
    assert [p.last_sequence for p in again.producers().all()] == [1]


def test_silent_producers_are_forgotten() -> None:
    target = partition()
    append(target, batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    at_once(target.expiring_producers(Now(0, NOW.wall_ms + 10), after_ms=11))
    assert len(target.producers()) == 1
    at_once(target.expiring_producers(Now(0, NOW.wall_ms + 11), after_ms=11))
    assert len(target.producers()) == 0


def test_unverified_transactional_batches_are_refused() -> None:
    data = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert code_of(partition(), data) == ErrorCode.INVALID_TXN_STATE
    # as on Kafka, where a transaction without a producer id is not verified
    assert append(partition(), batch(b"a", transactional=True)).base_offset == 0


def test_read_committed_readers_stop_at_an_open_transaction_and_get_aborted_ones() -> None:
    target = partition()
    log = target.log

    def append(data: bytes | bytearray) -> None:
        log.append(0, data, wall_ms=NOW.wall_ms)

    append(batch(b"plain"))
    append(batch(b"tx", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(batch(b"after"))
    assert (target.last_stable_offset(), target.log.durable_offset) == (1, 3)
    assert values(target, committed=True) == [b"plain"]
    assert target.read(1, 1000, True, target.last_stable_offset()) == b""
    append(build_control(batches.CONTROL_ABORT, timestamp_ms=NOW.wall_ms, producer_id=7, producer_epoch=0))
    assert target.last_stable_offset() == 4
    records = target.read(0, 1 << 20, True, target.last_stable_offset())
    aborted = at_once(target.aborted(0, records))
    assert [(t.producer_id, t.first_offset, t.last_offset) for t in aborted] == [(7, 1, 3)]
    assert target.aborted_in_memory(0, records) == aborted
    assert at_once(target.aborted(4, b"")) == target.aborted_in_memory(4, b"") == []


def test_another_leader_epoch_is_refused() -> None:
    target = partition()
    target.check_leader_epoch(-1)
    target.check_leader_epoch(0)
    with pytest.raises(ApiError) as caught:
        target.check_leader_epoch(1)
    assert caught.value.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    newer = Partition("t", target.topic_id, 0, 2, target.log)
    with pytest.raises(ApiError) as caught:
        newer.check_leader_epoch(1)
    assert caught.value.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_records_are_deleted_up_to_an_offset() -> None:
    target = partition()
    for value in (b"a", b"b", b"c"):
        append(target, batch(value))
    assert target.delete_records(2) == 2
    assert target.delete_records(-1) == 3
    for offset in (-2, 4):
        with pytest.raises((ApiError, LogError)) as caught:
            target.delete_records(offset)
        assert getattr(caught.value, "error_code", None) == ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(ApiError) as refused:
        partition(cleanup_policy="compact").delete_records(0)
    assert refused.value.error_code == ErrorCode.POLICY_VIOLATION


def test_a_reopened_log_replaces_the_old_one() -> None:
    topics = make_topics()
    target = add_topic(topics, "t")
    first = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    append(target, first)
    woken: list[int] = []
    target.wait("me", lambda partition: woken.append(partition.log.end_offset))
    target.use_log(topics.logs.reopen("t", 0))
    assert append(target, first).base_offset == 0
    append(target, batch(b"b"))
    assert woken == [1, 2]
