"""What handlers may reach: the clock, the topics, the shards of the groups and of transactions, the configuration, who
this node is.

A plain holder put together by the composition root (`coordinator.server`); it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog

from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.decoded_requests import DecodedRequests
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.properties.live import Live
from muster.coordinator.security.authorizer import AllowAll, Authorizer
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.cluster_image import ClusterImage
from muster.coordinator.topics.fetch_sessions import FetchSessions
from muster.protocol.message import Message

if TYPE_CHECKING:
    from muster.coordinator.quotas.managers import ClientQuotas
    from muster.coordinator.runtime.group_coordinator.shard import GroupShard
    from muster.coordinator.runtime.routing import Routing
    from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
    from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens
    from muster.coordinator.topics.leadership import Place
    from muster.coordinator.topics.topics import Topics
    from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord

log = structlog.get_logger("muster.api")

Respond = Callable[[Message | None], None]
"""Sends the answer of one request, in the newest shape; None when no answer is owed (Produce with acks=0)."""


Request = TypeVar("Request", bound=Message)
JobOfRequest = Callable[["Node", RequestContext, Request], Job[Message | None]]
Handle = Callable[["Node", RequestContext, Request, Respond], None]


def in_slices(job: JobOfRequest[Request]) -> Handle[Request]:
    """A handler that answers with the result of a job, which is done in slices (`coordinator.system.jobs`)."""

    @wraps(job)
    def handle(node: Node, context: RequestContext, request: Request, respond: Respond) -> None:
        node.run(context, respond, job(node, context, request))

    return handle


def to_the_end(job: JobOfRequest[Request]) -> Handle[Request]:
    """`in_slices` for a job that changes what others see: it is done whether its client waits for it or not."""

    @wraps(job)
    def handle(node: Node, context: RequestContext, request: Request, respond: Respond) -> None:
        node.run_to_end(context, respond, job(node, context, request))

    return handle


def on_the_newest(job: JobOfRequest[Request]) -> Handle[Request]:
    """`to_the_end` for what Kafka's brokers have their controller do: it is decided on all that was decided before, by
    any node.
    """

    @wraps(job)
    def handle(node: Node, context: RequestContext, request: Request, respond: Respond) -> None:
        node.run_to_end(context, respond, node.on_the_newest(job(node, context, request)))

    return handle


class Controller(Protocol):
    """Who changes what brokers there are and who leads what (`coordinator.server.nodes.cluster` is one)."""

    def catching_up(self) -> Job[None]:
        """Live by all that other nodes have decided until now. Whoever cannot finds out when it writes."""

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        """Have a partition changed as `decide` says just then: what it leads moves at once. Raises `ApiError`."""

    def unregistering(self, broker_id: int) -> Job[None]:
        """Take a broker out of the cluster; what it leads moves at once. Raises `ApiError`."""


class _Staying:
    """In place of a client: its request is worked on to the end, also when the client has gone."""

    __slots__ = ("channel", "fault")
    closed = False

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.fault = channel.fault

    @property
    def throttle(self) -> Any:
        """See `Channel`."""
        return self.channel.throttle


class _Nobody:
    """In place of a client, for what none waits for."""

    closed = False

    def fault(self, error: Exception) -> None:
        """A fault of the program."""
        log.error("work that nobody waits for failed", exc_info=error)


_NOBODY: Final = _Nobody()


def _nothing(_: object) -> None:
    pass


class Node:
    """This node, as handlers see it."""

    __slots__ = (
        "_most_sessions",
        "authorizer",
        "clock",
        "cluster",
        "config",
        "controller",
        "decoded_requests",
        "delegation_tokens",
        "draw_uuid",
        "draw_uuid_text",
        "quotas",
        "routing",
        "serves_consumer_groups",
        "sessions",
        "short_ways",
        "slices",
        "topics",
        "transactions",
        "unsent",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        topics: Topics,
        routing: Routing[GroupShard],
        transactions: Transactions,
        config: Live,
        cluster: ClusterImage,
        authorizer: Authorizer | None = None,
        slices: JobQueue | None = None,
        unsent: Unsent | None = None,
        draw_uuid: Callable[[], bytes] | None = None,
        draw_uuid_text: Callable[[], str] | None = None,
        fetch_sessions: int = 1_000,
        controller: Controller | None = None,
    ) -> None:
        """`slices`: where large requests are worked on; None is one without a thread.
        `unsent`: what answers may take; None: all they want.

        `fetch_sessions`: how many are kept at once (KIP-227).

        `draw_uuid`: a fresh id of a topic or so, 16 bytes; `draw_uuid_text`: the text that member ids end in.

        The latter two may be given by tests that want known ids.
        """
        self.clock = clock
        self.topics = topics
        self.routing = routing
        self.transactions = transactions
        self.config = config
        self.authorizer = authorizer or AllowAll()
        self.cluster = cluster
        self.slices = slices or JobQueue(clock)
        self.unsent = unsent or Unsent(clock)
        self.decoded_requests = DecodedRequests(clock)
        self.quotas: ClientQuotas | None = None
        """The quotas of users and client ids; None: there were none since the start."""
        self.serves_consumer_groups: bool | None = None
        """Whether the new protocol is served (KIP-848); None: nobody has asked yet."""
        self.delegation_tokens: DelegationTokens | None = None
        """None: there are none, because no `delegation.token.secret.key` is given."""
        self.short_ways = True
        """Whether requests may take those of `api.short`; tests and `bench` compare."""
        self.draw_uuid = draw_uuid or uuids.draw_uuid
        self._most_sessions = fetch_sessions
        self.forget_sessions()
        self.controller = controller
        self.draw_uuid_text = draw_uuid_text or uuids.draw_uuid_text

    def forget_sessions(self) -> None:
        """No fetch session is known any more: at a start."""
        self.sessions = FetchSessions(self._most_sessions, self._draw_session_id)

    def _draw_session_id(self) -> int:
        drawn = self.draw_uuid()
        return (int.from_bytes(drawn[:4]) + int.from_bytes(drawn[-4:])) & 0x7FFF_FFFF

    def run(self, context: RequestContext, respond: Respond, job: Job[Message | None]) -> None:
        """Answer a request with the result of a job, which is done in slices (`coordinator.system.jobs`)."""
        self.slices.run(job, respond, context.channel)

    def on_the_newest(self, job: Job[Message | None]) -> Job[Message | None]:
        """Do it when this node lives by all that was decided."""
        if self.controller is not None:
            yield from self.controller.catching_up()
        return (yield from job)

    def run_behind(self, job: Job[None]) -> None:
        """Do what no client waits for, a little in each iteration of the event loop."""
        self.slices.run_behind(job, _nothing, _NOBODY)

    def run_to_end(self, context: RequestContext, respond: Respond, job: Job[Message | None]) -> None:
        """`run` for a job that changes what others see: it is done whether its client waits for it or not."""
        self.slices.run(job, respond, _Staying(context.channel))
