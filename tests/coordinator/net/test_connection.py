"""The connection with a short transport: frames, order, back-pressure, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.coordinator.net import connection as connection_module
from muster.coordinator.net.connection import Connection
from muster.coordinator.net.connection_core import (
    INPUT_HIGH_BYTES,
    PEER,
)
from tests.coordinator.net.connection_harness import ConnectionHarness, Echo, frame, reads, turn


class TestFrames:
    async def test_one_request_has_one_answer_in_one_write(self, harness: ConnectionHarness) -> None:
        harness.receive(b"hello")
        assert harness.transport.writes == [frame(b"hello")]

    async def test_requests_that_come_together_are_answered_in_one_write(self, harness: ConnectionHarness) -> None:
        harness.receive(b"a", b"b", b"c")
        assert harness.transport.writes == [frame(b"a") + frame(b"b") + frame(b"c")]

    async def test_a_returned_answer_is_written(self, harness: ConnectionHarness) -> None:
        harness.receive(b"now")
        harness.receive(b"now parts")
        assert harness.transport.writes == [frame(b"now"), frame(b"now parts")]
        harness.receive(b"a", b"now parts", b"b", b"now", b"park")
        assert harness.transport.writes[2:] == [b"".join(map(frame, (b"a", b"now parts", b"b", b"now")))]
        harness.receive(b"now")
        assert len(harness.transport.writes) == 3
        harness.echo.release()
        await turn()
        assert harness.transport.writes[3:] == [frame(b"park"), frame(b"now")]

    async def test_an_empty_frame_is_an_empty_request(self, harness: ConnectionHarness) -> None:
        harness.receive(b"")
        assert harness.echo.seen == [b""]

    async def test_half_a_frame_waits_for_the_rest(self, harness: ConnectionHarness) -> None:
        whole = frame(b"hello")
        for i in range(len(whole) - 1):
            harness.connection.data_received(whole[i : i + 1])
            assert harness.echo.seen == []
        harness.connection.data_received(whole[-1:])
        assert harness.sent == whole

    @given(contents=st.lists(st.binary(max_size=40), max_size=12), cuts=st.lists(st.integers(1, 60), max_size=40))
    def test_requests_are_the_same_for_any_cut_of_the_stream(self, contents: list[bytes], cuts: list[int]) -> None:
        contents = [b"_" + content for content in contents]

        async def check() -> None:
            harness, stream = ConnectionHarness(), b"".join(map(frame, contents))
            for cut in [*cuts, len(stream)]:
                if stream:
                    harness.connection.data_received(stream[:cut])
                    stream = stream[cut:]
            assert harness.echo.seen == contents
            assert harness.sent == b"".join(map(frame, contents))

        asyncio.run(check())

    async def test_large_parts_are_not_joined_by_the_connection(self, harness: ConnectionHarness) -> None:
        given: list[Any] = []
        harness.transport.writelines = lambda parts: given.extend(parts)
        harness.receive(b"parts and parts")
        assert isinstance(given[1], memoryview)

    async def test_a_large_answer_is_written_piece_by_piece(
        self, harness: ConnectionHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_module, "WRITTEN_AT_ONCE", 10)
        for contents in [b"now parts and parts"], [b"parts and parts", b"a", b"now parts"], [b"now parts", b"park"]:
            harness.transport.writes.clear()
            harness.receive(*contents)
            if b"park" in contents:
                while harness.echo.parked is None:
                    await turn()
                harness.echo.release()
            for _ in range(10):
                await turn()
            assert harness.sent == b"".join(map(frame, contents))
            assert all(len(one) <= 10 for one in harness.transport.writes)
            assert harness.connection.core.waits_for == 0

    @pytest.mark.parametrize("slow", [False, True])
    async def test_the_next_request_is_handled_when_the_last_piece_of_a_late_answer_is_written(
        self, harness: ConnectionHarness, monkeypatch: pytest.MonkeyPatch, slow: bool
    ) -> None:
        monkeypatch.setattr(connection_module, "WRITTEN_AT_ONCE", 10)
        contents = [b"park and more", b"a", b"park and park", b"b"]
        if slow:
            harness.transport.slow, harness.transport.high = harness.connection, 4
        harness.receive(*contents)
        for _ in range(40):
            if harness.echo.parked is not None:
                harness.echo.release()
            await turn()
            if harness.connection.core.waits_for & PEER:
                harness.transport.unsent = 0
                harness.connection.resume_writing()
        assert harness.sent == b"".join(map(frame, contents))
        assert harness.connection.core.waits_for == 0

    async def test_the_next_piece_of_an_answer_waits_until_the_peer_has_read(
        self, harness: ConnectionHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_module, "WRITTEN_AT_ONCE", 10)
        harness.transport.slow, harness.transport.high = harness.connection, 9
        harness.receive(b"now parts and parts", b"a")
        for already in 10, 20:
            await turn()
            assert len(harness.sent) == already
            assert harness.limits.unsent.bytes == harness.connection.unsent_bytes == 10 + 28 - already
            harness.transport.unsent = 0
            harness.connection.resume_writing()
        await turn()
        assert harness.sent == frame(b"now parts and parts") + frame(b"a")
        assert harness.limits.unsent.bytes == 0

    @pytest.mark.parametrize("end", [Connection.close, Connection.eof_received, Connection.abort])
    async def test_the_rest_of_a_large_answer_is_written_at_the_end_but_not_when_it_is_aborted(
        self, harness: ConnectionHarness, monkeypatch: pytest.MonkeyPatch, end: Callable[[Connection], object]
    ) -> None:
        monkeypatch.setattr(connection_module, "WRITTEN_AT_ONCE", 10)
        harness.receive(b"now parts and parts")
        end(harness.connection)
        await turn()
        assert harness.sent == frame(b"now parts and parts")[: 10 if end is Connection.abort else None]

    @pytest.mark.parametrize("size", [-1, 1_000_001, 0x7FFF_FFFF])
    async def test_an_impossible_size_closes_the_connection_after_earlier_answers(
        self, harness: ConnectionHarness, size: int
    ) -> None:
        with capture_logs() as logs:
            harness.connection.data_received(frame(b"first") + size.to_bytes(4, "big", signed=True) + b"rest")
        assert harness.transport.writes == [frame(b"first")]
        assert harness.transport.closed == "closed"
        assert len(logs) == 1
        assert str(size) in logs[0]["why"]
        assert logs[0]["peer"] == "10.0.0.9:5"

    async def test_nothing_is_read_after_the_connection_has_ended(self, harness: ConnectionHarness) -> None:
        with capture_logs() as logs:
            harness.receive(b"bad")
            harness.receive(b"more")
        assert harness.echo.seen == [b"bad"]
        assert [line["why"] for line in logs] == ["no request"]
        assert logs[0]["api"] == "Echo"

    async def test_requests_after_a_bad_one_are_not_handled(self, harness: ConnectionHarness) -> None:
        harness.receive(b"good", b"bad", b"good")
        assert harness.echo.seen == [b"good", b"bad"]
        assert harness.transport.writes == [frame(b"good")]


class TestOrder:
    async def test_a_parked_request_delays_the_next(self, harness: ConnectionHarness) -> None:
        harness.receive(b"a", b"park", b"b", b"c")
        assert harness.echo.seen == [b"a", b"park"]
        assert harness.transport.writes == [frame(b"a")]
        harness.echo.release()
        await turn()
        assert harness.transport.writes == [frame(b"a"), frame(b"park"), frame(b"b") + frame(b"c")]

    async def test_requests_that_arrive_behind_a_parked_one_keep_their_order(self, harness: ConnectionHarness) -> None:
        harness.receive(b"park")
        harness.receive(b"b")
        harness.connection.data_received(frame(b"c")[:3])
        harness.echo.release()
        harness.connection.data_received(frame(b"c")[3:])
        await turn()
        assert harness.sent == frame(b"park") + frame(b"b") + frame(b"c")

    async def test_a_request_without_an_answer_does_not_delay_the_next(self, harness: ConnectionHarness) -> None:
        harness.receive(b"silent", b"b")
        assert harness.transport.writes == [frame(b"b")]

    async def test_answers_that_release_further_answers_do_not_nest_calls(self) -> None:
        """A parked answer brings the next request, which releases another connection's answer, 1,500 times."""
        harness = ConnectionHarness()
        chain = [harness.connect() for _ in range(1_500)]
        for (connection, _, echo), (_, _, following) in zip(chain, [*chain[1:], chain[0]], strict=True):
            connection.data_received(frame(b"park") + frame(b"then"))
            handle = echo.handle

            def then(
                data: bytes, start: int, end: int, handle: Callable[..., None] = handle, following: Echo = following
            ) -> None:
                handle(data, start, end)
                if following.parked is not None:
                    following.release()

            echo.handle = then
        chain[0][2].release()
        for _ in range(1_501):
            await turn()
        assert all(echo.seen == [b"park", b"then"] for _, _, echo in chain)


