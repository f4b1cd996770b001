"""Repeated requests give the same answers, records and state from the cache as when each is decoded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.coordinator.api.cached_commits import MAX_ROWS, CachedCommit
from muster.coordinator.api.cached_requests import MAX_BYTES, MAX_CACHED
from muster.coordinator.api.repeated_requests import CACHES
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.coordinator.api.cached_requests.peer import COMMIT, HEARTBEAT, Peer, commit
from tests.coordinator.api.harness import FakeTopics, before_answer, before_handler, make_channel

int64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60)
@given(st.data(), st.integers(2, 10))
def test_cached_commits_give_the_same_answers_and_records_as_decoded_ones(data: st.DataObject, version: int) -> None:
    usual, quick = Peer(), Peer()
    rows = st.tuples(st.sampled_from(["t1", "t2", "no"]), st.integers(0, 2), int64)
    content = data.draw(st.lists(rows, min_size=1, max_size=4))
    text = data.draw(st.sampled_from(["", "m", "x" * 130]))
    for number in range(5):
        content = [(*row[:2], data.draw(int64)) for row in content]
        for peer in (usual, quick):
            request = commit(*content, version=version)
            for topic in request.topics:
                topic.partitions[0].committed_metadata = text
                topic.partitions[0].committed_leader_epoch = number * 1000 if version >= 6 else -1
            peer.clock.advance(3)
            peer.ask(COMMIT, version, request, correlation_id=number)
        usual.connect()
    assert quick.answers == usual.answers
    assert quick.log.rows == usual.log.rows
    refused = any(name == "no" or (partition >= 2 and name == "t2") for name, partition, _ in content)
    assert quick.met != refused


@pytest.mark.parametrize("version", range(5))
def test_cached_heartbeats_give_the_same_answers_as_decoded_ones(version: int) -> None:
    peer = Peer()
    member = peer.member()
    beat = HeartbeatRequest("g", 1, member)
    first = peer.answers[-1] if peer.ask(HEARTBEAT, version, beat, 7).error_code == 0 else b""
    for _ in range(3):
        peer.clock.advance(9_000)
        peer.ask(HEARTBEAT, version, beat, 7)
        assert peer.answers[-1] == first
    assert peer.met
    assert peer.ask(HEARTBEAT, version, HeartbeatRequest("g", 2, member), -8).error_code == 22
    assert peer.ask(HEARTBEAT, version, beat, -9).error_code == 0
    peer.clock.advance(10_001)
    assert peer.ask(HEARTBEAT, version, beat, 3).error_code == 25, "its session has ended meanwhile"
    assert peer.requests.current is None


def test_a_cached_heartbeat_during_a_rebalance_gets_rebalance_in_progress() -> None:
    peer = Peer()
    member = peer.member()
    for _ in range(3):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member))
    assert peer.met
    other = peer.dispatcher.open(make_channel(), peer)
    join = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    data = frames.request_frame(api(ApiKey.JOIN_GROUP), 3, 1, join, "other")
    other.handle(data, 4, len(data))
    assert peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not peer.met


def test_answers_to_cached_requests_wait_for_the_disk() -> None:
    peer = Peer()
    member = peer.member()
    for _ in range(3):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member))
        peer.ask(COMMIT, 9, commit(("t1", 0, 1), member=member, generation=1))
    peer.log.sync = True
    assert peer.ask(COMMIT, 9, commit(("t1", 0, 2), member=member, generation=1)) is None
    assert peer.met
    parked = peer.requests.current
    assert parked is not None
    peer.log.synced()
    assert peer.read(COMMIT, 9).topics[0].partitions[0].error_code == 0
    assert peer.requests.current is None
    with capture_logs() as logs:
        parked(None)
    assert [line["event"] for line in logs] == ["a request was answered twice"]

    other = peer.dispatcher.open(make_channel(), peer)
    data = frames.request_frame(api(COMMIT), 9, 1, commit(("t1", 1, 5), member=member, generation=1), "me")
    other.handle(data, 4, len(data))
    assert peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member), 77) is None, "it would show what is not durable"
    assert peer.met
    peer.log.synced()
    assert peer.read(HEARTBEAT, 4, 77).error_code == 0


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_cached_commit_whose_append_fails_is_refused(linger_ms: int) -> None:
    peer = Peer(linger_ms=linger_ms)
    for number in range(3):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))
        peer.clock.advance(5)
    assert peer.met
    peer.log.fail = OSError(28, "No space left on device")
    assert not peer.failed
    peer.ask(COMMIT, 9, commit(("t1", 0, 9)))
    with capture_logs():
        peer.clock.advance(linger_ms)
    assert peer.read(COMMIT, 9).topics[0].partitions[0].error_code != 0
    peer.log.fail = None
    peer.clock.advance(1000)
    peer.ask(COMMIT, 9, commit(("t1", 0, 10)))
    peer.clock.advance(linger_ms)
    assert peer.read(COMMIT, 9).topics[0].partitions[0].error_code == 0
    assert peer.met


def test_changed_topics_permissions_or_shards_make_cached_requests_take_the_plain_path() -> None:
    peer = Peer()
    member = peer.member()

    def ask() -> tuple[int, int]:
        beat = peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member)).error_code
        answer = peer.ask(COMMIT, 9, commit(("t1", 2, 5), member=member, generation=1))
        return beat, answer.topics[0].partitions[0].error_code

    for _ in range(3):
        assert ask() == (0, 0)
    assert peer.met
    peer.node.authorizer.version += 1
    made = peer.requests.cached
    assert ask() == ask() == (0, 0)
    assert peer.requests.cached is not made, "made anew"
    assert ask() == (0, 0)
    assert peer.met
    peer.topics.image = FakeTopics(t1=1).image
    peer.node.topics.image = peer.topics.image
    assert ask() == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    peer.shard.runtime.resign()
    peer.node.topics.image = FakeTopics(t1=3).image
    assert ask() == (16, 16)


def test_requests_in_an_unusual_encoding_are_not_cached() -> None:
    peer = Peer()
    plain = frames.request_frame(api(COMMIT), 9, 1, commit(("t1", 0, 5)), "me")
    tagged = plain[:-1] + b"\x01\x07\x02ab"
    for _ in range(4):
        peer.requests.handle(tagged, 4, len(tagged))
    assert peer.requests.cached is None
    assert len(peer.log.rows) == 4
    for _ in range(4):
        peer.ask(COMMIT, 2, commit(("t1", 0, 5), version=2, retention_time_ms=1000))
        peer.ask(COMMIT, 9, commit(*[("t1", 0, 5)] * (MAX_ROWS + 1)))
        assert peer.requests.cached is None
        peer.ask(COMMIT, 9, commit())
    assert peer.requests.cached is None


def test_requests_that_an_interceptor_wants_take_the_plain_path() -> None:
    seen: list[Any] = []
    wanted: list[int] = []

    def request(context: Any, request: Any, proceed: Any) -> None:
        seen.append(request.topics[0].partitions[0].committed_offset)
        proceed()

    def response(context: Any, response: Any, proceed: Any) -> None:
        seen.append(type(response).__name__)
        proceed(response)

    def wants(context: Any) -> bool:
        return context.api_key in wanted

    for intercept in (before_handler(request, wants), before_answer(response, wants)):
        peer = Peer(intercept)
        for number in range(4):
            peer.ask(COMMIT, 9, commit(("t1", 0, number)))
        assert peer.met, "an interceptor that does not want a request does not keep it from being prepared"
        assert not seen
        wanted.append(COMMIT)
        for number in (7, 8):
            assert peer.ask(COMMIT, 9, commit(("t1", 0, number))).topics[0].partitions[0].error_code == 0
        assert len(seen) == 2
        assert seen[0] in (7, "OffsetCommitResponse")
        wanted.clear()
        assert peer.ask(COMMIT, 9, commit(("t1", 0, 9))).topics[0].partitions[0].error_code == 0
        assert peer.met
        assert len(seen) == 2
        seen.clear()


def test_an_interceptor_without_a_filter_sees_all_requests() -> None:
    seen: list[Any] = []
    peer = Peer(before_handler(lambda context, request, proceed: (seen.append(request), proceed())))
    for number in range(4):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))
    assert [request.topics[0].partitions[0].committed_offset for request in seen] == [0, 1, 2, 3]
    assert not peer.met


def test_no_request_is_cached_when_caching_is_switched_off() -> None:
    peer = Peer(caches=False)
    for number in range(4):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))
    assert peer.requests.cached is None


def test_a_fault_in_a_cached_request_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    for number in range(3):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))

    def fail(*_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr("muster.coordinator.api.cached_commits.commit_prepared", fail)
    with capture_logs() as logs:
        assert peer.ask(COMMIT, 9, commit(("t1", 0, 9))) is None
    assert [line["event"] for line in logs] == ["a handler failed"]
    assert len(peer.failed) == 1
    assert peer.requests.current is None


def test_caching_stops_for_clients_whose_requests_never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    cache = CACHES[ApiKey.OFFSET_COMMIT]._replace(make=lambda *_: made.append(1))
    monkeypatch.setitem(CACHES, ApiKey.OFFSET_COMMIT, cache)
    peer = Peer()
    for number in range(1_000):
        peer.ask(COMMIT, 9, commit(("t1", number % 3, number)))
    assert 2 < len(made) < 12


def test_members_in_turn_on_one_connection_are_all_cached() -> None:
    peer = Peer()
    groups = ("g", "h", "other")
    members = [(group, peer.member(group)) for group in groups]
    for turn in range(4):
        for group, member in members:
            assert peer.ask(HEARTBEAT, 4, HeartbeatRequest(group, 1, member)).error_code == 0
            assert peer.met == (turn > 1), (turn, group)
    peer = Peer()
    for turn in range(4):
        for rows in ([("t1", 0, turn)], [("t1", 0, turn), ("t1", 1, turn)]):
            peer.ask(COMMIT, 9, commit(*rows))
            assert peer.met == (turn > 1), (turn, rows)


def test_a_heartbeat_and_a_commit_of_one_size_are_both_cached() -> None:
    peer = Peer()
    member = peer.member("g")
    beat = frames.request_frame(api(HEARTBEAT), 4, 1, HeartbeatRequest("g", 1, member), "me")
    write = frames.request_frame(api(COMMIT), 9, 1, commit(("t1", 0, 1), member=member, generation=1), "me")
    group = "g" * (1 + len(write) - len(beat))
    other = peer.member(group)
    first = frames.request_frame(api(HEARTBEAT), 4, 1, HeartbeatRequest(group, 1, other), "me")
    assert len(first) == len(write)
    for turn in range(4):
        for data in (first, write):
            peer.requests.handle(data, 4, len(data))
            assert peer.met == (turn > 1), turn
    for _ in range(3):
        for version in (1, 2):  # their bytes differ only in the version
            assert peer.ask(HEARTBEAT, version, HeartbeatRequest("g", 1, member)).error_code == 0


def test_commits_of_one_size_are_cached_beside_each_other() -> None:
    peer = Peer()
    for turn in range(6):
        for partition in range(3):
            answer = peer.ask(COMMIT, 9, commit(("t1", partition, turn)))
            row = answer.topics[0].partitions[0]
            assert (row.partition_index, row.error_code) == (partition, 0)
            assert peer.met or turn < 2, (turn, partition)
    assert len(peer.log.rows) == 18


def test_few_commits_of_a_connection_are_kept_however_many_shapes_they_have() -> None:
    peer = Peer()
    tables = peer.requests._cached
    sizes = 0
    for number in range(400):
        request = commit(("t1", number % 3, number))
        request.topics[0].partitions[0].committed_metadata = "m" * (number % 50)
        for _ in range(3):
            peer.ask(COMMIT, 8 + number % 2, request)
            assert len(tables.layouts) <= len(tables.sizes) <= 4 * MAX_CACHED
            assert len(tables.numbered) <= 2 * MAX_CACHED
        sizes = max(sizes, len(tables.layouts))
    assert sizes > 2
    peer.requests.closed()
    assert [*tables.exact, *tables.layouts, *tables.numbered] == []


def test_few_requests_of_a_connection_are_kept_however_many_members_it_has() -> None:
    peer = Peer()
    for number in range(1_000):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, f"member-{number}"))
    repeated = peer.requests._route.repeated
    assert len(repeated._repeated) <= MAX_CACHED
    assert len(peer.requests._cached.exact) <= MAX_CACHED
    for number in range(1, 11):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, f"{number}" * 4_000))
    assert sum(map(len, repeated._repeated)) <= MAX_BYTES


def test_a_cached_request_is_answered_once_and_not_after_the_connection_has_ended() -> None:
    peer = Peer()
    for number in range(3):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))
    made = peer.requests.cached
    assert isinstance(made, CachedCommit)
    with capture_logs() as logs:
        made(made._commit.response)
        assert [line["event"] for line in logs] == ["a request was answered twice"]
        peer.requests.closed()
        made(made._commit.response)
    assert len(logs) == 1


@pytest.mark.parametrize("version", [0, 1])
def test_cached_consumer_group_heartbeats_give_the_same_answers_as_decoded_ones(version: int) -> None:
    quick, usual = Peer(), Peer(caches=False)
    for peer in (quick, usual):
        join = ConsumerGroupHeartbeatRequest(
            "g", "m", 0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t1"], topic_partitions=[]
        )
        epoch = peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, join).member_epoch
        beat = ConsumerGroupHeartbeatRequest("g", "m", epoch)
        for number in range(4):
            peer.clock.advance(40_000)
            assert peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, beat, number).error_code == 0
        assert peer.met == (peer is quick)
        peer.log.sync = True
        other = peer.dispatcher.open(make_channel(), peer)
        peer.requests, other = other, peer.requests
        peer.ask(COMMIT, 9, commit(("t1", 0, 2), member="m", generation=epoch))
        peer.requests, other = other, peer.requests
        assert peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, beat, 7) is None, "it would show what is not durable"
        peer.log.synced()
        assert peer.read(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, 7).error_code == 0
        peer.log.sync = False
        peer.clock.advance(45_000)
        assert peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert quick.answers == usual.answers
    assert quick.log.rows == usual.log.rows
