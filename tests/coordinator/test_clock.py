from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from muster.coordinator.clock import LoopClock, ManualClock
from muster.coordinator.groups.interface import Now


class TestManualClock:
    def test_time_stands_still_until_it_is_advanced(self) -> None:
        clock = ManualClock(1_000, 5_000)
        assert clock.now() == (1_000, 5_000)
        clock.advance(250)
        assert clock.now() == (1_250, 5_250)

    def test_timers_ring_in_the_order_of_their_times_and_see_them(self) -> None:
        clock = ManualClock(0)
        rung: list[tuple[str, int]] = []
        clock.call_at(30, lambda: rung.append(("b", clock.now().mono_ms)))
        clock.call_at(10, lambda: rung.append(("a", clock.now().mono_ms)))
        clock.call_at(30, lambda: rung.append(("c", clock.now().mono_ms)))
        clock.call_at(31, lambda: rung.append(("later", clock.now().mono_ms)))
        clock.advance(30)
        assert rung == [("a", 10), ("b", 30), ("c", 30)]

    def test_a_timer_set_by_a_timer_rings_in_the_same_advance_when_due(self) -> None:
        clock = ManualClock(0)
        rung: list[int] = []
        clock.call_at(5, lambda: clock.call_at(7, lambda: rung.append(clock.now().mono_ms)))
        clock.advance(10)
        assert rung == [7]
        assert clock.now().mono_ms == 10

    def test_a_cancelled_timer_stays_silent(self) -> None:
        clock = ManualClock(0)
        rung: list[int] = []
        timer = clock.call_at(5, lambda: rung.append(1))
        timer.cancel()
        timer.cancel()
        clock.advance(10)
        assert rung == []

    def test_a_past_time_rings_at_the_next_advance_without_going_back(self) -> None:
        clock = ManualClock(100)
        rung: list[int] = []
        clock.call_at(5, lambda: rung.append(clock.now().mono_ms))
        assert rung == []
        clock.advance(0)
        assert rung == [100]

    def test_what_is_to_happen_soon_happens_in_the_next_advance_in_order(self) -> None:
        clock = ManualClock()
        called: list[str] = []
        clock.call_soon(lambda: called.append("first"))
        clock.call_soon(lambda: called.append("second"))
        assert called == []
        clock.advance(0)
        assert called == ["first", "second"]


class TestLoopClock:
    async def test_a_moment_lasts_as_long_as_the_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        times = iter(range(100))
        monkeypatch.setattr(LoopClock, "now", lambda _: Now(next(times), 0))
        seen = [clock.moment(), clock.moment()]
        clock.call_soon(lambda: seen.extend((clock.moment(), clock.moment())))
        await asyncio.sleep(0)
        seen.append(clock.moment())
        await asyncio.sleep(0)
        seen.append(clock.moment())
        assert [now.mono_ms for now in seen] == [0, 0, 1, 1, 2, 4], "the third turn asked at its end, for nobody"

    async def test_what_is_to_happen_soon_happens_in_order_after_the_turn(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        called: list[str] = []
        ended: asyncio.Future[None] = loop.create_future()

        def first() -> None:
            called.append("first")
            clock.call_soon(lambda: ended.set_result(None))

        clock.call_soon(first)
        clock.call_soon(lambda: called.append("second"))
        assert called == []
        await ended
        assert called == ["first", "second"]

    async def test_one_that_fails_keeps_nobody_else_from_being_called(self) -> None:
        loop = asyncio.get_running_loop()
        faults: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        clock = LoopClock(loop)
        ended: asyncio.Future[None] = loop.create_future()

        def fail() -> None:
            raise RuntimeError("a bug")

        clock.call_soon(fail)
        clock.call_soon(lambda: ended.set_result(None))
        await ended
        assert [str(fault["exception"]) for fault in faults] == ["a bug"]

    async def test_all_sockets_that_are_ready_are_looked_at_first(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        seen: list[str] = []
        ended: asyncio.Future[None] = loop.create_future()
        pairs = [socket.socketpair() for _ in range(3)]

        def look(number: int) -> None:
            pairs[number][0].recv(1)
            if not seen:
                clock.call_soon(lambda: (seen.append("end"), ended.set_result(None)))
            seen.append("socket")

        for ours, theirs in pairs:
            theirs.send(b"x")
            ours.setblocking(False)
        for number, (ours, _) in enumerate(pairs):
            loop.add_reader(ours, look, number)
        await ended
        assert seen == ["socket", "socket", "socket", "end"]
        for ours, theirs in pairs:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()

    async def test_a_timer_never_rings_early_by_the_clock_itself(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        for delay_ms in (0, 1, 2, 3, 7):
            rang: asyncio.Future[int] = loop.create_future()
            due = clock.now().mono_ms + delay_ms
            clock.call_at(due, lambda rang=rang: rang.set_result(clock.now().mono_ms))  # type: ignore[misc]
            assert await rang >= due

    async def test_a_cancelled_timer_stays_silent(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        rang: list[int] = []
        later: asyncio.Future[None] = loop.create_future()
        now = clock.now().mono_ms
        clock.call_at(now + 1, lambda: rang.append(1)).cancel()
        clock.call_at(now + 5, lambda: later.set_result(None))
        await later
        assert rang == []

    async def test_a_timer_that_was_called_early_is_set_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """uvloop may call up to a millisecond early."""
        loop = asyncio.get_running_loop()
        real = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda delay, *args: real(delay / 2, *args))
        clock = LoopClock(loop)
        due = clock.now().mono_ms + 8
        rang: asyncio.Future[int] = loop.create_future()
        clock.call_at(due, lambda: rang.set_result(clock.now().mono_ms))
        assert await rang >= due

    def test_wall_and_monotonic_time_are_milliseconds(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            now = LoopClock(loop).now()
        finally:
            loop.close()
        assert now.wall_ms > 1_600_000_000_000
        assert 0 < now.mono_ms < now.wall_ms
