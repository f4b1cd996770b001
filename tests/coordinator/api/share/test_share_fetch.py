from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.log import SegmentAbsent
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.share_partitions import share_partitions
from muster.coordinator.runtime.share_partitions.led_partition import REST_MS
from muster.coordinator.share_state.persister import StateKey, StateResponse
from muster.coordinator.topics.cluster_image import Broker, Endpoint, Leader
from muster.protocol.errors import ErrorCode
from tests.coordinator.api.share.serving import FEATURES, GROUP, Serving, acquired, errors
from tests.coordinator.topics.support import add_topic, batch

T = ("t", 0)


@pytest.fixture
def serving() -> Serving:
    """Topic t with ten records in two batches."""
    found = Serving()
    add_topic(found.node.topics, "t", 2)
    found.append("t", 5)
    found.append("t", 5)
    return found


def test_records_are_acquired_and_acknowledged(serving: Serving) -> None:
    response = serving.fetch("m1", 0, T)
    assert acquired(response) == [(0, 9, 1)]
    assert response.acquisition_lock_timeout_ms == 30_000
    assert acquired(serving.fetch("m2", 0, T)) == []
    answer = serving.acknowledge("m1", 1, {T: [(0, 9, [1])]})
    assert (answer.error_code, errors(answer)) == (0, [(0, 0)])
    state = serving.persister.states[StateKey(GROUP, serving.id_of("t"), 0)]
    assert state.rows[9].state == 2
    assert serving.share().core.start_offset == 10


def test_the_bytes_are_those_of_the_batches_with_acquired_records(serving: Serving) -> None:
    whole = serving.fetch("m1", 0, T).responses[0].partitions[0].records
    assert len(whole) == serving.share().partition.log.size_bytes
    other = Serving()
    add_topic(other.node.topics, "t")
    for _ in range(3):
        other.append("t", 2)
    response = other.fetch("m1", 0, T, max_records=3, share_acquire_mode=1)
    assert acquired(response) == [(0, 2, 1)]
    assert len(response.responses[0].partitions[0].records) * 3 == other.share().partition.log.size_bytes * 2
    assert acquired(other.fetch("m1", 1)) == [(3, 3, 1), (4, 5, 1)]


