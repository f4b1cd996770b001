"""The answer to a client whose group request cannot be served, in every version of every API, as bytes on a socket.

Answers are read by Kafka's own message definitions (conform/player/kafka_codec.py), so that a field that is missing, or
in the wrong place, shows. The errors and the bits of the operations are those of Apache Kafka 4.3.0 without an
authorizer.
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.conform.player import kafka_codec as codec
from muster.conform.player.connection import Connection
from muster.coordinator.api.registry import SERVED
from muster.coordinator.runtime.loader import Loader
from muster.coordinator.server import Server
from muster.protocol.api import api_named
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.muster import connected, running

GROUP = {"GroupId": "nobody"}
MEMBER = {**GROUP, "GenerationId": 1, "MemberId": "ghost"}
ASKED: dict[str, dict[str, Any]] = {
    "JoinGroup": {
        **GROUP,
        "SessionTimeoutMs": 10_000,
        "RebalanceTimeoutMs": 10_000,
        "MemberId": "ghost",
        "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": b""}],
    },
    "SyncGroup": {**MEMBER, "ProtocolType": "consumer", "ProtocolName": "range"},
    "Heartbeat": MEMBER,
    "LeaveGroup": {**GROUP, "MemberId": "ghost", "Members": [{"MemberId": "ghost"}]},
    "OffsetCommit": {
        **GROUP,
        "GenerationIdOrMemberEpoch": 1,
        "MemberId": "ghost",
        "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 5}]}],
    },
    "OffsetFetch": {
        **GROUP,
        "Topics": [{"Name": "t", "PartitionIndexes": [0]}],
        "Groups": [{**GROUP, "Topics": [{"Name": "t", "PartitionIndexes": [0]}]}],
    },
    "OffsetDelete": {**GROUP, "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0}]}]},
    "DescribeGroups": {"Groups": ["nobody"]},
    "DeleteGroups": {"GroupsNames": ["nobody"]},
    "ListGroups": {},
}
"""A request of each API, about a group that does not exist."""

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, GROUP_ID_NOT_FOUND = 22, 25, 27, 69
LOADING, NOT_COORDINATOR = 14, 16


def versions(name: str) -> range:
    """The versions that are served."""
    served = SERVED[api_named(name).key]
    return range(served.served_from, served.max_version + 1)


def unknown(name: str, version: int) -> list[int]:
    """All error codes of the answer, in their order, for a group that does not exist."""
    if name == "LeaveGroup":
        return [UNKNOWN_MEMBER_ID] if version < 3 else [0, UNKNOWN_MEMBER_ID]
    if name == "OffsetCommit":
        return [GROUP_ID_NOT_FOUND if version >= 9 else ILLEGAL_GENERATION]
    if name == "OffsetFetch":
        return [0] if version == 1 else [0, 0]
    if name == "DescribeGroups":
        return [GROUP_ID_NOT_FOUND if version >= 6 else 0]
    return [{"ListGroups": 0, "OffsetDelete": 69, "DeleteGroups": 69}.get(name, UNKNOWN_MEMBER_ID)]


def everywhere(name: str, version: int, error: int) -> list[int]:
    """The same when the coordinator does not check the group: one error, wherever the version has a field for it."""
    # old clients of OffsetFetch read only the rows, so the rows have the error too
    return [error, error] if name == "OffsetFetch" and 2 <= version <= 7 else [error]


def errors(body: Any) -> list[int]:
    """All error codes of an answer, in their order."""
    if isinstance(body, list):
        return [error for row in body for error in errors(row)]
    if not isinstance(body, dict):
        return []
    return [error for name, value in body.items() for error in ([value] if name == "ErrorCode" else errors(value))]


async def ask(server: Server, name: str, version: int) -> dict[str, Any]:
    """The answer; its throttle time must be 0, in each version with this field."""
    asked = dict(ASKED[name])
    topics = server.node.topics.image
    if name in ("OffsetCommit", "OffsetFetch") and version >= 10:
        asked = _by_id(asked, topics.by_name["t"].topic_id)
    elif name == "OffsetFetch":
        asked.pop("Groups" if version < 8 else "Topics")
    elif name == "LeaveGroup":
        asked.pop("Members" if version < 3 else "MemberId")
    connection = await Connection.to("127.0.0.1", server.bound[0].port)
    try:
        body = await connection.ask(name, version, asked)
    finally:
        await connection.close()
    fields = {field["name"]: field for field in codec.MESSAGES[f"{name}Response"]["fields"]}
    wanted = {name: row["versions"] for name, row in fields.items() if codec.in_range(row["versions"], version)}
    shown = {name: value for name, value in body.items() if name in wanted}
    assert shown.get("ThrottleTimeMs", 0) == 0
    assert "ThrottleTimeMs" in shown or version < int(fields["ThrottleTimeMs"]["versions"].rstrip("+"))
    # a field that the version does not have is not in the answer
    return shown


def _by_id(asked: dict[str, Any], topic_id: bytes) -> dict[str, Any]:
    real = uuid.UUID(bytes=topic_id)

    def named(topic: dict[str, Any]) -> dict[str, Any]:
        return {**{key: value for key, value in topic.items() if key != "Name"}, "TopicId": real}

    if "Groups" in asked:
        groups = [{**group, "Topics": [named(one) for one in group["Topics"]]} for group in asked["Groups"]]
        return {"Groups": groups}
    return {**asked, "Topics": [named(one) for one in asked["Topics"]]}


@pytest.mark.parametrize("name", ASKED)
async def test_requests_to_an_unknown_group_have_kafkas_bytes_in_every_version(
    muster_server: Server, name: str
) -> None:
    for version in versions(name):
        assert errors(await ask(muster_server, name, version)) == unknown(name, version), version


@asynccontextmanager
async def loading(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server that has not begun to load its groups when clients connect."""
    monkeypatch.setattr("muster.coordinator.server.server.LOAD_BEFORE_LISTENING_MS", -1)
    monkeypatch.setattr(Loader, "_next_step", lambda self: None)
    async with running(topics=["t:1"]) as server:
        assert not any(shard.active for shard in server.routing.shards)
        yield server


