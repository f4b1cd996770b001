"""How a shard gathers the records of many commands into a batch, and what becomes of it when one cannot be written."""

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
from tests.coordinator.runtime.group_coordinator.test_shard import Bench, StorageFailed, code_of

PER_BATCH = BATCH_BYTES // ROW_BYTES


class TooLarge(ValueError):
    error_code = ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.fixture
def bench() -> Bench:
    """Appends at the end of a turn, which is an `advance` of the clock."""
    return Bench(linger_ms=-1).load()


def answered(*answers: Answers) -> list[int]:
    return [code_of(one) for one in answers]


def test_records_of_one_iteration_are_one_batch(bench: Bench) -> None:
    first, second = bench.commit(5), bench.commit(6, partition=1)
    assert bench.core.offsets == {0: 5, 1: 6}
    assert bench.log.epochs == first.all == second.all == []
    bench.clock.advance(0)
    assert answered(first, second) == [0, 0]
    assert [row.value.offset for row in bench.log.rows if row.value] == [5, 6]  # type: ignore[attr-defined]
    assert bench.log.epochs == [3]
    third = bench.commit(7)
    bench.clock.advance(0)
    assert answered(third) == [0]
    assert bench.log.epochs == [3, 3]


def test_a_full_batch_is_followed_by_another(bench: Bench) -> None:
    answers = [bench.commit(number) for number in range(2 * PER_BATCH + 1)]
    bench.clock.advance(0)
    assert answered(*answers) == [0] * len(answers)
    assert len(bench.log.epochs) == 3
    assert [row.value.offset for row in bench.log.rows if row.value] == list(range(len(answers)))  # type: ignore[attr-defined]


def test_an_answer_that_shows_the_state_waits_for_its_records(bench: Bench) -> None:
    committed, alive, listed = bench.commit(5), bench.submit(HeartbeatRequest("g")), bench.submit(ListGroupsRequest())
    assert alive.all == listed.all == []
    bench.log.sync = True
    bench.clock.advance(0)
    assert committed.all == alive.all == listed.all == []
    bench.log.synced()
    assert code_of(committed) == 0
    assert alive.one() == HeartbeatResponse()
    assert listed.one().error_code == 0


def test_events_are_reported_when_the_records_are_appended(bench: Bench) -> None:
    bench.commit(5)
    assert bench.events == []
    bench.clock.advance(0)
    assert [event.kind for event in bench.events] == ["commit"]


def test_a_linger_time_gathers_records() -> None:
    bench = Bench(linger_ms=5).load()
    first = bench.commit(5)
    bench.clock.advance(4)
    second = bench.commit(6)
    assert first.all == []
    bench.clock.advance(1)
    assert answered(first, second) == [0, 0]
    assert len(bench.log.epochs) == 1


def test_records_of_a_deadline_join_the_batch(bench: Bench) -> None:
    joining = bench.submit(JoinGroupRequest("g", session_timeout_ms=0))
    committed = bench.commit(5)
    bench.clock.advance(0)
    assert joining.one().generation_id == 1
    assert code_of(committed) == 0


def test_a_failed_append_refuses_all_that_were_decided_since(bench: Bench) -> None:
    bench.log.fail = StorageFailed("no space")
    answers, alive = [bench.commit(number) for number in range(PER_BATCH + 1)], bench.submit(HeartbeatRequest("g"))
    bench.clock.advance(0)
    assert answered(*answers) == [ErrorCode.NOT_COORDINATOR] * len(answers)
    assert alive.one().error_code == ErrorCode.NOT_COORDINATOR
    assert bench.events == []
    bench.log.fail = None
    bench.clock.advance(0)
    assert bench.core.offsets == {}
    again = bench.commit(7)
    bench.clock.advance(0)
    assert code_of(again) == 0


def test_a_too_large_command_fails_alone(bench: Bench) -> None:
    before = bench.commit(1)
    rows = [OffsetCommitRequestPartition(0, 2)]
    large = bench.submit(OffsetCommitRequest("g" * PER_BATCH, topics=[OffsetCommitRequestTopic("t", partitions=rows)]))
    after = bench.commit(3)
    taken = bench.log.append

    def append(leader_epoch: int, batch: list[object], *, wall_ms: int) -> None:
        if any("gg" in row.key.group for row in batch):  # type: ignore[attr-defined]
            raise TooLarge("too large")
        taken(leader_epoch, batch, wall_ms=wall_ms)

    bench.log.append = append  # type: ignore[method-assign]
    bench.clock.advance(0)
    assert answered(before, large) == [0, ErrorCode.UNKNOWN_SERVER_ERROR]
    # it was decided upon a state that never came to be: to be asked again
    assert code_of(after) == ErrorCode.NOT_COORDINATOR
    assert bench.core.offsets == {0: 1}


def test_a_resigning_shard_appends_its_gathered_records(bench: Bench) -> None:
    committed = bench.commit(5)
    bench.shard.runtime.resign()
    assert code_of(committed) == 0
    assert len(bench.log.rows) == 1
    bench.clock.advance(0)
    assert len(bench.log.rows) == 1


def test_a_failed_sync_also_refuses_records_gathered_meanwhile(bench: Bench) -> None:
    bench.log.sync = True
    first = bench.commit(5)
    bench.clock.advance(0)
    second = bench.commit(6)
    bench.log.synced(error=StorageFailed("broken"))
    assert answered(first, second) == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert [row.value.offset for row in bench.log.rows if row.value] == [5]  # type: ignore[attr-defined]


def test_a_request_sent_during_an_answer_finds_the_batch_consistent(bench: Bench) -> None:
    then: list[Answers] = []
    events: list[Event] = []
    bench.events = events
    committed = bench.commit(1)
    bench.shard.runtime.queue.batches[-1].replies.append((lambda _: then.append(bench.commit(2)), HeartbeatResponse()))
    bench.clock.advance(0)
    assert code_of(committed) == 0
    assert bench.core.offsets == {0: 2}
    bench.clock.advance(0)
    assert answered(*then) == [0]
