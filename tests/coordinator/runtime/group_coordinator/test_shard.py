"""The shard with a short core: its handling of outputs, errors and deadlines, whatever groups decide."""

from __future__ import annotations

from itertools import pairwise

import pytest
import structlog

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.runtime.replies import ANSWERS_AT_ONCE
from muster.coordinator.state_machine.interface import Command, Record
from muster.coordinator.state_machine.output import Output
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.api.harness import Answers
from tests.coordinator.runtime.group_coordinator.shard_harness import CLIENT, GroupShardHarness, StorageFailed, code_of


@pytest.fixture
def harness() -> GroupShardHarness:
    return GroupShardHarness().load()


class TestSubmit:
    def test_a_reply_without_records_is_sent_at_once(self, harness: GroupShardHarness) -> None:
        assert harness.submit(HeartbeatRequest("g")).one() == HeartbeatResponse()

    def test_records_are_appended_under_the_leader_epoch_before_the_reply(self, harness: GroupShardHarness) -> None:
        assert code_of(harness.commit(5)) == 0
        assert [row.value.offset for row in harness.log.rows if row.value] == [5]
        assert harness.log.epochs == [3]

    def test_a_reply_waits_until_its_records_are_durable(self, harness: GroupShardHarness) -> None:
        harness.log.sync = True
        answers = harness.commit(5)
        assert answers.all == []
        harness.log.synced()
        assert code_of(answers) == 0

    def test_later_replies_do_not_overtake_parked_ones(self, harness: GroupShardHarness) -> None:
        harness.log.sync = True
        first, second, alive = harness.commit(5), harness.commit(6), harness.submit(HeartbeatRequest("g"))
        harness.log.synced(1)
        assert code_of(first) == 0
        assert second.all == alive.all == []
        harness.log.synced()
        assert code_of(second) == 0
        assert alive.one() == HeartbeatResponse()

    def test_a_reply_waits_for_records_of_a_timer(self, harness: GroupShardHarness) -> None:
        # an expiration writes a record and answers nobody; its change must not be visible before it is durable
        harness.log.sync = True
        harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.core.records_at_deadline = [Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1), 4)]
        harness.core.parked.clear()
        harness.clock.advance(50)
        alive = harness.submit(HeartbeatRequest("g"))
        assert alive.all == []
        harness.log.synced()
        assert alive.one() == HeartbeatResponse()

    def test_events_are_reported_before_the_answer_that_shows_them(self, harness: GroupShardHarness) -> None:
        flushed: list[int] = []
        row = OffsetCommitRequestPartition(0, 5)
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[row])])
        harness.shard.runtime.submit(Command(request, lambda _: flushed.append(harness.flushed), CLIENT))
        assert flushed == [1]

    @pytest.mark.parametrize("durable", [True, False])
    def test_the_answers_of_a_large_group_are_spread_over_iterations(
        self, harness: GroupShardHarness, durable: bool
    ) -> None:
        # a thousand at once would delay everybody else
        harness.log.sync = not durable
        answers = [harness.submit(JoinGroupRequest("g", session_timeout_ms=50)) for _ in range(3 * ANSWERS_AT_ONCE + 1)]
        if not durable:
            harness.core.records_at_deadline = [Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1), 4)]
            harness.clock.call_at(50, lambda: harness.clock.call_soon(harness.log.synced))
        seen: list[int] = []

        def look() -> None:
            seen.append(sum(len(one.all) for one in answers))
            if seen[-1] != len(answers):
                harness.clock.call_soon(look)

        harness.clock.call_at(50, look)
        harness.clock.advance(50)
        assert [now - before for before, now in pairwise(dict.fromkeys((0, *seen)))] == [ANSWERS_AT_ONCE] * 3 + [1]
        assert [one.one().generation_id for one in answers] == [1] * len(answers)

    def test_a_resigning_shard_sends_the_answers_that_were_due(self, harness: GroupShardHarness) -> None:
        answers = [harness.submit(JoinGroupRequest("g", session_timeout_ms=50)) for _ in range(2 * ANSWERS_AT_ONCE)]
        harness.clock.call_at(50, harness.shard.runtime.resign)
        harness.clock.advance(50)
        assert [one.one().generation_id for one in answers] == [1] * len(answers)

    def test_a_refused_heartbeat_is_reported_unless_it_only_asks_to_join_again(
        self, harness: GroupShardHarness
    ) -> None:
        harness.core.heartbeat_error = ErrorCode.REBALANCE_IN_PROGRESS
        harness.flushed = -1
        harness.submit(HeartbeatRequest("g", 1, "m"))
        assert (harness.events, harness.flushed) == ([], 0)  # but the records of the event are written by now
        harness.core.heartbeat_error = ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.submit(HeartbeatRequest("g", 1, "m")).one().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        (event,) = harness.events
        assert harness.flushed == 1  # the answer may show that its member was removed a moment ago
        assert (event.kind, event.group_id) == (events.REQUEST_REFUSED, "g")
        assert event.facts == {"api": "Heartbeat", "error": 25, "client_id": CLIENT.client_id, "host": CLIENT.host,
                               "member": "m", "instance": None}  # fmt: skip

    def test_a_load_is_reported_if_there_were_records(self, harness: GroupShardHarness) -> None:
        assert harness.loads == []
        harness.commit(5)
        harness.commit(6)
        harness.load()
        assert harness.loads == [(1, 2, 0)]

    def test_events_are_reported_once_their_records_are_written(self, harness: GroupShardHarness) -> None:
        harness.commit(5)
        assert [event.kind for event in harness.events] == ["commit"]

    def test_a_request_sent_during_a_reply_finds_the_shard_consistent(self, harness: GroupShardHarness) -> None:
        then: list[Answers] = []
        row = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        command = Command(OffsetCommitRequest("g", topics=[row]), lambda _: then.append(harness.commit(2)), CLIENT)
        harness.shard.runtime.submit(command)
        assert code_of(then[0]) == 0
        assert harness.core.offsets == {0: 2}


