"""The shard with a state machine that is no group."""

from __future__ import annotations

import struct

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, LogOffline, batches
from muster.coordinator.log.errors import Place
from muster.coordinator.state_machine.deadlines import Deadline
from muster.coordinator.state_machine.interface import Command, Now, Producer
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.jobs import at_once
from muster.protocol.errors import ErrorCode
from tests.coordinator.runtime.toy import CLIENT, Add, Answer, Answers, Read, ShardHarness, Sums

A, B = Producer(7, 0), Producer(8, 0)


@pytest.fixture
def harness() -> ShardHarness:
    return ShardHarness().load()


def _add_one(core: Sums, now: Now) -> Output:
    """A change for which no client waits."""
    output = core.handle(Command(Add("a", 1), Answers(), CLIENT), now, 1_000)
    return Output([], output.records, output.events)


class TestCommands:
    def test_commands_are_decided_written_and_answered(self, harness: ShardHarness) -> None:
        assert harness.ask(Add("a", 3)) == [(3, 0)]
        assert harness.ask(Add("a", 4)) == [(7, 0)]
        assert harness.ask(Read("a")) == [(7, 0)]
        assert harness.log.end_offset == 2
        assert [one.leader_epoch for one in harness.log.headers()] == [5, 5]
        assert [(one.kind, one.facts) for one in harness.events] == [("added", {"number": 3}), ("added", {"number": 4})]

    def test_answers_wait_until_the_shown_state_is_durable(self) -> None:
        harness = ShardHarness(wait_for_sync=True).load()
        added, seen = harness.ask(Add("a", 3)), harness.ask(Read("a"))
        assert added == seen == []
        assert not harness.shard.is_settled()
        held = Answers()
        harness.shard.hold(held, Answer(1))
        harness.later.settle()
        assert (added, seen, held) == ([(3, 0)], [(3, 0)], [(1, 0)])
        assert harness.shard.is_settled()

    def test_commands_are_refused_while_the_shard_is_inactive(self) -> None:
        harness = ShardHarness()
        assert harness.ask(Add("a", 3)) == [(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
        harness.load()
        waiting = harness.ask(Add("a", 0))
        harness.shard.resign()
        assert waiting == harness.ask(Add("a", 3)) == [(0, ErrorCode.NOT_COORDINATOR)]
        harness.shard.run(lambda core, now: pytest.fail("it is not active"))
        ended: list[int] = []
        harness.shard.complete_transaction(A, is_committed=True, ended=ended.append)
        assert ended == [ErrorCode.NOT_COORDINATOR]
        assert harness.log.end_offset == 0

    def test_encoded_rows_are_appended_and_answered(self, harness: ShardHarness) -> None:
        rows, size = harness.shard._codec.encode([("a", 3)])
        answers = Answers()
        harness.shard.append(rows, size, answers, Answer(3))
        assert answers == [(3, 0)]
        assert harness.load().core.sums == {"a": 3}

    def test_records_without_a_waiting_client_join_the_next_command(self, harness: ShardHarness) -> None:
        harness.shard.run(_add_one, waits_ms=50)
        assert (harness.log.end_offset, harness.events, harness.shard.is_settled()) == (0, [], False)
        assert harness.ask(Add("a", 2)) == [(3, 0)]
        assert harness.written() == [(-1, False, False, 2)]
        assert [one.facts for one in harness.events] == [{"number": 1}, {"number": 2}]
        harness.clock.advance(50)
        assert harness.log.end_offset == 2

    def test_records_without_a_waiting_client_are_written_after_a_delay_a_read_or_a_stop(
        self, harness: ShardHarness
    ) -> None:
        harness.shard.run(_add_one, waits_ms=50)
        harness.clock.advance(49)
        assert harness.log.end_offset == 0
        harness.clock.advance(1)
        assert harness.log.end_offset == 1
        harness.shard.run(_add_one, waits_ms=50)
        assert harness.ask(Read("a")) == [(2, 0)]
        assert harness.log.end_offset == 2
        harness.shard.run(_add_one, waits_ms=50)
        harness.shard.resign()
        assert harness.log.end_offset == 3

    def test_a_shard_that_resigns_during_an_answer_stops_its_work(self) -> None:
        harness = ShardHarness(linger_ms=-1).load()
        first, second = harness.ask(Add("a", 1)), Answers()
        harness.shard.hold(lambda _: harness.shard.resign(), Answer(1))
        harness.ask(Add("a", 2), A)
        harness.shard.hold(second, Answer(2))
        harness.clock.advance(0)
        assert first == [(1, 0)]
        assert second == [(2, 0)]  # the change was decided, and is written before the shard resigns
        assert harness.log.end_offset == 2


class TestProducers:
    def test_commands_of_different_producers_never_share_a_batch(self) -> None:
        harness = ShardHarness(linger_ms=-1).load()
        for producer in (None, None, A, A, B, None, Producer(7, 1), A):
            harness.ask(Add("a", 1), producer)
        harness.clock.advance(0)
        assert harness.written() == [
            (-1, False, False, 2),
            (7, True, False, 2),
            (8, True, False, 1),
            (-1, False, False, 1),
            (7, True, False, 1),
            (7, True, False, 1),
        ]

    def test_a_marker_ends_a_transaction(self, harness: ShardHarness) -> None:
        harness.ask(Add("a", 1), A)
        harness.ask(Add("b", 2), B)
        harness.load()
        assert harness.core.sums == {}
        harness.shard.complete_transaction(A, is_committed=True)
        harness.shard.complete_transaction(B, is_committed=False)
        assert harness.written()[2:] == [(7, True, True, 1), (8, True, True, 1)]
        assert harness.core.sums == {"a": 1}
        assert harness.load().core.sums == {"a": 1}
        assert harness.core.pending == {}

    def test_a_marker_is_written_after_gathered_records_and_waited_for(self) -> None:
        harness = ShardHarness(linger_ms=-1, wait_for_sync=True).load()
        added, ended = harness.ask(Add("a", 1), A), list[int]()
        harness.shard.complete_transaction(A, is_committed=True, ended=ended.append)
        seen = harness.ask(Read("a"))
        assert [batch[2] for batch in harness.written()] == [False, True]
        assert added == seen == ended == []
        harness.later.settle()
        assert (added, seen, ended) == ([(1, 0)], [(1, 0)], [ErrorCode.NONE])

    def test_a_large_transaction_ends_in_steps_and_others_are_served_between_them(self) -> None:
        harness = ShardHarness(wait_for_sync=True).load()
        for name in "abc":
            harness.ask(Add(name, 1), A)
        harness.load()
        ended: list[int] = []
        harness.shard.complete_transaction(A, is_committed=True, ended=ended.append)
        assert harness.core.sums == {"a": 1}
        (job,) = harness.jobs
        seen = harness.ask(Read("a"))
        assert seen == []  # the marker may still be lost
        harness.later.settle()
        assert (seen, ended, harness.events[3:]) == ([(1, 0)], [], [])
        at_once(job)
        assert harness.core.sums == {"a": 1, "b": 1, "c": 1}
        assert (ended, harness.events[-1].facts) == ([ErrorCode.NONE], {"producer_id": A.producer_id})
        assert harness.load().core.sums == {"a": 1, "b": 1, "c": 1}

    def test_the_end_of_a_large_transaction_is_repeated_after_the_shard_stopped(self) -> None:
        harness = ShardHarness().load()
        for name in "abc":
            harness.ask(Add(name, 1), A)
        harness.load()
        ended: list[int] = []
        harness.shard.complete_transaction(A, is_committed=True, ended=ended.append)
        harness.shard.resign()
        at_once(harness.jobs[0])
        assert ended == [ErrorCode.NOT_COORDINATOR]
        assert harness.load().core.sums == {"a": 1, "b": 1, "c": 1}

    def test_a_marker_has_the_epoch_of_its_coordinator(self, harness: ShardHarness) -> None:
        harness.shard.complete_transaction(A, is_committed=True, coordinator_epoch=12)
        ((_, (marker,)),) = batches.read(harness.log.read(0, 1_000))
        assert bytes(marker.value or b"") == struct.pack(">hi", 0, 12)

    def test_a_marker_whose_sync_failed_does_not_exist(self) -> None:
        harness = ShardHarness(wait_for_sync=True).load()
        ended: list[int] = []
        harness.shard.complete_transaction(A, is_committed=True, ended=ended.append)
        harness.log.go_offline("sums-0", OSError("the disk is gone"))
        assert ended == [ErrorCode.NOT_COORDINATOR]
        assert harness.shard.core is None

    @pytest.mark.parametrize("gathered", [False, True])
    def test_the_state_is_rebuilt_if_a_marker_cannot_be_written(
        self, monkeypatch: pytest.MonkeyPatch, gathered: bool
    ) -> None:
        harness = ShardHarness(linger_ms=-1).load()
        if gathered:
            harness.ask(Add("a", 1), A)

        def fail(*_: object, **__: object) -> None:
            raise LogOffline("sums-0", "no space")

        with monkeypatch.context() as patch:
            patch.setattr(harness.log, "append", fail)
            ended: list[int] = []
            harness.shard.complete_transaction(A, is_committed=True, ended=ended.append)
        assert ended == [ErrorCode.NOT_COORDINATOR if not gathered else ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert harness.shard.core is None
        harness.clock.advance(1_000)
        assert harness.core.sums == {}


class TestLoading:
    def test_a_loaded_state_is_that_of_the_log(self, harness: ShardHarness) -> None:
        harness.ask(Add("a", 1))
        harness.ask(Add("b", 2))
        harness.load()
        assert (harness.core.sums, harness.core.was_loaded, harness.loads) == ({"a": 1, "b": 2}, True, [(0, 0), (2, 0)])

    def test_a_load_of_another_term_does_nothing(self, harness: ShardHarness) -> None:
        steps = harness.shard.start()
        harness.shard.resign()
        assert list(steps) == []
        assert harness.shard.core is None

    def test_the_load_callback_may_change_the_state_or_resign(self) -> None:
        harness = ShardHarness()
        harness.shard._on_load = lambda *_: harness.shard.resign()
        harness.load()
        assert harness.shard.core is None

    def test_a_log_that_cannot_be_opened_is_tried_again_and_a_damaged_one_is_not(self) -> None:
        harness = ShardHarness()
        harness.open_error = OSError("away")
        with capture_logs() as reported:
            harness.load()
        assert (
            reported[0]["event"]
            == "the sums cannot be loaded; the sums of this partition are built anew from their log"
        )
        harness.open_error = DamagedLog(Place("data/__sums-0/0.log", 7), "the CRC is wrong")
        with capture_logs() as reported:
            harness.clock.advance(0)
        assert reported[0]["event"] == "the sums of this partition are offline until their log is repaired"
        assert harness.shard.trouble is harness.open_error
        assert harness.ask(Read("a")) == [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]

    def test_the_reason_why_a_log_cannot_be_opened_is_logged_once_and_when_it_changes(self) -> None:
        harness = ShardHarness()
        harness.open_error = OSError("away")
        with capture_logs() as logged:
            harness.load()
            harness.clock.advance(100_000)
            assert [line["error"] for line in logged] == ["away"]
            harness.open_error = OSError("no access")
            harness.clock.advance(200_000)
        assert [line["error"] for line in logged] == ["away", "no access"]


class TestDeadlines:
    def test_deadlines_are_kept_only_while_the_shard_is_active(self, harness: ShardHarness) -> None:
        harness.ask(Add("a", 1, alarm_ms=50))
        harness.ask(Add("b", 1, alarm_ms=20))
        harness.clock.advance(20)
        core = harness.core
        assert core.alarms == ["b"]
        harness.shard.resign()
        harness.clock.advance(100)
        assert core.alarms == ["b"]

    def test_a_decision_without_a_command_sets_the_timer(self, harness: ShardHarness) -> None:
        def decide(core: Sums, now: Now) -> Output:
            core.deadlines.set(Deadline("alarm", "c"), now.mono_ms + 30)
            return Output()

        harness.shard.run(decide)
        assert harness.shard.timer.due_ms == 30
        harness.clock.advance(30)
        assert harness.core.alarms == ["c"]
