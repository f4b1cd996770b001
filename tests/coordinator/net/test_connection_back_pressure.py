"""When a connection stops reading, and how it shares memory and time with others."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from muster.coordinator.net.connection import REQUESTS_AT_ONCE, REQUESTS_EACH
from muster.coordinator.net.connection_core import (
    INPUT_HIGH_BYTES,
    OUTPUT_HIGH_BYTES,
    UNCOUNTED_BYTES,
)
from muster.coordinator.net.limits import SHARE_MS, Share
from muster.coordinator.net.request_memory import CHECK_EVERY_MS, PATIENCE_MS, STALLED_MS
from tests.coordinator.net.connection_harness import ConnectionHarness, TickingClock, frame, reads, turn


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
