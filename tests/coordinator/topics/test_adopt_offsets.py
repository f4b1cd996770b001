"""Offsets partitions that were copied into the data directory become this node's; nothing of them is dropped."""

from __future__ import annotations

import pytest

from muster.coordinator.log import MemoryStorage, batches, checkpoints
from muster.coordinator.slices import at_once
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.hashing import group_partition
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.records import OFFSETS
from tests.coordinator.topics.support import make_topics
from tests.support.old_formats import Row, messages

KAFKAS_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
NAME = f"{0:020d}.log"


def put(storage: MemoryStorage, index: int, *, topic: str = GROUP_OFFSETS_TOPIC, epoch: int = 0) -> bytes:
    """A partition's folder as Kafka leaves it; the bytes of its segment."""
    folder = f"{topic}-{index}"
    data = bytes(batches.build([(b"k", b"v")], timestamp_ms=1, leader_epoch=epoch))
    storage.make_directory(folder)
    storage.save(f"{folder}/{NAME}", data)
    storage.save(f"{folder}/{checkpoints.PARTITION_METADATA}", checkpoints.encode_topic_id(KAFKAS_ID))
    storage.save(f"{folder}/{checkpoints.LEADER_EPOCHS}", checkpoints.encode_epochs([(epoch, 0)]))
    return data


@pytest.mark.parametrize(("highest", "partitions"), [(3, 10), (49, 50)])
def test_a_new_directory_takes_them_over_with_id_and_epochs(highest: int, partitions: int) -> None:
    storage = MemoryStorage()
    data = put(storage, 1), put(storage, highest, epoch=5)
    topics = make_topics(storage, offsets_topic_num_partitions=10)
    topic = at_once(topics.ensuring(GROUP_OFFSETS_TOPIC))
    assert (topic.topic_id, len(topic.partitions)) == (KAFKAS_ID, partitions)
    for index, held in zip((1, highest), data, strict=True):
        partition = topic.partitions[index]
        assert partition is not None
        assert partition.log.read(0, 1000) == held
    assert [topic.leader_epoch(index) for index in (1, highest)] == [1, 6]
    topics.logs.close()
    again = make_topics(storage).by_name[GROUP_OFFSETS_TOPIC]
    assert (again.topic_id, len(again.partitions)) == (KAFKAS_ID, partitions)


def put_groups(storage: MemoryStorage, partitions: int, only: range | None = None, groups: int = 20) -> None:
    """Offsets partitions of a Kafka that has so many."""
    for number in range(groups):
        group = f"group-{number}"
        index = group_partition(group, partitions)
        if only is not None and index not in only:
            continue
        put(storage, index)
        key = OFFSETS.encode_key(GroupMetadataKey(group))
        storage.save(f"{GROUP_OFFSETS_TOPIC}-{index}/{NAME}", bytes(batches.build([(key, None)], timestamp_ms=1)))


@pytest.mark.parametrize(
    ("written", "only", "expected"),
    [(3, None, 3), (50, None, 50), (50, range(20), 50), (83, None, 83), (83, range(80), 83)],
)
def test_their_number_is_taken_over_unless_it_is_given(written: int, only: range | None, expected: int) -> None:
    storage = MemoryStorage()
    put_groups(storage, written, only)
    topics = make_topics(storage, offsets_partitions_are_given=False)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == expected
    storage = MemoryStorage()
    put_groups(storage, written, only)
    topics = make_topics(storage, offsets_topic_num_partitions=120)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == 120


def test_groups_in_messages_of_old_formats_say_how_many_there_were() -> None:
    storage = MemoryStorage()
    for number in range(20):
        index = group_partition(f"group-{number}", 83)
        put(storage, index)
        rows = [Row(0, 5, OFFSETS.encode_key(GroupMetadataKey(f"group-{number}")), None)]
        storage.save(f"{GROUP_OFFSETS_TOPIC}-{index}/{NAME}", messages(number % 2, rows, number % 4))
    topics = make_topics(storage, offsets_partitions_are_given=False)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == 83


def test_where_nothing_says_how_many_there_were_there_are_as_many_as_usual() -> None:
    storage = MemoryStorage()
    put(storage, 2)
    storage.make_directory(f"{GROUP_OFFSETS_TOPIC}-1")
    topics = make_topics(storage, offsets_partitions_are_given=False)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == 50


def test_those_put_into_a_directory_in_use_get_its_id() -> None:
    storage = MemoryStorage()
    topics = make_topics(storage, offsets_topic_num_partitions=3)
    own_id = at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).topic_id
    topics.logs.close()
    storage.remove_tree(f"{GROUP_OFFSETS_TOPIC}-1")
    data = put(storage, 1, epoch=4), put(storage, 7)
    topics = make_topics(storage, offsets_topic_num_partitions=3)
    topic = topics.by_name[GROUP_OFFSETS_TOPIC]
    assert (topic.topic_id, len(topic.partitions)) == (own_id, 3)
    partition = topic.partitions[1]
    assert partition is not None
    assert (partition.log.read(0, 1000), partition.leader_epoch) == (data[0], 5)
    assert topics.logs.folders.topic_id_on_disk(GROUP_OFFSETS_TOPIC, 1) == own_id
    # one that the topic has no room for is not touched
    assert bytes(storage.files[f"{GROUP_OFFSETS_TOPIC}-7/{NAME}"]) == data[1]


def test_a_malformed_id_is_no_obstacle() -> None:
    storage = MemoryStorage()
    put(storage, 0)
    for name in (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS):
        storage.save(f"{GROUP_OFFSETS_TOPIC}-0/{name}", b"nonsense")
    partition = make_topics(storage, offsets_topic_num_partitions=1).open.partition(GROUP_OFFSETS_TOPIC, 0)
    assert partition is not None
    assert partition.log.end_offset == 1


def test_other_topics_come_with_them() -> None:
    storage = MemoryStorage()
    data = put(storage, 0, topic="orders", epoch=3)
    storage.save(f"orders-0/{checkpoints.PARTITION_METADATA}", checkpoints.encode_topic_id(OTHER_ID))
    put(storage, 0)
    partition = make_topics(storage).open.partition("orders", 0)
    assert partition is not None
    assert (partition.log.read(0, 1000), partition.topic_id, partition.leader_epoch) == (data, OTHER_ID, 4)
