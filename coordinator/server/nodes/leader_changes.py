"""Changes of leaders and of the set of brokers, and the notification of all nodes of the process.

`topics.leadership` decides the changes, and they are written to the metadata log. Every node gets the new image in the
same iteration of the event loop. So a partition never has more than one leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

import structlog

from muster.coordinator.server.nodes.common import NodeState
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics import leadership
from muster.coordinator.topics.cluster_image import NO_BROKER, Broker, ClusterImage
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.names import EVENTS_OF, PARTITIONS_PROPERTIES
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.register_broker_record import RegisterBrokerRecord

if TYPE_CHECKING:
    from muster.coordinator.server.nodes.running_node import RunningNode

log = structlog.get_logger("muster.nodes")

AT_ONCE: Final = 100
"""The most partitions that change their leader in one iteration. A coordinator partition changes alone."""
MAX_PREFERRED: Final = 1_000
"""The most leaders that one check moves back (ReplicationControlManager's MAX_ELECTIONS_PER_IMBALANCE)."""
_COORDINATORS: Final = tuple(PARTITIONS_PROPERTIES)


class LeaderChanges:
    """See the module. Every method that writes raises `ApiError` when the disk fails."""

    def __init__(
        self,
        topics: Topics,
        cluster_id: str,
        nodes: Mapping[int, RunningNode],
        states: Mapping[int, NodeState],
        renew: Callable[[str, int], object],
    ) -> None:
        """`nodes`, `states`: as in `Cluster`. `renew(topic, index)`: a history partition has another log or leader."""
        self._topics = topics
        self._cluster_id = cluster_id
        self._nodes = nodes
        self._states = states
        self._renew = renew

    def publish(self) -> None:
        """Give every node the present image."""
        brokers: dict[int, Broker] = {}
        registered = self._topics.state.brokers
        for broker_id in sorted(registered):
            epoch, rack, is_fenced, _ = registered[broker_id]
            node = self._nodes.get(broker_id)
            endpoints = {} if node is None else node.endpoints()
            brokers[broker_id] = Broker(broker_id, rack, endpoints, epoch, is_fenced)
        controller_id = next((one for one in brokers if not brokers[one].fenced), NO_BROKER)
        is_whole = self._nodes.keys() <= brokers.keys() and not any(broker.fenced for broker in brokers.values())
        image = ClusterImage(self._cluster_id, controller_id, NO_BROKER, brokers, self._topics.open.leaders, is_whole)
        for node in self._nodes.values():
            node.update_image(image)

    # ---- changing

    def apply(self, records: Sequence[Message], *, anew: bool = False) -> None:
        """Write these records, and apply them to all nodes. Raises `ApiError` when the disk fails."""
        moved = [(place.topic.name, place.partition) for place in leadership.places(self._topics.state, records)]
        for name, index in moved:
            if name in _COORDINATORS:
                self._flush(name, index)
        left = self._topics.change_brokers(records, anew=anew)
        self.publish()
        names = {name for name, _ in moved}
        if not names.isdisjoint(_COORDINATORS):
            for node in self._nodes.values():
                node.resign_lost_shards()
            for node_id, node in self._nodes.items():
                if self._states[node_id] is not NodeState.KILLED:
                    node.activate_shards()
        for partition in left:
            partition.wake()
        if not names.isdisjoint(EVENTS_OF):
            for name, index in moved:
                if name in EVENTS_OF:
                    self._renew(name, index)

    def _flush(self, topic: str, index: int) -> None:
        """Write the records that a shard has collected, while its leader still leads."""
        for node in self._nodes.values():
            shards = node.shards_of(topic)
            if index < len(shards):
                shards[index].flush()

    def _moving(
        self,
        places: Iterable[Place],
        decide: Callable[[Place], PartitionChangeRecord | None],
        *,
        anew: bool = False,
    ) -> Job[None]:
        """Change these partitions, some in each step. `decide` is called for each partition just before its change."""
        some: list[Message] = []
        for place in places:
            if self._topics.state.topics_by_id.get(place.topic.topic_id) is not place.topic:
                continue  # the topic was deleted meanwhile
            record = decide(place)
            if record is None:
                continue
            some.append(record)
            if place.topic.name in _COORDINATORS or len(some) >= AT_ONCE:
                self.apply(some, anew=anew)
                some = []
                yield None
        if some:
            self.apply(some, anew=anew)
            yield None

    def moving_leaders_away(self, broker_id: int, *, anew: bool = False) -> Job[None]:
        """Give a broker's partitions to other brokers, coordinators first. The broker is then in sync nowhere."""
        state, turns = self._topics.state, count()

        def decide(place: Place) -> PartitionChangeRecord | None:
            return leadership.settled(place, leadership.living(state, without=(broker_id,)), next(turns))

        yield from self._moving(_concerned(self._topics, broker_id), decide, anew=anew)

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        return self._moving((place,), lambda _: decide())

    def unregistering(self, broker_id: int) -> Job[None]:
        registered = self._topics.state.brokers.get(broker_id)
        if registered is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
        yield from self.moving_leaders_away(broker_id)
        from muster.protocol.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord

        self.apply([UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registered.epoch)])
        log.info("a broker is no longer registered", node=broker_id)

    def rejoining_replicas(self, node_id: int) -> Job[None]:
        """Let a broker that is live again lead partitions without a leader, and join the in-sync replicas."""
        state = self._topics.state
        return self._moving(
            _concerned(self._topics, node_id, NO_BROKER),
            lambda place: leadership.settled(place, leadership.living(state), place.partition),
        )

    def fence(self, node_id: int) -> None:
        """Fence a broker: from now on it may lead no partition. The call has no effect for an unregistered broker."""
        if node_id in self._topics.state.brokers:
            self.apply([leadership.fenced(self._topics.state, node_id)])

    def register(self, node_id: int) -> None:
        """Register a broker that has started again, and may lead."""
        topics = self._topics
        self.apply(
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

    def electing_preferred_leaders(self) -> Job[None]:
        """Move leadership back to the first replicas, where these are live."""
        state, left = self._topics.state, MAX_PREFERRED

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
            log.error("preferred leaders cannot be elected yet", reason=failure.message)


def _concerned(topics: Topics, *broker_ids: int) -> list[Place]:
    """The partitions with one of these brokers as leader, in-sync replica or replica. Coordinators stand first."""
    found = [
        place
        for place in leadership.all_places(topics.state)
        if place.state.leader in broker_ids
        or not set(broker_ids).isdisjoint(place.state.isr)
        or not set(broker_ids).isdisjoint(place.state.replicas)
    ]
    found.sort(key=lambda place: place.topic.name not in _COORDINATORS)
    return found
