"""The connection with a short transport: frames, order, back-pressure, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.coordinator.api.context import Channel
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.net import connection as connection_module
from muster.coordinator.net.connection import REQUESTS_AT_ONCE, REQUESTS_EACH, Connection, Shared
from muster.coordinator.net.connection_core import (
    INPUT_HIGH_BYTES,
    OUTPUT_HIGH_BYTES,
    PEER,
    SMALL_BYTES,
    UNCOUNTED_BYTES,
)
from muster.coordinator.net.limits import SHARE_MS, Limits, Share
from muster.coordinator.net.request_memory import CHECK_EVERY_MS, PATIENCE_MS, STALLED_MS
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.cluster_image import Endpoint


class Transport:
    """Keeps the written bytes. A slow transport asks the protocol to pause."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = ""
        self.high = 0
        self.slow: Connection | None = None
        self.unsent = 0

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.writes.append(bytes(data))
        if self.slow is not None and len(data) > self.high:
            self.unsent = len(data)
            self.slow.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None:
        """Return None: there is no socket."""

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Echo:
    """Answers each request with its content in a frame. It answers requests that begin with "park" later, returns the
    answer for "now", and answers all others at once.
    """

    def __init__(self, channel: Channel, connection: Connection) -> None:
        self.connection = connection
        self.seen: list[bytes] = []
        self.parked: bytes | None = None
        self.current: object | None = None
        self.is_reading = False
        self.ended = 0

    def handle(self, data: bytes, start: int, end: int) -> Any:
        request = data[start:end]
        self.seen.append(request)
        self.current = request
        if request.startswith(b"bad"):
            raise CloseConnection("no request", api="Echo")
        if request.startswith(b"now"):
            self.current = None
            return [frame(request)[:4], memoryview(request)] if b"parts" in request else frame(request)
        if request.startswith(b"read"):
            self.is_reading = True
        if request.startswith((b"park", b"read")):
            self.parked = request
        elif request.startswith(b"silent"):
            self.answer(None)
        elif request.startswith(b"parts"):
            self.answer([frame(request)[:4], memoryview(request)])
        elif request.startswith(b"huge"):
            self.answer(b"x" * (OUTPUT_HIGH_BYTES + 1))
        else:
            self.answer(frame(request))
        return None

    def answer(self, answer: Any) -> None:
        self.current = None
        self.connection.answer(answer)

    def release(self) -> None:
        assert self.parked is not None
        request, self.parked = self.parked, None
        self.answer(frame(request))

    def closed(self) -> None:
        self.current = None
        self.ended += 1


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


class ConnectionHarness:
    """A connection and both of its sides."""

    def __init__(self, max_bytes: int = 1_000_000, **changes: Any) -> None:
        self.clock = ManualClock(0)
        self.limits = Limits(replace(NetSettings(), **changes), self.clock)
        self.max_bytes = max_bytes
        self.connection, self.transport, self.echo = self.connect()

    def connect(self, host: str = "10.0.0.9") -> tuple[Connection, Transport, Echo]:
        made: list[Echo] = []

        def open_requests(channel: Channel, connection: Connection) -> Echo:
            made.append(Echo(channel, connection))
            return made[0]

        channel = Channel("PLAINTEXT", Endpoint("h", 1), f"{host}:5", "/" + host)
        shared = Shared(self.limits, self.max_bytes, lambda _: channel, open_requests, lambda _: None)
        connection = Connection(shared)
        transport: Any = Transport()
        connection.connection_made(transport)
        return connection, transport, made[0] if made else None

    def receive(self, *contents: bytes) -> None:
        self.connection.data_received(b"".join(map(frame, contents)))

    def reads(self) -> bool:
        """Whether the connection reads from its socket."""
        return self.transport.reading

    def closed(self) -> str:
        """How the transport was closed; "" when it was not."""
        return self.transport.closed

    @property
    def sent(self) -> bytes:
        return b"".join(self.transport.writes)


