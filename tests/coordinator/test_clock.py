from __future__ import annotations

import asyncio
import itertools
import select
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system import clock as clock_module
from muster.coordinator.system import clock as clocks
from muster.coordinator.system.clock import LoopClock, ManualClock
from muster.coordinator.system.event_loop import ServerLoop
from tests.support import unseen_faults


class TestManualClock:
    def test_the_manual_clock_stands_still_until_it_is_advanced(self) -> None:
        clock = ManualClock(1_000, 5_000)
        assert clock.now() == (1_000, 5_000)
        clock.advance(250)
        assert clock.now() == (1_250, 5_250)

    def test_timers_fire_in_the_order_of_their_times(self) -> None:
        clock = ManualClock(0)
        rung: list[tuple[str, int]] = []
        clock.call_at(30, lambda: rung.append(("b", clock.now().mono_ms)))
        clock.call_at(10, lambda: rung.append(("a", clock.now().mono_ms)))
        clock.call_at(30, lambda: rung.append(("c", clock.now().mono_ms)))
        clock.call_at(31, lambda: rung.append(("later", clock.now().mono_ms)))
        clock.advance(30)
        assert rung == [("a", 10), ("b", 30), ("c", 30)]

    def test_a_timer_set_by_a_timer_fires_in_the_same_advance_if_due(self) -> None:
        clock = ManualClock(0)
        rung: list[int] = []
        clock.call_at(5, lambda: clock.call_at(7, lambda: rung.append(clock.now().mono_ms)))
        clock.advance(10)
        assert rung == [7]
        assert clock.now().mono_ms == 10

    def test_a_cancelled_timer_does_not_fire(self) -> None:
        clock = ManualClock(0)
        rung: list[int] = []
        timer = clock.call_at(5, lambda: rung.append(1))
        timer.cancel()
        timer.cancel()
        clock.advance(10)
        assert rung == []

    def test_a_timer_in_the_past_fires_at_the_next_advance(self) -> None:
        clock = ManualClock(100)
        rung: list[int] = []
        clock.call_at(5, lambda: rung.append(clock.now().mono_ms))
        assert rung == []
        clock.advance(0)
        assert rung == [100]

    def test_soon_calls_run_in_order_in_the_next_advance(self) -> None:
        clock = ManualClock()
        called: list[str] = []
        clock.call_soon(lambda: called.append("first"))
        clock.call_soon(lambda: called.append("second"))
        assert called == []
        clock.advance(0)
        assert called == ["first", "second"]


