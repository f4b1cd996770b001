"""Requests that the dispatcher does not handle at once: in a thread, or in a later iteration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.api import dispatch, exchange, registry
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Respond
from muster.coordinator.api.registry import SMALL_BYTES
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import MANY_STEPS, SLICE_MS, Job, JobQueue, PendingResult
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from tests.coordinator.api.dispatch_harness import HEARTBEAT, LEAVE, Connection, Elsewhere, Seen
from tests.coordinator.api.harness import (
    FakeTopics,
    TickingClock,
    before_handler,
    make_node,
)


def with_thread(intercept: Intercept = NO_INTERCEPT) -> tuple[Connection, Elsewhere]:
    elsewhere, clock = Elsewhere(), ManualClock()
    node = make_node(topics=FakeTopics(), clock=clock, job_queue=JobQueue(clock, elsewhere))
    return Connection(dispatcher=Dispatcher(node, intercept)), elsewhere


def leaving(members: int) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=f"m-{i}") for i in range(members)])


def test_a_request_of_many_elements_is_decoded_in_the_thread(seen: Seen) -> None:
    connection, elsewhere = with_thread()
    connection.ask(LEAVE, 5, leaving(dispatch.FEW_ELEMENTS))
    assert (len(seen), elsewhere.waiting) == (1, [])
    seen[0][2](LeaveGroupResponse())
    connection.ask(LEAVE, 5, leaving(dispatch.FEW_ELEMENTS + 1), correlation_id=9)
    assert len(seen) == 1
    assert connection.requests.current is not None  # the next request then waits
    elsewhere.do()
    assert seen[1][1] == leaving(dispatch.FEW_ELEMENTS + 1)
    seen[1][2](LeaveGroupResponse(error_code=16))
    assert connection.response(LEAVE, 5) == (9, LeaveGroupResponse(error_code=16))


def test_a_request_of_many_bytes_is_decoded_in_the_thread_and_a_too_large_one_refused(seen: Seen) -> None:
    connection, elsewhere = with_thread()
    name = "n" * 30_000
    large = LeaveGroupRequest(members=[MemberIdentity(member_id=name)] * (registry.LARGE_BYTES // len(name) + 1))
    connection.ask(LEAVE, 5, large)
    elsewhere.do()
    assert seen[0][1] == large
    seen[0][2](None)
    with pytest.raises(CloseConnection, match="this API takes 33554432"):
        connection.ask(LEAVE, 5, LeaveGroupRequest(members=[MemberIdentity(member_id=name)] * 1_200))


def test_the_refusal_of_a_large_malformed_request_names_the_field(seen: Seen) -> None:
    connection, elsewhere = with_thread()
    data = frames.request_frame(api(LEAVE), 5, 1, leaving(dispatch.FEW_ELEMENTS + 1), "me")
    connection.receive((len(data) - 14).to_bytes(4, "big") + data[4:-10])
    elsewhere.do()
    assert [refused.reason[:45] for refused in connection.failed] == ["malformed request: LeaveGroupRequest.members["]
    assert seen == []


def test_an_interceptor_sees_large_requests_too(seen: Seen) -> None:
    asked: list[Any] = []

    def request(context: RequestContext, request: Any, go_on: Callable[[], None]) -> None:
        asked.append(request)
        go_on()

    connection, elsewhere = with_thread(before_handler(request))
    connection.ask(LEAVE, 3, leaving(dispatch.FEW_ELEMENTS + 1))
    elsewhere.do()
    assert [seen[0][1]] == asked == [leaving(dispatch.FEW_ELEMENTS + 1)]


def test_a_connection_may_end_while_the_thread_decodes_or_encodes(seen: Seen) -> None:
    for ends_first in (True, False):
        connection, elsewhere = with_thread()
        connection.ask(LEAVE, 5, leaving(dispatch.FEW_ELEMENTS + 1))
        if ends_first:
            connection.requests.closed()
            elsewhere.do()
            assert seen == []
            continue
        elsewhere.do()
        answer_in_many_steps(connection, seen[-1][2], LeaveGroupResponse())
        connection.requests.closed()
        elsewhere.do()
        assert (connection.answers, connection.failed) == ([], [])


def answer_in_many_steps(connection: Connection, respond: Respond, response: Message) -> None:
    def job() -> Job[Message]:
        for _ in range(MANY_STEPS + 1):
            yield None
        return response

    connection.requests.job_queue.run(job(), respond, connection.channel)


def test_an_answer_that_took_many_steps_is_encoded_in_the_thread(seen: Seen) -> None:
    connection, elsewhere = with_thread()
    connection.ask(LEAVE, 5, LeaveGroupRequest(), correlation_id=7)
    answer_in_many_steps(connection, seen[0][2], LeaveGroupResponse(error_code=25))
    assert connection.answers == []
    assert connection.requests.current is not None
    elsewhere.do()
    assert connection.response(LEAVE, 5) == (7, LeaveGroupResponse(error_code=25))
    assert connection.requests.current is None


@pytest.mark.parametrize("extra", [0, 1])
def test_the_answer_to_the_leader_of_members_with_much_metadata_is_encoded_in_the_thread(
    seen: Seen, extra: int
) -> None:
    connection, elsewhere = with_thread()
    connection.ask(ApiKey.JOIN_GROUP, 9, JoinGroupRequest(group_id="g"), correlation_id=7)
    members = [JoinGroupResponseMember(f"m-{number}", None, bytes(registry.LARGE_BYTES // 4)) for number in range(4)]
    members[0].metadata += bytes(extra)
    response = JoinGroupResponse(members=members)
    seen[0][2](response)
    assert (len(elsewhere.waiting), len(connection.answers)) == ((1, 0) if extra else (0, 1))
    if extra:
        elsewhere.do()
    assert connection.response(ApiKey.JOIN_GROUP, 9) == (7, response)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_answer_to_the_leader_of_members_with_long_ids_is_encoded_in_the_thread(seen: Seen, extra: int) -> None:
    connection, elsewhere = with_thread()
    connection.ask(ApiKey.JOIN_GROUP, 9, JoinGroupRequest(group_id="g"), correlation_id=7)
    ids = ["i" * (registry.LARGE_BYTES // 16) for _ in range(8)]
    response = JoinGroupResponse(members=[JoinGroupResponseMember(one + "i" * extra, one, b"") for one in ids])
    seen[0][2](response)
    assert (len(elsewhere.waiting), len(connection.answers)) == ((1, 0) if extra else (0, 1))
    if extra:
        elsewhere.do()
    assert connection.response(ApiKey.JOIN_GROUP, 9) == (7, response)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_answer_to_a_member_that_gets_many_topics_is_encoded_in_the_thread(
    extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    monkeypatch.setitem(registry._loaded, ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda *of: kept.append(of[3]))
    connection, elsewhere = with_thread()
    request = ConsumerGroupHeartbeatRequest("g", "m", 0)
    connection.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, correlation_id=7)
    rows = [
        ConsumerGroupHeartbeatResponseTopicPartitions(number.to_bytes(16), [0])
        for number in range(exchange.MANY_ROWS + extra)
    ]
    response = ConsumerGroupHeartbeatResponse(member_id="m", assignment=Assignment([*rows]))
    kept[0](response)
    assert (len(elsewhere.waiting), len(connection.answers)) == ((1, 0) if extra else (0, 1))
    if extra:
        elsewhere.do()
    correlation_id, answer = connection.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    assert (correlation_id, answer.assignment.topic_partitions) == (7, rows)


def test_a_large_answer_that_cannot_be_encoded_closes_its_connection(seen: Seen) -> None:
    connection, elsewhere = with_thread()
    connection.ask(LEAVE, 5, LeaveGroupRequest())
    answer_in_many_steps(connection, seen[0][2], LeaveGroupResponse(error_code=1 << 20))
    with capture_logs() as logs:
        elsewhere.do()
    assert [refused.reason for refused in connection.failed] == ["its answer could not be encoded"]
    assert [line["event"] for line in logs] == ["an answer could not be encoded"]


def test_a_fault_in_a_later_step_closes_its_connection(seen: Seen) -> None:
    connection, _ = with_thread()
    connection.channel.ended_by(connection.fail)
    connection.ask(LEAVE, 5, LeaveGroupRequest())
    later = PendingResult()

    def job() -> Job[None]:
        yield later
        raise KeyError("bug")

    connection.requests.job_queue.run(job(), seen[0][2], connection.channel)
    with capture_logs() as logs:
        later(None)
    assert [refused.reason for refused in connection.failed] == ["its request met a bug in the server"]
    assert [line["event"] for line in logs] == ["a handler failed"]


def test_a_large_request_is_freed_in_the_thread(seen: Seen) -> None:
    connection, elsewhere = with_thread()
    connection.ask(LEAVE, 5, leaving(dispatch.FEW_ELEMENTS + 1))
    elsewhere.do()
    request = seen[0][1]
    seen[0][2](LeaveGroupResponse())
    assert len(request.members) == dispatch.FEW_ELEMENTS + 1
    elsewhere.do()
    assert request.members == []
    connection.ask(LEAVE, 5, leaving(dispatch.FEW_ELEMENTS + 1))
    elsewhere.do()
    large = LeaveGroupResponse(members=[MemberResponse("m")])
    answer_in_many_steps(connection, seen[1][2], large)
    elsewhere.do()
    assert (seen[1][1].members, large.members, elsewhere.waiting) == ([], [], [])


class TestRequestsOfSeveralKilobytes:
    """A hundred JoinGroups of 1,000 protocols, each on its own connection, were once decoded in one iteration: 67
    ms.
    """

    def connections(self, count: int) -> tuple[list[Connection], TickingClock, Dispatcher]:
        clock = TickingClock()
        node = make_node(topics=FakeTopics(), clock=clock)
        dispatcher = Dispatcher(node, caches=False)
        return [Connection(dispatcher=dispatcher) for _ in range(count)], clock, dispatcher

    def test_those_of_all_connections_share_one_slice_of_an_iteration(self, seen: Seen) -> None:
        connections, clock, _ = self.connections(40)
        for number, connection in enumerate(connections):
            connection.ask(LEAVE, 5, LeaveGroupRequest(f"g{number}", members=[MemberIdentity("m" * SMALL_BYTES)]))
        assert 0 < len(seen) <= SLICE_MS
        connections[-1].ask(HEARTBEAT, 4, HeartbeatRequest("small"))
        assert seen[-1][1].group_id == "small", "a small request does not wait"
        del seen[-1]
        for _ in range(40):
            before = len(seen)
            clock.advance(1)
            assert len(seen) - before <= SLICE_MS
        assert [request.group_id for _, request, _ in seen] == [f"g{number}" for number in range(39)]

    def test_a_waiting_one_reports_when_its_bytes_are_no_longer_needed(
        self, seen: Seen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connections, clock, _ = self.connections(20)
        decoded: list[int] = []
        for number, connection in enumerate(connections):
            monkeypatch.setattr(connection, "request_decoded", partial(decoded.append, number), raising=False)
            connection.ask(LEAVE, 5, LeaveGroupRequest("g", members=[MemberIdentity("m" * SMALL_BYTES)]))
        waiting = [number for number, one in enumerate(connections) if one.requests.is_reading]
        assert len(waiting) == 20 - len(seen)
        assert not decoded
        for _ in range(20):
            clock.advance(1)
        assert decoded == waiting
        assert not any(one.requests.is_reading for one in connections)

    def test_a_waiting_one_whose_connection_ends_is_not_handled(self, seen: Seen) -> None:
        connections, clock, _ = self.connections(20)
        for connection in connections:
            connection.ask(LEAVE, 5, LeaveGroupRequest("g", members=[MemberIdentity("m" * SMALL_BYTES)]))
        handled = len(seen)
        for connection in connections:
            connection.requests.closed()
        for _ in range(20):
            clock.advance(1)
        assert len(seen) == handled

    @pytest.mark.parametrize("count", [1, 20])
    def test_a_malformed_one_closes_its_connection(self, seen: Seen, count: int) -> None:
        connections, clock, _ = self.connections(count)
        request = LeaveGroupRequest("g", members=[MemberIdentity("m" * SMALL_BYTES)])
        whole = frames.request_frame(api(LEAVE), 5, 5, request, "me")
        for connection in connections:
            connection.receive(whole[:-3])
        for _ in range(20):
            clock.advance(1)
        assert not seen
        for connection in connections:
            (failed,) = connection.failed
            assert str(failed).startswith("malformed request: LeaveGroupRequest.members[0].reason: truncated")

    @pytest.mark.parametrize("count", [1, 20])
    def test_a_handler_may_return_its_answer_to_it(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        monkeypatch.setitem(registry._loaded, LEAVE, lambda *_: LeaveGroupResponse(3))
        connections, clock, _ = self.connections(count)
        for connection in connections:
            connection.ask(LEAVE, 5, LeaveGroupRequest("g", members=[MemberIdentity("m" * SMALL_BYTES)]))
        for _ in range(20):
            clock.advance(1)
        for connection in connections:
            assert connection.response(LEAVE, 5) == (5, LeaveGroupResponse(3))
            assert len(connection.answers) == 1

    def test_one_that_arrives_while_the_server_stops_is_still_handled(self, seen: Seen) -> None:
        (connection,), _, dispatcher = self.connections(1)
        dispatcher.node.job_queue.stop()
        connection.ask(LEAVE, 5, LeaveGroupRequest("g", members=[MemberIdentity("m" * SMALL_BYTES)]))
        assert len(seen) == 1
