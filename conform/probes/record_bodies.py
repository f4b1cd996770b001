"""Rich legal requests about records, transactions and the records of share groups."""

from __future__ import annotations

from muster.conform.probes.group_bodies import joins_share_group, leaves, member_of
from muster.conform.probes.place import Ask, Body, MakeBody, Place, Script

ACCEPT = 1
TIMEOUT_MS = 5_000
TXN_TIMEOUT_MS = 10_000


def produce(place: Place, _: int) -> Body:
    """A batch for a partition that exists, and one for a topic that does not."""
    rows = [{"Index": 0, "Records": place.batch}]
    topics = [
        {"Name": place.topic, "TopicId": place.topic_id, "PartitionData": rows},
        {"Name": place.no_topic, "TopicId": place.no_topic_id, "PartitionData": rows},
    ]
    return {"Acks": -1, "TimeoutMs": TIMEOUT_MS, "TopicData": topics}


def fetch(place: Place, _: int) -> Body:
    """Two partitions in a new session, and a topic that does not exist."""
    rows = [{"Partition": number, "FetchOffset": 0, "PartitionMaxBytes": 1_000_000} for number in (0, 1)]
    topics = [
        {"Topic": place.topic, "TopicId": place.topic_id, "Partitions": rows},
        {"Topic": place.no_topic, "TopicId": place.no_topic_id, "Partitions": rows[:1]},
    ]
    return {"MinBytes": 0, "MaxBytes": 1_000_000, "IsolationLevel": 1, "SessionEpoch": 0, "Topics": topics}


def list_offsets(place: Place, version: int) -> Body:
    """The first and the last offset, and a partition that does not exist."""
    rows = [{"PartitionIndex": 0, "Timestamp": -1}, {"PartitionIndex": 1, "Timestamp": -2}]
    topics = [
        {"Name": place.topic, "Partitions": rows},
        {"Name": place.no_topic, "Partitions": rows[:1]},
    ]
    return {"ReplicaId": -1, "IsolationLevel": int(version >= 2), "Topics": topics, "TimeoutMs": TIMEOUT_MS}


def offset_for_leader_epoch(place: Place, _: int) -> Body:
    """The end of an epoch, and a topic that does not exist."""
    rows = [{"Partition": 0, "LeaderEpoch": 0}]
    topics = [{"Topic": place.topic, "Partitions": rows}, {"Topic": place.no_topic, "Partitions": rows}]
    return {"ReplicaId": -1, "Topics": topics}


def delete_records(place: Place, _: int) -> Body:
    """The first record of this run's own topic, and a topic that does not exist."""
    rows = [{"PartitionIndex": 0, "Offset": 1}]
    topics = [{"Name": place.topic, "Partitions": rows}, {"Name": place.no_topic, "Partitions": rows}]
    return {"Topics": topics, "TimeoutMs": TIMEOUT_MS}


def describe_producers(place: Place, _: int) -> Body:
    """The producers of a partition, and a topic that does not exist."""
    return {
        "Topics": [
            {"Name": place.topic, "PartitionIndexes": [0, 1]},
            {"Name": place.no_topic, "PartitionIndexes": [0]},
        ]
    }


def init_producer_id(place: Place, version: int) -> Body:
    """A producer with a transactional id."""
    return {"TransactionalId": place.transactional_id("txn-init", version), "TransactionTimeoutMs": TXN_TIMEOUT_MS}


def _begun(transactional_id: str) -> Ask:
    return Ask({"TransactionalId": transactional_id, "TransactionTimeoutMs": TXN_TIMEOUT_MS}, "InitProducerId")


def add_partitions_to_txn(place: Place, version: int) -> Script:
    """A partition of a transaction. From version 4 on, which brokers send, a check that adds nothing."""
    name = place.transactional_id("txn-partitions", version)
    producer = yield _begun(name)
    topics = [{"Name": place.topic, "Partitions": [0, 1]}]
    one = {"TransactionalId": name, **_of(producer), "VerifyOnly": True, "Topics": topics}
    yield Ask(
        {
            "Transactions": [one],
            "V3AndBelowTransactionalId": name,
            "V3AndBelowProducerId": producer["ProducerId"],
            "V3AndBelowProducerEpoch": producer["ProducerEpoch"],
            "V3AndBelowTopics": topics,
        }
    )
    if version < 4:
        yield _ended(name, producer)


def _of(producer: Body) -> Body:
    return {"ProducerId": producer["ProducerId"], "ProducerEpoch": producer["ProducerEpoch"]}


def _ended(name: str, producer: Body) -> Ask:
    return Ask({"TransactionalId": name, **_of(producer), "Committed": False}, "EndTxn")


def add_offsets_to_txn(place: Place, version: int) -> Script:
    """A group of a transaction."""
    name = place.transactional_id("txn-offsets", version)
    producer = yield _begun(name)
    yield Ask({"TransactionalId": name, **_of(producer), "GroupId": place.group})
    yield _ended(name, producer)


def end_txn(place: Place, version: int) -> Script:
    """The end of a transaction with a group."""
    name = place.transactional_id("txn-end", version)
    producer = yield _begun(name)
    added = Ask({"TransactionalId": name, **_of(producer), "GroupId": place.group}, "AddOffsetsToTxn")
    yield added
    yield Ask({"TransactionalId": name, **_of(producer), "Committed": False})


