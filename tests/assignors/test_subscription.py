from __future__ import annotations

import pytest

from muster.assignors.assignor import Member
from muster.assignors.subscription import assignment_bytes, assignments_bytes, member_of
from muster.protocol.consumer import decode_assignment, encode_subscription
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)


def test_a_member_is_read_from_its_row_of_the_join_response() -> None:
    owned = [
        ConsumerProtocolSubscriptionTopicPartition("t", [2]),
        ConsumerProtocolSubscriptionTopicPartition("t", [0]),
    ]
    subscription = ConsumerProtocolSubscription(["t", "u"], b"data", owned, 7, "rack")
    assert member_of("m", encode_subscription(subscription), "i") == Member(
        "m", ("t", "u"), {"t": [2, 0]}, 7, "i", "rack", b"data"
    )
    assert member_of("m", encode_subscription(subscription, 0)) == Member("m", ("t", "u"), user_data=b"data")
    with pytest.raises(MalformedMessage):
        member_of("m", b"\0\3\0")


def test_an_assignment_keeps_its_order_on_the_wire() -> None:
    read = decode_assignment(assignment_bytes({"u": [1, 0], "t": [2]}, b"x"))[1]
    assert [(row.topic, list(row.partitions)) for row in read.assigned_partitions] == [("u", [1, 0]), ("t", [2])]
    assert read.user_data == b"x"
    assert assignments_bytes({"m": {"t": [1]}, "n": {}}) == {
        "m": assignment_bytes({"t": [1]}),
        "n": assignment_bytes({}),
    }
