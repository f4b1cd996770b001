"""The topics of the cluster as the metadata log describes them: the state that records change, and its immutable image.

Pure. The state changes only by `evolve`, which never refuses a record of Kafka's KRaft log (KIP-500, KIP-631).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from muster.coordinator.groups.common.image import DeletedSince, TopicImage, TopicsImage
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.cluster_image import Endpoint
from muster.coordinator.topics.names import collision_key, may_collide
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.register_broker_record import RegisterBrokerRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord

if TYPE_CHECKING:
    from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
    from muster.protocol.messages.metadata_records.broker_registration_change_record import (
        BrokerRegistrationChangeRecord,
    )
    from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord
    from muster.protocol.messages.metadata_records.delegation_token_record import DelegationTokenRecord
    from muster.protocol.messages.metadata_records.remove_access_control_entry_record import (
        RemoveAccessControlEntryRecord,
    )
    from muster.protocol.messages.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
    from muster.protocol.messages.metadata_records.remove_user_scram_credential_record import (
        RemoveUserScramCredentialRecord,
    )
    from muster.protocol.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord
    from muster.protocol.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord

COPIED_AT_ONCE: Final = 500
"""The most topics that are copied into an image in one step."""
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
_LIMITED_ELSEWHERE = (TOPIC_RESOURCE, BROKER_RESOURCE)
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
ALL_BROKERS = ""

NO_LEADER_CHANGE = -2

EPOCHS_PER_START = 2
"""Each start uses two leader epochs: on Kafka 4.4 the node's partitions lose their leader and get it again."""

NO_LEADER = -1

NO_ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType({})
NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


class BrokerState(NamedTuple):
    """A registered broker (BrokerRegistration). `epoch`: at the last start. `fenced`: whether the broker is fenced."""

    epoch: int
    rack: str | None
    fenced: bool
    endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS
    """Endpoints by the listener's name; empty where all brokers are of one process, which knows their addresses."""


class PartitionState(NamedTuple):
    """The leader and replicas of one partition (PartitionRegistration)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    first_epoch: int
    """The leader epoch without the starts of the leader: see `TopicState.leader_epoch`."""
    partition_epoch: int
    directories: tuple[bytes, ...]


class TopicState:
    """One topic: its name, its id (16 bytes) and its partitions in order."""

    __slots__ = ("_cluster", "image", "name", "partitions", "topic_id")

    def __init__(self, cluster: MetadataState, name: str, topic_id: bytes) -> None:
        self._cluster = cluster
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[PartitionState] = []
        self.image: TopicImage | None = None

    def leader_epoch(self, index: int) -> int:
        """The present leader's epoch. Each change of leader, and each start of its node, makes a new epoch."""
        partition = self.partitions[index]
        return partition.first_epoch + self._cluster.epochs_of_starts(partition.leader)

    def as_image(self) -> TopicImage:
        """The topic as groups see it. The same object until the topic changes."""
        if self.image is None:
            starts = {
                leader: self._cluster.epochs_of_starts(leader) for leader in {one.leader for one in self.partitions}
            }
            epochs = tuple([one.first_epoch + starts[one.leader] for one in self.partitions])
            self.image = TopicImage(self.name, self.topic_id, len(self.partitions), epochs)
        return self.image


def _characters(key: tuple[int, str], entries: Mapping[str, str] | None) -> int:
    """Return the characters of a resource's name and of its configs; 0 when it has no configs."""
    return len(key[1]) + sum([len(name) + len(value) for name, value in entries.items()]) if entries else 0


def _people(record: DelegationTokenRecord | None) -> int:
    return 0 if record is None else len(record.owner) + len(record.requester) + sum(map(len, record.renewers))


