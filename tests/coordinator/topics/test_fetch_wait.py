from __future__ import annotations

from muster.coordinator.clock import ManualClock
from muster.coordinator.slices import at_once
from muster.coordinator.topics.fetch_wait import FetchWait
from muster.coordinator.topics.topics import Topics
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce


class Parked:
    """A reader of two partitions that waits for `min_bytes`."""

    def __init__(self, min_bytes: int = 1, available: int = 0, committed: bool = False) -> None:
        self.clock = ManualClock()
        self.topics: Topics = make_topics(clock=self.clock)
        self.first = add_topic(self.topics, "a")
        self.second = add_topic(self.topics, "b")
        self.times = 0
        self.wait = FetchWait(self.clock, [self.first, self.second], min_bytes, available, 500, committed, self._ready)

    def _ready(self) -> None:
        self.times += 1


def test_an_append_wakes_once() -> None:
    parked = Parked()
    produce(parked.second, batch(b"x"), parked.clock.now())
    produce(parked.first, batch(b"x"), parked.clock.now())
    parked.clock.advance(1000)
    assert parked.times == 1


def test_the_clock_wakes() -> None:
    parked = Parked()
    parked.clock.advance(499)
    assert parked.times == 0
    parked.clock.advance(1)
    assert parked.times == 1


def test_small_appends_add_up_to_the_bytes_wanted() -> None:
    size = len(batch(b"x"))
    parked = Parked(min_bytes=3 * size, available=size)
    produce(parked.first, batch(b"x"), parked.clock.now())
    assert parked.times == 0
    produce(parked.second, batch(b"x"), parked.clock.now())
    assert parked.times == 1


def test_a_topic_that_goes_wakes() -> None:
    parked = Parked(min_bytes=1000)
    at_once(parked.topics.deleting(parked.topics.by_name["a"]))
    assert parked.times == 1


def test_a_cancelled_wait_is_never_heard_of() -> None:
    parked = Parked()
    parked.wait.cancel()
    produce(parked.first, batch(b"x"), parked.clock.now())
    parked.clock.advance(1000)
    assert parked.times == 0


def test_an_open_transaction_is_no_news_to_readers_of_committed_records() -> None:
    parked = Parked(committed=True)
    data = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    parked.first.log.append(0, data, wall_ms=1)
    assert parked.times == 0
    produce(parked.second, batch(b"x"), parked.clock.now())
    assert parked.times == 1
