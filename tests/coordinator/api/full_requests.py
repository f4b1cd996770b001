"""A request of each served API, which names two of everything: topics, partitions, groups, resources, users.

`kafkas` has the rows of Kafka 4.4.0's error answers to the same requests, in each version
(`tests/conformance/Refusals.java`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from muster.coordinator.api.registry import SERVED
from muster.protocol.api import api, api_named
from muster.protocol.message import ZERO_UUID, Message, UnrepresentableField
from tests.coordinator.topics.support import batch

GOLDEN: Final = Path(__file__).with_name("kafka_refusals.json")
TOPICS: Final = ("t", "u")
GROUPS: Final = ("g", "h")
PARTITIONS: Final = (0, 1)
HMAC: Final = b"no token"

Ids = dict[str, bytes]
"""The ids of the topics, by name."""
NO_IDS: Final[Ids] = {"t": b"t" * 16, "u": b"u" * 16}


def request(key: int, ids: Ids = NO_IDS) -> Message:
    """The request of this API, with the fields of all its versions. KeyError: a new API needs a row here."""
    return _REQUESTS[key](ids)


def fitting(key: int, version: int, ids: Ids = NO_IDS) -> Message:
    """`request`, without the fields that the version does not have."""
    made = request(key, ids)
    while True:
        try:
            api(key).encode_request(version, made)
        except UnrepresentableField as error:
            *way, field = str(error).split()[0].split(".")[1:]
            rows: list[Any] = [made]
            for step in way:
                rows = [one for row in rows for one in getattr(row, step.partition("[")[0])]
            for row in rows:
                setattr(row, field, getattr(type(row)(), field))
        else:
            return made


def versions() -> Iterator[tuple[int, int]]:
    """Key and version of everything that is served."""
    for key, served in SERVED.items():
        for version in range(served.served_from, served.max_version + 1):
            yield key, version


def make(module: str, kind: str, **fields: Any) -> Any:
    """Make a message or a part of a message."""
    return getattr(import_module(f"muster.protocol.messages.{module}"), kind)(**fields)


def _topics(module: str, kind: str, part: str, rows: str, row: dict[str, Any], *, name: str = "name", index: str,
            ids: Ids | None = None) -> list[Any]:  # fmt: skip
    found = []
    for topic in TOPICS:
        parts = [make(module, part, **{index: number, **row}) for number in PARTITIONS]
        more = {} if ids is None else {"topic_id": ids[topic]}
        found.append(make(module, kind, **{name: topic, rows: parts, **more}))
    return found


def _by_id(module: str, kind: str, part: str, ids: Ids) -> list[Any]:
    """Topics by their ids alone."""
    rows = [make(module, part, partition_index=number) for number in PARTITIONS]
    return [make(module, kind, topic_id=ids[topic], partitions=rows) for topic in TOPICS]


def _numbered(module: str, kind: str, rows: str, *, name: str = "name", **more: Any) -> list[Any]:
    return [make(module, kind, **{name: topic, rows: list(PARTITIONS), **more}) for topic in TOPICS]


def _resources(module: str, **more: Any) -> list[Any]:
    kind = "DescribeConfigsResource" if module == "describe_configs" else "AlterConfigsResource"
    return [make(module, kind, resource_type=2, resource_name=topic, **more) for topic in TOPICS]


def _produce(ids: Ids) -> Message:
    topics = _topics("produce", "TopicProduceData", "PartitionProduceData", "partition_data", {"records": batch()},
                     index="index", ids=ids)  # fmt: skip
    made: Message = make("produce", "ProduceRequest", acks=-1, timeout_ms=1_000, topic_data=topics)
    return made


def _offset_fetch(ids: Ids) -> Message:
    older = _numbered("offset_fetch", "OffsetFetchRequestTopic", "partition_indexes")
    topics = [
        make("offset_fetch", "OffsetFetchRequestTopics", name=topic, topic_id=ids[topic], partition_indexes=[0, 1])
        for topic in TOPICS
    ]
    groups = [make("offset_fetch", "OffsetFetchRequestGroup", group_id=group, topics=topics) for group in GROUPS]
    made: Message = make("offset_fetch", "OffsetFetchRequest", group_id="g", topics=older, groups=groups)
    return made


def _add_partitions(_: Ids) -> Message:
    topics = _numbered("add_partitions_to_txn", "AddPartitionsToTxnTopic", "partitions")
    transactions = [
        make(
            "add_partitions_to_txn", "AddPartitionsToTxnTransaction", transactional_id=one, producer_id=1, topics=topics
        )
        for one in ("x", "y")
    ]
    made: Message = make(
        "add_partitions_to_txn", "AddPartitionsToTxnRequest", transactions=transactions,
        v3_and_below_transactional_id="x", v3_and_below_producer_id=1, v3_and_below_topics=topics,
    )  # fmt: skip
    return made


def _markers(_: Ids) -> Message:
    topics = _numbered("write_txn_markers", "WritableTxnMarkerTopic", "partition_indexes")
    markers = [make("write_txn_markers", "WritableTxnMarker", producer_id=number, topics=topics) for number in (1, 2)]
    made: Message = make("write_txn_markers", "WriteTxnMarkersRequest", markers=markers)
    return made


def _simple(module: str, **fields: Any) -> Callable[[Ids], Message]:
    kind = api_named("".join(word.capitalize() for word in module.split("_"))).name + "Request"
    return lambda _: make(module, kind, **fields)


def _states(module: str, kind: str, **row: Any) -> Callable[[Ids], Message]:
    def made(ids: Ids) -> Message:
        rows = [make(module, "PartitionData", partition=number, **row) for number in PARTITIONS]
        topics = [make(module, f"{kind}Data", topic_id=topic_id, partitions=rows) for topic_id in ids.values()]
        return _simple(module, group_id="g", topics=topics)(ids)

    return made


_ACL: Final = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3,
               "permission_type": 3}  # fmt: skip
_FILTER: Final = {"resource_type_filter": 2, "pattern_type_filter": 3, "principal_filter": None, "host_filter": None,
                  "operation": 1, "permission_type": 1}  # fmt: skip
_MEMBER: Final = {"group_id": "g", "member_id": "m"}

_REQUESTS: Final[dict[int, Callable[[Ids], Message]]] = {
    0: _produce,
    1: lambda ids: make("fetch", "FetchRequest", max_wait_ms=0, max_bytes=1_000, topics=_topics(
        "fetch", "FetchTopic", "FetchPartition", "partitions", {"partition_max_bytes": 1_000}, name="topic",
        index="partition", ids=ids)),
    2: lambda _: make("list_offsets", "ListOffsetsRequest", replica_id=-1, topics=_topics(
        "list_offsets", "ListOffsetsTopic", "ListOffsetsPartition", "partitions",
        {"current_leader_epoch": -1, "timestamp": -1}, index="partition_index")),
    3: lambda _: make("metadata", "MetadataRequest", allow_auto_topic_creation=False, topics=[
        make("metadata", "MetadataRequestTopic", name=topic) for topic in TOPICS]),
    8: lambda ids: make("offset_commit", "OffsetCommitRequest", group_id="g", topics=_topics(
        "offset_commit", "OffsetCommitRequestTopic", "OffsetCommitRequestPartition", "partitions",
        {"committed_offset": 1}, index="partition_index", ids=ids)),
    9: _offset_fetch,
    10: _simple("find_coordinator", key="g", key_type=0, coordinator_keys=list(GROUPS)),
    11: _simple("join_group", **_MEMBER, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
                protocol_type="consumer", protocols=[make("join_group", "JoinGroupRequestProtocol", name="range")]),
    12: _simple("heartbeat", **_MEMBER, generation_id=1),
    13: _simple("leave_group", **_MEMBER, members=[
        make("leave_group", "MemberIdentity", member_id=member) for member in ("m", "n")]),
    14: _simple("sync_group", **_MEMBER, generation_id=1, protocol_type="consumer", protocol_name="range"),
    15: _simple("describe_groups", groups=list(GROUPS)),
    16: _simple("list_groups"),
    17: _simple("sasl_handshake", mechanism="PLAIN"),
    18: _simple("api_versions", client_software_name="test", client_software_version="1"),
    19: _simple("create_topics", timeout_ms=1_000, topics=[
        make("create_topics", "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
        for name in ("new", "newer")]),
    20: lambda ids: make("delete_topics", "DeleteTopicsRequest", timeout_ms=1_000, topic_names=list(TOPICS), topics=[
        make("delete_topics", "DeleteTopicState", name=topic, topic_id=ZERO_UUID) for topic in ids]),
    21: lambda _: make("delete_records", "DeleteRecordsRequest", timeout_ms=1_000, topics=_topics(
        "delete_records", "DeleteRecordsTopic", "DeleteRecordsPartition", "partitions", {"offset": 0},
        index="partition_index")),
    22: _simple("init_producer_id", transactional_id="x", transaction_timeout_ms=1_000, producer_id=-1,
                producer_epoch=-1),
    23: lambda _: make("offset_for_leader_epoch", "OffsetForLeaderEpochRequest", replica_id=-1, topics=_topics(
        "offset_for_leader_epoch", "OffsetForLeaderTopic", "OffsetForLeaderPartition", "partitions",
        {"current_leader_epoch": -1, "leader_epoch": 0}, name="topic", index="partition")),
    24: _add_partitions,
    25: _simple("add_offsets_to_txn", transactional_id="x", producer_id=1, group_id="g"),
    26: _simple("end_txn", transactional_id="x", producer_id=1, committed=True),
    27: _markers,
    28: lambda ids: make("txn_offset_commit", "TxnOffsetCommitRequest", transactional_id="x", group_id="g",
                         producer_id=1, topics=_topics(
        "txn_offset_commit", "TxnOffsetCommitRequestTopic", "TxnOffsetCommitRequestPartition", "partitions",
        {"committed_offset": 1}, index="partition_index", ids=ids)),
    29: _simple("describe_acls", **_FILTER, resource_name_filter=None),
    30: _simple("create_acls", creations=[
        make("create_acls", "AclCreation", resource_name=topic, **_ACL) for topic in TOPICS]),
    31: _simple("delete_acls", filters=[
        make("delete_acls", "DeleteAclsFilter", resource_name_filter=topic, **_FILTER) for topic in TOPICS]),
    32: lambda _: make("describe_configs", "DescribeConfigsRequest",
                       resources=_resources("describe_configs", configuration_keys=None)),
    33: lambda _: make("alter_configs", "AlterConfigsRequest", resources=_resources("alter_configs", configs=[
        make("alter_configs", "AlterableConfig", name="retention.ms", value="5")])),
    34: lambda _: make("alter_replica_log_dirs", "AlterReplicaLogDirsRequest", dirs=[
        make("alter_replica_log_dirs", "AlterReplicaLogDir", path="/x", topics=_numbered(
            "alter_replica_log_dirs", "AlterReplicaLogDirTopic", "partitions"))]),
    35: lambda _: make("describe_log_dirs", "DescribeLogDirsRequest", topics=_numbered(
        "describe_log_dirs", "DescribableLogDirTopic", "partitions", name="topic")),
    36: _simple("sasl_authenticate", auth_bytes=b"x"),
    37: _simple("create_partitions", timeout_ms=1_000, topics=[
        make("create_partitions", "CreatePartitionsTopic", name=topic, count=3, assignments=None)
        for topic in TOPICS]),
    38: _simple("create_delegation_token", max_lifetime_ms=-1),
    39: _simple("renew_delegation_token", hmac=HMAC, renew_period_ms=1_000),
    40: _simple("expire_delegation_token", hmac=HMAC, expiry_time_period_ms=1_000),
    41: _simple("describe_delegation_token", owners=None),
    42: _simple("delete_groups", groups_names=list(GROUPS)),
    43: lambda _: make("elect_leaders", "ElectLeadersRequest", timeout_ms=1_000, topic_partitions=_numbered(
        "elect_leaders", "TopicPartitions", "partitions", name="topic")),
    44: lambda _: make("incremental_alter_configs", "IncrementalAlterConfigsRequest", resources=_resources(
        "incremental_alter_configs", configs=[make(
            "incremental_alter_configs", "AlterableConfig", name="retention.ms", config_operation=0, value="5")])),
    45: lambda _: make("alter_partition_reassignments", "AlterPartitionReassignmentsRequest", timeout_ms=1_000,
                       topics=_topics("alter_partition_reassignments", "ReassignableTopic", "ReassignablePartition",
                                      "partitions", {"replicas": [1]}, index="partition_index")),
    46: lambda _: make("list_partition_reassignments", "ListPartitionReassignmentsRequest", timeout_ms=1_000,
                       topics=_numbered("list_partition_reassignments", "ListPartitionReassignmentsTopics",
                                        "partition_indexes")),
    47: lambda _: make("offset_delete", "OffsetDeleteRequest", group_id="g", topics=_topics(
        "offset_delete", "OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition", "partitions", {},
        index="partition_index")),
    48: _simple("describe_client_quotas"),
    49: _simple("alter_client_quotas", entries=[
        make("alter_client_quotas", "AlterClientQuotasRequestEntryData",
             entity=[make("alter_client_quotas", "AlterClientQuotasRequestEntityData", entity_type="user",
                          entity_name=user)],
             ops=[make("alter_client_quotas", "OpData", key="producer_byte_rate", value=1.0)])
        for user in ("a", "b")]),
    50: _simple("describe_user_scram_credentials", users=[
        make("describe_user_scram_credentials", "UserName", name=user) for user in ("a", "b")]),
    51: _simple("alter_user_scram_credentials", deletions=[
        make("alter_user_scram_credentials", "ScramCredentialDeletion", name="a", mechanism=1)], upsertions=[
        make("alter_user_scram_credentials", "ScramCredentialUpsertion", name="b", mechanism=1, iterations=4096,
             salt=b"salt", salted_password=b"x" * 32)]),
    55: _simple("describe_quorum", topics=[
        make("describe_quorum", "DescribeQuorumRequestTopicData", topic_name="__cluster_metadata", partitions=[
            make("describe_quorum", "DescribeQuorumRequestPartitionData", partition_index=0)])]),
    57: _simple("update_features", timeout_ms=1_000, feature_updates=[
        make("update_features", "FeatureUpdateKey", feature=name, max_version_level=level)
        for name, level in (("group.version", 1), ("transaction.version", 2))]),
    60: _simple("describe_cluster"),
    61: lambda _: make("describe_producers", "DescribeProducersRequest", topics=_numbered(
        "describe_producers", "TopicRequest", "partition_indexes")),
    64: _simple("unregister_broker", broker_id=9),
    65: _simple("describe_transactions", transactional_ids=["x", "y"]),
    66: _simple("list_transactions"),
    68: _simple("consumer_group_heartbeat", group_id="g", member_id="m" * 22, member_epoch=0,
                rebalance_timeout_ms=1_000, subscribed_topic_names=list(TOPICS), topic_partitions=[]),
    69: _simple("consumer_group_describe", group_ids=list(GROUPS)),
    71: _simple("get_telemetry_subscriptions", client_instance_id=b"c" * 16),
    72: _simple("push_telemetry", client_instance_id=b"c" * 16, subscription_id=1),
    74: _simple("list_config_resources"),
    75: _simple("describe_topic_partitions", topics=[
        make("describe_topic_partitions", "TopicRequest", name=topic) for topic in TOPICS]),
    76: _simple("share_group_heartbeat", group_id="g", member_id="m", subscribed_topic_names=[*TOPICS]),
    77: _simple("share_group_describe", group_ids=[*GROUPS], include_authorized_operations=True),
    78: lambda ids: make("share_fetch", "ShareFetchRequest", **_MEMBER, max_bytes=1_000, topics=_by_id(
        "share_fetch", "FetchTopic", "FetchPartition", ids)),
    79: lambda ids: make("share_acknowledge", "ShareAcknowledgeRequest", **_MEMBER, share_session_epoch=1,
                         topics=_by_id("share_acknowledge", "AcknowledgeTopic", "AcknowledgePartition", ids)),
    80: _simple("add_raft_voter", cluster_id=None, timeout_ms=1_000, voter_id=9, voter_directory_id=b"d" * 16,
                listeners=[make("add_raft_voter", "Listener", name="CONTROLLER", host="127.0.0.1", port=9)]),
    81: _simple("remove_raft_voter", cluster_id=None, voter_id=9, voter_directory_id=b"d" * 16),
    83: _states("initialize_share_group_state", "InitializeState", state_epoch=1, start_offset=0),
    84: _states("read_share_group_state", "ReadState", leader_epoch=1),
    85: _states("write_share_group_state", "WriteState", state_epoch=1, leader_epoch=1, delivery_complete_count=1),
    86: _states("delete_share_group_state", "DeleteState"),
    87: _states("read_share_group_state_summary", "ReadStateSummary", leader_epoch=1),
    88: lambda _: make("streams_group_heartbeat", "StreamsGroupHeartbeatRequest", group_id="g", member_id="m",
                       member_epoch=0, rebalance_timeout_ms=1_000, active_tasks=[], standby_tasks=[], warmup_tasks=[],
                       process_id="p", topology=make("streams_group_heartbeat", "Topology", epoch=0, subtopologies=[
                           make("streams_group_heartbeat", "Subtopology", subtopology_id="0",
                                source_topics=[*TOPICS])])),
    89: _simple("streams_group_describe", group_ids=[*GROUPS], include_authorized_operations=True),
    93: _simple("streams_group_topology_description_update", group_id="g", member_id="m", topology_epoch=0),
    90: _simple("describe_share_group_offsets", groups=[
        make("describe_share_group_offsets", "DescribeShareGroupOffsetsRequestGroup", group_id=group, topics=[
            make("describe_share_group_offsets", "DescribeShareGroupOffsetsRequestTopic",
                 topic_name=topic, partitions=[*PARTITIONS])
            for topic in TOPICS
        ])
        for group in GROUPS
    ]),
    91: _simple("alter_share_group_offsets", group_id="g", topics=[
        make("alter_share_group_offsets", "AlterShareGroupOffsetsRequestTopic", topic_name=topic, partitions=[
            make("alter_share_group_offsets", "AlterShareGroupOffsetsRequestPartition", partition_index=one)
            for one in PARTITIONS
        ])
        for topic in TOPICS
    ]),
    92: _simple("delete_share_group_offsets", group_id="g", topics=[
        make("delete_share_group_offsets", "DeleteShareGroupOffsetsRequestTopic", topic_name=topic)
        for topic in TOPICS
    ]),
    94: _simple("unregister_controller", controller_id=9),
}  # fmt: skip
"""The requests, by API key."""

_NAMES: Final = frozenset((
    "name", "topic", "topic_id", "group_id", "partition_index", "partition", "partition_id", "index", "key",
    "transactional_id", "member_id", "resource_type", "resource_name", "user", "producer_id", "topic_name", "feature",
))  # fmt: skip
"""The fields that name a row of an answer."""
_ERRORS: Final = ("error_code", "partition_error_code")


def errors(response: Message) -> dict[tuple[Any, ...], int]:
    """The error of each row that can have one, by the names on the way to it; () stands for the answer as a whole. A
    row without a name has its number behind `NAMELESS`.
    """
    found: dict[tuple[Any, ...], int] = {}
    _gather(response, (), found)
    return found


NAMELESS: Final = "row"


def _gather(row: Any, above: tuple[Any, ...], found: dict[tuple[Any, ...], int], *, is_row: bool = False) -> None:
    path = above
    for field in row.__slots__:
        value = getattr(row, field)
        if field == "producer_id" and type(row).__name__ != "WritableTxnMarkerResult":
            continue
        if field == "topic_id" and (getattr(row, "name", "") or getattr(row, "topic", "")):
            continue
        if field in _NAMES and value not in (None, "", ZERO_UUID):
            path = (*path, value.hex() if isinstance(value, bytes) else value)
    if is_row and path == above:
        path = (*above, NAMELESS, len(found))
    for field in row.__slots__:
        value = getattr(row, field)
        if field in _ERRORS:
            found[path] = value
        elif isinstance(value, list | tuple):
            for one in value:
                if isinstance(one, Message):
                    _gather(one, path, found, is_row=True)


def kafkas() -> dict[str, list[list[Any]]]:
    """The rows that Kafka's error answers have, by "API version"."""
    known: dict[str, list[list[Any]]] = json.loads(GOLDEN.read_text())
    return known
