"""What is done on a server before the first story: topics are made, and the coordinators load their partitions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from muster.conform.player.brokers import AnyConnection
from muster.conform.player.story import Body, Story

GROUPS, TRANSACTIONS = 0, 1
"""Kinds of coordinators, by the key types of FindCoordinator."""
NOT_READY = frozenset({14, 15, 16, 51})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS."""
TRIES = 200
WITH_IDS, WITHOUT_IDS = 12, 8
"""Versions of Metadata with the ids of topics, and without. Some mocks answer newer ones with a byte too much."""

Ready = dict[Any, Any]
"""What `prepare` has found on a server already: topic name -> id, and the coordinators that answer."""
Served = Mapping[str, tuple[int, int]] | None
"""The versions that a server offers, by API. None: those of the newest Kafka."""


def newest(served: Served, api: str, version: int) -> int:
    """The highest version up to this one that the server offers."""
    return version if served is None else min(version, served.get(api, (0, version))[1])


async def prepare(runner: AnyConnection, known: Ready, story: Story) -> dict[str, uuid.UUID]:
    """Make the story's topics, and wait until the coordinators answer; returns topic name -> id.

    `known` is kept from story to story.
    """
    missing = [name for name in story.topics if name not in known]
    if missing:
        await create_topics(runner, known, {name: story.topics[name] for name in missing})
    kinds = [GROUPS, TRANSACTIONS] if "txn" in story.tags else [GROUPS]
    await coordinators_ready(runner, [kind for kind in kinds if ("ready", kind) not in known])
    known.update({("ready", kind): True for kind in kinds})
    if "share" in story.tags and ("ready", "share") not in known:
        await shares_ready(runner, next(iter(story.topics)))
        known["ready", "share"] = True
    return {name: known[name] for name in story.topics}


# ---- topics


async def create_topics(
    runner: AnyConnection, known: dict[Any, Any], counts: Mapping[str, int], served: Served = None
) -> None:
    """Create missing topics, and wait until they have leaders. A server that creates no topics has to do so by itself.

    Raises ConnectionError.
    """
    creates = served is None or "CreateTopics" in served
    if creates:
        topics = [{"Name": name, "NumPartitions": count, "ReplicationFactor": 1} for name, count in counts.items()]
        body = await runner.ask(
            "CreateTopics", newest(served, "CreateTopics", 7), {"timeoutMs": 10000, "Topics": topics}
        )
        bad = [topic for topic in body["Topics"] if topic["ErrorCode"] not in (0, 36)]
        if bad:
            raise ConnectionError(f"topics cannot be created: {bad}")
    asked = [{"TopicId": uuid.UUID(int=0), "Name": name} for name in counts]
    for _ in range(100):
        found = await _metadata(
            runner,
            {"Topics": asked, "AllowAutoTopicCreation": not creates},
            served,
            WITH_IDS if creates else WITHOUT_IDS,
        )
        if all(not t["ErrorCode"] and not any(p["ErrorCode"] for p in t["Partitions"]) for t in found["Topics"]):
            break
        await asyncio.sleep(0.1)
    known.update({topic["Name"]: topic["TopicId"] for topic in found["Topics"]})


async def partition_counts(runner: AnyConnection, names: Iterable[str], served: Served = None) -> dict[str, int]:
    """How many partitions these topics have."""
    asked = [{"TopicId": uuid.UUID(int=0), "Name": name} for name in names]
    found = await _metadata(runner, {"Topics": asked, "AllowAutoTopicCreation": False}, served, WITHOUT_IDS)
    return {topic["Name"]: len(topic["Partitions"]) for topic in found["Topics"]}


async def _metadata(runner: AnyConnection, body: Body, served: Served, highest: int) -> Body:
    version = newest(served, "Metadata", highest)
    if version < 4:
        body = {"Topics": body["Topics"]}
    return await runner.ask("Metadata", version, body)


# ---- coordinators


async def coordinators_ready(
    runner: AnyConnection, kinds: Iterable[int], prefix: str = "", served: Served = None
) -> None:
    """Wait until the coordinators of these kinds have loaded all of their partitions."""
    for kind in kinds:
        is_ready = transactions_ready if kind == TRANSACTIONS else groups_ready
        for _ in range(TRIES):
            if await _is_found(runner, kind, prefix, served) and await is_ready(runner, prefix, served):
                break
            await asyncio.sleep(0.1)


async def _is_found(runner: AnyConnection, kind: int, prefix: str, served: Served) -> bool:
    version, key = newest(served, "FindCoordinator", 4), f"{prefix}ready"
    if version < 4:
        return not (await runner.ask("FindCoordinator", version, {"KeyType": kind, "Key": key}))["ErrorCode"]
    body = await runner.ask("FindCoordinator", version, {"KeyType": kind, "CoordinatorKeys": [key]})
    return not body["Coordinators"][0]["ErrorCode"]


async def groups_ready(runner: AnyConnection, prefix: str = "", served: Served = None) -> bool:
    """Whether every partition of the offsets topic is loaded. There are enough ids for all fifty."""
    version = newest(served, "Heartbeat", 3)
    for i in range(250):
        asked = {"GroupId": f"{prefix}ready-{i}", "GenerationId": 1, "MemberId": "x"}
        if (await runner.ask("Heartbeat", version, asked))["ErrorCode"] in NOT_READY:
            return False
    return True


async def transactions_ready(runner: AnyConnection, prefix: str = "", served: Served = None) -> bool:
    """Whether every partition of the transaction topic is loaded. There are enough ids for a few partitions."""
    version = newest(served, "InitProducerId", 4)
    for i in range(30):
        asked = {"TransactionalId": f"{prefix}ready-{i}", "TransactionTimeoutMs": 60000}
        if (await runner.ask("InitProducerId", version, asked))["ErrorCode"] in NOT_READY:
            return False
    return True


async def shares_ready(runner: AnyConnection, topic: str, prefix: str = "") -> None:
    """Let the share coordinator make its topic, and wait until it has initialized the states of a group."""
    group = prefix + "ready-share"
    body = {"GroupId": group, "MemberId": "x", "MemberEpoch": 0, "SubscribedTopicNames": [topic]}
    for _ in range(100):
        answer = await runner.ask("ShareGroupHeartbeat", 1, {**body, "RackId": None})
        if answer["Assignment"] and any(row["Partitions"] for row in answer["Assignment"]["TopicPartitions"]):
            break
        await asyncio.sleep(0.3)
    await runner.ask(
        "ShareGroupHeartbeat", 1, {**body, "RackId": None, "MemberEpoch": -1, "SubscribedTopicNames": None}
    )
    rows = [{"TopicName": topic, "Partitions": [{"PartitionIndex": 0, "StartOffset": 0}]}]
    await runner.ask("AlterShareGroupOffsets", 0, {"GroupId": group, "Topics": rows})
    await asyncio.sleep(1)  # then Kafka has a connection over which it asks for the ends of partitions
    await runner.ask("DescribeShareGroupOffsets", 1, {"Groups": [{"GroupId": group, "Topics": None}]})