def txn_offset_commit(place: Place, version: int) -> Script:
    """An offset in a transaction that is aborted."""
    name, group = place.transactional_id("txn-commit", version), place.name("txn-commit-group", version)
    producer = yield _begun(name)
    yield Ask({"TransactionalId": name, **_of(producer), "GroupId": group}, "AddOffsetsToTxn")
    rows = [{"PartitionIndex": 0, "CommittedOffset": 1, "CommittedLeaderEpoch": 0, "CommittedMetadata": "conform"}]
    topics = [
        {"Name": place.topic, "TopicId": place.topic_id, "Partitions": rows},
        {"Name": place.no_topic, "TopicId": place.no_topic_id, "Partitions": rows},
    ]
    yield Ask({"TransactionalId": name, **_of(producer), "GroupId": group, "Topics": topics})
    yield _ended(name, producer)


def write_txn_markers(place: Place, _: int) -> Body:
    """What coordinators send, for a topic that does not exist."""
    topics = [{"Name": place.no_topic, "PartitionIndexes": [0]}]
    return {"Markers": [{"ProducerId": 1, "ProducerEpoch": 0, "TransactionResult": False, "Topics": topics}]}


def describe_transactions(place: Place, version: int) -> Script:
    """A transactional id that has done nothing yet, and one that does not exist."""
    name = place.transactional_id("txn-describe", version)
    yield _begun(name)
    yield Ask({"TransactionalIds": [name, place.transactional_id("no-txn")]})


def list_transactions(place: Place, version: int) -> Body:
    """Filters by two states; one of the states does not exist."""
    return {
        "StateFilters": ["Ongoing", "Conform"],
        "ProducerIdFilters": [1],
        "DurationFilter": 1 if version >= 1 else -1,
        "TransactionalIdPattern": place.prefix + ".*" if version >= 2 else None,
    }


def share_fetch(place: Place, version: int) -> Script:
    """A member joins, opens a share session, and leaves."""
    member = member_of(place, "share-fetch", version)
    yield joins_share_group(member, place)
    rows = [{"PartitionIndex": number} for number in (0, 1)]
    topics = [
        {"TopicId": place.topic_id, "Partitions": rows},
        {"TopicId": place.no_topic_id, "Partitions": rows[:1]},
    ]
    yield Ask(
        {
            **member,
            "MinBytes": 0,
            "MaxBytes": 1_000_000,
            "MaxRecords": 10,
            "BatchSize": 10,
            "Topics": topics,
        }
    )
    yield leaves(member, "ShareGroupHeartbeat")


def share_acknowledge(place: Place, version: int) -> Script:
    """A member acknowledges a record that it does not have, in a session that it has opened."""
    member = member_of(place, "share-acknowledge", version)
    yield joins_share_group(member, place)
    opened = {**member, "MaxBytes": 1_000_000, "MaxRecords": 1, "BatchSize": 1}
    yield Ask({**opened, "Topics": [{"TopicId": place.topic_id, "Partitions": [{"PartitionIndex": 1}]}]}, "ShareFetch")
    batches = [{"FirstOffset": 0, "LastOffset": 0, "AcknowledgeTypes": [ACCEPT]}]
    rows = [{"PartitionIndex": 1, "AcknowledgementBatches": batches}]
    topics = [{"TopicId": place.topic_id, "Partitions": rows}, {"TopicId": place.no_topic_id, "Partitions": rows}]
    yield Ask({**member, "ShareSessionEpoch": 1, "Topics": topics})
    yield leaves(member, "ShareGroupHeartbeat")


def describe_share_group_offsets(place: Place, _: int) -> Body:
    """The share groups of others: one does not exist, and one is of another type."""
    topics = [{"TopicName": place.topic, "Partitions": [0, 1]}, {"TopicName": place.no_topic, "Partitions": [0]}]
    groups = [place.name("no-group"), place.group]
    return {"Groups": [{"GroupId": group, "Topics": topics} for group in groups]}


def alter_share_group_offsets(place: Place, _: int) -> Body:
    """The offsets of a group of another type: they stay as they are."""
    rows = [{"PartitionIndex": 0, "StartOffset": 0}]
    return {"GroupId": place.group, "Topics": [{"TopicName": place.topic, "Partitions": rows}]}


def delete_share_group_offsets(place: Place, _: int) -> Body:
    """The offsets of a group that does not exist."""
    topics = [{"TopicName": place.topic}, {"TopicName": place.no_topic}]
    return {"GroupId": place.name("no-group"), "Topics": topics}


RICH: dict[str, MakeBody] = {
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": list_offsets,
    "OffsetForLeaderEpoch": offset_for_leader_epoch,
    "DeleteRecords": delete_records,
    "DescribeProducers": describe_producers,
    "InitProducerId": init_producer_id,
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AddOffsetsToTxn": add_offsets_to_txn,
    "EndTxn": end_txn,
    "TxnOffsetCommit": txn_offset_commit,
    "WriteTxnMarkers": write_txn_markers,
    "DescribeTransactions": describe_transactions,
    "ListTransactions": list_transactions,
    "ShareFetch": share_fetch,
    "ShareAcknowledge": share_acknowledge,
    "DescribeShareGroupOffsets": describe_share_group_offsets,
    "AlterShareGroupOffsets": alter_share_group_offsets,
    "DeleteShareGroupOffsets": delete_share_group_offsets,
}
