import pytest

from muster.coordinator.log.segments.leader_epochs import LeaderEpochs

KNOWN = [(2, 10), (4, 20), (7, 30)]


def test_a_new_log_has_no_leader_epochs() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == -1
    assert epochs.end_offset(0, 5) == (-1, -1)
    assert epochs.epoch_of(0) == -1


def test_assign_reports_whether_the_epoch_is_new() -> None:
    epochs = LeaderEpochs()
    assert epochs.assign(0, 0)
    assert not epochs.assign(0, 5)
    assert not epochs.assign(-1, 5)
    assert epochs.assign(1, 5)
    assert epochs.entries() == [(0, 0), (1, 5)]


def test_a_new_epoch_at_the_same_offset_replaces_the_empty_one() -> None:
    epochs = LeaderEpochs([(0, 0), (1, 5)])
    assert epochs.assign(2, 5)
    assert epochs.entries() == [(0, 0), (2, 5)]


def test_entries_that_contradict_a_new_epoch_are_removed() -> None:
    epochs = LeaderEpochs(KNOWN)
    epochs.assign(5, 15)
    assert epochs.entries() == [(2, 10), (5, 15)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, 99)),
        (5, (4, 30)),
        (4, (4, 30)),
        (3, (2, 20)),
        (2, (2, 20)),
        (1, (1, 10)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
        (-5, (-5, 10)),
    ],
)
def test_end_offsets_of_epochs_equal_kafkas(asked: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs(KNOWN).end_offset(asked, 99) == answer


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 4), (29, 4), (30, 7), (1000, 7)])
def test_the_epoch_of_an_offset_is_found(offset: int, epoch: int) -> None:
    assert LeaderEpochs(KNOWN).epoch_of(offset) == epoch


@pytest.mark.parametrize(("end", "left"), [(31, 3), (30, 2), (21, 2), (20, 1), (10, 0), (0, 0)])
def test_truncating_from_the_end_removes_later_epochs(end: int, left: int) -> None:
    epochs = LeaderEpochs(KNOWN)
    assert epochs.truncate_from_end(end) == (left < 3)
    assert epochs.entries() == KNOWN[:left]


@pytest.mark.parametrize(
    ("start", "left"),
    [(5, KNOWN), (10, KNOWN), (15, [(2, 15), *KNOWN[1:]]), (20, KNOWN[1:]), (25, [(4, 25), KNOWN[2]]), (50, [(7, 50)])],
)
def test_truncating_from_the_start_moves_the_first_epoch(start: int, left: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(KNOWN)
    assert epochs.truncate_from_start(start) == (left != KNOWN)
    assert epochs.entries() == left
