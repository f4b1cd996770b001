"""The largest state that clients may cause on a node, scaled: many topics, members, groups and entries, with the
longest names. Only requests make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from muster.coordinator.system.uuids import as_text
from muster.protocol.message import Message
from muster.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_user_scram_credentials,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_topics,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    offset_commit,
    produce,
    sync_group,
)
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.coordinator.topics.support import batch
from tests.support.virtual_node import errors_in
from tests.worst.node import WorstNode

AT_ONCE: Final = 500
"""Elements of one request that makes state."""
MAX_MEMBERS: Final = 600
"""The most members of a classic group whose members have a kilobyte of metadata: a record holds no more."""
HOURS_MS: Final = 1_800_000
T = TypeVar("T")


def long(kind: str, number: int, length: int) -> str:
    """A name of `length` characters that differs from others only at its end."""
    return f"{kind}{number:07}".rjust(length, "x")


def topic_name(number: int) -> str:
    """The name of a topic of the state, or of a new topic."""
    return long("t", number, 249)


def group_name(number: int) -> str:
    """The name of a group without members."""
    return long("g", number, 500)


def client_name(number: int) -> str:
    """The name of a user or a client that has quotas, credentials or access control entries."""
    return long("u", number, 500)


def pieces(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Divide rows into pieces, one for each request."""
    for start in range(0, len(rows), AT_ONCE):
        yield rows[start : start + AT_ONCE]


class State(NamedTuple):
    """A node with this state; `size` is the number of each kind of thing."""

    node: WorstNode
    size: int
    topic_ids: list[bytes]
    wide_id: bytes
    tokens: list[bytes]
    producers: list[tuple[int, int]]
    """Ids and epochs of the producers of transactional ids."""
    classic: Any
    """The answer to the leader of the classic group."""


WIDE, CLASSIC, CONSUMER, PATTERNS, COMMITTED = "wide", "classic", "consumer", "patterns", "committed"
"""A topic with `size` partitions; groups with as many members, or with offsets of as many partitions."""


def made(node: WorstNode, size: int) -> State:
    """Make the state."""
    ids = _topics(node, size)
    _security(node, size)
    _configs(node, size)
    producers = _transactions(node, size)
    _records(node, size, ids[WIDE])
    classic = _classic(node, size)
    _consumers(node, size)
    _offsets(node, size, ids[WIDE])
    return State(
        node, size, [ids[topic_name(i)] for i in range(size)], ids[WIDE], _tokens(node, size), producers, classic
    )


def _done(node: WorstNode, request: Message, version: int | None = None) -> Any:
    answer = node.ask(request, version)
    codes = errors_in(answer)
    assert not codes, (type(request).__name__, codes)
    return answer


def _topics(node: WorstNode, size: int) -> dict[str, bytes]:
    new = [create_topics.CreatableTopic(WIDE, size, 1)]
    new += [create_topics.CreatableTopic(topic_name(i), 1, 1) for i in range(size)]
    for rows in pieces(new):
        _done(node, create_topics.CreateTopicsRequest(rows, 60_000))
    return {topic.name: topic.topic_id for topic in _done(node, MetadataRequest(None)).topics}


def _security(node: WorstNode, size: int) -> None:
    everything = [create_acls.AclCreation(kind, "*", 3, "User:*", "*", 2, 3) for kind in (2, 3, 5)]
    everything.append(create_acls.AclCreation(4, "kafka-cluster", 3, "User:*", "*", 2, 3))
    # half of the entries name a whole name, half a prefix
    entries = [
        create_acls.AclCreation(2, topic_name(i), 3 + i % 2, f"User:{client_name(i)}", "*", 3 + i % 2, 3)
        for i in range(size)
    ]
    for rows in pieces([*everything, *entries]):
        _done(node, create_acls.CreateAclsRequest(rows))
    for quotas in pieces([quota(i) for i in range(size)]):
        _done(node, alter_client_quotas.AlterClientQuotasRequest(quotas))
    for users in pieces([credential(i) for i in range(size)]):
        _done(node, alter_user_scram_credentials.AlterUserScramCredentialsRequest([], users))


def quota(number: int, kind: str = "user", *, remove: bool = False) -> Any:
    """An entry of AlterClientQuotas."""
    entity = [alter_client_quotas.AlterClientQuotasRequestEntityData(kind, client_name(number))]
    return alter_client_quotas.AlterClientQuotasRequestEntryData(
        entity, [alter_client_quotas.OpData("producer_byte_rate", 1e9, remove)]
    )


def credential(number: int) -> Any:
    """A user of SCRAM."""
    return alter_user_scram_credentials.ScramCredentialUpsertion(client_name(number), 1, 4096, b"salt" * 10, b"p" * 32)


def config(kind: int, name: str, key: str, value: str) -> Any:
    """A resource with one config."""
    return incremental_alter_configs.AlterConfigsResource(
        kind, name, [incremental_alter_configs.AlterableConfig(key, 0, value)]
    )


