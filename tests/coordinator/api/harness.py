"""Helpers of tests of handlers: contexts, a node made of parts, and a Respond that keeps its answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.exchange import Intercept
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import SERVED, handler
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.security.authorizer import Requester
from muster.coordinator.share_state.persister import Summary
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.cluster_image import Broker, ClusterImage, Endpoint, Leader
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, PARTITIONS_PROPERTIES
from muster.coordinator.topics.settings import TopicSettings
from muster.protocol.api import api_named
from muster.protocol.message import Message
from tests.coordinator.fakes import FakeCodec, FakeLog
from tests.coordinator.topics.support import started_with


class Answers:
    """A `Respond` that keeps what it is called with."""

    def __init__(self) -> None:
        self.all: list[Message | None] = []

    def __call__(self, response: Message | None) -> None:
        self.all.append(response)

    def one(self) -> Any:
        """The only answer; fails if there is none yet, or more than one."""
        assert len(self.all) == 1, f"{len(self.all)} answers"
        return self.all[0]


def make_channel(host: str = "127.0.0.1", port: int = 9092, listener: str = "PLAINTEXT") -> Channel:
    """A connection from 10.0.0.9 to a node that is reached at host:port."""
    return Channel(listener, Endpoint(host, port), peer="10.0.0.9:50000", host="/10.0.0.9")


def make_context(
    api_key: int = 12, api_version: int = 4, client_id: str = "test", channel: Channel | None = None
) -> RequestContext:
    """The context of a request."""
    channel = channel or make_channel()
    return RequestContext(channel, Client(client_id, channel.host), api_key, api_version)


class NoStates:
    """A persister that keeps no state of any share partition."""

    def read_summary(self, _: Any, respond: Any) -> None:
        """Answer that there is no state."""
        respond(Summary())


def make_node(*, node_id: int = 1, rack: str | None = None, **parts: Any) -> Node:
    """A node; the parts not given are a ManualClock, known ids, a cluster of this node, and nothing for topics,
    routing and transactions.
    """
    ids = itertools.count(1)
    leaders = getattr(getattr(parts.get("topics"), "open", None), "leaders", {})
    defaults: dict[str, Any] = {
        "clock": ManualClock(),
        "topics": None,
        "routing": None,
        "transactions": None,
        "persister": NoStates(),
        "config": started_with({}),
        "cluster": ClusterImage(
            "test-cluster-id-000000", node_id, node_id, {node_id: Broker(node_id, rack, {}, 0)}, leaders
        ),
        "draw_uuid": lambda: next(ids).to_bytes(16, "big"),
        "draw_uuid_text": lambda: f"00000000-0000-4000-8000-{next(ids):012}",
    }
    return Node(**cast(Any, {**defaults, **parts}))


class TickingClock(ManualClock):
    """A clock on which a millisecond passes whenever a step ends."""

    def mono_ms(self) -> int:
        self._move_to(self._now.mono_ms + 1)
        return super().mono_ms()


class Refusing:
    """An authorizer that refuses the given permissions, allows all others, and keeps the questions."""

    def __init__(self, *refused: tuple[int, int, str]) -> None:
        """`refused`: (operation, resource type, name); the name "*" is that of `allows_some`."""
        self.version = 0
        self.refused = set(refused)
        self.asked: list[tuple[int, int, str]] = []

    def allows(self, _: Requester, operation: int, resource_type: int, name: str, *, log_denied: bool = True) -> bool:
        del log_denied
        question = operation, resource_type, name
        self.asked.append(question)
        return question not in self.refused

    def allowed(
        self,
        requester: Requester,
        operation: int,
        resource_type: int,
        names: Iterable[str],
        *,
        log_denied: bool = True,
    ) -> set[str]:
        del log_denied
        return {name for name in names if self.allows(requester, operation, resource_type, name)}

    def allows_some(self, requester: Requester, operation: int, resource_type: int) -> bool:
        return self.allows(requester, operation, resource_type, "*")


class FakeTopics:
    """The part of `Topics` that group handlers use: the image."""

    def __init__(self, **partitions: int) -> None:
        """Topics by name with their partition counts; ids are their places, from 1."""
        topics = {
            name.replace("_", "-"): TopicImage(name.replace("_", "-"), place.to_bytes(16, "big"), count)
            for place, (name, count) in enumerate(partitions.items(), 1)
        }
        self.image = TopicsImage(topics, 7)
        self.open = SimpleNamespace(leaders={GROUP_OFFSETS_TOPIC: [Leader(1, 0)]})
        self.settings = TopicSettings()
        self.state = SimpleNamespace(features={})


class FakeTransactions:
    """The part of `Transactions` and `ShareStates` that FindCoordinator uses, with `shards` partitions."""

    def __init__(self, shards: int) -> None:
        self.routing = Routing(range(shards))


def make_group_node(
    topics: FakeTopics | None = None,
    shards: int = 3,
    clock: ManualClock | None = None,
    settings: GroupSettings | None = None,
    **parts: Any,
) -> Node:
    """A node with real groups, over logs that accept everything."""
    topics, clock = topics or FakeTopics(), clock or ManualClock()
    groups = settings or GroupSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100)
    node_id = parts.get("node_id", 1)
    for name in PARTITIONS_PROPERTIES:
        topics.open.leaders[name] = [Leader(node_id, 0)] * shards
    made = []
    for index in range(shards):
        log = FakeLog()
        shard = GroupShard(
            index, partial(GroupCore, groups), partial(_open, log), clock, topics.image, codec=FakeCodec()
        )
        for _ in shard.runtime.start():
            pass
        made.append(shard)
    parts.setdefault("transactions", FakeTransactions(shards))
    parts.setdefault("persister", FakeTransactions(shards))
    return make_node(topics=topics, clock=clock, routing=Routing(made), **parts)


def _open(log: FakeLog) -> Any:
    return log, 0


def ask(node: Node, request: Message, context: RequestContext | None = None) -> Answers:
    """Pass a request of a group API to its handler, by the registry, in the newest version."""
    name = type(request).__name__.removesuffix("Request")
    key = api_named(name).key
    answers = Answers()
    at_once = handler(key)(node, context or make_context(key, SERVED[key].max_version), request, answers)
    if at_once is not None:
        answers(at_once)
    return answers


def before_handler(act: Any, wants: Any = lambda _: True) -> Intercept:
    """An interceptor that calls `act(context, request, proceed)` before the handler."""
    return Intercept(lambda context, request, exchange, run: act(context, request, lambda: run(exchange)), wants)


def before_answer(act: Any, wants: Any = lambda _: True) -> Intercept:
    """An interceptor that calls `act(context, response, proceed)` before the answer is encoded."""
    return Intercept(lambda context, _, exchange, run: run(lambda response: act(context, response, exchange)), wants)
