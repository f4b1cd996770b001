"""`kafka-streams-groups.sh`, `kafka-groups.sh` and `kafka-configs.sh` on streams groups: Muster beside Kafka.

Both servers get the same streams groups, by heartbeats and commits alone; then Kafka's own tools run each command on
both, and their outputs are compared word by word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from muster.conform.player.brokers import AnyConnection, connect
from tests.conformance.group_stages import Stage, check_equal, filled
from tests.conformance.java_tools import Tools, tools

__all__ = ["tools"]

STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PATIENT = {
    "group.streams.session.timeout.ms": "600000", "group.streams.max.session.timeout.ms": "600000",
    "group.streams.assignment.interval.ms": "0", "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
}  # fmt: skip
LIVING = {"app": ("instance-1", "instance-2"), "single": ("alone",)}
"""Groups with members, which count the orders by a repartition topic."""
GONE = ("idle", "idle-2", "idle-3", "idle-4")
"""Groups whose members have left."""
TRIES = 60
NO_EPOCHS: Final = {"TaskOffsets": None, "TaskEndOffsets": None, "ShutdownApplication": False}


def topology(group: str, source: str) -> dict[str, Any]:
    """Words of a source are counted in a second subtopology."""
    words, counts = f"{group}-words-repartition", f"{group}-counts-changelog"
    own = {"Partitions": 0, "ReplicationFactor": 0}
    first = {"SubtopologyId": "0", "SourceTopics": [source], "RepartitionSinkTopics": [words]}
    second = {
        "SubtopologyId": "1", "SourceTopics": [], "RepartitionSinkTopics": [],
        "RepartitionSourceTopics": [{"Name": words, **own, "TopicConfigs": []}],
        "StateChangelogTopics": [
            {"Name": counts, **own, "TopicConfigs": [{"Key": "cleanup.policy", "Value": "compact"}]}
        ],
    }  # fmt: skip
    nothing = {
        "SourceTopicRegex": [], "StateChangelogTopics": [], "RepartitionSourceTopics": [], "CopartitionGroups": []
    }  # fmt: skip
    return {"Epoch": 0, "Subtopologies": [{**nothing, **first}, {**nothing, **second}]}


class Applications(Stage):
    """The groups of this test on one server."""

    async def _join(self) -> None:
        client = await connect(*self.server.address)
        for group in GONE:
            epoch = await _settled(client, group, ("gone",))
            await _commit(client, group, "gone", epoch, {"orders": (3, 4)})
            await _beat(client, group, "gone", -1)
        for group, members in LIVING.items():
            epoch = await _settled(client, group, members)
            await _commit(client, group, members[0], epoch, {"orders": (5, 7)})
        await _beat(client, "waiting", "w", 0, topology("waiting", "nowhere"))
        await client.close()


async def _beat(
    client: AnyConnection, group: str, member: str, epoch: int, sent: Any = None, tasks: Any = None
) -> dict[str, Any]:
    rows = ([], [], []) if epoch == 0 else tasks or (None, None, None)
    active, standby, warmup = rows
    body = {
        "GroupId": group, "MemberId": member, "MemberEpoch": epoch, "EndpointInformationEpoch": 0, "InstanceId": None,
        "RackId": None, "RebalanceTimeoutMs": 300_000 if epoch == 0 else -1, "Topology": sent, "ActiveTasks": active,
        "StandbyTasks": standby, "WarmupTasks": warmup, "ProcessId": f"process-of-{member}" if epoch == 0 else None,
        "UserEndpoint": None, "ClientTags": [{"Key": "zone", "Value": "a"}] if epoch == 0 else None, **NO_EPOCHS,
    }  # fmt: skip
    return dict(await client.ask("StreamsGroupHeartbeat", 1, body))


async def _settled(client: AnyConnection, group: str, members: Sequence[str]) -> int:
    """Let members join, one after the other, so that internal topics exist for the second; the group's epoch."""
    epochs, tasks, epoch = dict[str, int](), dict[str, Any](), 0
    for member in members:
        epochs[member] = 0
        epoch = await _balanced(client, group, epochs, tasks)
    return epoch


