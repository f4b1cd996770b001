"""Rich legal requests of administrators. They name only what belongs to this run, or what does not exist.

A request whose API has no such form is sent with `--may-alter`, or only in its smallest form.
"""

from __future__ import annotations

import uuid

from muster.conform.probes.place import NOBODY, OTHER_CLUSTER, Ask, Body, MakeBody, Place, Script

TOPIC, GROUP, BROKER = 2, 3, 4
LITERAL, ANY = 3, 1
READ, ALLOW, DELETE, SET = 3, 3, 1, 0
TIMEOUT_MS = 10_000


def api_versions(_: Place, __: int) -> Body:
    """A client that says who it is."""
    return {"ClientSoftwareName": "muster-conform", "ClientSoftwareVersion": "1.0"}


def metadata(place: Place, version: int) -> Body:
    """A topic, one that does not exist, and the operations that are allowed."""
    rows = [{"Name": place.topic}]
    if version >= 4:
        rows.append({"Name": place.no_topic})
    return {
        "Topics": rows,
        "AllowAutoTopicCreation": version < 4,
        "IncludeClusterAuthorizedOperations": 8 <= version <= 10,
        "IncludeTopicAuthorizedOperations": version >= 8,
    }


def describe_cluster(_: Place, version: int) -> Body:
    """The brokers, with fenced ones, and the operations that are allowed."""
    return {"IncludeClusterAuthorizedOperations": True, "IncludeFencedBrokers": version >= 2}


def describe_topic_partitions(place: Place, _: int) -> Body:
    """Two topics, from a cursor on."""
    topics = sorted([place.topic, place.no_topic])
    return {
        "Topics": [{"Name": name} for name in topics],
        "ResponsePartitionLimit": 1,
        "Cursor": {"TopicName": topics[0], "PartitionIndex": 0},
    }


def create_topics(place: Place, version: int) -> Body:
    """A topic with a config, one that exists, and one with replicas by hand; nothing is made."""
    topics = [
        {
            "Name": place.name("created", version),
            "NumPartitions": 2,
            "ReplicationFactor": 1,
            "Configs": [{"Name": "retention.ms", "Value": "60000"}],
        },
        {"Name": place.topic, "NumPartitions": 1, "ReplicationFactor": 1},
        {
            "Name": place.name("by-hand", version),
            "NumPartitions": -1,
            "ReplicationFactor": -1,
            "Assignments": [{"PartitionIndex": 0, "BrokerIds": [place.node_id]}],
        },
    ]
    return {"Topics": topics, "timeoutMs": TIMEOUT_MS, "validateOnly": True}


def delete_topics(place: Place, version: int) -> Script:
    """A topic that was made for it, and one that does not exist."""
    name = place.name("deleted", version)
    made = {"Topics": [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}], "timeoutMs": TIMEOUT_MS}
    yield Ask(made, "CreateTopics")
    names = [name, place.no_topic]
    zero = uuid.UUID(int=0)
    rows = [{"Name": one, "TopicId": zero} for one in names] + [{"Name": None, "TopicId": place.no_topic_id}]
    yield Ask({"TopicNames": names, "Topics": rows, "TimeoutMs": TIMEOUT_MS} if version >= 6 else _named(names))


def _named(names: list[str]) -> Body:
    return {"TopicNames": names, "TimeoutMs": TIMEOUT_MS}


def create_partitions(place: Place, _: int) -> Body:
    """More partitions, and a topic that does not exist; nothing is made."""
    topics = [
        {"Name": place.topic, "Count": 3, "Assignments": [{"BrokerIds": [place.node_id]}]},
        {"Name": place.no_topic, "Count": 3, "Assignments": None},
    ]
    return {"Topics": topics, "TimeoutMs": TIMEOUT_MS, "ValidateOnly": True}


def describe_configs(place: Place, version: int) -> Body:
    """All configs of a topic, some of a broker, and a topic that does not exist."""
    resources = [
        {"ResourceType": TOPIC, "ResourceName": place.topic, "ConfigurationKeys": None},
        {"ResourceType": BROKER, "ResourceName": str(place.node_id), "ConfigurationKeys": ["num.io.threads"]},
        {"ResourceType": TOPIC, "ResourceName": place.no_topic, "ConfigurationKeys": ["retention.ms"]},
    ]
    return {"Resources": resources, "IncludeSynonyms": True, "IncludeDocumentation": version >= 3}


def alter_configs(place: Place, _: int) -> Body:
    """A config of a topic, and one of a topic that does not exist; nothing is changed."""
    configs = [{"Name": "retention.ms", "Value": "60000"}]
    resources = [
        {"ResourceType": TOPIC, "ResourceName": name, "Configs": configs} for name in (place.topic, place.no_topic)
    ]
    return {"Resources": resources, "ValidateOnly": True}


