"""The driver of stories over TCP, against a running server: Apache Kafka or any other that speaks its protocol."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import secrets
import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

from muster.conform.player import playing, showing_transactions
from muster.conform.player.batches import Batch
from muster.conform.player.brokers import AnyConnection, connect
from muster.conform.player.connection import codes
from muster.conform.player.story import Action, Advance, Await, Body, Drop, Reply, Send, Story

QUIET_S = 0.07
"""After this time without a reply, the request counts as waiting."""
QUIET_RECORD_S = 0.5
PATIENCE_S = 30.0
"""How long to wait for a due reply, on a busy machine."""
EARLY_S = 0.5
"""How long to wait for a reply that may wait for other requests of the same step."""
SHORTEST_MS, LONGEST_MS = 200, 60_000
"""Timeouts between these limits are stretched. Other timeouts are the subject of a story: the broker refuses them."""
SETTLING_S = 1.0
"""How long to wait for a due reply after time has passed."""

ASKED_AGAIN = frozenset({6, 14, 15, 16, 19, 51})
"""NOT_LEADER_OR_FOLLOWER (of a topic that was just made), COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, CONCURRENT_TRANSACTIONS. NOT_ENOUGH_REPLICAS is what Produce is answered while the
verification cannot be done yet.
"""
AGAIN_S = 0.02
MAX_TRIES = 200
TRANSACTIONS = frozenset(showing_transactions.SHOW)

Ready = dict[Any, Any]
"""What `prepare` has found on a server already: topic name -> id, and the coordinators that answer."""


def transient(reply: Reply) -> bool:
    """Whether the transaction coordinator is not ready or not done yet. Every client repeats such requests, so they are
    no outcome.
    """
    return reply.api in TRANSACTIONS and not ASKED_AGAIN.isdisjoint(codes(reply.body))


def is_at_rest(described: Body) -> bool:
    """Whether no markers are left to write, by DescribeTransactions' answer."""
    return not any(one["TransactionState"].startswith("Prepare") for one in described["TransactionStates"])


