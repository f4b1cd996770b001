"""The cluster of the brokers of one process: who lives, who leads what, and what all of them are told of it.

The controller: it decides by `topics.leadership`, writes the decision to the metadata log, and gives every node the new
image in the same turn of the event loop. So there is never more than one leader of a partition; whoever still holds an
older `Partition` can append no more.

A node that is stopped hands over partition by partition, then closes its connections. One that is killed is cut off,
what it held is gone, and others read its logs anew after `broker.session.timeout.ms`, as they would find out on Kafka.
One that is paused stands still; others lead after the same time, and it is in the cluster again when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.cluster.image import NO_BROKER, Broker, ClusterImage, Leader
from muster.coordinator.group_coordinator.helpers import Nobody
from muster.coordinator.nodes.settings import ClusterSettings
from muster.coordinator.slices import Job, Slices
from muster.coordinator.topics import leadership
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.names import EVENTS_OF, GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.register_broker_record import RegisterBrokerRecord

if TYPE_CHECKING:
    from muster.coordinator.nodes.running_node import RunningNode

log = structlog.get_logger("muster.nodes")

AT_ONCE: Final = 100
"""Partitions of users that get another leader in one turn of the event loop; those of coordinators do so one by one."""
MOST_PREFERRED: Final = 1_000
"""Leaders that are brought back at one look (ReplicationControlManager's MAX_ELECTIONS_PER_IMBALANCE)."""
_COORDINATORS: Final = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)


class State(Enum):
    """Of a node."""

    UP = "up"
    STOPPING = "stopping"
    STOPPED = "stopped"
    KILLED = "killed"
    PAUSED = "paused"
    RETURNING = "returning"


ALLOWED: Final = {
    "stop": {State.UP: State.STOPPING},
    "kill": {State.UP: State.KILLED, State.STOPPING: State.KILLED, State.PAUSED: State.KILLED},
    "pause": {State.UP: State.PAUSED},
    "resume": {State.PAUSED: State.RETURNING},
    "return": {State.STOPPED: State.RETURNING, State.KILLED: State.RETURNING},
}
"""What may be done to a node in which state, and the state that it has then."""


class WrongNode(Exception):
    """There is no such node, or that cannot be done to it now."""


class Journals(Protocol):
    """The writers of the histories of groups and transactions."""

    def __call__(self, topic: str, index: int) -> object:
        """The log of this partition of a history was opened anew, or has another leader."""


