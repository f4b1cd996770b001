from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.api.records.fetch import OneFetch
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.log import DamagedLog
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.creation import NewTopic
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.coordinator.api.data_plane import ask_one, data_node, fetch_request, send
from tests.coordinator.api.harness import make_channel, make_context, make_node
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce


@pytest.fixture
def node() -> Node:
    """Topics a (one batch in partition 0) and b (empty), two partitions each."""
    node = data_node()
    produce(add_topic(node.topics, "a", 2), batch(b"x"), node.clock.now())
    add_topic(node.topics, "b", 2)
    return node


def clock_of(node: Node) -> ManualClock:
    assert isinstance(node.clock, ManualClock)
    return node.clock


def append(node: Node, name: str, index: int = 0, *values: bytes) -> None:
    partition = node.topics.open.partition(name, index)
    assert partition is not None
    produce(partition, batch(*values), node.clock.now())


def rows(response: FetchResponse, node: Node) -> list[tuple[str | None, int, int, int]]:
    """(topic, partition, error, bytes of records) of each row."""
    return [
        (
            getattr(node.topics.by_id.get(topic.topic_id), "name", None),
            row.partition_index,
            row.error_code,
            len(row.records or b""),
        )
        for topic in response.responses
        for row in topic.partitions
    ]


SIZE = len(batch(b"x"))


def test_a_fetch_with_records_is_answered_at_once(node: Node) -> None:
    response = ask_one(node, fetch_request(node, ("a", 0, 0), ("b", 1, 0), max_wait_ms=500))
    assert rows(response, node) == [("a", 0, 0, SIZE), ("b", 1, 0, 0)]
    row = response.responses[0].partitions[0]
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (1, 1, 0)
    assert row.aborted_transactions is None


def test_a_fetch_before_version_13_names_topics(node: Node) -> None:
    wanted = [FetchPartition(0, partition_max_bytes=1000)]
    request = FetchRequest(topics=[FetchTopic(topic="a", partitions=wanted), FetchTopic(topic="no", partitions=wanted)])
    response = ask_one(node, request, version=12)
    assert [(t.topic, t.partitions[0].error_code) for t in response.responses] == [
        ("a", 0),
        ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_fetch_refuses_unknown_topics_and_partitions_by_row(node: Node) -> None:
    unknown = FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition(0)])
    request = fetch_request(node, ("a", 9, 0), ("a", 0, 7), ("a", 1, -1))
    request.topics = [*request.topics, unknown]
    # as on Kafka, missing rows come last: unknown topic ids before unknown partitions
    assert [(index, error) for _, index, error, _ in rows(ask_one(node, request), node)] == [
        (0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, ErrorCode.UNKNOWN_TOPIC_ID),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_the_last_row_of_a_partition_named_twice_counts(node: Node) -> None:
    request = fetch_request(node, ("a", 0, 7), ("b", 0, 0), ("a", 0, 0))
    assert rows(ask_one(node, request), node) == [("a", 0, 0, SIZE), ("b", 0, 0, 0)]


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (-2, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_negative_leader_epoch_is_not_checked(node: Node, epoch: int, error: int) -> None:
    request = fetch_request(node, ("a", 0, 0))
    request.topics[0].partitions[0].current_leader_epoch = epoch
    assert rows(ask_one(node, request), node) == [("a", 0, error, 0 if error else SIZE)]


@pytest.mark.parametrize("version", [14, 15, 16])
def test_a_fetch_of_a_follower_is_refused(node: Node, version: int) -> None:
    follower: dict[str, Any] = {"replica_state": ReplicaState(7)} if version >= 15 else {"replica_id": 7}
    for epoch, error in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        request = fetch_request(node, ("a", 0, 0), max_wait_ms=500, **follower)
        request.topics[0].partitions[0].current_leader_epoch = epoch
        response = ask_one(node, request, version=version)
        assert rows(response, node) == [("a", 0, error, 0)]
        has_leader = error == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= 16
        leader = response.responses[0].partitions[0].current_leader
        assert (leader and (leader.leader_id, leader.leader_epoch)) == ((1, 0) if has_leader else None)


@pytest.mark.parametrize(
    ("version", "error"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_a_fetch_of_an_offline_log_is_refused_at_once(node: Node, version: int, error: int) -> None:
    node.topics.by_name["a"].partitions[0] = None
    wanted = [FetchPartition(0, partition_max_bytes=1000)]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="a", partitions=wanted)])
    assert ask_one(node, request, version=version).responses[0].partitions[0].error_code == error


def test_a_leader_epoch_of_the_future_is_refused(node: Node) -> None:
    request = fetch_request(node, ("a", 0, 0))
    request.topics[0].partitions[0].current_leader_epoch = 3
    assert rows(ask_one(node, request), node) == [("a", 0, ErrorCode.UNKNOWN_LEADER_EPOCH, 0)]


def test_a_fetch_of_a_diverged_reader_gets_the_diverging_offset(node: Node) -> None:
    request = fetch_request(node, ("a", 0, 5))
    request.topics[0].partitions[0].last_fetched_epoch = 0
    row = ask_one(node, request).responses[0].partitions[0]
    assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset, row.records) == (0, 1, b"")
    assert row.aborted_transactions is None


