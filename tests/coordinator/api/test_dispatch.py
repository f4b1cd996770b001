"""Frames become requests for handlers, and answers become frames: real bytes, with short handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.api import dispatch, registry
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.exchange import Intercept, InterceptPoint
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Respond
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from tests.coordinator.api.cached_requests.peer import Peer
from tests.coordinator.api.dispatch_harness import HEARTBEAT, LEAVE, Connection, Seen, handle_with
from tests.coordinator.api.harness import (
    FakeTopics,
    before_answer,
    before_handler,
    make_node,
)


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

        handle_with(monkeypatch, fail)
        connection = Connection()
        with capture_logs() as logs:
            connection.ask(HEARTBEAT, 4, HeartbeatRequest("g"))
        assert [refused.facts["api"] for refused in connection.failed] == ["Heartbeat"]
        assert str(logs[0]["exc_info"]) == "a bug"

    def test_an_answer_that_cannot_be_encoded_closes_only_its_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        handle_with(monkeypatch, lambda respond: respond(HeartbeatResponse(error_code=1_000_000)))
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
