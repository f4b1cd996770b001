"""How the cost of a request grows with what a node has: members, groups, offsets, partitions, topics, connections.

A curve is the cost of one kind of request at several sizes, counted in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.protocol.message import Message
from muster.protocol.messages import offset_fetch
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.budget.scenes import ASSIGNMENT, PLAIN, TOPIC, Scene, beat, commit, fetching, join, producing, undisturbed
from tests.coordinator.topics.support import batch
from tests.support.virtual_node import Link

AT_ONCE: Final = 200
"""The number of requests that are under way at once while a node grows."""
SETTLED_MS: Final = 2_500
"""Longer than group.consumer.assignment.interval.ms."""
ROUNDS: Final = 4
"""A group reaches a new target within this number of heartbeats of each member."""
MAX_PARTITIONS: Final = 10_000
"""A request may create this number of partitions."""
COMMITTED: Final = 400
"""The number of offsets in one commit while a group grows."""
LONE: Final = PLAIN | {"offsets.topic.num.partitions": "1"}
LEAST_KB: Final = 200
"""Below this the highest memory says nothing about growth."""


class Point(NamedTuple):
    """The cost of one request at one size."""

    size: int
    instructions: float
    kilobytes: float
    """Memory at its highest, above the memory before. A copy that C makes is seen here, and not in instructions."""


def exponent(points: Sequence[Point], figure: str = "instructions", least: float = 1) -> float:
    """The exponent between the two largest sizes. 1: twice the size costs twice as much; 0: the size does not matter.
    `least`: smaller figures count as this one.
    """
    before, last = points[-2:]
    growth = max(getattr(last, figure), least) / max(getattr(before, figure), least)
    return math.log(growth) / math.log(last.size / before.size)


class Growing:
    """A node that grows. Its clients stay connected; the requests that are counted have a connection of their own."""

    def __init__(self) -> None:
        self.scene = Scene(dict(LONE))
        self.scene.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["a"]))
        self.rest(2_000)
        self.curves: dict[str, list[Point]] = {}
        self._links: list[Link] = []

    def rest(self, for_ms: int) -> None:
        """Let this time pass, without requests."""
        self.scene.node.rest(for_ms)

    def topic(self, name: str, partitions: int) -> bytes:
        """Create a topic; return its id."""
        made: bytes = self.scene.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1)])).topics[0].topic_id
        return made

    def links(self, count: int) -> list[Link]:
        """Return `count` connections, which stay open."""
        self._links += [self.scene.node.connect() for _ in range(count - len(self._links))]
        return self._links[:count]

    def ask_all(self, requests: Sequence[Message]) -> list[Any]:
        """Let clients ask, each on its own connection; return their answers."""
        answers: list[Any] = []
        links = self.links(min(len(requests), AT_ONCE))
        for at in range(0, len(requests), AT_ONCE):
            pairs = list(zip(links, requests[at : at + AT_ONCE], strict=False))
            wanted = {link: len(link.answers) + 1 for link, _ in pairs}
            for link, request in pairs:
                link.send(request)
            are_there = self.scene.node.world.run(_all_answered(wanted), 600_000)
            assert are_there
            for link, _ in pairs:
                answers.append(link.answers.pop())
        return answers

    def count(self, size: int, kind: str, *requests: Message, link: Link | None = None) -> list[Any]:
        """Count the cost of a request at this size. Of several requests, the first half shows the memory."""
        answers = self.scene.count(kind, requests, link=link)
        cost = self.scene.costs[kind]
        self.curves.setdefault(kind, []).append(Point(size, cost.instructions, cost.kilobytes))
        return answers


def _all_answered(wanted: Mapping[Link, int]) -> Callable[[], bool]:
    return lambda: all(len(link.answers) >= count for link, count in wanted.items())


# ---- what grows


def consumer_members(node: Growing, sizes: Sequence[int]) -> None:
    """Members of a consumer group, each with one partition. Each size has a group and a topic of its own."""
    for size in sizes:
        topic = f"topic-{size}"
        node.topic(topic, size)
        group = ConsumerGroup(node, f"group-{size}", topic)
        group.epochs |= {f"member-{i:06}": 0 for i in range(size)}
        group.settle()
        count, first = node.count, "member-000000"
        count(size, "consumer group, heartbeat", *[group.beat(first)] * 4)
        count(size, "consumer group, describe", *[ConsumerGroupDescribeRequest([group.name])] * 2)
        count(size, "consumer group, one member more", group.beat("more"))
        group.epochs["more"] = 0
        group.settle()
        node.scene.ask(group.beat("more", -1))
        count(size, "consumer group, the next heartbeat when one has left", group.beat(first))


class ConsumerGroup:
    """Members that follow their targets. `epochs` by member; 0: it joins."""

    def __init__(self, node: Growing, name: str, topic: str) -> None:
        self.name, self.epochs = name, dict[str, int]()
        self._node, self._topic = node, topic
        self._owned: dict[str, list[Any]] = {}

    def beat(self, member: str, epoch: int | None = None) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat of a member."""
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        names = {} if epoch else {"subscribed_topic_names": [self._topic]}
        return beat(self.name, member, epoch, topic_partitions=self._owned.pop(member, None), **names)

    def settle(self) -> None:
        """Let the members heartbeat until they have reached their targets."""
        for _ in range(ROUNDS):
            members = list(self.epochs)
            for member, answer in zip(members, self._node.ask_all(list(map(self.beat, members))), strict=True):
                assert not answer.error_code, answer
                self.epochs[member] = answer.member_epoch
                if answer.assignment is not None:  # what the member owns from now on
                    self._owned[member] = [
                        ConsumerGroupHeartbeatRequestTopicPartitions(row.topic_id, row.partitions)
                        for row in answer.assignment.topic_partitions
                    ]
            self._node.rest(SETTLED_MS)
        assert len(set(self.epochs.values())) == 1


