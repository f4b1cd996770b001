from __future__ import annotations

import pytest

from muster.coordinator.groups.interface import Now
from muster.coordinator.log import LogError, batches
from muster.coordinator.topics import validation
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.refusal import RecordsRefused, Refused
from muster.protocol.errors import ErrorCode
from tests.coordinator.topics.support import add_topic, batch, make_topics

NOW = Now(0, 1_700_000_000_000)


def partition(**configs: str) -> Partition:
    return add_topic(make_topics(), "t", 1, **configs)


def code_of(target: Partition, data: bytes, *, transactional: bool = False) -> int:
    with pytest.raises((Refused, LogError)) as caught:
        target.append(data, NOW, transactional=transactional)
    error = caught.value
    assert isinstance(error, Refused | LogError)
    assert target.log.end_offset == 0
    return error.error_code


def values(target: Partition, offset: int = 0, *, committed: bool = False) -> list[bytes | None]:
    data = target.read(offset, 1 << 20, True, committed).records
    return [record.value for _, records in batches.read(data) for record in records]


def test_what_is_appended_is_read() -> None:
    target = partition()
    assert target.append(batch(b"a", b"b"), NOW)[:2] == (0, 2)
    assert target.append(batch(b"c"), NOW)[:2] == (2, 3)
    assert values(target) == [b"a", b"b", b"c"]
    assert values(target, 2) == [b"c"]
    assert (target.high_watermark, target.last_stable_offset()) == (3, 3)


def test_bad_batches_get_kafkas_codes() -> None:
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
    assert target.append(whole + whole[:-1], NOW)[:2] == (0, 2)
    assert values(target) == [b"a", b"b"]


def test_a_compacted_topic_needs_keys() -> None:
    target = partition(cleanup_policy="compact")
    with pytest.raises(RecordsRefused) as caught:
        target.append(batch(b"a", b"b", key=None), NOW)
    assert caught.value.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    assert target.append(batch(b"a"), NOW).base_offset == 0


def test_an_answer_names_so_many_records_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MOST_FAULTS", 2)
    for configs, wanted in (
        ({"cleanup_policy": "compact"}, batch(b"a", b"b", b"c", key=None)),
        ({"message_timestamp_before_max_ms": "1000"}, batch(b"a", b"b", b"c", at_ms=1)),
    ):
        with pytest.raises(RecordsRefused) as caught:
            partition(**configs).append(wanted, NOW)
        assert [index for index, _ in caught.value.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_too_much_is_too_large(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "unpacked_limit", lambda max_message_bytes: max_message_bytes)
    number = batches.CODECS[codec]
    zeros = bytes(50_000)
    assert code_of(partition(max_message_bytes="40000"), batch(zeros, compression=number)) == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    assert partition(max_message_bytes="50100").append(batch(zeros, compression=number), NOW).end_offset == 1


def test_timestamps_out_of_bounds_are_refused_record_by_record() -> None:
    late = partition(message_timestamp_after_max_ms="1000")
    with pytest.raises(RecordsRefused) as caught:
        late.append(batch(b"a", b"b", at_ms=NOW.wall_ms + 1001), NOW)
    assert caught.value.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    assert late.append(batch(b"a", at_ms=NOW.wall_ms + 1000), NOW).base_offset == 0
    early = partition(message_timestamp_before_max_ms="1000")
    assert code_of(early, batch(b"a", at_ms=NOW.wall_ms - 1001)) == ErrorCode.INVALID_TIMESTAMP
    assert early.append(batch(b"a", at_ms=NOW.wall_ms - 1000), NOW).base_offset == 0


def test_log_append_time_replaces_the_producers() -> None:
    target = partition(message_timestamp_type="LogAppendTime")
    assert target.append(batch(b"a", at_ms=5), NOW).log_append_time_ms == NOW.wall_ms
    found = target.log.offset_of_max_timestamp()
    assert found is not None
    assert found.timestamp_ms == NOW.wall_ms


@pytest.mark.parametrize(
    ("codec", "number"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0)]
)
def test_a_topics_own_compression_is_what_is_stored(codec: str, number: int) -> None:
    target = partition(compression_type=codec)
    target.append(batch(b"a" * 500, b"b", compression=1), NOW)
    assert [header.compression for header in target.log.headers()] == [number]
    assert values(target) == [b"a" * 500, b"b"]


