"""What each API asks the authorizer, and its answer after a refusal: as Kafka 4.3 answers with its StandardAuthorizer.

The node has a topic `t` with one partition, and a group `g` with a committed offset for it; nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    read_share_group_state,
    read_share_group_state_summary,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    unregister_controller,
    update_features,
    write_share_group_state,
    write_txn_markers,
)
from tests.coordinator.topics.support import batch

Question = tuple[int, int, str]
"""Operation, resource type, name."""

O = Operation
T, G, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER, NO_TXN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NOT_ASKED = -(2**31)
IN_TRANSACTION = batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)


def of_cluster(operation: int) -> Question:
    return operation, ResourceType.CLUSTER, CLUSTER_NAME


class Case(NamedTuple):
    """One request and one set of refusals."""

    name: str
    request: Callable[[bytes], Message]
    """Makes the request from the id of the topic t."""
    asks: tuple[Question, ...]
    """The questions to the authorizer when everything is allowed."""
    refused: tuple[Question, ...]
    shown: Callable[[Any], Any]
    """The part of the answer that is compared."""
    expected: Any
    version: int | None = None
    """None: the newest version that is served."""


def code(answer: Any) -> int:
    return int(answer.error_code)


def rows(answer: Any) -> list[int]:
    """The error of every partition of the first topic."""
    return [row.error_code for row in answer.topics[0].partitions]


def produced(answer: Any) -> list[tuple[int, str | None]]:
    return [(row.error_code, row.error_message) for row in answer.responses[0].partition_responses]


def records_for(t: bytes, data: bytes, **more: Any) -> Message:
    rows = [produce.PartitionProduceData(0, data)]
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[produce.TopicProduceData("", t, rows)], **more)


def produce_by_name(name: str) -> Message:
    rows = [produce.PartitionProduceData(0, batch())]
    return produce.ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[produce.TopicProduceData(name, ZERO_UUID, rows)]
    )


def fetched(t: bytes, **more: Any) -> Message:
    wanted = [fetch.FetchPartition(0, partition_max_bytes=1000)]
    return fetch.FetchRequest(topics=[fetch.FetchTopic(topic_id=t, partitions=wanted)], max_bytes=1000, **more)


def share_fetched(t: bytes) -> Message:
    topics = [share_fetch.FetchTopic(t, [share_fetch.FetchPartition(0)])]
    return share_fetch.ShareFetchRequest("g", "m", max_bytes=1000, max_records=1, topics=topics)


def added_partitions(*topics: str) -> Message:
    rows = [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in topics]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        [add_partitions_to_txn.AddPartitionsToTxnTransaction("x", 1, 0, topics=rows)]
    )


def added_rows(answer: Any) -> list[int]:
    (result,) = answer.results_by_transaction
    topics = sorted(result.topic_results, key=lambda topic: str(topic.name), reverse=True)  # Kafka hashes the patterns
    return [row.partition_error_code for topic in topics for row in topic.results_by_partition]


CONSUMER = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
    "new", "m", 0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
)


def states(answer: Any) -> list[tuple[int, str]]:
    return [(row.error_code, row.error_message) for topic in answer.results for row in topic.partitions]


def _states_of(module: Any, request: Any, topic: Any) -> Message:
    made: Message = request("g", [topic(b"t" * 16, [module.PartitionData()])])
    return made


STATES = (
    _states_of(
        initialize_share_group_state,
        initialize_share_group_state.InitializeShareGroupStateRequest,
        initialize_share_group_state.InitializeStateData,
    ),
    _states_of(
        read_share_group_state, read_share_group_state.ReadShareGroupStateRequest, read_share_group_state.ReadStateData
    ),
    _states_of(
        write_share_group_state,
        write_share_group_state.WriteShareGroupStateRequest,
        write_share_group_state.WriteStateData,
    ),
    _states_of(
        delete_share_group_state,
        delete_share_group_state.DeleteShareGroupStateRequest,
        delete_share_group_state.DeleteStateData,
    ),
    _states_of(
        read_share_group_state_summary,
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
        read_share_group_state_summary.ReadStateSummaryData,
    ),
)
ALTERED = alter_share_group_offsets.AlterShareGroupOffsetsRequest(
    "shared",
    [
        alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
            "t", [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 5)]
        )
    ],
)
DELETED = delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
    "shared", [delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic("t")]
)
DESCRIBED = describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
    [
        describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
            "shared", [describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic("t", [0])]
        )
    ]
)
STREAMS = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
    "streamed", "m", 0, rebalance_timeout_ms=1_000, active_tasks=[], standby_tasks=[], warmup_tasks=[], process_id="p",
    topology=streams_group_heartbeat.Topology(0, [streams_group_heartbeat.Subtopology("0", ["t"])]),
)  # fmt: skip
SHARE = share_group_heartbeat.ShareGroupHeartbeatRequest("shared", "m", 0, None, ["t"])
MARKERS = write_txn_markers.WriteTxnMarkersRequest(
    [write_txn_markers.WritableTxnMarker(1, 0, False, [write_txn_markers.WritableTxnMarkerTopic("t", [0])])]
)


def marked_rows(answer: Any) -> list[int]:
    return [row.error_code for row in answer.markers[0].topics[0].partitions]


def commit(t: bytes) -> Message:
    wanted = [offset_commit.OffsetCommitRequestPartition(0, 1)]
    return offset_commit.OffsetCommitRequest("g", topics=[offset_commit.OffsetCommitRequestTopic("", t, wanted)])


def commit_by_name(name: str) -> Message:
    wanted = [offset_commit.OffsetCommitRequestPartition(0, 1)]
    topics = [offset_commit.OffsetCommitRequestTopic(name, partitions=wanted)]
    return offset_commit.OffsetCommitRequest("g", topics=topics)


def txn_commit(name: str) -> Message:
    wanted = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions=wanted)]
    return txn_offset_commit.TxnOffsetCommitRequest("x", "g", 1, 0, topics=topics)


def described_acls() -> Message:
    return describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1)


def created_acl() -> Message:
    return create_acls.CreateAclsRequest([create_acls.AclCreation(2, "other", 3, "User:nobody", "*", 3, 3)])


def deleted_acls() -> Message:
    return delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(2, "other", 3, None, None, 1, 1)])


def committed(topics: Any) -> Message:
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=topics)])


def committed_rows(answer: Any) -> Any:
    group = answer.groups[0]
    return group.error_code, [(row.committed_offset, row.error_code) for t in group.topics for row in t.partitions]


def metadata_of(*names: str, **more: Any) -> Message:
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    return metadata.MetadataRequest(topics, **more)


def metadata_rows(answer: Any) -> list[Any]:
    return [(t.error_code, t.name, t.topic_id != ZERO_UUID, t.topic_authorized_operations) for t in answer.topics]


def created(name: str) -> Message:
    return create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, 1, 1)], validate_only=True)


def created_row(answer: Any) -> Any:
    (row,) = answer.topics
    configs = -1 if row.configs is None else min(len(row.configs), 1)
    return row.error_code, row.error_message, row.topic_config_error_code, row.num_partitions, configs


def deleted(name: str | None, topic_id: bytes = ZERO_UUID) -> Message:
    return delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name, topic_id)], timeout_ms=1000)


def deleted_row(answer: Any) -> Any:
    (row,) = answer.responses
    return row.error_code, row.name, row.topic_id != ZERO_UUID, row.error_message


def described(kind: int, name: str) -> Message:
    return describe_configs.DescribeConfigsRequest([describe_configs.DescribeConfigsResource(kind, name)])


def altered(kind: int, name: str, key: str, value: str) -> Message:
    configs = [incremental_alter_configs.AlterableConfig(key, 0, value)]
    resources = [incremental_alter_configs.AlterConfigsResource(kind, name, configs)]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources, validate_only=True)


def replaced(kind: int, name: str, key: str, value: str) -> Message:
    resources = [alter_configs.AlterConfigsResource(kind, name, [alter_configs.AlterableConfig(key, value)])]
    return alter_configs.AlterConfigsRequest(resources, validate_only=True)


def first(field: str) -> Callable[[Any], Any]:
    """The error and the message of the first row."""

    def shown(answer: Any) -> Any:
        row = getattr(answer, field)[0]
        return row.error_code, row.error_message

    return shown


def member(name: str, request: Message) -> Case:
    question = O.READ, G, "g"
    return Case(name, lambda t: request, (question,), (question,), code, NO_GROUP)


def configs(kind: int, name: str, key: str, value: str, question: tuple[int, str], error: int) -> list[Case]:
    """Configs that are described and altered."""
    describe, alter = (O.DESCRIBE_CONFIGS, *question), (O.ALTER_CONFIGS, *question)
    failed = error, error_message(error)
    not_altered = (error, None) if kind == LOGGER else failed
    return [
        Case(f"describe configs {kind}", lambda t: described(kind, name), (describe,), (describe,), first("results"), failed),
        Case(f"alter configs {kind}", lambda t: altered(kind, name, key, value), (alter,), (alter,), first("responses"), not_altered),
    ]  # fmt: skip


NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
TOPIC, GROUP_KIND, BROKER, LOGGER, METRICS = 2, 32, 4, 8, 16
LIST_OFFSETS = [list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0, -1, -1)])]
EPOCHS = [
    offset_for_leader_epoch.OffsetForLeaderTopic("t", [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)])
]
T_ROWS = [offset_delete.OffsetDeleteRequestPartition(0)]
CREATES = (O.CREATE, T, "new"), of_cluster(O.CREATE)
DELETES = of_cluster(O.DELETE), (O.DELETE, T, "t")
NOT_DELETED = error_message(NO_TOPIC)
OF_CLUSTER = ResourceType.CLUSTER, CLUSTER_NAME


def described_users(*names: str) -> Message:
    users = [describe_user_scram_credentials.UserName(name) for name in names]
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users)


Upsertion, Deletion = (
    alter_user_scram_credentials.ScramCredentialUpsertion,
    alter_user_scram_credentials.ScramCredentialDeletion,
)
SCRAM = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
    [Deletion("a", 1)], [Upsertion("b", 2, 4095, b"salt", b"p" * 64)]
)
WRONG_SCRAM = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
    [Deletion("a", 1)],
    [
        Upsertion("a", 1, 4096, b"salt", b"p" * 32),
        Upsertion("b", 2, 16385, b"salt", b"p" * 64),
        Upsertion("c", 3, 4096, b"salt", b"p" * 32),
        Upsertion("", 1, 4096, b"salt", b"p" * 32),
        Upsertion("d", 1, 4096, b"salt", b"p" * 32),
        Upsertion("d", 2, 4096, b"salt", b"p" * 64),
    ],
)

QUOTAS_ASKED = describe_client_quotas.DescribeClientQuotasRequest([describe_client_quotas.ComponentData("", 9, None)])
QUOTAS_SET = alter_client_quotas.AlterClientQuotasRequest(
    [
        alter_client_quotas.AlterClientQuotasRequestEntryData(
            [alter_client_quotas.AlterClientQuotasRequestEntityData("user", "a")],
            [alter_client_quotas.OpData("producer_byte_rate", 1e9, False)],
        )
    ]
)

CASES = [
    Case("produce", lambda t: records_for(t, batch()), ((O.WRITE, T, "t"),), ((O.WRITE, T, "t"),), produced, [(NO_TOPIC, None)]),
    Case("produce to a topic that is not there", lambda t: produce_by_name("no"), ((O.WRITE, T, "no"),), ((O.WRITE, T, "no"),), produced, [(NO_TOPIC, None)], 12),
    Case("produce in a transaction", lambda t: records_for(t, IN_TRANSACTION, transactional_id="x"), ((O.WRITE, X, "x"), (O.WRITE, T, "t")), ((O.WRITE, X, "x"),), lambda a: produced(a)[0][0], NO_TXN),
    Case("fetch", fetched, ((O.READ, T, "t"),), ((O.READ, T, "t"),), lambda a: [p.error_code for p in a.responses[0].partitions], [NO_TOPIC]),
    Case("fetch as a broker", lambda t: fetched(t, replica_state=fetch.ReplicaState(5, 1)), (of_cluster(O.CLUSTER_ACTION),), (of_cluster(O.CLUSTER_ACTION),), lambda a: [p.error_code for p in a.responses[0].partitions], [NO_TOPIC]),
    Case("share fetch", share_fetched, ((O.READ, G, "g"), (O.READ, T, "t")), ((O.READ, T, "t"),), lambda a: [p.error_code for p in a.responses[0].partitions], [NO_TOPIC]),
    Case("share fetch of a group", share_fetched, ((O.READ, G, "g"), (O.READ, T, "t")), ((O.READ, G, "g"),), code, NO_GROUP),
    Case("share acknowledgement", lambda t: share_acknowledge.ShareAcknowledgeRequest("g", "m", 1), ((O.READ, G, "g"),), ((O.READ, G, "g"),), code, NO_GROUP),
    Case("list offsets", lambda t: list_offsets.ListOffsetsRequest(topics=LIST_OFFSETS), ((O.DESCRIBE, T, "t"),), ((O.DESCRIBE, T, "t"),), rows, [NO_TOPIC]),
    Case("metadata of all", lambda t: metadata.MetadataRequest(None), ((O.DESCRIBE, T, "t"),), ((O.DESCRIBE, T, "t"),), lambda a: [t.name for t in a.topics if t.name == "t"], []),
    Case("metadata by name", lambda t: metadata_of("t", include_topic_authorized_operations=True), tuple((o, T, "t") for o in (3, 4, 5, 6, 7, 8, 10, 11)), ((O.DESCRIBE, T, "t"),), metadata_rows, [(NO_TOPIC, "t", False, NOT_ASKED)]),
    Case("metadata by id", lambda t: metadata.MetadataRequest([metadata.MetadataRequestTopic(t, None)]), ((O.DESCRIBE, T, "t"),), ((O.DESCRIBE, T, "t"),), metadata_rows, [(NO_TOPIC, None, True, NOT_ASKED)]),
    Case("metadata of a topic that is not there", lambda t: metadata_of("new", allow_auto_topic_creation=False), ((O.DESCRIBE, T, "new"),), ((O.DESCRIBE, T, "new"),), metadata_rows, [(NO_TOPIC, "new", False, NOT_ASKED)]),
    Case("metadata that creates", lambda t: metadata_of("new"), ((O.DESCRIBE, T, "new"), of_cluster(O.CREATE)), CREATES, metadata_rows, [(NO_TOPIC, "new", False, NOT_ASKED)]),
    Case("what may be done to the cluster", lambda t: metadata_of("t", include_cluster_authorized_operations=True), ((O.DESCRIBE, T, "t"), *map(of_cluster, (5, 7, 8, 9, 10, 11, 12))), (of_cluster(O.DESCRIBE),), lambda a: a.cluster_authorized_operations, 0, 10),
    Case("commit", commit, ((O.READ, G, "g"), (O.READ, T, "t")), ((O.READ, T, "t"),), rows, [NO_TOPIC]),
    Case("commit to a topic that is not there", lambda t: commit_by_name("no"), ((O.READ, G, "g"), (O.READ, T, "no")), ((O.READ, T, "no"),), rows, [NO_TOPIC], 9),
    Case("commit of a group", commit, ((O.READ, G, "g"), (O.READ, T, "t")), ((O.READ, G, "g"),), rows, [NO_GROUP]),
    Case("offsets", lambda t: committed([offset_fetch.OffsetFetchRequestTopics("", t, [0])]), ((O.DESCRIBE, G, "g"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, T, "t"),), committed_rows, (0, [(-1, NO_TOPIC)])),
    Case("all offsets", lambda t: committed(None), ((O.DESCRIBE, G, "g"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, T, "t"),), committed_rows, (0, [])),
    Case("offsets of a group", lambda t: committed(None), ((O.DESCRIBE, G, "g"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, G, "g"),), committed_rows, (NO_GROUP, [])),
    Case("find coordinator", lambda t: find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), ((O.DESCRIBE, G, "g"),), ((O.DESCRIBE, G, "g"),), lambda a: (a.coordinators[0].error_code, a.coordinators[0].node_id), (NO_GROUP, -1)),
    Case("find the transaction coordinator", lambda t: find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), ((O.DESCRIBE, X, "x"),), ((O.DESCRIBE, X, "x"),), lambda a: (a.coordinators[0].error_code, a.coordinators[0].node_id), (NO_TXN, -1)),
    member("join", join_group.JoinGroupRequest("g", 6000, 6000, protocol_type="consumer", protocols=[join_group.JoinGroupRequestProtocol("range", b"")])),
    member("sync", sync_group.SyncGroupRequest("g", 1, "m", None, "consumer", "range")),
    member("heartbeat", heartbeat.HeartbeatRequest("g", 1, "m")),
    member("leave", leave_group.LeaveGroupRequest("g", members=[leave_group.MemberIdentity("m")])),
    Case("describe groups", lambda t: describe_groups.DescribeGroupsRequest(["no", "g"]), ((O.DESCRIBE, G, "no"), (O.DESCRIBE, G, "g")), ((O.DESCRIBE, G, "g"),), lambda a: [(g.group_id, g.error_code) for g in a.groups], [("g", NO_GROUP), ("no", ErrorCode.GROUP_ID_NOT_FOUND)]),
    Case("what may be done to a group", lambda t: describe_groups.DescribeGroupsRequest(["g"], True), tuple((o, G, "g") for o in (3, 6, 8, 10, 11)), ((O.READ, G, "g"),), lambda a: a.groups[0].authorized_operations, 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11),
    Case("a heartbeat of a consumer group", lambda t: CONSUMER, ((O.READ, G, "new"), (O.DESCRIBE, T, "t")), ((O.READ, G, "new"),), code, NO_GROUP),
    Case("subscribe to a topic", lambda t: CONSUMER, ((O.READ, G, "new"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, T, "t"),), code, NO_TOPIC),
    Case("describe consumer groups", lambda t: consumer_group_describe.ConsumerGroupDescribeRequest(["no", "g"]), ((O.DESCRIBE, G, "no"), (O.DESCRIBE, G, "g")), ((O.DESCRIBE, G, "g"),), lambda a: [(g.group_id, g.error_code) for g in a.groups], [("g", NO_GROUP), ("no", ErrorCode.GROUP_ID_NOT_FOUND)]),
    Case("join a share group", lambda t: SHARE, ((O.READ, G, "shared"), (O.DESCRIBE, T, "t")), ((O.READ, G, "shared"),), code, NO_GROUP),
    Case("subscribe a share group to a topic", lambda t: SHARE, ((O.READ, G, "shared"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, T, "t"),), code, NO_TOPIC),
    Case("describe share groups", lambda t: share_group_describe.ShareGroupDescribeRequest(["no", "g"]), ((O.DESCRIBE, G, "no"), (O.DESCRIBE, G, "g")), ((O.DESCRIBE, G, "g"),), lambda a: [(g.group_id, g.error_code) for g in a.groups], [("g", NO_GROUP), ("no", ErrorCode.GROUP_ID_NOT_FOUND)]),
    Case("describe offsets of a share group", lambda t: DESCRIBED, ((O.DESCRIBE, G, "shared"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, G, "shared"),), lambda a: a.groups[0].error_code, NO_GROUP),
    Case("describe share offsets of a topic", lambda t: DESCRIBED, ((O.DESCRIBE, G, "shared"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, T, "t"),), lambda a: a.groups[0].topics[0].partitions[0].error_code, NO_TOPIC),
    Case("alter offsets of a share group", lambda t: ALTERED, ((O.READ, G, "shared"), (O.READ, T, "t")), ((O.READ, G, "shared"),), code, NO_GROUP),
    Case("alter share offsets of a topic", lambda t: ALTERED, ((O.READ, G, "shared"), (O.READ, T, "t")), ((O.READ, T, "t"),), lambda a: a.responses[0].partitions[0].error_code, NO_TOPIC),
    Case("delete offsets of a share group", lambda t: DELETED, ((O.DELETE, G, "shared"), (O.READ, T, "t")), ((O.DELETE, G, "shared"),), code, NO_GROUP),
    Case("join a streams group", lambda t: STREAMS, ((O.READ, G, "streamed"), (O.DESCRIBE, T, "t")), ((O.READ, G, "streamed"),), code, NO_GROUP),
    Case("name a topic in a topology", lambda t: STREAMS, ((O.READ, G, "streamed"), (O.DESCRIBE, T, "t")), ((O.DESCRIBE, T, "t"),), code, NO_TOPIC),
    Case("describe streams groups", lambda t: streams_group_describe.StreamsGroupDescribeRequest(["no", "g"]), ((O.DESCRIBE, G, "no"), (O.DESCRIBE, G, "g")), ((O.DESCRIBE, G, "g"),), lambda a: [(g.group_id, g.error_code) for g in a.groups], [("g", NO_GROUP), ("no", ErrorCode.GROUP_ID_NOT_FOUND)]),
    Case("describe a topology", lambda t: streams_group_topology_description_update.StreamsGroupTopologyDescriptionUpdateRequest("streamed"), ((O.READ, G, "streamed"),), ((O.READ, G, "streamed"),), code, NO_GROUP),
    Case("list groups", lambda t: list_groups.ListGroupsRequest(), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE), (O.DESCRIBE, G, "g")), lambda a: (a.error_code, [g.group_id for g in a.groups]), (0, [])),
    Case("list groups that may be described", lambda t: list_groups.ListGroupsRequest(), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE),), lambda a: (a.error_code, [g.group_id for g in a.groups]), (0, ["g"])),
    Case("delete groups", lambda t: delete_groups.DeleteGroupsRequest(["g", "no"]), ((O.DELETE, G, "g"), (O.DELETE, G, "no")), ((O.DELETE, G, "g"),), lambda a: [(g.group_id, g.error_code) for g in a.results], [("no", ErrorCode.GROUP_ID_NOT_FOUND), ("g", NO_GROUP)]),
    Case("delete offsets", lambda t: offset_delete.OffsetDeleteRequest("g", [offset_delete.OffsetDeleteRequestTopic("t", T_ROWS)]), ((O.DELETE, G, "g"), (O.READ, T, "t")), ((O.READ, T, "t"),), lambda a: (a.error_code, rows(a)), (0, [NO_TOPIC])),
    Case("delete offsets of a group", lambda t: offset_delete.OffsetDeleteRequest("g", [offset_delete.OffsetDeleteRequestTopic("t", T_ROWS)]), ((O.DELETE, G, "g"), (O.READ, T, "t")), ((O.DELETE, G, "g"),), code, NO_GROUP),
    Case("create topics", lambda t: created("new"), (of_cluster(O.CREATE), (O.DESCRIBE_CONFIGS, T, "new")), CREATES, lambda a: created_row(a)[:2], (NO_TOPIC, "Authorization failed.")),
    Case("create a topic that may not be configured", lambda t: created("new"), (of_cluster(O.CREATE), (O.DESCRIBE_CONFIGS, T, "new")), ((O.DESCRIBE_CONFIGS, T, "new"),), created_row, (0, None, NO_TOPIC, -1, 0)),
    Case("create this topic", lambda t: created("new"), (of_cluster(O.CREATE), (O.DESCRIBE_CONFIGS, T, "new")), (of_cluster(O.CREATE),), created_row, (0, None, 0, 1, 1)),
    Case("delete topics", lambda t: deleted("t"), (of_cluster(O.DELETE),), DELETES, deleted_row, (NO_TOPIC, "t", False, NOT_DELETED)),
    Case("delete topics by id", lambda t: deleted(None, t), (of_cluster(O.DELETE),), DELETES, deleted_row, (NO_TOPIC, "t", True, NOT_DELETED)),
    Case("delete topics by id, unseen", lambda t: deleted(None, t), (of_cluster(O.DELETE),), (*DELETES, (O.DESCRIBE, T, "t")), deleted_row, (NO_TOPIC, None, True, NOT_DELETED)),
    Case("delete a topic that is not there, unseen", lambda t: deleted("no"), (of_cluster(O.DELETE),), (DELETES[0], (O.DESCRIBE, T, "no")), deleted_row, (NO_TOPIC, "no", False, NOT_DELETED)),
    Case("delete records", lambda t: delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("t", [delete_records.DeleteRecordsPartition(0, 0)])], 1000), ((O.DELETE, T, "t"),), ((O.DELETE, T, "t"),), lambda a: [(r.error_code, r.low_watermark) for r in a.topics[0].partitions], [(NO_TOPIC, -1)]),
    Case("delete records that are not there", lambda t: delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("no", [delete_records.DeleteRecordsPartition(0, 0)])], 1000), ((O.DELETE, T, "no"),), ((O.DELETE, T, "no"),), rows, [NO_TOPIC]),
    Case("a producer id", lambda t: init_producer_id.InitProducerIdRequest(None), (of_cluster(O.IDEMPOTENT_WRITE),), (of_cluster(O.IDEMPOTENT_WRITE), (O.WRITE, T, "*")), lambda a: (a.error_code, a.producer_id, a.producer_epoch), (NO_CLUSTER, -1, -1)),
    Case("a producer id for some topic", lambda t: init_producer_id.InitProducerIdRequest(None), (of_cluster(O.IDEMPOTENT_WRITE),), (of_cluster(O.IDEMPOTENT_WRITE),), code, 0),
    Case("a transactional producer id", lambda t: init_producer_id.InitProducerIdRequest("x", 1000), ((O.WRITE, X, "x"),), ((O.WRITE, X, "x"),), code, NO_TXN),
    Case("add partitions to another's transaction", lambda t: added_partitions("t"), ((O.WRITE, X, "x"), (O.WRITE, T, "t")), ((O.WRITE, X, "x"),), added_rows, [NO_TXN], 3),
    Case("add partitions that may not be written to", lambda t: added_partitions("t", "no"), ((O.WRITE, X, "x"), (O.WRITE, T, "t"), (O.WRITE, T, "no")), ((O.WRITE, T, "t"),), added_rows, [NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], 3),
    Case("add internal partitions", lambda t: added_partitions("t", "__consumer_offsets"), ((O.WRITE, X, "x"), (O.WRITE, T, "t")), (), added_rows, [ErrorCode.OPERATION_NOT_ATTEMPTED, NO_TOPIC], 3),
    Case("add partitions as a broker", lambda t: added_partitions("t"), (of_cluster(O.CLUSTER_ACTION),), (of_cluster(O.CLUSTER_ACTION),), code, NO_CLUSTER, 5),
    Case("add offsets to another's transaction", lambda t: add_offsets_to_txn.AddOffsetsToTxnRequest("x", 1, 0, "g"), ((O.WRITE, X, "x"), (O.READ, G, "g")), ((O.WRITE, X, "x"),), code, NO_TXN),
    Case("add offsets of a group", lambda t: add_offsets_to_txn.AddOffsetsToTxnRequest("x", 1, 0, "g"), ((O.WRITE, X, "x"), (O.READ, G, "g")), ((O.READ, G, "g"),), code, NO_GROUP),
    Case("end a transaction", lambda t: end_txn.EndTxnRequest("x", 1, 0, True), ((O.WRITE, X, "x"),), ((O.WRITE, X, "x"),), lambda a: (a.error_code, a.producer_id, a.producer_epoch), (NO_TXN, -1, -1)),
    Case("write markers", lambda t: MARKERS, (of_cluster(O.ALTER),), (of_cluster(O.ALTER), of_cluster(O.CLUSTER_ACTION)), marked_rows, [NO_CLUSTER]),
    *(Case(type(one).__name__, lambda t, one=one: one, (of_cluster(O.CLUSTER_ACTION),), (of_cluster(O.CLUSTER_ACTION),), states, [(NO_CLUSTER, error_message(NO_CLUSTER))]) for one in STATES),
    Case("find the share coordinator", lambda t: find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAg:0"]), (of_cluster(O.CLUSTER_ACTION), of_cluster(O.CLUSTER_ACTION)), (of_cluster(O.CLUSTER_ACTION),), lambda a: (a.coordinators[0].error_code, a.coordinators[0].error_message), (NO_CLUSTER, error_message(NO_CLUSTER))),
    Case("write markers as a broker", lambda t: MARKERS, (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), marked_rows, [0]),
    Case("commit offsets in another's transaction", lambda t: txn_commit("t"), ((O.WRITE, X, "x"), (O.READ, G, "g"), (O.READ, T, "t")), ((O.WRITE, X, "x"),), rows, [NO_TXN]),
    Case("commit offsets of a group in a transaction", lambda t: txn_commit("t"), ((O.WRITE, X, "x"), (O.READ, G, "g"), (O.READ, T, "t")), ((O.READ, G, "g"),), rows, [NO_GROUP]),
    Case("commit offsets of a topic in a transaction", lambda t: txn_commit("t"), ((O.WRITE, X, "x"), (O.READ, G, "g"), (O.READ, T, "t")), ((O.READ, T, "t"),), rows, [NO_TOPIC]),
    Case("describe transactions", lambda t: describe_transactions.DescribeTransactionsRequest(["x", "y"]), ((O.DESCRIBE, X, "x"), (O.DESCRIBE, X, "y")), ((O.DESCRIBE, X, "x"),), lambda a: [(r.transactional_id, r.error_code) for r in a.transaction_states], [("x", NO_TXN), ("y", ErrorCode.NOT_COORDINATOR)]),
    Case("list transactions", lambda t: list_transactions.ListTransactionsRequest(), (), (), lambda a: (a.error_code, list(a.transaction_states)), (0, [])),
    Case("epochs", lambda t: offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=EPOCHS), (of_cluster(O.CLUSTER_ACTION),), (of_cluster(O.CLUSTER_ACTION), (O.DESCRIBE, T, "t")), rows, [NO_TOPIC]),
    Case("epochs, as a reader", lambda t: offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=EPOCHS), (of_cluster(O.CLUSTER_ACTION),), (of_cluster(O.CLUSTER_ACTION),), rows, [0]),
    *configs(TOPIC, "t", "retention.ms", "1000", (T, "t"), NO_TOPIC),
    *configs(GROUP_KIND, "g", "consumer.session.timeout.ms", "50000", (G, "g"), NO_GROUP),
    *configs(BROKER, "1", "log.cleaner.threads", "1", OF_CLUSTER, NO_CLUSTER),
    *configs(LOGGER, "1", "kafka.server.KafkaApis", "INFO", OF_CLUSTER, NO_CLUSTER),
    *configs(METRICS, "m", "interval.ms", "1000", OF_CLUSTER, NO_CLUSTER),
    Case("replace configs", lambda t: replaced(TOPIC, "t", "retention.ms", "1000"), ((O.ALTER_CONFIGS, T, "t"),), ((O.ALTER_CONFIGS, T, "t"),), first("responses"), (NO_TOPIC, error_message(NO_TOPIC))),
    Case("log dirs", lambda t: describe_log_dirs.DescribeLogDirsRequest(None), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE),), lambda a: (a.error_code, len(a.results)), (NO_CLUSTER, 0)),
    Case("create partitions", lambda t: create_partitions.CreatePartitionsRequest([create_partitions.CreatePartitionsTopic("t", 2, None)], 1000, True), ((O.ALTER, T, "t"),), ((O.ALTER, T, "t"),), first("results"), (NO_TOPIC, None)),
    Case("reassignments", lambda t: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE),), code, NO_CLUSTER),
    Case("leaders elected", lambda t: elect_leaders.ElectLeadersRequest(0, [], 5_000), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), code, NO_CLUSTER),
    Case("partitions reassigned", lambda t: alter_partition_reassignments.AlterPartitionReassignmentsRequest(5_000), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), code, NO_CLUSTER),
    Case("the quorum", lambda t: describe_quorum.DescribeQuorumRequest([]), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE),), code, NO_CLUSTER),
    Case("replicas moved", lambda t: alter_replica_log_dirs.AlterReplicaLogDirsRequest([alter_replica_log_dirs.AlterReplicaLogDir("/x", [alter_replica_log_dirs.AlterReplicaLogDirTopic("t", [0])])]), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), lambda a: [row.error_code for row in a.results[0].partitions], [NO_CLUSTER]),
    Case("levels of features", lambda t: update_features.UpdateFeaturesRequest(1_000, [update_features.FeatureUpdateKey("group.version", 1)], True), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), lambda a: (a.error_code, len(a.results)), (NO_CLUSTER, 0)),
    Case("a voter added", lambda t: add_raft_voter.AddRaftVoterRequest(None, 1_000, 9, b"d" * 16, [add_raft_voter.Listener("CONTROLLER", "127.0.0.1", 9)]), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), code, NO_CLUSTER),
    Case("a voter removed", lambda t: remove_raft_voter.RemoveRaftVoterRequest(None, 9, b"d" * 16), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), code, NO_CLUSTER),
    Case("a broker unregistered", lambda t: unregister_broker.UnregisterBrokerRequest(9), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), code, NO_CLUSTER),
    Case("a controller unregistered", lambda t: unregister_controller.UnregisterControllerRequest(9), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), code, NO_CLUSTER),
    Case("entries told", lambda t: described_acls(), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE),), code, NO_CLUSTER),
    Case("entries made", lambda t: created_acl(), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), lambda a: [row.error_code for row in a.results], [NO_CLUSTER]),
    Case("entries deleted", lambda t: deleted_acls(), (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), lambda a: [row.error_code for row in a.filter_results], [NO_CLUSTER]),
    Case("describe cluster", lambda t: describe_cluster.DescribeClusterRequest(True), tuple(map(of_cluster, (5, 7, 8, 9, 10, 11, 12))), (of_cluster(O.DESCRIBE),), lambda a: (a.error_code, a.cluster_authorized_operations, len(a.brokers)), (0, 0, 1)),
    Case("producers", lambda t: describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("t", [0])]), ((O.READ, T, "t"),), ((O.READ, T, "t"),), lambda a: (a.topics[0].partitions[0].error_code, a.topics[0].partitions[0].error_message), (NO_TOPIC, error_message(NO_TOPIC))),
    Case("subscriptions of metrics", lambda t: get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(b"c" * 16), (), (), lambda a: (a.error_code, a.push_interval_ms), (0, 300_000)),
    Case("metrics pushed", lambda t: push_telemetry.PushTelemetryRequest(b"c" * 16), (), (), code, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    Case("what has configs", lambda t: list_config_resources.ListConfigResourcesRequest([TOPIC]), (of_cluster(O.DESCRIBE_CONFIGS),), (of_cluster(O.DESCRIBE_CONFIGS),), lambda a: (a.error_code, len(a.config_resources)), (NO_CLUSTER, 0)),
    Case("describe partitions", lambda t: describe_topic_partitions.DescribeTopicPartitionsRequest([describe_topic_partitions.TopicRequest("t")], 100), tuple((o, T, "t") for o in (3, 4, 5, 6, 7, 8, 10, 11)), ((O.DESCRIBE, T, "t"),), lambda a: [(t.error_code, t.name, t.topic_id != ZERO_UUID, t.topic_authorized_operations) for t in a.topics], [(NO_TOPIC, "t", False, NOT_ASKED)]),
    Case("describe all partitions", lambda t: describe_topic_partitions.DescribeTopicPartitionsRequest((), 1000), tuple((o, T, "t") for o in (3, 4, 5, 6, 7, 8, 10, 11)), ((O.DESCRIBE, T, "t"),), lambda a: [t.name for t in a.topics if t.name == "t"], []),
    Case("a handshake of SASL where none is asked for", lambda t: sasl_handshake.SaslHandshakeRequest("PLAIN"), (), (), lambda a: (a.error_code, list(a.mechanisms)), (ErrorCode.ILLEGAL_SASL_STATE, [])),
    Case("a token of SASL where none is asked for", lambda t: sasl_authenticate.SaslAuthenticateRequest(b"x"), (), (), lambda a: (a.error_code, a.error_message, a.auth_bytes, a.session_lifetime_ms), (ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication", b"", 0)),
    Case("describe users", lambda t: described_users("a", "b"), (of_cluster(O.DESCRIBE),), (of_cluster(O.DESCRIBE),), lambda a: (a.error_code, a.error_message, [(r.user, r.error_code, r.error_message) for r in a.results]), (NO_CLUSTER, None, [("", NO_CLUSTER, None)] * 2)),
    Case("alter users", lambda t: SCRAM, (of_cluster(O.ALTER),), (of_cluster(O.ALTER),), lambda a: sorted((r.user, r.error_code) for r in a.results), [("a", NO_CLUSTER), ("b", NO_CLUSTER)]),
    Case("alter users in ways that are wrong", lambda t: SCRAM, (of_cluster(O.ALTER),), (), lambda a: sorted((r.user, r.error_code, r.error_message) for r in a.results), [("a", ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"), ("b", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")]),
    Case("alter users otherwise wrong", lambda t: WRONG_SCRAM, (of_cluster(O.ALTER),), (), lambda a: sorted((r.user, r.error_code, r.error_message) for r in a.results), [("", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"), ("a", ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"), ("b", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"), ("c", ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"), ("d", ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")]),
    Case("describe users that there are not", lambda t: described_users("a", "b", "a"), (of_cluster(O.DESCRIBE),), (), lambda a: sorted((r.user, r.error_code, r.error_message) for r in a.results), [("a", ErrorCode.DUPLICATE_RESOURCE, "Cannot describe SCRAM credentials for the same user twice in a single request: a"), ("b", ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: b")]),
    Case("make a token where clients are not known", lambda t: create_delegation_token.CreateDelegationTokenRequest("User", "u"), (), (), lambda a: (a.error_code, a.principal_name, a.token_requester_principal_name, a.issue_timestamp_ms, a.expiry_timestamp_ms, a.max_timestamp_ms, a.token_id, a.hmac), (NO_TOKENS, "u", "ANONYMOUS", -1, -1, -1, "", b"")),
    Case("renew a token where clients are not known", lambda t: renew_delegation_token.RenewDelegationTokenRequest(b"x"), (), (), lambda a: (a.error_code, a.expiry_timestamp_ms), (NO_TOKENS, -1)),
    Case("end a token where clients are not known", lambda t: expire_delegation_token.ExpireDelegationTokenRequest(b"x"), (), (), lambda a: (a.error_code, a.expiry_timestamp_ms), (NO_TOKENS, -1)),
    Case("tokens told where clients are not known", lambda t: describe_delegation_token.DescribeDelegationTokenRequest(None), (), (), lambda a: (a.error_code, list(a.tokens)), (NO_TOKENS, [])),
    Case("quotas told", lambda t: QUOTAS_ASKED, (of_cluster(O.DESCRIBE_CONFIGS),), (of_cluster(O.DESCRIBE_CONFIGS),), lambda a: (a.error_code, a.error_message, a.entries), (NO_CLUSTER, None, None)),
    Case("quotas set", lambda t: QUOTAS_SET, (of_cluster(O.ALTER_CONFIGS),), (of_cluster(O.ALTER_CONFIGS),), lambda a: [(r.error_code, r.error_message, [(e.entity_type, e.entity_name) for e in r.entity]) for r in a.entries], [(NO_CLUSTER, error_message(NO_CLUSTER), [("user", "a")])]),
]  # fmt: skip