async def _balanced(client: AnyConnection, group: str, epochs: dict[str, int], tasks: dict[str, Any]) -> int:
    """Send heartbeats until the members have their targets; the group's epoch."""
    sent = topology(group, "orders")
    for _ in range(TRIES):
        for member, epoch in epochs.items():
            answer = await _beat(client, group, member, epoch, None if epoch else sent, tasks.get(member))
            assert answer["ErrorCode"] in (0, 14, 15, 16), answer
            if not answer["ErrorCode"]:
                epochs[member] = answer["MemberEpoch"]
                if answer["ActiveTasks"] is not None:
                    tasks[member] = tuple(answer[f"{kind}Tasks"] for kind in ("Active", "Standby", "Warmup"))
        described = await client.ask("StreamsGroupDescribe", 1, {
            "GroupIds": [group], "IncludeAuthorizedOperations": False, "IncludeTopologyDescription": False,
        })  # fmt: skip
        if described["Groups"][0]["GroupState"] == "Stable" and all(tasks[one][0] for one in epochs):
            return int(described["Groups"][0]["GroupEpoch"])
        await asyncio.sleep(0.5)
    raise AssertionError(f"{group} is not stable: {described}")


async def _commit(
    client: AnyConnection, group: str, member: str, epoch: int, offsets: dict[str, tuple[int, ...]]
) -> None:
    topics = [
        {
            "Name": topic,
            "Partitions": [
                {"PartitionIndex": one, "CommittedOffset": offset, "CommittedLeaderEpoch": 0, "CommittedMetadata": ""}
                for one, offset in enumerate(rows)
            ],
        }
        for topic, rows in offsets.items()
    ]
    body = {
        "GroupId": group, "GenerationIdOrMemberEpoch": epoch, "MemberId": member, "GroupInstanceId": None,
        "Topics": topics,
    }  # fmt: skip
    answer = await client.ask("OffsetCommit", 9, body)
    assert all(not one["ErrorCode"] for row in answer["Topics"] for one in row["Partitions"]), answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[tuple[Applications, Applications]]:
    yield from filled(tmp_path_factory, tools, PATIENT, Applications)


