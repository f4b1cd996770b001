"""Partitions of the coordinators that were copied into the data directory become this node's; no record of them is
lost.
"""

from __future__ import annotations

import pytest

from muster.coordinator.log import MemoryStorage, batches, checkpoints
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.state import tombstone
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics import startup
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.protocol.hashing import group_partition
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.records import OFFSETS, SHARE_STATE, TRANSACTION_STATE
from tests.coordinator.topics.support import make_topics
from tests.support.old_formats import Row, messages

KAFKAS_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
NAME = f"{0:020d}.log"


def put(storage: MemoryStorage, index: int, *, topic: str = GROUP_OFFSETS_TOPIC, epoch: int = 0) -> bytes:
    """Write a partition's folder as Kafka leaves it; returns the bytes of its segment."""
    folder = f"{topic}-{index}"
    data = bytes(batches.build([(b"k", b"v")], timestamp_ms=1, leader_epoch=epoch))
    storage.make_directory(folder)
    storage.save(f"{folder}/{NAME}", data)
    storage.save(f"{folder}/{checkpoints.PARTITION_METADATA}", checkpoints.encode_topic_id(KAFKAS_ID))
    storage.save(f"{folder}/{checkpoints.LEADER_EPOCHS}", checkpoints.encode_epochs([(epoch, 0)]))
    return data


@pytest.mark.parametrize(("highest", "partitions"), [(3, 10), (49, 50)])
def test_a_new_data_directory_adopts_copied_partitions_with_id_and_epochs(highest: int, partitions: int) -> None:
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
    """Write offsets partitions of a Kafka with `partitions` of them."""
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
def test_the_partition_count_of_copied_offsets_is_adopted_unless_given(
    written: int, only: range | None, expected: int
) -> None:
    storage = MemoryStorage()
    put_groups(storage, written, only)
    topics = make_topics(storage, partitions_are_given=False)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == expected
    storage = MemoryStorage()
    put_groups(storage, written, only)
    topics = make_topics(storage, offsets_topic_num_partitions=120)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == 120


def test_the_partition_count_is_found_from_groups_in_old_formats() -> None:
    storage = MemoryStorage()
    for number in range(20):
        index = group_partition(f"group-{number}", 83)
        put(storage, index)
        rows = [Row(0, 5, OFFSETS.encode_key(GroupMetadataKey(f"group-{number}")), None)]
        storage.save(f"{GROUP_OFFSETS_TOPIC}-{index}/{NAME}", messages(number % 2, rows, number % 4))
    topics = make_topics(storage, partitions_are_given=False)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == 83


def test_the_default_partition_count_is_used_if_none_can_be_found() -> None:
    storage = MemoryStorage()
    put(storage, 2)
    storage.make_directory(f"{GROUP_OFFSETS_TOPIC}-1")
    topics = make_topics(storage, partitions_are_given=False)
    assert len(at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)).partitions) == 50


def test_partitions_copied_into_a_used_directory_get_its_topic_id() -> None:
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
    # a folder with too high a number is not touched
    assert bytes(storage.files[f"{GROUP_OFFSETS_TOPIC}-7/{NAME}"]) == data[1]


def test_copied_partitions_with_a_malformed_topic_id_are_adopted() -> None:
    storage = MemoryStorage()
    put(storage, 0)
    for name in (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS):
        storage.save(f"{GROUP_OFFSETS_TOPIC}-0/{name}", b"nonsense")
    partition = make_topics(storage, offsets_topic_num_partitions=1).open.partition(GROUP_OFFSETS_TOPIC, 0)
    assert partition is not None
    assert partition.log.end_offset == 1


def test_other_copied_topics_are_adopted_too() -> None:
    storage = MemoryStorage()
    data = put(storage, 0, topic="orders", epoch=3)
    storage.save(f"orders-0/{checkpoints.PARTITION_METADATA}", checkpoints.encode_topic_id(OTHER_ID))
    put(storage, 0)
    partition = make_topics(storage).open.partition("orders", 0)
    assert partition is not None
    assert (partition.log.read(0, 1000), partition.topic_id, partition.leader_epoch) == (data, OTHER_ID, 4)


# ---- the state of transactions


def put_transactions(storage: MemoryStorage, partitions: int, ids: int = 20, first_id: int = 4_000) -> None:
    """Write partitions of __transaction_state of a Kafka with `partitions` of them; each id has its own producer id."""
    rows: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for number in range(ids):
        name = f"tx-{number}"
        key = TRANSACTION_STATE.encode_key(TransactionLogKey(name))
        value = TRANSACTION_STATE.encode_value(TransactionLogValue(first_id + number, next_producer_id=-1), 1)
        rows.setdefault(group_partition(name, partitions), []).append((key, value))
    for index, records in rows.items():
        put(storage, index, topic=TRANSACTION_STATE_TOPIC)
        second = batches.build([records[0]], timestamp_ms=1, base_offset=len(records))
        data = bytes(batches.build(records, timestamp_ms=1)) + bytes(second)
        storage.save(f"{TRANSACTION_STATE_TOPIC}-{index}/{NAME}", data)