class Cluster:
    """See the module. `nodes` by id, `states` of each."""

    def __init__(
        self, topics: Topics, clock: Clock, slices: Slices, cluster_id: str, settings: ClusterSettings, renew: Journals
    ) -> None:
        self.nodes: dict[int, RunningNode] = {}
        self.states: dict[int, State] = {}
        self._topics = topics
        self._clock = clock
        self._slices = slices
        self._cluster_id = cluster_id
        self._settings = settings
        self._renew = renew
        self._dead_until: dict[int, Timer] = {}
        """Nodes that died and are not known to be dead yet."""
        self._balance: Timer | None = None

    def begin(self, nodes: Iterable[RunningNode]) -> None:
        """These are the nodes, which live."""
        for node in nodes:
            self.nodes[node.node_id] = node
            self.states[node.node_id] = State.UP
        self.publish()
        if self._settings.auto_leader_rebalance_enable and len(self.nodes) > 1:
            self._balance_later()

    @property
    def leaders(self) -> Mapping[str, Sequence[Leader]]:
        """Of the partitions of each topic, by its name."""
        return self._topics.open.leaders

    def stop(self) -> None:
        """No timer rings any more."""
        if self._balance is not None:
            self._balance.cancel()
        for timer in self._dead_until.values():
            timer.cancel()

    # ---- what all are told

    def publish(self) -> None:
        """Give every node the image of now."""
        brokers: dict[int, Broker] = {}
        registered = self._topics.state.brokers
        for broker_id in sorted(registered):
            epoch, rack, is_fenced, _ = registered[broker_id]
            node = self.nodes.get(broker_id)
            endpoints = {} if node is None else node.endpoints()
            brokers[broker_id] = Broker(broker_id, rack, endpoints, epoch, is_fenced)
        controller_id = next((one for one in brokers if not brokers[one].fenced), NO_BROKER)
        is_whole = self.nodes.keys() <= brokers.keys() and not any(broker.fenced for broker in brokers.values())
        image = ClusterImage(self._cluster_id, controller_id, NO_BROKER, brokers, self._topics.open.leaders, is_whole)
        for node in self.nodes.values():
            node.see(image)

    # ---- changes

    def _apply(self, records: Sequence[Message], *, anew: bool = False) -> None:
        """Write these, and let all nodes live by them. Raises `ApiError` when the disk does not take them."""
        moved = [(place.topic.name, place.partition) for place in leadership.places(self._topics.state, records)]
        for name, index in moved:
            if name in _COORDINATORS:
                self._flush(name, index)
        left = self._topics.change_brokers(records, anew=anew)
        self.publish()
        names = {name for name, _ in moved}
        if not names.isdisjoint(_COORDINATORS):
            for node in self.nodes.values():
                node.leave()
            for node_id, node in self.nodes.items():
                if self.states[node_id] is not State.KILLED:
                    node.take()
        for partition in left:
            partition.wake()
        if not names.isdisjoint(EVENTS_OF):
            for name, index in moved:
                if name in EVENTS_OF:
                    self._renew(name, index)

    def _flush(self, topic: str, index: int) -> None:
        """What a shard has gathered is written in the name of its leader, while that is one."""
        for node in self.nodes.values():
            routing = node.routing if topic == GROUP_OFFSETS_TOPIC else node.transactions.routing
            if index < len(routing.shards):
                routing.shards[index].runtime.flush()

    def _moving(
        self,
        places: Iterable[Place],
        decide: Callable[[Place], PartitionChangeRecord | None],
        *,
        anew: bool = False,
    ) -> Job[None]:
        """Change these partitions, some in each turn; what is to become of one is decided just then."""
        some: list[Message] = []
        for place in places:
            if self._topics.state.topics_by_id.get(place.topic.topic_id) is not place.topic:
                continue  # deleted meanwhile
            record = decide(place)
            if record is None:
                continue
            some.append(record)
            if place.topic.name in _COORDINATORS or len(some) >= AT_ONCE:
                self._apply(some, anew=anew)
                some = []
                yield None
        if some:
            self._apply(some, anew=anew)
            yield None

    def _abandoning(self, broker_id: int, *, anew: bool = False) -> Job[None]:
        """Others lead what this broker leads, and it is in sync nowhere; first coordinators, which clients wait for."""
        state, turns = self._topics.state, count()

        def decide(place: Place) -> PartitionChangeRecord | None:
            return leadership.settled(place, leadership.living(state, without=(broker_id,)), next(turns))

        yield from self._moving(_concerned(self._topics, broker_id), decide, anew=anew)

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        """See `api.node.Controller`."""
        return self._moving((place,), lambda _: decide())

    def unregistering(self, broker_id: int) -> Job[None]:
        """See `api.node.Controller`."""
        registered = self._topics.state.brokers.get(broker_id)
        if registered is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
        yield from self._abandoning(broker_id)
        record = import_module("muster.protocol.messages.metadata_records.unregister_broker_record")
        self._apply([record.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registered.epoch)])
        log.info("a broker is no longer registered", node=broker_id)

    # ---- what is done to nodes

    def _node(self, node_id: int, what: str) -> RunningNode:
        """The node, in the state after it. Raises WrongNode."""
        node = self.nodes.get(node_id)
        if node is None:
            raise WrongNode(f"there is no node {node_id}; there are {', '.join(map(str, self.nodes))}")
        state = self.states[node_id]
        if state not in ALLOWED[what]:
            raise WrongNode(f"node {node_id} is {state.value}: it cannot be told to {what}")
        self.states[node_id] = ALLOWED[what][state]
        return node

    async def _done(self, job: Job[None]) -> None:
        """Do a job of the event loop to its end. Raises `ApiError`."""
        failures: list[ApiError] = []

        def guarded() -> Job[None]:
            try:
                yield from job
            except ApiError as failure:
                failures.append(failure)

        done = asyncio.Event()
        self._slices.run(guarded(), lambda _: done.set(), Nobody("the leaders of partitions could not be changed"))
        await done.wait()
        if failures:
            raise failures[0]

    async def stop_node(self, node_id: int) -> None:
        """Controlled shutdown: others take over at once, then its connections end. Raises WrongNode or `ApiError`."""
        node = self._node(node_id, "stop")
        try:
            if node_id in self._topics.state.brokers:
                self._apply([leadership.leaving(self._topics.state, node_id)])
            await self._done(self._abandoning(node_id))
            if self.states[node_id] is not State.STOPPING:
                return  # killed meanwhile
            self._fence(node_id)
        except ApiError:
            self.states[node_id] = State.UP
            raise
        self.states[node_id] = State.STOPPED
        node.accept_no_more()
        node.resign()
        await node.answered()
        await node.close_connections()
        log.info("a node has stopped", node=node_id)

    def kill_node(self, node_id: int) -> None:
        """The node dies as by SIGKILL. Raises WrongNode."""
        node = self._node(node_id, "kill")
        node.die()
        self._topics.open.lost(node_id)
        self._silent(node_id)
        log.warning("a node was killed", node=node_id, others_lead_in_ms=self._settings.broker_session_timeout_ms)

    def pause_node(self, node_id: int) -> None:
        """The node stands still as by SIGSTOP: its connections stay, and nothing is answered. Raises WrongNode."""
        self._node(node_id, "pause").stand_still()
        self._silent(node_id)
        log.warning("a node stands still", node=node_id, others_lead_in_ms=self._settings.broker_session_timeout_ms)

    async def resume_node(self, node_id: int) -> None:
        """The node goes on as by SIGCONT; when others lead by now it leads nothing yet. Raises WrongNode or `ApiError`,
        after which it still stands still.
        """
        node = self._node(node_id, "resume")
        try:
            timer = self._dead_until.pop(node_id, None)
            if timer is not None:
                timer.cancel()
            await self._rejoin(node_id)
        except ApiError:
            self.states[node_id] = State.PAUSED
            self._silent(node_id)
            raise
        self.states[node_id] = State.UP
        node.go_on()
        log.info("a node goes on", node=node_id)

    async def _rejoin(self, node_id: int) -> None:
        """A broker that was taken for dead, and lives, may lead again: the same start of it. Raises `ApiError`."""
        registered = self._topics.state.brokers.get(node_id)
        if registered is None or not registered.fenced:
            return
        await self._done(self._abandoning(node_id))  # what others do not lead yet
        self._apply([leadership.unfenced(self._topics.state, node_id)])
        await self._done(self._settling(node_id))

    def _silent(self, node_id: int) -> None:
        """The controller hears no more of a node: some time later, unless it knows already, it takes it for dead."""
        registered = self._topics.state.brokers.get(node_id)
        if node_id not in self._dead_until and registered is not None and not registered.fenced:
            due_ms = self._clock.mono_ms() + self._settings.broker_session_timeout_ms
            self._dead_until[node_id] = self._clock.call_at(due_ms, lambda: self._found_dead(node_id))

    def _found_dead(self, node_id: int) -> None:
        if self._dead_until.pop(node_id, None) is not None:
            self._slices.run(self._burying(node_id), _nothing, Nobody("the partitions of a dead node cannot be led"))

    def _burying(self, node_id: int) -> Job[None]:
        """Others lead what a dead node led."""
        try:
            registered = self._topics.state.brokers.get(node_id)
            if registered is not None and not registered.fenced:
                self._fence(node_id)
            yield from self._abandoning(node_id, anew=self.states[node_id] is not State.PAUSED)
            log.info("others lead what a dead node led", node=node_id)
        except ApiError as failure:
            # the disk: tried again as often as a session would time out
            log.error("others cannot lead what a dead node led yet", node=node_id, reason=failure.message)
            due_ms = self._clock.mono_ms() + self._settings.broker_session_timeout_ms
            self._dead_until[node_id] = self._clock.call_at(due_ms, lambda: self._found_dead(node_id))

    async def return_node(self, node_id: int) -> None:
        """The node starts again, at the ports that it had, and leads nothing yet that has another leader. Raises
        WrongNode, `ApiError`, or OSError when a port is taken.
        """
        before = self.states.get(node_id)
        node = self._node(node_id, "return")
        try:
            timer = self._dead_until.pop(node_id, None)
            if timer is not None:
                timer.cancel()
                await self._done(self._burying(node_id))
            node.node.forget_sessions()
            await node.listen()
            self._register(node_id)
        except (ApiError, OSError):
            node.die()
            assert before is not None
            self.states[node_id] = before
            raise
        self.states[node_id] = State.UP
        self.publish()
        await self._done(self._settling(node_id))
        log.info("a node has returned", node=node_id)

    def _settling(self, node_id: int) -> Job[None]:
        """A broker is there again: what nobody leads it may lead, and it is in sync where it is a replica."""
        state = self._topics.state
        return self._moving(
            _concerned(self._topics, node_id, NO_BROKER),
            lambda place: leadership.settled(place, leadership.living(state), place.partition),
        )

    def _fence(self, node_id: int) -> None:
        if node_id in self._topics.state.brokers:
            self._apply([leadership.fenced(self._topics.state, node_id)])

    def _register(self, node_id: int) -> None:
        topics = self._topics
        self._apply(
            [
                RegisterBrokerRecord(
                    broker_id=node_id,
                    incarnation_id=topics.draw_uuid(),
                    broker_epoch=topics.metadata_log.log.end_offset,
                    rack=topics.racks[node_id],
                    fenced=False,
                )
            ]
        )

    # ---- preferred leaders

    def _balance_later(self) -> None:
        due_ms = self._clock.mono_ms() + 1_000 * self._settings.leader_imbalance_check_interval_seconds
        self._balance = self._clock.call_at(due_ms, self._balance_now)

    def _balance_now(self) -> None:
        self._slices.run(self.balancing(), _nothing, Nobody("preferred leaders cannot be brought back"))
        self._balance_later()

    def balancing(self) -> Job[None]:
        """Bring leadership back to the first replicas, where these live."""
        state, left = self._topics.state, MOST_PREFERRED

        def decide(place: Place) -> PartitionChangeRecord | None:
            nonlocal left
            live = leadership.living(state)
            wanted = leadership.preferred(place, live)
            if wanted is None or not left:
                return None
            left -= 1
            return leadership.change(place, wanted, live)

        try:
            yield from self._moving([*leadership.all_places(state)], decide)
        except ApiError as failure:
            log.error("preferred leaders cannot be brought back yet", reason=failure.message)


def _concerned(topics: Topics, *broker_ids: int) -> list[Place]:
    """The partitions that one of these brokers leads, is in sync with, or is a replica of; coordinators first."""
    found = [
        place
        for place in leadership.all_places(topics.state)
        if place.state.leader in broker_ids
        or not set(broker_ids).isdisjoint(place.state.isr)
        or not set(broker_ids).isdisjoint(place.state.replicas)
    ]
    found.sort(key=lambda place: place.topic.name not in _COORDINATORS)
    return found


def _nothing(_: object) -> None:
    pass
