"""One node among the nodes that share a database, in the place of `nodes.cluster.Cluster` (the brokers of one process).
The node registers, and follows other nodes' decisions. `leader_decisions` chooses leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from muster.coordinator.log import Storage
from muster.coordinator.server.histories import Histories
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue, to_its_end
from muster.coordinator.topics import leadership
from muster.coordinator.topics.cluster_image import NO_BROKER, Broker, ClusterImage, Endpoint, Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.metadata_log import MIN_INSYNC_REPLICAS, first_records
from muster.coordinator.topics.names import EVENTS_OF, PARTITIONS_PROPERTIES
from muster.coordinator.topics.topics import Topics
from muster.postgres.database_writer import DatabaseWriter
from muster.postgres.figures import ClusterFigures
from muster.postgres.housekeeping import Housekeeping
from muster.postgres.known_ends import Ends, KnownEnds
from muster.postgres.leader_decisions import LeaderDecisions
from muster.postgres.led_partitions import LedPartitions
from muster.postgres.node_messages import NodeMessages
from muster.postgres.settings import ClusterSettings
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import NodeRegistration, Store, StoreAway
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord

CHECK_MS: Final = 50
"""How often the node looks for rows of other nodes, in a database that gives no hints."""
HINTED_CHECK_MS: Final = 500
"""How often the node looks in a database that gives hints. A hint is missing if the writer died before it, or the
database closed the connection. On an idle node, a check each 50 ms took 1 % of a core; each 500 ms, 0.2 %.
"""
AGAIN_MS: Final = 250
"""How often the node looks while the database is unavailable."""
DECIDE_MS: Final = 500
"""How often the node checks which nodes are alive."""
ANSWERED_MS: Final = 100
"""A client that unregisters this node gets the answer within this time, before the node closes its connections."""
TRIES: Final = 20
"""How often a node that stops tries to hand over its partitions."""

log = structlog.get_logger("muster.cluster")


class Membership:
    """See the module."""

    led_partitions: LedPartitions

    def __init__(
        self,
        registration: NodeRegistration,
        store: Store,
        storage: Storage,
        writer: DatabaseWriter,
        shared_log: SharedMetadataLog,
        clock: Clock,
        settings: ClusterSettings,
        figures: ClusterFigures,
        *,
        others_until_ms: int,
        doors: Mapping[str, Endpoint],
    ) -> None:
        """`store`: not the connection of database writes. `others_until_ms`: until this time no node counts as dead.
        `doors`: the HTTP door of the process, as endpoints (`cluster_image.DOOR`).
        """
        self._doors = doors
        self.known_ends = KnownEnds(store, clock)
        self._storage = storage
        self._writer = writer
        self.registration = registration
        self.shared_log = shared_log
        self.peers = NodeMessages(registration.node_id, store, clock, lambda: writer.lease.is_over(clock.mono_ms()))
        self._figures = figures
        self.housekeeping = Housekeeping(registration, store, writer, shared_log, clock, settings, self._figures)
        self._store = store
        self._clock = clock
        self.decisions = LeaderDecisions(
            registration, store, shared_log, clock, settings, others_until_ms=others_until_ms
        )
        self._settings = settings
        self._topics: Topics
        self._cluster_id = ""
        self._renew: Callable[[str, int], object] = lambda *_: None
        self._rack: str | None = None
        self._histories: Histories | None = None
        self._nodes: list[Any] = []
        self._is_leaving = self._stopped = False
        self._is_hinted = False
        """Whether a node has written since the last check began."""
        self._due_ms = 0
        self._wake: asyncio.Future[None] | None = None
        self._guarding: Timer | None = None
        self._giving_up: Timer | None = None

    # -- joining

    def joining(
        self,
        topics: Topics,
        job_queue: JobQueue,
        cluster_id: str,
        rack: str | None,
        endpoints: Mapping[str, Endpoint],
        renew: Callable[[str, int], object],
        histories: Histories | None = None,
    ) -> Job[None]:
        """See `nodes.common.Membership`. Raises `ApiError`."""
        self._histories = histories
        self.peers.take_over = self._take_over
        self._topics, self._cluster_id, self._rack, self._renew = topics, cluster_id, rack, renew
        self.shared_log.topics, self.shared_log.job_queue, self.shared_log.snapshot = topics, job_queue, ()
        node_id = self.registration.node_id
        self.led_partitions = LedPartitions(
            node_id, self._store, self._storage, self._writer, self._clock, topics, self.arrived,
            self.shared_log.follow, job_queue, self._figures, leaving=self._leaves,
        )  # fmt: skip
        topics.moved = self.moved
        state = topics.state
        while not state.features:
            least = topics.configs.broker.static.text(MIN_INSYNC_REPLICAS)
            yield from self.shared_log.writing(first_records(least))
        yield from self._registering(endpoints)
        self.led_partitions.check()

    async def listening(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Register these endpoints if they are new: the port may have been free to choose. Raises `ApiError`."""
        broker = self._topics.state.brokers.get(self.registration.node_id)
        if broker is not None and broker.endpoints != {**endpoints, **self._doors}:
            await to_its_end(self.shared_log.job_queue, self._registering(endpoints))

    def _registering(self, endpoints: Mapping[str, Endpoint]) -> Job[None]:
        is_written = False
        while not is_written:
            record = RegisterBrokerRecord(
                broker_id=self.registration.node_id,
                incarnation_id=self._topics.draw_uuid(),
                broker_epoch=self._topics.state.version,
                end_points=[BrokerEndpoint(name, *endpoint) for name, endpoint in {**endpoints, **self._doors}.items()],
                rack=self._rack,
                fenced=False,
            )
            is_written = yield from self.shared_log.writing([record])

    async def ends(self) -> Ends:
        """See `nodes.common.Membership`."""
        return await self.known_ends.ends()

    def begin(self, nodes: Iterable[Any]) -> None:
        """Use the node of this process, which is about to serve."""
        self._nodes = list(nodes)
        self._guard()
        self.peers.begin(self._nodes[0].node)
        self.moved()

    def publish(self) -> None:
        """Give the node the present image of the cluster."""
        state, me = self._topics.state, self.registration.node_id
        brokers = {
            broker_id: Broker(broker_id, one.rack, one.endpoints, one.epoch, one.fenced)
            for broker_id, one in sorted(state.brokers.items())
        }
        controller_id = next((one for one in brokers if not brokers[one].fenced), NO_BROKER)
        is_whole = not any(broker.fenced for broker in brokers.values())
        image = ClusterImage(self._cluster_id, controller_id, me, brokers, self._topics.open.leaders, is_whole)
        for node in self._nodes:
            node.update_image(image)

    def moved(self) -> None:
        """Follow a change of brokers or leaders."""
        self.publish()
        if self._nodes and self.registration.node_id not in self._topics.state.brokers:
            self._give_up_soon()
        for node in self._nodes:
            node.resign_lost_shards()
            node.activate_shards()
        self.led_partitions.check()

    def _give_up_soon(self) -> None:
        """Give up soon, because this node was unregistered and leads nothing. The node then registers again. Else the
        node would hold its registration and be no part of the cluster. The request to unregister is answered first.
        """

        def check() -> None:
            self._giving_up = None
            if self.shared_log.is_writing:
                self._give_up_soon()
            else:
                self._writer.failed("it was unregistered")

        if self._giving_up is None and not self._stopped:
            self._giving_up = self._clock.call_at(self._clock.mono_ms() + ANSWERED_MS, check)

    def arrived(self, topic: str, index: int) -> None:
        """Note that a partition that this node leads can be served."""
        self.publish()
        if topic in PARTITIONS_PROPERTIES:
            for node in self._nodes:
                node.activate_shards()
        elif topic in EVENTS_OF:
            self._renew(topic, index)

    def _leaves(self, topic: str, index: int) -> None:
        """Hand over a partition that another node leads now, before its log is closed. The new leader gets the events
        that are not written yet.
        """
        if self._histories is None or topic not in EVENTS_OF:
            return
        rows = self._histories.hand_over(topic, index)
        leader = self.peers.leads(topic, index)
        if rows and leader is not None:
            self.peers.hand_over(leader, topic, index, rows)

    def _take_over(self, topic: str, index: int, rows: Sequence[tuple[bytes | None, bytes]]) -> None:
        if self._histories is not None and topic in EVENTS_OF:
            self._histories.take_over(topic, index, rows)

    @property
    def leaders(self) -> Mapping[str, Sequence[Leader]]:
        """The leaders of the partitions, by topic."""
        return self._topics.open.leaders

    @property
    def live_count(self) -> int:
        """How many brokers are alive, as the metadata log says."""
        return len(leadership.living(self._topics.state))

    # -- requests of clients to the controller

    def catching_up(self) -> Job[None]:
        yield from self.shared_log.catching_up()

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        yield from self.decisions.changing(decide, place)

    def unregistering(self, broker_id: int) -> Job[None]:
        """See `api.node.Controller`. A live broker registers again, and so returns."""
        yield from self.decisions.unregistering(broker_id)

    # -- following and deciding

    async def run(self) -> None:
        """Follow and decide until `stop`. Raises StoreRefused, and errors that are a fault of the program."""
        self._store.when_hinted(self.registration.node_id, self.check)
        while not self._stopped:
            self._is_hinted = is_away = False
            try:
                await self.peers.check()
                await self.shared_log.follow()
                if self._clock.mono_ms() >= self._due_ms and not self._is_leaving:
                    if await self.decisions.decide():
                        await self.housekeeping.check()
                    self._due_ms = self._clock.mono_ms() + DECIDE_MS
            except StoreAway:
                is_away = True  # the database writer logs this, and ends the node session when it lasts
            except ApiError as error:
                log.warning("the leaders of partitions could not be changed", reason=error.message)
            if not (self._stopped or self._is_hinted):
                await self._pause(AGAIN_MS if is_away else self._next_check_ms())

    def _next_check_ms(self) -> int:
        if not self._store.hears:
            return CHECK_MS
        max_ms = min(HINTED_CHECK_MS, self._settings.broker_session_timeout_ms // 4)
        return max(min(max_ms, self._due_ms - self._clock.mono_ms()), CHECK_MS)

    def _guard(self) -> None:
        """Give up when this node has not read other nodes' decisions for too long, although its database writes
        succeed. Answers of such a node would be out of date.
        """
        max_ms = self._settings.broker_session_timeout_ms

        def check() -> None:
            for_ms = self._clock.mono_ms() - self.shared_log.followed_ms
            if for_ms >= max_ms:
                self._writer.failed(f"what other nodes decide could not be read for {for_ms} ms")
            elif not self._stopped:
                self._guard()

        self._guarding = self._clock.call_at(self.shared_log.followed_ms + max_ms, check)

    async def _pause(self, for_ms: int) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wake = wake
        timer = self._clock.call_at(self._clock.mono_ms() + for_ms, self.check)
        await wake
        timer.cancel()

    def check(self) -> None:
        """Look now for rows that other nodes have written."""
        self._is_hinted = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # -- leaving

    async def leave(self) -> None:
        """Controlled shutdown: other nodes lead what this node led, at the latest after the end of the lease."""
        self._is_leaving = True
        try:
            for _ in range(TRIES):
                if await self.decisions.hand_over():
                    await self.peers.sent()  # the events that other nodes are to write
                    return
        except (StoreAway, ApiError) as error:
            log.warning("what this node led could not be handed over", reason=str(error),
                        what="others lead it when the lease is over")  # fmt: skip

    async def stop_fetching(self) -> None:
        """Stop fetching logs that this node leads, and stop writing snapshots."""
        await self.housekeeping.stop()
        if hasattr(self, "led_partitions"):
            await self.led_partitions.stop()

    def stop(self) -> None:
        """Stop following the metadata log."""
        self._stopped = True
        if self._guarding is not None:
            self._guarding.cancel()
        if self._giving_up is not None:
            self._giving_up.cancel()
        self.check()
