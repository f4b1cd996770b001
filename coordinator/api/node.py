"""What handlers may reach: clock, topics, shards of groups and transactions, configuration, and the node's identity.

The composition root (`coordinator.server`) fills this plain object. The object decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

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
    from muster.coordinator.runtime.share_coordinator.share_states import ShareStates
    from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
    from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
    from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens
    from muster.coordinator.telemetry.client_instances import ClientInstances
    from muster.coordinator.telemetry.reports import ClientReports
    from muster.coordinator.topics.leadership import Place
    from muster.coordinator.topics.topics import Topics
    from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord

log = structlog.get_logger("muster.api")

Respond = Callable[[Message | None], None]
"""A function that sends the answer of one request, in the newest shape. None if the client gets no answer (acks=0)."""


PLAIN_ROWS: Final = 50
"""**The rule of rows.** Requests that clients send all the time are handled by plain functions. A request of at most
`PLAIN_ROWS` rows is handled within the call of its handler. A request of more rows is a job, which calls the same
functions for `PLAIN_ROWS` rows in each step. Requests of administrators are always jobs (`in_steps`); a small job ends
within the call, too.
"""

Request = TypeVar("Request", bound=Message)
T = TypeVar("T")
JobOfRequest = Callable[["Node", RequestContext, Request], Job[Message | None]]
Handle = Callable[["Node", RequestContext, Request, Respond], None]


def parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """The rows of a large request, `PLAIN_ROWS` at a time."""
    for start in range(0, len(rows), PLAIN_ROWS):
        yield rows[start : start + PLAIN_ROWS]


@overload
def in_steps(job: JobOfRequest[Request], /) -> Handle[Request]: ...
@overload
def in_steps(*, changes: bool = ..., forwarded: bool = ...) -> Callable[[JobOfRequest[Request]], Handle[Request]]: ...
def in_steps(job: Any = None, /, *, changes: bool = False, forwarded: bool = False) -> Any:
    """A handler that answers with the result of a job (`coordinator.system.jobs`).

    `changes`: the job changes shared state, and is completed even after its client has disconnected. `forwarded`: as
    `changes`, for requests that Kafka's brokers forward to the controller; all earlier decisions are applied before.
    """
    if job is None:
        return partial(in_steps, changes=changes, forwarded=forwarded)

    run = Node.run_forwarded if forwarded else Node.run_to_end if changes else Node.run

    @wraps(job)
    def handle(node: Node, context: RequestContext, request: Any, respond: Respond) -> None:
        run(node, context, respond, job(node, context, request))

    return handle


class Controller(Protocol):
    """Changes the set of brokers and the leaders of partitions (see `coordinator.server.nodes.cluster`)."""

    def catching_up(self) -> Job[None]:
        """Apply all decisions that other nodes have made until now. The next write reports a failure to do so."""

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        """Change a partition by the record that `decide` then returns. Leadership moves at once. Raises `ApiError`."""

    def unregistering(self, broker_id: int) -> Job[None]:
        """Remove a broker from the cluster. Other brokers lead the partitions at once. Raises `ApiError`."""


class Peers(Protocol):
    """The nodes of other processes, as far as handlers ask them."""

    def leads(self, topic: str, index: int) -> int | None:
        """The id of the node that leads a partition, if that is another node."""

    def ask_ends(
        self, node_id: int, places: Sequence[tuple[str, int]], respond: Callable[[Sequence[int]], object]
    ) -> None:
        """Ask a node for the end offsets of partitions. `respond` gets one for each of them; -1: it is not known."""


class _OwnerOfChanges:
    """The owner of a job that is completed even after the client has disconnected."""

    __slots__ = ("channel", "fault")
    closed = False

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.fault = channel.fault

    @property
    def throttle(self) -> Any:
        return self.channel.throttle


class _BackgroundOwner:
    """The owner of work that no client waits for."""

    closed = False

    def fault(self, error: Exception) -> None:
        log.error("work that nobody waits for failed", exc_info=error)


_NOBODY: Final = _BackgroundOwner()


def _nothing(_: object) -> None:
    pass


class Node:
    """The objects of this node that handlers use."""

    __slots__ = (
        "_most_sessions", "authorizer", "client_instances", "client_reports", "clock", "cluster", "config",
        "controller", "decoded_requests", "delegation_tokens", "draw_uuid", "draw_uuid_text", "job_queue", "peers",
        "persister", "quotas", "routing", "served_protocols", "sessions", "share_partitions", "topics",
        "transactions", "unsent",
    )  # fmt: skip

    def __init__(
        self,
        *,
        clock: Clock,
        topics: Topics,
        routing: Routing[GroupShard],
        transactions: Transactions,
        persister: ShareStates,
        config: Live,
        cluster: ClusterImage,
        authorizer: Authorizer | None = None,
        job_queue: JobQueue | None = None,
        unsent: Unsent | None = None,
        draw_uuid: Callable[[], bytes] | None = None,
        draw_uuid_text: Callable[[], str] | None = None,
        fetch_sessions: int = 1_000,
        controller: Controller | None = None,
        share_partitions: SharePartitions | None = None,
        client_reports: ClientReports | None = None,
        peers: Peers | None = None,
    ) -> None:
        """`job_queue`: None means a queue without a thread. `unsent`: the memory limit of answers; None means no limit.
        `fetch_sessions`: the most sessions that are kept at once (KIP-227). `draw_uuid`: returns a fresh id of 16
        bytes. `draw_uuid_text`: returns the end of a member id. Tests may replace both functions.
        """
        self.clock = clock
        self.topics = topics
        self.routing = routing
        self.transactions = transactions
        self.persister = persister
        """The share coordinator of this node, which asks the share coordinators of other nodes too."""
        self.config = config
        self.authorizer = authorizer or AllowAll()
        self.cluster = cluster
        self.job_queue = job_queue or JobQueue(clock)
        self.unsent = unsent or Unsent(clock)
        self.decoded_requests = DecodedRequests(clock)
        self.quotas: ClientQuotas | None = None
        """The quotas of users and client ids. None means that no quota has existed since the start."""
        self.served_protocols: dict[str, bool] = {}
        """Whether the node serves a protocol of groups (`groups.protocols`), as far as a request has asked."""
        self.delegation_tokens: DelegationTokens | None = None
        """The delegation tokens. None means that no `delegation.token.secret.key` is configured."""
        self.client_reports = client_reports
        """The metrics that clients push (KIP-714). None: the node has no receiver of metrics, and advertises none."""
        self.client_instances: ClientInstances | None = None
        """The clients that may push metrics. None means that no client has asked yet."""
        self.draw_uuid = draw_uuid or uuids.draw_uuid
        self._most_sessions = fetch_sessions
        self.forget_sessions()
        self.controller = controller
        self.peers = peers
        """The nodes of other processes. None means that no other process exists."""
        self.share_partitions = share_partitions
        """The share partitions that the node leads. None means that the node serves no share groups."""
        self.draw_uuid_text = draw_uuid_text or uuids.draw_uuid_text

    def forget_sessions(self) -> None:
        """Forget all fetch sessions, at a start of the node."""
        self.sessions = FetchSessions(self._most_sessions, self._draw_session_id)

    def features_changed(self) -> None:
        """Forget what followed from the feature levels: cached requests, and which protocols are served."""
        self.served_protocols.clear()
        self.authorizer.version += 1

    def _draw_session_id(self) -> int:
        drawn = self.draw_uuid()
        return (int.from_bytes(drawn[:4]) + int.from_bytes(drawn[-4:])) & 0x7FFF_FFFF

    def run(self, context: RequestContext, done: Callable[[T], object], job: Job[T]) -> None:
        """Give `done` the result of a job, unless the connection ends before (`coordinator.system.jobs`)."""
        self.job_queue.run(job, done, context.channel)

    def run_behind(self, job: Job[None]) -> None:
        """Run work that no client waits for, a part in each iteration of the event loop."""
        self.job_queue.run_behind(job, _nothing, _NOBODY)

    def run_to_end(self, context: RequestContext, respond: Respond, job: Job[Message | None]) -> None:
        """`run` for a job that changes shared state. The job is completed even after its client has disconnected."""
        self.job_queue.run(job, respond, _OwnerOfChanges(context.channel))

    def run_forwarded(self, context: RequestContext, respond: Respond, job: Job[Message | None]) -> None:
        """`run_to_end` for a job that begins after this node has applied all earlier decisions of any node."""
        self.run_to_end(context, respond, self._after_catching_up(job))

    def _after_catching_up(self, job: Job[Message | None]) -> Job[Message | None]:
        if self.controller is not None:
            yield from self.controller.catching_up()
        return (yield from job)
