from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.topics import leadership
from muster.coordinator.topics.creation import Home, partition_record
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.metadata_log import encode
from muster.coordinator.topics.metadata_state import NO_LEADER, MetadataState
from muster.protocol.messages.metadata_records.register_broker_record import RegisterBrokerRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord
from muster.protocol.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from muster.protocol.records import decode_metadata


class Log:
    """A state that gets records as if they were read from the log."""

    def __init__(self, *replicas: list[int], brokers: int = 3) -> None:
        self.state = MetadataState()
        for broker_id in range(1, brokers + 1):
            self.register(broker_id)
        home = Home(1, b"d" * 16, dict.fromkeys(self.state.brokers))
        self.write(TopicRecord(name="t", topic_id=b"i" * 16))
        self.write(*(partition_record(b"i" * 16, index, home, place) for index, place in enumerate(replicas)))

    def write(self, *records: Any) -> None:
        for record in records:
            if record is not None:
                self.state.evolve(decode_metadata(encode(record))[2])

    def register(self, broker_id: int) -> None:
        self.write(RegisterBrokerRecord(broker_id=broker_id, rack=None, fenced=False))

    def fence(self, *broker_ids: int) -> None:
        self.write(*(leadership.fenced(self.state, one) for one in broker_ids))

    @property
    def live(self) -> list[int]:
        return leadership.living(self.state)

    def place(self, partition: int = 0) -> Place:
        return Place(self.state.topics["t"], partition)

    def state_of(self, partition: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """Leader, leader epoch, in-sync replicas."""
        place = self.place(partition)
        return place.state.leader, place.topic.leader_epoch(partition), place.state.isr


def test_a_lost_leader_is_replaced_under_a_higher_epoch() -> None:
    log = Log([1, 2], [3])
    log.fence(1, 3)
    for partition in (0, 1):
        log.write(leadership.settled(log.place(partition), log.live, partition))
    # a live replica is preferred; without one any broker becomes the leader
    assert [log.state_of(0), log.state_of(1)] == [(2, 1, (2,)), (2, 1, (2,))]
    assert leadership.settled(log.place(), log.live, 0) is None


def test_a_partition_without_leader_gets_one_when_a_broker_is_live() -> None:
    log = Log([1])
    log.fence(1, 2, 3)
    log.write(leadership.settled(log.place(), log.live, 0))
    assert log.state_of() == (NO_LEADER, 1, ())
    log.register(2)
    log.write(leadership.settled(log.place(), log.live, 0))
    assert log.state_of() == (2, 2, (2,))


def test_preferred_leaders_are_restored_when_they_are_live() -> None:
    log = Log([1, 2])
    log.fence(1)
    log.write(leadership.settled(log.place(), log.live, 0))
    assert leadership.preferred(log.place(), log.live) is None
    log.register(1)
    log.write(leadership.settled(log.place(), log.live, 0))
    assert log.state_of() == (2, 1, (1, 2))
    assert leadership.preferred(log.place(), log.live) == 1
    log.write(leadership.change(log.place(), 1, log.live))
    assert log.state_of() == (1, 2, (1, 2))


def test_a_started_broker_raises_the_epochs_of_only_its_own_partitions() -> None:
    log = Log([1], [2])
    before = [log.state_of(0)[1], log.state_of(1)[1]]
    log.register(2)
    assert [log.state_of(0)[1], log.state_of(1)[1]] == [before[0], before[1] + 2]
    # the epoch is that of the leader after a move as well
    log.write(leadership.change(log.place(0), 2, log.live))
    assert log.state_of(0)[1] == before[0] + 1
    log.register(2)
    assert log.state_of(0)[1] == before[0] + 3


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([1, 2], (1, 0, (1, 2))),
        ([3, 1], (1, 0, (3, 1))),
        ([3, 2], (3, 1, (3, 2))),
        ([4, 3], (3, 1, (3,))),
        ([4], (1, 0, (1,))),
    ],
)
def test_new_replicas_are_in_sync_at_once(replicas: list[int], expected: tuple[int, int, tuple[int, ...]]) -> None:
    log = Log([1], brokers=4)
    log.fence(4)
    log.write(leadership.reassigned(log.place(), replicas, log.live, b"d" * 16))
    assert log.state_of() == expected
    assert list(log.place().state.replicas) == replicas
    assert leadership.reassigned(log.place(), replicas, log.live, b"d" * 16) is None


def test_missing_brokers_lead_nothing() -> None:
    log = Log([1], [2], [3])
    log.write(*leadership.fence_missing_brokers(log.state, {1: None, 2: None}))
    assert [log.state_of(index)[0] for index in range(3)][:2] == [1, 2]
    assert log.state_of(2)[0] in (1, 2)
    assert log.state.brokers[3].fenced
    assert leadership.fence_missing_brokers(log.state, {1: None, 2: None}) == []


def test_an_unregistered_broker_is_forgotten() -> None:
    log = Log([1])
    log.write(UnregisterBrokerRecord(broker_id=3))
    assert sorted(log.state.brokers) == log.live == [1, 2]
