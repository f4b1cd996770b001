"""A trend of the lag counts only if it is clear."""

from __future__ import annotations

import random

import pytest

from muster.pipeline.episodes.claims import Step
from muster.pipeline.episodes.trend import behind_since, members_needed, trend, uneven
from tests.pipeline.episodes.timeline import ms


def steps(read: float, written: float, count: int = 40, noise: int = 0, lag: float = 5_000) -> list[Step]:
    """Steps of 15 s in which a group reads, and producers write, so many records in a second."""
    chance, found = random.Random(5), []
    for at in range(count):
        lag += 15 * (written - read)
        stray = chance.randint(-noise, noise)
        found.append(Step(ms(15 * at), ms(15 * at + 15), 3, round(15 * read), round(15 * written), round(lag) + stray))
    return found


def test_a_steady_trend_has_its_rate_and_bounds() -> None:
    found = trend(steps(44, 60))
    assert found is not None
    assert (round(found.rate), round(found.read), round(found.written)) == (16, 44, 60)
    assert (found.from_ms, found.until_ms) == (ms(15), ms(600))
    assert members_needed(found, 3) == 5
    noisy = trend(steps(44, 60, noise=400))
    assert noisy is not None
    assert noisy.least < 16 < noisy.most
    shrinks = trend(steps(60, 44, lag=90_000))
    assert shrinks is not None
    assert round(shrinks.rate) == -16


def test_a_group_falls_behind_since_its_lag_was_small() -> None:
    """A window begins again after a rebalance. The lag from before it remains."""
    every = steps(44, 60, lag=0)
    found = trend(every, ms(300))
    assert found is not None
    assert found.from_ms == ms(300)
    assert behind_since(every, found, ()) == ms(60)
    # in the midst of a silence nobody knows the lag
    away = [one._replace(lag=0 if 4 <= at < 20 else one.lag) for at, one in enumerate(every)]
    assert behind_since(away, found, [(ms(50), ms(301))]) == ms(60)
    # it had caught up meanwhile, though not quite
    lower = [one._replace(lag=6_000 if at < 8 else 1_500) if at < 15 else one for at, one in enumerate(every)]
    assert behind_since(lower, found, ()) == ms(135)


def test_noise_and_a_single_step_are_no_trend() -> None:
    assert trend(steps(60, 60, noise=400)) is None
    level = steps(60, 60)
    assert trend([*level[:-1], level[-1]._replace(lag=9_000)]) is None
    assert trend(steps(44, 60, count=3)) is None
    assert trend([]) is None


def test_the_sawtooth_of_a_rare_committer_is_no_trend() -> None:
    for phase in range(20):
        since = [(at + phase) % 20 for at in range(50)]
        often = [one._replace(lag=900 * steps_ago) for one, steps_ago in zip(steps(60, 60, 50), since, strict=True)]
        assert trend(often) is None, phase
        rarely = [one._replace(commits=int(not steps_ago)) for one, steps_ago in zip(often, since, strict=True)]
        assert trend(rarely) is None, phase
        assert trend(rarely[-15:]) is None, phase


def rare(*lags: int) -> list[Step]:
    """Steps of 5 s in which a group reads 12 of 20 records in a second. It commits once in 25 s."""
    found = []
    for at, lag in enumerate(lags):
        for step in range(5):
            begin = 25 * at + 5 * step
            commits, read = (0, 0) if step else (3, 300)
            found.append(Step(ms(begin), ms(begin + 5), commits, read, 100, lag + 100 * step))
    return found


def test_a_group_that_commits_rarely_falls_behind_if_its_lag_grows_with_each_commit() -> None:
    found = trend(rare(2_000, 2_200, 2_380, 2_600))
    assert found is not None
    assert (round(found.rate), round(found.read), found.lag) == (8, 12, 2_600)
    assert trend(rare(2_000, 2_200, 2_180, 2_600)) is None
    assert trend(rare(2_000, 2_020, 2_040, 2_600)) is None
    assert trend(rare(2_000, 2_200, 2_400)) is None


def test_members_that_commit_in_turn_fall_behind_by_unequal_steps() -> None:
    """A lag includes what another member has read and not committed yet."""
    waits = (1, 1, 2, 2, 4, 6, 7, 9)
    for last, is_trend in ((1_118, True), (1_010, False)):
        every = list[Step]()
        for lag, wait in zip((141, 178, 266, 329, 394, 703, 1_021, last), waits, strict=True):
            for step in range(wait):
                at, commits = 5 * len(every), 0 if step else 2
                every.append(Step(ms(at), ms(at + 5), commits, 40 * commits, 90, lag + 90 * step))
        assert (trend(every) is not None) == is_trend


