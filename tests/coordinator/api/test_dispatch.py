"""Frames become requests for handlers, and answers become frames: real bytes, with short handlers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.api import dispatch, exchange, registry
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.dispatch import ConnectionRequests, Dispatcher
from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept, InterceptPoint
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.registry import SMALL_BYTES
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import MANY_STEPS, SLICE_MS, Job, JobQueue, PendingResult, outcome
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from tests.coordinator.api.cached_requests.peer import Peer
from tests.coordinator.api.harness import (
    FakeTopics,
    TickingClock,
    before_answer,
    before_handler,
    make_channel,
    make_node,
)

HEARTBEAT, LEAVE = ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP


class Connection:
    """A sink that keeps its answers, and the requests that they belong to."""

    def __init__(self, intercept: Intercept = NO_INTERCEPT, dispatcher: Dispatcher | None = None) -> None:
        self.channel = make_channel()
        self.answers: list[Any] = []
        self.parts: list[bytes] = []
        self.failed: list[CloseConnection] = []
        self.dispatcher = dispatcher or Dispatcher(make_node(topics=FakeTopics()), intercept, caches=False)
        self.requests: ConnectionRequests = self.dispatcher.open(self.channel, self)

    def answer(self, answer: Any) -> None:
        self.answers.append(answer)

    def request_decoded(self) -> None:
        """Do nothing: no memory is counted."""

    def part(self, data: bytes) -> None:
        self.parts.append(data)

    def fail(self, refused: CloseConnection) -> None:
        self.failed.append(refused)

    def receive(self, frame: bytes) -> None:
        """Pass one frame, with its size, and with other bytes around it as in a real chunk."""
        data = b"\xff" * 3 + frame[4:] + b"\xff" * 5
        at_once = self.requests.handle(data, 3, 3 + len(frame) - 4)
        if at_once is not None:
            self.answer(at_once)

    def ask(self, key: int, version: int, message: Message, correlation_id: int = 5, client: str | None = "me") -> None:
        self.receive(frames.request_frame(api(key), version, correlation_id, message, client))

    def response(self, key: int, version: int) -> tuple[int, Any]:
        """The last answer: its correlation id and message."""
        answer = self.answers[-1]
        data = answer if isinstance(answer, bytes) else b"".join(answer)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        correlation_id, body = frames.decode_response_header(api(key), version, data, 4, len(data))
        return correlation_id, api(key).decode_response(version, data, body)


Seen = list[tuple[RequestContext, Any, Respond]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Heartbeat, JoinGroup and LeaveGroup are kept, not handled."""
    seen: Seen = []

    def keep(node: Node, context: RequestContext, request: Any, respond: Respond) -> None:
        seen.append((context, request, respond))

    for key in (HEARTBEAT, ApiKey.JOIN_GROUP, LEAVE):
        monkeypatch.setitem(registry._loaded, key, keep)
    return seen


def _handle_with(monkeypatch: pytest.MonkeyPatch, run: Callable[[Respond], None]) -> None:
    monkeypatch.setitem(registry._loaded, HEARTBEAT, lambda node, context, request, respond: run(respond))


