from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.clock import ManualClock
from muster.coordinator.net.request_memory import LOOK_EVERY_MS, MOST_MS, STALLED_MS, RequestMemory


class Holder:
    """A connection with one large request at a time."""

    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self.wanted = 0
        self.held = 0
        self.core: Any = self
        self.unfinished_bytes = 0
        self.waits = False
        self.is_closed = False

    def ask(self, size: int) -> None:
        self.wanted = size
        self.memory_granted()

    def memory_granted(self) -> None:
        self.waits = not self.memory.take(self, self.wanted)
        self.held = 0 if self.waits else self.wanted

    def finish(self) -> None:
        self.memory.give(self, self.held)
        self.held = 0

    def close_stalled(self) -> None:
        self.is_closed = True


def test_who_comes_when_nothing_is_left_waits_for_what_is_given_back() -> None:
    memory = RequestMemory(ManualClock(0), 100)
    first, second, third = Holder(memory), Holder(memory), Holder(memory)
    first.ask(60)
    second.ask(60)
    third.ask(10)
    assert [one.waits for one in (first, second, third)] == [False, False, True]
    first.finish()
    assert not third.waits
    second.finish()
    third.finish()
    assert memory.left == 100


def test_one_that_has_left_is_not_called() -> None:
    memory = RequestMemory(ManualClock(0), 10)
    first, second = Holder(memory), Holder(memory)
    first.ask(20)
    second.ask(20)
    memory.leave(second)
    memory.leave(first)
    assert second.waits
    assert memory.left == 10


def test_one_that_is_being_worked_on_is_not_closed() -> None:
    clock = ManualClock(0)
    memory = RequestMemory(clock, 10)
    first, second = Holder(memory), Holder(memory)
    first.ask(20)
    first.unfinished_bytes = -1
    second.ask(20)
    clock.advance(MOST_MS * 3)
    assert not first.is_closed
    memory.stop()


@given(data=st.data())
def test_nobody_waits_for_ever(data: st.DataObject) -> None:
    clock = ManualClock(0)
    memory = RequestMemory(clock, 100)
    holders: list[Holder] = []
    for _ in range(data.draw(st.integers(1, 40))):
        what = data.draw(st.sampled_from(["ask", "ask", "finish", "leave", "come", "time"]))
        chosen = data.draw(st.sampled_from(holders)) if holders else None
        if what == "ask":
            holders.append(Holder(memory))
            holders[-1].ask(data.draw(st.integers(1, 150)))
        elif chosen is not None and what == "finish" and chosen.held:
            chosen.finish()
        elif chosen is not None and what == "leave":
            memory.leave(chosen)
            holders.remove(chosen)
        elif chosen is not None and what == "come":
            chosen.unfinished_bytes += 1
        elif what == "time":
            clock.advance(LOOK_EVERY_MS)
        assert memory.left == 100 - sum(one.held for one in holders)
        assert memory.left <= 0 or not any(one.waits for one in holders)
    for _ in range(len(holders) * (STALLED_MS // LOOK_EVERY_MS + 2) * 2):
        clock.advance(LOOK_EVERY_MS)
        for one in [one for one in holders if one.is_closed]:
            memory.leave(one)
            holders.remove(one)
    assert not any(one.waits for one in holders)
