"""What became of the records of a share group, from records that the share coordinator's own core has written."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.pipeline.infer.share_deliveries import MAX_ENDS, Counts, Fate, Group
from muster.pipeline.infer.share_episodes import JOIN_MS, MAX_RANGES, MAX_STEPS, Episode, Episodes, Steps
from tests.coordinator.share_state.harness import KEY, StateHarness


class Log(StateHarness):
    """A state log, with a second between two records. `fates` has what became of records so far."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**settings)
        self.group = Group()
        self.fates: list[Fate] = []
        self.sums = Counts()
        self._read = 0

    @property
    def ms(self) -> int:
        """The time of the next record."""
        return 1_000 * self._read

    def follow(self) -> list[Fate]:
        """Read the records that are new, and return what became of records in them."""
        found: list[Fate] = []
        for record in self.records[self._read :]:
            _, fates, counts = self.group.take(self.ms, record.key, record.value)
            found += fates
            self.sums = self.sums.plus(counts)
            self._read += 1
        self.fates += found
        return found

    def written(self, *rows: tuple[int, int, int, int], start: int = -1) -> list[Fate]:
        """What became of records when these rows were written."""
        self.write(*rows, start=start)
        return self.follow()


def begun(**settings: int) -> Log:
    log = Log(**settings)
    log.initialize()
    assert log.follow() == []
    return log


def test_records_that_are_accepted_at_once_have_no_fate() -> None:
    log = begun()
    assert log.written((0, 499, 2, 1)) == log.written(start=500) == []
    assert log.sums == Counts(accepted=500, moved=500)


def test_a_record_that_is_delivered_again_and_again_has_the_end_of_each_delivery() -> None:
    log = begun()
    log.written((0, 9, 2, 1))
    for deliveries in range(1, 5):
        assert log.written((10, 10, 0, deliveries)) == []
    assert log.written((10, 10, 4, 5)) == [Fate(10, 10, "archived", 5, (2_000, 3_000, 4_000, 5_000, 6_000), 6_000)]
    assert log.sums == Counts(accepted=10, archived=1, ended=4)
    assert log.written(start=11) == []


def test_the_parts_of_a_batch_have_their_own_histories() -> None:
    log = begun()
    log.written((0, 9, 0, 1))
    assert log.written((0, 3, 2, 2), (4, 4, 4, 2), (5, 9, 0, 2)) == [
        Fate(0, 3, "accepted", 2, (1_000,), 2_000),
        Fate(4, 4, "archived", 2, (1_000, 2_000), 2_000),
    ]
    assert log.written((5, 9, 2, 3)) == [Fate(5, 9, "accepted", 3, (1_000, 2_000), 3_000)]
    (state,) = log.group.partitions.values()
    assert (state.sums, state.redelivered, state.waiting()) == (Counts(9, 1, 15), 9, [])


def test_records_in_the_dead_letter_queue_are_done_later() -> None:
    log = begun()
    log.written((0, 0, 3, 2))
    (state,) = log.group.partitions.values()
    assert [one.outcome for one in state.waiting()] == ["waiting"]
    assert log.written((0, 0, 4, 2)) == [Fate(0, 0, "dead_letter", 2, (1_000,), 2_000)]


def test_a_snapshot_shows_changes_too_and_repeats_are_none() -> None:
    log = begun(share_coordinator_snapshot_update_records_per_snapshot=1)
    log.written((0, 4, 0, 1))
    assert log.written((0, 1, 2, 2)) == [Fate(0, 1, "accepted", 2, (1_000,), 2_000)]
    assert type(log.records[-1].value).__name__ == "ShareSnapshotValue"
    assert log.written((0, 4, 0, 1)) == []
    assert log.sums == Counts(accepted=2, ended=5)


def test_the_start_offset_passes_records_that_retention_deleted() -> None:
    log = begun()
    log.written((0, 9, 0, 1))
    assert log.written(start=5) == [Fate(0, 4, "passed", 1, (1_000,), 2_000)]
    assert log.written((5, 6, 4, 1)) == [Fate(5, 6, "passed", 1, (1_000,), 3_000)]  # archived without a delivery
    assert log.written(start=20) == [Fate(7, 9, "passed", 1, (1_000,), 4_000)]


def test_a_new_state_epoch_and_a_deletion_end_all_histories() -> None:
    log = begun()
    log.written((0, 1, 0, 1), (5, 5, 2, 1))
    log.initialize(2, 40)
    assert log.follow() == [Fate(0, 1, "passed", 1, (1_000,), 2_000)]
    log.write((40, 40, 0, 1), state_epoch=2)
    assert log.follow() == []
    log.delete()
    assert log.follow() == [Fate(40, 40, "deleted", 1, (3_000,), 4_000)]
    assert log.group.partitions[KEY].deleted_ms == 4_000
    log.initialize(3, 0)
    log.follow()
    assert log.group.partitions[KEY].deleted_ms is None