class TestLoopClock:
    async def test_the_time_is_constant_within_an_iteration(self, monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def test_soon_calls_run_in_order_after_the_iteration(self) -> None:
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

    async def test_a_failing_soon_call_does_not_stop_the_others(self) -> None:
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
        assert "a bug" in unseen_faults.take()[0]

    async def test_ready_sockets_are_read_before_soon_calls(self) -> None:
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

    async def test_a_timer_never_fires_early(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        for delay_ms in (0, 1, 2, 3, 7):
            rang: asyncio.Future[int] = loop.create_future()
            due = clock.now().mono_ms + delay_ms
            clock.call_at(due, lambda rang=rang: rang.set_result(clock.now().mono_ms))
            assert await rang >= due

    async def test_a_cancelled_timer_does_not_fire(self) -> None:
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


class Machine:
    """The machine's time, which can stand still for the process: the process sees it `ahead_ms` late."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.each_look_ms = 0
        self.stands_at_ns: int | None = None

    def monotonic_ns(self) -> int:
        if self.stands_at_ns is not None:
            return self.stands_at_ns
        self.ahead_ms += self.each_look_ms
        return time.monotonic_ns() + self.ahead_ms * 1_000_000

    def time_ns(self) -> int:
        return time.time_ns()


class TimersHarness:
    """A clock on a running loop, and a socket that is read byte by byte."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.loop = asyncio.get_running_loop()
        self.clock = LoopClock(self.loop)
        self.happened: list[str] = []
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.loop.add_reader(self.ours, self._read)
        self.clock.read_first(self.input_waits)
        self.asked = 0

    def _read(self) -> None:
        self.happened.append(self.ours.recv(1).decode())

    def input_waits(self) -> bool:
        self.asked += 1
        look = select.poll()
        look.register(self.ours, select.POLLIN)
        return bool(look.poll(0))

    def timer(self, name: str, in_ms: int) -> tuple[clocks.Timer, asyncio.Future[None]]:
        rang: asyncio.Future[None] = self.loop.create_future()

        def ring() -> None:
            self.happened.append(name)
            rang.set_result(None)

        return self.clock.call_at(self.clock.mono_ms() + in_ms, ring), rang

    def close(self) -> None:
        self.loop.remove_reader(self.ours)
        self.ours.close()
        self.theirs.close()


Play = Callable[[Callable[[TimersHarness], Awaitable[None]]], None]


class TestALateTimer:
    """Bytes that came before the loop handles a late timer are read before the timer is called, on both event loops."""

    @pytest.fixture
    def machine(self, monkeypatch: pytest.MonkeyPatch) -> Machine:
        machine = Machine()
        monkeypatch.setattr(clocks, "time", machine)
        monkeypatch.setattr(clock_module, "time", machine)
        monkeypatch.setattr(clock_module, "GRACE_MS", 100)
        return machine

    @pytest.fixture(
        params=[asyncio.new_event_loop, uvloop.new_event_loop, ServerLoop], ids=["asyncio", "uvloop", "server"]
    )
    def play(self, request: pytest.FixtureRequest, machine: Machine) -> Play:
        def run(story: Callable[[TimersHarness], Awaitable[None]]) -> None:
            async def main() -> None:
                harness = TimersHarness(machine)
                try:
                    await story(harness)
                finally:
                    harness.close()

            with asyncio.Runner(loop_factory=request.param) as runner:
                runner.run(main())

        return run

    def test_a_slightly_late_timer_waits_until_each_socket_is_read(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            _, rang = harness.timer("ring", 0)
            harness.theirs.send(b"a")
            harness.machine.ahead_ms += clock_module.HELD_UP_MS // 2
            await rang
            assert harness.happened == ["a", "ring"]
            assert harness.asked == 0

        play(story)

    def test_a_timer_after_a_pause_waits_until_all_input_is_read(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            _, rang = harness.timer("ring", 0)
            harness.theirs.send(b"beats in the sockets")
            harness.machine.ahead_ms += 12_000
            await rang
            assert "".join(harness.happened) == "beats in the socketsring"

        play(story)

    def test_a_timer_after_a_pause_also_waits_for_delayed_input(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            _, rang = harness.timer("ring", 0)
            harness.machine.ahead_ms += 12_000
            harness.loop.call_later(0.01, harness.theirs.send, b"a")
            await rang
            assert harness.happened == ["a", "ring"]

        play(story)

    def test_a_timer_due_right_after_a_pause_waits_too(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            _, first = harness.timer("first", 0)
            harness.machine.ahead_ms += 12_000
            _, second = harness.timer("second", 5)
            harness.loop.call_later(0.015, harness.theirs.send, b"a")
            await asyncio.gather(first, second)
            assert harness.happened[0] == "a"

        play(story)

    def test_a_late_timer_held_up_again_reads_again(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            timer, rang = harness.timer("ring", 0)
            harness.machine.ahead_ms += 12_000
            looks = iter("ab")

            def pause() -> bool:
                name = next(looks, "")
                if name:
                    harness.theirs.send(name.encode())
                    harness.machine.ahead_ms += 12_000
                return bool(name)

            harness.clock.read_first(pause)
            await rang
            assert harness.happened == ["a", "b", "ring"]
            timer.cancel()

        play(story)

    def test_a_late_timer_held_up_in_its_grace_time_reads_again(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            _, rang = harness.timer("ring", 0)
            harness.machine.ahead_ms += 12_000

            def again() -> None:
                harness.theirs.send(b"again")
                harness.machine.ahead_ms += 12_000

            harness.loop.call_later(0.02, again)
            await rang
            assert "".join(harness.happened) == "againring"

        play(story)

    def test_a_late_timer_fires_at_last_on_a_busy_server(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clock_module, "MAX_READ_MS", 20)

        async def story(harness: TimersHarness) -> None:
            harness.clock.read_first(lambda: True)
            _, rang = harness.timer("ring", 0)
            harness.machine.ahead_ms += 12_000
            await asyncio.wait_for(rang, 20)

        play(story)

    def test_a_late_timer_fires_at_last_on_a_loop_that_is_always_late(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            harness.machine.each_look_ms = clock_module.HELD_UP_MS + 50
            _, rang = harness.timer("ring", 0)
            await asyncio.wait_for(rang, 20)

        play(story)

    def test_a_late_timer_cancelled_while_it_waits_does_not_fire(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            in_reading, _ = harness.timer("in reading", 0)
            in_grace, _ = harness.timer("in grace", 0)
            _, rang = harness.timer("ring", 0)
            harness.machine.ahead_ms += 12_000

            def look() -> bool:
                in_reading.cancel()
                harness.loop.call_soon(in_grace.cancel)
                return False

            harness.clock.read_first(look)
            await rang
            in_grace.cancel()
            assert harness.happened == ["ring"]

        play(story)

    def test_a_timer_in_time_fires_at_once(self, play: Play) -> None:
        async def story(harness: TimersHarness) -> None:
            harness.machine.stands_at_ns = time.monotonic_ns()
            _, rang = harness.timer("ring", 0)
            harness.loop.call_later(0, harness.loop.call_soon, harness.happened.append, "next")
            await rang
            assert harness.happened == ["ring"]

        play(story)

    def test_many_leave_the_loop_to_others_between_them(self, play: Play) -> None:
        # each of fifty partitions may search for expired offsets at the same time
        async def story(harness: TimersHarness) -> None:
            machine, happened, rung = harness.machine, harness.happened, asyncio.Event()

            def ring() -> None:
                machine.ahead_ms += 3
                happened.append("ring")
                if happened.count("ring") == 20:
                    rung.set()
                if happened.count("ring") == 5:
                    raise ValueError("one that fails stops no other one")

            def look() -> None:
                happened.append("others")
                if not rung.is_set():
                    harness.loop.call_soon(look)

            due_ms = harness.clock.mono_ms() + 5
            timers = [harness.clock.call_at(due_ms, ring) for _ in range(21)]
            timers[10].cancel()
            harness.loop.call_soon(look)
            await rung.wait()
            together = [len(list(run)) for what, run in itertools.groupby(happened) if what == "ring"]
            assert sum(together) == 20
            assert max(together) <= 3

        play(story)
        assert "stops no other one" in unseen_faults.take()[0]
