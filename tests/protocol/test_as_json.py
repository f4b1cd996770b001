"""Messages in Kafka's JSON form. tests/test_cli_log.py compares the output of Kafka's own tool for real records."""

from __future__ import annotations

import base64

from muster.protocol.as_json import as_json, camel, group_metadata_as_json
from muster.protocol.consumer import encode_subscription
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from muster.protocol.messages.group_records.group_metadata import GroupMetadataValue, MemberMetadata
from muster.protocol.messages.group_records.offset_commit import OffsetCommitValue


def test_field_names_are_written_in_camel_case() -> None:
    assert [camel(name) for name in ("epoch", "metadata_hash", "current_state_timestamp")] == [
        "epoch",
        "metadataHash",
        "currentStateTimestamp",
    ]


def test_json_has_the_fields_of_the_version_and_tagged_fields_only_when_set() -> None:
    value = OffsetCommitValue(5, 3, "m", 7, 9)
    assert as_json(value, 0) == {"offset": 5, "metadata": "m", "commitTimestamp": 7}
    assert as_json(value, 1) == {"offset": 5, "metadata": "m", "commitTimestamp": 7, "expireTimestamp": 9}
    assert list(as_json(value, 3)) == ["offset", "leaderEpoch", "metadata", "commitTimestamp"]
    assert list(as_json(value, 4)) == list(as_json(value, 3))
    value.topic_id = bytes(range(16))
    assert as_json(value, 4)["topicId"] == "AAECAwQFBgcICQoLDA0ODw"


def group(protocol_type: str, subscription: bytes) -> GroupMetadataValue:
    member = MemberMetadata("m", None, "c", "/h", 1, 2, subscription, b"")
    return GroupMetadataValue(protocol_type, 1, "range", "m", 3, [member])


def test_embedded_metadata_of_consumers_is_decoded_if_possible() -> None:
    data = encode_subscription(ConsumerProtocolSubscription(["t"]), 1)
    assert group_metadata_as_json(group("consumer", data), 3)["members"][0]["subscription"] == {
        "topics": ["t"],
        "userData": None,
        "ownedPartitions": [],
    }
    text = base64.b64encode(b"x").decode()
    assert group_metadata_as_json(group("consumer", b"x"), 3)["members"][0]["subscription"] == text
    shown = group_metadata_as_json(group("connect", data), 3)["members"][0]["subscription"]
    assert base64.b64decode(shown) == data