class Driver:
    """Plays one story on one server."""

    def __init__(self, host: str, port: int, scale: float = 1, recording: bool = False) -> None:
        self.host, self.port, self.scale, self.recording = host, port, scale, recording
        self.connections: dict[str, list[AnyConnection]] = collections.defaultdict(list)
        self.replies: list[Reply] = []
        self.news = asyncio.Event()
        self.topic_ids: dict[str, uuid.UUID] = {}
        # the time spent on seeing that requests wait, since time last passed. The next step is shorter by it
        self.idle_s = 0.0

    def on_reply(self, reply: Reply) -> None:
        """Keep a reply that came."""
        self.replies.append(reply)
        self.news.set()

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until done(), at most for `seconds`; True when done."""
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.news.clear()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self.news.wait(), left)
        return True

    def taken(self) -> list[Reply]:
        """The replies that came since the last call."""
        replies, self.replies = self.replies, []
        for reply in replies:
            reply.took_ms /= self.scale
        return replies

    def has(self, actors: Collection[str]) -> bool:
        """Whether a reply to each of these actors came."""
        return not (collections.Counter(actors) - collections.Counter(reply.actor for reply in self.replies))

    async def quiet(self, seconds: float) -> None:
        """Wait this time, in which no reply is expected."""
        self.idle_s += seconds
        await asyncio.sleep(seconds)

    async def act(self, action: Action) -> list[Reply]:
        """Perform one action; its replies."""
        if isinstance(action, Send):
            return await self.send(action)
        if isinstance(action, Advance):
            whole_s = action.ms / 1000 * self.scale
            await asyncio.sleep(max(whole_s - self.idle_s, whole_s / 2))
            await self.settle(action.expect or [])
        elif isinstance(action, Await):
            actor = action.actor
            await self.until(lambda: self.has([actor]), (action.high / 1000 + 0.3) * self.scale)
            if not action.expect:
                await asyncio.sleep(QUIET_RECORD_S)
            await self.settle(action.expect or [])
        elif isinstance(action, Drop):
            for connection in self.connections.pop(action.actor, []):
                await connection.close()
            return []
        self.idle_s = 0.0
        return self.taken()

    async def settle(self, expect: list[str]) -> None:
        """Wait for replies that are due."""
        await self.until(lambda: self.has(expect), SETTLING_S)

    async def send(self, action: Send) -> list[Reply]:
        """Send a request, and again while the server is not ready: the replies that came."""
        for field in ("SessionTimeoutMs", "RebalanceTimeoutMs", "MaxWaitMs"):
            if self.scale != 1 and SHORTEST_MS <= action.body.get(field, -1) <= LONGEST_MS:
                action.body[field] = int(action.body[field] * self.scale)
        mine: Reply | None = None
        for _ in range(MAX_TRIES):
            connection = await self.ask(action)
            mine = self.replies[-1] if self.replies and self.replies[-1].request is action.body else None
            if mine is None or action.once or not transient(mine):
                break
            self.replies.pop()
            await asyncio.sleep(AGAIN_S)
        else:
            if mine is not None:
                self.on_reply(mine)
        if mine is not None and action.api == "EndTxn" and not mine.body["ErrorCode"]:
            await self.at_rest(connection, action.body["TransactionalId"])
        return self.taken()

    async def ask(self, action: Send) -> AnyConnection:
        """Send a request, and wait for its effects, if it has any; the connection."""
        free = next((one for one in self.connections[action.actor] if not one.open), None)
        if free is None:
            free = await connect(self.host, self.port, self.on_reply)
            # a busy server accepts a connection late, and would read this request behind a later one of another actor
            await free.ask("ApiVersions", 0, {})
            self.connections[action.actor].append(free)
        stamp(action.body, int(time.time() * 1000))
        free.send(action)
        expect = action.expect
        if expect is None:
            await self.until(lambda: self.has([action.actor]), QUIET_RECORD_S)
            await self.quiet(QUIET_RECORD_S / 3)
        else:
            await self.until(lambda: self.has(expect), EARLY_S if action.others_follow else PATIENCE_S)
            await self.quiet(0.005 if action.actor in expect else QUIET_S)
        return free

    async def at_rest(self, connection: AnyConnection, transactional_id: str) -> None:
        """Wait until the markers of the transaction are written."""
        for _ in range(200):
            asked = {"TransactionalIds": [transactional_id]}
            if is_at_rest(await connection.ask("DescribeTransactions", 0, asked)):
                return
            await asyncio.sleep(0.01)

    async def create_topics(self, counts: dict[str, int]) -> dict[str, uuid.UUID]:
        """Create topics of this story alone: their ids."""
        runner = await connect(self.host, self.port)
        known: Ready = {}
        await create_topics(runner, known, counts)
        await runner.close()
        return known

    async def delete_topics(self, names: Collection[str]) -> None:
        """Delete the topics that the story has left."""
        runner = await connect(self.host, self.port)
        topics = [{"Name": name, "TopicId": uuid.UUID(int=0)} for name in names]
        await runner.ask("DeleteTopics", 6, {"TimeoutMs": 10000, "Topics": topics})
        await runner.close()

    async def close(self) -> None:
        """Close the connections of all actors."""
        for connections in self.connections.values():
            for connection in connections:
                await connection.close()


def stamp(body: Body, wall_ms: int) -> None:
    """Set the time of the batches that are produced."""
    for topic in body.get("TopicData", []):
        for row in topic["PartitionData"]:
            if isinstance(row["Records"], Batch):
                row["Records"].timestamp_ms = wall_ms


async def play(driver: Driver, story: Story, topic_ids: dict[str, uuid.UUID], suffix: str | None = None) -> str:
    """The story's text as it went on that server, with new group ids (or those with this suffix)."""
    suffix = suffix or "~" + secrets.token_hex(4)
    tail = suffix.replace("~", "-")
    own = {name + tail: count for name, count in story.own_topics.items() if count}
    if own:
        made = await driver.create_topics(own)
        topic_ids = {**topic_ids, **{real.removesuffix(tail): made[real] for real in own}}
    driver.topic_ids = topic_ids
    steps = playing.play(story, suffix, topic_ids, driver.recording)
    answer: list[Reply] | None = None
    try:
        while True:
            answer = await driver.act(steps.send(answer))
    except StopIteration as end:
        text: str = end.value
        return text
    finally:
        if own:
            await driver.delete_topics(own)
        await driver.close()


async def play_over_tcp(host: str, port: int, story: Story, *, scale: float = 1) -> str:
    """Play a story on a running server that has the settings of its `broker` line; its text as it went.

    It passed when that equals `story.text`. `scale` stretches all times, for a slow machine.
    """
    runner = await connect(host, port)
    try:
        topic_ids = await prepare(runner, {}, story)
    finally:
        await runner.close()
    return await play(Driver(host, port, scale), story, topic_ids)


