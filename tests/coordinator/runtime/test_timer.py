from __future__ import annotations

from muster.coordinator.runtime.replies import ShardTimer
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.system.clock import ManualClock


class TimerHarness:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.rang: list[int] = []
        self.timer = ShardTimer(self.clock, lambda: self.rang.append(self.clock.mono_ms()))


def test_the_timer_fires_once_at_the_earliest_deadline() -> None:
    harness = TimerHarness()
    harness.timer.set(50)
    harness.timer.set(20)
    harness.timer.set(30)
    assert harness.timer.due_ms == 20
    harness.clock.advance(100)
    assert (harness.rang, harness.timer.due_ms) == ([20], NEVER)


def test_the_timer_is_off_without_a_deadline() -> None:
    harness = TimerHarness()
    harness.timer.set(50)
    harness.timer.set(None)
    assert harness.timer.due_ms == NEVER
    harness.timer.cancel()
    harness.clock.advance(100)
    assert harness.rang == []