class TickingClock:
    """A clock on which a millisecond passes with each request."""

    def __init__(self, mono_ms: Callable[[], int]) -> None:
        self.mono_ms = mono_ms
        self._soon: list[Callable[[], object]] = []

    @property
    def machine(self) -> TickingClock:
        return self

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def begin_iteration(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()


def reads(transport: Transport) -> bool:
    return transport.reading


@pytest.fixture
async def harness() -> ConnectionHarness:
    return ConnectionHarness()


async def turn() -> None:
    """Run the callbacks of one iteration of the loop."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


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


SIZES = (6, 6, 20, 30_000, SMALL_BYTES + 10, 2 * SMALL_BYTES)
KINDS = (b"now", b"now", b"park", b"parts", b"silent", b"read")


class Traffic:
    """A connection under random events, with the expected result: all requests in their order, one at a time."""

    def __init__(self, contents: list[bytes], *, short_way: bool) -> None:
        self.harness = ConnectionHarness(queued_max_request_bytes=100_000)
        self.connection, self.transport, self.echo = self.harness.connection, self.harness.transport, self.harness.echo
        self.contents = contents
        self.unread = b"".join(map(frame, contents))
        self.take = self.connection.data_received if short_way else self.connection._receive
        self.is_slow = self.has_ended = False
        self.others_bytes = 0
        self.others: Any = self
        self.host = "10.0.0.8"

    def does(self, event: str, number: int) -> None:
        if event == "data" and self.unread and self.transport.reading and not self.has_ended:
            # whole requests, which may take the fast path, or any number of bytes
            size = int.from_bytes(self.unread[:4], "big") + 4 if number % 3 else 1 + number * number
            chunk, self.unread = self.unread[:size], self.unread[size:]
            self.take(chunk)
        elif event == "answer" and self.echo.parked is not None:
            self.echo.is_reading = False
            self.connection.request_decoded()
            self.echo.release()
        elif event == "slow" and not self.is_slow and not self.has_ended:
            self.is_slow = True
            self.connection.pause_writing()
        elif event == "caught up" and self.is_slow and not self.has_ended:
            self.is_slow = False
            self.connection.resume_writing()
        elif event == "others take" and self.harness.limits.memory.left > 0 and not self.others_bytes:
            self.others_bytes = 100_000
            self.harness.limits.memory.charge(self.others, self.others_bytes, 0, 0)
        elif event == "others give" and self.others_bytes:
            self.harness.limits.memory.charge(self.others, 0, 0, 0)
            self.others_bytes = 0
        elif event in ("close", "eof", "abort") and not self.has_ended:
            self.has_ended = True
            {"close": self.connection.close, "eof": self.connection.eof_received, "abort": self.connection.abort}[
                event
            ]()

    def memory_granted(self) -> None:
        """The other connections need not wait for memory."""

    def check(self, seen_before: int, was_slow: bool) -> None:
        echo, core = self.echo, self.connection.core
        assert echo.seen == self.contents[: len(echo.seen)]
        pending = 1 if echo.parked is not None else 0
        answered = [one for one in echo.seen[: len(echo.seen) - pending] if not one.startswith(b"silent")]
        if not self.has_ended:
            assert self.harness.sent == b"".join(map(frame, answered))
            assert core.is_answering == bool(pending)
        if self.has_ended or (was_slow and self.is_slow):
            assert len(echo.seen) == seen_before
        if self.transport.reading and not self.has_ended:
            arrived = sum(len(one) + 4 for one in self.contents) - len(self.unread)
            waits = arrived - sum(len(one) + 4 for one in echo.seen)
            # the bytes of the last chunk, before reading was paused, may exceed the limit
            held = pending or self.is_slow
            assert not held or waits < INPUT_HIGH_BYTES + 4 * len(self.contents)
        counted = core.counted_bytes + self.others_bytes
        assert self.harness.limits.memory.left == 100_000 - counted or self.has_ended

    async def ends(self) -> None:
        """End all that delays the connection: then all requests were handled and answered."""
        for _ in range(4 * len(self.contents) + 4):
            for event in ("others give", "caught up", "answer", "data"):
                self.does(event, 1)
            self.harness.clock.advance(1)  # connections that wait for memory are served in an iteration of their own
            await turn()
        if not self.has_ended:
            assert self.echo.seen == self.contents
            assert not self.unread
            assert self.connection.core.waits_for == 0
            assert self.connection.core.counted_bytes == 0
            assert self.transport.reading
        self.connection.connection_lost(None)
        assert self.harness.limits.memory.left == 100_000
        assert self.harness.limits.unsent.bytes == 0

    @property
    def shown(self) -> tuple[Any, ...]:
        """Everything that its peer, its requests and its limits see."""
        core = self.connection.core
        return (
            self.harness.sent, list(self.echo.seen), self.transport.reading, self.transport.closed, len(self.unread),
            core.has_requests, core.is_answering, core.bytes_to_count(), self.harness.limits.memory.left,
        )  # fmt: skip


EVENTS = ("data", "data", "data", "answer", "slow", "caught up", "others take", "others give", "turn", "turn")


class TestModel:
    @given(
        requests=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(SIZES)), max_size=12),
        events=st.lists(
            st.tuples(st.sampled_from((*EVENTS, "close", "eof", "abort")), st.integers(0, 300)), max_size=60
        ),
        never_ends=st.booleans(),
    )
    def test_order_limits_and_end_are_the_same_on_the_fast_path(
        self, requests: list[tuple[bytes, int]], events: list[tuple[str, int]], never_ends: bool
    ) -> None:
        contents = [kind + b"%03d" % at + b"x" * (size - 6) for at, (kind, size) in enumerate(requests)]

        async def check() -> None:
            ways = [Traffic(contents, short_way=True), Traffic(contents, short_way=False)]
            for event, number in events:
                if never_ends and event in ("close", "eof", "abort"):
                    continue
                for way in ways:
                    seen_before, was_slow = len(way.echo.seen), way.is_slow
                    way.does(event, number)
                    way.check(seen_before, was_slow)
                if event == "turn":
                    await turn()
                assert ways[0].shown == ways[1].shown
            for way in ways:
                await way.ends()
            assert ways[0].shown == ways[1].shown

        asyncio.run(check())


class TestBackPressure:
    async def test_reading_pauses_when_many_bytes_wait_behind_a_parked_request(
        self, harness: ConnectionHarness
    ) -> None:
        harness.receive(b"park")
        assert harness.reads()
        harness.receive(b"x" * (INPUT_HIGH_BYTES // 2))
        assert harness.reads()
        harness.receive(b"y" * (INPUT_HIGH_BYTES // 2))
        assert not harness.reads()
        harness.echo.release()
        await turn()
        assert harness.reads()
        assert len(harness.echo.seen) == 3

    async def test_a_partial_request_behind_a_parked_one_pauses_reading_too(self, harness: ConnectionHarness) -> None:
        harness.receive(b"park")
        harness.connection.data_received(frame(b"z" * 200_000)[:100_000])
        assert not harness.reads()
        harness.echo.release()
        await turn()
        assert harness.reads()

    async def test_a_too_large_request_is_refused_also_if_it_arrives_at_once(self) -> None:
        harness = ConnectionHarness(max_bytes=100)
        harness.receive(b"x" * 100)
        assert len(harness.echo.seen) == 1
        with capture_logs() as logs:
            harness.receive(b"x" * 101)
        assert [line["why"] for line in logs] == ["frame size 101 is larger than 100"]
        assert len(harness.echo.seen) == 1

    async def test_a_single_large_request_is_read_completely(self, harness: ConnectionHarness) -> None:
        whole = frame(b"z" * 500_000)
        for start in range(0, len(whole), 50_000):
            assert harness.reads()
            harness.connection.data_received(whole[start : start + 50_000])
        assert harness.echo.seen == [b"z" * 500_000]

    async def test_requests_of_a_slow_reader_wait_until_it_has_read_its_answers(
        self, harness: ConnectionHarness
    ) -> None:
        harness.transport.slow = harness.connection
        harness.receive(b"huge 1", b"huge 2", b"huge 3")
        assert harness.echo.seen == [b"huge 1"]
        harness.receive(b"w" * INPUT_HIGH_BYTES)
        assert not harness.reads()
        harness.connection.resume_writing()
        assert harness.echo.seen == [b"huge 1", b"huge 2"]
        harness.transport.slow = None
        harness.connection.resume_writing()
        assert len(harness.echo.seen) == 4
        assert harness.reads()

    async def test_others_are_served_between_the_many_requests_of_one_connection(
        self, harness: ConnectionHarness
    ) -> None:
        count = 2 * REQUESTS_AT_ONCE + 1
        requests = [b"%04d" % number + b"x" * 1_000 for number in range(count)]
        harness.receive(*requests)
        assert len(harness.echo.seen) == REQUESTS_AT_ONCE
        assert not harness.reads()  # otherwise a client that sends all the time fills the memory
        harness.receive(b"last")  # the bytes were already under way
        assert len(harness.echo.seen) == REQUESTS_AT_ONCE
        for _ in range(3):
            await turn()
        assert harness.echo.seen == [*requests, b"last"]
        assert harness.sent == b"".join(map(frame, harness.echo.seen))
        answer_bytes = len(frame(requests[0]))
        assert [len(one) // answer_bytes for one in harness.transport.writes] == [REQUESTS_AT_ONCE] * 2 + [1]
        assert harness.reads()
        harness.receive(b"now")
        assert harness.sent.endswith(frame(b"now"))

    async def test_the_waiting_requests_of_all_connections_share_some_time_of_an_iteration(
        self, harness: ConnectionHarness
    ) -> None:
        """Four connections with 100 requests each once blocked the event loop for 60 ms."""
        clock = TickingClock(lambda: sum(len(one.seen) for _, _, one in all_three))
        harness.limits.share = Share(clock)
        all_three = [(harness.connection, harness.transport, harness.echo), harness.connect(), harness.connect()]
        requests = [b"%04d" % number for number in range(REQUESTS_AT_ONCE)]
        for connection, _, _ in all_three:
            connection.data_received(b"".join(map(frame, requests)))
        assert [len(one.seen) for _, _, one in all_three] == [SHARE_MS + 1, 1, 1]
        await asyncio.sleep(0)  # without a new share of time each connection handles one request in an iteration
        assert [len(one.seen) for _, _, one in all_three] == [SHARE_MS + 2, 2, 2]
        iterations = 0
        while any(one.seen != requests for _, _, one in all_three):
            clock.begin_iteration()
            before = clock.mono_ms()
            await asyncio.sleep(0)
            assert clock.mono_ms() - before <= SHARE_MS + REQUESTS_EACH + len(all_three)
            iterations += 1
        assert iterations < 40
        for _, transport, _ in all_three:
            assert b"".join(transport.writes) == b"".join(map(frame, requests))

    async def test_a_connection_that_ends_in_between_handles_no_more_requests(self, harness: ConnectionHarness) -> None:
        harness.receive(*[b"a"] * REQUESTS_AT_ONCE * 2)
        harness.connection.connection_lost(None)
        await turn()
        assert len(harness.echo.seen) == REQUESTS_AT_ONCE

    async def test_many_small_answers_are_written_before_they_grow_too_large(self, harness: ConnectionHarness) -> None:
        harness.connection.data_received(frame(b"r" * 10_000) * 1_000)
        for _ in range(1_000 // REQUESTS_AT_ONCE):
            await turn()
        assert len(harness.echo.seen) == 1_000
        assert max(map(len, harness.transport.writes)) < 2 * OUTPUT_HIGH_BYTES

    async def test_large_requests_wait_when_queued_max_request_bytes_is_reached(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        big = frame(b"b" * 200_000)
        harness.connection.data_received(big[:90_000])
        other, transport, echo = harness.connect()
        other.data_received(big[:90_000])
        assert harness.reads()
        assert not reads(transport)
        harness.connection.data_received(big[90_000:])
        assert harness.echo.seen == [b"b" * 200_000]
        harness.clock.advance(1)
        assert reads(transport)
        other.data_received(big[90_000:])
        assert echo.seen == [b"b" * 200_000]
        assert harness.limits.memory.left == 100_000

    async def test_small_requests_do_not_wait_for_memory(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        harness.connection.data_received(frame(b"b" * 200_000)[:500])
        other, transport, echo = harness.connect()
        other.data_received(frame(b"beat")[:6])
        assert reads(transport)
        other.data_received(frame(b"beat")[6:])
        assert echo.seen == [b"beat"]

    async def test_a_large_request_counts_as_memory_until_it_is_decoded(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        harness.receive(b"park")
        big = frame(b"read" + b"b" * 200_000)
        for start in range(0, len(big), 60_000):
            harness.connection.data_received(big[start : start + 60_000])
        left = 100_000 - len(big)
        assert harness.limits.memory.left <= left + 4, "behind a parked one"
        harness.echo.release()
        await turn()
        assert harness.echo.seen[-1].startswith(b"read")
        assert harness.limits.memory.left <= left + 4, "it is being read"
        harness.echo.is_reading = False
        harness.connection.request_decoded()
        assert harness.limits.memory.left == 100_000

    async def test_a_connection_that_waits_for_memory_releases_what_it_used(self) -> None:
        """Of two large requests, the second arrives whole with the end of the first, and no memory is left for it."""
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        first, second = frame(b"a" * 150_000), frame(b"b" * 70_000)
        harness.connection.data_received(first[:500])
        harness.connection.data_received(first[500:] + second)
        assert harness.echo.seen == [b"a" * 150_000, b"b" * 70_000]
        assert harness.limits.memory.left == 100_000
        assert harness.reads()
        harness.receive(b"now")
        assert harness.sent.endswith(frame(b"now"))

    async def test_the_memory_of_a_request_is_released_for_the_next(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        one = frame(b"a" * 150_000)
        harness.connection.data_received(one[:500])
        harness.connection.data_received(one[500:] + one[:5_000])
        assert harness.reads()
        harness.connection.data_received(one[5_000:])
        assert len(harness.echo.seen) == 2
        assert harness.limits.memory.left == 100_000

    async def test_a_small_partial_request_takes_no_memory(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        large = frame(b"b" * 150_000)
        harness.connection.data_received(frame(b"read") + large[:500])
        assert harness.reads()
        harness.connection.data_received(large[500:])
        harness.echo.release()
        await turn()
        assert harness.echo.seen == [b"read", b"b" * 150_000]

    async def test_small_requests_that_do_not_end_are_counted(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=1_000_000)
        half = frame(b"b" * 60_000)[:50_000]
        strangers = [harness.connect()[0] for _ in range(30)]
        for stranger in strangers:
            stranger.data_received(half[:UNCOUNTED_BYTES])
        assert harness.limits.memory.left == 1_000_000, "so little costs nothing"
        for stranger in strangers:
            stranger.data_received(half[UNCOUNTED_BYTES:])
        assert harness.limits.memory.left == 1_000_000 - 30 * len(half)
        small, transport, echo = harness.connect()
        small.data_received(frame(b"b" * 60_000)[:50_000])
        assert reads(transport), "it is finished"
        small.data_received(frame(b"b" * 60_000)[50_000:] + frame(b"beat"))
        assert echo.seen == [b"b" * 60_000, b"beat"]
        with capture_logs():
            for _ in range(2):
                harness.connect()[0].data_received(frame(b"b" * 900_000)[:100_000])
            harness.clock.advance(STALLED_MS + PATIENCE_MS + 3 * CHECK_EVERY_MS)
        assert any(stranger.core.has_ended for stranger in strangers), "others wait for their memory"
        for stranger in strangers:
            stranger.connection_lost(None)
        assert harness.limits.memory.left >= 800_000

    async def test_small_requests_behind_the_present_one_are_counted_when_they_are_many(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=1_000_000)
        one = frame(b"b" * 10_000)
        harness.receive(b"park")
        harness.connection.data_received(6 * one)
        assert (harness.reads(), harness.limits.memory.left) == (True, 1_000_000)
        harness.connection.data_received(4 * one)
        assert (harness.reads(), harness.limits.memory.left) == (False, 900_000)
        harness.echo.release()
        await turn()
        assert len(harness.echo.seen) == 11
        assert (harness.reads(), harness.limits.memory.left) == (True, 1_000_000)

    async def test_a_connection_that_ends_releases_its_memory(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        big = frame(b"b" * 200_000)
        harness.connection.data_received(big[:90_000])
        other, transport, _ = harness.connect()
        other.data_received(big[:90_000])
        assert not reads(transport)
        harness.connection.connection_lost(None)
        harness.clock.advance(1)
        assert reads(transport)
        other.connection_lost(None)
        assert harness.limits.memory.left == 100_000

    async def test_a_connection_that_stops_sending_is_closed_for_one_that_waits(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        big = frame(b"b" * 200_000)
        harness.connection.data_received(big[:90_000])
        harness.clock.advance(60_000)
        assert harness.closed() == "", "nobody waits"
        other, transport, _ = harness.connect()
        other.data_received(big[:90_000])
        with capture_logs() as logs:
            harness.clock.advance(STALLED_MS + 2 * CHECK_EVERY_MS)
        assert harness.closed()
        assert "need its memory" in logs[0]["why"]
        harness.connection.connection_lost(None)
        harness.clock.advance(1)
        assert reads(transport)

    async def test_a_connection_that_stays_slow_is_closed_too(self) -> None:
        harness = ConnectionHarness(queued_max_request_bytes=100_000)
        harness.connection.data_received(frame(b"b" * 200_000)[:90_000])
        other, _, _ = harness.connect()
        other.data_received(frame(b"b" * 200_000)[:90_000])
        with capture_logs():
            for _ in range(PATIENCE_MS // 1_000 + 2):
                if not harness.closed():
                    harness.connection.data_received(b"b")
                harness.clock.advance(1_000)
        assert harness.closed()

    async def test_unread_answers_are_counted(self, harness: ConnectionHarness) -> None:
        harness.transport.slow = harness.connection
        harness.receive(b"huge")
        assert harness.limits.unsent.bytes == OUTPUT_HIGH_BYTES + 1
        harness.connection.resume_writing()
        assert harness.limits.unsent.bytes == 0
        harness.receive(b"huge")
        harness.connection.connection_lost(None)
        assert harness.limits.unsent.bytes == 0


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
