"""Keys and values of real __consumer_offsets segments: encoded again they have the same bytes, and they say what
Kafka's dump tool says.
"""

from __future__ import annotations

import base64
from typing import Any

from muster.protocol.consumer import decode_assignment, decode_subscription
from muster.protocol.message import Message
from muster.protocol.records import OFFSETS
from tests.protocol import golden

UUID_FIELDS = {"topic_id"}


def as_kafka_json(value: Any, name: str = "") -> Any:
    """A message in Kafka's JSON form: camel case, bytes in base64, uuids in url-safe base64 without padding."""
    if isinstance(value, Message):
        fields = {field: as_kafka_json(getattr(value, field), field) for field in value.__slots__}
        return {camel(field): x for field, x in fields.items()}
    if isinstance(value, bytes):
        if name in UUID_FIELDS:
            return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [as_kafka_json(x, name) for x in value]
    return value


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def assert_says(ours: Any, kafkas: Any, where: str) -> None:
    """Check that our JSON has every value of Kafka's JSON, which leaves out tagged fields at their default."""
    if isinstance(kafkas, dict):
        if isinstance(ours, str):  # the dump tool reads the bytes that consumers embed
            embedded = decode_assignment if where.endswith("assignment") else decode_subscription
            ours = as_kafka_json(embedded(base64.b64decode(ours))[1])
        for name, value in kafkas.items():
            assert name in ours, f"{where}.{name}"
            assert_says(ours[name], value, f"{where}.{name}")
    elif isinstance(kafkas, list):
        assert len(ours) == len(kafkas), where
        for i, (a, b) in enumerate(zip(ours, kafkas, strict=True)):
            assert_says(a, b, f"{where}[{i}]")
    else:
        assert ours == kafkas, where


def test_recorded_offsets_records_decode_as_in_kafka_and_keep_their_bytes() -> None:
    expected = golden.expected_records()
    types = set()
    count = 0
    for record in golden.logged_records():
        row = expected.pop((record.partition, record.offset))
        record_type, key = OFFSETS.decode_key(record.key)
        types.add(record_type)
        assert OFFSETS.encode_key(key) == record.key
        assert record_type == row["key"]["type"]
        assert_says(as_kafka_json(key), row["key"]["data"], f"key at {record.partition}/{record.offset}")
        if record.value is None:
            assert row["value"] is None
        else:
            version, value = OFFSETS.decode_value(record_type, record.value)
            assert OFFSETS.encode_value(value, version) == record.value
            assert version == row["value"]["version"]
            assert_says(as_kafka_json(value), row["value"]["data"], f"value at {record.partition}/{record.offset}")
        count += 1
    assert not expected
    assert count == 449
    assert types == {*range(1, 9), *range(10, 18), *range(19, 24)}