async def prepare(runner: AnyConnection, known: Ready, story: Story) -> dict[str, uuid.UUID]:
    """Topics exist and the coordinators answer; returns topic name -> id. `known` is kept from story to story."""
    missing = [name for name in story.topics if name not in known]
    if missing:
        await create_topics(runner, known, {name: story.topics[name] for name in missing})
    for kind in [0, 1] if "txn" in story.tags else [0]:
        for _ in range(200):
            if ("ready", kind) in known:
                break
            body = await runner.ask("FindCoordinator", 4, {"KeyType": kind, "CoordinatorKeys": ["ready"]})
            is_ready = transactions_ready if kind else groups_ready
            if body["Coordinators"][0]["ErrorCode"] == 0 and await is_ready(runner):
                known["ready", kind] = True
            else:
                await asyncio.sleep(0.1)
    if "share" in story.tags and ("ready", "share") not in known:
        await shares_ready(runner, next(iter(story.topics)))
        known["ready", "share"] = True
    return {name: known[name] for name in story.topics}


async def shares_ready(runner: AnyConnection, topic: str) -> None:
    """Let the share coordinator make its topic, and wait until it has initialized the states of a group."""
    body = {"GroupId": "ready-share", "MemberId": "x", "MemberEpoch": 0, "SubscribedTopicNames": [topic]}
    for _ in range(100):
        answer = await runner.ask("ShareGroupHeartbeat", 1, {**body, "RackId": None})
        if answer["Assignment"] and any(row["Partitions"] for row in answer["Assignment"]["TopicPartitions"]):
            break
        await asyncio.sleep(0.3)
    await runner.ask(
        "ShareGroupHeartbeat", 1, {**body, "RackId": None, "MemberEpoch": -1, "SubscribedTopicNames": None}
    )
    rows = [{"TopicName": topic, "Partitions": [{"PartitionIndex": 0, "StartOffset": 0}]}]
    await runner.ask("AlterShareGroupOffsets", 0, {"GroupId": "ready-share", "Topics": rows})
    await asyncio.sleep(1)  # then Kafka has a connection over which it asks for the ends of partitions
    await runner.ask("DescribeShareGroupOffsets", 1, {"Groups": [{"GroupId": "ready-share", "Topics": None}]})


async def create_topics(runner: AnyConnection, known: Ready, counts: dict[str, int]) -> None:
    """Create missing topics, and wait until they have leaders."""
    topics = [{"Name": name, "NumPartitions": count, "ReplicationFactor": 1} for name, count in counts.items()]
    body = await runner.ask("CreateTopics", 7, {"timeoutMs": 10000, "Topics": topics})
    bad = [topic for topic in body["Topics"] if topic["ErrorCode"] not in (0, 36)]
    if bad:
        raise SystemExit(f"creating topics: {bad}")
    asked = [{"TopicId": uuid.UUID(int=0), "Name": name} for name in counts]
    for _ in range(100):
        found = await runner.ask("Metadata", 12, {"Topics": asked, "AllowAutoTopicCreation": False})
        if all(not t["ErrorCode"] and not any(p["ErrorCode"] for p in t["Partitions"]) for t in found["Topics"]):
            break
        await asyncio.sleep(0.1)
    known.update({topic["Name"]: topic["TopicId"] for topic in found["Topics"]})


async def groups_ready(runner: AnyConnection) -> bool:
    """Wait until every partition of the offsets topic is loaded (so many ids fall on all fifty)."""
    for i in range(250):
        body = await runner.ask("Heartbeat", 3, {"GroupId": f"ready-{i}", "GenerationId": 1, "MemberId": "x"})
        if body["ErrorCode"] != 25:
            return False
    return True


async def transactions_ready(runner: AnyConnection) -> bool:
    """Wait until every partition of the transaction topic is loaded (so many ids fall on all of a few)."""
    for i in range(30):
        asked = {"TransactionalId": f"ready-{i}", "TransactionTimeoutMs": 60000}
        if (await runner.ask("InitProducerId", 4, asked))["ErrorCode"]:
            return False
    return True


async def settings_of(runner: AnyConnection) -> dict[str, str] | None:
    """The server's settings as DescribeConfigs reports them; None when it does not."""
    body = await runner.ask("Metadata", 9, {"Topics": [], "AllowAutoTopicCreation": False})
    node = {"ResourceType": 4, "ResourceName": str(body["Brokers"][0]["NodeId"]), "ConfigurationKeys": None}
    try:
        body = await runner.ask("DescribeConfigs", 4, {"Resources": [node]})
    except (TimeoutError, ConnectionError):
        return None
    return {config["Name"]: config["Value"] for result in body["Results"] for config in result["Configs"]}
