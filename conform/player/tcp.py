"""The driver of stories over TCP, against a running server: Apache Kafka or any other that speaks its protocol."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import secrets
import time
import uuid
from collections.abc import Callable, Collection, Mapping

from muster.conform.player import playing, showing_transactions
from muster.conform.player.batches import Batch
from muster.conform.player.brokers import AnyConnection, connect
from muster.conform.player.connection import Open, codes
from muster.conform.player.readiness import Ready, create_topics, newest, prepare
from muster.conform.player.stage import prefixed
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


def transient(reply: Reply) -> bool:
    """Whether the transaction coordinator is not ready or not done yet. Every client repeats such requests, so they are
    no outcome.
    """
    return reply.api in TRANSACTIONS and not ASKED_AGAIN.isdisjoint(codes(reply.body))


def is_at_rest(described: Body) -> bool:
    """Whether no markers are left to write, by DescribeTransactions' answer."""
    return not any(one["TransactionState"].startswith("Prepare") for one in described["TransactionStates"])


class NotServed(Exception):
    """The broker does not offer a request of the story: its API, and the version."""

    def __init__(self, api: str, version: int) -> None:
        super().__init__(api, version)
        self.api, self.version = api, version


OF_THE_CLIENT = ("Produce", "EndTxn", "TxnOffsetCommit")
"""By the versions of these requests a client says which transaction version it has."""
NEWER = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "ShareFetch")
"""Requests of newer types of groups."""
UNSUPPORTED_VERSION = 35
"""The answer to a request of `NEWER` when the broker knows such groups, and has not enabled them."""


def lower_version(served: Mapping[str, tuple[int, int]], send: Send) -> None:
    """Take the broker's newest version, as clients do, if the story names none. Raises NotServed."""
    low, high = served.get(send.api, (0, -1))
    if not send.named and send.api not in OF_THE_CLIENT and high >= low:
        send.version = min(send.version, high)
    if not low <= send.version <= high:
        raise NotServed(send.api, send.version)


class Driver:
    """Plays one story on one server."""

    def __init__(
        self,
        host: str,
        port: int,
        scale: float = 1,
        recording: bool = False,
        *,
        opened: Open = asyncio.open_connection,
        patience_s: float = PATIENCE_S,
        quiet_s: float = QUIET_S,
        served: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.host, self.port, self.scale, self.recording = host, port, scale, recording
        self.opened, self.patience_s, self.quiet_s, self.served = opened, patience_s, quiet_s, served
        self.sent: list[Send] = []
        """All requests of the story."""
        self.heard: list[Reply] = []
        """The replies since the last request."""
        self.trouble = ""
        """Why a connection of an actor ended."""
        self.unread = b""
        """The answer that could not be read."""
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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.news.wait()
        return True

    def taken(self) -> list[Reply]:
        """The replies that came since the last call."""
        replies, self.replies = self.replies, []
        self.heard += replies
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
        if self.served is not None:
            lower_version(self.served, action)
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
        is_newer = self.served is not None and mine is not None and mine.api in NEWER
        if is_newer and mine is not None and mine.body["ErrorCode"] == UNSUPPORTED_VERSION:
            raise NotServed(action.api, action.version)
        ended = mine is not None and action.api == "EndTxn" and not mine.body["ErrorCode"]
        if ended and (self.served is None or "DescribeTransactions" in self.served):
            await self.at_rest(connection, action.body["TransactionalId"])
        return self.taken()

    async def ask(self, action: Send) -> AnyConnection:
        """Send a request, and wait for its effects, if it has any; the connection."""
        free = next((one for one in self.connections[action.actor] if not one.open), None)
        if free is None:
            free = await connect(self.host, self.port, self.on_reply, self.opened)
            free.task.add_done_callback(lambda _: self.news.set())
            # a busy server accepts a connection late, and would read this request behind a later one of another actor
            await free.ask("ApiVersions", 0, {})
            self.connections[action.actor].append(free)
        stamp(action.body, int(time.time() * 1000))
        self.heard = []
        self.sent.append(action)
        free.send(action)
        expect = action.expect
        if expect is None:
            await self.until(lambda: self.has([action.actor]), QUIET_RECORD_S)
            await self.quiet(QUIET_RECORD_S / 3)
        else:
            patience_s = EARLY_S if action.others_follow else self.patience_s
            await self.until(lambda: self.has(expect) or bool(free.trouble), patience_s)
            if free.trouble:
                self.trouble, self.unread = free.trouble, free.last
            await self.quiet(0.005 if action.actor in expect else self.quiet_s)
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
        runner = await connect(self.host, self.port, opened=self.opened)
        known: Ready = {}
        await create_topics(runner, known, counts, self.served)
        await runner.close()
        return known

    async def delete_topics(self, names: Collection[str]) -> None:
        """Delete the topics that the story has left."""
        runner = await connect(self.host, self.port, opened=self.opened)
        version = newest(self.served, "DeleteTopics", 6)
        topics = [{"Name": name, "TopicId": uuid.UUID(int=0)} for name in names]
        body = {"Topics": topics} if version >= 6 else {"TopicNames": list(names)}
        await runner.ask("DeleteTopics", version, {"TimeoutMs": 10000, **body})
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


async def play(
    driver: Driver,
    story: Story,
    topic_ids: dict[str, uuid.UUID],
    suffix: str | None = None,
    *,
    prefix: str = "",
    to_the_end: bool = True,
) -> str:
    """The story's text as it went on that server, with new group ids (or those with this suffix).

    `prefix` stands before all names. `to_the_end`: see `playing.play`.
    """
    suffix = suffix or "~" + secrets.token_hex(4)
    tail = suffix.replace("~", "-")
    own = {prefixed(prefix, name) + tail: count for name, count in story.own_topics.items() if count}
    if own:
        made = await driver.create_topics(own)
        topic_ids = {
            **topic_ids,
            **{name: made[prefixed(prefix, name) + tail] for name, count in story.own_topics.items() if count},
        }
    driver.topic_ids = topic_ids
    steps = playing.play(story, suffix, topic_ids, driver.recording, prefix=prefix, to_the_end=to_the_end)
    answer: list[Reply] | None = None
    try:
        while True:
            answer = await driver.act(steps.send(answer))
    except StopIteration as end:
        text: str = end.value
        return text
    finally:
        try:
            if own:
                await driver.delete_topics(own)
        finally:
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
