"""Which broker of several a request is for, and one answer of several: as clients do. So a story that is written for
one broker can be played on a cluster.

Standard library only, and no part of the product, so that it can judge either.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.conform.player.story import Body

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Kinds of coordinators, as FindCoordinator has them."""

OF_ONE_GROUP = frozenset(
    {
        "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "OffsetDelete",
        "ConsumerGroupHeartbeat", "TxnOffsetCommit", "ShareGroupHeartbeat", "StreamsGroupHeartbeat",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets", "StreamsGroupTopologyDescriptionUpdate",
    }
)  # fmt: skip
OF_ONE_TRANSACTION = frozenset({"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"})
OF_ONE_SHARE_PARTITION = frozenset(
    {
        "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
        "ReadShareGroupStateSummary",
    }
)  # fmt: skip
OF_SESSIONS = frozenset({"ShareFetch", "ShareAcknowledge"})
"""Requests of share sessions: without topics they go where the session is."""
OF_ALL = {"ListGroups": "Groups", "ListTransactions": "TransactionStates"}
"""Each broker knows only its own: the field of the rows in the answer."""
SEEN_BY_ALL = frozenset({"Metadata"})
"""All brokers must give the same answer before it counts. Each broker of a cluster gets a change at its own time."""
NOT_HERE = frozenset({5, 6, 14, 15, 16})
"""Errors after which the broker is searched again: LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
"""


class Rows(NamedTuple):
    """A request about several things. Each thing has a row in the answer."""

    asked: str
    """The list in the request."""
    key: str
    """The key in a row of this list. Empty: the rows themselves are the keys."""
    reported: str
    """The list in the answer."""
    reported_key: str
    """The key in a row of that list."""


OF_COORDINATORS: Mapping[str, tuple[int, Rows]] = {
    "DescribeGroups": (GROUP, Rows("Groups", "", "Groups", "GroupId")),
    "ConsumerGroupDescribe": (GROUP, Rows("GroupIds", "", "Groups", "GroupId")),
    "ShareGroupDescribe": (GROUP, Rows("GroupIds", "", "Groups", "GroupId")),
    "StreamsGroupDescribe": (GROUP, Rows("GroupIds", "", "Groups", "GroupId")),
    "DescribeShareGroupOffsets": (GROUP, Rows("Groups", "GroupId", "Groups", "GroupId")),
    "DeleteGroups": (GROUP, Rows("GroupsNames", "", "Results", "GroupId")),
    "OffsetFetch": (GROUP, Rows("Groups", "GroupId", "Groups", "GroupId")),
    "DescribeTransactions": (TRANSACTION, Rows("TransactionalIds", "", "TransactionStates", "TransactionalId")),
    "AddPartitionsToTxn": (
        TRANSACTION, Rows("Transactions", "TransactionalId", "ResultsByTransaction", "TransactionalId"),
    ),
}  # fmt: skip


class Partitions(NamedTuple):
    """A request about partitions: fields of topics, of their partitions, of an index; the same in the answer."""

    topics: str
    partitions: str
    number: str
    reported_topics: str
    source_partitions: str
    reported_number: str


OF_LEADERS: Mapping[str, Partitions] = {
    "Produce": Partitions("TopicData", "PartitionData", "Index", "Responses", "PartitionResponses", "Index"),
    "Fetch": Partitions("Topics", "Partitions", "Partition", "Responses", "Partitions", "PartitionIndex"),
    "ListOffsets": Partitions("Topics", "Partitions", "PartitionIndex", "Topics", "Partitions", "PartitionIndex"),
    "ShareFetch": Partitions("Topics", "Partitions", "PartitionIndex", "Responses", "Partitions", "PartitionIndex"),
    "ShareAcknowledge": Partitions(
        "Topics",
        "Partitions",
        "PartitionIndex",
        "Responses",
        "Partitions",
        "PartitionIndex",
    ),
    "DeleteRecords": Partitions("Topics", "Partitions", "PartitionIndex", "Topics", "Partitions", "PartitionIndex"),
    "OffsetForLeaderEpoch": Partitions("Topics", "Partitions", "Partition", "Topics", "Partitions", "Partition"),
    "DescribeProducers": Partitions("Topics", "PartitionIndexes", "", "Topics", "Partitions", "PartitionIndex"),
    "WriteTxnMarkers": Partitions("Topics", "PartitionIndexes", "", "Topics", "Partitions", "PartitionIndex"),
}

Place = tuple[str, int]
"""Topic, partition."""


def key_of(row: Any, key: str) -> Any:
    """The key of a row, which is a value or has fields."""
    return row[key] if key else row


def name_of(topic: Body, names: Mapping[uuid.UUID, str]) -> str:
    """The name of a topic in a request or an answer, by name or id."""
    name = topic.get("Name") or topic.get("Topic") or names.get(topic.get("TopicId", uuid.UUID(int=0)), "")
    return str(name)


