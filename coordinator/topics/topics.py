"""The topics of this node: the interface for the other packages.

`Topics` decides the records of a change, lets the catalogue write them, and gives every subscriber the new image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import Identity, LogManager
from muster.coordinator.log.storage.shared_sync import Waiter
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, SerialJobs
from muster.coordinator.topics import creation, leadership
from muster.coordinator.topics.catalogue import Catalogue
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_log import MetadataLog, SharedMetadataLogWriter, decoding
from muster.coordinator.topics.metadata_state import MetadataState, TopicState
from muster.coordinator.topics.names import EVENTS_OF, INTERNAL_TOPICS, PARTITIONS_PROPERTIES
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.partition_maintenance import PartitionMaintenance
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.startup import load_own, load_shared
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord

if TYPE_CHECKING:
    from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord

Charge = Callable[[int], object]

PRODUCER_ID_BLOCK = 1_000
"""How many producer ids are taken from the metadata log at once (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""

_OF_COORDINATORS = frozenset(PARTITIONS_PROPERTIES)

_OF_LEADERS = frozenset(
    (
        "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord",
    )
)  # fmt: skip
_OF_ACLS = frozenset(("AccessControlEntryRecord", "RemoveAccessControlEntryRecord"))


class Topics:
    """All topics of this node."""

    def __init__(
        self,
        settings: TopicSettings,
        clock: Clock,
        logs: LogManager,
        identity: Identity,
        configs: TopicConfigs,
        draw_uuid: Callable[[], bytes],
        *,
        partitions_are_given: Callable[[str], bool] = lambda _: True,
        racks: Mapping[int, str | None] | None = None,
        shared_log: SharedMetadataLogWriter | None = None,
    ) -> None:
        """`logs` is open already, and `identity` is the result of its `open`. Nothing is read before `load`.

        `racks`: see `Catalogue`. `shared_log`: the writer of a metadata log that other processes write too.
        `partitions_are_given`: whether an operator has set how many partitions __consumer_offsets and
        __transaction_state have. The set number counts, whatever is on the disk.
        """
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.configs = configs
        self.draw_uuid = draw_uuid
        self._catalogue = Catalogue(clock, logs, identity, configs, racks, draw_uuid, self._waits_for_sync)
        self.open = self._catalogue.open
        self.by_name: Mapping[str, Topic] = self.open.by_name
        self.by_id: Mapping[bytes, Topic] = self.open.by_id
        self.dynamic_configs = self._catalogue.dynamic_configs
        self.racks = self._catalogue.racks
        self.home = self._catalogue.home
        self._partitions_are_given = partitions_are_given
        self.image = TopicsImage({}, 0)
        self._subscribers: list[Callable[[TopicsImage], object]] = []
        self._acl_subscribers: list[Callable[[Iterable[Message]], object]] = []
        self._feature_subscribers: list[Callable[[], object]] = []
        self._quota_subscribers: list[Callable[[Iterable[ClientQuotaRecord]], object]] = []
        self._changes = SerialJobs()
        """The changes of topics, one at a time, so that no change sees half of another change."""
        self._shared_log = shared_log
        self.open.is_one_of_several = shared_log is not None
        self.moved: Callable[[], object] = lambda: None
        """Called when records of other nodes have changed brokers or leaders."""
        self.left: Callable[[Partition], object] = lambda _: None
        """Called with each partition that this process no longer leads. All nodes know the new leader then, and the log
        closes.
        """
        self._producer_ids = range(0)

    @property
    def state(self) -> MetadataState:
        """The state that the metadata log describes."""
        return self._catalogue.metadata_log.state

    @property
    def metadata_log(self) -> MetadataLog:
        """The metadata log, after `load`."""
        return self._catalogue.metadata_log

    def _waits_for_sync(self, name: str) -> bool:
        return name in _OF_COORDINATORS and self.settings.muster_offsets_durability == "commit"

    # -- starting

    def load(self) -> None:
        """Read the metadata log and open the log of every partition that this process has."""
        if self._shared_log is None:
            load_own(self._catalogue, self._publish, self._internal, self._partitions_are_given)
        else:
            load_shared(self._catalogue, self._shared_log.snapshot, self._publish)
        for state in self.state.topics.values():
            self.open.open(state)
        self.publish()
        PartitionMaintenance(self._catalogue, lambda: self.settings).start()

    def subscribe(self, callback: Callable[[TopicsImage], object]) -> None:
        """Give each new image to `callback`; the present image is `image`."""
        self._subscribers.append(callback)

    # -- changing: jobs, which `jobs.at_once` runs at once

    def creating(
        self, topic: creation.NewTopic, *, validate_only: bool = False, charge: Charge | None = None
    ) -> Job[tuple[int, int]]:
        """Create a topic; the result is its number of partitions and of replicas. Raises `ApiError`.

        `charge`: called with the number of new (or deleted) partitions; it may refuse them.
        """
        return self._changes.run(self._creating(topic, validate_only, charge))

    def _creating(self, topic: creation.NewTopic, validate_only: bool, charge: Charge | None) -> Job[tuple[int, int]]:
        settings = self.settings

        def decide() -> Sequence[Message]:
            creation.check_name(self.state, topic.name)
            self.configs.check(topic.configs)
            return creation.decide_creation(
                topic, self.home, settings.num_partitions, settings.default_replication_factor
            )

        records = decide()
        yield None
        placed = [record for record in records if type(record) is PartitionRecord]
        if charge is not None:
            charge(len(placed))
        if not validate_only and self._shared_log is not None:
            yield from _deciding(self._shared_log, decide)
        elif not validate_only:
            yield from self._catalogue.making(topic.name, topic.topic_id, records)
        return len(placed), len(placed[0].replicas)

    def ensuring(self, name: str, partitions: int = creation.USE_DEFAULT, charge: Charge | None = None) -> Job[Topic]:
        """Return the topic, after creating it if it does not exist. Raises `ApiError` when that fails."""
        topic = self.by_name.get(name)
        if topic is None:
            topic = yield from self._changes.run(self._ensuring(name, partitions, charge))
        return topic

    def _ensuring(self, name: str, partitions: int, charge: Charge | None) -> Job[Topic]:
        if name not in self.by_name:  # another request may have created the topic meanwhile
            wanted = self._internal(name) or creation.NewTopic(name, self.draw_uuid())
            if partitions != creation.USE_DEFAULT:
                wanted.partitions = partitions
            try:
                yield from self._creating(wanted, validate_only=False, charge=charge)
            except ApiError as refusal:
                if name not in self.by_name or refusal.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise  # else another node was first
        return self.by_name[name]

    def _internal(self, name: str) -> creation.NewTopic | None:
        if name not in INTERNAL_TOPICS:
            return None
        decoded = self.by_name.get(EVENTS_OF.get(name, ""))
        count = None if decoded is None else len(decoded.partitions)
        return creation.internal_topic(name, self.draw_uuid(), self.settings, count)

    def growing(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
    ) -> Job[None]:
        """Give a topic more partitions. Raises `ApiError`."""
        return self._changes.run(self._growing(name, count, assignments, validate_only, charge))

    def _growing(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        validate_only: bool,
        charge: Charge | None,
    ) -> Job[None]:
        def decide() -> Sequence[Message]:
            return creation.decide_growth(self.state, name, count, assignments, self.home)

        records = decide()
        yield None
        if charge is not None:
            charge(len(records))
        if not validate_only and self._shared_log is not None:
            yield from _deciding(self._shared_log, decide)
        elif not validate_only:
            yield from self._catalogue.making(name, self.by_name[name].topic_id, records)

    def deleting(self, topic: Topic, charge: Charge | None = None) -> Job[None]:
        """Delete a topic, and its records once the deletion is durable. Raises `ApiError`."""
        return self._changes.run(self._deleting(topic, charge))

    def _deleting(self, topic: Topic, charge: Charge | None) -> Job[None]:
        def decide() -> Sequence[Message]:
            if self.by_id.get(topic.topic_id) is not topic:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return [RemoveTopicRecord(topic_id=topic.topic_id)]

        records = decide()
        if charge is not None:
            charge(len(topic.partitions))
        if self._shared_log is not None:
            yield from _deciding(self._shared_log, decide)
            return
        self._catalogue.append(records)
        yield from self._catalogue.forgetting(topic)

    def setting_configs(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Job[None]:
        """Set (text) or unset (None) checked configs of a resource. Raises `ApiError`."""
        yield from self.writing(
            [
                ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
                for key, value in changes.items()
            ]
        )

    def subscribe_acls(self, callback: Callable[[Iterable[Message]], object]) -> None:
        """Call `callback` with the records of the present access control entries, and of each change."""
        self._acl_subscribers.append(callback)
        callback(self.state.acls.values())

    def subscribe_quotas(self, callback: Callable[[Iterable[ClientQuotaRecord]], object]) -> None:
        """Call `callback` with the records of quotas that change. `state` has the present quotas."""
        self._quota_subscribers.append(callback)

    def subscribe_features(self, callback: Callable[[], object]) -> None:
        """Call `callback` after each change of feature levels. `state.features` has the present levels."""
        self._feature_subscribers.append(callback)

    def writing(self, records: Sequence[Message]) -> Job[None]:
        """Write records that are not about partitions or brokers as one change. Raises `ApiError`."""
        if self._shared_log is not None:
            yield from _deciding(self._shared_log, lambda: records)
        else:
            self._catalogue.write(records)
            self._report_changes(records)

    def _report_changes(self, records: Sequence[Message]) -> None:
        acls = [record for record in records if type(record).__name__ in _OF_ACLS]
        quotas: list[Any] = [record for record in records if type(record).__name__ == "ClientQuotaRecord"]
        if acls:
            for callback in self._acl_subscribers:
                callback(acls)
        if quotas:
            for of_quotas in self._quota_subscribers:
                of_quotas(quotas)
        if any(type(record) is FeatureLevelRecord for record in records):
            for features_changed in self._feature_subscribers:
                features_changed()

    def applying_batches(self, data: bytes) -> Job[None]:
        """Apply whole batches that other nodes wrote, which follow the known batches."""
        metadata_log, state = self.metadata_log, self.state
        decoded = yield from decoding(data)
        metadata_log.apply_batches(data, decoded)
        records = decoded.records
        gone = [
            self.by_id[one.topic_id] for one in records if type(one) is RemoveTopicRecord and one.topic_id in self.by_id
        ]
        self.dynamic_configs.written(records, state)
        self._report_changes(records)
        self._catalogue.see_brokers()
        for touched in {state.touched_by(record): None for record in records}:
            if touched is not None:
                self.open.open(touched)
        moved: dict[TopicState, list[int]] = {}
        for place in leadership.places(state, records):
            name, index = place.topic.name, place.partition
            if self.open.leaders[name][index] != (place.state.leader, place.topic.leader_epoch(index)):
                moved.setdefault(place.topic, []).append(index)
        left = self.open.release_partitions(moved, self.home.node_id)
        for forgotten in gone:
            yield from self._catalogue.forgetting(forgotten)
        self._catalogue.pending.changed(topics=True)
        if gone or any(type(record).__name__ in _OF_LEADERS for record in records):
            self.moved()
        for partition in left:
            partition.wake()
            self.left(partition)
            self.logs.let_go(partition.topic, partition.index)

    def change_brokers(self, records: Sequence[Message], *, anew: bool) -> list[Partition]:
        """Write records of brokers, and of partitions with other leaders or replicas, as one change.

        The change is in force at once: a `Partition` of an earlier leader refuses everything. Returns the partitions of
        earlier leaders (`OpenTopics.hand_over`). `anew`: the old leader died: read logs again. Raises `ApiError`.
        """
        touched = leadership.places(self.state, records)
        before = {place: place.topic.leader_epoch(place.partition) for place in touched}
        self._catalogue.append(records)
        self._catalogue.see_brokers()
        moved: dict[TopicState, list[int]] = {}
        for place, epoch in before.items():
            if place.topic.leader_epoch(place.partition) != epoch:
                moved.setdefault(place.topic, []).append(place.partition)
        left: list[Partition] = []
        for topic, indexes in moved.items():
            left += self.open.hand_over(topic, indexes, anew=anew)
        self._catalogue.pending.changed(topics=bool(touched))
        return left

    def drawing_producer_id(self) -> Job[int]:
        """Return a new producer id, from a block that the metadata log has assigned to this node. Raises `ApiError`."""
        while not self._producer_ids:
            start = self.state.next_producer_id
            end = start + PRODUCER_ID_BLOCK
            block = [ProducerIdsRecord(broker_id=self.home.node_id, broker_epoch=0, next_producer_id=end)]
            if self._shared_log is None:
                self._catalogue.write(block)
            elif not (yield from self._shared_log.writing(block)):
                continue
            self._producer_ids = range(start, end)
        drawn = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return drawn

    def publish(self) -> None:
        """Give the present image to all subscribers at once: before the first client connects."""
        self._catalogue.pending.publish()

    def when_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` once all changes are on the disk and known to groups, or `callback(error)`."""
        self._catalogue.pending.when_durable(callback)

    def _publish(self, image: TopicsImage) -> None:
        self.image = image
        for callback in self._subscribers:
            callback(image)


def _deciding(shared_log: SharedMetadataLogWriter, decide: Callable[[], Sequence[Message]]) -> Job[None]:
    """Write what `decide` returns. When another node was first, decide again. Raises `ApiError`, as `decide` does."""
    while not (yield from shared_log.writing(decide())):
        pass
