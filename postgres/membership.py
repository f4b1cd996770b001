"""One node among those that share a database: it registers, follows what others decide, and decides itself, when it is
its turn, who leads what. In the place of `nodes.cluster.Cluster`, which does so for the brokers of one process.

The node with the lowest id that lives looks after the others: whose lease is over leads nothing from then on. Two nodes
that both think so do no harm: what counts is written at the end of the metadata log, by one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import structlog

from muster.coordinator.log import Storage
from muster.coordinator.server.nodes.membership import Histories
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue, to_its_end
from muster.coordinator.topics import leader_balancer, leadership
from muster.coordinator.topics.cluster_image import NO_BROKER, Broker, ClusterImage, Endpoint, Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.metadata_log import MIN_INSYNC_REPLICAS, first_records
from muster.coordinator.topics.names import EVENTS_OF, GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.postgres.database_writer import DatabaseWriter
from muster.postgres.figures import ClusterFigures
from muster.postgres.housekeeping import Housekeeping
from muster.postgres.led_partitions import LedPartitions
from muster.postgres.node_messages import NodeMessages
from muster.postgres.settings import ClusterSettings
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import NodeRegistration, Store, StoreAway
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord

LOOK_MS: Final = 50
"""How often it is looked for what others have written, in a database that gives no hints."""
HINTED_LOOK_MS: Final = 500
"""The same in one that does: a hint is missing when who has written died before it was given, or the database hung up.
At 50 ms, to look took 1 % of a core of a node that had nothing to do, and at 500 ms 0.2 %.
"""
AGAIN_MS: Final = 250
"""The same while the database is away."""
DECIDE_MS: Final = 500
"""How often it is looked who lives."""
MOST_MOVES: Final = 1_000
"""Leaders that move at one look, as long as they need not (ReplicationControlManager's MAX_ELECTIONS_PER_IMBALANCE)."""
WRITTEN_AT_ONCE: Final = 1_000
"""Records of one row of the metadata log, of those that move leaders."""
ANSWERED_MS: Final = 100
"""So long who asked this node to be unregistered has for the answer, before it hangs up."""
TRIES: Final = 20
"""How often a node that stops tries to hand over what it leads."""

log = structlog.get_logger("muster.cluster")


class Membership:
    """See the module."""

    led_partitions: LedPartitions

    def __init__(
        self,
        seat: NodeRegistration,
        store: Store,
        storage: Storage,
        shipper: DatabaseWriter,
        keeper: SharedMetadataLog,
        clock: Clock,
        settings: ClusterSettings,
        figures: ClusterFigures | None = None,
        *,
        others_until_ms: int = 0,
    ) -> None:
        """`store`: not the one that the turns go through. `others_until_ms`: so long nobody is taken for dead."""
        self._storage = storage
        self._shipper = shipper
        self.seat = seat
        self.keeper = keeper
        self.peers = NodeMessages(seat.node_id, store, clock, lambda: shipper.lease.is_over(clock.mono_ms()))
        self._figures = figures or ClusterFigures()
        self.housekeeping = Housekeeping(seat, store, shipper, keeper, clock, settings, self._figures)
        self._store = store
        self._clock = clock
        self._others_until_ms = others_until_ms
        self._settings = settings
        self._topics: Topics
        self._cluster_id = ""
        self._renew: Callable[[str, int], object] = lambda *_: None
        self._rack: str | None = None
        self._histories: Histories | None = None
        self._nodes: list[Any] = []
        self._settled: tuple[int, tuple[int, ...]] | None = None
        """For this metadata log, and these nodes that live, all is well."""
        self._is_leaving = self._stopped = False
        self._is_hinted = False
        """Somebody has written since the last look began."""
        self._due_ms = 0
        self._wake: asyncio.Future[None] | None = None
        self._guarding: Timer | None = None
        self._giving_up: Timer | None = None

    # -- joining

    def joining(
        self,
        topics: Topics,
        slices: JobQueue,
        cluster_id: str,
        rack: str | None,
        endpoints: Mapping[str, Endpoint],
        renew: Callable[[str, int], object],
        histories: Histories | None = None,
    ) -> Job[None]:
        """See `nodes.membership.Membership`. Raises `ApiError`."""
        self._histories = histories
        self.peers.take_over = self._take_over
        self._topics, self._cluster_id, self._rack, self._renew = topics, cluster_id, rack, renew
        self.keeper.topics, self.keeper.slices, self.keeper.snapshot = topics, slices, ()
        node_id = self.seat.node_id
        self.led_partitions = LedPartitions(
            node_id, self._store, self._storage, self._shipper, self._clock, topics, self.arrived, self.keeper.follow,
            slices, self._figures, leaving=self._leaves,
        )  # fmt: skip
        topics.moved = self.moved
        state = topics.state
        while not state.features:
            least = topics.configs.broker.static.text(MIN_INSYNC_REPLICAS)
            yield from self.keeper.writing(first_records(least))
        while not (yield from self.keeper.writing([self._registration(endpoints)])):
            pass
        self.led_partitions.look()

    async def listening(self, endpoints: Mapping[str, Endpoint]) -> None:
        """The node listens there: the others are told if they were told another port. Raises `ApiError`."""
        broker = self._topics.state.brokers.get(self.seat.node_id)
        if broker is not None and broker.endpoints != endpoints:
            while not await self._do(self.keeper.writing([self._registration(endpoints)])):
                pass

    def _registration(self, endpoints: Mapping[str, Endpoint]) -> Message:
        topics = self._topics
        return RegisterBrokerRecord(
            broker_id=self.seat.node_id,
            incarnation_id=topics.draw_uuid(),
            broker_epoch=topics.state.version,
            end_points=[BrokerEndpoint(name, *one) for name, one in endpoints.items()],
            rack=self._rack,
            fenced=False,
        )

    def begin(self, nodes: Iterable[Any]) -> None:
        """This is the node, which is about to serve."""
        self._nodes = list(nodes)
        self._guard()
        self.peers.begin(self._nodes[0].node)
        self.moved()

    def publish(self) -> None:
        """Give the node the image of now."""
        state, me = self._topics.state, self.seat.node_id
        brokers = {
            broker_id: Broker(broker_id, one.rack, one.endpoints, one.epoch, one.fenced)
            for broker_id, one in sorted(state.brokers.items())
        }
        controller_id = next((one for one in brokers if not brokers[one].fenced), NO_BROKER)
        is_whole = not any(broker.fenced for broker in brokers.values())
        image = ClusterImage(self._cluster_id, controller_id, me, brokers, self._topics.open.leaders, is_whole)
        for node in self._nodes:
            node.see(image)

    def moved(self) -> None:
        """Brokers or leaders are others: live by it."""
        self.publish()
        if self._nodes and self.seat.node_id not in self._topics.state.brokers:
            self._give_up_soon()
        for node in self._nodes:
            node.leave()
            node.take()
        self.led_partitions.look()

    def _give_up_soon(self) -> None:
        """This node was unregistered, and leads nothing: it begins anew, or else it would hold its seat, and be no part
        of the cluster. Whoever asked it for that is answered first.
        """

        def look() -> None:
            self._giving_up = None
            if self.keeper.is_writing:
                self._give_up_soon()
            else:
                self._shipper.failed("it was unregistered")

        if self._giving_up is None and not self._stopped:
            self._giving_up = self._clock.call_at(self._clock.mono_ms() + ANSWERED_MS, look)

    def arrived(self, topic: str, index: int) -> None:
        """A partition that is led here can be served."""
        self.publish()
        if topic in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
            for node in self._nodes:
                node.take()
        elif topic in EVENTS_OF:
            self._renew(topic, index)

    def _leaves(self, topic: str, index: int) -> None:
        """Another node leads a partition now, and its log is about to go from here. That node gets the events that are
        not written yet.
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
        """Of the partitions of each topic, by its name."""
        return self._topics.open.leaders

    @property
    def live_count(self) -> int:
        """How many brokers live, as the metadata log says."""
        return len(leadership.living(self._topics.state))

    # -- what clients ask of the controller

    def catching_up(self) -> Job[None]:
        """See `api.node.Controller`."""
        yield from self.keeper.catching_up()

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        """See `api.node.Controller`."""
        while self._topics.state.topics_by_id.get(place.topic.topic_id) is place.topic:
            record = decide()
            if record is None or (yield from self.keeper.writing([record])):
                return

    def unregistering(self, broker_id: int) -> Job[None]:
        """See `api.node.Controller`. A broker that lives begins anew, and so comes back."""
        state = self._topics.state
        room = import_module("muster.protocol.messages.metadata_records.unregister_broker_record")
        while True:
            registered = state.brokers.get(broker_id)
            if registered is None:
                what = f"Broker ID {broker_id} is not currently registered"
                raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, what)
            record = room.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registered.epoch)
            if (yield from self._moving(leadership.living(state, without=(broker_id,)), after=[record])):
                log.info("a broker is no longer registered", node=broker_id)
                return

    def _moving(
        self,
        live: Sequence[int],
        *,
        before: Sequence[Message] = (),
        dead: Mapping[int, int] | None = None,
        after: Sequence[Message] = (),
    ) -> Job[bool]:
        """Have the nodes that live lead everything, and write these records before and after that. False: others have
        written meanwhile, decide anew. Raises `ApiError`.

        Each row has a part of the records, so that nobody who reads it is kept for long. After some of them no less is
        well than before, and who comes next does the rest.
        """
        state, prefers = self._topics.state, self._settings.auto_leader_rebalance_enable
        version = state.version
        moves = yield from leader_balancer.changes(state, live, prefers=prefers, most=MOST_MOVES)
        records = [*before, *moves, *after]
        for start in range(0, len(records), WRITTEN_AT_ONCE):
            if state.version != version:
                return False
            part = records[start : start + WRITTEN_AT_ONCE]
            if not (yield from self.keeper.writing(part, dead if start == 0 else None)):
                return False
            version += len(part)
        return True

    # -- following and deciding

    async def run(self) -> None:
        """Until `stop`. Raises StoreRefused, and what is a fault of the program."""
        self._store.when_hinted(self.seat.node_id, self.look)
        while not self._stopped:
            self._is_hinted = is_away = False
            try:
                await self.peers.look()
                await self.keeper.follow()
                if self._clock.mono_ms() >= self._due_ms and not self._is_leaving:
                    await self._decide()
                    self._due_ms = self._clock.mono_ms() + DECIDE_MS
            except StoreAway:
                is_away = True  # the turns of the shipper say so, and end the term when it lasts
            except ApiError as error:
                log.warning("who leads what could not be changed", reason=error.message)
            if not (self._stopped or self._is_hinted):
                await self._pause(AGAIN_MS if is_away else self._look_after_ms())

    def _look_after_ms(self) -> int:
        if not self._store.hears:
            return LOOK_MS
        most_ms = min(HINTED_LOOK_MS, self._settings.broker_session_timeout_ms // 4)
        return max(min(most_ms, self._due_ms - self._clock.mono_ms()), LOOK_MS)

    def _guard(self) -> None:
        """Give up when it is not known for too long what others decide, although the turns of the shipper go on: by
        then this node would answer out of what was true once.
        """
        most_ms = self._settings.broker_session_timeout_ms

        def look() -> None:
            for_ms = self._clock.mono_ms() - self.keeper.followed_ms
            if for_ms >= most_ms:
                self._shipper.failed(f"what other nodes decide could not be read for {for_ms} ms")
            elif not self._stopped:
                self._guard()

        self._guarding = self._clock.call_at(self.keeper.followed_ms + most_ms, look)

    async def _pause(self, for_ms: int) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wake = wake
        timer = self._clock.call_at(self._clock.mono_ms() + for_ms, self.look)
        await wake
        timer.cancel()

    def look(self) -> None:
        """Look now for what others have written."""
        self._is_hinted = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _decide(self) -> None:
        seats = await self._store.seats()
        state = self._topics.state
        held = {seat.node_id for seat in seats if seat.remaining_ms > 0 and seat.epoch > 0}
        registered = [one for one, broker in state.brokers.items() if not broker.fenced]
        live = sorted(one for one in registered if one in held)
        if not live or live[0] != self.seat.node_id:
            return
        gone = sorted(one for one in registered if one not in held)
        if gone and self._clock.mono_ms() < self._others_until_ms:
            # or else the first one that is back would fetch all that the others lead, and they would have it fetched
            # again, one after the other
            await self.housekeeping.look()
            return
        epochs = {seat.node_id: seat.epoch for seat in seats}
        dead = {one: epochs[one] for one in gone if epochs.get(one, 0) > 0}
        looked_at = (state.version, tuple(live))
        if not gone and looked_at == self._settled:
            await self.housekeeping.look()
            return
        fenced = [leadership.fenced(state, one) for one in gone]
        is_done = await self._do(self._moving(live, before=fenced, dead=dead))
        if is_done and state.version == looked_at[0]:
            self._settled = looked_at
        for one in gone if is_done else ():
            log.warning("a node has died: others lead what it led", node=one)
        await self.housekeeping.look()

    async def _do(self, job: Job[bool]) -> bool:
        """Raises `ApiError`."""
        return await to_its_end(self.keeper.slices, job)

    # -- leaving

    async def leave(self) -> None:
        """Controlled shutdown: others lead what this node led, and it is fenced. What cannot be done is left to the end
        of the lease.
        """
        self._is_leaving = True
        state, me = self._topics.state, self.seat.node_id
        for _ in range(TRIES):
            try:
                seats = await self._store.seats()
                held = [seat.node_id for seat in seats if seat.remaining_ms > 0 and seat.epoch > 0]
                live = [one for one in leadership.living(state, without=(me,)) if one in held]
                broker = state.brokers.get(me)
                fenced = [] if broker is None or broker.fenced else [leadership.fenced(state, me)]
                if await self._do(self._moving(live, after=fenced)):
                    await self.peers.sent()  # events that others write now
                    return
            except (StoreAway, ApiError) as error:
                log.warning("what this node led could not be handed over", reason=str(error),
                            what="others lead it when the lease is over")  # fmt: skip
                return

    async def stop_fetching(self) -> None:
        """What is led here and has not come does not come, and no snapshot is written any more."""
        await self.housekeeping.stop()
        if hasattr(self, "led_partitions"):
            await self.led_partitions.stop()

    def stop(self) -> None:
        """Follow no more."""
        self._stopped = True
        if self._guarding is not None:
            self._guarding.cancel()
        if self._giving_up is not None:
            self._giving_up.cancel()
        self.look()
