"""The strategies as aiokafka calls them: metadata, the leader's assignment, what a consumer remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from muster.assignors.aiokafka import ClientAssignor, strategy
from muster.assignors.builtin import CLIENT_ASSIGNORS, SERVER_ASSIGNORS
from muster.assignors.range import RangeAssignor
from muster.protocol.consumer import encode_subscription
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

EAGER = ("range", "roundrobin", "sticky")


class Topics:
    """What a strategy sees of aiokafka's ClusterMetadata."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.sizes[topic])) if topic in self.sizes else None


def rebalance(
    consumers: dict[str, ClientAssignor], topics: list[str], cluster: Topics
) -> dict[str, dict[str, list[int]]]:
    """One generation, with the bytes of JoinGroup and SyncGroup; the last consumer leads."""
    members = {
        name: ConsumerProtocolMemberMetadata.decode(consumer.metadata(set(topics)).encode())
        for name, consumer in consumers.items()
    }
    answer = list(consumers.values())[-1].assign(cluster, members)
    heard = {name: ConsumerProtocolMemberAssignment.decode(row.encode()) for name, row in answer.items()}
    for name, consumer in consumers.items():
        consumer.on_assignment(heard[name])
    return {name: {topic: list(numbers) for topic, numbers in row.assignment} for name, row in heard.items()}


@pytest.mark.parametrize("name", EAGER)
def test_each_eager_strategy_is_an_aiokafka_assignor(name: str) -> None:
    consumers = {member: strategy(name) for member in ("a", "b")}
    assert isinstance(consumers["a"], AbstractPartitionAssignor)
    assert consumers["a"].name == name
    shares = rebalance(consumers, ["t", "missing"], Topics(t=4))
    assert sorted(shares) == ["a", "b"]
    assert sorted(number for rows in shares.values() for number in rows["t"]) == [0, 1, 2, 3]
    assert [len(rows["t"]) for rows in shares.values()] == [2, 2]


def test_range_and_roundrobin_of_aiokafka_share_as_in_the_stories() -> None:
    """Stories 11 and 12 show these assignments."""
    two = Topics(t1=3, t2=3)
    shares = rebalance({member: strategy("range") for member in ("c1", "c2")}, ["t1", "t2"], two)
    assert shares == {"c1": {"t1": [0, 1], "t2": [0, 1]}, "c2": {"t1": [2], "t2": [2]}}
    shares = rebalance({member: strategy("roundrobin") for member in ("c1", "c2")}, ["t1", "t2"], two)
    assert shares == {"c1": {"t1": [0, 2], "t2": [1]}, "c2": {"t1": [1], "t2": [0, 2]}}


def test_sticky_of_aiokafka_remembers_the_assignment_of_each_consumer() -> None:
    """Story 13: ten members have five partitions each, one member leaves, five partitions move."""
    consumers = {f"m{number}": strategy("sticky") for number in range(10)}
    before = rebalance(consumers, ["t"], Topics(t=50))
    del consumers["m3"]
    after = rebalance(consumers, ["t"], Topics(t=50))
    assert all(set(before[name]["t"]) <= set(after[name]["t"]) for name in after)
    assert sum(len(rows["t"]) for rows in after.values()) == 50


def test_the_sticky_user_data_is_read_by_java_and_aiokafka() -> None:
    """Version 1 of StickyAssignor's user data; before the first assignment there is none."""
    consumer = strategy("sticky")
    assert consumer.metadata(["t"]).user_data is None
    consumer.follow(SimpleNamespace(_coordinator=SimpleNamespace(generation=7)))
    consumer.on_assignment(ConsumerProtocolMemberAssignment(0, [("t", [3, 1]), ("ü", [0])], b""))
    data = consumer.metadata(["t"]).user_data
    assert data.hex() == "000000020001740000000200000003000000010002c3bc000000010000000000000007"
    read = StickyAssignorUserDataV1.decode(data)
    assert (read.previous_assignment, read.generation) == ([("t", [3, 1]), ("ü", [0])], 7)


def test_the_sticky_user_data_has_no_generation_without_a_consumer() -> None:
    consumer = strategy("sticky")
    for followed in (None, SimpleNamespace()):
        consumer.follow(followed)
        consumer.on_assignment(ConsumerProtocolMemberAssignment(0, [], b""))
        assert consumer.metadata(["t"]).user_data.hex() == "00000000ffffffff"


def test_newer_subscription_versions_of_other_clients_are_read() -> None:
    subscription = ConsumerProtocolSubscription(
        ["t"], None, [ConsumerProtocolSubscriptionTopicPartition("t", [0])], 4, "rack"
    )
    java = ConsumerProtocolMemberMetadata.decode(encode_subscription(subscription))
    ours = strategy("range")
    shares = ours.assign(Topics(t=2), {"java": java, "ours": ours.metadata(["t"])})
    assert {name: row.assignment for name, row in shares.items()} == {"java": [("t", [0])], "ours": [("t", [1])]}


@pytest.mark.parametrize(
    "wanted", ["cooperative-sticky", CLIENT_ASSIGNORS["cooperative-sticky"], SERVER_ASSIGNORS["uniform"]]
)
def test_cooperative_strategies_are_refused_in_aiokafka(wanted: Any) -> None:
    with pytest.raises(
        ValueError, match=r"cannot be used in aiokafka.*use one of range, roundrobin, sticky, or a client"
    ):
        strategy(wanted)


def test_unknown_strategy_names_are_refused_and_objects_accepted() -> None:
    with pytest.raises(
        ValueError, match="'rang' is no strategy: range, roundrobin, sticky or \"module:Class\" was expected"
    ):
        strategy("rang")
    with pytest.raises(ValueError, match="importing no_such_module failed"):
        strategy("no_such_module:Class")
    assert strategy(RangeAssignor()).name == "range"