def classic_members(node: Growing, sizes: Sequence[int]) -> None:
    """Members of a classic group."""
    ids: list[str] = []
    for size in sizes:
        links = node.links(size)
        ids += [answer.member_id for answer in _together(node, links[len(ids) :], [join("g")] * (size - len(ids)))]
        for _ in range(2):
            joined = _together(node, links, [join("g", member) for member in ids])
            generation: int = joined[0].generation_id
            _together(node, links, [_synced(one) for one in joined])
        node.count(size, "classic group, heartbeat", *[HeartbeatRequest("g", generation, ids[0])] * 4)
        node.count(size, "classic group, describe", *[DescribeGroupsRequest(["g"])] * 2)


def _synced(joined: Any) -> SyncGroupRequest:
    given = [SyncGroupRequestAssignment(one.member_id, ASSIGNMENT) for one in joined.members]
    return SyncGroupRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range", given)


def _together(node: Growing, links: Sequence[Link], requests: Sequence[Message]) -> list[Any]:
    """Let clients ask at once whose requests wait for one another."""
    for link, request in zip(links, requests, strict=True):
        link.send(request)
    assert node.scene.node.world.run(lambda: all(link.answers for link in links), 600_000)
    return [link.answers.pop() for link in links]


def groups(node: Growing, sizes: Sequence[int]) -> None:
    """Groups with one member and one offset each."""
    topic_id = node.topic(TOPIC, 1)
    there = 0
    for size in sizes:
        node.ask_all([beat(f"group-{i:06}") for i in range(there, size)])
        node.ask_all([commit(f"offsets-{i:06}", topic_id, 5) for i in range(there, size)])
        there = size
        node.rest(10_000)
        count = node.count
        count(
            size,
            "groups, heartbeat",
            *[beat("group-000001", epoch=node.scene.ask(beat("group-000001")).member_epoch)] * 4,
        )
        count(size, "groups, a first member joins", *[beat(f"new-{size}-{i}") for i in range(4)])
        count(size, "groups, a first commit", *[commit(f"simple-{size}-{i}", topic_id, 5) for i in range(4)])
        count(size, "groups, delete one", *[DeleteGroupsRequest([f"simple-{size}-{i}"]) for i in range(4)])
        count(size, "groups, list all", *[ListGroupsRequest()] * 2)