def test_an_old_trend_is_none_at_the_end() -> None:
    grew, then = steps(44, 60, 30), steps(60, 60, 30)
    later = [one._replace(start_ms=one.start_ms + 450_000, until_ms=one.until_ms + 450_000, lag=12_200) for one in then]
    assert trend([*grew, *later]) is None
    unknown = [*grew, later[0]._replace(lag=None)]
    assert trend(unknown) is None


def test_a_trend_begins_after_the_last_change_of_the_group() -> None:
    found = trend(steps(44, 60), ms(300))
    assert found is not None
    assert found.from_ms == ms(300)


GROWS = (
    *((30, 130, 20), (24, 103, 40), (6, 51, 120), (6, 100, 145), (6, 189, 84), (0, 0, 216), (3, 147, 204)),
    *((3, 207, 112), (0, 0, 232), (0, 0, 374), (3, 274, 228), (0, 0, 365), (0, 0, 494), (3, 384, 244), (0, 0, 392)),
    *((0, 0, 510), (0, 0, 614), (0, 0, 751), (3, 500, 401), (0, 0, 530), (0, 0, 679), (0, 0, 791), (0, 0, 939)),
    *((0, 0, 1_083), (3, 500, 761), (0, 0, 887), (0, 0, 1_018)),
)
"""Commits, records and lag in steps of 5 s: two members take all that they find, and commit it later each time."""


def uneven_steps(*rows: tuple[int, int, int], burst_at: int | None = None) -> list[Step]:
    return [
        Step(ms(5 * at), ms(5 * at + 5), commits, records, 600 if at == burst_at else 130, lag)
        for at, (commits, records, lag) in enumerate(rows)
    ]


def test_a_group_that_takes_all_at_once_and_commits_later_each_time_falls_behind() -> None:
    assert trend(uneven_steps(*GROWS)) is None
    found = trend(uneven_steps(*GROWS), of=uneven)
    assert found is not None
    assert (round(found.least), round(found.rate), round(found.most), round(found.read)) == (2, 6, 10, 20)
    # what was read and is not committed yet may be as much; or producers wrote much at once; or the lag shrinks again
    assert trend(uneven_steps(*GROWS[8:]), of=uneven) is None
    assert trend(uneven_steps(*GROWS, burst_at=9), of=uneven) is None
    assert trend(uneven_steps(*GROWS, (3, 700, 300)), of=uneven) is None
    assert trend(uneven_steps(*GROWS[:17]), of=uneven) is None


@pytest.mark.parametrize(("waits", "then", "is_trend"), [(6, 12, True), (6, 8, False), (2, 16, False)])
def test_a_group_that_needs_long_for_a_batch_falls_behind(waits: int, then: int, is_trend: bool) -> None:
    """It commits 500 records, though more are written meanwhile. If it keeps up, it perhaps hangs after that."""
    rows = [(6, 130, 10), (6, 130, 20), (6, 130, 15), *((0, 0, 145 + 130 * at) for at in range(waits))]
    lag = 145 + 130 * waits - 500
    every = uneven_steps(*rows, (4, 500, lag), *((0, 0, lag + 130 * at) for at in range(1, then)))
    assert (trend(every, of=uneven) is not None) == is_trend
    assert trend(every[2:], of=uneven) is None  # two steps with commits show nothing


@pytest.mark.parametrize(("before", "is_trend"), [(3_000, True), (400, False)])
def test_two_steps_with_commits_are_enough_if_a_whole_batch_waited(before: int, is_trend: bool) -> None:
    """It reads 500 records in two minutes. If fewer waited before, it perhaps did nothing for most of that time."""
    waits = ((0, 0, before + 130 * at) for at in range(1, 24))
    every = uneven_steps((25, 0, before), *waits, (1, 500, before + 24 * 130 - 500))
    assert (trend(every, of=uneven) is not None) == is_trend


def test_the_sawtooth_of_a_rare_committer_is_no_uneven_trend() -> None:
    for phase in range(20):
        since = [(at + phase) % 20 for at in range(50)]
        rarely = [
            one._replace(lag=900 * steps_ago, commits=int(not steps_ago), records=0 if steps_ago else 18_000)
            for one, steps_ago in zip(steps(60, 60, 50), since, strict=True)
        ]
        assert trend(rarely, of=uneven) is None, phase
