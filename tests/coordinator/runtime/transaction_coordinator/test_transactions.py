"""The transaction coordinator of a node: from its first client to the next start."""

from __future__ import annotations

import pytest

from muster.coordinator.log import LogOffline
from muster.coordinator.runtime.transaction_coordinator.shard import COMPLETE_WAITS_MS
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.names import TRANSACTION_EVENTS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.coordinator.runtime.transaction_coordinator.room import Room

OFFSETS = "__consumer_offsets"


class TestTheTopic:
    def test_before_it_is_there_nobody_coordinates(self) -> None:
        room = Room()
        room.transactions.start(100)
        assert not room.transactions.routing.ready
        assert room.ask("x", EndTxnRequest("x")).error_code == ErrorCode.NOT_COORDINATOR
        assert TRANSACTION_STATE_TOPIC not in room.topics.by_name
        room.transactions.stop()

    def test_it_is_made_when_it_is_needed(self) -> None:
        room = Room(history=TRANSACTION_EVENTS_TOPIC)
        room.transactions.start(100)
        at_once(room.transactions.ensuring())
        assert len(room.transactions.routing.shards) == 3
        assert room.loads == 1
        assert len(room.topics.by_name[TRANSACTION_EVENTS_TOPIC].partitions) == 3
        assert room.init() == Producer(0, 0)
        at_once(room.transactions.ensuring())
        assert room.loads == 1

    def test_it_may_be_made_by_others(self) -> None:
        room = Room(history=TRANSACTION_EVENTS_TOPIC)
        room.transactions.start(100)
        at_once(room.topics.ensuring(TRANSACTION_STATE_TOPIC))
        assert TRANSACTION_EVENTS_TOPIC in room.topics.by_name
        assert room.init() == Producer(0, 0)

    def test_there_may_be_no_history(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room = Room(history="not a name of a topic")
        room.transactions.start(100)
        at_once(room.topics.ensuring(TRANSACTION_STATE_TOPIC))
        assert room.init() == Producer(0, 0)


class TestATransaction:
    def test_goes_from_its_first_partition_to_the_markers(self) -> None:
        room = Room().begun()
        producer = room.init()
        assert room.add(producer, ("t", [0, 1]), (OFFSETS, [1])) == [0, 0, 0]
        assert room.state() == "Ongoing"
        assert room.end(producer) == ErrorCode.NONE
        room.clock.advance(0)
        assert room.state() == "CompleteCommit"
        assert room.markers(0) == room.markers(1) == [(*producer, True)]
        epoch = room.transactions.routing.shard("x").coordinator_epoch
        assert room.groups[1] == [(0, producer, True, epoch)]
        assert room.groups[0] == []

    def test_is_aborted(self) -> None:
        room = Room().begun()
        producer = room.init()
        room.add(producer, ("t", [0]))
        assert room.end(producer, commit=False) == ErrorCode.NONE
        assert room.markers() == [(*producer, False)]

    def test_ends_when_its_last_partition_has_its_marker(self) -> None:
        room = Room().begun()
        producer = room.init()
        room.add(producer, ("t", [0]), (OFFSETS, [0]))
        room.groups[0].error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        room.end(producer)
        assert room.state() == "PrepareCommit"
        assert room.end(producer) == ErrorCode.CONCURRENT_TRANSACTIONS
        room.groups[0].error = ErrorCode.NONE
        room.clock.advance(1_000)
        assert room.state() == "CompleteCommit"
        assert room.markers() == [(*producer, True)]

    def test_that_was_decided_ends_after_the_next_start(self) -> None:
        room = Room().begun()
        producer = room.init()
        room.add(producer, ("t", [0]), (OFFSETS, [0]))
        room.groups[0].error = None
        room.end(producer)
        before = room.transactions.routing.shard("x").coordinator_epoch
        after = room.stopped()
        after.clock.advance(0)
        assert after.state() == "CompleteCommit"
        ((_, ended, is_committed, epoch),) = after.groups[0]
        assert (ended, is_committed) == (producer, True)
        assert epoch > before
        # a second marker changes nothing
        assert set(after.markers()) == {(*producer, True)}
        # what the coordinator before it still waited for does nothing
        room.groups[0].waiting[0](ErrorCode.NONE)

    def test_that_was_open_stays_open(self) -> None:
        room = Room().begun()
        producer = room.init()
        room.add(producer, ("t", [0]))
        after = room.stopped()
        assert after.state() == "Ongoing"
        assert after.end(producer) == ErrorCode.NONE
        assert after.markers() == [(*producer, True)]

    def test_goes_on_when_the_log_of_its_shard_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room = Room().begun()
        producer = room.init()
        room.add(producer, ("t", [0]), (OFFSETS, [0]))
        room.groups[0].error = None
        room.end(producer)
        shard = room.transactions.routing.shard("x")
        with monkeypatch.context() as patch:

            def fail(*_: object, **__: object) -> None:
                raise LogOffline("__transaction_state-0", "no space")

            patch.setattr(shard.runtime.log, "append", fail)
            room.groups[0].waiting.pop()(ErrorCode.NONE)  # the record that all markers are there
            room.groups[0].error = ErrorCode.NONE
            before = shard.markers
            room.clock.advance(COMPLETE_WAITS_MS)
            assert shard.markers is not before  # it was loaded anew
        room.clock.advance(1_000)
        assert room.state() == "CompleteCommit"
        assert [end[1:3] for end in room.groups[0]] == [(producer, True)] * 2

    def test_is_not_ended_by_what_was_begun_before_its_shard_was_loaded_anew(self) -> None:
        """A producer of the old version has the same epoch in each of its transactions."""
        room = Room().begun()
        producer = room.init()
        room.add(producer, ("t", [0]), (OFFSETS, [0]))
        room.groups[0].error = None
        room.end(producer)
        shard = room.transactions.routing.shard("x")
        for _ in shard.runtime.start():
            pass
        old, new = room.groups[0].waiting
        new(ErrorCode.NONE)
        room.clock.advance(0)
        assert room.state() == "CompleteCommit"
        room.add(producer, ("t", [0]), (OFFSETS, [0]))
        room.end(producer, commit=False)
        old(ErrorCode.NONE)
        new(ErrorCode.NONE)
        room.clock.advance(0)
        assert room.state() == "PrepareAbort"
        room.groups[0].waiting[2](ErrorCode.NONE)
        room.clock.advance(0)
        assert room.state() == "CompleteAbort"


class TestProducerIds:
    def test_one_that_is_not_used_goes_to_the_next(self) -> None:
        room = Room().begun()
        producer = room.init()
        assert room.ask("x", InitProducerIdRequest("x", 10**9)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert room.end(producer) == ErrorCode.INVALID_TXN_STATE
        assert room.init() == Producer(producer.producer_id, 1)
        assert room.init("y").producer_id == producer.producer_id + 1

    def test_none_is_drawn_for_a_shard_that_is_not_active(self) -> None:
        room = Room().begun()
        room.transactions.stop()
        answer = room.ask("x", InitProducerIdRequest("x", 1_000))
        assert (answer.error_code, answer.producer_id) == (ErrorCode.NOT_COORDINATOR, -1)
        assert room.topics.state.next_producer_id == 0

    def test_one_may_be_had_at_once(self) -> None:
        room = Room().begun()
        assert [room.transactions.next_producer_id() for _ in range(2)] == [0, 1]

    def test_without_a_disk_there_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room = Room().begun()
        room.topics.metadata_log.log.go_offline("m", OSError("the disk is gone"))
        assert room.transactions.next_producer_id() == -1


class TestKnownProducers:
    """Which producers of transactions that lie in offsets partitions are ended from here."""

    def test_none_while_there_are_no_transactions(self) -> None:
        room = Room()
        room.transactions.start(100)
        assert set(room.transactions.known_producers({0, 7})) == set()

    def test_those_of_all_shards(self) -> None:
        room = Room().begun()
        ids = {room.init(f"x{number}").producer_id for number in range(6)}
        assert set(room.transactions.known_producers({*ids, 99})) == ids
        assert {len(set(shard.transactional_ids())) for shard in room.transactions.routing.shards} != {0}

    def test_all_of_them_while_they_load(self) -> None:
        room = Room().begun()
        room.init("x")
        room.transactions.routing.shards[0].runtime.resign()
        assert set(room.transactions.known_producers({0, 99})) == {0, 99}
        assert list(room.transactions.routing.shards[0].transactional_ids()) == []
