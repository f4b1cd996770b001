"""The forms in which a request is sent, made from Kafka's definitions: the smallest one, and one with nulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.probes import admin_bodies, group_bodies, record_bodies
from muster.conform.probes.place import NOBODY, OTHER_CLUSTER, Body, MakeBody

SMALLEST, RICH, NULLS, TAGS = "smallest", "rich", "nulls", "tags"
FORMS = {
    SMALLEST: "nothing but what the definition demands",
    RICH: "rows that exist and rows that do not",
    NULLS: "null in every field that may be null",
    TAGS: "unknown tagged fields in the header and in every struct",
}

RICH_BODIES: Mapping[str, MakeBody] = {**admin_bodies.RICH, **group_bodies.RICH, **record_bodies.RICH}

EXTRA = {7_001: b"", 7_002: b"muster"}
"""Unknown tagged fields, by tag: an empty one, and one with bytes."""

SMALLEST_FIELDS: dict[str, Body] = {
    "Produce": {"Acks": 1},
    "ListOffsets": {"ReplicaId": -1},
    "OffsetForLeaderEpoch": {"ReplicaId": -1},
    "ApiVersions": {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"},
    "DescribeAcls": {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1},
    "AddRaftVoter": {"ClusterId": OTHER_CLUSTER, "VoterId": NOBODY},
    "RemoveRaftVoter": {"ClusterId": OTHER_CLUSTER, "VoterId": NOBODY},
    "UnregisterBroker": {"BrokerId": NOBODY},
    "UnregisterController": {"ControllerId": NOBODY},
    "ElectLeaders": {"TopicPartitions": []},
    "Metadata": {"Topics": []},
    "DescribeLogDirs": {"Topics": []},
    "CreateDelegationToken": {"MaxLifetimeMs": 1_000},
    "OffsetFetch": {"Groups": [{"GroupId": "", "Topics": []}]},
    "AddPartitionsToTxn": {
        "Transactions": [
            {"TransactionalId": "", "VerifyOnly": True, "Topics": [{"Name": "muster-conform", "Partitions": [0]}]}
        ]
    },
}
"""What the smallest form needs to be legal, to be answered, or to change nothing. Kafka never answers an
AddPartitionsToTxn without transactions, and Kafka 4.0 no OffsetFetch without groups.
"""

ONLY_IF_IT_MAY_ALTER = {
    ("CreateAcls", RICH): "an entry for a user who does not exist is made and deleted",
    ("CreateDelegationToken", SMALLEST): "a token that ends after a second is made",
}
"""Forms that change something outside of the names of this run."""

NEVER_NULL = frozenset({"Records"})
"""Fields that may be null, but not in a request that is answered: Kafka never answers a Produce without records."""

WITHOUT_NULLS = {
    "AddRaftVoter": "without a cluster id the request is for every cluster",
    "CreateAcls": "its definition has no nulls",
    "DeleteAcls": "nulls match every entry",
    "ElectLeaders": "null asks for an election in every partition",
    "RemoveRaftVoter": "without a cluster id the request is for every cluster",
}

ONLY_SMALLEST = {
    "DeleteShareGroupState": "brokers send it, and it would delete a state",
    "InitializeShareGroupState": "brokers send it, and it would write a state",
    "ReadShareGroupState": "brokers send it, and it would write a leader epoch",
    "ReadShareGroupStateSummary": "brokers send it to the coordinator of the group",
    "WriteShareGroupState": "brokers send it, and it would write a state",
}

LEFT_OUT = {
    4: "LeaderAndIsr is what a controller sends to a broker",
    5: "StopReplica is what a controller sends to a broker",
    6: "UpdateMetadata is what a controller sends to a broker",
    7: "ControlledShutdown is what a broker sends to a controller",
    52: "Vote is for voters of the metadata log",
    53: "BeginQuorumEpoch is for voters of the metadata log",
    54: "EndQuorumEpoch is for voters of the metadata log",
    56: "AlterPartition is what a broker sends to a controller",
    58: "Envelope is what a broker sends to a controller",
    59: "FetchSnapshot is for replicas of the metadata log",
    62: "BrokerRegistration is what a broker sends to a controller",
    63: "BrokerHeartbeat is what a broker sends to a controller",
    67: "AllocateProducerIds is what a broker sends to a controller",
    70: "ControllerRegistration is what a controller sends to another",
    73: "AssignReplicasToDirs is what a broker sends to a controller",
    82: "UpdateRaftVoter is what a voter sends to another",
}
"""APIs between brokers, by their keys, with the reason for which they are not sent."""


def smallest(api: str, version: int) -> Body:
    """The smallest legal request of a version: nulls, empty lists and texts, and defaults."""
    spec = codec.MESSAGES[api + "Request"]
    body = {one["name"]: _smallest(one, version) for one in spec["fields"] if _has(one, version)}
    return {**body, **{name: value for name, value in SMALLEST_FIELDS.get(api, {}).items() if name in body}}


def _has(field: codec.Spec, version: int) -> bool:
    return codec.in_range(field["versions"], version)


def _smallest(field: codec.Spec, version: int) -> Any:
    if "default" in field:
        return codec.default_of(field)
    if codec.in_range(field.get("nullableVersions"), version):
        return None
    kind = field["type"]
    if kind not in codec.PLAIN and not kind.startswith("[]"):
        # the only struct that a request must have is a topology's description, whose fields are lists
        return {}
    return codec.default_of(field)


def nulls(api: str, version: int, body: Body) -> Body | None:
    """The body with null in every field that may be null. None means that no field may."""
    spec = codec.MESSAGES[api + "Request"]
    out, count = _nulls(spec["fields"], spec.get("commonStructs", {}), version, body)
    return out if count else None


def _nulls(fields: list[codec.Spec], structs: codec.Spec, version: int, body: Body) -> tuple[Body, int]:
    out, count = dict(body), 0
    for field in fields:
        name, kind = field["name"], field["type"]
        if not _has(field, version):
            continue
        if codec.in_range(field.get("nullableVersions"), version) and name not in NEVER_NULL:
            out[name], count = None, count + 1
        elif kind.startswith("[]") and body.get(name):
            inner = field.get("fields") or structs.get(kind[2:])
            if inner:
                rows = [_nulls(inner, structs, version, row) for row in body[name]]
                out[name], count = [row for row, _ in rows], count + sum(one for _, one in rows)
    return out, count