class TestDeadlines:
    def test_the_core_advances_at_its_deadline(self, harness: GroupShardHarness) -> None:
        answers = harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.clock.advance(49)
        assert answers.all == []
        harness.clock.advance(1)
        assert answers.one().generation_id == 1

    def test_an_earlier_deadline_replaces_the_timer(self, harness: GroupShardHarness) -> None:
        harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.submit(JoinGroupRequest("g", session_timeout_ms=20))
        harness.clock.advance(20)
        assert harness.core.advanced == [20]

    def test_a_deadline_moved_later_is_checked_once_early_and_then_kept(self, harness: GroupShardHarness) -> None:
        answers = harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.core.deadline = 70
        harness.clock.advance(69)
        assert harness.core.advanced == [50]
        assert answers.all == []
        harness.clock.advance(1)
        assert answers.one().generation_id == 1

    def test_a_heartbeat_with_an_earlier_deadline_replaces_the_timer(self, harness: GroupShardHarness) -> None:
        harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.submit(HeartbeatRequest("g", generation_id=20))
        harness.clock.advance(20)
        assert harness.core.advanced == [20]

    def test_a_shard_that_is_not_active_has_no_timer(self, harness: GroupShardHarness) -> None:
        harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        core = harness.core
        harness.shard.runtime.resign()
        harness.clock.advance(100)
        assert core.advanced == []


