"""A connection under random events, on both of its paths."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.net.connection_core import (
    INPUT_HIGH_BYTES,
    SMALL_BYTES,
)
from tests.coordinator.net.connection_harness import ConnectionHarness, frame, turn

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
