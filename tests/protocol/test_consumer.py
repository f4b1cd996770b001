"""The consumer protocol. test_golden_offsets_log reads bytes of real consumers."""

from __future__ import annotations

import pytest

from muster.protocol import consumer
from muster.protocol.message import MalformedMessage, UnrepresentableField
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"u",
    owned_partitions=[ConsumerProtocolSubscriptionTopicPartition("a", [0, 1])],
    generation_id=5,
    rack_id="r",
)


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_has_the_fields_of_its_version(version: int) -> None:
    claimed, seen = consumer.decode_subscription(consumer.encode_subscription(SUBSCRIPTION, version))
    assert claimed == version
    assert (seen.topics, seen.user_data) == (["a", "b"], b"u")
    assert list(seen.owned_partitions) == (SUBSCRIPTION.owned_partitions if version >= 1 else [])
    assert seen.generation_id == (5 if version >= 2 else -1)
    assert seen.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_consumer_assignments_are_unchanged_after_encoding_and_decoding(version: int) -> None:
    assignment = ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition("a", [0, 2])], b"u")
    assert consumer.decode_assignment(consumer.encode_assignment(assignment, version)) == (version, assignment)


def test_the_consumer_protocol_has_known_bytes() -> None:
    plain = ConsumerProtocolSubscription(["t"], None)
    assert consumer.encode_subscription(plain, 0).hex() == "0000" + "00000001" + "000174" + "ffffffff"
    assigned = ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition("t", [3])], None)
    expected = "0000" + "00000001" + "000174" + "00000001" + "00000003" + "ffffffff"
    assert consumer.encode_assignment(assigned, 0).hex() == expected


def test_a_higher_version_is_read_as_the_highest_known() -> None:
    data = consumer.encode_subscription(SUBSCRIPTION)
    newer = b"\x00\x07" + data[2:] + b"fields to come"
    assert consumer.decode_subscription(newer) == (7, SUBSCRIPTION)


def test_remaining_bytes_of_a_subscription_are_ignored() -> None:
    for version in range(4):
        data = consumer.encode_subscription(SUBSCRIPTION, version)
        assert consumer.decode_subscription(data + b"more") == consumer.decode_subscription(data)


@pytest.mark.parametrize("claimed", [0, 1, 3, 7, -1])
def test_the_topics_of_a_subscription_are_read_in_any_version(claimed: int) -> None:
    data = claimed.to_bytes(2, "big", signed=True) + consumer.encode_subscription(SUBSCRIPTION, 0)[2:]
    assert consumer.subscribed_topics(data) == SUBSCRIPTION.topics
    for size in range(len(data)):
        with pytest.raises(MalformedMessage, match=r"^ConsumerProtocolSubscription"):
            consumer.subscribed_topics(data[:size])


@pytest.mark.parametrize("version", range(4))
def test_each_truncated_subscription_is_refused(version: int) -> None:
    data = consumer.encode_subscription(SUBSCRIPTION, version)
    for size in range(len(data)):
        with pytest.raises(MalformedMessage, match=r"^ConsumerProtocolSubscription"):
            consumer.decode_subscription(data[:size])


def test_a_negative_consumer_protocol_version_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="negative version -1"):
        consumer.decode_assignment(b"\xff\xff\x00\x00\x00\x00")


def test_fields_that_cannot_be_encoded_are_refused() -> None:
    with pytest.raises(UnrepresentableField, match="has no version 4"):
        consumer.encode_subscription(SUBSCRIPTION, 4)
    with pytest.raises(UnrepresentableField, match="does not fit"):
        consumer.encode_subscription(ConsumerProtocolSubscription(generation_id=1 << 40))
