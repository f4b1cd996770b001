"""A mirror that takes over the ids of its server, for consumer groups: there the order of ids decides assignments.

The server is asked first. Its random ids are then used in the mirror too. The id of a static member that waits for its
first answer is taken over when the answer comes. Changes of topics are not compared: the mirror gets the topics that
the server has then.
"""

from __future__ import annotations

import asyncio
import base64
import random
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from muster.conform.player.brokers import AnyConnection, connect
from muster.conform.player.stage import Stage
from muster.conform.player.story import Reply, Send, Story
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from tests.stories.random.mirror import Mirror
from tests.stories.random.worlds import ServerWorld, World

if TYPE_CHECKING:
    from tests.stories.random.side import Side

OF_TOPICS = ("CreateTopics", "CreatePartitions", "DeleteTopics")
NAMES_SENDER = ("JoinGroup", "ConsumerGroupHeartbeat")
"""Requests whose answers have the sender's id."""
ID_MS = 60
"""How long an answer with a new id is waited for."""
FOUND_MS = 250
"""This time after a search, the topics of patterns count as found, even if no answer shows it."""
AGAIN_MS = 20
PATIENCE_S = 5.0
BARE = 22
"""The letters of an id in base64, as members of consumer groups get it."""


class Following:
    """How one side's mirror follows its server."""

    def __init__(self) -> None:
        self._searches = 0

    def topics(self, story: Story, suffix: str, ids: Mapping[str, uuid.UUID]) -> TopicsImage:
        """The topics at the beginning, as the server has them."""
        stage = Stage(story, suffix, dict(ids))
        counts = {**story.topics, **story.own_topics}
        rows = {
            stage.topic(name): TopicImage(stage.topic(name), ids[name].bytes, count) for name, count in counts.items()
        }
        return TopicsImage(rows, 1)

    def draws(self, suffix: str) -> Callable[[], uuid.UUID]:
        """The ids that members give themselves: the same on both sides."""
        dice = random.Random(suffix)
        return lambda: uuid.UUID(int=dice.getrandbits(128), version=4)

    async def before(self, side: Side, action: Send, twin_action: Send) -> None:
        """Ask the server, then the mirror."""
        sent_ms = side.clock.now_ms()
        await side.world.transmit(action)
        if action.api in OF_TOPICS:
            await self._change_topics(side, action, twin_action)
            return
        self._searches = side.mirror.searches
        joins = action.api == "ConsumerGroupHeartbeat" and not action.body["MemberEpoch"]
        names = action.api in NAMES_SENDER and not action.body["MemberId"]
        if names or joins:
            waits = not joins and action.body.get("GroupInstanceId") is not None
            await side.world.until(lambda: _reply_to(side, action) is not None, ID_MS / 1000 if waits else PATIENCE_S)
        if joins:  # the action may end what classic members wait for
            for reply in side.world.arrived():
                self.adopt(side.mirror, reply, [])
        if names:
            reply = _reply_to(side, action)
            reported = "" if reply is None else reply.body["MemberId"] or ""
            side.mirror.drawn_id = drawn(reported) if action.api == "JoinGroup" else reported or None
        side.ask_mirror(twin_action, sent_ms)
        side.mirror.drawn_id = None

    async def after(self, side: Side, action: Send) -> None:
        """Topics of a background search are found."""
        if side.mirror.searches != self._searches:
            self._searches = side.mirror.searches
            await side.clock.sleep(FOUND_MS)
            await side.agree()

    def adopt(self, mirror: Mirror, real: Reply, replies: list[Reply]) -> None:
        """A static member gets its id at last, in one of the server's answers; `replies` are the mirror's."""
        request = real.request
        if real.api == "JoinGroup" and not request["MemberId"] and request["GroupInstanceId"] and real.body["MemberId"]:
            mirror.adopt(request["GroupId"], request["GroupInstanceId"], real.body["MemberId"], replies)

    async def _change_topics(self, side: Side, action: Send, twin_action: Send) -> None:
        await side.world.until(lambda: _reply_to(side, action) is not None, PATIENCE_S)
        reply = _reply_to(side, action)
        assert reply is not None, "topics are changed at once"
        names = {topic["Name"] for topic in action.body["Topics"]}
        rows = dict(side.mirror.topics.by_name)
        deleted = {rows.pop(name).topic_id: name for name in names & rows.keys()}
        rows |= await found(side, names, counts(action, reply))
        there = {one.topic_id for one in rows.values()}
        gone = {**side.mirror.topics.deleted, **{one: name for one, name in deleted.items() if one not in there}}
        await heard_of(side.world, {name: rows[name].partitions if name in rows else 0 for name in names})
        side.mirror.live_until(side.clock.now_ms())
        side.mirror.change_topics(TopicsImage(rows, side.mirror.topics.version + 1, gone))
        mirrored = Reply(reply.actor, reply.api, reply.version, twin_action.body, reply.body, 0)
        side.mirror.replies.append(mirrored)


