from __future__ import annotations

from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
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


def test_an_append_wakes_a_waiting_fetch_once() -> None:
    parked = Parked()
    produce(parked.second, batch(b"x"), parked.clock.now())
    produce(parked.first, batch(b"x"), parked.clock.now())
    parked.clock.advance(1000)
    assert parked.times == 1


def test_the_clock_wakes_a_waiting_fetch() -> None:
    parked = Parked()
    parked.clock.advance(499)
    assert parked.times == 0
    parked.clock.advance(1)
    assert parked.times == 1


def test_small_appends_add_up_to_the_minimum_bytes() -> None:
    size = len(batch(b"x"))
    parked = Parked(min_bytes=3 * size, available=size)
    produce(parked.first, batch(b"x"), parked.clock.now())
    assert parked.times == 0
    produce(parked.second, batch(b"x"), parked.clock.now())
    assert parked.times == 1


def test_a_deleted_topic_wakes_a_waiting_fetch() -> None:
    parked = Parked(min_bytes=1000)
    at_once(parked.topics.deleting(parked.topics.by_name["a"]))
    assert parked.times == 1


def test_a_cancelled_wait_is_never_called() -> None:
    parked = Parked()
    parked.wait.cancel()
    produce(parked.first, batch(b"x"), parked.clock.now())
    parked.clock.advance(1000)
    assert parked.times == 0


def test_an_open_transaction_does_not_wake_read_committed_fetches() -> None:
    parked = Parked(committed=True)
    data = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    parked.first.log.append(0, data, wall_ms=1)
    assert parked.times == 0
    produce(parked.second, batch(b"x"), parked.clock.now())
    assert parked.times == 1


def test_records_of_a_transaction_wake_read_committed_fetches_at_its_end() -> None:
    held = batch(b"x" * 1000, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    for before in (True, False):
        parked = Parked(min_bytes=1000, committed=True)
        parked.wait.cancel()
        partitions = [parked.first, parked.second]
        if before:
            parked.first.log.append(0, held, wall_ms=1)
        wait = FetchWait(parked.clock, partitions, 1000, 0, 500, True, parked._ready)
        if not before:
            parked.first.log.append(0, held, wall_ms=1)
        produce(parked.first, batch(b"y" * 1000), parked.clock.now())
        assert parked.times == 0
        parked.first.append_marker(EndMarker(1, 0, True, 0, 0), parked.clock.now())
        assert (parked.times, wait.over) == (1, True)


def test_records_of_the_next_open_transaction_do_not_count() -> None:
    parked = Parked(min_bytes=1000, committed=True)
    for producer_id, size in ((1, 10), (2, 1000)):
        data = batch(b"x" * size, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        parked.first.log.append(0, data, wall_ms=1)
    parked.first.append_marker(EndMarker(1, 0, True, 0, 0), parked.clock.now())
    assert parked.times == 0
    parked.first.append_marker(EndMarker(2, 0, True, 0, 0), parked.clock.now())
    assert parked.times == 1
