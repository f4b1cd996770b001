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
from tests.coordinator.runtime.transaction_coordinator.harness import CoordinatorHarness

OFFSETS = "__consumer_offsets"


class TestTheTopic:
    def test_there_is_no_coordinator_before_the_topic_exists(self) -> None:
        harness = CoordinatorHarness()
        harness.transactions.start(100)
        assert not harness.transactions.routing.ready
        assert harness.ask("x", EndTxnRequest("x")).error_code == ErrorCode.NOT_COORDINATOR
        assert TRANSACTION_STATE_TOPIC not in harness.topics.by_name
        harness.transactions.stop()

    def test_the_transaction_topic_is_created_when_needed(self) -> None:
        harness = CoordinatorHarness(history=TRANSACTION_EVENTS_TOPIC)
        harness.transactions.start(100)
        at_once(harness.transactions.ensuring())
        assert len(harness.transactions.routing.shards) == 3
        assert harness.loads == 1
        assert len(harness.topics.by_name[TRANSACTION_EVENTS_TOPIC].partitions) == 3
        assert harness.init() == Producer(0, 0)
        at_once(harness.transactions.ensuring())
        assert harness.loads == 1

    def test_the_transaction_topic_may_be_created_by_another_node(self) -> None:
        harness = CoordinatorHarness(history=TRANSACTION_EVENTS_TOPIC)
        harness.transactions.start(100)
        at_once(harness.topics.ensuring(TRANSACTION_STATE_TOPIC))
        assert TRANSACTION_EVENTS_TOPIC in harness.topics.by_name
        assert harness.init() == Producer(0, 0)

    def test_transactions_work_without_an_event_topic(self, monkeypatch: pytest.MonkeyPatch) -> None:
        harness = CoordinatorHarness(history="not a name of a topic")
        harness.transactions.start(100)
        at_once(harness.topics.ensuring(TRANSACTION_STATE_TOPIC))
        assert harness.init() == Producer(0, 0)


class TestATransaction:
    def test_a_transaction_is_committed_with_its_markers(self) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        assert harness.add(producer, ("t", [0, 1]), (OFFSETS, [1])) == [0, 0, 0]
        assert harness.state() == "Ongoing"
        assert harness.end(producer) == ErrorCode.NONE
        harness.clock.advance(0)
        assert harness.state() == "CompleteCommit"
        assert harness.markers(0) == harness.markers(1) == [(*producer, True)]
        epoch = harness.transactions.routing.shard("x").coordinator_epoch
        assert harness.groups[1] == [(0, producer, True, epoch)]
        assert harness.groups[0] == []

    def test_a_transaction_is_aborted_with_its_markers(self) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        harness.add(producer, ("t", [0]))
        assert harness.end(producer, commit=False) == ErrorCode.NONE
        assert harness.markers() == [(*producer, False)]

    def test_a_transaction_is_complete_after_its_last_marker(self) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        harness.add(producer, ("t", [0]), (OFFSETS, [0]))
        harness.groups[0].error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        harness.end(producer)
        assert harness.state() == "PrepareCommit"
        assert harness.end(producer) == ErrorCode.CONCURRENT_TRANSACTIONS
        harness.groups[0].error = ErrorCode.NONE
        harness.clock.advance(1_000)
        assert harness.state() == "CompleteCommit"
        assert harness.markers() == [(*producer, True)]

    def test_a_decided_transaction_is_completed_after_a_restart(self) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        harness.add(producer, ("t", [0]), (OFFSETS, [0]))
        harness.groups[0].error = None
        harness.end(producer)
        before = harness.transactions.routing.shard("x").coordinator_epoch
        after = harness.stopped()
        after.clock.advance(0)
        assert after.state() == "CompleteCommit"
        ((_, ended, is_committed, epoch),) = after.groups[0]
        assert (ended, is_committed) == (producer, True)
        assert epoch > before
        # a second marker changes nothing
        assert set(after.markers()) == {(*producer, True)}
        # an answer for which the coordinator before it waited does nothing
        harness.groups[0].waiting[0](ErrorCode.NONE)

    def test_an_open_transaction_stays_open_after_a_restart(self) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        harness.add(producer, ("t", [0]))
        after = harness.stopped()
        assert after.state() == "Ongoing"
        assert after.end(producer) == ErrorCode.NONE
        assert after.markers() == [(*producer, True)]

    def test_a_transaction_continues_after_its_shards_log_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        harness.add(producer, ("t", [0]), (OFFSETS, [0]))
        harness.groups[0].error = None
        harness.end(producer)
        shard = harness.transactions.routing.shard("x")
        with monkeypatch.context() as patch:

            def fail(*_: object, **__: object) -> None:
                raise LogOffline("__transaction_state-0", "no space")

            patch.setattr(shard.runtime.log, "append", fail)
            harness.groups[0].waiting.pop()(ErrorCode.NONE)  # the record of completion
            harness.groups[0].error = ErrorCode.NONE
            before = shard.markers
            harness.clock.advance(COMPLETE_WAITS_MS)
            assert shard.markers is not before  # it was loaded again
        harness.clock.advance(1_000)
        assert harness.state() == "CompleteCommit"
        assert [end[1:3] for end in harness.groups[0]] == [(producer, True)] * 2

    def test_old_markers_do_not_complete_a_transaction_after_a_reload(self) -> None:
        """A producer of the old version has the same epoch in each of its transactions."""
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        harness.add(producer, ("t", [0]), (OFFSETS, [0]))
        harness.groups[0].error = None
        harness.end(producer)
        shard = harness.transactions.routing.shard("x")
        for _ in shard.runtime.start():
            pass
        old, new = harness.groups[0].waiting
        new(ErrorCode.NONE)
        harness.clock.advance(0)
        assert harness.state() == "CompleteCommit"
        harness.add(producer, ("t", [0]), (OFFSETS, [0]))
        harness.end(producer, commit=False)
        old(ErrorCode.NONE)
        new(ErrorCode.NONE)
        harness.clock.advance(0)
        assert harness.state() == "PrepareAbort"
        harness.groups[0].waiting[2](ErrorCode.NONE)
        harness.clock.advance(0)
        assert harness.state() == "CompleteAbort"


