"""Converters of the topic APIs and of transactions."""

from __future__ import annotations

import pytest

from muster.protocol.errors import ErrorCode
from muster.protocol.messages import (
    add_partitions_to_txn,
    delete_topics,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
    txn_offset_commit,
)
from tests.protocol.shapes.test_group_shapes import lowered, raised

ID, OTHER = bytes(range(16)), bytes(range(1, 17))


def test_metadata_0_asks_for_all_topics_with_an_empty_list() -> None:
    assert raised("Metadata", 0, metadata.MetadataRequest([])).topics is None
    assert raised("Metadata", 1, metadata.MetadataRequest([])).topics == []
    assert raised("Metadata", 1, metadata.MetadataRequest(None)).topics is None
    topic = metadata.MetadataRequestTopic(name="t")
    assert raised("Metadata", 0, metadata.MetadataRequest([topic])).topics == [topic]


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_a_topic_known_by_id_only(version: int) -> None:
    row = metadata.MetadataResponseTopic(error_code=100, name=None, topic_id=ID)
    seen = lowered("Metadata", version, metadata.MetadataResponse(topics=[row])).topics[0]
    assert seen.name == (None if version >= 12 else "")


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_has_the_replica_id_in_its_state(version: int) -> None:
    assert raised("Fetch", version, fetch.FetchRequest()).replica_state is None
    if version < 15:
        seen = raised("Fetch", version, fetch.FetchRequest(replica_id=3))
        assert seen.replica_id == -1
        assert seen.replica_state == fetch.ReplicaState(3)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_names_the_leader_in_versions_that_allow_it(version: int) -> None:
    row = fetch.PartitionData(error_code=6, current_leader=fetch.LeaderIdAndEpoch(1, 2), preferred_read_replica=4)
    row.diverging_epoch = fetch.EpochEndOffset(1, 2)
    response = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic="t", topic_id=ID, partitions=[row])],
        node_endpoints=[fetch.NodeEndpoint(1, "h", 9092)],
    )
    seen = lowered("Fetch", version, response)
    partition = seen.responses[0].partitions[0]
    assert len(seen.node_endpoints) == (1 if version >= 16 else 0)
    assert (partition.current_leader is not None) is (version >= 12)
    assert (partition.diverging_epoch is not None) is (version >= 12)
    assert partition.preferred_read_replica == (4 if version >= 11 else -1)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_names_the_leader_in_versions_that_allow_it(version: int) -> None:
    row = produce.PartitionProduceResponse(error_code=6, current_leader=produce.LeaderIdAndEpoch(1, 2))
    response = produce.ProduceResponse(
        responses=[produce.TopicProduceResponse("t", ID, [row])], node_endpoints=[produce.NodeEndpoint(1, "h", 9092)]
    )
    seen = lowered("Produce", version, response)
    partition = seen.responses[0].partition_responses[0]
    assert (partition.current_leader is not None) is (version >= 10)
    assert len(seen.node_endpoints) == (1 if version >= 10 else 0)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_has_the_leader_epoch_in_versions_that_allow_it(version: int) -> None:
    row = list_offsets.ListOffsetsPartitionResponse(0, 0, 1, 2, 3)
    response = list_offsets.ListOffsetsResponse(topics=[list_offsets.ListOffsetsTopicResponse("t", [row])])
    seen = lowered("ListOffsets", version, response).topics[0].partitions[0]
    assert seen.leader_epoch == (3 if version >= 4 else -1)


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_always_names_rows(version: int) -> None:
    row = delete_topics.DeleteTopicState("t")
    if version < 6:
        request = delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5)
    else:
        request = delete_topics.DeleteTopicsRequest([row], timeout_ms=5)
    assert raised("DeleteTopics", version, request) == delete_topics.DeleteTopicsRequest([row], timeout_ms=5)
    result = delete_topics.DeletableTopicResult("t", ID, 3, "gone")
    seen = lowered("DeleteTopics", version, delete_topics.DeleteTopicsResponse(responses=[result])).responses[0]
    assert (seen.name, seen.error_code) == ("t", 3)


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_to_txn_is_always_a_batch(version: int) -> None:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic("t", [0])
    row = add_partitions_to_txn.AddPartitionsToTxnTransaction("tx", 5, 6, topics=[topic])
    batch = add_partitions_to_txn.AddPartitionsToTxnRequest([row])
    request = batch if version >= 4 else add_partitions_to_txn.AddPartitionsToTxnRequest((), "tx", 5, 6, [topic])
    assert raised("AddPartitionsToTxn", version, request) == batch


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_to_txn_answers_one_transaction_at_the_top(version: int) -> None:
    partition = add_partitions_to_txn.AddPartitionsToTxnPartitionResult(0, ErrorCode.PRODUCER_FENCED)
    topic = add_partitions_to_txn.AddPartitionsToTxnTopicResult("t", [partition])
    row = add_partitions_to_txn.AddPartitionsToTxnResult("tx", [topic])
    response = add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_transaction=[row])
    seen = lowered("AddPartitionsToTxn", version, response)
    if version >= 4:
        (row,) = seen.results_by_transaction
        topics_seen = row.topic_results
    else:
        topics_seen = seen.results_by_topic_v3_and_below
    code = topics_seen[0].results_by_partition[0].partition_error_code
    assert code == (ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("version", range(6))
def test_producer_fenced_is_answered_with_the_error_of_the_version(version: int) -> None:
    seen = lowered("InitProducerId", version, init_producer_id.InitProducerIdResponse(error_code=90))
    assert seen.error_code == (90 if version >= 4 else 47)
    row = txn_offset_commit.TxnOffsetCommitResponsePartition(0, 90)
    topic = txn_offset_commit.TxnOffsetCommitResponseTopic("t", partitions=[row])
    response = txn_offset_commit.TxnOffsetCommitResponse(topics=[topic])
    seen = lowered("TxnOffsetCommit", version, response)
    assert seen.topics[0].partitions[0].error_code == (90 if version >= 2 else 47)
