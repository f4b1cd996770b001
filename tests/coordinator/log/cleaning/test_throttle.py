"""Work in a thread pauses when it has used its share, and ends when it is stopped."""

from __future__ import annotations

import threading

import pytest

from muster.coordinator.log.cleaning import compaction as module
from muster.coordinator.log.cleaning.compaction import Stopped, Throttle


class Waits(threading.Event):
    """Notes the waiting times, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return self.is_set()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The CPU seconds of the thread, set by the test."""
    clock = [0.0]
    monkeypatch.setattr(module, "thread_cpu_s", lambda: clock[0])
    return clock


def test_a_share_of_a_fifth_of_a_core_rests_four_times_as_long_as_it_works(used: list[float]) -> None:
    waits = Waits()
    throttle = Throttle(waits, cpu_share=0.2, bytes_per_second=1e18)
    used[0] = 0.0005
    throttle.spent(1)
    assert waits.pauses == []
    used[0] = 0.002
    throttle.spent(1)
    assert waits.pauses == [pytest.approx(0.008)]


def test_bytes_are_throttled_too(used: list[float]) -> None:
    waits = Waits()
    throttle = Throttle(waits, cpu_share=1.0, bytes_per_second=1000)
    throttle.spent(100)
    used[0] = 0.001
    throttle.spent(100)
    assert waits.pauses == [pytest.approx(0.199)]


def test_the_throttle_does_not_pause_without_limits(used: list[float]) -> None:
    waits = Waits()
    throttle = Throttle(waits, cpu_share=1.0, bytes_per_second=1e18)
    for second in range(5):
        used[0] = float(second)
        throttle.spent(1 << 20)
    assert waits.pauses == []


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_the_throttle_ends_at_once_when_stopped(used: list[float], share: float) -> None:
    waits = Waits()
    throttle = Throttle(waits, cpu_share=share, bytes_per_second=1e18)
    waits.set()
    used[0] = 0.00001
    with pytest.raises(Stopped):
        throttle.spent(1)
