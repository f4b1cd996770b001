"""The topics of this node: the catalogue and the partitions that it says there are.

`Topics` puts the modules of this room together: it writes changes through the catalogue, opens and deletes logs as its
records say, and gives every subscriber the new immutable image. It knows no request and no socket.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.coordinator.clock import Clock
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import DamagedLog, Identity, LogConfig, LogManager, LogOffline
from muster.coordinator.log.storage.shared_sync import Waiter
from muster.coordinator.slices import Job, OneByOne
from muster.coordinator.topics import leadership
from muster.coordinator.topics.adopt import ADOPTED, adopted, before_take_over, on_disk, take_over
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.creation import USE_DEFAULT, Home, NewTopic, check_name, decide_creation, decide_growth
from muster.coordinator.topics.dynamic_configs import DynamicConfigs
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.internal_topics import internal_topic
from muster.coordinator.topics.keeper import Keeper
from muster.coordinator.topics.metadata_log import MIN_INSYNC_REPLICAS, MetadataLog, encode
from muster.coordinator.topics.metadata_state import MetadataState, TopicState
from muster.coordinator.topics.names import (
    EVENTS_OF,
    GROUP_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.offline_retry import Failed, OfflineRetry
from muster.coordinator.topics.open_topics import NOTHING_MADE, OpenTopics
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.pending_changes import PendingChanges
from muster.coordinator.topics.rebuild_topics import lost_topics, open_metadata_log, tells_nothing
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.stray_folders import Strays
from muster.coordinator.topics.topic import Topic
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord

if TYPE_CHECKING:
    from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord

Charge = Callable[[int], object]

PRODUCER_ID_BLOCK = 1_000
"""Producer ids taken from the metadata log at once (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""

_OF_COORDINATORS = frozenset((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
"""Topics of which each record is an answer that somebody relies on."""

_OF_LEADERS = frozenset(
    (
        "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord",
    )
)  # fmt: skip
_OF_ACLS = frozenset(("AccessControlEntryRecord", "RemoveAccessControlEntryRecord"))

CLOSED_AT_ONCE = 20
"""Partitions of a deleted topic whose logs are closed and renamed in one step."""


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
        keeper: Keeper | None = None,
    ) -> None:
        """`logs` is open already; `identity` is what it said then. Nothing is read before `load`. `racks`: of each
        broker of this process; None: there is the one of `identity`. `keeper`: of a metadata log that other processes
        write too; None: it is this one's alone.

        `partitions_are_given`: of __consumer_offsets and __transaction_state: an operator has said how many there are
        to be, whatever is on the disk.
        """
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.configs = configs
        self.draw_uuid = draw_uuid
        self.open = OpenTopics(logs, self._config_of, self._waits_for_sync)
        self.by_name: Mapping[str, Topic] = self.open.by_name
        self.by_id: Mapping[bytes, Topic] = self.open.by_id
        self.dynamic_configs = DynamicConfigs(configs, clock, identity.node_id, self.open)
        self.metadata_log: MetadataLog
        self._pending: PendingChanges
        self.racks: Mapping[int, str | None] = {identity.node_id: None} if racks is None else racks
        directory_id = base64.urlsafe_b64decode(identity.directory_id + "==")
        self.home = Home(identity.node_id, directory_id, dict(self.racks), draw=self._draw_below)
        self._partitions_are_given = partitions_are_given
        self.image = TopicsImage({}, 0)
        self._strays: Strays
        self._subscribers: list[Callable[[TopicsImage], object]] = []
        self._acl_subscribers: list[Callable[[Iterable[Message]], object]] = []
        self._quota_subscribers: list[Callable[[Iterable[ClientQuotaRecord]], object]] = []
        self._changes = OneByOne()
        """Of topics: what one has begun, another one does not see half of."""
        self._keeper = keeper
        self.open.is_one_of_several = keeper is not None
        self.moved: Callable[[], object] = lambda: None
        """Called when brokers or leaders are others by what the keeper told."""
        self.left: Callable[[Partition], object] = lambda _: None
        """Called with each partition that this process leads no more, when all know that; before its log goes."""
        self._producer_ids = range(0)

    def _draw_below(self, number: int) -> int:
        return int.from_bytes(self.draw_uuid()) % number

    @property
    def state(self) -> MetadataState:
        """What the metadata log says."""
        return self.metadata_log.state

    def _config_of(self, name: str) -> LogConfig:
        return self.configs.log_config(self.state.topic_configs(name))

    def _waits_for_sync(self, name: str) -> bool:
        return name in _OF_COORDINATORS and self.settings.muster_offsets_durability == "commit"

    # -- starting

    def load(self) -> None:
        """Replay the metadata log and open the log of every partition; what does not fit is seen to by `strays`."""
        log, lost = open_metadata_log(self.logs)
        self.metadata_log = MetadataLog(log)
        if self._keeper is not None:
            self._load_kept()
            return
        self.metadata_log.load(self.clock.now(), self.configs.broker.static.text(MIN_INSYNC_REPLICAS))
        self.metadata_log.begin(self.racks, self.draw_uuid, self.clock.now())
        self._see_brokers()
        self._begin()
        lost = lost or tells_nothing(self.logs, self.state)
        if lost:
            self._append(
                lost_topics(self.logs, self.state, self.home, self._internal, self.draw_uuid, self.clock.now().wall_ms)
            )
        for name in ADOPTED:
            self._adopt(name)
        Strays(self.logs, self.state, lost=lost).look()
        # whatever was lost, what is made from here on is known
        self._strays = Strays(self.logs, self.state, lost=False)
        self._append(leadership.of_strangers(self.state, self.racks))
        self._see_brokers()
        self._open_all()

    def _load_kept(self) -> None:
        """`load` where others write too: what the log says is so, and no partition is here yet."""
        self.metadata_log.replay()
        self._see_brokers()
        self._begin()
        self._open_all()

    def _begin(self) -> None:
        self.dynamic_configs.take_in(self.state)
        self._pending = PendingChanges(
            lambda: self.state.version, self._when_written, self.state.image, self._publish, self.logs.remove
        )

    def _open_all(self) -> None:
        for state in self.state.topics.values():
            self.open.open(state)
        self.publish()
        self._expire_producers_later()
        OfflineRetry(self.clock, self._offline).start()

    def _see_brokers(self) -> None:
        """New partitions are placed on the brokers that are registered now."""
        home, brokers = self.home, self.state.brokers
        home.racks = {broker_id: brokers[broker_id].rack for broker_id in sorted(brokers)}
        home.fenced = frozenset(broker_id for broker_id, broker in brokers.items() if broker.fenced)

    def _offline(self) -> Iterator[Failed] | None:
        """What `OfflineRetry` is to open again; None after the end."""
        if not self.logs.is_open:
            return None
        return self._failed_logs() if self.logs.gone is None else iter(())

    def _failed_logs(self) -> Iterator[Failed]:
        if self.metadata_log.log.failure is not None:
            yield METADATA_TOPIC, 0, self._reopen_metadata_log
        if self.metadata_log.log.failure is None:
            self._pending.resume()  # what waited while the data directory was away
        yield from self.open.failed_logs()

    def _reopen_metadata_log(self) -> None:
        self.metadata_log.use_log(self.logs.reopen(METADATA_TOPIC, 0))
        self._pending.resume()

    def _expire_producers_later(self) -> None:
        def expire() -> None:
            for topic in self.by_name.values():
                for partition in topic.partitions:
                    if partition is not None:
                        partition.expire_producers(self.clock.now(), self.settings.producer_id_expiration_ms)
            self._expire_producers_later()

        interval_ms = self.settings.producer_id_expiration_check_interval_ms
        self.clock.call_at(self.clock.now().mono_ms + interval_ms, expire)

    def _adopt(self, name: str) -> None:
        """The partitions of the coordinators on the disk belong to this node, also those that were copied there."""
        state = self.state.topics.get(name)
        if state is not None:
            place = name, state.topic_id, len(state.partitions)
            self._write(before_take_over(self.logs, self.state, self.home, *place))
            take_over(self.logs, *place)
            return
        wanted = self._internal(name) if on_disk(self.logs, name) else None
        if wanted is not None:
            self._write(adopted(self.logs, self.state, wanted, self.home, self._partitions_are_given(name)))

    def subscribe(self, callback: Callable[[TopicsImage], object]) -> None:
        """Give each new image to `callback`; the present one is `image`."""
        self._subscribers.append(callback)

    # -- changing: jobs, which `slices.at_once` runs here and now

    def creating(
        self, topic: NewTopic, *, validate_only: bool = False, charge: Charge | None = None
    ) -> Job[tuple[int, int]]:
        """Create a topic; the result is how many partitions it gets, and replicas each. Raises `ApiError`.

        `charge`: is told how many partitions are to come (here) or to go (below), when nothing else is in the way; may
        raise `ApiError`.
        """
        return self._changes.run(self._creating(topic, validate_only, charge))

    def _creating(self, topic: NewTopic, validate_only: bool, charge: Charge | None) -> Job[tuple[int, int]]:
        settings = self.settings

        def decide() -> Sequence[Message]:
            check_name(self.state, topic.name)
            self.configs.check(topic.configs)
            return decide_creation(topic, self.home, settings.num_partitions, settings.default_replication_factor)

        records = decide()
        placed = [record for record in records if type(record) is PartitionRecord]
        if charge is not None:
            charge(len(placed))
        if not validate_only and self._keeper is not None:
            yield from _deciding(self._keeper, decide)
        elif not validate_only:
            yield from self._make(topic.name, topic.topic_id, records)
        return len(placed), len(placed[0].replicas)

    def ensuring(self, name: str, partitions: int = USE_DEFAULT, charge: Charge | None = None) -> Job[Topic]:
        """The topic, created when it is not there; an internal one gets its own configs and number of partitions.
        Raises `ApiError` when it cannot be created.
        """
        topic = self.by_name.get(name)
        if topic is None:
            topic = yield from self._changes.run(self._ensuring(name, partitions, charge))
        return topic

    def _ensuring(self, name: str, partitions: int, charge: Charge | None) -> Job[Topic]:
        if name not in self.by_name:  # another request may have made it meanwhile
            wanted = self._internal(name) or NewTopic(name, self.draw_uuid())
            if partitions != USE_DEFAULT:
                wanted.partitions = partitions
            try:
                yield from self._creating(wanted, validate_only=False, charge=charge)
            except ApiError as refusal:
                if name not in self.by_name or refusal.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise  # or else another node was first
        return self.by_name[name]

    def _internal(self, name: str) -> NewTopic | None:
        if name not in INTERNAL_TOPICS:
            return None
        told = self.by_name.get(EVENTS_OF.get(name, ""))
        count = None if told is None else len(told.partitions)
        return internal_topic(name, self.draw_uuid(), self.settings, count)

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
            return decide_growth(self.state, name, count, assignments, self.home)

        records = decide()
        if charge is not None:
            charge(len(records))
        if not validate_only and self._keeper is not None:
            yield from _deciding(self._keeper, decide)
        elif not validate_only:
            yield from self._make(name, self.by_name[name].topic_id, records)

    def deleting(self, topic: Topic, charge: Charge | None = None) -> Job[None]:
        """Delete a topic, and its records once that is durable. Raises `ApiError` when the metadata log cannot be
        written, or another request has deleted it.
        """
        return self._changes.run(self._deleting(topic, charge))

    def _deleting(self, topic: Topic, charge: Charge | None) -> Job[None]:
        def decide() -> Sequence[Message]:
            if self.by_id.get(topic.topic_id) is not topic:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return [RemoveTopicRecord(topic_id=topic.topic_id)]

        records = decide()
        if charge is not None:
            charge(len(topic.partitions))
        if self._keeper is not None:
            yield from _deciding(self._keeper, decide)
            return
        self._append(records)
        yield from self._forgetting(topic)

    def _forgetting(self, topic: Topic) -> Job[None]:
        """The records say that the topic is deleted: its logs go."""
        self.open.forget(topic)
        doomed: list[str] = []
        try:
            for start in range(0, len(topic.partitions), CLOSED_AT_ONCE):
                indexes = range(start, min(start + CLOSED_AT_ONCE, len(topic.partitions)))
                for index in indexes:
                    partition = topic.partitions[index]
                    if partition is not None:
                        partition.close()
                doomed += self.logs.delete(topic.name, *indexes, topic_id=topic.topic_id)
                yield None
        finally:
            self._pending.changed(topics=True, doomed=doomed)

    def setting_configs(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Job[None]:
        """Set (text) or unset (None) checked configs of a resource. Raises `ApiError`."""
        yield from self.writing(
            [
                ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
                for key, value in changes.items()
            ]
        )

    def subscribe_acls(self, callback: Callable[[Iterable[Message]], object]) -> None:
        """Call back with the records of access control entries: with those that there are, and with each change."""
        self._acl_subscribers.append(callback)
        callback(self.state.acls.values())

    def subscribe_quotas(self, callback: Callable[[Iterable[ClientQuotaRecord]], object]) -> None:
        """Call back with the records of quotas that change; those that there are now are in `state`."""
        self._quota_subscribers.append(callback)

    def writing(self, records: Sequence[Message]) -> Job[None]:
        """Write records that tell nothing of topics' partitions or brokers, as one change. They are in force when it is
        done. Raises `ApiError`.
        """
        if self._keeper is not None:
            yield from _deciding(self._keeper, lambda: records)
        else:
            self._write(records)
            self._tell(records)

    def _tell(self, records: Sequence[Message]) -> None:
        """Those who want to hear of access control entries and quotas."""
        acls = [record for record in records if type(record).__name__ in _OF_ACLS]
        quotas: list[Any] = [record for record in records if type(record).__name__ == "ClientQuotaRecord"]
        if acls:
            for callback in self._acl_subscribers:
                callback(acls)
        if quotas:
            for of_quotas in self._quota_subscribers:
                of_quotas(quotas)

    def taking_in(self, data: bytes) -> Job[None]:
        """Live by whole batches of the metadata log that the keeper has, and that follow on what is known."""
        metadata_log, state = self.metadata_log, self.state
        records = metadata_log.take_in(data)
        gone = [
            self.by_id[one.topic_id] for one in records if type(one) is RemoveTopicRecord and one.topic_id in self.by_id
        ]
        self.dynamic_configs.written(records, state)
        self._tell(records)
        self._see_brokers()
        for touched in {state.touched_by(record): None for record in records}:
            if touched is not None:
                self.open.open(touched)
        moved: dict[TopicState, list[int]] = {}
        for place in leadership.places(state, records):
            name, index = place.topic.name, place.partition
            if self.open.leaders[name][index] != (place.state.leader, place.topic.leader_epoch(index)):
                moved.setdefault(place.topic, []).append(index)
        left: list[Partition] = []
        for topic, indexes in moved.items():
            left += self.open.relieve(topic, indexes, self.home.node_id)
        for forgotten in gone:
            yield from self._forgetting(forgotten)
        self._pending.changed(topics=True)
        if gone or any(type(record).__name__ in _OF_LEADERS for record in records):
            self.moved()
        for partition in left:
            partition.wake()
            self.left(partition)
            self.logs.let_go(partition.topic, partition.index)

    def change_brokers(self, records: Sequence[Message], *, anew: bool = False) -> list[Partition]:
        """Write records of brokers, and of partitions that get other leaders or replicas, as one change. It is in force
        at once: a `Partition` of an earlier leader refuses everything; these are returned, see
        `OpenTopics.hand_over`. `anew`: the leader before died, so that logs are read anew from their files. Raises
        `ApiError`.
        """
        touched = leadership.places(self.state, records)
        before = {place: place.topic.leader_epoch(place.partition) for place in touched}
        self._append(records)
        self._see_brokers()
        moved: dict[TopicState, list[int]] = {}
        for place, epoch in before.items():
            if place.topic.leader_epoch(place.partition) != epoch:
                moved.setdefault(place.topic, []).append(place.partition)
        left: list[Partition] = []
        for topic, indexes in moved.items():
            left += self.open.hand_over(topic, indexes, anew=anew)
        self._pending.changed(topics=bool(touched))
        return left

    def drawing_producer_id(self) -> Job[int]:
        """A new producer id; a block of them is taken from the metadata log when none is left. Raises `ApiError`."""
        while not self._producer_ids:
            start = self.state.next_producer_id
            end = start + PRODUCER_ID_BLOCK
            block = [ProducerIdsRecord(broker_id=self.home.node_id, broker_epoch=0, next_producer_id=end)]
            if self._keeper is None:
                self._write(block)
            elif not (yield from self._keeper.writing(block)):
                continue
            self._producer_ids = range(start, end)
        drawn = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return drawn

    def _make(self, name: str, topic_id: bytes, records: Sequence[Message]) -> Job[None]:
        """Make the logs of new partitions, and only then write the records that say there are such: of what cannot be
        made nothing is there. Raises `ApiError`.
        """
        given = {record.name: record.value for record in records if isinstance(record, ConfigRecord) and record.value}
        config = self.configs.log_config({**self.state.topic_configs(name), **given})
        made: dict[int, Partition | None] = {}
        encoded: list[bytes] = []
        try:
            for record in records:
                encoded.append(encode(record))
                if isinstance(record, PartitionRecord):
                    index = record.partition_id
                    self._strays.clear_way(name, index)
                    made[index] = None
                    made[index] = self.open.open_partition(name, topic_id, index, record.leader_epoch, config)
                yield None
            self._write(records, encoded, made)
        except (DamagedLog, LogOffline, OSError, ApiError) as error:
            for index in made:
                self.logs.remove(self.logs.delete(name, index))  # nothing was in its place before
                yield None
            if isinstance(error, ApiError):
                raise
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _append(self, records: Sequence[Message], encoded: Sequence[bytes] | None = None) -> None:
        """Raises `ApiError` when the metadata log cannot be written."""
        try:
            self.metadata_log.write(records, self.clock.now(), encoded)
        except LogOffline as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _write(
        self,
        records: Sequence[Message],
        encoded: Sequence[bytes] | None = None,
        made: Mapping[int, Partition | None] = NOTHING_MADE,
    ) -> None:
        """`encoded`: the same records, if they were encoded beforehand; `made`: the partitions of which they tell, if
        these are open already. Raises `ApiError`.
        """
        self._append(records, encoded)
        self.dynamic_configs.written(records, self.state)
        touched = {self.state.touched_by(record): None for record in records}
        for state in touched:
            if state is not None:
                self.open.open(state, made)
        self._pending.changed(topics=touched != {None: None})

    def publish(self) -> None:
        """Give the present image to all subscribers at once: before the first client comes."""
        self._pending.publish()

    def when_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` once all changes so far are on the disk and the groups know of them: at once, or soon;
        `callback(error)` when the disk fails. A change is acknowledged after this.
        """
        self._pending.when_durable(callback)

    def _when_written(self, callback: Waiter) -> None:
        """Call back when the folders and the records of all changes so far are on the disk. One sync does both."""
        log = self.metadata_log.log
        failures: list[LogOffline | None] = []

        def ended(failure: LogOffline | None) -> None:
            failures.append(failure)
            if len(failures) == 2:
                callback(failures[0] or failures[1])

        self.logs.folders.when_folders_durable(ended)
        log.when_durable(log.end_offset, ended)

    def _publish(self, image: TopicsImage) -> None:
        self.image = image
        for callback in self._subscribers:
            callback(image)


def _deciding(keeper: Keeper, decide: Callable[[], Sequence[Message]]) -> Job[None]:
    """Have what `decide` says written: as it says again when another node was first. Raises `ApiError`, as `decide`."""
    while not (yield from keeper.writing(decide())):
        pass