async def heard_of(world: World, counts: Mapping[str, int]) -> None:
    """Wait until the groups of a server know the present topics: a member of a new group is assigned all of them."""
    assert isinstance(world, ServerWorld), "topics change on servers only"
    runner = await connect(world.host, world.port)
    end_s = time.monotonic() + PATIENCE_S
    try:
        while await _known(runner, list(counts)) != sorted(count for count in counts.values() if count):
            if time.monotonic() > end_s:
                return  # the next steps show it
            await asyncio.sleep(AGAIN_MS / 1000)
    finally:
        await runner.close()


async def _known(runner: AnyConnection, topics: list[str]) -> list[int]:
    """How many partitions of these topics the groups know."""
    asked = {
        "GroupId": f"known-{uuid.uuid4()}",
        "MemberId": f"{uuid.uuid4()}",
        "MemberEpoch": 0,
        "InstanceId": None,
        "RackId": None,
        "RebalanceTimeoutMs": 1000,
        "SubscribedTopicNames": topics,
        "SubscribedTopicRegex": None,
        "ServerAssignor": None,
        "TopicPartitions": [],
    }
    body = await runner.ask("ConsumerGroupHeartbeat", 1, asked)
    await runner.ask("ConsumerGroupHeartbeat", 1, {**asked, "MemberEpoch": -1})
    return sorted(
        len(topic["Partitions"]) for topic in (body["Assignment"] or {"TopicPartitions": []})["TopicPartitions"]
    )


def counts(action: Send, reply: Reply) -> dict[str, int]:
    """The partition count of a topic after a successful request: 0 for a deleted one."""
    rows = next(reply.body[name] for name in ("Topics", "Results", "Responses") if name in reply.body)
    done = {row["Name"] for row in rows if not row["ErrorCode"]}
    asked = {topic["Name"]: topic.get("NumPartitions", topic.get("Count", 0)) for topic in action.body["Topics"]}
    return {name: count for name, count in asked.items() if name in done}


async def found(side: Side, names: set[str], wanted: Mapping[str, int]) -> dict[str, TopicImage]:
    """These topics as the server has them, after the server has done the request."""
    assert isinstance(side.world, ServerWorld), "topics change on servers only"
    runner = await connect(side.world.host, side.world.port)
    asked = [{"TopicId": uuid.UUID(int=0), "Name": name} for name in sorted(names)]
    now: dict[str, tuple[bytes, int]] = {}
    try:
        for _ in range(100):
            body = await runner.ask("Metadata", 12, {"Topics": asked, "AllowAutoTopicCreation": False})
            now = {
                topic["Name"]: (topic["TopicId"].bytes, len(topic["Partitions"]))
                for topic in body["Topics"]
                if not topic["ErrorCode"]
            }
            if all(now.get(name, (b"", 0))[1] == count for name, count in wanted.items()):
                break
            await side.clock.sleep(20)
    finally:
        await runner.close()
    return {name: TopicImage(name, topic_id, count) for name, (topic_id, count) in now.items()}


def drawn(member_id: str) -> str | None:
    """The random part of an id, as a UUID is written."""
    if len(member_id) == BARE:
        return str(uuid.UUID(bytes=base64.urlsafe_b64decode(member_id + "==")))
    return member_id[-36:] if len(member_id) >= 36 else None


def _reply_to(side: Side, action: Send) -> Reply | None:
    return next((reply for reply in side.world.arrived() if reply.request is action.body), None)