def _configs(node: WorstNode, size: int) -> None:
    rows = [config(2, topic_name(i), "retention.ms", "1000") for i in range(size)]
    rows += [config(32, group_name(i), "consumer.session.timeout.ms", "50000") for i in range(size)]
    rows += [config(16, long("m", i, 200), "interval.ms", "1000") for i in range(size)]
    for some in pieces(rows):
        _done(node, incremental_alter_configs.IncrementalAlterConfigsRequest(some))


def _tokens(node: WorstNode, size: int) -> list[bytes]:
    renewers = [create_delegation_token.CreatableRenewers("User", client_name(0))]
    request = create_delegation_token.CreateDelegationTokenRequest(None, None, renewers, -1)
    return [_done(node, request).hmac for _ in range(size // 4)]


def _transactions(node: WorstNode, size: int) -> list[tuple[int, int]]:
    producers: list[tuple[int, int]] = []
    _done(node, find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    share = f"g:{as_text(bytes(15) + bytes([1]))}:0"
    _done(node, find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=[share]))
    node.world.run(lambda: False, 1_000)  # the shards of transactions and share states begin at the first request
    for i in range(size):
        name = long("x", i, 200)
        got = _done(node, init_producer_id.InitProducerIdRequest(name, 600_000))
        producers.append((got.producer_id, got.producer_epoch))
        topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(WIDE, [i % size])]
        _done(
            node,
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name, v3_and_below_producer_id=got.producer_id,
                v3_and_below_producer_epoch=got.producer_epoch, v3_and_below_topics=topics,
            ), 3,
        )  # fmt: skip
    return producers


def _records(node: WorstNode, size: int, wide: bytes) -> None:
    """Many producers write to one partition."""
    for number in range(size):
        data = batch(producer_id=100_000 + number, producer_epoch=0, base_sequence=0)
        rows = [produce.PartitionProduceData(0, data)]
        _done(node, produce.ProduceRequest(None, -1, 1_000, [produce.TopicProduceData("", wide, rows)]))


def joining(number: int, group: str = CLASSIC) -> Any:
    """JoinGroup of a static member."""
    protocols = [join_group.JoinGroupRequestProtocol("range", subscription(number))]
    return join_group.JoinGroupRequest(group, HOURS_MS, HOURS_MS, "", f"instance-{number}", "consumer", protocols, None)


def subscription(number: int) -> bytes:
    """The subscription of a member: to one topic with a long name, and with a kilobyte of user data."""
    name = topic_name(number).encode()
    return b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name + (1_000).to_bytes(4, "big") + bytes(1_000)


def _classic(node: WorstNode, size: int) -> Any:
    """Many members join, and settle in one generation."""
    members = min(size, MAX_MEMBERS)
    links = [node.connect() for _ in range(members)]
    for number, link in enumerate(links):
        link.send(joining(number))
    node.world.run(lambda: all(len(link.answers) == 3 for link in links), 60_000)
    answers = [link.answers[-1] for link in links]
    assert {answer.error_code for answer in answers} == {0}
    leader = next(answer for answer in answers if answer.member_id == answer.leader)
    assert len(leader.members) == members
    given = [sync_group.SyncGroupRequestAssignment(answer.member_id, b"a" * 200) for answer in answers]
    _done(
        node,
        sync_group.SyncGroupRequest(
            CLASSIC, leader.generation_id, leader.member_id, leader_instance(leader), "consumer", "range", given
        ),
    )
    for link in links:
        link.wire.cut()
    return leader


def leader_instance(leader: Any) -> str:
    """The instance id of the leader."""
    return next(str(row.group_instance_id) for row in leader.members if row.member_id == leader.member_id)


def beating(group: str, member: str, names: Sequence[str] | None, regex: str | None = None) -> Any:
    """A member of a consumer group joins."""
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group, member, 0, None, None, HOURS_MS, names, regex, None, []
    )


def _consumers(node: WorstNode, size: int) -> None:
    for number in range(size // 4):
        _done(node, beating(CONSUMER, f"m{number}", [topic_name(number), WIDE]))
        _done(node, beating(PATTERNS, f"m{number}", None, f"x*t[0-9]*{number}"))


def _offsets(node: WorstNode, size: int, wide: bytes) -> None:
    for number in range(size):
        rows = [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "m" * 200)]
        topics = [offset_commit.OffsetCommitRequestTopic("", wide, rows)]
        _done(node, offset_commit.OffsetCommitRequest(group_name(number), topics=topics))
    for some in pieces(range(size)):
        rows = [offset_commit.OffsetCommitRequestPartition(i, 1, -1, "m" * 200) for i in some]
        topics = [offset_commit.OffsetCommitRequestTopic("", wide, rows)]
        _done(node, offset_commit.OffsetCommitRequest(COMMITTED, topics=topics))


def names_of(count: int) -> list[MetadataRequestTopic]:
    """Topics of a Metadata request."""
    return [MetadataRequestTopic(name=topic_name(i)) for i in range(count)]
