from __future__ import annotations

from typing import Any

from muster.coordinator.runtime.replies import ANSWERS_AT_ONCE, LATE_MS, PendingReplies
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Reply
from muster.coordinator.system.clock import ManualClock
from muster.protocol.messages.heartbeat import HeartbeatResponse


class RepliesHarness:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.replies = PendingReplies(self.clock)
        self.given: list[int] = []

    def reply(self, number: int) -> Reply:
        return self.give, HeartbeatResponse(number)

    def give(self, response: Any) -> None:
        self.given.append(response.throttle_time_ms)


def test_replies_are_sent_in_the_order_of_their_positions() -> None:
    harness = RepliesHarness()
    harness.replies.park(3, [harness.reply(1), harness.reply(2)], 0)
    harness.replies.park(5, [harness.reply(3)], 0)
    harness.replies.park_behind(harness.reply(4))
    harness.replies.release(2)
    assert harness.given == []
    harness.replies.release(4)
    assert harness.given == [1, 2]
    harness.replies.release(5)
    assert harness.given == [1, 2, 3, 4]
    harness.replies.release(9)


def test_many_replies_are_sent_over_several_iterations() -> None:
    harness = RepliesHarness()
    count = 2 * ANSWERS_AT_ONCE + 1
    harness.replies.send([harness.reply(number) for number in range(count)])
    assert len(harness.given) == ANSWERS_AT_ONCE
    harness.replies.send_rest()
    assert harness.given == list(range(count))
    harness.clock.advance(0)
    assert len(harness.given) == count


def test_removed_replies_are_not_sent() -> None:
    harness = RepliesHarness()
    harness.replies.park(3, [harness.reply(1)], 0)
    harness.replies.park(4, [harness.reply(2)], 0)
    assert [response.throttle_time_ms for _, response in harness.replies.remove_all()] == [1, 2]
    harness.replies.release(9)
    assert harness.given == []


def test_the_waiting_times_of_replies_are_recorded() -> None:
    harness = RepliesHarness()
    assert harness.replies.waits().since_ms == NEVER
    assert harness.replies.waits(5).since_ms == 5
    harness.replies.park(3, [harness.reply(1)], 2)
    assert harness.replies.waits(5).since_ms == 2
    harness.clock.advance(LATE_MS + 3)
    harness.replies.release(3)
    assert harness.replies.waits().until(10, 50, 300) == LATE_MS + 3 + 50