class TestTheWayIn:
    @pytest.mark.parametrize("version", range(5))
    def test_a_heartbeat_is_decoded_and_answered_in_every_version(self, seen: Seen, version: int) -> None:
        connection = Connection()
        connection.ask(HEARTBEAT, version, HeartbeatRequest("g", 3, "m"), correlation_id=-7)
        context, request, respond = seen[0]
        assert (request.group_id, request.generation_id, request.member_id) == ("g", 3, "m")
        assert (context.api_key, context.api_version) == (HEARTBEAT, version)
        assert (context.client.client_id, context.client.host) == ("me", "/10.0.0.9")
        respond(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        assert connection.response(HEARTBEAT, version) == (-7, HeartbeatResponse(error_code=27))

    def test_the_context_is_made_once_for_a_client_id(self, seen: Seen) -> None:
        connection = Connection()
        for client in ("a", "a", "b", None, "a"):
            connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"), client=client)
            seen[-1][2](HeartbeatResponse())
        first, again, other, null, back = (context for context, _, _ in seen)
        assert first is again
        assert (other.client.client_id, null.client.client_id, back.client.client_id) == ("b", "", "a")

    def test_older_requests_arrive_in_the_newest_shape_and_answers_leave_in_theirs(self, seen: Seen) -> None:
        connection = Connection()
        connection.ask(LEAVE, 1, LeaveGroupRequest("g", "m"))
        _, request, respond = seen[0]
        assert [member.member_id for member in request.members] == ["m"]
        respond(LeaveGroupResponse(members=[MemberResponse("m", None, ErrorCode.UNKNOWN_MEMBER_ID)]))
        assert connection.response(LEAVE, 1)[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_tagged_fields_in_the_header_are_skipped(self, seen: Seen) -> None:
        plain = frames.request_frame(api(HEARTBEAT), 4, 5, HeartbeatRequest("g"), "me")
        header = 4 + 10 + 2
        assert plain[header] == 0
        connection = Connection()
        for tags in (b"\x00", b"\x01\x07\x02ab", b"\x00"):
            connection.receive(plain[:header] + tags + plain[header + 1 :])
            seen[-1][2](HeartbeatResponse())
        assert [request.group_id for _, request, _ in seen] == ["g", "g", "g"]

    def test_routes_of_many_client_ids_are_forgotten(self, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatch, "_MAX_ROUTES", 100)
        monkeypatch.setattr(dispatch, "_MAX_CONNECTION_ROUTES", 2)
        connection = Connection()
        for key, version in ((HEARTBEAT, 0), (HEARTBEAT, 4), (LEAVE, 0)):
            for number in range(300):
                connection.ask(key, version, HeartbeatRequest("g") if key == HEARTBEAT else LeaveGroupRequest("g"),
                               client=str(number))  # fmt: skip
        assert len(connection.dispatcher._routes) <= 100
        assert len(connection.requests._routes) <= 2
        assert len(seen) == 900
        assert {context.client.client_id for context, _, _ in seen} == {str(number) for number in range(300)}

    def test_routes_of_long_client_ids_are_forgotten(self, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatch, "_MAX_ROUTES_BYTES", 100_000)
        connection = Connection()
        for number in range(20):
            for _ in range(2):
                connection.ask(HEARTBEAT, number % 5, HeartbeatRequest("g"), client=str(number) + "x" * 32_000)
        assert len(seen) == 40
        assert sum(len(route.client_bytes) for route in connection.dispatcher._routes.values()) <= 100_000
        assert not connection.requests._routes

    def test_connections_share_the_context_of_equal_requests(self, seen: Seen) -> None:
        first = Connection()
        second = Connection(dispatcher=first.dispatcher)
        for connection in (first, second, first):
            connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"), client="c")
        assert first.requests._route.route is second.requests._route.route
        assert len(first.dispatcher._routes) == 1
        (one, _, _), (other, _, _), (again, _, _) = seen
        assert one is again
        assert one.channel is not other.channel


class TestRefusals:
    def refused(self, frame: bytes, connection: Connection | None = None) -> CloseConnection:
        with pytest.raises(CloseConnection) as caught:
            (connection or Connection()).receive(frame)
        return caught.value

    @pytest.mark.parametrize(
        ("key", "version", "name"),
        [(HEARTBEAT, 5, "Heartbeat"), (HEARTBEAT, -1, "Heartbeat"), (ApiKey.PRODUCE, 2, "Produce"), (999, 0, 999),
         (ApiKey.STREAMS_GROUP_HEARTBEAT, 2, "StreamsGroupHeartbeat"), (-3, 0, -3)],
    )  # fmt: skip
    def test_the_refusal_of_an_unserved_request_names_api_and_version(
        self, key: int, version: int, name: object
    ) -> None:
        header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
        refused = self.refused(b"size" + header + b"\0\0\0\1" + b"\0\2me\0")
        assert "not served" in refused.reason
        assert refused.facts == {"api": name, "version": version, "client_id": "me"}

    @pytest.mark.parametrize("cut", range(1, 23))
    def test_a_request_cut_off_at_any_byte_is_malformed(self, seen: Seen, cut: int) -> None:
        whole = frames.request_frame(api(HEARTBEAT), 4, 5, HeartbeatRequest("gr", 3, "m"), "me")
        connection = Connection()
        assert "malformed" in self.refused(whole[: len(whole) - cut], connection).reason
        connection = Connection()
        connection.receive(whole)
        # and again, by the cached route
        assert "malformed" in self.refused(whole[: len(whole) - cut], connection).reason
        assert len(seen) == 1

    def test_the_refusal_of_a_malformed_body_names_the_field(self, seen: Seen) -> None:
        whole = frames.request_frame(api(HEARTBEAT), 0, 5, HeartbeatRequest("gr", 3, "m"), "me")
        refused = self.refused(whole[:16] + b"\x7f\xff" + whole[18:])
        assert "HeartbeatRequest.group_id" in refused.reason
        assert refused.facts == {"api": "Heartbeat", "version": 0, "client_id": "me"}

    def test_a_client_id_that_is_not_utf8_is_refused(self) -> None:
        whole = frames.request_frame(api(HEARTBEAT), 0, 5, HeartbeatRequest("gr"), "me")
        assert "client_id" in self.refused(whole.replace(b"me", b"\xff\xfe")).reason

    @pytest.mark.parametrize("version", [6, 99, -1])
    def test_api_versions_of_an_unknown_version_is_answered_in_version_0(self, version: int) -> None:
        connection = Connection()
        header = (18).to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
        connection.receive(b"size" + header + b"\0\0\0\x2a" + b"\0\2me" + b"whatever")
        correlation_id, response = connection.response(ApiKey.API_VERSIONS, 0)
        assert correlation_id == 42
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 5)]

    def test_the_connection_continues_after_an_unknown_version_of_api_versions(self) -> None:
        connection = Connection()
        connection.receive(b"size\0\x12\0\x63\0\0\0\1\xff\xff")
        connection.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("me", "1.0"))
        assert connection.response(ApiKey.API_VERSIONS, 3)[1].error_code == 0


