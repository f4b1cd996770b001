"""Streams groups (KIP-1071) with members move between servers: Muster takes over Kafka's partitions of
`__consumer_offsets`, and Kafka takes over Muster's. The members continue where they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.conform.player.connection import Connection
from tests.conformance.test_java_streams_tools import topology
from tests.conformance.test_log_consumer_groups import give_back, take_over
from tests.conformance.test_log_exchange import PROPERTIES
from tests.e2e.conftest import create_topic
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

GROUP = "app"
SETTINGS = {
    **PROPERTIES, "group.streams.assignment.interval.ms": "0", "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
}  # fmt: skip
TOPICS = {"orders": 4}
INTERNAL = (f"{GROUP}-words-repartition", f"{GROUP}-counts-changelog")
KINDS = ("Active", "Standby", "Warmup")
Body = dict[str, Any]


class Instance:
    """A member of the group, as a client knows itself."""

    def __init__(self, name: str, instance: str | None = None) -> None:
        self.name, self.instance = name, instance
        self.epoch = 0
        self.has: Body = {}

    async def beat(self, at: Connection, **said: Any) -> Body:
        """Send a heartbeat, and take the tasks of the answer."""
        body: Body = {
            "GroupId": GROUP, "MemberId": self.name, "MemberEpoch": self.epoch, "EndpointInformationEpoch": 0,
            "InstanceId": self.instance, "RackId": None, "RebalanceTimeoutMs": -1, "Topology": None,
            "ProcessId": None, "UserEndpoint": None, "ClientTags": None, "TaskOffsets": None, "TaskEndOffsets": None,
            "ShutdownApplication": False, **{f"{kind}Tasks": self.has.get(kind) for kind in KINDS}, **said,
        }  # fmt: skip
        answer = await at.ask("StreamsGroupHeartbeat", 1, body)
        assert not answer["ErrorCode"], (self.name, answer)
        self.epoch = answer["MemberEpoch"]
        if answer["ActiveTasks"] is not None:
            self.has = {kind: answer[f"{kind}Tasks"] for kind in KINDS}
        return dict(answer)

    async def enter(self, at: Connection) -> None:
        """Let the member join."""
        self.epoch, self.has = 0, {kind: [] for kind in KINDS}
        tags = [{"Key": "zone", "Value": "a"}]
        sent = topology(GROUP, "orders")
        await self.beat(at, RebalanceTimeoutMs=60_000, Topology=sent, ProcessId=f"p-{self.name}", ClientTags=tags)

    async def commit(self, at: Connection, offset: int) -> None:
        """Commit a partition of the source topic that the member has."""
        number = next(row["Partitions"][0] for row in self.has["Active"] if row["SubtopologyId"] == "0")
        row = {"PartitionIndex": number, "CommittedOffset": offset, "CommittedMetadata": "", "CommittedLeaderEpoch": -1}
        body = {
            "GroupId": GROUP, "GenerationIdOrMemberEpoch": self.epoch, "MemberId": self.name, "GroupInstanceId": None,
            "Topics": [{"Name": "orders", "Partitions": [row]}],
        }  # fmt: skip
        answer = await at.ask("OffsetCommit", 9, body)
        assert not answer["Topics"][0]["Partitions"][0]["ErrorCode"], answer


async def connect(server: ServerProcess) -> Connection:
    """Connect as soon as the coordinator answers."""
    at = await Connection.to(*server.address)
    for _ in range(300):
        if (await described(at))["ErrorCode"] not in (14, 15, 16):
            return at
        await asyncio.sleep(0.1)
    raise AssertionError("no coordinator")


async def described(at: Connection) -> Body:
    """The group. The partition counts of internal topics are left out: a server decides them at a heartbeat."""
    asked = {"GroupIds": [GROUP], "IncludeAuthorizedOperations": False, "IncludeTopologyDescription": False}
    (group,) = (await at.ask("StreamsGroupDescribe", 1, asked))["Groups"]
    group["Members"].sort(key=lambda member: str(member["MemberId"]))
    for row in group["Topology"]["Subtopologies"] if group["Topology"] else ():
        for topic in (*row["StateChangelogTopics"], *row["RepartitionSourceTopics"]):
            topic["Partitions"] = 0
    return dict(group)


async def settle(at: Connection, members: list[Instance]) -> Body:
    """Send heartbeats until the group is stable; the group."""
    for _ in range(100):
        for member in members:
            await member.beat(at)
        group = await described(at)
        if group["GroupState"] == "Stable" and all(member.has["Active"] for member in members):
            return group
        await asyncio.sleep(0.1)
    raise AssertionError(group)


async def begin(server: ServerProcess, members: list[Instance]) -> Body:
    """A group with three members. The first has tasks that the third waits for."""
    at = await connect(server)
    for number, member in enumerate(members[:2], 1):
        await member.enter(at)
        await settle(at, members[:number])
    await members[0].commit(at, 5)
    await members[2].enter(at)
    await members[0].beat(at)
    group = await described(at)
    await at.close()
    return group


async def go_on(server: ServerProcess, before: Body, members: list[Instance], newcomer: Instance) -> Body:
    """The group is as before, its members follow their targets, one leaves and one joins."""
    at = await connect(server)
    assert await described(at) == before
    await settle(at, members)
    await members[2].beat(at, MemberEpoch=-1)
    await newcomer.enter(at)
    await settle(at, [*members[:2], newcomer])
    await members[0].commit(at, 6)
    group = await described(at)
    assert group["GroupEpoch"] > before["GroupEpoch"]
    await at.close()
    return group


async def look(server: ServerProcess, before: Body, members: list[Instance]) -> Body:
    """The group is as before, and accepts its members."""
    at = await connect(server)
    assert await described(at) == before
    after = await settle(at, members)
    assert after["GroupEpoch"] == before["GroupEpoch"]
    await at.close()
    return after


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[KafkaServer, MusterServer]]:
    """A Kafka that runs and has the topic, and a Muster that was not started."""
    kafka, muster = KafkaServer(tmp_path / "kafka", SETTINGS), MusterServer(tmp_path / "muster", SETTINGS)
    kafka.start()
    for name, partitions in TOPICS.items():
        create_topic(kafka, name, partitions)
    yield kafka, muster
    for server in (kafka, muster):
        if server.running:
            server.kill()


def test_streams_groups_go_on_from_kafka_to_muster_and_back(servers: tuple[KafkaServer, MusterServer]) -> None:
    kafka, muster = servers
    members = [Instance("first"), Instance("second", "i-second"), Instance("third")]
    newcomer = Instance("newcomer")
    before = asyncio.run(begin(kafka, members))
    assert (before["GroupState"], len(before["Members"])) == ("Reconciling", 3)
    kafka.kill()
    take_over(kafka.workdir / "data" / "logs", muster.workdir / "data", (*TOPICS, *INTERNAL))
    muster.start()
    after = asyncio.run(go_on(muster, before, members, newcomer))
    muster.kill()
    muster.start()  # read from its own log
    at_last = asyncio.run(look(muster, after, [*members[:2], newcomer]))
    muster.kill()
    give_back(muster, kafka)
    kafka.start()
    asyncio.run(look(kafka, at_last, [*members[:2], newcomer]))
    kafka.stop()