def test_a_fetch_waits_for_records_and_for_released_records(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    waiting = serving.send_fetch("m2", 0, T, max_wait_ms=500)
    assert not waiting.all
    serving.append("t", 3)
    assert acquired(waiting.one()) == [(10, 12, 1)]
    waiting = serving.send_fetch("m2", 1, max_wait_ms=500)
    assert not waiting.all
    serving.acknowledge("m1", 1, {T: [(0, 9, [2])]})
    serving.clock.advance(0)
    assert acquired(waiting.one()) == [(0, 9, 2)]


def test_a_wait_ends_without_records(serving: Serving) -> None:
    waiting = serving.send_fetch("m1", 0, ("t", 1), max_wait_ms=500)
    serving.clock.advance(499)
    assert not waiting.all
    serving.clock.advance(1)
    assert errors(waiting.one()) == [(1, 0)]
    assert errors(serving.fetch("m1", 1)) == []


def test_locks_end_and_records_are_delivered_again(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    waiting = serving.send_fetch("m2", 0, T, max_wait_ms=60_000)
    serving.clock.advance(29_999)
    assert not waiting.all
    serving.clock.advance(1)
    assert acquired(waiting.one()) == [(0, 9, 2)]
    late = serving.acknowledge("m1", 1, {T: [(0, 9, [1])]})
    row = late.responses[0].partitions[0]
    assert (row.error_code, row.error_message) == (121, "Member is not the owner of batch record")


def test_acknowledgements_in_a_fetch_are_answered_when_durable(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    serving.persister.holds = True
    answers = serving.send_fetch("m1", 1, acks={T: [(0, 9, [1])]})
    assert not answers.all
    serving.persister.release()
    response = answers.one()
    assert errors(response) == [(0, 0)]
    assert response.responses[0].partitions[0].acknowledge_error_code == 0


def test_a_failed_write_refuses_the_acknowledgement(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    serving.persister.error.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    serving.persister.error.error_message = "loading"
    answer = serving.acknowledge("m1", 1, {T: [(0, 9, [1])]})
    row = answer.responses[0].partitions[0]
    assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert row.error_message == "Error in write state RPC. loading"
    serving.persister.error.error_code = 0
    assert errors(serving.acknowledge("m1", 2, {T: [(0, 9, [1])]})) == [(0, 0)]


def test_a_fenced_partition_is_closed_and_loaded_again(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    fenced = serving.share()
    serving.persister.error.error_code = ErrorCode.FENCED_LEADER_EPOCH
    answer = serving.acknowledge("m1", 1, {T: [(0, 9, [1])]})
    assert errors(answer) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert answer.responses[0].partitions[0].current_leader.leader_id == 1
    assert [one.node_id for one in answer.node_endpoints] == [1]
    assert fenced.is_closed
    serving.persister.error.error_code = 0
    assert errors(serving.acknowledge("m1", 2, {T: [(0, 9, [1])]})) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert acquired(serving.fetch("m1", 3)) == [(0, 9, 1)]


def test_a_state_that_cannot_be_read_is_an_error_after_the_wait(serving: Serving) -> None:
    serving.persister.error.error_code = ErrorCode.GROUP_ID_NOT_FOUND
    waiting = serving.send_fetch("m1", 0, T, max_wait_ms=100)
    assert not waiting.all
    serving.clock.advance(100)
    assert errors(waiting.one()) == [(0, ErrorCode.GROUP_ID_NOT_FOUND)]


def test_the_end_of_a_session_releases_its_records(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    serving.fetch("m2", 0, T)
    response = serving.fetch("m1", -1, acks={T: [(0, 4, [1])]})
    assert response.responses[0].partitions[0].acknowledge_error_code == 0
    assert acquired(serving.fetch("m2", 1)) == [(5, 9, 2)]
    assert serving.fetch("m1", 1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_end_of_a_connection_releases_its_records(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    serving.fetch("m2", 0, T)
    serving.disconnect("m1")
    assert acquired(serving.fetch("m2", 1)) == [(0, 9, 2)]
    share = serving.share()
    serving.persister.holds = True
    serving.disconnect("m2")
    assert not share.is_closed  # a change is not durable yet
    serving.persister.release()
    assert share.is_closed
    assert not len(serving.shares.sessions)


def test_a_session_that_began_again_does_not_end_with_the_old_connection(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    old = serving.channels.pop("m1")
    serving.fetch("m1", 0, T)
    old.channel.close()
    assert errors(serving.acknowledge("m1", 1, {T: [(0, 9, [1])]})) == [(0, 0)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"member": "x" * 37}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"acks": {T: [(0, 1, [1])]}}, ErrorCode.INVALID_REQUEST),
        ({"is_renew_ack": True}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_whole_requests_are_refused(serving: Serving, fields: dict[str, object], code: int) -> None:
    more = {"member": "m1", "epoch": 0, **fields}
    response = serving.fetch(more.pop("member"), more.pop("epoch"), T, **more)
    assert (response.error_code, response.acquisition_lock_timeout_ms) == (code, 0)


def test_too_many_sessions_are_refused_after_the_wait() -> None:
    serving = Serving(group_share_max_share_sessions="1")
    add_topic(serving.node.topics, "t")
    serving.fetch("m1", 0, T)
    waiting = serving.send_fetch("m2", 0, T, max_wait_ms=300)
    assert not waiting.all
    serving.clock.advance(300)
    assert waiting.one().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_rows_of_unknown_topics_and_partitions(serving: Serving) -> None:
    response = serving.fetch("m1", 0, ("no", 0), ("t", 9), T)
    assert errors(response) == [(0, 0), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_a_fetch_of_no_records_is_answered_at_once(serving: Serving) -> None:
    assert errors(serving.fetch("m1", 0, T, max_records=0, max_wait_ms=500)) == []


def test_invalid_acknowledgements(serving: Serving) -> None:
    serving.fetch("m1", 0, T, ("t", 1))
    epoch = 1
    for some in (
        [(5, 4, [1])],
        [(0, 1, [])],
        [(0, 1, [1, 1, 1])],
        [(0, 1, [5])],
        [(0, 1, [4])],
        [(4, 5, [1]), (0, 1, [1])],
    ):
        answer = serving.acknowledge("m1", epoch, {T: some})
        assert errors(answer) == [(0, ErrorCode.INVALID_REQUEST)]
        epoch += 1
    assert errors(serving.acknowledge("m1", epoch, {T: [(0, 1, [1])], ("t", 1): []})) == [(0, 0), (1, 0)]
    assert errors(serving.acknowledge("m1", epoch + 1, {("t", 1): []})) == []
    assert serving.acknowledge("m1", 0, {}).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_lock_is_renewed(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    serving.clock.advance(20_000)
    renewal = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    response = serving.fetch("m1", 1, acks={T: [(0, 9, [4])]}, **renewal)
    assert response.responses[0].partitions[0].acknowledge_error_code == 0
    serving.clock.advance(20_000)
    assert serving.share().core.in_flight == 10
    assert errors(serving.acknowledge("m1", 2, {T: [(0, 9, [1])]})) == [(0, 0)]
    assert errors(serving.acknowledge("m1", 3, {T: [(0, 9, [4])]}, version=1)) == [(0, ErrorCode.INVALID_REQUEST)]


def test_records_go_to_the_dead_letter_queue_before_they_are_archived() -> None:
    serving = Serving({"errors.deadletterqueue.topic.name": "dlq.t"})
    add_topic(serving.node.topics, "t")
    serving.append("t", 2)
    serving.fetch("m1", 0, T)
    serving.acknowledge("m1", 1, {T: [(0, 1, [3])]})
    assert [(one.row.first, one.row.last, one.is_rejected) for one in serving.letters.queued] == [(0, 1, True)]
    assert serving.share().core.start_offset == 0
    serving.letters.take()
    assert serving.share().core.start_offset == 2


def test_the_log_that_lost_its_first_records(serving: Serving) -> None:
    serving.fetch("m1", 0, T, max_records=1)
    serving.acknowledge("m1", 1, {T: [(0, 4, [2])]})
    serving.share().partition.delete_records(7)
    assert errors(serving.fetch("m1", 2)) == []
    assert serving.share().core.start_offset == 7
    assert acquired(serving.fetch("m1", 3)) == [(5, 9, 1)]  # the batch with offset 7 begins at 5


def test_a_moved_leader_is_named(serving: Serving) -> None:
    serving.fetch("m1", 0, T)
    share = serving.share()
    share.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert share.is_closed
    assert errors(serving.acknowledge("m1", 1, {T: [(0, 9, [1])]})) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_another_leader_is_named_with_its_address(serving: Serving) -> None:
    node = serving.node
    brokers = {**node.cluster.brokers, 9: Broker(9, "r", {"PLAINTEXT": Endpoint("other", 9_999)}, 0)}
    leaders = {**node.cluster.leaders, "t": [Leader(9, 3), Leader(1, 0)]}
    node.cluster = node.cluster._replace(brokers=brokers, leaders=leaders)
    response = serving.fetch("m1", 0, T, ("t", 1), max_wait_ms=0)
    (moved,) = [row for row in response.responses[0].partitions if row.error_code]
    assert (moved.partition_index, moved.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (9, 3)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (9, "other", 9_999, "r")


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_records_of_aborted_transactions(level: str) -> None:
    serving = Serving({"share.isolation.level": level})
    partition = add_topic(serving.node.topics, "t")
    in_transaction: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    serving.append("t", 2)
    values = (b"1", b"2", b"3")
    partition.log.append(partition.leader_epoch, batch(*values, **in_transaction), wall_ms=serving.clock.now().wall_ms)
    first = acquired(serving.fetch("m1", 0, T))
    partition.append_marker(
        EndMarker(5, 0, is_committed=False, coordinator_epoch=0, transaction_version=0), serving.clock.now()
    )
    serving.append("t", 1)
    later = acquired(serving.fetch("m1", 1))
    if level == "read_committed":
        assert (first, later) == ([(0, 1, 1)], [(5, 6, 1)])
        serving.acknowledge("m1", 2, {T: [(0, 1, [1]), (5, 6, [0, 1])]})
        assert serving.share().core.start_offset == 7
    else:
        assert (first, later) == ([(0, 4, 1)], [(5, 6, 1)])


def test_a_fetch_of_a_closed_connection_acquires_nothing(serving: Serving) -> None:
    serving.fetch("m2", 0, ("t", 1))
    waiting = serving.send_fetch("m1", 0, ("t", 1), max_wait_ms=500)
    serving.disconnect("m1")
    serving.append("t", 1, index=1)
    assert not waiting.all
    assert acquired(serving.fetch("m2", 1)) == [(0, 0, 1)]


def test_the_age_of_the_first_record_may_be_limited() -> None:
    serving = Serving({"share.auto.offset.reset": "by_duration:PT1H"})
    add_topic(serving.node.topics, "t")
    now_ms = serving.clock.now().wall_ms
    serving.append("t", 2, at_ms=now_ms - 7_200_000)
    waiting = serving.send_fetch("m1", 0, T, max_wait_ms=100)
    serving.clock.advance(100)
    assert errors(waiting.one()) == [(0, ErrorCode.OFFSET_NOT_AVAILABLE)]
    serving.append("t", 2, at_ms=now_ms - 60_000)
    waiting = serving.send_fetch("m1", 1, max_wait_ms=100)
    serving.clock.advance(1)
    assert acquired(waiting.one()) == [(2, 3, 1)]


def test_a_new_group_begins_at_the_end_by_default(serving: Serving) -> None:
    serving.shares.configured(GROUP, {})
    assert acquired(serving.fetch("m1", 0, T)) == []
    serving.append("t", 1)
    assert acquired(serving.fetch("m1", 1)) == [(10, 10, 1)]


def test_many_partitions_are_loaded_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_partitions, "LOADS_AT_ONCE", 2)
    serving = Serving()
    add_topic(serving.node.topics, "t", 9)
    for index in range(9):
        serving.append("t", 1, index=index)
    serving.persister.holds = True
    waiting = serving.send_fetch("m1", 0, *[("t", index) for index in range(9)], max_wait_ms=500)
    assert len(serving.persister.held) == 2
    serving.persister.release()
    serving.clock.advance(1)
    serving.fetch("m1", 1, max_wait_ms=0)
    assert len(serving.persister.states) == 9
    assert waiting.all


@pytest.mark.parametrize(("fields", "code"), [({"max_bytes": -1}, -1), ({"share_acquire_mode": 7}, None)])
def test_limits_that_make_no_sense(serving: Serving, fields: dict[str, int], code: int | None) -> None:
    response = serving.fetch("m1", 0, T, **fields)
    if code is None:
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert errors(response) == [(0, code)]


def test_a_full_partition_gives_no_new_records() -> None:
    serving = Serving({"share.partition.max.record.locks": "100"})
    add_topic(serving.node.topics, "t")
    serving.append("t", 100)
    serving.append("t", 100)
    assert acquired(serving.fetch("m1", 0, T)) == [(0, 99, 1)]
    assert acquired(serving.fetch("m1", 1)) == []
    serving.acknowledge("m1", 2, {T: [(0, 49, [1])]})
    assert acquired(serving.fetch("m1", 3)) == [(100, 199, 1)]


def test_a_segment_that_is_not_here_is_fetched(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    serving.fetch("m2", 0, ("t", 1))
    serving.fetch("m1", 0, T)
    serving.acknowledge("m1", 1, {T: [(0, 9, [2])]})
    partition = serving.share().partition
    absent = [True]
    real = partition.read

    def read(*args: Any) -> bytes:
        if absent:
            raise SegmentAbsent("t-0", 0)
        return real(*args)

    monkeypatch.setattr(type(partition), "read", lambda _, *args: read(*args))
    asked: list[Any] = []
    monkeypatch.setattr(
        type(partition.log), "fetch_segment", lambda _, base, then: asked.append((base, then)) or (lambda: None)
    )
    waiting = serving.send_fetch("m1", 2, max_wait_ms=500)
    assert not waiting.all
    absent.clear()
    asked[0][1](None)
    serving.clock.advance(0)
    assert acquired(waiting.one()) == [(0, 9, 2)]


def test_a_fetch_that_was_overtaken_acquires_nothing(serving: Serving) -> None:
    serving.fetch("m1", 0, ("t", 1))
    waiting = serving.send_fetch("m1", 1, max_wait_ms=500)
    later = serving.send_fetch("m1", 2, max_wait_ms=500)
    serving.clock.advance(0)
    assert waiting.one().error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    serving.append("t", 1, index=1)
    serving.clock.advance(0)
    assert acquired(later.one()) == [(0, 0, 1)]


def test_without_share_groups_nothing_is_served(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    serving.fetch("m1", 0, T)
    share = serving.share()
    monkeypatch.setitem(FEATURES, "share.version", 0)
    serving.shares.features_changed()
    assert share.is_closed
    assert serving.fetch("m1", 0, T).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert serving.acknowledge("m1", 1, {}).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_fetch_whose_session_has_ended_acquires_nothing(serving: Serving) -> None:
    serving.fetch("m2", 0, ("t", 1))
    waiting = serving.send_fetch("m1", 0, ("t", 1), max_wait_ms=500)
    serving.acknowledge("m1", -1, {})
    serving.clock.advance(0)
    assert errors(waiting.one()) == []
    serving.append("t", 1, index=1)
    assert acquired(serving.fetch("m2", 1)) == [(0, 0, 1)]


def test_a_lock_ends_also_after_an_acknowledgement_that_failed(serving: Serving) -> None:
    serving.fetch("m1", 0, T, max_records=1)
    serving.clock.advance(10_000)
    assert acquired(serving.fetch("m1", 1)) == [(5, 9, 1)]
    serving.persister.holds = True
    serving.persister.error.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answers = serving.send_acks("m1", 2, {T: [(5, 9, [1])]})
    serving.clock.advance(20_000)  # the lock of the first records ends
    serving.persister.error = StateResponse()
    serving.persister.release()
    assert errors(answers.one()) == [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    serving.clock.advance(10_000)
    assert acquired(serving.fetch("m2", 0, T)) == [(0, 4, 2), (5, 9, 2)]


def test_records_in_flight_that_nobody_uses_are_packed(serving: Serving) -> None:
    for _ in range(20):
        serving.append("t", 1)
    assert acquired(serving.fetch("m1", 0, T, batch_size=1))[-1] == (29, 29, 1)
    core = serving.share().core
    for is_packed in (False, True, True):
        serving.clock.advance(REST_MS)
        assert core.is_packed == is_packed
    waiting = serving.send_fetch("m2", 0, T, max_wait_ms=60_000)
    serving.clock.advance(30_000)
    assert acquired(waiting.one())[-1] == (29, 29, 2), "the locks of packed records end too"
    serving.clock.advance(2 * REST_MS)
    assert core.is_packed
    assert not serving.acknowledge("m2", 1, {T: [(0, 29, [1])]}).error_code
    assert core.start_offset == 30
    serving.clock.advance(2 * REST_MS)
    assert not core.is_packed
