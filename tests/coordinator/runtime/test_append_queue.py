from __future__ import annotations

import pytest

from muster.coordinator.runtime.replies import BATCH_BYTES, AppendQueue
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.clock import ManualClock


class QueueHarness:
    def __init__(self, linger_ms: int) -> None:
        self.clock = ManualClock(0)
        self.flushed: list[int] = []
        self.queue = AppendQueue(self.clock, linger_ms, lambda: self.flushed.append(self.clock.mono_ms()))


def test_records_of_many_commands_share_a_batch_until_it_is_full() -> None:
    queue = QueueHarness(-1).queue
    first = queue.add([], BATCH_BYTES - 10, None, [], [])
    assert queue.add([], 10, None, [], []) is first
    second = queue.add([], 1, None, [], [])
    assert second is not first
    assert queue.batches == [first, second]
    assert (first.size, second.size) == (BATCH_BYTES, 1)
    assert queue.add([], 2 * BATCH_BYTES, None, [], []).size == 2 * BATCH_BYTES


def test_each_batch_has_records_of_one_producer() -> None:
    queue = QueueHarness(-1).queue
    producers = [None, Producer(1, 0), Producer(1, 0), Producer(1, 1), Producer(2, 1), None, None]
    for producer in producers:
        queue.add([], 1, producer, [], [])
    assert [batch.producer for batch in queue.batches] == [None, (1, 0), (1, 1), (2, 1), None]


@pytest.mark.parametrize(("linger_ms", "at"), [(-1, 0), (7, 7)])
def test_the_append_queue_asks_once_to_be_flushed(linger_ms: int, at: int) -> None:
    harness = QueueHarness(linger_ms)
    for producer in (None, Producer(1, 0)):
        harness.queue.add([], 1, producer, [], [])
    assert not harness.queue.at_once
    harness.clock.advance(20)
    assert harness.flushed == [at]


def test_the_append_queue_asks_for_no_flush_without_a_linger() -> None:
    harness = QueueHarness(0)
    assert harness.queue.at_once
    harness.queue.add([], 1, None, [], [])
    harness.clock.advance(20)
    assert harness.flushed == []


def test_removed_batches_are_no_longer_in_the_append_queue() -> None:
    queue = QueueHarness(0).queue
    batch = queue.add([], 1, None, [], [])
    assert queue.remove_all() == [batch]
    assert queue.remove_all() == queue.batches == []