@pytest.mark.parametrize(("written", "expected"), [(50, 50), (7, 7), (83, 83)])
def test_copied_transactions_are_adopted_with_their_partition_count(written: int, expected: int) -> None:
    storage = MemoryStorage()
    put_transactions(storage, written)
    topics = make_topics(storage, partitions_are_given=False)
    topic = topics.by_name[TRANSACTION_STATE_TOPIC]
    assert (topic.topic_id, len(topic.partitions)) == (KAFKAS_ID, expected)
    topics.logs.close()
    assert len(make_topics(storage).by_name[TRANSACTION_STATE_TOPIC].partitions) == expected


@pytest.mark.parametrize("written", [7, 83])
def test_copied_states_of_share_groups_are_adopted_with_their_partition_count(written: int) -> None:
    storage = MemoryStorage()
    for number in range(300):
        key = StateKey(f"g-{number}", OTHER_ID, number % 5)
        record = tombstone(key)
        index = group_partition(str(key), written)
        put(storage, index, topic=SHARE_STATE_TOPIC)
        data = bytes(batches.build([(SHARE_STATE.encode_key(record.key), None)], timestamp_ms=1))
        storage.save(f"{SHARE_STATE_TOPIC}-{index}/{NAME}", data)
    topics = make_topics(storage, partitions_are_given=False)
    assert len(topics.by_name[SHARE_STATE_TOPIC].partitions) == written


def test_the_partition_count_of_copied_transactions_can_be_given() -> None:
    storage = MemoryStorage()
    put_transactions(storage, 7)
    topics = make_topics(storage, transaction_state_log_num_partitions=9)
    assert len(topics.by_name[TRANSACTION_STATE_TOPIC].partitions) == 9


def used(storage: MemoryStorage) -> Topics:
    """The topics of a used directory: it has a topic and a producer id."""
    topics = make_topics(storage)
    at_once(topics.creating(NewTopic("orders", OTHER_ID, 1, 1)))
    assert at_once(topics.drawing_producer_id()) == 0
    return topics


def test_no_producer_id_known_to_copied_partitions_is_assigned() -> None:
    storage = MemoryStorage()
    used(storage).logs.close()
    put_transactions(storage, 3)
    assert at_once(make_topics(storage).drawing_producer_id()) == 4_020


def test_no_producer_id_known_to_partitions_copied_later_is_assigned() -> None:
    storage = MemoryStorage()
    topics = used(storage)
    own_id = at_once(topics.ensuring(TRANSACTION_STATE_TOPIC)).topic_id
    topics.logs.close()
    put_transactions(storage, 50, ids=3)
    topics = make_topics(storage)
    assert at_once(topics.drawing_producer_id()) == 4_003
    index = group_partition("tx-0", 50)
    assert topics.logs.folders.topic_id_on_disk(TRANSACTION_STATE_TOPIC, index) == own_id
    topics.logs.close()
    assert at_once(make_topics(storage).drawing_producer_id()) == 5_003


def test_unreadable_copied_records_do_not_prevent_a_start() -> None:
    storage = MemoryStorage()
    used(storage).logs.close()
    put_transactions(storage, 1)
    path = f"{TRANSACTION_STATE_TOPIC}-0/{NAME}"
    whole = bytes(storage.files[path])
    storage.save(path, whole + b"\0" * 7 + b"nonsense" * 20)
    topics = make_topics(storage, transaction_state_log_num_partitions=1)
    assert at_once(topics.drawing_producer_id()) == 4_020


def test_producer_ids_in_long_batches_are_found() -> None:
    storage = MemoryStorage()
    used(storage).logs.close()
    put(storage, 0, topic=TRANSACTION_STATE_TOPIC)
    key = TRANSACTION_STATE.encode_key(TransactionLogKey("tx"))
    rows = [PartitionsSchema(f"t{number}-{'x' * 200}", [*range(50)]) for number in range(3_000)]
    data = b"".join(
        batches.build(
            [(key, TRANSACTION_STATE.encode_value(TransactionLogValue(number, transaction_partitions=rows), 0))],
            timestamp_ms=1,
        )
        for number in (8, 9_000)
    )
    assert len(data) > 2 * startup.CHUNK_BYTES
    storage.save(f"{TRANSACTION_STATE_TOPIC}-0/{NAME}", data)
    assert at_once(make_topics(storage, transaction_state_log_num_partitions=1).drawing_producer_id()) == 9_001