def incremental_alter_configs(place: Place, _: int) -> Body:
    """A config is set and one is taken back, and a topic does not exist; nothing is changed."""
    configs = [
        {"Name": "retention.ms", "ConfigOperation": SET, "Value": "60000"},
        {"Name": "retention.bytes", "ConfigOperation": DELETE, "Value": None},
    ]
    resources = [
        {"ResourceType": TOPIC, "ResourceName": name, "Configs": configs} for name in (place.topic, place.no_topic)
    ]
    return {"Resources": resources, "ValidateOnly": True}


def list_config_resources(_: Place, version: int) -> Body:
    """Topics and brokers; version 0 asks for client metrics."""
    return {"ResourceTypes": [TOPIC, BROKER]} if version >= 1 else {}


def describe_log_dirs(place: Place, _: int) -> Body:
    """Where two partitions are."""
    return {"Topics": [{"Topic": place.topic, "Partitions": [0, 1]}]}


def alter_replica_log_dirs(place: Place, _: int) -> Body:
    """A topic that does not exist moves into a folder that does not exist."""
    return {
        "Dirs": [{"Path": "/muster-conform-has-no-folder", "Topics": [{"Name": place.no_topic, "Partitions": [0]}]}]
    }


def elect_leaders(place: Place, _: int) -> Body:
    """The leader of a partition that does not exist."""
    return {"TopicPartitions": [{"Topic": place.no_topic, "Partitions": [0]}], "TimeoutMs": TIMEOUT_MS}


def alter_partition_reassignments(place: Place, _: int) -> Body:
    """Replicas of a partition that does not exist."""
    rows = [{"PartitionIndex": 0, "Replicas": [place.node_id]}]
    return {"Topics": [{"Name": place.no_topic, "Partitions": rows}], "TimeoutMs": TIMEOUT_MS}


def list_partition_reassignments(place: Place, _: int) -> Body:
    """A partition that does not move."""
    return {"Topics": [{"Name": place.topic, "PartitionIndexes": [0]}], "TimeoutMs": TIMEOUT_MS}


def describe_quorum(_: Place, __: int) -> Body:
    """The quorum of the metadata log."""
    return {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]}


def update_features(_: Place, version: int) -> Body:
    """A feature that does not exist."""
    row: Body = {"Feature": "muster.conform.version", "MaxVersionLevel": 1}
    if version >= 1:
        return {"FeatureUpdates": [{**row, "UpgradeType": 1}], "ValidateOnly": True, "timeoutMs": TIMEOUT_MS}
    return {"FeatureUpdates": [row], "timeoutMs": TIMEOUT_MS}


def unregister_broker(_: Place, __: int) -> Body:
    """A broker that no cluster has."""
    return {"BrokerId": NOBODY}


def unregister_controller(_: Place, __: int) -> Body:
    """A controller that no cluster has."""
    return {"ControllerId": NOBODY}


def add_raft_voter(_: Place, __: int) -> Body:
    """A voter for another cluster."""
    listeners = [{"Name": "CONTROLLER", "Host": "localhost", "Port": 9}]
    return {"ClusterId": OTHER_CLUSTER, "TimeoutMs": 1_000, "VoterId": NOBODY, "Listeners": listeners}


def remove_raft_voter(_: Place, __: int) -> Body:
    """A voter of another cluster."""
    return {"ClusterId": OTHER_CLUSTER, "VoterId": NOBODY}


def describe_acls(place: Place, _: int) -> Body:
    """The entries of a group of this run."""
    return {
        "ResourceTypeFilter": GROUP,
        "ResourceNameFilter": place.group,
        "PatternTypeFilter": LITERAL,
        "PrincipalFilter": "User:muster-conform",
        "HostFilter": "*",
        "Operation": READ,
        "PermissionType": ALLOW,
    }


def create_acls(place: Place, _: int) -> Script:
    """An entry for a group of this run and a user who does not exist; it is deleted again."""
    entry = {
        "ResourceType": GROUP,
        "ResourceName": place.group,
        "Principal": "User:muster-conform",
        "Host": "*",
        "Operation": READ,
        "PermissionType": ALLOW,
    }
    yield Ask({"Creations": [entry]})
    yield Ask({"Filters": [describe_acls(place, 3)]}, "DeleteAcls")


def delete_acls(place: Place, _: int) -> Body:
    """The entries of a group of this run, which has none."""
    return {"Filters": [describe_acls(place, 3)]}