def offsets(node: Growing, sizes: Sequence[int]) -> None:
    """Offsets of one group."""
    topic_ids = [node.topic(f"topic-{at}", MAX_PARTITIONS) for at in range(0, sizes[-1], MAX_PARTITIONS)]
    topic_id, there = topic_ids[0], 0
    rows = offset_fetch.OffsetFetchRequestTopics("", topic_id, [0])
    one, every = (
        offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("c", None, -1, which)])
        for which in ([rows], None)
    )
    for size in sizes:
        while there < size:
            at = there % MAX_PARTITIONS
            some = min(COMMITTED, size - there, MAX_PARTITIONS - at)
            node.scene.ask(commit("c", topic_ids[there // MAX_PARTITIONS], 5, some, at))
            there += some
        node.rest(10_000)
        node.count(size, "offsets, commit one", *[commit("c", topic_id, i) for i in range(4)])
        node.count(size, "offsets, fetch one", *[one] * 4)
        node.count(size, "offsets, fetch all", *[every] * 2)


def partitions(node: Growing, sizes: Sequence[int]) -> None:
    """Partitions of one topic."""
    for size in sizes:
        name = f"topic-{size}"
        node.count(size, "partitions, create a topic with them", CreateTopicsRequest([CreatableTopic(name, size, 1)]))
        metadata = MetadataRequest([MetadataRequestTopic(name=name)])
        (row,) = node.scene.ask(metadata).topics
        node.rest(10_000)
        node.count(size, "partitions, metadata of all", *[metadata] * 2)
        small = producing(row.topic_id, batch(b"x" * 100), (1,))
        node.scene.ask(small)
        node.count(size, "partitions, produce to one", *[small] * 4)
        node.count(size, "partitions, fetch from one", *[fetching(row.topic_id, 400, partition=1)] * 4)


def topics(node: Growing, sizes: Sequence[int]) -> None:
    """Topics of one partition."""
    there = 0
    for size in sizes:
        for at in range(there, size, AT_ONCE):
            new = [CreatableTopic(f"topic-{i:06}", 1, 1) for i in range(at, min(size, at + AT_ONCE))]
            node.scene.ask(CreateTopicsRequest(new))
        there = size
        node.rest(10_000)
        metadata = MetadataRequest([MetadataRequestTopic(name="topic-000001")])
        topic_id = node.scene.ask(metadata).topics[0].topic_id
        node.count(size, "topics, metadata of one", *[metadata] * 4)
        node.count(size, "topics, metadata of all", *[MetadataRequest(None)] * 2)
        node.count(size, "topics, commit an offset of one", *[commit("c", topic_id, i) for i in range(4)])
        more = [CreateTopicsRequest([CreatableTopic(f"more-{size}-{i}", 1, 1)]) for i in range(4)]
        node.count(size, "topics, create one more", *more)


def connections(node: Growing, sizes: Sequence[int]) -> None:
    """Connections, each of a member of another group."""
    there = 0
    for size in sizes:
        links = node.links(size)
        for at in range(there, size):
            links[at].send(beat(f"group-{at:06}"))
        assert node.scene.node.world.run(lambda links=links: all(link.answers for link in links), 600_000)  # type: ignore[misc]  # bound now
        there = size
        node.rest(10_000)
        again = beat("group-000001", epoch=links[1].answers[-1].member_epoch)
        node.count(size, "connections, heartbeat on one of them", *[again] * 4, link=links[1])
        node.count(size, "connections, the first request of another", again, link=node.scene.node.connect())


FLAT: Final = 0.05
"""The exponent that a cost may have that does not grow."""
LINEAR: Final = 1.15
"""The exponent that a cost may have that grows as the answer or the computation grows: as n log n."""
GROWS: Final[Mapping[str, float]] = {
    "consumer group, describe": LINEAR,
    "consumer group, one member more": LINEAR,
    "consumer group, the next heartbeat when one has left": LINEAR,
    "classic group, describe": LINEAR,
    "groups, list all": LINEAR,
    "offsets, fetch all": LINEAR,
    "partitions, create a topic with them": LINEAR,
    "partitions, metadata of all": LINEAR,
    "topics, metadata of all": LINEAR,
}
"""The kinds whose cost may grow; all others stay the same."""
SCENES: Final[Mapping[str, Callable[[Growing, Sequence[int]], None]]] = {
    "members of a consumer group": consumer_members,
    "members of a classic group": classic_members,
    "groups": groups,
    "offsets of a group": offsets,
    "partitions of a topic": partitions,
    "topics": topics,
    "connections": connections,
}
"""By what grows."""


def curves(scene: str, sizes: Sequence[int]) -> dict[str, list[Point]]:
    """Let a node grow to these sizes; return the curve of each kind of request."""
    with undisturbed():
        node = Growing()
        try:
            SCENES[scene](node, sizes)
        finally:
            node.scene.close()
    return node.curves