def test_a_fetch_of_zero_bytes_is_answered_at_once(node: Node) -> None:
    assert rows(ask_one(node, fetch_request(node, ("b", 0, 0), max_bytes=0, max_wait_ms=500)), node) == [("b", 0, 0, 0)]


def test_the_first_batch_is_sent_whatever_its_size_and_the_rest_within_the_limit(node: Node) -> None:
    append(node, "a", 1, b"y")
    request = fetch_request(node, ("a", 0, 0), ("a", 1, 0), max_bytes=5)
    assert rows(ask_one(node, request), node) == [("a", 0, 0, SIZE), ("a", 1, 0, 0)]


@pytest.mark.parametrize(
    ("offset", "limit", "aborted"),
    [(0, SIZE, []), (0, SIZE - 1, None), (0, 1, None), (0, 0, []), (1, SIZE, []), (1, 0, [])],
)
def test_aborted_transactions_are_not_listed_without_their_records(
    node: Node, offset: int, limit: int, aborted: list[Any] | None
) -> None:
    # as Kafka 4.3 answers
    append(node, "a", 1, b"y")
    request = fetch_request(node, ("a", 0, 0), ("a", 1, offset), isolation_level=1)
    request.topics[1].partitions[0].partition_max_bytes = limit
    row = ask_one(node, request).responses[0].partitions[1]
    assert (row.partition_index, row.aborted_transactions) == (1, aborted)


def test_the_brokers_fetch_limit_applies(node: Node) -> None:
    limited = data_node(fetch_max_bytes=10)
    for name in ("a", "b"):
        add_topic(limited.topics, name)
        append(limited, name)
    response = ask_one(limited, fetch_request(limited, ("a", 0, 0), ("b", 0, 0)))
    assert [size for *_, size in rows(response, limited)] == [len(batch()), 0]


def test_a_long_poll_is_woken_by_an_append(node: Node) -> None:
    answers = send(node, fetch_request(node, ("a", 0, 1), ("b", 0, 0), max_wait_ms=500))
    assert answers.all == []
    append(node, "b", 0, b"z")
    assert rows(answers.one(), node) == [("a", 0, 0, 0), ("b", 0, 0, SIZE)]
    clock_of(node).advance(1000)
    assert len(answers.all) == 1


def test_a_long_poll_ends_after_its_wait_time(node: Node) -> None:
    answers = send(node, fetch_request(node, ("a", 0, 1), max_wait_ms=500))
    clock_of(node).advance(499)
    assert answers.all == []
    clock_of(node).advance(1)
    assert rows(answers.one(), node) == [("a", 0, 0, 0)]