def describe_client_quotas(_: Place, __: int) -> Body:
    """The quotas of a user who does not exist, and of any client id."""
    components = [
        {"EntityType": "user", "MatchType": 0, "Match": "muster-conform"},
        {"EntityType": "client-id", "MatchType": 2, "Match": None},
    ]
    return {"Components": components, "Strict": True}


def alter_client_quotas(_: Place, __: int) -> Body:
    """A quota is set and one is taken back; nothing is changed."""
    entity = [{"EntityType": "user", "EntityName": "muster-conform"}]
    ops = [
        {"Key": "producer_byte_rate", "Value": 1e9, "Remove": False},
        {"Key": "consumer_byte_rate", "Value": 0.0, "Remove": True},
    ]
    return {"Entries": [{"Entity": entity, "Ops": ops}], "ValidateOnly": True}


def describe_user_scram_credentials(_: Place, __: int) -> Body:
    """A user who does not exist."""
    return {"Users": [{"Name": "muster-conform"}]}


def alter_user_scram_credentials(_: Place, __: int) -> Body:
    """The credentials of a user who does not exist are deleted."""
    return {"Deletions": [{"Name": "muster-conform-nobody", "Mechanism": 1}]}


def create_delegation_token(_: Place, __: int) -> Body:
    """A token with a renewer of a type that Kafka does not know: it is refused."""
    renewers = [{"PrincipalType": "Nobody", "PrincipalName": "muster-conform"}]
    return {"Renewers": renewers, "MaxLifetimeMs": 1_000, "OwnerPrincipalType": None, "OwnerPrincipalName": None}


def renew_delegation_token(_: Place, __: int) -> Body:
    """A token that does not exist."""
    return {"Hmac": b"muster-conform", "RenewPeriodMs": 1_000}


def expire_delegation_token(_: Place, __: int) -> Body:
    """A token that does not exist."""
    return {"Hmac": b"muster-conform", "ExpiryTimePeriodMs": 1_000}


def describe_delegation_token(_: Place, __: int) -> Body:
    """The tokens of a user who does not exist."""
    return {"Owners": [{"PrincipalType": "User", "PrincipalName": "muster-conform"}]}


def sasl_handshake(_: Place, __: int) -> Body:
    """A mechanism that does not exist."""
    return {"Mechanism": "MUSTER-CONFORM"}


def sasl_authenticate(_: Place, __: int) -> Body:
    """Bytes of a login that has not begun."""
    return {"AuthBytes": b"\0muster-conform\0nobody"}


def get_telemetry_subscriptions(_: Place, __: int) -> Body:
    """A client that asks for an id."""
    return {}


def push_telemetry(place: Place, _: int) -> Body:
    """Metrics of a client that has no subscription."""
    return {"ClientInstanceId": place.no_topic_id, "SubscriptionId": 1}


RICH: dict[str, MakeBody] = {
    "ApiVersions": api_versions,
    "Metadata": metadata,
    "DescribeCluster": describe_cluster,
    "DescribeTopicPartitions": describe_topic_partitions,
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "CreatePartitions": create_partitions,
    "DescribeConfigs": describe_configs,
    "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": incremental_alter_configs,
    "ListConfigResources": list_config_resources,
    "DescribeLogDirs": describe_log_dirs,
    "AlterReplicaLogDirs": alter_replica_log_dirs,
    "ElectLeaders": elect_leaders,
    "AlterPartitionReassignments": alter_partition_reassignments,
    "ListPartitionReassignments": list_partition_reassignments,
    "DescribeQuorum": describe_quorum,
    "UpdateFeatures": update_features,
    "UnregisterBroker": unregister_broker,
    "UnregisterController": unregister_controller,
    "AddRaftVoter": add_raft_voter,
    "RemoveRaftVoter": remove_raft_voter,
    "DescribeAcls": describe_acls,
    "CreateAcls": create_acls,
    "DeleteAcls": delete_acls,
    "DescribeClientQuotas": describe_client_quotas,
    "AlterClientQuotas": alter_client_quotas,
    "DescribeUserScramCredentials": describe_user_scram_credentials,
    "AlterUserScramCredentials": alter_user_scram_credentials,
    "CreateDelegationToken": create_delegation_token,
    "RenewDelegationToken": renew_delegation_token,
    "ExpireDelegationToken": expire_delegation_token,
    "DescribeDelegationToken": describe_delegation_token,
    "SaslHandshake": sasl_handshake,
    "SaslAuthenticate": sasl_authenticate,
    "GetTelemetrySubscriptions": get_telemetry_subscriptions,
    "PushTelemetry": push_telemetry,
}