@pytest.mark.parametrize("name", ASKED)
async def test_requests_while_groups_load_have_kafkas_bytes_in_every_version(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    error = {"Heartbeat": 0, "SyncGroup": REBALANCE_IN_PROGRESS}.get(name, LOADING)
    async with loading(monkeypatch) as server:
        for version in versions(name):
            body = await ask(server, name, version)
            assert errors(body) == everywhere(name, version, error), version
            if name == "JoinGroup":
                assert (body["MemberId"], body["GenerationId"], body["Leader"]) == ("", -1, "")


@pytest.mark.parametrize("name", ASKED)
async def test_refusals_of_another_nodes_group_have_kafkas_bytes_in_every_version(
    muster_server: Server, name: str
) -> None:
    for shard in muster_server.routing.shards:
        shard.runtime.resign()
    # groups of other coordinators are not listed here, and this is no error
    error = 0 if name == "ListGroups" else NOT_COORDINATOR
    for version in versions(name):
        assert errors(await ask(muster_server, name, version)) == everywhere(name, version, error), version


@pytest.mark.parametrize("name", [*ASKED, "FindCoordinator"])
async def test_a_version_that_is_not_served_closes_only_its_connection(muster_server: Server, name: str) -> None:
    served = SERVED[api_named(name).key]
    async with connected(muster_server) as other:
        for version in (served.served_from - 1, served.max_version + 1, 1000):
            async with connected(muster_server) as client:
                client.writer.write(struct.pack(">ihhihbb", 14, served.key, version, 7, 1, 99, 0) + b"\0\0")
                assert await asyncio.wait_for(client.closed(), 10)
        assert (await other.ask(DescribeGroupsRequest(["nobody"]), 5)).groups[0].error_code == 0


NULL, EMPTY, NONE, ONE = b"\xff\xff", b"\0\0", struct.pack(">i", 0), struct.pack(">i", 1)
WITHOUT_A_GROUP = {
    "JoinGroup": (0, NULL + struct.pack(">i", 10_000) + EMPTY + EMPTY + NONE),
    "SyncGroup": (0, NULL + ONE + EMPTY + NONE),
    "Heartbeat": (0, NULL + ONE + EMPTY),
    "LeaveGroup": (0, NULL + EMPTY),
    "OffsetCommit": (2, NULL + struct.pack(">i", -1) + EMPTY + struct.pack(">q", -1) + NONE),
    "OffsetFetch": (1, NULL + NONE),
    "OffsetDelete": (0, NULL + NONE),
    "DescribeGroups": (0, ONE + NULL),
    "DeleteGroups": (0, ONE + NULL),
    "FindCoordinator": (0, NULL),
}
"""The first served version of each API, and a body whose group id is null."""


@pytest.mark.parametrize("name", WITHOUT_A_GROUP)
async def test_a_null_group_id_is_malformed(muster_server: Server, name: str) -> None:
    version, body = WITHOUT_A_GROUP[name]
    frame = struct.pack(">hhih", api_named(name).key, version, 7, 1) + b"c" + body
    async with connected(muster_server) as client:
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        assert await asyncio.wait_for(client.reader.read(), 10) == b""


def bits(number: int) -> list[int] | None:
    """Which bits are set; None when the answer has none."""
    return None if number == -(2**31) else [bit for bit in range(31) if number >> bit & 1]


OF_A_TOPIC, OF_THE_CLUSTER, OF_A_GROUP = [3, 4, 5, 6, 7, 8, 10, 11], [5, 7, 8, 9, 10, 11, 12], [3, 6, 8, 10, 11]
"""Kafka's AclOperation codes: all operations on each type."""


@pytest.mark.parametrize("version", range(8, 14))
async def test_metadata_has_authorized_operations_in_each_version(muster_server: Server, version: int) -> None:
    topics = [MetadataRequestTopic(name=name) for name in ("t", "no-such-topic", "no such name")]
    cluster = version <= 10  # later it is DescribeCluster that answers (KIP-700)
    async with connected(muster_server) as client:
        for wanted in (True, False):
            request = MetadataRequest(topics, False, wanted and cluster, wanted)
            answer = await client.ask(request, version)
            assert [topic.error_code for topic in answer.topics] == [0, 3, 17]
            of_topics = [bits(topic.topic_authorized_operations) for topic in answer.topics]
            assert of_topics == [OF_A_TOPIC if wanted else None] * 3
            assert bits(answer.cluster_authorized_operations) == (OF_THE_CLUSTER if wanted and cluster else None)


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster_has_authorized_operations_in_each_version(muster_server: Server, version: int) -> None:
    async with connected(muster_server) as client:
        for wanted in (True, False):
            answer = await client.ask(DescribeClusterRequest(wanted), version)
            assert bits(answer.cluster_authorized_operations) == (OF_THE_CLUSTER if wanted else None)


@pytest.mark.parametrize("version", range(3, 7))
async def test_describe_groups_has_authorized_operations_in_each_version(muster_server: Server, version: int) -> None:
    async with connected(muster_server) as client:
        for wanted in (True, False):
            answer = await client.ask(DescribeGroupsRequest(["nobody"], wanted), version)
            reported = wanted and version < 6  # in these versions an unknown group is an error, and has no operations
            assert bits(answer.groups[0].authorized_operations) == (OF_A_GROUP if reported else None)
