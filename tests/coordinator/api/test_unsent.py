from __future__ import annotations

from muster.coordinator.api.unsent import SHARE, STALLED_MS, Unsent
from muster.coordinator.clock import ManualClock


class Reader:
    """A connection with an answer that is not read."""

    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.is_closed = False

    def close_stalled(self) -> None:
        self.is_closed = True


def test_without_a_limit_there_is_always_room() -> None:
    unsent = Unsent(ManualClock(0))
    unsent.hold(Reader(1 << 40))
    assert unsent.room() > 1 << 40


def test_an_answer_takes_a_part_of_what_is_left() -> None:
    unsent = Unsent(ManualClock(0), 1_000)
    readers = []
    for _ in range(100):
        room = unsent.room()
        assert room * SHARE <= 1_000 - unsent.bytes or room == 1
        readers.append(Reader(room))
        unsent.hold(readers[-1])
    assert unsent.bytes <= 1_000
    for reader in readers:
        unsent.release(reader)
        unsent.release(reader)
    assert unsent.bytes == 0
    assert unsent.room() == 250


def test_no_room_at_all_when_it_is_used_up() -> None:
    unsent = Unsent(ManualClock(0), 1_000)
    unsent.hold(Reader(1_200))
    assert unsent.room() == 0


def test_what_was_sent_meanwhile_is_seen_when_the_room_is_short() -> None:
    unsent = Unsent(ManualClock(0), 1_000)
    reader = Reader(1_200)
    unsent.hold(reader)
    reader.unsent_bytes = 400
    assert unsent.room() == 150


def test_who_reads_nothing_goes_when_others_need_the_room() -> None:
    clock = ManualClock(0)
    unsent = Unsent(clock, 1_000)
    stalled, slow = Reader(900), Reader(300)
    unsent.hold(stalled)
    unsent.hold(slow)
    for _ in range(STALLED_MS // 1_000):
        clock.advance(1_000)
        slow.unsent_bytes -= 1
        unsent.room()
    assert (stalled.is_closed, slow.is_closed) == (True, False)
    assert unsent.bytes == slow.unsent_bytes


def test_nobody_goes_while_there_is_room() -> None:
    clock = ManualClock(0)
    unsent = Unsent(clock, 1_000)
    reader = Reader(400)
    unsent.hold(reader)
    clock.advance(STALLED_MS * 2)
    unsent.room()
    assert not reader.is_closed
