"""What the state log says about one record."""

from __future__ import annotations

from muster.coordinator.share_state.record_life import LogEntry, Moment, Position, life
from tests.coordinator.share_state.harness import KEY, StateHarness


class Log(StateHarness):
    """A state log, a second between two entries."""

    def life(self, offset: int) -> list[Moment]:
        entries = [LogEntry(1_000 * place, record.key, record.value) for place, record in enumerate(self.records)]
        return life(entries, KEY, offset)

    def positions(self, offset: int) -> list[Position]:
        return [moment.position for moment in self.life(offset)]


def test_each_end_of_a_delivery_is_a_moment() -> None:
    log = Log()
    log.initialize()
    log.initialize(key=KEY._replace(group_id="another"))
    log.write((0, 9, 0, 1))
    log.write((3, 3, 0, 2))
    log.write((3, 3, 2, 3), (0, 2, 4, 2))
    log.write(start=4)
    assert log.life(3) == [
        Moment(0, Position("WAITING"), 0),
        Moment(2_000, Position("AVAILABLE", 1), 0),
        Moment(3_000, Position("AVAILABLE", 2), 0),
        Moment(4_000, Position("ACKNOWLEDGED", 3), 0),
        Moment(5_000, Position("PASSED"), 4),
    ]
    assert log.positions(0) == [("WAITING", 0), ("AVAILABLE", 1), ("ARCHIVED", 2), ("PASSED", 0)]
    assert log.positions(10) == [("WAITING", 0)]


def test_a_group_that_has_not_begun_and_a_state_that_is_deleted() -> None:
    log = Log()
    log.initialize(1, -1)
    log.write(start=5)
    log.delete()
    assert log.positions(7) == [("NOT_BEGUN", 0), ("WAITING", 0), ("NO_STATE", 0)]
    assert log.life(7)[-1].start_offset == -1


def test_a_group_without_a_state_has_no_moments() -> None:
    assert Log().life(0) == []