class TestAnswers:
    def test_a_request_without_an_answer_is_completed_without_bytes(self, seen: Seen) -> None:
        connection = Connection()
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        seen[0][2](None)
        assert connection.answers == [None]

    def test_a_second_answer_is_logged_and_not_sent(self, seen: Seen) -> None:
        connection = Connection()
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        respond = seen[0][2]
        respond(HeartbeatResponse())
        with capture_logs() as logs:
            respond(HeartbeatResponse())
        assert len(connection.answers) == 1
        assert [line["event"] for line in logs] == ["a request was answered twice"]

    def test_an_answer_after_the_connection_has_ended_is_dropped(self, seen: Seen) -> None:
        connection = Connection()
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        connection.requests.closed()
        with capture_logs() as logs:
            seen[0][2](HeartbeatResponse())
        assert connection.answers == logs == []

    def test_a_failing_handler_closes_its_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(respond: Respond) -> None:
            raise RuntimeError("a bug")

        _handle_with(monkeypatch, fail)
        connection = Connection()
        with capture_logs() as logs:
            connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        assert [refused.facts["api"] for refused in connection.failed] == ["Heartbeat"]
        assert str(logs[0]["exc_info"]) == "a bug"

    def test_an_answer_that_cannot_be_encoded_closes_only_its_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _handle_with(monkeypatch, lambda respond: respond(HeartbeatResponse(error_code=1_000_000)))
        connection = Connection()
        with capture_logs() as logs:
            connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        assert len(connection.failed) == 1
        assert connection.answers == []
        assert logs[0]["event"] == "an answer could not be encoded"

    def test_a_handler_may_return_its_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Respond] = []

        def run(respond: Respond) -> Message:
            made.append(respond)
            return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)

        monkeypatch.setitem(registry._loaded, HEARTBEAT, lambda node, context, request, respond: run(respond))
        connection = Connection()
        for number in (1, 2):
            connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"), correlation_id=number)
            assert connection.response(HEARTBEAT, 4) == (number, HeartbeatResponse(error_code=22))
            assert connection.requests.current is None
        with capture_logs() as logs:
            made[0](HeartbeatResponse())
        assert len(connection.answers) == 2
        assert [line["event"] for line in logs] == ["a request was answered twice"]

    def test_a_returned_answer_that_cannot_be_encoded_closes_only_its_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        response = HeartbeatResponse(error_code=1_000_000)
        monkeypatch.setitem(registry._loaded, HEARTBEAT, lambda node, context, request, respond: response)
        connection = Connection()
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        assert len(connection.failed) == 1
        assert connection.answers == []

    def test_a_large_answer_is_not_joined_with_its_header(self, seen: Seen) -> None:
        connection = Connection()
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        route = next(iter(connection.dispatcher._routes.values()))
        route.encode = api(ApiKey.JOIN_GROUP).response_encoder(9)
        seen[0][2](JoinGroupResponse(leader="l" * 30_000, member_id="m" * 30_000, protocol_name="p" * 10_000))
        assert len(connection.answers[0]) == 2
        assert connection.response(ApiKey.JOIN_GROUP, 9)[1].leader == "l" * 30_000


