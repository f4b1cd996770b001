"""Consumer groups (KIP-848) with members move between servers: Muster takes over Kafka's partitions of
`__consumer_offsets`, and Kafka takes over Muster's. The members continue where they were.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.conform.player.connection import Connection
from muster.conform.player.stage import bytes_of
from tests.conformance.test_log_exchange import NAMES_IN_KAFKA, PROPERTIES, folders
from tests.e2e.conftest import create_topic
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

GROUP = "consumers"
SETTINGS = {**PROPERTIES, "group.consumer.assignment.interval.ms": "0"}
TOPICS = {"orders": 20, "bills": 3}
Body = dict[str, Any]


class Member:
    """A member of the group, as a client knows itself."""

    def __init__(self, name: str, instance: str | None = None) -> None:
        self.name, self.instance = name, instance
        self.epoch = 0
        self.has: list[Body] = []

    async def beat(self, at: Connection, **said: Any) -> Body:
        """Send a heartbeat, and take the assignment of the answer."""
        body: Body = {
            "GroupId": GROUP,
            "MemberId": self.name,
            "MemberEpoch": self.epoch,
            "InstanceId": self.instance,
            "RackId": None,
            "RebalanceTimeoutMs": -1,
            "SubscribedTopicNames": None,
            "SubscribedTopicRegex": None,
            "ServerAssignor": None,
            "TopicPartitions": self.has,
            **said,
        }
        answer = await at.ask("ConsumerGroupHeartbeat", 1, body)
        assert not answer["ErrorCode"], (self.name, answer)
        self.epoch = answer["MemberEpoch"]
        if answer["Assignment"] is not None:
            self.has = answer["Assignment"]["TopicPartitions"]
        return answer

    async def enter(self, at: Connection, **said: Any) -> None:
        """Let the member join."""
        self.epoch, self.has = 0, []
        await self.beat(at, RebalanceTimeoutMs=60_000, TopicPartitions=[], **said)


async def connect(server: ServerProcess) -> Connection:
    """Connect as soon as the group exists."""
    host, port = server.address
    at = await Connection.to(host, port)
    asked = {"GroupIds": [GROUP], "IncludeAuthorizedOperations": False}
    for _ in range(300):
        (group,) = (await at.ask("ConsumerGroupDescribe", 1, asked))["Groups"]
        if group["ErrorCode"] not in (14, 15, 16):
            return at
        await asyncio.sleep(0.1)
    raise AssertionError(group)


async def describe(at: Connection) -> Body:
    """The group, with the names of members and topics, and partitions ascending."""
    (group,) = (await at.ask("ConsumerGroupDescribe", 1, {"GroupIds": [GROUP], "IncludeAuthorizedOperations": False}))[
        "Groups"
    ]
    for member in group["Members"]:
        for name in ("Assignment", "TargetAssignment"):
            rows = member[name]["TopicPartitions"]
            member[name] = {row["TopicName"]: (row["TopicId"], sorted(row["Partitions"])) for row in rows}
        member["SubscribedTopicNames"].sort()
    group["Members"].sort(key=lambda member: str(member["MemberId"]))
    return dict(group)


async def begin(server: ServerProcess, members: list[Member]) -> Body:
    """A group with dynamic and static members, one with a pattern, and a classic member that has not yet joined
    again.
    """
    at = await connect(server)
    first, second, third = members
    await first.enter(at, SubscribedTopicNames=["orders"])
    await second.enter(at, SubscribedTopicNames=["orders", "bills"], ServerAssignor="range")
    await third.enter(at, SubscribedTopicNames=["bills"], SubscribedTopicRegex="ord.*")
    for _ in range(8):
        await asyncio.sleep(0.05)
        for member in members:
            await member.beat(at)
    await commit(at, first, 5)
    asked = {
        "GroupId": GROUP, "SessionTimeoutMs": 45_000, "RebalanceTimeoutMs": 60_000, "MemberId": "",
        "GroupInstanceId": "i-classic", "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": bytes_of("sub(orders)")}], "Reason": None,
    }  # fmt: skip
    assert not (await at.ask("JoinGroup", 9, asked))["ErrorCode"]
    # one member has partitions to give up, the others wait for them
    await first.beat(at)
    group = await describe(at)
    await at.close()
    return group


async def commit(at: Connection, member: Member, offset: int) -> None:
    """Commit one partition of the member."""
    topic = member.has[0]
    rows = [{"PartitionIndex": topic["Partitions"][0], "CommittedOffset": offset, "CommittedMetadata": "m"}]
    rows[0]["CommittedLeaderEpoch"] = -1
    body = {
        "GroupId": GROUP, "GenerationIdOrMemberEpoch": member.epoch, "MemberId": member.name, "GroupInstanceId": None,
        "Topics": [{"TopicId": topic["TopicId"], "Name": "", "Partitions": rows}],
    }  # fmt: skip
    answer = await at.ask("OffsetCommit", 10, body)
    assert not answer["Topics"][0]["Partitions"][0]["ErrorCode"], answer


async def go_on(server: ServerProcess, before: Body, members: list[Member], newcomer: Member) -> Body:
    """The group is as before, its members follow their targets, one leaves and one joins."""
    at = await connect(server)
    assert await describe(at) == before
    first, second, _ = members
    for _ in range(6):
        for member in members:
            await member.beat(at)
        await asyncio.sleep(0.05)
    leave = {"GroupId": GROUP, "Members": [{"MemberId": "", "GroupInstanceId": "i-classic", "Reason": None}]}
    assert not (await at.ask("LeaveGroup", 5, leave))["Members"][0]["ErrorCode"]
    await newcomer.enter(at, SubscribedTopicNames=["orders"])
    for _ in range(6):
        for member in (*members, newcomer):
            await member.beat(at)
    await commit(at, first, 6)
    await second.beat(at, SubscribedTopicNames=["bills"])
    group = await describe(at)
    assert group["AssignmentEpoch"] > before["AssignmentEpoch"]
    owned = [(topic, one) for row in group["Members"] for topic, its in row["Assignment"].items() for one in its[1]]
    assert len(owned) == len(set(owned))
    await at.close()
    return group


async def look(server: ServerProcess, before: Body, members: list[Member]) -> None:
    """Check that the group is as before, and accepts its members."""
    at = await connect(server)
    assert await describe(at) == before
    for member in members:
        await member.beat(at)
    await at.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[KafkaServer, MusterServer]]:
    """A Kafka that runs and has the topics, and a Muster that was not started."""
    kafka, muster = KafkaServer(tmp_path / "kafka", SETTINGS), MusterServer(tmp_path / "muster", SETTINGS)
    kafka.start()
    for name, partitions in TOPICS.items():
        create_topic(kafka, name, partitions)
    yield kafka, muster
    for server in (kafka, muster):
        if server.running:
            server.kill()


def take_over(source: Path, target: Path, topics: Collection[str] = ()) -> None:
    """Copy the partitions of the offsets topic, and those of the topics whose ids are in the records."""
    for path in source.iterdir():
        if path.name.rpartition("-")[0] in topics:
            shutil.copytree(path, target / path.name)
    for folder in folders(source):
        there = target / folder.name
        if not topics:
            for path in there.iterdir():
                if path.name not in NAMES_IN_KAFKA:
                    path.unlink()
        there.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if topics or path.name not in NAMES_IN_KAFKA:
                shutil.copy(path, there)


def give_back(muster: MusterServer, kafka: KafkaServer) -> None:
    logs = kafka.workdir / "data" / "logs"
    take_over(muster.workdir / "data", logs)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (logs / name).unlink(missing_ok=True)


def test_consumer_groups_go_on_from_kafka_to_muster_and_back(
    servers: tuple[KafkaServer, MusterServer],
) -> None:
    kafka, muster = servers
    members = [Member("first"), Member("second", "i-second"), Member("third")]
    newcomer = Member("newcomer")
    before = asyncio.run(begin(kafka, members))
    assert (before["GroupState"], len(before["Members"])) == ("Reconciling", 4)
    assert {member["MemberType"] for member in before["Members"]} == {0, 1}
    kafka.kill()
    take_over(kafka.workdir / "data" / "logs", muster.workdir / "data", TOPICS)
    muster.start()
    after = asyncio.run(go_on(muster, before, members, newcomer))
    muster.kill()
    muster.start()  # read from its own log
    asyncio.run(look(muster, after, [*members, newcomer]))
    at_last = asyncio.run(described_group(muster))
    muster.kill()
    give_back(muster, kafka)
    kafka.start()
    asyncio.run(look(kafka, at_last, [*members, newcomer]))
    kafka.stop()


async def described_group(server: ServerProcess) -> Body:
    """The group, as it is now."""
    at = await connect(server)
    group = await describe(at)
    await at.close()
    return group
