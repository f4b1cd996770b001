"""`kafka-share-groups.sh`, `kafka-groups.sh` and `kafka-configs.sh` on share groups: Muster beside Kafka, word by word.

Both servers get the same share groups, by heartbeats alone; then Kafka's own tools run each command on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from muster.conform.player.brokers import connect
from tests.conformance.group_stages import TOPICS, Stage, check_equal, filled
from tests.conformance.java_tools import Tools, tools

__all__ = ["tools"]

SHARES = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PATIENT = {
    "group.share.session.timeout.ms": "600000", "group.share.max.session.timeout.ms": "600000",
    "group.share.assignment.interval.ms": "0", "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
}  # fmt: skip
LIVING = {"queue": (("worker-1", ("orders", "payments")),), "waiting": (("w", ("nowhere",)),)}
"""Groups with members: (member id, topics)."""
GONE = {"idle": ("orders",), "idle-2": ("payments",)}
"""Groups whose member has left, with its topics."""
TRIES = 60


class Shares(Stage):
    """The groups of this test on one server."""

    async def _join(self) -> None:
        client = await connect(*self.server.address)

        async def beat(group: str, member: str, epoch: int, topics: tuple[str, ...] | None) -> Any:
            names = None if topics is None else list(topics)
            body = {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, "SubscribedTopicNames": names}
            return await client.ask("ShareGroupHeartbeat", 1, {**body, "RackId": None})

        for group, topics in GONE.items():
            await self._settled(beat, group, "gone", topics)
            await beat(group, "gone", -1, None)
        for group, members in LIVING.items():
            for member, topics in members:
                await self._settled(beat, group, member, topics)
        await client.close()

    async def _settled(self, beat: Any, group: str, member: str, topics: tuple[str, ...]) -> None:
        """Send heartbeats until the member has partitions of all existing topics."""
        wanted = sum(TOPICS.get(topic, 0) for topic in topics)
        for _ in range(TRIES):
            answer = await beat(group, member, 0, topics)
            if answer["ErrorCode"] == 0:
                rows = answer["Assignment"]["TopicPartitions"]
                if sum(len(row["Partitions"]) for row in rows) == wanted:
                    return
            await asyncio.sleep(0.5)
        raise AssertionError(f"{member} of {group} got no partitions")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[tuple[Shares, Shares]]:
    yield from filled(tmp_path_factory, tools, PATIENT, Shares)


def commands() -> Iterator[tuple[str, ...]]:
    """Commands, those first that change nothing."""
    for more in ((), ("--state",), ("--state", "stable"), ("--state", "Empty,Stable"), ("--state", "wrong")):
        yield SHARES, "--list", *more
    for more in ((), ("--share",), ("--group-type", "share"), ("--group-type", "consumer"), ("--protocol", "share")):
        yield GROUPS, "--list", *more
    for group in (*LIVING, *GONE, "nobody"):
        for more in (
            (), ("--offsets",), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose"), ("--state",),
            ("--state", "--verbose"),
        ):  # fmt: skip
            yield SHARES, "--describe", "--group", group, *more
    for more in ((), ("--members",), ("--state",)):
        yield SHARES, "--describe", "--all-groups", *more
    for group in ("queue", "nobody"):
        yield SHARES, "--delete", "--group", group
        yield SHARES, "--delete-offsets", "--group", group, "--topic", "orders"
        yield SHARES, "--reset-offsets", "--group", group, "--topic", "orders", "--to-earliest", "--execute"
    for how in (("--to-earliest",), ("--to-latest",), ("--to-datetime", "2020-01-01T00:00:00.000")):
        yield SHARES, "--reset-offsets", "--group", "idle", "--topic", "orders", *how, "--dry-run"
        yield SHARES, "--reset-offsets", "--group", "idle", "--all-topics", *how, "--dry-run"
        yield SHARES, "--reset-offsets", "--group", "idle", "--topic", "orders", *how, "--execute"
        yield SHARES, "--describe", "--group", "idle", "--offsets", "--verbose"
    yield SHARES, "--reset-offsets", "--group", "idle", "--topic", "nowhere", "--to-latest", "--execute"
    yield SHARES, "--reset-offsets", "--group", "idle", "--topic", "orders:1", "--to-earliest", "--execute"
    yield SHARES, "--describe", "--group", "idle"
    yield SHARES, "--delete-offsets", "--group", "idle", "--topic", "orders", "--topic", "nowhere"
    yield SHARES, "--delete-offsets", "--group", "idle", "--topic", "payments"
    yield SHARES, "--describe", "--group", "idle"
    yield SHARES, "--delete", "--group", "idle", "--group", "idle-2", "--group", "nobody"
    yield SHARES, "--list", "--state"
    yield SHARES, "--reset-offsets", "--group", "new", "--topic", "orders", "--to-earliest", "--execute"
    yield SHARES, "--describe", "--group", "new", "--offsets"
    of_groups = ("--entity-type", "groups", "--entity-name", "queue")
    yield CONFIGS, "--describe", *of_groups
    for pair in (
        "share.session.timeout.ms=700000", "share.session.timeout.ms=50000", "share.heartbeat.interval.ms=6000",
        "share.heartbeat.interval.ms=20000", "share.heartbeat.interval.ms=x", "share.record.lock.duration.ms=1",
        "share.delivery.count.limit=7", "share.delivery.count.limit=99", "share.partition.max.record.locks=2500",
        "share.auto.offset.reset=earliest", "share.auto.offset.reset=by_duration:PT1H", "share.auto.offset.reset=none",
        "share.isolation.level=read_committed", "share.isolation.level=none", "share.assignment.interval.ms=500",
        "share.renew.acknowledge.enable=false", "errors.deadletterqueue.topic.name=dlq.queue", "share.unknown=1",
    ):  # fmt: skip
        yield CONFIGS, "--alter", *of_groups, "--add-config", pair
    yield CONFIGS, "--describe", *of_groups
    yield CONFIGS, "--describe", "--all", *of_groups
    yield CONFIGS, "--alter", *of_groups, "--delete-config", "share.session.timeout.ms,share.isolation.level"
    yield CONFIGS, "--describe", *of_groups


@pytest.mark.timeout(600)
def test_each_command_for_share_groups_prints_the_same_for_muster_and_kafka(pair: tuple[Shares, Shares]) -> None:
    check_equal(pair, commands(), tries=3)