def test_duplicates_get_their_first_offset_and_gaps_are_refused() -> None:
    target = partition()
    first = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    assert target.append(first, NOW).base_offset == 0
    target.append(batch(b"x"), NOW)
    assert target.append(first, NOW)[:2] == (0, 2)
    gap = batch(b"c", producer_id=7, producer_epoch=0, base_sequence=3)
    with pytest.raises(Refused) as caught:
        target.append(gap, NOW)
    assert caught.value.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert target.log.end_offset == 3


def test_producers_are_known_again_after_a_restart() -> None:
    target = partition()
    first = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    target.append(first, NOW)
    again = Partition("t", target.topic_id, 0, 0, target.log)
    assert again.append(first, NOW).base_offset == 0
    assert again.append(batch(b"b", producer_id=7, producer_epoch=0, base_sequence=1), NOW).base_offset == 1
    assert [p.last_sequence for p in again.producers.all()] == [1]


def test_silent_producers_are_forgotten() -> None:
    target = partition()
    target.append(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0), NOW)
    target.expire_producers(Now(0, NOW.wall_ms + 10), after_ms=11)
    assert len(target.producers) == 1
    target.expire_producers(Now(0, NOW.wall_ms + 11), after_ms=11)
    assert len(target.producers) == 0


def test_batches_of_a_transaction_are_refused() -> None:
    data = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert code_of(partition(), data) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert code_of(partition(), data, transactional=True) == ErrorCode.INVALID_TXN_STATE


def test_readers_of_committed_records_stop_at_an_open_transaction_and_hear_of_aborted_ones() -> None:
    target = partition()
    log = target.log

    def append(data: bytes | bytearray) -> None:
        log.append(0, data, wall_ms=NOW.wall_ms)

    append(batch(b"plain"))
    append(batch(b"tx", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(batch(b"after"))
    assert (target.last_stable_offset(), target.high_watermark) == (1, 3)
    assert values(target, committed=True) == [b"plain"]
    assert target.read(1, 1000, True, True).records == b""
    append(batches.build_control(batches.CONTROL_ABORT, timestamp_ms=NOW.wall_ms, producer_id=7, producer_epoch=0))
    assert target.last_stable_offset() == 4
    read = target.read(0, 1 << 20, True, True)
    assert read.aborted is not None
    assert [(t.producer_id, t.first_offset, t.last_offset) for t in read.aborted] == [(7, 1, 3)]
    assert target.read(0, 1 << 20, True, False).aborted is None


def test_a_leader_epoch_that_is_not_ours_is_refused() -> None:
    target = partition()
    target.check_leader_epoch(-1)
    target.check_leader_epoch(0)
    with pytest.raises(Refused) as caught:
        target.check_leader_epoch(1)
    assert caught.value.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    newer = Partition("t", target.topic_id, 0, 2, target.log)
    with pytest.raises(Refused) as caught:
        newer.check_leader_epoch(1)
    assert caught.value.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_records_are_deleted_up_to_an_offset() -> None:
    target = partition()
    for value in (b"a", b"b", b"c"):
        target.append(batch(value), NOW)
    assert target.delete_records(2) == 2
    assert target.delete_records(-1) == 3
    for offset in (-2, 4):
        with pytest.raises((Refused, LogError)) as caught:
            target.delete_records(offset)
        assert getattr(caught.value, "error_code", None) == ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(Refused) as refused:
        partition(cleanup_policy="compact").delete_records(0)
    assert refused.value.error_code == ErrorCode.POLICY_VIOLATION


def test_a_log_that_was_opened_anew_takes_the_old_ones_place() -> None:
    topics = make_topics()
    target = add_topic(topics, "t")
    first = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    target.append(first, NOW)
    woken: list[int] = []
    target.wait("me", lambda partition: woken.append(partition.log.end_offset))
    target.use_log(topics.logs.reopen("t", 0))
    assert target.append(first, NOW).base_offset == 0
    target.append(batch(b"b"), NOW)
    assert woken == [1, 2]
