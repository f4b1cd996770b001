"""One memory for all answers: shares, answers that wait, and connections that are closed. In virtual time."""

from __future__ import annotations

from typing import Final

import pytest

from muster.coordinator.api.unsent import (
    CHECK_EVERY_MS,
    NEXT_MS,
    PAUSE_MS,
    SHARE,
    STALLED_BYTES,
    STALLED_MS,
    WAITED_FOR_MS,
    WAITED_MS,
    Taken,
    Unsent,
)
from muster.coordinator.system.clock import ManualClock

MB: Final = 1 << 20
LIMIT: Final = 128 * MB


class Reader:
    """A connection whose answer is not read."""

    def __init__(self, unsent_bytes: int, kernel_bytes: int = 0) -> None:
        self.unsent_bytes = unsent_bytes
        self.kernel_bytes = kernel_bytes
        self.is_closed = False

    @property
    def unread_bytes(self) -> int:
        return self.unsent_bytes + self.kernel_bytes

    def read(self, size: int) -> None:
        """Read; bytes in the system's buffer come first."""
        self.kernel_bytes -= size
        if self.kernel_bytes < 0:
            self.unsent_bytes += self.kernel_bytes
            self.kernel_bytes = 0

    def close_stalled(self) -> None:
        self.is_closed = True


def hold(unsent: Unsent, *sizes: int) -> list[Reader]:
    readers = [Reader(size) for size in sizes]
    for reader in readers:
        unsent.hold(reader)
    return readers


class TestFetch:
    def test_answers_have_unlimited_memory_without_a_limit(self) -> None:
        unsent = Unsent(ManualClock(0))
        hold(unsent, 1 << 40)
        assert unsent.room() > 1 << 40
        assert not unsent.must_wait

    def test_an_answer_may_take_a_part_of_the_remaining_memory(self) -> None:
        unsent = Unsent(ManualClock(0), 1_000)
        readers = []
        for _ in range(100):
            room = unsent.room()
            assert room * SHARE <= 1_000 - unsent.bytes or room == 1
            readers += hold(unsent, room)
        assert unsent.bytes <= 1_000
        for reader in readers:
            unsent.release(reader)
            unsent.release(reader)
        assert unsent.bytes == 0
        assert unsent.room() == 250

    def test_an_answer_gets_no_memory_when_all_is_used(self) -> None:
        unsent = Unsent(ManualClock(0), 1_000)
        hold(unsent, 1_200)
        assert unsent.room() == 0

    def test_bytes_sent_meanwhile_are_counted_when_memory_is_short(self) -> None:
        unsent = Unsent(ManualClock(0), 1_000)
        (reader,) = hold(unsent, 1_200)
        reader.unsent_bytes = 400
        assert unsent.room() == 150