class TestIntercept:
    def test_an_interceptor_can_delay_a_returned_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(registry._loaded, HEARTBEAT, lambda node, context, request, respond: HeartbeatResponse())
        held: list[Callable[[], None]] = []
        intercept = before_answer(lambda context, response, proceed: held.append(lambda: proceed(response)))
        connection = Connection(intercept)
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        assert connection.answers == []
        held[0]()
        assert connection.response(HEARTBEAT, 4) == (5, HeartbeatResponse())

    def test_an_interceptor_can_delay_a_request(self, seen: Seen) -> None:
        held: list[Callable[[], None]] = []
        connection = Connection(before_handler(lambda context, request, proceed: held.append(proceed)))
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        assert seen == []
        held[0]()
        assert seen[0][1].group_id == "g"

    def test_an_interceptor_can_change_and_delay_an_answer(self, seen: Seen) -> None:
        held: list[Callable[[], None]] = []

        def response(context: RequestContext, response: Message | None, proceed: Any) -> None:
            held.append(lambda: proceed(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)))

        connection = Connection(before_answer(response))
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        seen[0][2](HeartbeatResponse())
        assert connection.answers == []
        held[0]()
        held[0]()
        assert len(connection.answers) == 1
        assert connection.response(HEARTBEAT, 4)[1].error_code == ErrorCode.ILLEGAL_GENERATION

    def test_an_interceptor_can_answer_in_place_of_the_handler(self, seen: Seen) -> None:
        taken: list[tuple[Any, Any, Any]] = []
        point = InterceptPoint()
        dispatcher = Dispatcher(make_node(topics=FakeTopics()), intercept_point=point)
        connection = Connection(dispatcher=dispatcher)
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        seen[-1][2](HeartbeatResponse())
        point.use(Intercept(lambda _, request, exchange, run: taken.append((request, exchange, run))))
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("taken"))
        assert len(seen) == 1
        request, exchange, run = taken[0]
        assert request.group_id == "taken"
        answers: list[Any] = []
        run(answers.append)
        seen[1][2](HeartbeatResponse(error_code=27))
        assert (answers, len(connection.answers)) == ([HeartbeatResponse(error_code=27)], 1)
        frame = exchange.frame(answers[0])
        exchange.part(frame[:7])
        exchange.send(frame[7:])
        assert connection.parts + connection.answers[1:] == [frame[:7], frame[7:]]
        exchange.part(b"more")
        exchange.send(b"more")
        exchange.cut(CloseConnection("late"))
        assert (len(connection.parts), len(connection.answers), connection.failed) == (1, 2, [])
        connection.ask(HEARTBEAT, 4, HeartbeatRequest("cut"))
        assert taken[1][1].is_awaited
        taken[1][1].cut(CloseConnection("because"))
        assert ([one.reason for one in connection.failed], taken[1][1].is_awaited) == (["because"], False)

    def test_an_interceptor_can_answer_in_an_older_version(self) -> None:
        intercept = Intercept(lambda _, __, exchange, run: run(exchange.in_version(0)))
        connection = Connection(intercept)
        connection.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("c", "1"))
        assert connection.response(ApiKey.API_VERSIONS, 0)[1].error_code == 0

    def test_a_removed_interceptor_allows_cached_requests_again(self) -> None:
        peer = Peer()
        beat = HeartbeatRequest("g", 1, peer.member())
        for _ in range(4):
            assert peer.ask(HEARTBEAT, 4, beat).error_code == 0
        assert peer.met
        errors = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        peer.dispatcher.intercept_point.use(Intercept(lambda _, __, exchange, ___: exchange(errors)))
        assert peer.ask(HEARTBEAT, 4, beat).error_code == ErrorCode.NOT_COORDINATOR
        peer.dispatcher.intercept_point.use(None)
        assert peer.ask(HEARTBEAT, 4, beat).error_code == 0


# ---- large requests and answers


class Elsewhere:
    """A worker whose work is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], object]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        self.waiting.append((work, done))

    def close(self) -> None:
        self.waiting.clear()

    def do(self) -> None:
        work, done = self.waiting.pop(0)
        done(*outcome(work))


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
