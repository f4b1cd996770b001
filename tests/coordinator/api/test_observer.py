"""What a request observer gets for real requests, also for cached ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.coordinator.api import registry
from muster.coordinator.api.exchange import TIMED_AMONG
from muster.coordinator.api.observer import AnsweredRequest, error_counts
from muster.coordinator.api.registry import Repeats
from muster.coordinator.server.metrics import ServerMetrics
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.coordinator.api.cached_requests.peer import COMMIT, HEARTBEAT, Peer, commit
from tests.coordinator.api.harness import before_answer
from tests.support.muster import connected, running

LEAVE = ApiKey.LEAVE_GROUP


class RecordingObserver:
    """An observer that keeps the answered requests it gets."""

    def __init__(self) -> None:
        self.all: list[AnsweredRequest] = []
        self.times_each = True
        self.repeats: dict[int, Repeats] = {}

    def observe(self, request: AnsweredRequest) -> None:
        self.all.append(request)


def watched(**options: Any) -> tuple[Peer, list[AnsweredRequest]]:
    observed = RecordingObserver()
    return Peer(observer=observed, **options), observed.all


def test_the_observer_gets_each_request_also_cached_ones() -> None:
    peer, observed = watched()
    member = peer.member()
    observed.clear()
    for number in range(4):
        assert peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member)).error_code == 0
        peer.ask(COMMIT, 9, commit(("t1", 0, number), ("t2", 1, number), member=member, generation=1))
    assert peer.requests.cached.was_repeated
    assert {key: repeats.count for key, repeats in peer.dispatcher._repeats.items()} == {
        11: 0,
        14: 0,
        HEARTBEAT: 2,
        COMMIT: 2,
    }
    beats, commits = observed[::2], observed[1::2]
    assert len(observed) == len(peer.answers) - 2 == 8
    assert beats == beats[:1] * 4, "the observer gets the same of a request, cached or not"
    assert commits == commits[:1] * 4
    assert (beats[0].api_key, beats[0].api_version, beats[0].error_counts) == (HEARTBEAT, 4, {0: 1})
    assert (commits[0].api_key, commits[0].api_version, commits[0].error_counts) == (COMMIT, 9, {0: 2})


def test_the_observer_gets_errors_by_code() -> None:
    peer, observed = watched()
    for _ in range(3):
        peer.ask(COMMIT, 9, commit(("t1", 0, 1), ("no", 0, 1), ("t1", 9, 1)))
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, "nobody"))
    assert [one.error_counts for one in observed] == [{0: 1, 3: 2}, {ErrorCode.UNKNOWN_MEMBER_ID: 1}] * 3
    observed.clear()
    members = [MemberIdentity(member_id="nobody")]
    peer.ask(LEAVE, 5, LeaveGroupRequest("g", members=members))
    peer.ask(LEAVE, 1, LeaveGroupRequest("g", "nobody"))
    # below version 3 the row's error is at the top level
    assert [one.error_counts for one in observed] == [{0: 1, 25: 1}, {25: 1}]


def test_the_observer_gets_the_handled_time_before_the_disk_wait() -> None:
    peer, observed = watched()
    for number in range(3):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))
    peer.log.sync = True
    for number in range(2):
        observed.clear()
        began_us = peer.clock.mono_us()
        assert peer.ask(COMMIT, 9, commit(("t1", 0, number), ("t2", 0, 0)) if number else commit(("t1", 0, 5))) is None
        assert not observed
        peer.clock.advance(7)
        peer.log.synced()
        (one,) = observed
        assert (one.began_us, one.handled_us, one.answered_us) == (began_us, began_us, began_us + 7_000)
        assert one.error_counts == {0: 1 + number}
    peer.ask(COMMIT, 9, commit(("t1", 0, 5)))
    observed.clear()
    peer.requests.closed()
    peer.log.synced()
    assert not observed, "nobody was answered"


def test_the_observer_gets_the_error_of_a_failed_cached_commit() -> None:
    peer, observed = watched()
    for number in range(3):
        peer.ask(COMMIT, 9, commit(("t1", 0, number)))
    peer.log.fail = OSError(28, "No space left on device")
    peer.ask(COMMIT, 9, commit(("t1", 0, 9)))
    assert observed[-1].error_counts == {peer.read(COMMIT, 9).topics[0].partitions[0].error_code: 1}
    assert 0 not in observed[-1].error_counts


def test_the_observer_gets_the_asked_version_of_api_versions() -> None:
    peer, observed = watched()
    data = frames.request_frame(api(ApiKey.API_VERSIONS), 4, 1, ApiVersionsRequest("a", "1"), "me")
    data = data[:6] + (99).to_bytes(2, "big") + data[8:]
    peer.requests.handle(data, 4, len(data))
    assert [(one.api_key, one.api_version, one.error_counts) for one in observed] == [(18, 99, {35: 1})]


def test_the_observer_gets_what_an_interceptor_has_changed() -> None:
    def late(context: Any, response: Any, proceed: Any) -> None:
        response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        peer.clock.call_at(peer.clock.mono_ms() + 50, lambda: proceed(response))

    peer, observed = watched(intercept=before_answer(late, wants=lambda context: context.api_key == HEARTBEAT))
    peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, "nobody"))
    peer.clock.advance(50)
    assert [one.error_counts for one in observed] == [{27: 1}]
    assert observed[0].answered_us - observed[0].handled_us == 50_000


def test_the_observer_gets_a_request_without_an_answer_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._loaded, HEARTBEAT, lambda node, context, request, respond: respond(None))
    observed = RecordingObserver()
    Peer(observer=observed).requests.handle(frame := request_frame(), 4, len(frame))
    assert [one.error_counts for one in observed.all] == [{}]


def request_frame() -> bytes:
    return frames.request_frame(api(HEARTBEAT), 4, 1, HeartbeatRequest("g", 1, "nobody"), "me")


TOPICS = [MetadataResponseTopic(error_code=3), MetadataResponseTopic()]
ROWS = [FetchableTopicResponse(partitions=[PartitionData(error_code=1), PartitionData()])]


@pytest.mark.parametrize(
    ("key", "response", "counts"),
    [
        (ApiKey.METADATA, MetadataResponse(topics=TOPICS), {0: 1, 3: 1}),
        (ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(error_code=15), {15: 1}),
        (ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[Coordinator(error_code=15)] * 2), {15: 2}),
        (ApiKey.FETCH, FetchResponse(responses=ROWS), {0: 2, 1: 1}),
    ],
)
def test_error_counts_equal_kafkas(key: int, response: Any, counts: dict[int, int]) -> None:
    assert error_counts(key, response) == counts


def test_the_observer_gets_every_request_over_tcp_once() -> None:
    async def main() -> None:
        observed = RecordingObserver()
        async with running(topics=["t:1"], observer=observed) as server, connected(server) as client:
            await client.ask(ApiVersionsRequest("a", "1"))
            for _ in range(3):
                await client.ask(HeartbeatRequest("g", 1, "nobody"))
            await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        kinds = [(one.api_key, one.error_counts) for one in observed.all]
        assert kinds == [(18, {0: 1}), *[(12, {25: 1})] * 3, (3, {0: 2})]
        for one in observed.all:
            assert 0 < one.began_us <= one.handled_us <= one.answered_us

    asyncio.run(main())


def test_of_repeated_requests_some_are_timed_and_all_are_counted() -> None:
    metrics = ServerMetrics()
    peer = Peer(observer=metrics)
    member = peer.member()
    timed = []
    for number in range(1, 101):
        if number in (40, 80):
            peer.dispatcher.intercept_point.time_some()
        assert peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member)).error_code == 0
        peer.ask(COMMIT, 9, commit(("t1", 0, number), member=member, generation=1))
        assert requests_of(metrics) == {"JoinGroup": 1, "SyncGroup": 1, "Heartbeat": number, "OffsetCommit": number}
        timed.append(metrics._requests[HEARTBEAT].handler.count)
        assert peer.dispatcher.intercept_point.is_watched == (0 <= number % 40 < TIMED_AMONG // 2 - 1 and number >= 40)
    assert [number + 1 for number in range(1, 100) if timed[number] != timed[number - 1]] == [2, 40, 80]
    assert timed[-1] == 80, "one that is timed stands for those before it"


def requests_of(metrics: ServerMetrics) -> dict[str, float]:
    return {name: count for (name,), count in next(iter(metrics._counted())).samples.items()}


def test_requests_that_only_begin_as_repeated_ones_are_counted_with_their_errors() -> None:
    metrics = ServerMetrics()
    peer = Peer(observer=metrics)
    member = peer.member()
    for number in range(4):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member))
        peer.ask(COMMIT, 9, commit(("t1", 0, number), member=member, generation=1))
    peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, "nobody"))
    assert metrics._errors == {(HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID): 1}
    peer.log.fail = OSError(28, "No space left on device")
    peer.ask(COMMIT, 9, commit(("t1", 0, 9), member=member, generation=1))
    assert metrics._errors[COMMIT, peer.read(COMMIT, 9).topics[0].partitions[0].error_code] == 1
    counts = requests_of(metrics)
    assert (counts["Heartbeat"], counts["OffsetCommit"]) == (5, 5)
    peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, "nobody"))
    assert requests_of(metrics)["Heartbeat"] == 6


def test_a_heartbeat_that_waits_for_the_disk_is_observed_until_its_answer() -> None:
    metrics = ServerMetrics()
    peer = Peer(observer=metrics)
    member = peer.member()
    other = commit(("t1", 0, 1), member=member, generation=1)
    for _ in range(4):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member))
    peer.log.sync = True
    peer.connect()
    for _ in range(3):
        peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member))
    waiting = peer.requests
    peer.connect()
    assert peer.ask(COMMIT, 9, other) is None
    peer.requests = waiting
    before = requests_of(metrics)
    assert peer.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, member)) is None
    peer.clock.advance(7)
    assert requests_of(metrics) == before
    peer.log.synced()
    assert requests_of(metrics)["Heartbeat"] == before["Heartbeat"] + 1
    assert metrics._requests[HEARTBEAT].after.sum_us == 7_000