def test_a_fetch_waits_while_there_are_fewer_bytes_than_its_minimum(node: Node) -> None:
    answers = send(node, fetch_request(node, ("a", 0, 0), min_bytes=SIZE + 1, max_wait_ms=500))
    assert answers.all == []
    append(node, "a", 0, b"more")
    assert rows(answers.one(), node)[0][3] > SIZE


def test_deleting_a_topic_answers_its_parked_fetches(node: Node) -> None:
    answers = send(node, fetch_request(node, ("b", 0, 0), max_wait_ms=500))
    at_once(node.topics.deleting(node.topics.by_name["b"]))
    assert rows(answers.one(), node) == [(None, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    assert rows(
        ask_one(node, FetchRequest(topics=[FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition(0)])])), node
    ) == [(None, 0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]


def test_a_parked_fetch_of_a_closed_connection_is_not_answered(node: Node) -> None:
    channel = make_channel()
    context: RequestContext = make_context(1, 18, channel=channel)
    answers = send(node, fetch_request(node, ("a", 0, 1), max_wait_ms=500), context=context)
    channel.close()
    append(node, "a", 0, b"z")
    clock_of(node).advance(1000)
    assert answers.all == []


def test_unknown_partitions_do_not_end_the_wait_of_the_others(node: Node) -> None:
    answers = send(node, fetch_request(node, ("a", 0, 1), ("a", 9, 0), max_wait_ms=500))
    assert answers.all == []
    clock_of(node).advance(500)
    assert [error for _, _, error, _ in rows(answers.one(), node)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_request_for_nothing_is_answered_at_once(node: Node) -> None:
    assert ask_one(node, fetch_request(node, max_wait_ms=500)).responses == []


def session(node: Node, *wanted: tuple[str, int, int]) -> int:
    response = ask_one(node, fetch_request(node, *wanted, session_epoch=0))
    assert len(rows(response, node)) == len(wanted)
    found: int = response.session_id
    assert found > 0
    return found


def test_a_fetch_session_sends_only_what_is_new(node: Node) -> None:
    session_id = session(node, ("a", 0, 0), ("b", 0, 0))

    def follow(epoch: int, *wanted: tuple[str, int, int], **more: Any) -> list[tuple[str | None, int, int, int]]:
        response = ask_one(node, fetch_request(node, *wanted, session_id=session_id, session_epoch=epoch, **more))
        assert (response.error_code, response.session_id) == (0, session_id)
        return rows(response, node)

    assert follow(1, ("a", 0, 1)) == []
    append(node, "b", 0, b"z")
    assert follow(2) == [("b", 0, 0, SIZE)]
    assert follow(3, ("b", 0, 1)) == []
    assert follow(4, ("b", 1, 0), forget=(("a", 0),)) == [("b", 1, 0, 0)]
    assert follow(5, ("a", 1, 99)) == [("a", 1, ErrorCode.OFFSET_OUT_OF_RANGE, 0)]
    assert follow(6) == [("a", 1, ErrorCode.OFFSET_OUT_OF_RANGE, 0)]
    assert follow(7, ("a", 1, 0)) == [("a", 1, 0, 0)]


def test_a_fetch_session_keeps_the_name_of_a_deleted_topic(node: Node) -> None:
    session_id = session(node, ("a", 0, 1), ("b", 0, 0))
    deleted = node.topics.by_name["b"].topic_id

    def follow(epoch: int) -> list[tuple[bytes, int, bool]]:
        response = ask_one(node, fetch_request(node, session_id=session_id, session_epoch=epoch))
        return [
            (t.topic_id, t.partitions[0].error_code, t.partitions[0].aborted_transactions is None)
            for t in response.responses
        ]

    at_once(node.topics.deleting(node.topics.by_name["b"]))
    assert follow(1) == [(deleted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)]
    add_topic(node.topics, "b")
    assert follow(2) == [(deleted, ErrorCode.INCONSISTENT_TOPIC_ID, True)]


def test_a_fetch_session_reads_a_topic_created_after_the_session(node: Node) -> None:
    later = FetchTopic(topic_id=b"later" + bytes(11), partitions=[FetchPartition(0, partition_max_bytes=1000)])
    began = ask_one(node, FetchRequest(session_epoch=0, topics=[later]))
    assert rows(began, node) == [(None, 0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    at_once(node.topics.creating(NewTopic("c", later.topic_id, 1, 1)))
    followed = ask_one(node, fetch_request(node, session_id=began.session_id, session_epoch=1))
    assert rows(followed, node) == [("c", 0, 0, 0)]


@pytest.mark.parametrize(
    ("difference", "epoch", "error_code"),
    [(0, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH), (1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)],
)
def test_a_fetch_with_a_wrong_session_id_or_epoch_is_refused(
    node: Node, difference: int, epoch: int, error_code: int
) -> None:
    session_id = session(node, ("a", 0, 0)) + difference
    response = ask_one(node, fetch_request(node, session_id=session_id, session_epoch=epoch))
    assert (response.error_code, response.session_id, response.responses) == (error_code, 0, ())


def test_a_parked_fetch_is_refused_if_its_session_has_a_newer_request(node: Node) -> None:
    session_id = session(node, ("b", 0, 0))
    parked = send(node, fetch_request(node, session_id=session_id, session_epoch=1, max_wait_ms=500))
    ask_one(node, fetch_request(node, session_id=session_id, session_epoch=2))
    append(node, "b", 0, b"z")
    assert parked.one().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


class NoReader:
    """A client that reads no answer."""

    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = self.unread_bytes = unsent_bytes

    def close_stalled(self) -> None:
        raise AssertionError("it is not so long yet")


def test_unread_answers_reduce_the_records_of_further_fetches(node: Node) -> None:
    append(node, "a", 0, b"y")
    append(node, "b", 0, b"z")
    node.unsent = Unsent(node.clock, 1_000)
    request = fetch_request(node, ("a", 0, 0), ("b", 0, 0), min_bytes=100, max_wait_ms=500)
    reader = NoReader(998)
    node.unsent.hold(reader)
    assert rows(ask_one(node, request), node) == [("a", 0, 0, SIZE), ("b", 0, 0, 0)], "a batch, so that it goes on"
    reader.unsent_bytes = 1_000
    node.unsent.hold(reader)
    answers = send(node, request)
    assert answers.all == []
    clock_of(node).advance(500)
    assert rows(answers.one(), node) == [("a", 0, 0, 0), ("b", 0, 0, 0)]
    node.unsent.release(reader)
    assert [size > 0 for _, _, _, size in rows(ask_one(node, request), node)] == [True, True]


def test_a_fetch_of_many_rows_is_read_in_many_steps() -> None:
    """Each step takes a millisecond here, so the answer cannot come earlier."""

    class TickingClock(ManualClock):
        def mono_ms(self) -> int:
            self._move_to(self._now.mono_ms + 1)
            return super().mono_ms()

    clock = TickingClock()
    node = make_node(clock=clock, topics=make_topics(clock=clock))
    add_topic(node.topics, "t", 200)
    answers = send(node, fetch_request(node, *(("t", index, 0) for index in range(200))))
    assert answers.all == []
    for _ in range(200):
        clock.advance(50)
    (topic,) = answers.one().responses
    assert [row.partition_index for row in topic.partitions] == [*range(200)]


def test_fetch_answers_made_at_the_same_time_share_the_memory(node: Node) -> None:
    for _ in range(30):
        append(node, "a", 0, b"y")
    node.unsent = Unsent(node.clock, 20 * SIZE)
    context = make_context(1, 18)
    request = fetch_request(node, ("a", 0, 0), ("a", 1, 0), ("b", 0, 0))
    fetches = [OneFetch(node, context, request) for _ in range(8)]
    under_way, sizes = [one.job(None, None) for one in fetches], []
    while under_way:
        for job in list(under_way):
            try:
                next(job)
            except StopIteration as end:
                under_way.remove(job)
                sizes.append(sum(size for _, _, _, size in rows(end.value, node)))
    assert sum(sizes) == node.unsent.bytes <= 20 * SIZE
    assert sum(size > 0 for size in sizes) > 4
    for one in fetches:
        one.taken.set(0)
    given_up = (one := OneFetch(node, context, request)).job(None, None)
    while not one.taken.bytes:
        next(given_up)
    given_up.close()
    assert node.unsent.bytes == 0


class Elsewhere:
    """The older segment of a log, which is fetched when it is needed."""

    def __init__(self, node: Node, name: str) -> None:
        partition = node.topics.open.partition(name, 0)
        assert partition is not None
        self.log: Any = partition.log
        for _ in self.log.producers.loading():
            pass
        self.log.roll(1)
        self.segment = self.log.segments[0]
        self.doomed = self.segment.evict()
        self.waiting: list[Any] = []
        self.log.durability.fetch_segment = self.bring

    def bring(self, base_offset: int, then: Any) -> Any:
        assert base_offset == 0
        self.waiting.append(then)
        return lambda: self.waiting.remove(then)

    def arrive(self) -> None:
        self.segment._storage.rename(self.doomed, self.segment.name + ".log")
        self.segment.make_present()
        for then in tuple(self.waiting):
            then(None)


def test_a_fetch_waits_its_wait_time_for_segments_that_are_not_local(node: Node) -> None:
    away = Elsewhere(node, "a")
    request = fetch_request(node, ("a", 0, 0), max_wait_ms=500)
    answers = send(node, request)
    assert answers.all == []
    clock_of(node).advance(500)
    assert rows(answers.one(), node) == [("a", 0, 0, 0)]
    assert answers.one().responses[0].partitions[0].high_watermark == 1
    assert not away.waiting  # a client that has disconnected gets no call
    answers = send(node, request)
    away.arrive()
    assert rows(answers.one(), node) == [("a", 0, 0, SIZE)]


def test_a_fetch_without_wait_time_still_loads_segments_that_are_not_local(node: Node) -> None:
    away = Elsewhere(node, "a")
    append(node, "b", 0, b"y")
    # records that exist are answered at once
    response = ask_one(node, fetch_request(node, ("a", 0, 0), ("b", 0, 0), max_wait_ms=500))
    assert rows(response, node) == [("a", 0, 0, 0), ("b", 0, 0, SIZE)]
    assert rows(ask_one(node, fetch_request(node, ("a", 0, 0))), node) == [("a", 0, 0, 0)]
    assert len(away.waiting) == 2
    away.arrive()
    assert rows(ask_one(node, fetch_request(node, ("a", 0, 0))), node) == [("a", 0, 0, SIZE)]


def test_a_fetch_of_a_segment_that_cannot_be_loaded_is_refused(node: Node) -> None:
    away = Elsewhere(node, "a")
    answers = send(node, fetch_request(node, ("a", 0, 0), max_wait_ms=500))
    failure = DamagedLog(away.segment.place(0), "it is damaged")
    away.segment.fail_fetch(failure)
    away.waiting[0](failure)
    assert rows(answers.one(), node) == [("a", 0, ErrorCode.KAFKA_STORAGE_ERROR, 0)]


def test_a_timestamp_is_looked_up_after_its_segment_is_loaded(node: Node) -> None:
    away = Elsewhere(node, "a")
    wanted = ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=0, timestamp=0)])
    answers = send(node, ListOffsetsRequest(replica_id=-1, topics=[wanted]))
    assert answers.all == []
    away.arrive()
    clock_of(node).advance(0)
    assert answers.one().topics[0].partitions[0].offset == 0


def test_a_read_committed_fetch_also_waits_for_segments_that_are_not_local(node: Node) -> None:
    away = Elsewhere(node, "a")
    answers = send(node, fetch_request(node, ("a", 0, 0), max_wait_ms=500, isolation_level=1))
    away.arrive()
    clock_of(node).advance(500)
    row = answers.one().responses[0].partitions[0]
    assert (len(row.records), list(row.aborted_transactions)) == (SIZE, [])