class TestLoading:
    def test_a_load_replays_the_log(self, harness: GroupShardHarness) -> None:
        harness.commit(5)
        harness.commit(6, partition=1)
        harness.load()
        assert len(harness.cores) == 2
        assert harness.core.offsets == {0: 5, 1: 6}
        assert harness.active()

    def test_an_empty_log_is_loaded_in_one_step(self) -> None:
        harness = GroupShardHarness()
        assert not harness.active()
        assert next(harness.shard.runtime.start(), "done") == "done"
        assert harness.active()

    def test_commands_are_refused_until_the_last_chunk(self) -> None:
        harness = GroupShardHarness().load()
        harness.commit(5)
        harness.commit(6)
        steps = harness.shard.runtime.start()
        next(steps)
        assert code_of(harness.commit(7)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        next(steps)
        assert harness.submit(HeartbeatRequest("g")).one().error_code == 0
        assert next(steps, "done") == "done"
        assert code_of(harness.commit(7)) == 0

    def test_a_load_of_an_older_term_ends_without_effect(self) -> None:
        harness = GroupShardHarness().load()
        harness.commit(5)
        steps = harness.shard.runtime.start()
        next(steps)
        harness.shard.runtime.resign()
        assert next(steps, "done") == "done"
        assert not harness.active()

    def test_records_and_deadlines_of_a_loaded_core_are_used(self) -> None:
        harness = GroupShardHarness()
        record = Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1), 4)
        harness.after_load = Output(records=[record])
        harness.load()
        assert harness.log.rows == [record]

    def test_topics_changed_during_a_load_reach_the_new_core(self) -> None:
        harness = GroupShardHarness().load()
        harness.commit(5)
        steps = harness.shard.runtime.start()
        next(steps)
        image = TopicsImage({}, 9)
        harness.shard.topics_changed(image)
        assert next(steps, "done") == "done"
        assert harness.core.image is image

    def test_changed_topics_reach_the_core(self, harness: GroupShardHarness) -> None:
        image = TopicsImage({}, 9)
        harness.shard.topics_changed(image)
        assert harness.core.image is image

    def test_a_log_that_cannot_be_opened_is_tried_again(self) -> None:
        harness = GroupShardHarness()
        harness.open_error = OSError("no such disk")
        harness.load()
        assert code_of(harness.commit(1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.open_error = None
        harness.clock.advance(0)
        assert harness.active()


class TestFailures:
    def test_a_failed_append_is_refused_and_the_state_is_loaded_again(self, harness: GroupShardHarness) -> None:
        harness.commit(5)
        harness.log.fail = StorageFailed("disk full")
        assert code_of(harness.commit(6)) == ErrorCode.NOT_COORDINATOR
        assert not harness.active()
        harness.log.fail = None
        harness.clock.advance(0)
        assert harness.active()
        assert harness.core.offsets == {0: 5}

    def test_events_of_a_failed_append_are_not_reported(self, harness: GroupShardHarness) -> None:
        harness.log.fail = StorageFailed("disk full")
        harness.commit(6)
        assert harness.events == []

    def test_requests_parked_in_the_core_are_refused_when_an_append_fails(self, harness: GroupShardHarness) -> None:
        parked = harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.log.fail = StorageFailed("disk full")
        harness.commit(6)
        assert parked.one().error_code == ErrorCode.NOT_COORDINATOR

    def test_a_request_sent_during_a_failure_finds_the_shard_inactive(self, harness: GroupShardHarness) -> None:
        then: list[Answers] = []
        command = Command(JoinGroupRequest("g"), lambda _: then.append(harness.commit(2)), CLIENT)
        harness.shard.runtime.submit(command)
        harness.log.fail = StorageFailed("disk full")
        harness.commit(6)
        assert code_of(then[0]) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    def test_append_errors_are_mapped_as_by_kafka(self, harness: GroupShardHarness) -> None:
        class TooLarge(ValueError):
            error_code = ErrorCode.RECORD_LIST_TOO_LARGE

        harness.log.fail = TooLarge("too large")
        assert code_of(harness.commit(6)) == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_a_failed_sync_refuses_every_parked_reply(self, harness: GroupShardHarness) -> None:
        harness.log.sync = True
        first, second = harness.commit(5), harness.commit(6)
        harness.log.synced(error=StorageFailed("i/o error"))
        assert code_of(first) == code_of(second) == ErrorCode.NOT_COORDINATOR

    def test_a_reply_is_not_sent_twice_if_the_sync_ends_after_a_failure(self, harness: GroupShardHarness) -> None:
        harness.log.sync = True
        answers = harness.commit(5)
        harness.shard.runtime.resign()
        harness.log.synced()
        assert code_of(answers) == ErrorCode.NOT_COORDINATOR

    def test_loads_after_repeated_failures_are_tried_less_and_less_often(self, harness: GroupShardHarness) -> None:
        harness.log.fail = StorageFailed("disk full")
        harness.commit(1)
        harness.clock.advance(0)
        assert harness.active()
        harness.commit(1)
        harness.clock.advance(99)
        assert not harness.active()
        harness.clock.advance(1)
        assert harness.active()
        harness.log.fail = None
        assert code_of(harness.commit(1)) == 0
        harness.log.fail = StorageFailed("disk full")
        harness.commit(1)
        harness.clock.advance(0)
        assert harness.active()

    def test_rebuilding_the_state_runs_in_steps(self, harness: GroupShardHarness) -> None:
        for offset in range(3):
            harness.commit(offset, partition=offset)
        harness.log.fail = StorageFailed("disk full")
        harness.commit(9)
        harness.log.fail = None
        seen: list[bool] = []
        harness.clock.call_soon(lambda: seen.append(harness.active()))
        harness.clock.advance(0)
        assert (seen, harness.active()) == ([False], True)
        assert harness.core.offsets == {0: 0, 1: 1, 2: 2}

    def test_damage_found_by_a_replay_is_not_retried(self, harness: GroupShardHarness) -> None:
        harness.commit(5)
        harness.codec.damaged = True
        with structlog.testing.capture_logs() as lines:
            harness.load()
            harness.clock.advance(1_000_000)
        assert len(lines) == 1
        assert (lines[0]["path"], lines[0]["position"]) == ("data/__consumer_offsets-7/0.log", 90)
        assert "muster log repair data --partition __consumer_offsets-7" in lines[0]["what_to_do"]
        assert code_of(harness.commit(1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        (row,) = harness.submit(DescribeGroupsRequest(["g"])).one().groups
        assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert row.error_message.startswith("data/__consumer_offsets-7/0.log is damaged at byte 90: the CRC is wrong; ")

    def test_the_trouble_of_a_shard_is_shown_until_it_is_over(self, harness: GroupShardHarness) -> None:
        assert harness.shard.runtime.trouble is None
        harness.log.fail = StorageFailed("disk full")
        harness.commit(1)
        (row,) = harness.submit(DescribeGroupsRequest(["g"])).one().groups
        assert (row.error_code, row.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "disk full")
        harness.clock.advance(0)
        assert harness.active()
        assert harness.shard.runtime.trouble is None

    def test_an_older_retry_does_not_disturb_a_new_term(self, harness: GroupShardHarness) -> None:
        harness.log.fail = StorageFailed("disk full")
        harness.commit(1)
        harness.log.fail = None
        harness.load()
        cores = len(harness.cores)
        harness.clock.advance(0)
        assert len(harness.cores) == cores


def _two_groups() -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g"), OffsetFetchRequestGroup("h")])


class TestNotActive:
    @pytest.mark.parametrize(
        ("request_", "code"),
        [
            (JoinGroupRequest("g"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (SyncGroupRequest("g"), ErrorCode.REBALANCE_IN_PROGRESS),
            (HeartbeatRequest("g"), ErrorCode.NONE),
            (LeaveGroupRequest("g"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (ListGroupsRequest(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (JoinGroupRequest(""), ErrorCode.INVALID_GROUP_ID),
            (SyncGroupRequest(""), ErrorCode.INVALID_GROUP_ID),
            (HeartbeatRequest(""), ErrorCode.INVALID_GROUP_ID),
            (LeaveGroupRequest(""), ErrorCode.INVALID_GROUP_ID),
        ],
    )
    def test_each_request_is_refused_with_its_error_while_the_shard_loads(self, request_: Message, code: int) -> None:
        assert GroupShardHarness().submit(request_).one().error_code == code

    def test_requests_with_rows_are_refused_by_row_while_the_shard_loads(self) -> None:
        harness, loading = GroupShardHarness(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert code_of(harness.commit(1)) == loading
        fetched = harness.submit(_two_groups()).one().groups
        assert [(row.group_id, row.error_code) for row in fetched] == [("g", loading), ("h", loading)]
        described = harness.submit(DescribeGroupsRequest(["g", ""])).one().groups
        assert [(row.group_id, row.error_code, row.group_state) for row in described] == [
            ("g", loading, ""),
            ("", loading, ""),
        ]
        deleted = harness.submit(DeleteGroupsRequest(["g"])).one().results
        assert [(row.group_id, row.error_code) for row in deleted] == [("g", loading)]

    def test_a_resigned_shard_answers_not_coordinator(self, harness: GroupShardHarness) -> None:
        parked = harness.submit(JoinGroupRequest("g", session_timeout_ms=50))
        harness.shard.runtime.resign()
        assert parked.one().error_code == ErrorCode.NOT_COORDINATOR
        assert harness.submit(HeartbeatRequest("g")).one().error_code == ErrorCode.NOT_COORDINATOR
        assert harness.submit(SyncGroupRequest("g")).one().error_code == ErrorCode.NOT_COORDINATOR
        join = harness.submit(JoinGroupRequest("g", member_id="m")).one()
        assert (join.error_code, join.member_id, join.generation_id) == (ErrorCode.NOT_COORDINATOR, "", -1)