def coordinated(api: str, body: Body) -> list[tuple[int, str]] | None:
    """The groups or ids whose coordinators a request is for; None: it is for no coordinator."""
    if api in OF_COORDINATORS:
        kind, rows = OF_COORDINATORS[api]
        if body.get(rows.asked) is not None:
            return [(kind, key_of(row, rows.key)) for row in body[rows.asked]]
    if api in OF_ONE_GROUP:
        return [(GROUP, body["GroupId"])]
    if api in OF_ONE_SHARE_PARTITION:
        topic = body["Topics"][0]
        name = base64.urlsafe_b64encode(topic["TopicId"].bytes).decode().rstrip("=")
        return [(SHARE, f"{body['GroupId']}:{name}:{topic['Partitions'][0]['Partition']}")]
    if api in OF_ONE_TRANSACTION:
        asked = body.get("TransactionalId") or body.get("V3AndBelowTransactionalId")
        return [(TRANSACTION, asked)] if asked else None
    return None


def places(api: str, body: Body, names: Mapping[uuid.UUID, str]) -> list[Place] | None:
    """The partitions whose leaders a request is for."""
    if api not in OF_LEADERS:
        return None
    spec = OF_LEADERS[api]
    return [
        (name_of(topic, names), key_of(row, spec.number))
        for part in _parts(api, body)
        for topic in part[spec.topics]
        for row in topic[spec.partitions]
    ]


def topic_ids(api: str, body: Body) -> list[uuid.UUID]:
    """The topics that a request to leaders names by id."""
    if api not in OF_LEADERS:
        return []
    found = [topic.get("TopicId") for part in _parts(api, body) for topic in part[OF_LEADERS[api].topics]]
    return [one for one in dict.fromkeys(found) if one is not None and one.int]


def _parts(api: str, body: Body) -> list[Body]:
    parts: list[Body] = body["Markers"] if api == "WriteTxnMarkers" else [body]
    return parts


def only_names(api: str, body: Body, wanted: Callable[[Any], bool]) -> Body:
    """The part of the request that is about these groups, or transactions."""
    rows = OF_COORDINATORS[api][1]
    return {**body, rows.asked: [row for row in body[rows.asked] if wanted(key_of(row, rows.key))]}


def only_places(api: str, body: Body, names: Mapping[uuid.UUID, str], wanted: Callable[[Place], bool]) -> Body:
    """The part of the request that is about these partitions."""
    spec = OF_LEADERS[api]

    def less(part: Body) -> Body:
        topics = [
            {
                **topic,
                spec.partitions: [
                    row for row in topic[spec.partitions] if wanted((name_of(topic, names), key_of(row, spec.number)))
                ],
            }
            for topic in part[spec.topics]
        ]
        return {**part, spec.topics: [topic for topic in topics if topic[spec.partitions]]}

    if api == "WriteTxnMarkers":
        return {**body, "Markers": [part for part in map(less, body["Markers"]) if part["Topics"]]}
    return less(body)


def joined(api: str, body: Body, answers: Sequence[Body], names: Mapping[uuid.UUID, str]) -> Body:
    """One answer, made of those of several brokers; rows in the order of the request."""
    if len(answers) == 1 or api in SEEN_BY_ALL:
        return answers[0]
    if api in OF_ALL:
        field = OF_ALL[api]
        codes = [answer["ErrorCode"] for answer in answers if answer["ErrorCode"]]
        return {**answers[0], "ErrorCode": codes[0] if codes else 0, field: _all(answers, field)}
    if api in OF_COORDINATORS:
        rows = OF_COORDINATORS[api][1]
        order = [key_of(row, rows.key) for row in body[rows.asked]]
        found = sorted(_all(answers, rows.reported), key=lambda row: order.index(row[rows.reported_key]))
        return {**answers[0], rows.reported: found}
    if api == "WriteTxnMarkers":
        merged: dict[int, Body] = {}
        for marker in _all(answers, "Markers"):
            known = merged.setdefault(marker["ProducerId"], {**marker, "Topics": []})
            known["Topics"] = _topics(api, [known, marker], names)
        return {**answers[0], "Markers": list(merged.values())}
    return {**answers[0], OF_LEADERS[api].reported_topics: _topics(api, answers, names)}


def _all(answers: Iterable[Body], field: str) -> list[Any]:
    return [row for answer in answers for row in answer[field]]


def _topics(api: str, answers: Sequence[Body], names: Mapping[uuid.UUID, str]) -> list[Body]:
    spec = OF_LEADERS[api]
    found: dict[str, Body] = {}
    for topic in _all(answers, spec.reported_topics):
        known = found.setdefault(name_of(topic, names), {**topic, spec.source_partitions: []})
        known[spec.source_partitions] = sorted(
            [*known[spec.source_partitions], *topic[spec.source_partitions]], key=lambda row: row[spec.reported_number]
        )
    return list(found.values())
