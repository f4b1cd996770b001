"""The share coordinator of a node, once its topic exists. It is also the node's persister.

As on Kafka, the first FindCoordinator for a share partition creates the topic __share_group_state. A question of the
persister creates the topic too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import structlog

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.runtime.late_shards import LateShards
from muster.coordinator.runtime.routing import ByPartition, check_placement
from muster.coordinator.state_machine.interface import Respond
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue, PendingResult
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import PARTITIONS_PROPERTIES, SHARE_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from muster.coordinator.runtime.share_coordinator.shard import ShareStateShard
    from muster.coordinator.share_state.core import ShareStateSettings
    from muster.coordinator.share_state.persister import (
        DeleteState,
        InitializeState,
        LoadedState,
        ReadState,
        ReadSummary,
        StateRequest,
        StateResponse,
        Summary,
        WriteState,
    )

log = structlog.get_logger("muster.share")

_LOAD_NEW_MS: Final = 20
RETRY_MS: Final = (50, 100, 200, 400, 800, 1_600, 3_200)
"""How long the persister waits before it asks again, if the coordinator moves, loads, or cannot be reached."""
_MAY_PASS: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class StatePeers(Protocol):
    """The other nodes, reached through `postgres.node_messages`."""

    def leads(self, topic: str, index: int) -> int | None:
        """The id of the node that leads a partition, if that is another node."""

    def ask_state(self, node_id: int, request: StateRequest, respond: Respond) -> None:
        """Let the share coordinator of another node answer."""


class Place(NamedTuple):
    """The place of a node among the nodes that coordinate share groups."""

    node_id: int = -1
    leaders: Callable[[], Sequence[Leader]] | None = None
    """The leaders of the partitions of the topic. None: this node leads all partitions."""
    leader_shards: ByPartition[ShareStateShard] | None = None
    """The leading shards on all nodes of this process. None means that this process has only one node."""
    peers: StatePeers | None = None
    """The nodes of other processes. None means that no other process exists."""


class ShareStates(LateShards["ShareStateShard"]):
    """The share coordinator, with the methods of `Persister`."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        job_queue: JobQueue,
        settings: Callable[[], tuple[ShareStateSettings, int]],
        place: Place = Place(),  # noqa: B008  # the tuple never changes
    ) -> None:
        """`settings` makes the settings when they are first needed: those of the core, and the `linger_ms` of
        `CoordinatorShard`.
        """
        super().__init__(topics, clock, SHARE_STATE_TOPIC)
        self._job_queue = job_queue
        self._make_settings = settings
        self._place = place

    # ---- the shards

    def start(self, budget_ms: int) -> None:
        """Load the states for about `budget_ms`, or later when the topic exists."""
        if SHARE_STATE_TOPIC in self._topics.by_name:
            self._open(budget_ms)
        self._topics.subscribe(self._topics_changed)

    def _topics_changed(self, image: TopicsImage) -> None:
        if self.routing.ready:
            for shard in self.routing.shards:
                shard.topics_changed(image)
        elif SHARE_STATE_TOPIC in image.by_name:
            self._open(_LOAD_NEW_MS)

    def _open(self, budget_ms: int) -> None:
        # Imported late, because most servers have no share groups.
        from muster.coordinator.runtime.share_coordinator.shard import WHAT, share_state_shards

        shards = share_state_shards(self._topics, self._clock, *self._make_settings())
        self.load(shards, WHAT, self._place.node_id, self._place.leaders, self._check_placement, budget_ms)

    def _check_placement(self) -> None:
        """Log one line if states are in wrong partitions, as after a copy from another cluster."""
        names = [shard.keys() for shard in self.routing.shards]
        lost = "their records are delivered again"
        check_placement(names, "share partitions", SHARE_STATE_TOPIC, PARTITIONS_PROPERTIES[SHARE_STATE_TOPIC], lost)

    def ensuring(self) -> Job[None]:
        """A job that creates the topic if it does not exist. Raises `ApiError`."""
        if not self.routing.ready:
            yield from self._topics.ensuring(SHARE_STATE_TOPIC)
            later = PendingResult()
            self._topics.when_durable(later)
            failure: Any = yield later
            if failure is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))

    def submit(self, request: StateRequest, respond: Respond) -> None:
        """Let the shard of this node decide a request, without a retry."""
        if self.routing.ready:
            self.routing.shard(str(request.key)).submit(request, respond)
        else:
            from muster.coordinator.runtime.share_coordinator.error_responses import refuse

            respond(refuse(request, ErrorCode.NOT_COORDINATOR))

    # ---- the persister

    def initialize(self, request: InitializeState, respond: Callable[[StateResponse], object]) -> None:
        """See `Persister`."""
        self._ask(request, respond)

    def read(self, request: ReadState, respond: Callable[[LoadedState], object]) -> None:
        """See `Persister`."""
        self._ask(request, respond)

    def write(self, request: WriteState, respond: Callable[[StateResponse], object]) -> None:
        """See `Persister`."""
        self._ask(request, respond)

    def delete(self, request: DeleteState, respond: Callable[[StateResponse], object]) -> None:
        """See `Persister`."""
        self._ask(request, respond)

    def read_summary(self, request: ReadSummary, respond: Callable[[Summary], object]) -> None:
        """See `Persister`."""
        self._ask(request, respond)

    def _ask(self, request: StateRequest, respond: Callable[[Any], object], attempt: int = 0) -> None:
        def answered(response: Any) -> None:
            if response.error_code not in _MAY_PASS or attempt == len(RETRY_MS):
                respond(response)
                return
            machine = self._clock.machine
            machine.call_at(machine.mono_ms() + RETRY_MS[attempt], lambda: self._ask(request, respond, attempt + 1))

        if self.routing.ready:
            self._ask_leader(request, answered)
        else:
            self._job_queue.run(self._creating(), lambda _: self._ask_leader(request, answered), self)

    def _ask_leader(self, request: StateRequest, respond: Respond) -> None:
        """Ask the shard of the node that leads the key's partition."""
        place = self._place
        if self.routing.ready:
            partition = self.routing.partition(str(request.key))
            peer = None if place.peers is None else place.peers.leads(SHARE_STATE_TOPIC, partition)
            if peer is not None and place.peers is not None:
                place.peers.ask_state(peer, request, respond)
                return
            if place.leader_shards:
                place.leader_shards[partition].submit(request, respond)
                return
        self.submit(request, respond)

    def _creating(self) -> Job[None]:
        try:
            yield from self.ensuring()
        except ApiError as error:
            log.warning("the topic of the states of share groups cannot be created", reason=error.message)

    closed = False

    def fault(self, error: Exception) -> None:
        """See `jobs.Owner`."""
        log.error("the share coordinator could not begin", exc_info=error)