class TestEnd:
    async def test_a_lost_connection_notifies_its_requests_and_channel_once(self, harness: ConnectionHarness) -> None:
        closed: list[str] = []
        harness.connection.channel.on_close(lambda: closed.append("closed"))
        harness.receive(b"park")
        harness.connection.connection_lost(ConnectionResetError())
        assert closed == ["closed"]
        assert harness.echo.ended == 1
        assert harness.connection.channel.closed
        assert len(harness.limits) == 0

    async def test_an_answer_after_the_connection_has_ended_is_dropped(self, harness: ConnectionHarness) -> None:
        harness.receive(b"park", b"b")
        harness.connection.connection_lost(None)
        harness.echo.release()
        await turn()
        assert harness.transport.writes == []
        assert harness.echo.seen == [b"park"]

    async def test_the_peer_s_end_ends_the_connection(self, harness: ConnectionHarness) -> None:
        harness.receive(b"park", b"b")
        assert harness.connection.eof_received() is False
        harness.echo.release()
        await turn()
        assert harness.echo.seen == [b"park"]

    async def test_close_sends_what_is_ready(self, harness: ConnectionHarness) -> None:
        harness.receive(b"a")
        harness.connection.close()
        harness.connection.close()
        assert harness.sent == frame(b"a")
        assert harness.transport.closed == "closed"

    async def test_a_connection_above_the_limit_is_refused(self) -> None:
        harness = ConnectionHarness(max_connections_per_ip=1)
        with capture_logs() as logs:
            connection, transport, echo = harness.connect()
            connection.data_received(frame(b"a"))
            await turn()
        assert transport.closed == "aborted"
        assert not hasattr(echo, "seen")
        assert transport.writes == []
        assert [line["event"] for line in logs] == ["refused a connection"]
        connection.connection_lost(None)
        assert len(harness.limits) == 1

    async def test_a_connection_that_ends_in_the_same_iteration_frees_its_place(self) -> None:
        harness = ConnectionHarness(max_connections_per_ip=1)
        connection, transport, _ = harness.connect()
        harness.connection.connection_lost(None)
        await turn()
        connection.data_received(frame(b"a"))
        assert transport.writes == [frame(b"a")]

    async def test_a_connection_beyond_max_connections_waits_unread(self) -> None:
        harness = ConnectionHarness(max_connections=1)
        connection, transport, _ = harness.connect()
        await turn()
        connection.data_received(frame(b"a"))
        connection.data_received(frame(b"b" * INPUT_HIGH_BYTES))
        assert not reads(transport)
        assert transport.closed == ""
        harness.connection.connection_lost(None)
        assert transport.writes == [frame(b"a") + frame(b"b" * INPUT_HIGH_BYTES)]
        assert reads(transport)

    @given(data=st.data())
    def test_no_connection_waits_while_there_are_free_places(self, data: st.DataObject) -> None:
        async def check() -> None:
            harness = ConnectionHarness(max_connections=data.draw(st.integers(1, 3)), max_connections_per_ip=4)
            harness.connection.connection_lost(None)
            await turn()
            live: list[tuple[Connection, Any]] = []
            ending: list[Connection] = []
            for step in data.draw(st.lists(st.sampled_from(["come", "come", "end", "lost", "turn"]), max_size=40)):
                if step == "come":
                    connection, transport, _ = harness.connect(f"10.0.0.{data.draw(st.integers(1, 2))}")
                    live.append((connection, transport))
                elif step == "end" and live:
                    connection, _ = live.pop(data.draw(st.integers(0, len(live) - 1)))
                    data.draw(st.sampled_from([connection.eof_received, connection.close, connection.abort]))()
                    ending.append(connection)
                elif step == "lost" and ending:
                    ending.pop(data.draw(st.integers(0, len(ending) - 1))).connection_lost(None)
                elif step == "turn":
                    await turn()
                refused = [connection for connection, transport in live if transport.closed]
                live = [one for one in live if one[0] not in refused]
                ending += refused
            for connection in ending:
                connection.connection_lost(None)
            await turn()
            room = harness.limits.max_connections
            for connection, transport in live:
                connection.data_received(frame(b"hello"))
                answered = transport.writes == [frame(b"hello")]
                assert answered or transport.closed or len(harness.limits) == room
            assert len(harness.limits) == min(room, sum(not transport.closed for _, transport in live))

        with capture_logs():
            asyncio.run(check())

    async def test_a_waiting_connection_that_ends_is_forgotten(self) -> None:
        harness = ConnectionHarness(max_connections=1)
        connection, _, _ = harness.connect()
        await turn()
        connection.connection_lost(None)
        harness.connection.connection_lost(None)
        await turn()
        assert len(harness.limits) == 0

    async def test_an_idle_connection_is_closed(self) -> None:
        harness = ConnectionHarness(connections_max_idle_ms=800)
        harness.clock.advance(700)
        harness.receive(b"a")
        harness.clock.advance(700)
        assert harness.closed() == ""
        harness.clock.advance(300)
        assert harness.closed() == "aborted"