def test_a_later_record_shows_how_long_a_member_held_records() -> None:
    log = begun()
    log.written((0, 4, 2, 1))
    log.written((10, 14, 2, 1))
    log.written((15, 15, 2, 1))
    log.written((5, 9, 0, 1))
    assert log.written((5, 9, 2, 2)) == [Fate(5, 9, "accepted", 2, (4_000,), 5_000, held_ms=2_000)]
    log.written((16, 16, 0, 1))
    assert log.written((16, 16, 2, 2))[0].held_ms is None


def test_a_log_that_begins_later_is_followed_from_there() -> None:
    log = begun()
    log.written((0, 4, 0, 1))
    log.group = Group()
    assert log.written((0, 4, 2, 2)) == [Fate(0, 4, "accepted", 2, (), 2_000)]


def test_of_very_many_ends_the_first_and_the_last_ones_are_kept() -> None:
    log = begun()
    for deliveries in range(1, 40):
        log.written((0, 0, 0, deliveries))
    (fate,) = log.written((0, 0, 2, 40))
    assert (len(fate.ended_ms), fate.ended_ms[0], fate.ended_ms[-1]) == (MAX_ENDS, 1_000, 39_000)


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_random_deliveries_are_followed_offset_by_offset(random: Random, per_snapshot: int) -> None:
    log = begun(share_coordinator_snapshot_update_records_per_snapshot=per_snapshot)
    known: dict[int, tuple[int, int]] = {}
    ends = 0
    for _ in range(25):
        first = random.randrange(30)
        rows = []
        for offset in range(first, first + random.randrange(1, 8)):
            state, deliveries = known.get(offset, (0, 0))
            if state == 0:
                # each delivery ends in one of these states
                known[offset] = random.choice((0, 0, 2, 4)), deliveries + 1
                rows.append((offset, offset, *known[offset]))
                ends += known[offset][0] == 0
        log.written(*rows)
    (state,) = log.group.partitions.values()
    assert {
        offset: one.deliveries for one in state.waiting() for offset in range(one.first, one.last + 1)
    } == {offset: deliveries for offset, (kind, deliveries) in known.items() if kind == 0}  # fmt: skip
    done = Counter(kind for kind, _ in known.values())
    assert log.sums == Counts(accepted=done[2], archived=done[4], ended=ends)
    records = Counter[str]()
    for one in log.fates:
        records[one.outcome] += one.last - one.first + 1
        assert len(one.ended_ms) == min(one.deliveries - (one.outcome == "accepted"), MAX_ENDS)
    assert records["archived"] == done[4]
    assert records["accepted"] == sum(kind == 2 and deliveries > 1 for kind, deliveries in known.values())


# ---- episodes and steps


def episodes(*fates: Fate) -> list[Episode]:
    made = Episodes()
    found = [one for fate in fates for _, one in made.add(KEY, fate)]
    return found + [one for _, one in made.end()]


def fate(first: int, at_ms: int, outcome: str = "accepted", deliveries: int = 2) -> Fate:
    return Fate(first, first, outcome, deliveries, (at_ms - 500,), at_ms, held_ms=at_ms)


def test_records_with_one_outcome_are_one_episode_while_they_come() -> None:
    found = episodes(*(fate(offset, 1_000 + JOIN_MS // 2 * offset) for offset in range(20)))
    assert [(one.records, one.first, one.last, one.ranges, len(one.moments)) for one in found] == [
        (20, 0, 19, [(0, 19)], 20)
    ]
    assert (found[0].least_ms, found[0].most_ms, found[0].from_ms) == (500, 500, 500)


def test_other_outcomes_deliveries_and_times_are_other_episodes() -> None:
    late = fate(9, 2_000 + JOIN_MS + 1)
    found = episodes(fate(1, 1_000), fate(2, 1_500, "archived"), fate(3, 1_600, deliveries=3), fate(4, 2_000), late)
    assert [(one.outcome, one.deliveries, one.ranges) for one in found] == [
        ("accepted", 2, [(1, 1), (4, 4)]), ("accepted", 2, [(9, 9)]), ("archived", 2, [(2, 2)]),
        ("accepted", 3, [(3, 3)]),
    ]  # fmt: skip


def test_an_episode_names_few_ranges() -> None:
    (found,) = episodes(*(fate(2 * offset, 1_000) for offset in range(50)))
    assert (found.records, len(found.ranges), found.last) == (50, MAX_RANGES, 98)


def test_the_steps_of_a_long_log_are_longer() -> None:
    steps = Steps()
    for second in range(10_000):
        steps.add(1_000 * second, Counts(accepted=1))
    rows = list(steps.rows())
    assert MAX_STEPS // 2 <= len(rows) <= MAX_STEPS
    assert sum(sums.accepted for *_, sums in rows) == 10_000
    assert {until - start for start, until, _ in rows} == {256_000}