def commands(folder: Path) -> Iterator[tuple[str, ...]]:
    """Commands, those first that change nothing."""
    for more in ((), ("--state",), ("--state", "stable"), ("--state", "Empty,NotReady"), ("--state", "wrong")):
        yield STREAMS, "--list", *more
    for more in (
        (), ("--streams",), ("--group-type", "streams"), ("--group-type", "consumer"), ("--protocol", "streams")
    ):  # fmt: skip
        yield GROUPS, "--list", *more
    yield (STREAMS,)
    for group in (*LIVING, "idle", "waiting", "nobody"):
        for more in (
            (), ("--offsets",), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose"), ("--state",),
            ("--state", "--verbose"), ("--topology",), ("--members", "--state"), ("--timeout", "1000"),
        ):  # fmt: skip
            yield STREAMS, "--describe", "--group", group, *more
    for more in ((), ("--members",), ("--state",), ("--topology",)):
        yield STREAMS, "--describe", "--all-groups", *more
    yield STREAMS, "--describe", "--group", "app", "--group", "idle", "--state"
    for group in ("app", "nobody", "waiting"):
        yield STREAMS, "--delete", "--group", group
        yield STREAMS, "--delete", "--group", group, "--delete-all-internal-topics"
        yield STREAMS, "--delete-offsets", "--group", group, "--all-input-topics"
        yield STREAMS, "--delete-offsets", "--group", group, "--input-topic", "orders"
        yield STREAMS, "--reset-offsets", "--group", group, "--all-input-topics", "--to-earliest", "--execute"
    of_idle = STREAMS, "--reset-offsets", "--group", "idle"
    for how in (
        ("--to-earliest",), ("--to-latest",), ("--to-current",), ("--to-datetime", "2020-01-01T00:00:00.000"),
        ("--by-duration", "P1D"), ("--shift-by", "-2"), ("--shift-by", "100"), ("--to-offset", "6"),
        ("--to-offset", "600"), (),
    ):  # fmt: skip
        yield *of_idle, "--input-topic", "orders", *how, "--dry-run"
        yield *of_idle, "--all-input-topics", *how
        yield *of_idle, "--input-topic", "orders:1", *how, "--execute"
        yield STREAMS, "--describe", "--group", "idle", "--offsets", "--verbose"
    yield *of_idle, "--all-input-topics", "--to-latest", "--export"
    file = folder / "offsets.csv"
    file.write_text("orders,0,1\norders,1,2\n", encoding="utf-8")
    yield *of_idle, "--from-file", str(file), "--dry-run"
    yield *of_idle, "--from-file", str(file), "--execute"
    yield *of_idle, "--input-topic", "nowhere", "--to-latest", "--execute"
    yield *of_idle, "--input-topic", "payments", "--to-latest", "--execute"
    yield *of_idle, "--to-latest"
    yield *of_idle, "--all-input-topics", "--to-latest", "--dry-run", "--delete-all-internal-topics"
    yield *of_idle, "--all-input-topics", "--to-latest", "--execute", "--delete-internal-topic", "nowhere"
    yield (
        *of_idle,
        "--all-input-topics",
        "--to-latest",
        "--execute",
        "--delete-internal-topic",
        ("idle-counts-changelog"),
    )
    yield *of_idle, "--all-input-topics", "--to-earliest", "--execute", "--delete-all-internal-topics"
    yield STREAMS, "--describe", "--group", "idle"
    yield STREAMS, "--reset-offsets", "--all-groups", "--all-input-topics", "--to-latest", "--dry-run"
    yield STREAMS, "--delete-offsets", "--group", "idle-2", "--input-topic", "payments"
    yield STREAMS, "--delete-offsets", "--group", "idle-2", "--input-topic", "orders:0"
    yield STREAMS, "--describe", "--group", "idle-2"
    yield STREAMS, "--delete-offsets", "--group", "idle-2", "--all-input-topics"
    yield STREAMS, "--delete-offsets", "--all-groups", "--all-input-topics"
    yield STREAMS, "--describe", "--group", "idle-2"
    yield STREAMS, "--delete", "--group", "idle-2", "--group", "nobody"
    yield STREAMS, "--delete", "--group", "idle-3", "--delete-all-internal-topics"
    yield STREAMS, "--delete", "--all-groups"
    yield STREAMS, "--list", "--state"
    of_groups = ("--entity-type", "groups", "--entity-name", "app")
    yield CONFIGS, "--describe", *of_groups
    for pair in (
        "streams.session.timeout.ms=500000", "streams.session.timeout.ms=1", "streams.heartbeat.interval.ms=6000",
        "streams.heartbeat.interval.ms=20000", "streams.heartbeat.interval.ms=x", "streams.num.standby.replicas=2",
        "streams.num.standby.replicas=99", "streams.initial.rebalance.delay.ms=10", "streams.unknown=1",
        "streams.num.warmup.replicas=3", "streams.acceptable.recovery.lag=5", "streams.task.offset.interval.ms=60000",
        "streams.task.offset.interval.ms=1", "streams.assignment.interval.ms=500",
        "streams.rack.aware.assignment.tags=zone", "streams.initial.rebalance.delay.ms=-1",
        "streams.assignor.name=highly_available",
    ):  # fmt: skip
        yield CONFIGS, "--alter", *of_groups, "--add-config", pair
    yield CONFIGS, "--describe", *of_groups
    yield CONFIGS, "--describe", "--all", *of_groups
    yield CONFIGS, "--alter", *of_groups, "--delete-config", "streams.session.timeout.ms,streams.num.standby.replicas"
    yield CONFIGS, "--describe", *of_groups


@pytest.mark.timeout(900)
def test_each_command_for_streams_groups_prints_the_same_for_muster_and_kafka(
    pair: tuple[Applications, Applications], tmp_path: Path
) -> None:
    check_equal(pair, commands(tmp_path), tries=2)