class TestReaders:
    def test_a_connection_that_reads_nothing_is_closed_without_further_requests(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        stalled, slow = hold(unsent, 60 * MB, 30 * MB)
        for _ in range(STALLED_MS // CHECK_EVERY_MS + 2):
            clock.advance(CHECK_EVERY_MS)
            slow.read(STALLED_BYTES // 5)
        assert (stalled.is_closed, slow.is_closed) == (True, False)
        assert unsent.bytes <= 30 * MB

    def test_a_connection_that_reads_nothing_is_closed_sooner_if_an_answer_waits(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        stalled, slow = hold(unsent, 70 * MB, 30 * MB)
        done: list[int] = []
        unsent.wait("a", lambda: not done.append(clock.mono_ms()))
        for _ in range(8):
            clock.advance(1_000)
            slow.read(STALLED_BYTES)
        assert (stalled.is_closed, slow.is_closed) == (True, False)
        assert done[0] <= WAITED_FOR_MS + 2 * CHECK_EVERY_MS

    def test_many_connections_that_read_nothing_are_closed_quickly_one_after_the_other(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        done: list[int] = []
        readers: list[Reader] = []

        def next_evil() -> bool:
            readers.extend(hold(unsent, 30 * MB))
            return True

        for _ in range(40):
            unsent.wait("a", next_evil)
        unsent.wait("a", lambda: not done.append(clock.mono_ms()))
        while not done:
            clock.advance(1_000)
        # four answers are unread at a time; each later answer gets a second, and the check runs once a second
        assert done[0] <= WAITED_FOR_MS + 10 * (NEXT_MS + CHECK_EVERY_MS)

    def test_bytes_that_the_operating_system_has_sent_count_as_read(self) -> None:
        """The system takes many bytes before its buffer has space again: meanwhile the connection sees nothing."""
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        reader = Reader(100 * MB, 4 * MB)
        unsent.hold(reader)
        for _ in range(60):
            clock.advance(1_000)
            reader.read(20_000)
        assert reader.unsent_bytes == 100 * MB
        assert not reader.is_closed

    def test_no_connection_is_closed_while_there_is_memory(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, 1_000)
        (reader,) = hold(unsent, 400)
        clock.advance(STALLED_MS * 20)
        unsent.room()
        assert not reader.is_closed

    def test_a_connection_that_reads_single_bytes_is_closed(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        (reader,) = hold(unsent, 100 * MB)
        for _ in range(2 * STALLED_MS // 1_000):
            clock.advance(1_000)
            reader.read(1)
        assert reader.is_closed

    def test_the_slowest_connection_is_closed_when_others_have_waited_long(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        readers = hold(unsent, *[31 * MB] * 4)
        done: list[str] = []
        unsent.wait("a", lambda: not done.append("a"))
        waited_ms = 0
        while not done:
            for number, reader in enumerate(readers):
                reader.read(10_000 * (number + 1))
            clock.advance(1_000)
            waited_ms += 1_000
            assert waited_ms <= WAITED_MS + 3 * CHECK_EVERY_MS
        assert [one.is_closed for one in readers] == [True, False, False, False]

    def test_slow_connections_are_closed_also_for_waiting_fetches(self) -> None:
        clock = ManualClock(0)
        unsent = Unsent(clock, LIMIT)
        readers = hold(unsent, *[63 * MB] * 2)
        for _ in range(2 * WAITED_MS // 1_000):
            for reader in readers:
                reader.read(10_000)
            unsent.room()
            clock.advance(1_000)
        assert any(one.is_closed for one in readers)
        assert unsent.room() > MB


class Answer:
    """An answer that grows by a megabyte in each step of its job."""

    def __init__(self, unsent: Unsent, size: int, host: str = "a") -> None:
        self.unsent = unsent
        self.taken = Taken(unsent, host)
        self.size = size
        self.waits = False
        self.reader: Reader | None = None

    def step(self) -> None:
        if self.waits or self.is_made:
            return
        self.taken.set(self.taken.bytes + MB)
        if self.taken.bytes >= self.size:
            self.reader = Reader(self.size)
            self.unsent.hold(self.reader)
            self.taken.release()
        elif not self.taken.may_grow:
            self.waits = True
            self.taken.when_it_may(self.goes_on)

    def goes_on(self) -> None:
        self.waits = False

    @property
    def is_made(self) -> bool:
        return self.reader is not None


@pytest.mark.parametrize("number", [5, 40])
def test_unread_answers_are_bounded_and_other_clients_still_get_answers(number: int) -> None:
    clock = ManualClock(0)
    unsent = Unsent(clock, LIMIT)
    evil = [Answer(unsent, 32 * MB) for _ in range(number)]
    honest = Answer(unsent, 20 * MB, "b")
    waited_ms = 0
    while not honest.is_made:
        for one in (*evil, honest):
            one.step()
        assert unsent.bytes <= LIMIT + 32 * MB + number * MB
        clock.advance(PAUSE_MS)
        waited_ms += PAUSE_MS
        for one in evil:
            if one.reader is not None and one.reader.is_closed:
                unsent.release(one.reader)
        assert waited_ms <= 3 * (STALLED_MS + CHECK_EVERY_MS)


def test_many_answers_that_are_read_are_all_made_in_turn() -> None:
    clock = ManualClock(0)
    unsent = Unsent(clock, LIMIT)
    answers = [Answer(unsent, 32 * MB, f"host {n % 5}") for n in range(60)]
    for _ in range(60 * 40):
        for one in answers:
            one.step()
            if one.reader is not None:
                unsent.release(one.reader)
        clock.advance(PAUSE_MS)
        assert unsent.bytes <= LIMIT + (32 + 60) * MB, "each takes a row before it is asked to wait"
    assert all(one.is_made for one in answers)
    assert unsent.bytes == 0


def test_an_abandoned_answer_lets_the_next_one_continue() -> None:
    clock = ManualClock(0)
    unsent = Unsent(clock, 100)
    first, second, third = (Taken(unsent) for _ in range(3))
    went: list[str] = []
    for name, one in (("first", first), ("second", second), ("third", third)):
        one.set(40)
        assert not one.may_grow
        one.when_it_may(lambda name=name: went.append(name))
    clock.advance(PAUSE_MS)
    assert went == ["first"]
    assert first.may_grow
    second.release()
    first.release()
    clock.advance(PAUSE_MS)
    assert went == ["first", "third"]
    third.release()
    assert unsent.bytes == 0
    unsent.stop()