class TestProducerIds:
    def test_an_unused_producer_id_is_used_for_the_next_request(self) -> None:
        harness = CoordinatorHarness().begun()
        producer = harness.init()
        assert harness.ask("x", InitProducerIdRequest("x", 10**9)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert harness.end(producer) == ErrorCode.INVALID_TXN_STATE
        assert harness.init() == Producer(producer.producer_id, 1)
        assert harness.init("y").producer_id == producer.producer_id + 1

    def test_no_producer_id_is_taken_for_an_inactive_shard(self) -> None:
        harness = CoordinatorHarness().begun()
        harness.transactions.stop()
        answer = harness.ask("x", InitProducerIdRequest("x", 1_000))
        assert (answer.error_code, answer.producer_id) == (ErrorCode.NOT_COORDINATOR, -1)
        assert harness.topics.state.next_producer_id == 0

    def test_a_producer_id_is_available_at_once(self) -> None:
        harness = CoordinatorHarness().begun()
        assert [harness.transactions.next_producer_id() for _ in range(2)] == [0, 1]

    def test_no_producer_id_is_available_without_a_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        harness = CoordinatorHarness().begun()
        harness.topics.metadata_log.log.go_offline("m", OSError("the disk is gone"))
        assert harness.transactions.next_producer_id() == -1


class TestKnownProducers:
    """The producers whose transactions in offsets partitions are ended from here."""

    def test_no_producers_are_known_without_transactions(self) -> None:
        harness = CoordinatorHarness()
        harness.transactions.start(100)
        assert set(harness.transactions.known_producers({0, 7})) == set()

    def test_the_known_producers_are_those_of_all_shards(self) -> None:
        harness = CoordinatorHarness().begun()
        ids = {harness.init(f"x{number}").producer_id for number in range(6)}
        assert set(harness.transactions.known_producers({*ids, 99})) == ids
        assert {len(set(shard.transactional_ids())) for shard in harness.transactions.routing.shards} != {0}

    def test_all_producers_count_as_known_while_shards_load(self) -> None:
        harness = CoordinatorHarness().begun()
        harness.init("x")
        harness.transactions.routing.shards[0].runtime.resign()
        assert set(harness.transactions.known_producers({0, 99})) == {0, 99}
        assert list(harness.transactions.routing.shards[0].transactional_ids()) == []
