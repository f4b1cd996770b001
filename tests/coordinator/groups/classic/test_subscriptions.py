from __future__ import annotations

import pytest

from muster.coordinator.groups.classic import history
from muster.coordinator.groups.classic import member as subscriptions_module
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import MAX_GROUP_METADATA_BYTES, SHORT, UNKNOWN, Subscriptions
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.protocol.consumer import encode_subscription
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


def metadata(*topics: str, version: int = 1) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(list(topics)), version)


def test_the_unknown_subscription_has_no_topics() -> None:
    assert UNKNOWN.topics() is None
    assert UNKNOWN.topics() is None


def test_a_group_without_members_subscribes_to_no_topic() -> None:
    assert Subscriptions([]).topics() == frozenset()


def test_a_group_subscribes_to_the_topics_of_all_members() -> None:
    subscriptions = Subscriptions([metadata("a", "b"), metadata("b", "c", version=3), metadata("a", "b")])
    assert subscriptions.topics() == frozenset("abc")
    assert subscriptions.topics() == frozenset("abc")


class Long(bytes):
    """Metadata that is too long to be read only for a comparison."""

    def __hash__(self) -> int:
        raise AssertionError("it was read")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was read")


def test_long_metadata_is_not_decoded_before_its_topics_are_needed() -> None:
    topics = [f"topic-{number}" for number in range(SHORT // 8)]
    subscriptions = Subscriptions([Long(metadata(*topics)), metadata("a"), Long(metadata(*topics))])
    assert subscriptions.topics() == frozenset([*topics, "a"])


def test_the_topics_of_too_much_metadata_are_unknown() -> None:
    half = bytes(MAX_GROUP_METADATA_BYTES // 2)
    assert Subscriptions([metadata("a"), Long(half), Long(half)]).topics() is None


@pytest.mark.parametrize(
    "broken",
    [b"", b"\0", b"xy", b"\0\1", b"\0\1inane", b"\0\1\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\2\xff\xff\xff\xff\xff\xff"],
)
def test_metadata_that_is_no_subscription_makes_the_topics_unknown(broken: bytes) -> None:
    subscriptions = Subscriptions([metadata("a"), broken])
    assert subscriptions.topics() is None
    assert subscriptions.topics() is None


@pytest.mark.parametrize("claimed", [1, 2, 3, 7, -1])
def test_a_subscription_is_read_as_version_0_whatever_it_claims(claimed: int) -> None:
    # @platformatic/kafka claims version 1 and ends after UserData
    ends_early = claimed.to_bytes(2, "big", signed=True) + metadata("b", version=0)[2:]
    assert Subscriptions([metadata("a"), ends_early]).topics() == frozenset("ab")


def test_the_history_does_not_read_subscriptions_with_too_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of short names once took 100 ms, in the iteration in which the group was assigned."""
    monkeypatch.setattr(subscriptions_module, "MAX_TOPIC_NAMES", 5)
    few, many = [metadata("a", "b"), metadata("b", "c", "d")], [metadata("a", "b"), metadata("b", "c", "d", "e")]
    assert not Subscriptions(few).is_long
    assert Subscriptions(many).is_long
    assert not Subscriptions(None).is_long
    read = Subscriptions([metadata("a", "b", "c", "d", "e", "f")])
    assert read.topics() == frozenset("abcdef")
    assert read.is_long
    group = ClassicGroup("g", 0)
    image = TopicsImage({"a": TopicImage("a", b"a" * 16, 3)}, 1)
    group.subscriptions = Subscriptions(few)
    assert history.partition_counts(group, image) == {"a": 3}
    group.subscriptions = Subscriptions(many)
    assert history.partition_counts(group, image) == {}
