"""How a shard collects the records of many commands into a batch, and what follows when a batch cannot be written."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common.events import Event
from muster.coordinator.runtime.replies import BATCH_BYTES
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.api.harness import Answers
from tests.coordinator.fakes import ROW_BYTES
from tests.coordinator.runtime.group_coordinator.shard_harness import GroupShardHarness, StorageFailed, code_of

PER_BATCH = BATCH_BYTES // ROW_BYTES


class TooLarge(ValueError):
    error_code = ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.fixture
def harness() -> GroupShardHarness:
    """A shard that appends at the end of an iteration, which is an `advance` of the clock."""
    return GroupShardHarness(linger_ms=-1).load()


def answered(*answers: Answers) -> list[int]:
    return [code_of(one) for one in answers]


def test_records_of_one_iteration_are_one_batch(harness: GroupShardHarness) -> None:
    first, second = harness.commit(5), harness.commit(6, partition=1)
    assert harness.core.offsets == {0: 5, 1: 6}
    assert harness.log.epochs == first.all == second.all == []
    harness.clock.advance(0)
    assert answered(first, second) == [0, 0]
    assert [row.value.offset for row in harness.log.rows if row.value] == [5, 6]
    assert harness.log.epochs == [3]
    third = harness.commit(7)
    harness.clock.advance(0)
    assert answered(third) == [0]
    assert harness.log.epochs == [3, 3]


def test_a_full_batch_is_followed_by_another(harness: GroupShardHarness) -> None:
    answers = [harness.commit(number) for number in range(2 * PER_BATCH + 1)]
    harness.clock.advance(0)
    assert answered(*answers) == [0] * len(answers)
    assert len(harness.log.epochs) == 3
    assert [row.value.offset for row in harness.log.rows if row.value] == list(range(len(answers)))


def test_an_answer_that_shows_the_state_waits_for_its_records(harness: GroupShardHarness) -> None:
    committed, alive, listed = (
        harness.commit(5),
        harness.submit(HeartbeatRequest("g")),
        harness.submit(ListGroupsRequest()),
    )
    assert alive.all == listed.all == []
    harness.log.sync = True
    harness.clock.advance(0)
    assert committed.all == alive.all == listed.all == []
    harness.log.synced()
    assert code_of(committed) == 0
    assert alive.one() == HeartbeatResponse()
    assert listed.one().error_code == 0


def test_events_are_reported_when_the_records_are_appended(harness: GroupShardHarness) -> None:
    harness.commit(5)
    assert harness.events == []
    harness.clock.advance(0)
    assert [event.kind for event in harness.events] == ["commit"]


def test_a_linger_time_gathers_records() -> None:
    harness = GroupShardHarness(linger_ms=5).load()
    first = harness.commit(5)
    harness.clock.advance(4)
    second = harness.commit(6)
    assert first.all == []
    harness.clock.advance(1)
    assert answered(first, second) == [0, 0]
    assert len(harness.log.epochs) == 1


def test_records_of_a_deadline_join_the_batch(harness: GroupShardHarness) -> None:
    committed: list[Answers] = []
    harness.clock.call_at(harness.clock.mono_ms() + 1, lambda: committed.append(harness.commit(5)))
    joining = harness.submit(JoinGroupRequest("g", session_timeout_ms=1))
    harness.clock.advance(1)
    assert joining.one().generation_id == 1
    assert answered(*committed) == [0]
    assert len(harness.log.epochs) == 1


def test_a_failed_append_refuses_all_that_were_decided_since(harness: GroupShardHarness) -> None:
    harness.log.fail = StorageFailed("no space")
    answers, alive = [harness.commit(number) for number in range(PER_BATCH + 1)], harness.submit(HeartbeatRequest("g"))
    harness.clock.advance(0)
    assert answered(*answers) == [ErrorCode.NOT_COORDINATOR] * len(answers)
    assert alive.one().error_code == ErrorCode.NOT_COORDINATOR
    assert harness.events == []
    harness.log.fail = None
    harness.clock.advance(0)
    assert harness.core.offsets == {}
    again = harness.commit(7)
    harness.clock.advance(0)
    assert code_of(again) == 0


def test_a_too_large_command_fails_alone(harness: GroupShardHarness) -> None:
    before = harness.commit(1)
    rows = [OffsetCommitRequestPartition(0, 2)]
    large = harness.submit(
        OffsetCommitRequest("g" * PER_BATCH, topics=[OffsetCommitRequestTopic("t", partitions=rows)])
    )
    after = harness.commit(3)
    taken = harness.log.append

    def append(leader_epoch: int, batch: list[object], *, wall_ms: int) -> None:
        if any("gg" in row.key.group for row in batch):
            raise TooLarge("too large")
        taken(leader_epoch, batch, wall_ms=wall_ms)

    harness.log.append = append
    harness.clock.advance(0)
    assert answered(before, large) == [0, ErrorCode.UNKNOWN_SERVER_ERROR]
    # the decision used a state that never became durable: the client must ask again
    assert code_of(after) == ErrorCode.NOT_COORDINATOR
    assert harness.core.offsets == {0: 1}


def test_a_resigning_shard_appends_its_gathered_records(harness: GroupShardHarness) -> None:
    committed = harness.commit(5)
    harness.shard.runtime.resign()
    assert code_of(committed) == 0
    assert len(harness.log.rows) == 1
    harness.clock.advance(0)
    assert len(harness.log.rows) == 1


def test_a_failed_sync_also_refuses_records_gathered_meanwhile(harness: GroupShardHarness) -> None:
    harness.log.sync = True
    first = harness.commit(5)
    harness.clock.advance(0)
    second = harness.commit(6)
    harness.log.synced(error=StorageFailed("broken"))
    assert answered(first, second) == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert [row.value.offset for row in harness.log.rows if row.value] == [5]


def test_a_request_sent_during_an_answer_finds_the_batch_consistent(harness: GroupShardHarness) -> None:
    then: list[Answers] = []
    events: list[Event] = []
    harness.events = events
    committed = harness.commit(1)
    harness.shard.runtime.queue.batches[-1].replies.append(
        (lambda _: then.append(harness.commit(2)), HeartbeatResponse())
    )
    harness.clock.advance(0)
    assert code_of(committed) == 0
    assert harness.core.offsets == {0: 2}
    harness.clock.advance(0)
    assert answered(*then) == [0]
