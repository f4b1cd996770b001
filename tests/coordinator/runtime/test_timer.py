from __future__ import annotations

from muster.coordinator.runtime.replies import NO_DELAY_MS, ShardTimer
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.system.clock import ManualClock


class StoppedClock(ManualClock):
    """A clock that stands still, while the machine's time continues."""

    of_the_machine: ManualClock

    @property
    def machine(self) -> ManualClock:
        return self.of_the_machine


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


def test_a_deadline_that_is_due_when_it_is_set_waits_some_milliseconds() -> None:
    harness = TimerHarness()
    harness.timer.set(0)
    harness.clock.advance(NO_DELAY_MS - 1)
    assert (harness.rang, harness.timer.due_ms) == ([], 0)
    harness.clock.advance(1)
    assert (harness.rang, harness.timer.due_ms) == ([NO_DELAY_MS], NEVER)


def test_what_is_left_of_many_deadlines_does_not_wait() -> None:
    harness = TimerHarness()
    left = [20, 20]
    ring = harness.timer._ring

    def ring_and_set_again() -> None:
        ring()
        harness.timer.set(left.pop() if left else None)

    harness.timer._ring = ring_and_set_again
    harness.timer.set(20)
    harness.clock.advance(20)
    assert harness.rang == [20, 20, 20]


def test_a_due_deadline_fires_while_a_test_has_stopped_the_time() -> None:
    stopped, machine = StoppedClock(1_000), ManualClock()
    stopped.of_the_machine = machine
    rang: list[int] = []
    ShardTimer(stopped, lambda: rang.append(stopped.mono_ms())).set(1_000)
    machine.advance(NO_DELAY_MS)
    assert rang == [1_000]
