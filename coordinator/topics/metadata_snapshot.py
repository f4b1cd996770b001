"""Snapshots of the metadata log: the records that describe the state at an offset, as Kafka's. Pure.

A shortened log begins with a snapshot. The replay of snapshot and log makes the same state as the whole log.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from muster.coordinator.log import batches
from muster.coordinator.topics.metadata_log import LEADER_EPOCH, encode
from muster.coordinator.topics.metadata_state import MetadataState, PartitionState
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord

PART_RECORDS: Final = 500


class MetadataSnapshot:
    """A snapshot of the state up to `end_offset`: later changes of the state do not change it."""

    def __init__(self, state: MetadataState) -> None:
        self.end_offset = state.version
        self._starts = state.starts()
        self._features = dict(state.features)
        self._brokers = dict(state.brokers)
        self._deleted = dict(state.deleted)
        self._topics = [(one.name, one.topic_id, list(one.partitions)) for one in state.topics.values()]
        self._configs = {key: dict(values) for key, values in state.configs.items()}
        self._next_producer_id = state.next_producer_id
        self._quotas = {entity: dict(values) for entity, values in state.quotas.items()}
        self._records_as_written = [*state.acls.values(), *state.scram.values(), *state.tokens.values()]

    def records(self) -> Iterator[Message]:
        """Yield the records in an order in which they can be applied: a record follows those that it names."""
        for name, level in self._features.items():
            yield FeatureLevelRecord(name=name, feature_level=level)
        for broker_id, broker in self._brokers.items():
            yield RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=broker.epoch,
                end_points=[BrokerEndpoint(name, *one) for name, one in broker.endpoints.items()],
                rack=broker.rack,
                fenced=broker.fenced,
            )
        # deleted topics come before the existing topics, which may have the same names
        for topic_id, name in self._deleted.items():
            yield TopicRecord(name=name, topic_id=topic_id)
            yield RemoveTopicRecord(topic_id=topic_id)
        for name, topic_id, partitions in self._topics:
            yield TopicRecord(name=name, topic_id=topic_id)
            for index, one in enumerate(partitions):
                yield self._partition(topic_id, index, one)
        for (resource_type, name), values in self._configs.items():
            for key, value in values.items():
                yield ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        if self._next_producer_id:
            yield ProducerIdsRecord(broker_id=0, broker_epoch=0, next_producer_id=self._next_producer_id)
        for entity, quotas in self._quotas.items():
            from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord, EntityData

            parts = [EntityData(entity_type, entity_name) for entity_type, entity_name in entity]
            for key, limit in quotas.items():
                yield ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False)
        yield from self._records_as_written

    def _partition(self, topic_id: bytes, index: int, one: PartitionState) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(one.replicas),
            isr=list(one.isr),
            leader=one.leader,
            leader_epoch=one.first_epoch + self._starts.get(one.leader, 0),
            partition_epoch=one.partition_epoch,
            directories=list(one.directories),
        )

    def parts(self, wall_ms: int, max_records: int = PART_RECORDS) -> Iterator[bytes]:
        """Yield the records as batches of `max_records` records; `wall_ms` is their timestamp."""
        records, offset = self.records(), 0
        while part := [(None, encode(record)) for record in islice(records, max_records)]:
            yield bytes(batches.build(part, timestamp_ms=wall_ms, base_offset=offset, leader_epoch=LEADER_EPOCH))
            offset += len(part)
