"""Keys and values of the internal logs. test_golden_offsets_log reads the golden segments."""

from __future__ import annotations

import random

import pytest

from muster.protocol.message import MalformedMessage, UnrepresentableField
from muster.protocol.messages import records_table
from muster.protocol.messages.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.metadata_records.topic_record import TopicRecord
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue
from muster.protocol.records import (
    OFFSETS,
    SHARE_STATE,
    TRANSACTION_STATE,
    KeyedRecords,
    UnknownRecord,
    decode_metadata,
    encode_metadata,
)
from tests.protocol.random_messages import draw, layouts

LAYOUTS = layouts()
LOGS = {"GROUP": OFFSETS, "SHARE": SHARE_STATE, "TRANSACTION": TRANSACTION_STATE}
ROWS = [(log, key) for log in LOGS for key in getattr(records_table, log)]


@pytest.mark.parametrize(("log", "record_type"), ROWS)
def test_each_record_is_unchanged_after_encoding_and_decoding(log: str, record_type: int) -> None:
    codec: KeyedRecords = LOGS[log]
    name, _, first, last = getattr(records_table, log)[record_type]
    assert codec.type_name(record_type) == name
    rng = random.Random(record_type)
    key_layout = LAYOUTS[name + "Key"]
    for version in range(first, last + 1):
        key = draw(rng, key_layout, key_layout.versions[0])
        value = draw(rng, LAYOUTS[name + "Value"], version)
        key_bytes, value_bytes = codec.encode_key(key), codec.encode_value(value, version)
        assert int.from_bytes(key_bytes[:2], "big") == record_type
        assert int.from_bytes(value_bytes[:2], "big") == version
        assert codec.decode_key(key_bytes) == (record_type, key)
        assert codec.decode_value(record_type, value_bytes) == (version, value)


@pytest.mark.parametrize("record_type", records_table.METADATA)
def test_each_metadata_record_is_unchanged_after_encoding_and_decoding(record_type: int) -> None:
    name, _, first, last = records_table.METADATA[record_type]
    for version in range(first, last + 1):
        record = draw(random.Random(version), LAYOUTS[name], version)
        data = encode_metadata(record, version)
        assert data[:3] == bytes((1, record_type, version))
        assert decode_metadata(data) == (record_type, version, record)
    newest = LAYOUTS[name].message()
    assert decode_metadata(encode_metadata(newest))[1] == last


def test_records_of_internal_topics_have_known_bytes() -> None:
    assert OFFSETS.encode_key(OffsetCommitKey("g", "t", 3)).hex() == "00010001670001740000" + "0003"
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    assert (
        OFFSETS.encode_value(value, 3).hex() == "0003" + "0000000000000005" + "00000002" + "00016d" + "0000000000000009"
    )
    assert TRANSACTION_STATE.encode_key(TransactionLogKey("tx")).hex() == "0000" + "00027478"
    assert TRANSACTION_STATE.encode_value(TransactionLogValue(transaction_partitions=None), 0)[:2] == b"\0\0"
    topic = TopicRecord("t", bytes(range(16)))
    assert encode_metadata(topic).hex() == "010200" + "0274" + bytes(range(16)).hex() + "00"


# Written by Kafka 4.3's ConsumerGroupMemberMetadataValue: the marker of a tagged struct that may be null is 0 or 1.
@pytest.mark.parametrize(
    ("classic", "data"),
    [
        (None, "0000010101010101ffffffff0101000100"),
        (ClassicMemberMetadata(), "0000010101010101ffffffff0100"),
        (ClassicMemberMetadata(5), "0000010101010101ffffffff0101000701000000050100"),
    ],
)
def test_a_nullable_tagged_struct_is_encoded(classic: ClassicMemberMetadata | None, data: str) -> None:
    value = ConsumerGroupMemberMetadataValue(instance_id=None, rack_id=None, classic_member_metadata=classic)
    value.client_id = value.client_host = ""
    # Kafka's program wrote "" where its default is "", not null.
    value.instance_id = value.rack_id = ""
    value.subscribed_topic_regex = value.server_assignor = ""
    encoded = OFFSETS.encode_value(value, 0)
    assert encoded.hex() == data
    assert OFFSETS.decode_value(5, encoded) == (0, value)


def test_unknown_record_types_are_distinguished_from_damage() -> None:
    with pytest.raises(UnknownRecord) as unknown:
        OFFSETS.decode_key(b"\x03\xe7rest")
    assert (unknown.value.type, unknown.value.version) == (999, None)
    with pytest.raises(UnknownRecord, match="version 9 of type 1") as unknown:
        OFFSETS.decode_value(1, b"\x00\x09rest")
    assert (unknown.value.type, unknown.value.version) == (1, 9)
    with pytest.raises(UnknownRecord):
        OFFSETS.decode_value(999, b"\x00\x00")
    with pytest.raises(UnknownRecord, match="__cluster_metadata: unknown record type 99"):
        decode_metadata(b"\x01\x63\x00")
    with pytest.raises(UnknownRecord, match="version 7 of type 2"):
        decode_metadata(b"\x01\x02\x07")
    for data in (b"", b"\x00"):
        with pytest.raises(MalformedMessage):
            OFFSETS.decode_key(data)
        with pytest.raises(MalformedMessage):
            OFFSETS.decode_value(1, data)
    for data in (b"", b"\x02\x02\x00", b"\x01", b"\x01\x02\x00"):
        with pytest.raises(MalformedMessage):
            decode_metadata(data)


def test_values_that_are_no_record_of_a_log_are_refused() -> None:
    with pytest.raises(UnrepresentableField, match="is no record of __consumer_offsets"):
        OFFSETS.encode_key(TransactionLogKey("tx"))
    with pytest.raises(UnrepresentableField, match="is no record of __cluster_metadata"):
        encode_metadata(OffsetCommitKey())
    with pytest.raises(UnrepresentableField, match="has no version 9"):
        OFFSETS.encode_value(OffsetCommitValue(), 9)
    with pytest.raises(UnrepresentableField, match="does not fit"):
        OFFSETS.encode_key(OffsetCommitKey("g", "t", 1 << 40))
