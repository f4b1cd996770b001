"""The three ACL APIs as clients see them: each answer is Kafka's, also after a restart and a lost permission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.api import many_rows
from muster.coordinator.api.security import acls
from muster.coordinator.config.config import ALLOW_EVERYONE, AUTHORIZER, STANDARD, SUPER_USERS
from muster.coordinator.server import Server
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.features import METADATA
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from muster.protocol.messages.delete_acls import DeleteAclsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.api.security.acl_exchanges import (
    CLOSED,
    EXCHANGES,
    create,
    delete,
    described,
    entry,
    kafkas,
    selected,
    values_of,
)
from tests.support.muster import Client, connected, running

SUPER = {AUTHORIZER: STANDARD, SUPER_USERS: "User:ANONYMOUS"}
OPEN = {AUTHORIZER: STANDARD, ALLOW_EVERYONE: "true"}
OTHER_HOST = "127.0.0.2"


@asynccontextmanager
async def from_other_host(server: Server) -> AsyncIterator[Client]:
    bound = server.bound[0]
    reader, writer = await asyncio.open_connection(bound.host, bound.port, local_addr=(OTHER_HOST, 0))
    try:
        yield Client(reader, writer, "test")
    finally:
        writer.close()


async def ask_all(server: Server) -> list[Any]:
    found = []
    for exchange in EXCHANGES:
        async with connected(server) as client:
            try:
                found.append(values_of(await client.ask(exchange.request, exchange.version)))
            except asyncio.IncompleteReadError:
                found.append(CLOSED)
    return found


@pytest.mark.parametrize(("what", "properties"), [("with an authorizer", SUPER), ("without one", {})])
async def test_every_answer_about_acls_equals_kafkas(what: str, properties: dict[str, str]) -> None:
    async with running(properties) as server:
        answers = await ask_all(server)
    for exchange, answer, known in zip(EXCHANGES, answers, kafkas()[what], strict=True):
        assert answer == known, exchange.name


async def test_acl_entries_survive_a_restart(tmp_path: Path) -> None:
    async with running(SUPER, data_dir=tmp_path) as server, connected(server) as client:
        await client.ask(create(entry(name="stays"), entry(name="goes")))
        await client.ask(delete(selected(name="goes", pattern=3)))
        before = values_of(await client.ask(described()))
    # without an authorizer no entry is lost
    async with running({}, data_dir=tmp_path) as server, connected(server) as client:
        assert values_of(await client.ask(described()))[0] == ErrorCode.SECURITY_DISABLED
    async with running(SUPER, data_dir=tmp_path) as server, connected(server) as client:
        assert values_of(await client.ask(described())) == before == [0, "", [[2, "stays", 3, [["User:a", "*", 3, 3]]]]]


async def test_a_range_of_hosts_needs_the_metadata_version_of_kafka_4_4() -> None:
    ask = create(entry(host="10.0.0.0/8"), entry(host="10.0.0.0/99"), entry(host="10.0.0.1"))
    refusal = [35, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."]
    async with running(SUPER) as server, connected(server) as client:
        at_once(server.node.topics.writing([FeatureLevelRecord(METADATA, 31)]))
        assert values_of(await client.ask(ask)) == [refusal, refusal, [0, ""]]


async def test_a_range_of_hosts_denies_its_clients() -> None:
    async with running(OPEN) as server, connected(server) as admin, from_other_host(server) as client:
        denied = entry(4, "kafka-cluster", principal="User:*", host="127.0.0.2/31", operation=8, permission=2)
        await admin.ask(create(denied, allow_all(4, "kafka-cluster")))
        assert (await admin.ask(described())).error_code == 0
        assert (await client.ask(described())).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def deny(kind: int, name: str, operation: int = 3) -> Any:
    return entry(kind, name, principal="User:*", host=OTHER_HOST, operation=operation, permission=2)


def allow_all(kind: int, name: str) -> Any:
    return entry(kind, name, principal="User:*", operation=2)


async def test_a_member_that_loses_its_permission_is_refused_at_its_next_request() -> None:
    """The rule also holds for cached requests, which are recognized only by their bytes."""
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with capture_logs() as lines:
        async with (
            running(OPEN, topics=["t:1"]) as server,
            connected(server) as admin,
            from_other_host(server) as member,
        ):
            protocols = [JoinGroupRequestProtocol("range", b"")]
            join = JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=protocols)
            join.member_id = (await member.ask(join)).member_id
            joined = await member.ask(join)
            assigned = [SyncGroupRequestAssignment(joined.member_id, b"x")]
            sync = SyncGroupRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range", assigned)
            assert (await member.ask(sync)).error_code == 0

            async def asked() -> list[int]:
                beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
                rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
                commit = OffsetCommitRequest("g", joined.generation_id, joined.member_id, topics=rows)
                return [
                    (await member.ask(beat)).error_code,
                    (await member.ask(commit, 9)).topics[0].partitions[0].error_code,
                ]

            for _ in range(5):
                assert await asked() == [0, 0]
            assert values_of(await admin.ask(create(deny(3, "g"), allow_all(3, "g")))) == [[0, ""]] * 2
            for _ in range(5):
                assert await asked() == [refused, refused]
            assert values_of(await admin.ask(delete(selected(permission=2))))[0][0] == 0
            for _ in range(5):
                assert await asked() == [0, 0]
    (line, *_) = [line for line in lines if line["event"] == "denied"]
    assert line["rule"].endswith(f"host={OTHER_HOST}, operation=READ, permissionType=DENY))")
    assert {name: line[name] for name in ("principal", "operation", "host", "resource", "request")} == {
        "principal": "User:ANONYMOUS",
        "operation": "READ",
        "host": OTHER_HOST,
        "resource": "GROUP:g",
        "request": "Heartbeat",
    }


async def test_a_consumer_group_member_that_loses_a_permission_is_refused() -> None:
    async with running(OPEN, topics=["t:1"]) as server, connected(server) as admin, from_other_host(server) as member:
        join = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"])
        join.topic_partitions = []
        joined = await member.ask(join)
        (topic,) = joined.assignment.topic_partitions
        owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic.topic_id, [0])]

        async def asked() -> list[int]:
            whole = ConsumerGroupHeartbeatRequest(
                "g", "m", joined.member_epoch, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"],
                topic_partitions=owned,
            )  # fmt: skip
            short = ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch)
            return [(await member.ask(whole)).error_code for _ in range(4)] + [
                (await member.ask(short)).error_code for _ in range(4)
            ]

        assert await asked() == [0] * 8
        await admin.ask(create(deny(2, "t", 8), allow_all(2, "t")))
        assert await asked() == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 4 + [0] * 4
        await admin.ask(create(deny(3, "g"), allow_all(3, "g")))
        assert await asked() == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 8
        await admin.ask(delete(selected(permission=2)))
        assert await asked() == [0] * 8


async def test_topics_without_describe_permission_are_not_shown() -> None:
    async with running(OPEN, topics=["seen:1", "hidden:1"]) as server, connected(server) as admin:
        await admin.ask(create(deny(2, "hidden", 8), allow_all(2, "hidden")))
        async with from_other_host(server) as client:
            names = {topic.name for topic in (await client.ask(MetadataRequest(None))).topics}
        assert "seen" in names
        assert "hidden" not in names
        assert "hidden" in {topic.name for topic in (await admin.ask(MetadataRequest(None))).topics}


async def test_a_pattern_resolves_only_to_topics_that_the_member_may_describe() -> None:
    async with (
        running(OPEN, topics=["web-a:1", "web-b:1"]) as server,
        connected(server) as admin,
        from_other_host(server) as member,
    ):
        await admin.ask(create(deny(2, "web-b", 8), allow_all(2, "web-b")))
        join = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_regex="web-.*")
        join.topic_partitions = []
        joined = await member.ask(join)
        beat = ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch)
        while not (joined.assignment and joined.assignment.topic_partitions):
            joined = await member.ask(beat)
            beat = ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch)
        ids = {topic.topic_id: topic.name for topic in (await admin.ask(MetadataRequest(None))).topics}
        assert [ids[topic.topic_id] for topic in joined.assignment.topic_partitions] == ["web-a"]


async def test_a_client_without_permission_cannot_change_acl_entries() -> None:
    async with running({AUTHORIZER: STANDARD}) as server, connected(server) as client:
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert values_of(await client.ask(described()))[0] == refused
        assert [row[0] for row in values_of(await client.ask(create(entry(), entry())))] == [refused] * 2
        assert [row[0] for row in values_of(await client.ask(delete(selected())))] == [refused]


async def test_the_numbers_of_acl_changes_and_entries_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MAX_CREATED", 5)
    monkeypatch.setattr(acls, "MAX_ACLS", 6)
    monkeypatch.setattr(acls, "WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr(acls, "MAX_DELETED", 5)
    monkeypatch.setattr(acls, "MAX_FILTERS", 3)
    async with running(SUPER) as server, connected(server) as client:

        async def made(*numbers: int) -> list[int]:
            answer = await client.ask(create(*(entry(name=f"t{number}") for number in numbers)))
            return [row.error_code for row in answer.results]

        policy = ErrorCode.POLICY_VIOLATION
        assert await made(*range(6)) == [policy] * 6
        assert await made(*range(5)) == [0] * 5
        assert await made(0, 5, 6, 1, 6) == [0, 0, policy, 0, policy]
        too_many = await client.ask(delete(selected()))
        assert [row.error_code for row in too_many.filter_results] == [policy]
        too_many = await client.ask(DeleteAclsRequest([selected()] * 4))
        assert [row.error_code for row in too_many.filter_results] == [policy] * 4
        assert len(values_of(await client.ask(described()))[2]) == 6
        some = await client.ask(delete(selected(name="t0"), selected(), selected(name="t1")))
        assert [row.error_code for row in some.filter_results] == [0, policy, policy]
        assert len(values_of(await client.ask(described()))[2]) == 5


async def test_acl_names_and_answers_have_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * (acls.MAX_NAME_BYTES + 1)
    async with running(SUPER) as server, connected(server) as client:
        rows = [entry(name=long), entry(principal=f"User:{long}"), entry(host=long), entry(name=long[1:], pattern=4)]
        rows.append(entry(name="a", pattern=4))
        answer = await client.ask(create(*rows))
        assert [row.error_code for row in answer.results] == [*[ErrorCode.INVALID_REQUEST] * 3, 0, 0]
        assert answer.results[0].error_message == "The name of a resource, a principal and a host may have 1024 bytes."
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (1_000,))
        assert values_of(await client.ask(described())) == [many_rows.TOO_LARGE, many_rows.TOO_LARGE_TEXT, []]
        assert values_of(await client.ask(described(name="another")))[0] == 0
