from __future__ import annotations

from muster.coordinator.runtime.replies import ShardTimer
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.system.clock import ManualClock


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.rang: list[int] = []
        self.timer = ShardTimer(self.clock, lambda: self.rang.append(self.clock.mono_ms()))


def test_the_timer_fires_once_at_the_earliest_deadline() -> None:
    bench = Bench()
    bench.timer.set(50)
    bench.timer.set(20)
    bench.timer.set(30)
    assert bench.timer.due_ms == 20
    bench.clock.advance(100)
    assert (bench.rang, bench.timer.due_ms) == ([20], NEVER)


def test_the_timer_is_off_without_a_deadline() -> None:
    bench = Bench()
    bench.timer.set(50)
    bench.timer.set(None)
    assert bench.timer.due_ms == NEVER
    bench.timer.cancel()
    bench.clock.advance(100)
    assert bench.rang == []
