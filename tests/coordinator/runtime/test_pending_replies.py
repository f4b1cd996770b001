from __future__ import annotations

from typing import Any

from muster.coordinator.runtime.replies import ANSWERS_AT_ONCE, LATE_MS, PendingReplies
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.system.clock import ManualClock


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.replies = PendingReplies(self.clock)
        self.given: list[Any] = []

    def reply(self, what: Any) -> Any:
        return self.given.append, what


def test_replies_are_sent_in_the_order_of_their_positions() -> None:
    bench = Bench()
    bench.replies.park(3, [bench.reply("a"), bench.reply("b")], 0)
    bench.replies.park(5, [bench.reply("c")], 0)
    bench.replies.park_behind(bench.reply("d"))
    bench.replies.release(2)
    assert bench.given == []
    bench.replies.release(4)
    assert bench.given == ["a", "b"]
    bench.replies.release(5)
    assert bench.given == ["a", "b", "c", "d"]
    bench.replies.release(9)


def test_many_replies_are_sent_over_several_iterations() -> None:
    bench = Bench()
    count = 2 * ANSWERS_AT_ONCE + 1
    bench.replies.send([bench.reply(number) for number in range(count)])
    assert len(bench.given) == ANSWERS_AT_ONCE
    bench.replies.send_rest()
    assert bench.given == list(range(count))
    bench.clock.advance(0)
    assert len(bench.given) == count


def test_removed_replies_are_not_sent() -> None:
    bench = Bench()
    bench.replies.park(3, [bench.reply("a")], 0)
    bench.replies.park(4, [bench.reply("b")], 0)
    assert [response for _, response in bench.replies.remove_all()] == ["a", "b"]
    bench.replies.release(9)
    assert bench.given == []


def test_the_waiting_times_of_replies_are_recorded() -> None:
    bench = Bench()
    assert bench.replies.waits().since_ms == NEVER
    assert bench.replies.waits(5).since_ms == 5
    bench.replies.park(3, [bench.reply("a")], 2)
    assert bench.replies.waits(5).since_ms == 2
    bench.clock.advance(LATE_MS + 3)
    bench.replies.release(3)
    assert bench.replies.waits().until(10, 50, 300) == LATE_MS + 3 + 50
