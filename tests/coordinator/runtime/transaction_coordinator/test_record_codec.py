"""Records of __transaction_state are encoded and decoded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.coordinator.log import CorruptBatch, batches
from muster.coordinator.log.records.headers import read_header
from muster.coordinator.runtime.transaction_coordinator.record_codec import RecordCodec, RecordReader
from muster.coordinator.state_machine.interface import Now, Record
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.records import TRANSACTION_STATE, encode_record
from tests.support.markers import build_control

NOW = Now(5, 1_700_000_000_000)
ids = st.text(min_size=1, max_size=20)
values = st.builds(
    TransactionLogValue,
    producer_id=st.integers(0, 2**62),
    previous_producer_id=st.integers(-1, 9),
    next_producer_id=st.integers(-1, 9),
    producer_epoch=st.integers(-1, 32767),
    transaction_status=st.integers(0, 5),
    transaction_partitions=st.none()
    | st.lists(st.builds(PartitionsSchema, topic=ids, partition_ids=st.lists(st.integers(0, 99))), max_size=3),
    client_transaction_version=st.sampled_from([0, 2]),
)


def plain(message: Any) -> Any:
    if isinstance(message, list | tuple):
        return [plain(one) for one in message]
    slots = getattr(message, "__slots__", None)
    return message if slots is None else [plain(getattr(message, name)) for name in slots]


def read(data: bytes, reader: RecordReader | None = None) -> list[tuple[Any, Any]]:
    return [
        (key.transactional_id, plain(value))
        for part in (reader or RecordCodec(0).reader()).read(data)
        for key, value in part
    ]


def record(transactional_id: str = "x", value: TransactionLogValue | None = None, version: int = 1) -> Record:
    return Record(TransactionLogKey(transactional_id), value, version)


def batch_of(*records: Record, offset: int = 0, **more: Any) -> bytes:
    return bytes(
        batches.build(
            [encode_record(TRANSACTION_STATE, one) for one in records], timestamp_ms=1, base_offset=offset, **more
        )
    )


@pytest.mark.parametrize(
    ("name", "topic", "partition"), [("x" * 32_768, "t", 0), ("x", "t" * 32_768, 0), ("x", "t", 2**31)]
)
def test_a_record_that_does_not_fit_is_refused(name: str, topic: str, partition: int) -> None:
    rows = [PartitionsSchema(topic, [partition])]
    value = TransactionLogValue(1, 1, producer_epoch=3, transaction_partitions=rows, client_transaction_version=2)
    with pytest.raises(UnrepresentableField):
        RecordCodec(0).encode([record(name, value)])


@given(st.lists(st.tuples(ids, st.none() | values), min_size=1, max_size=8))
def test_written_records_are_read_again(pairs: list[tuple[str, TransactionLogValue | None]]) -> None:
    codec = RecordCodec(0)
    rows, size = codec.encode([record(name, value, 0 if value is None else 1) for name, value in pairs])
    assert size == sum(map(len, rows))
    # the newest record of each id has everything
    newest = {name: plain(value) for name, value in pairs}
    assert dict(read(bytes(codec.build(rows, NOW, None)))) == newest


def test_a_batch_has_kafkas_fields() -> None:
    codec = RecordCodec(0)
    rows, _ = codec.encode([record(value=TransactionLogValue(1))])
    header = read_header(codec.build(rows, NOW, None))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, NOW.wall_ms, NOW.wall_ms)


def test_records_of_old_versions_are_read() -> None:
    value = TransactionLogValue(7, producer_epoch=3, transaction_status=1, transaction_partitions=[])
    assert read(batch_of(record(value=value, version=0))) == [("x", plain(value))]


def test_the_newest_record_of_an_id_counts() -> None:
    data = batch_of(record("a", TransactionLogValue(1)), record("b", TransactionLogValue(2)))
    data += batch_of(record("a", TransactionLogValue(3)), record("b"), offset=2)
    reader = RecordCodec(0).reader()
    assert read(data, reader) == [("a", plain(TransactionLogValue(3))), ("b", None)]
    assert reader.offset == 2


@pytest.mark.parametrize("codec", range(1, 5))
def test_compressed_batches_are_read_and_markers_skipped(codec: int) -> None:
    marker = build_control(batches.CONTROL_COMMIT, timestamp_ms=1, producer_id=1, producer_epoch=0)
    data = batch_of(record(value=TransactionLogValue(1)), compression=codec) + bytes(marker)
    assert read(data) == [("x", plain(TransactionLogValue(1)))]


def test_a_damaged_batch_is_refused() -> None:
    good, bad = batch_of(record()), bytearray(batch_of(record(), offset=1))
    bad[-1] ^= 1
    reader = RecordCodec(0).reader()
    with pytest.raises(CorruptBatch, match="the CRC of the batch at offset 1"):
        read(good + bytes(bad), reader)
    assert reader.offset == 1


def test_unknown_records_are_skipped_and_logged_once() -> None:
    key, value = encode_record(TRANSACTION_STATE, record(value=TransactionLogValue(1)))
    assert value is not None
    newer_key, newer_value = b"\0\7" + key[2:], b"\0\7" + value[2:]
    pairs = [(newer_key, value), (newer_key + b"x", value), (key, newer_value), (key + b"\0", value), (None, b"")]
    with capture_logs() as logs:
        assert read(bytes(batches.build(pairs, timestamp_ms=1))) == [("x", plain(TransactionLogValue(1)))]
        assert read(bytes(batches.build([(key, b"")], timestamp_ms=1))) == []
    assert [(line["event"], line.get("what")) for line in logs] == [
        ("records of an unknown kind are left alone", "__transaction_state: unknown record type 7"),
        ("records of an unknown kind are left alone", "__transaction_state: unknown record version 7 of type 0"),
        ("skipped a record that cannot be read", None),
    ]