class MetadataState:
    """The state that the metadata log describes, as far as this server needs it."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicState] = {}
        self.topics_by_id: dict[bytes, TopicState] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.resource_characters = 0
        """How many characters the configs of groups and client metrics have, with the names."""
        self.client_metrics_version = 0
        """How many records have changed subscriptions of client metrics (KIP-714)."""
        self.acls: dict[bytes, Message] = {}
        self.deleted: dict[bytes, str] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        """The quotas of clients. The key has the types and names of an entity, in the order of the types."""
        self.scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        self.token_characters = 0
        self.brokers: dict[int, BrokerState] = {}
        self._starts: dict[int, int] = {}
        self.version = 0
        """The end offset of the records that were applied to this state."""
        self._collisions: dict[str, dict[str, None]] = {}
        self._images: dict[str, TopicImage] = {}
        self._images_by_id: dict[bytes, TopicImage] = {}
        self._changed: dict[str, None] = {}
        """Names of topics whose image in `_images` is out of date."""
        self._image_number = 0
        self._image_version = 0

    def epochs_of_starts(self, broker_id: int) -> int:
        """Return how many leader epochs the starts of a broker have used in the partitions that it leads."""
        return EPOCHS_PER_START * self._starts.get(broker_id, 0)

    def starts(self) -> dict[int, int]:
        """Return how many leader epochs the starts of each broker have used."""
        return {broker_id: EPOCHS_PER_START * count for broker_id, count in self._starts.items()}

    def resource_configs(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The configs of a resource, as texts."""
        return self.configs.get((resource_type, name), NO_CONFIGS)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The configs of a topic, as texts."""
        return self.configs.get((TOPIC_RESOURCE, name), NO_CONFIGS)

    def resources(self, resource_type: int) -> list[str]:
        """The names of the resources of a type that have configs of their own."""
        return [name for kind, name in self.configs if kind == resource_type]

    def colliding_topic(self, name: str) -> str | None:
        """A topic whose name differs from `name` only in '.' and '_'."""
        names = self._collisions.get(collision_key(name))
        return None if not names or name in names else next(iter(names))

    def imaging(self) -> Job[TopicsImage]:
        """Make the immutable image of the topics. Later changes, while the job runs, are not in the image.

        Only topics that changed since the last image are made again. The maps are copied in steps.
        """
        gone: dict[bytes, str] = {}
        for name in self._changed:
            old, topic = self._images.get(name), self.topics.get(name)
            if old is not None and (topic is None or topic.topic_id != old.topic_id):
                del self._images[name], self._images_by_id[old.topic_id]
                gone[old.topic_id] = name
            if topic is not None:
                self._images[name] = self._images_by_id[topic.topic_id] = topic.as_image()
        self._changed.clear()
        self._image_number = number = self._image_number + 1
        before, version = self._image_version, self.version
        self._image_version = version
        deleted = MappingProxyType(dict(self.deleted))
        by_name: dict[Any, TopicImage] = {}
        by_id: dict[Any, TopicImage] = {}
        tables: Sequence[tuple[dict[Any, TopicImage], dict[Any, TopicImage]]]
        tables = ((self._images, by_name), (self._images_by_id, by_id))
        for table, copied in tables:
            rest = iter(table.items())
            while len(copied) < len(table):
                if copied:
                    yield None
                    if self._image_number != number:  # a later call has changed the maps
                        return (yield from self.imaging())
                copied.update(islice(rest, COPIED_AT_ONCE))
        return TopicsImage(by_name, version, deleted, by_id, DeletedSince(before, gone))

    def evolve_all(self, records: Iterable[Message]) -> None:
        """Apply the records of one change."""
        for kind, some in groupby(records, type):
            if kind is PartitionRecord:
                self._partitions(some)  # type: ignore[arg-type]  # these are partition records
            else:
                for record in some:
                    self.evolve(record)

    def evolve(self, record: Message) -> None:
        """Apply one record of the metadata log."""
        evolve = _EVOLVE.get(type(record)) or _EVOLVE_BY_NAME.get(type(record).__name__)
        if evolve is not None:
            evolve(self, record)

    def touched_by(self, record: Message) -> TopicState | None:
        """The topic whose partitions or configs a record changed."""
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            return self.topics_by_id.get(record.topic_id)
        if isinstance(record, ConfigRecord) and record.resource_type == TOPIC_RESOURCE:
            return self.topics.get(record.resource_name)
        return None

    def _topic(self, record: TopicRecord) -> None:
        topic = TopicState(self, record.name, record.topic_id)
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self._changed[topic.name] = None
        self.deleted.pop(topic.topic_id, None)  # an operator has restored the topic
        if may_collide(topic.name):
            self._collisions.setdefault(collision_key(topic.name), {})[topic.name] = None

    def _partition(self, record: PartitionRecord) -> None:
        self._partitions((record,))

    def _partitions(self, records: Iterable[PartitionRecord]) -> None:
        """Apply partitions. Partitions of one call with equal states share one object: a topic may have 10,000."""
        topic: TopicState | None = None
        states: dict[tuple[Any, ...], PartitionState] = {}
        for record in records:
            if topic is None or topic.topic_id != record.topic_id:
                topic = self.topics_by_id.get(record.topic_id)
                if topic is None:
                    continue
                topic.image = None
                self._changed[topic.name] = None
                partitions = topic.partitions
            key = (
                tuple(record.replicas), tuple(record.isr), record.leader, record.leader_epoch, record.partition_epoch,
                tuple(record.directories),
            )  # fmt: skip
            if key not in states:
                first_epoch = record.leader_epoch - self.epochs_of_starts(record.leader)
                states[key] = PartitionState(*key)._replace(first_epoch=first_epoch)
            if record.partition_id < len(partitions):
                partitions[record.partition_id] = states[key]
            else:
                partitions.append(states[key])

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self.topics_by_id.get(record.topic_id)
        if topic is None or record.partition_id >= len(topic.partitions):
            return
        old = topic.partitions[record.partition_id]
        leader, first_epoch = old.leader, old.first_epoch
        if record.leader != NO_LEADER_CHANGE:
            leader = record.leader
            first_epoch += 1 + self.epochs_of_starts(old.leader) - self.epochs_of_starts(leader)
        topic.image = None
        self._changed[topic.name] = None
        topic.partitions[record.partition_id] = PartitionState(
            old.replicas if record.replicas is None else tuple(record.replicas),
            old.isr if record.isr is None else tuple(record.isr),
            leader,
            first_epoch,
            old.partition_epoch + 1,
            old.directories if record.directories is None else tuple(record.directories),
        )

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id, None)
        if topic is None:
            return
        del self.topics[topic.name]
        self._changed[topic.name] = None
        self.deleted[topic.topic_id] = topic.name
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        names = self._collisions.get(collision_key(topic.name))
        if names is not None:
            names.pop(topic.name, None)
            if not names:
                del self._collisions[collision_key(topic.name)]

    def _config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        if record.resource_type == CLIENT_METRICS_RESOURCE:
            self.client_metrics_version += 1
        entries = self.configs.get(key)
        if record.resource_type not in _LIMITED_ELSEWHERE:
            self.resource_characters -= _characters(key, entries)
        if record.value is not None:
            if entries is None:
                entries = self.configs[key] = {}
            entries[record.name] = record.value
        elif entries is not None:
            entries.pop(record.name, None)
            if not entries:
                del self.configs[key]
        if record.resource_type not in _LIMITED_ELSEWHERE:
            self.resource_characters += _characters(key, entries)

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        broker_id = record.broker_id
        endpoints = {one.name: Endpoint(one.host, one.port) for one in record.end_points} or NO_ENDPOINTS
        self.brokers[broker_id] = BrokerState(record.broker_epoch, record.rack or None, record.fenced, endpoints)
        self._starts[broker_id] = self._starts.get(broker_id, 0) + 1
        for topic in self.topics.values():
            topic.image = None
            self._changed[topic.name] = None

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        old = self.brokers.get(record.broker_id)
        if old is not None and record.fenced:
            self.brokers[record.broker_id] = old._replace(fenced=record.fenced > 0)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self.acls[record.id] = record

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self.acls.pop(record.id, None)

    def _quota(self, record: ClientQuotaRecord) -> None:
        names = {part.entity_type: part.entity_name for part in record.entity}
        entity = tuple(sorted(names.items(), key=lambda row: row[0]))
        if not record.remove:
            self.quotas.setdefault(entity, {})[record.key] = record.value
            return
        quotas = self.quotas.get(entity)
        if quotas is not None:
            quotas.pop(record.key, None)
            if not quotas:
                del self.quotas[entity]

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self.scram[record.name, record.mechanism] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram.pop((record.name, record.mechanism), None)

    def _token(self, record: DelegationTokenRecord) -> None:
        self.token_characters += _people(record) - _people(self.tokens.get(record.token_id))
        self.tokens[record.token_id] = record

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.token_characters -= _people(self.tokens.pop(record.token_id, None))

    def _feature(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level


_EVOLVE: dict[type[Message], Callable[[MetadataState, Message], None]] = {
    TopicRecord: MetadataState._topic,  # type: ignore[dict-item]  # each function takes the record type it stands beside
    PartitionRecord: MetadataState._partition,  # type: ignore[dict-item]  # as above
    PartitionChangeRecord: MetadataState._partition_change,  # type: ignore[dict-item]  # as above
    RemoveTopicRecord: MetadataState._remove_topic,  # type: ignore[dict-item]  # as above
    ConfigRecord: MetadataState._config,  # type: ignore[dict-item]  # as above
    RegisterBrokerRecord: MetadataState._register_broker,  # type: ignore[dict-item]  # as above
    ProducerIdsRecord: MetadataState._producer_ids,  # type: ignore[dict-item]  # as above
    FeatureLevelRecord: MetadataState._feature,  # type: ignore[dict-item]  # as above
}
_EVOLVE_BY_NAME: dict[str, Callable[[MetadataState, Message], None]] = {
    "BrokerRegistrationChangeRecord": MetadataState._change_broker,  # type: ignore[dict-item]  # as above
    "UnregisterBrokerRecord": MetadataState._unregister_broker,  # type: ignore[dict-item]  # as above
    "AccessControlEntryRecord": MetadataState._acl,  # type: ignore[dict-item]  # as above
    "ClientQuotaRecord": MetadataState._quota,  # type: ignore[dict-item]  # as above
    "DelegationTokenRecord": MetadataState._token,  # type: ignore[dict-item]  # as above
    "RemoveAccessControlEntryRecord": MetadataState._remove_acl,  # type: ignore[dict-item]  # as above
    "RemoveDelegationTokenRecord": MetadataState._remove_token,  # type: ignore[dict-item]  # as above
    "RemoveUserScramCredentialRecord": MetadataState._remove_scram,  # type: ignore[dict-item]  # as above
    "UserScramCredentialRecord": MetadataState._scram,  # type: ignore[dict-item]  # as above
}
"""Records by type name: most logs have none of these records, and then nothing imports the modules of their types."""
