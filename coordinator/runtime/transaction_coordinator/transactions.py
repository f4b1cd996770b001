"""The transaction coordinator of a node: the shards, once the topic exists, and fresh producer ids for them.

As on Kafka, the first FindCoordinator for a transactional id creates the topic __transaction_state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.runtime.late_shards import LateShards
from muster.coordinator.runtime.routing import ByPartition
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue, PendingResult, at_once
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from muster.coordinator.runtime.group_coordinator.shard import GroupShard
    from muster.coordinator.runtime.transaction_coordinator.markers import Peers
    from muster.coordinator.runtime.transaction_coordinator.shard import Observer, TransactionShard
    from muster.coordinator.transactions.commands import TransactionCommand, TransactionSettings

log = structlog.get_logger("muster.transactions")

_LOAD_NEW_MS: Final = 20
NO_ID: Final = -1
_SPARE_IDS: Final = 100
"""How many unused producer ids are kept for later commands."""


class Transactions(LateShards["TransactionShard"]):
    """The transaction coordinator."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        job_queue: JobQueue,
        groups: ByPartition[GroupShard],
        settings: Callable[[], TransactionSettings],
        *,
        observe: Callable[[int], Observer | None] = lambda _: None,
        linger_ms: int = 0,
        history: str | None = None,
        loaded: Callable[[], object] = lambda: None,
        node_id: int = NO_ID,
        leaders: Callable[[], Sequence[Leader]] | None = None,
        leader_shards: ByPartition[TransactionShard] | None = None,
        peers: Peers | None = None,
    ) -> None:
        """For arguments that are not named in this docstring see `shard.transaction_shards`.

        `settings` makes the settings when they are first needed. `history`: the topic that `observe` writes to; it is
        created before the shards. `loaded` is called when all transactional ids are loaded. `leaders`: the leaders of
        the topic's partitions; this node is `node_id`. None: this node leads all partitions. `leader_shards`: the
        leading shards on all nodes of this process; None when this process has only one node. `peers`: the nodes of
        other processes; None without other processes.
        """
        super().__init__(topics, clock, TRANSACTION_STATE_TOPIC)
        self._peers = peers
        self._job_queue = job_queue
        self._groups = groups
        self._make_settings = settings
        self._settings: TransactionSettings | None = None
        self._observe = observe
        self._linger_ms = linger_ms
        self._history = history
        self._loaded = loaded
        self._is_making_history = False
        self._spare_ids: list[int] = []
        self._is_drawing = False
        self._node_id = node_id
        self._leaders = leaders
        self._leader_shards = leader_shards

    @property
    def settings(self) -> TransactionSettings:
        """The settings of the core."""
        if self._settings is None:
            self._settings = self._make_settings()
        return self._settings

    # ---- the shards

    def start(self, budget_ms: int) -> None:
        """Load the transactional ids for about `budget_ms`, or later when the topic exists. Raises `ApiError`."""
        if TRANSACTION_STATE_TOPIC in self._topics.by_name:
            if self._history is not None:
                at_once(self._topics.ensuring(self._history))
            self._open(budget_ms)
        self._topics.subscribe(self._topics_changed)

    def _topics_changed(self, image: TopicsImage) -> None:
        """Make the shards when the topic exists: this class, or a Metadata request, has created the topic."""
        if self.routing.ready or TRANSACTION_STATE_TOPIC not in image.by_name:
            return
        if self._history is None or self._history in image.by_name:
            self._open(_LOAD_NEW_MS)
        elif not self._is_making_history:
            self._is_making_history = True
            self._job_queue.run(self._making_history(), lambda _: None, self)

    def _making_history(self) -> Job[None]:
        try:
            yield from self._topics.ensuring(self._history or "")
        except ApiError as error:
            log.error("there will be no history of transactions until the next start", reason=str(error))
            self._history = None
            self._topics_changed(self._topics.image)
        finally:
            self._is_making_history = False

    closed = False

    def fault(self, error: Exception) -> None:
        """See `jobs.Owner`."""
        log.error("the transaction coordinator could not begin", exc_info=error)

    def _open(self, budget_ms: int) -> None:
        # Imported late, because most servers have no transactions: this saves 5 ms of their start.
        from muster.coordinator.runtime.transaction_coordinator.shard import transaction_shards

        shards = transaction_shards(
            self._topics,
            self._clock,
            self._job_queue,
            self._groups,
            self.settings,
            self._observe,
            self.next_producer_id,
            self._linger_ms,
            self._peers,
        )
        self.load(shards, "transactions", self._node_id, self._leaders, self._loaded, budget_ms)

    def ensuring(self) -> Job[None]:
        """A job that creates the topic if it does not exist. Raises `ApiError`."""
        if not self.routing.ready:
            yield from self._topics.ensuring(TRANSACTION_STATE_TOPIC)
            if self._history is not None:
                yield from self._topics.ensuring(self._history)
            yield from self._durable()

    def known_producers(self, producer_ids: Collection[int]) -> Collection[int]:
        """The producer ids among these that belong to transactional ids. While ids are loading: all of these."""
        if TRANSACTION_STATE_TOPIC not in self._topics.by_name:
            return ()
        cores = [shard.runtime.core for shard in self._leader_shards or self.routing.shards]
        known: set[int] = set()
        for core in cores:
            if core is None:
                return producer_ids
            known |= core.producers_among(producer_ids)
        return known if cores else producer_ids

    def submit(self, transactional_id: str, command: TransactionCommand) -> None:
        """Let the shard of this id decide a command."""
        if self.routing.ready:
            self.routing.shard(transactional_id).runtime.submit(command)
        else:
            from muster.coordinator.runtime.transaction_coordinator.error_responses import refuse

            command.respond(refuse(command.request, ErrorCode.NOT_COORDINATOR))

    def ask(self, transactional_id: str, command: TransactionCommand) -> None:
        """`submit` to the node that coordinates this id, for requests between brokers."""
        peer = None
        if self._peers is not None and self.routing.ready:
            peer = self._peers.leads(TRANSACTION_STATE_TOPIC, self.routing.partition(transactional_id))
        if peer is not None and self._peers is not None:
            self._peers.ask(peer, command)
        elif self._leader_shards and self.routing.ready:
            self._leader_shards[self.routing.partition(transactional_id)].runtime.submit(command)
        else:
            self.submit(transactional_id, command)

    def decide(self, transactional_id: str, command: TransactionCommand) -> None:
        """`submit` a command that may need a fresh producer id. An unused id is kept for the next command."""
        if self._spare_ids or not (self.routing.ready and self.routing.shard(transactional_id).active):
            self._decide(transactional_id, command)
        else:
            self._job_queue.run(self._drawing(), lambda _: self._decide(transactional_id, command), self)

    def _decide(self, transactional_id: str, command: TransactionCommand) -> None:
        command.spare_producer_id = self._take()
        self.submit(transactional_id, command)
        if command.spare_producer_id != NO_ID and len(self._spare_ids) < _SPARE_IDS:
            self._spare_ids.append(command.spare_producer_id)

    def next_producer_id(self) -> int:
        """A fresh producer id, whose block of ids is durably reserved; -1 when there is no such id at present."""
        if not self._spare_ids and not self._is_drawing:
            self._is_drawing = True
            self._job_queue.run(self._drawing(), self._drawn, self)
        return self._take()

    def _drawn(self, _: None) -> None:
        self._is_drawing = False

    def _take(self) -> int:
        return self._spare_ids.pop() if self._spare_ids else NO_ID

    def _drawing(self) -> Job[None]:
        """Reserve one more spare id, unless the disk fails."""
        try:
            drawn = yield from self._topics.drawing_producer_id()
            yield from self._durable()
        except ApiError as error:
            log.warning("there is no new producer id", reason=error.message)
        else:
            self._spare_ids.append(drawn)

    def _durable(self) -> Job[None]:
        """Wait until all changes of topics and blocks of ids are durable. Raises `ApiError`."""
        later = PendingResult()
        self._topics.when_durable(later)
        failure: Any = yield later
        if failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
