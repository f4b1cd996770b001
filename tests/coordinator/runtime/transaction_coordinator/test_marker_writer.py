"""How one marker is written to one partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.transaction_coordinator.markers import MarkerWriter
from muster.coordinator.state_machine.interface import Producer
from muster.protocol.errors import ErrorCode
from tests.coordinator.runtime.transaction_coordinator.harness import CoordinatorHarness

MARKER = EndMarker(7, 2, True, 12, 0)


@pytest.fixture
def harness() -> CoordinatorHarness:
    return CoordinatorHarness()


def write(harness: CoordinatorHarness, topic: str, index: int, marker: EndMarker = MARKER) -> list[int]:
    ended: list[int] = []
    MarkerWriter(harness.topics.open, harness.groups, harness.clock).write(marker, topic, index, ended.append)
    return ended


def test_a_marker_for_a_user_partition_is_a_control_batch(harness: CoordinatorHarness) -> None:
    assert write(harness, "t", 1) == [ErrorCode.NONE]
    assert (harness.markers(0), harness.markers(1)) == ([], [(7, 2, True)])


@pytest.mark.parametrize(("topic", "index"), [("t", 2), ("t", -1), ("no", 0), ("__consumer_offsets", 2)])
def test_a_marker_for_an_unknown_partition_is_refused(harness: CoordinatorHarness, topic: str, index: int) -> None:
    assert write(harness, topic, index) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_marker_for_a_partition_in_deletion_is_refused(harness: CoordinatorHarness) -> None:
    partition = harness.topics.by_name["t"].partitions[0]
    assert partition is not None
    partition.close()
    assert write(harness, "t", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_marker_for_an_offline_partition_is_refused(harness: CoordinatorHarness) -> None:
    partition = harness.topics.by_name["t"].partitions[0]
    assert partition is not None
    partition.log.go_offline("t-0", OSError("the disk is gone"))
    assert write(harness, "t", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
    harness.topics.by_name["t"].partitions[0] = None  # the log could not even be opened
    assert write(harness, "t", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_markers_of_an_older_coordinator_or_producer_epoch_are_refused(harness: CoordinatorHarness) -> None:
    assert write(harness, "t", 0) == [ErrorCode.NONE]
    assert write(harness, "t", 0, MARKER._replace(coordinator_epoch=11)) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert write(harness, "t", 0, MARKER._replace(producer_epoch=1)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert harness.markers() == [(7, 2, True)]


@pytest.mark.parametrize(("durability", "waits"), [("commit", True), ("os", False)])
def test_a_marker_is_as_durable_as_the_record_of_completion(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch, durability: str, waits: bool
) -> None:
    partition = harness.topics.by_name["t"].partitions[0]
    assert partition is not None
    waiting: list[int] = []
    monkeypatch.setattr(type(partition.log), "when_synced", lambda _, position, ended: waiting.append(position))
    harness.topics.settings = replace(harness.topics.settings, muster_offsets_durability=durability)
    assert write(harness, "t", 0) == ([] if waits else [ErrorCode.NONE])
    assert waiting == ([1] if waits else [])


def test_a_marker_for_offsets_goes_through_the_groups_shard(harness: CoordinatorHarness) -> None:
    assert write(harness, "__consumer_offsets", 1, MARKER._replace(transaction_version=2)) == [ErrorCode.NONE]
    assert (harness.groups[0], harness.groups[1]) == ([], [(2, Producer(7, 2), True, 12)])


@pytest.mark.parametrize(
    ("error", "reported"),
    [(14, ErrorCode.NOT_LEADER_OR_FOLLOWER), (15, ErrorCode.NOT_LEADER_OR_FOLLOWER), (16, 6), (47, 47), (-1, -1)],
)
def test_a_marker_for_offsets_of_a_loading_shard_is_refused(
    harness: CoordinatorHarness, error: int, reported: int
) -> None:
    harness.groups[0].error = error
    assert write(harness, "__consumer_offsets", 0) == [reported]
