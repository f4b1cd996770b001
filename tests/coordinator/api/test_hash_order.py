"""The order of rows in answers: that of Kafka 4.3.1's answers to the same requests, with 50 offsets partitions."""

from __future__ import annotations

from typing import Any

from muster.coordinator.api.many_rows import MAX_ORDERED_NAMES, in_hash_order
from muster.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.support.muster import connected, running

GROUPS = ["g3", "none", "g1", "g17", "g1", "g9", "zz", "alpha", "beta", "delta", "g3", "payments", "a", "b", "c", "e"]
SETTLED = {"offsets.topic.num.partitions": "50"}


async def ask(request: Any, version: int | None = None) -> Any:
    async with running(SETTLED, topics=["zeta:1"]) as server, connected(server) as client:
        return await client.ask(request, version)


async def test_create_topics_answers_duplicate_and_prohibited_names_last() -> None:
    names = [
        "zeta-new", "twice", "__cluster_metadata", "alpha", "dup", "dup", "mid", "again", "twice", "again", "Beta",
        "dup", "third", "third",
    ]  # fmt: skip
    for version in (2, 5, 7):
        topics = [CreatableTopic(name, 2, 1) for name in names]
        answer = await ask(CreateTopicsRequest(topics, timeout_ms=5000, validate_only=True), version)
        assert [(row.name, row.error_code) for row in answer.topics] == [
            ("zeta-new", 0), ("alpha", 0), ("mid", 0), ("Beta", 0), ("twice", 42), ("third", 42), ("again", 42),
            ("dup", 42), ("__cluster_metadata", 42),
        ]  # fmt: skip


async def test_create_partitions_answers_duplicate_names_first() -> None:
    names = [
        "zeta", "twice", "alpha", "dup", "dup", "mid", "again", "twice", "again", "Beta", "none", "third", "third",
        "k1", "k2", "nope",
    ]  # fmt: skip
    topics = [CreatePartitionsTopic(name, 3, None) for name in names]
    answer = await ask(CreatePartitionsRequest(topics, 5000, validate_only=True))
    assert [row.name for row in answer.results] == [
        "twice", "third", "again", "dup", "zeta", "nope", "k1", "alpha", "k2", "mid", "none", "Beta",
    ]  # fmt: skip


async def test_groups_are_described_and_deleted_in_the_order_of_their_coordinators() -> None:
    described = await ask(DescribeGroupsRequest(GROUPS))
    assert [row.group_id for row in described.groups] == [
        "a", "b", "g9", "payments", "g3", "g3", "none", "g1", "g1", "g17", "beta", "delta", "zz", "e", "c", "alpha",
    ]  # fmt: skip
    deleted = await ask(DeleteGroupsRequest(GROUPS))
    assert [row.group_id for row in deleted.results] == [
        "a", "b", "g9", "payments", "g3", "g1", "none", "g17", "delta", "beta", "zz", "e", "c", "alpha",
    ]  # fmt: skip


async def test_the_empty_name_is_refused_as_a_consumer_group() -> None:
    for version in (0, 1):
        answer = await ask(ConsumerGroupDescribeRequest(["g1", "", "none", "c", "g9"]), version)
        assert [(row.group_id, row.error_code, row.error_message) for row in answer.groups] == [
            ("", 24, None), ("g9", 69, "Group g9 not found."), ("g1", 69, "Group g1 not found."),
            ("none", 69, "Group none not found."), ("c", 69, "Group c not found."),
        ]  # fmt: skip


async def test_users_whose_credentials_are_refused_are_answered_last() -> None:
    deletions = [ScramCredentialDeletion("nouser2", 1), ScramCredentialDeletion("nouser1", 2)]
    wanted = (("zed", 1, 4096), ("amy", 1, 10), ("amy2", 9, 4096), ("bob", 2, 4096), ("cat", 1, 8192), ("zed", 2, 4096))
    upsertions = [ScramCredentialUpsertion(*row, b"salt", b"x" * 32) for row in wanted]
    answer = await ask(AlterUserScramCredentialsRequest(deletions, upsertions))
    assert [(row.user, row.error_code) for row in answer.results] == [
        ("bob", 0), ("cat", 0), ("nouser1", 91), ("amy2", 33), ("zed", 92), ("nouser2", 91), ("amy", 93),
    ]  # fmt: skip


def test_very_many_names_keep_the_order_of_the_request() -> None:
    names = [f"name-{number}" for number in range(MAX_ORDERED_NAMES + 1)]
    assert in_hash_order(names) == names
    assert in_hash_order(names[:-1]) != names[:-1]
    assert in_hash_order(["b" * 60_000, "a"]) == ["b" * 60_000, "a"]
