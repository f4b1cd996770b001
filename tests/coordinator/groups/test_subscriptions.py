from __future__ import annotations

import pytest

from muster.coordinator.groups.subscriptions import UNKNOWN, Subscriptions
from muster.protocol.consumer import encode_subscription
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


def metadata(*topics: str, version: int = 1) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(list(topics)), version)


def test_unknown_stays_unknown() -> None:
    assert UNKNOWN.topics() is None
    assert UNKNOWN.topics() is None


def test_no_members_subscribe_to_nothing() -> None:
    assert Subscriptions([]).topics() == frozenset()


def test_the_topics_of_all_members() -> None:
    subscriptions = Subscriptions([metadata("a", "b"), metadata("b", "c", version=3), metadata("a", "b")])
    assert subscriptions.topics() == frozenset("abc")
    assert subscriptions.topics() == frozenset("abc")


@pytest.mark.parametrize(
    "broken",
    [b"", b"\0", b"xy", b"\0\1", b"\0\1inane", b"\0\1\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\2\xff\xff\xff\xff\xff\xff"],
)
def test_metadata_that_is_no_subscription_makes_the_topics_unknown(broken: bytes) -> None:
    # "\0\1inane" leaves a group of Kafka 4.3.0 in PreparingRebalance for ever
    subscriptions = Subscriptions([metadata("a"), broken])
    assert subscriptions.topics() is None
    assert subscriptions.topics() is None
