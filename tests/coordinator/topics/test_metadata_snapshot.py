"""A snapshot of the metadata log: a reader that replays it knows everything, and continues like a reader of the log."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from muster.coordinator.log import batches
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.metadata_log import LEADER_EPOCH, encode
from muster.coordinator.topics.metadata_snapshot import MetadataSnapshot
from muster.coordinator.topics.metadata_state import NO_LEADER_CHANGE, MetadataState
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from muster.protocol.messages.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.delegation_token_record import DelegationTokenRecord
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from muster.protocol.messages.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord
from muster.protocol.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from muster.protocol.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from muster.protocol.records import decode_metadata


def described(state: MetadataState) -> dict[str, Any]:
    """Everything that can be asked of a state."""
    image = at_once(state.imaging())
    return {
        "version": state.version,
        "topics": {
            name: (
                topic.topic_id,
                [one._replace(first_epoch=0) for one in topic.partitions],
                [topic.leader_epoch(index) for index in range(len(topic.partitions))],
                dict(state.topic_configs(name)),
                state.topics_by_id[topic.topic_id] is topic,
            )
            for name, topic in state.topics.items()
        },
        "image": {one.name: (one.topic_id, one.partitions, one.leader_epochs) for one in image.by_name.values()},
        "colliding": [state.colliding_topic(f"a{sign}{number}") for sign in "._" for number in range(4)],
        "rest": deepcopy((state.configs, state.deleted, state.features, state.next_producer_id, state.quotas)),
        "brokers": {one: broker._replace(endpoints=dict(broker.endpoints)) for one, broker in state.brokers.items()},
        "as they came": [[encode(one) for one in rows.values()] for rows in (state.acls, state.scram, state.tokens)],
    }


class History:
    """Records that a metadata log may have."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.state = MetadataState()

    def take_in(self, *states: MetadataState) -> None:
        """Apply one more change, as it is read from the log."""
        for record in self.draw():
            for state in {id(one): one for one in (self.state, *states)}.values():
                state.evolve(decode_metadata(encode(record))[2])
                state.version += 1

    def draw(self) -> list[Message]:
        rng, state = self.rng, self.state
        topics = list(state.topics.values())
        what = rng.randrange(14)
        if what == 0:
            endpoints = [BrokerEndpoint("L", f"h{rng.randrange(9)}", 9092)][: rng.randrange(2)]
            return [RegisterBrokerRecord(broker_id=rng.randrange(1, 4), broker_epoch=state.version, fenced=False,
                                         end_points=endpoints, rack=rng.choice((None, "r")))]  # fmt: skip
        if what == 1 and state.brokers:
            return [UnregisterBrokerRecord(broker_id=rng.choice(list(state.brokers)), broker_epoch=1)]
        if what == 2 and state.brokers:
            broker_id, fenced = rng.choice(list(state.brokers)), rng.choice((-1, 1))
            return [BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=1, fenced=fenced)]
        if what == 3 and topics:
            return [RemoveTopicRecord(topic_id=rng.choice(topics).topic_id)]
        if what in (4, 5, 6, 7) and topics:
            topic = rng.choice(topics)
            if not topic.partitions or what == 4:
                return [self._partition(topic.topic_id, len(topic.partitions))]
            leader = rng.choice((NO_LEADER_CHANGE, 1, 2, 3))
            return [PartitionChangeRecord(partition_id=rng.randrange(len(topic.partitions)), topic_id=topic.topic_id,
                                          leader=leader, isr=rng.choice((None, [1])))]  # fmt: skip
        if what == 8:
            name = rng.choice([*state.topics, "g"])
            return [
                ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value=rng.choice((None, "1")))
            ]
        if what == 9:
            return [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=state.next_producer_id + 1_000)]
        if what == 10:
            entity = [EntityData("user", rng.choice((None, "u"))), EntityData("client-id", "c")]
            rate = float(rng.randrange(9))
            return [ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=rate, remove=rng.random() < 0.3)]
        if what == 11:
            if state.acls and rng.random() < 0.4:
                return [RemoveAccessControlEntryRecord(id=rng.choice(list(state.acls)))]
            return [AccessControlEntryRecord(id=rng.randbytes(16), principal="User:u", resource_name="r")]
        if what == 12:
            return [rng.choice((FeatureLevelRecord(name="metadata.version", feature_level=rng.randrange(30)),
                                UserScramCredentialRecord(name="u", mechanism=1, salt=rng.randbytes(4)),
                                DelegationTokenRecord(owner="o", token_id=f"t{rng.randrange(3)}")))]  # fmt: skip
        name, topic_id = f"a{rng.choice('._')}{rng.randrange(4)}", rng.randbytes(16)
        if name in state.topics:
            return []
        return [TopicRecord(name=name, topic_id=topic_id), *(self._partition(topic_id, index) for index in range(2))]

    def _partition(self, topic_id: bytes, index: int) -> PartitionRecord:
        replicas = self.rng.sample((1, 2, 3), 2)
        return PartitionRecord(partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas[:1],
                               leader=replicas[0], leader_epoch=self.rng.randrange(3), partition_epoch=0,
                               directories=[bytes(16)] * 2)  # fmt: skip


def replayed(snapshot: MetadataSnapshot, most: int) -> MetadataState:
    state = MetadataState()
    for part in snapshot.parts(1, most):
        assert len(list(batches.read(part))) == 1
        for header, records in batches.read(part):
            assert header.leader_epoch == LEADER_EPOCH
            assert len(records) <= most
            for record in records:
                state.evolve(decode_metadata(record.value or b"")[2])
    state.version = snapshot.end_offset
    return state


@pytest.mark.parametrize("seed", range(20))
def test_a_replayed_snapshot_gives_the_state_of_the_whole_log(seed: int) -> None:
    history = History(seed)
    for _ in range(history.rng.randrange(300)):
        history.take_in()
    snapshot, before = MetadataSnapshot(history.state), described(history.state)
    late = MetadataSnapshot(history.state)
    again = replayed(snapshot, history.rng.choice((1, 7, 500)))
    assert described(again) == before
    for _ in range(100):
        history.take_in(again)
        assert described(again) == described(history.state)
    # the records that were kept did not continue the snapshot
    assert described(replayed(late, 500)) == before
    assert described(replayed(MetadataSnapshot(again), 500)) == described(history.state)


def test_a_snapshot_of_an_empty_state_has_no_parts() -> None:
    assert list(MetadataSnapshot(MetadataState()).parts(1)) == []
