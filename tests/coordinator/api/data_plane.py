"""Helpers of tests of the data plane: a node over logs in memory, and short calls for requests."""

from __future__ import annotations

from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import SERVED, handler
from muster.coordinator.runtime.share_coordinator.share_states import ShareStates
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.share_state.core import ShareStateSettings
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.transactions.commands import TransactionSettings
from muster.protocol.api import api_named
from muster.protocol.message import Message
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.coordinator.api.harness import Answers, make_context, make_node
from tests.coordinator.topics.support import make_topics, started_with


def data_node(config: dict[str, str] | None = None, clock: ManualClock | None = None, **settings: Any) -> Node:
    """A node with topics over logs in memory."""
    clock, live = clock or ManualClock(), started_with(config or {})
    topics, job_queue = make_topics(clock=clock, live=live, **settings), JobQueue(clock)
    transactions = Transactions(topics, clock, job_queue, (), TransactionSettings)
    transactions.start(100)
    persister = ShareStates(topics, clock, job_queue, lambda: (ShareStateSettings(), 0))
    persister.start(100)
    return make_node(
        clock=clock, topics=topics, config=live, job_queue=job_queue, transactions=transactions, persister=persister
    )


def send(node: Node, request: Message, version: int | None = None, context: RequestContext | None = None) -> Answers:
    """Give a request to its handler, by default in the newest served version."""
    served = SERVED[api_named(type(request).__name__.removesuffix("Request")).key]
    context = context or make_context(served.key, served.max_version if version is None else version)
    answers = Answers()
    at_once = handler(served.key)(node, context, request, answers)
    if at_once is not None:
        answers(at_once)
    return answers


def ask_one(node: Node, request: Message, version: int | None = None) -> Any:
    """The answer to a request that is answered at once."""
    return send(node, request, version).one()


def topic_id(node: Node, name: str) -> bytes:
    """The id of an existing topic."""
    return node.topics.by_name[name].topic_id


def fetch_request(
    node: Node, *rows: tuple[str, int, int], forget: tuple[tuple[str, int], ...] = (), **more: Any
) -> FetchRequest:
    """A Fetch by topic ids of (topic, partition, offset); by default without a session and without waiting."""
    topics = [
        FetchTopic(
            topic_id=topic_id(node, name),
            partitions=[FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20)],
        )
        for name, index, offset in rows
    ]
    forgotten = [ForgottenTopic(topic_id=topic_id(node, name), partitions=[index]) for name, index in forget]
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **more}
    return FetchRequest(topics=topics, forgotten_topics_data=forgotten, **values)
