"""What the table `stalls` looks at: commits at a distance from each other, each with the window before it, and when
members came on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster.pipeline.facts.commit_rows import CommitRows
from muster.pipeline.facts.in_order import Column, Ints, Mask, Parts, begins, behind, known
from muster.pipeline.facts.topic_ends import Marks, Reach, with_ends

LONG: Final = 50
"""So many commits tell how far apart they usually are."""
WINDOW: Final = 10
"""Commits of a partition that are looked at together."""
MIN_DISTANCE_MS: Final = 1_000
"""Of commits within one such span of time the last one counts."""


class Thinned(NamedTuple):
    """The commits that are looked at. A life is a partition of a group from one deletion to the next."""

    rows: Ints
    """Their places among all commits."""
    life: Parts
    gone_ms: Column
    """In the last of a life that was ended: when."""


class Windows(NamedTuple):
    """Each commit that is looked at with what its window says."""

    commits: Ints
    """How many are in it."""
    first_ms: Ints
    least: Column
    """The least and the largest offset."""
    most: Column
    lags: Ints
    """Of how many the lag is known,"""
    least_lag: Column
    """the least of them,"""
    shrinks: Ints
    """and with how many steps it got smaller."""
    longest_ms: Column
    """The longest step."""
    calm_ms: Column
    """The mean time between two of the last LONG commits; None: there were not so many. While a group is restarted
    commits come more often than usual, and fill a window."""
    silence_ms: Column
    """The longest time between two commits of one member so far; a restart makes more than a window has, all soon
    after each other."""
    next_ms: Column
    """None: nothing came after."""
    next_end: Column
    """How far the log reached then."""
    is_run_start: Mask
    """The first and the last one of some with the same offset,"""
    is_run_end: Mask
    run_ms: Ints
    """when the first of those came,"""
    run_commits: Ints
    """and how many they are so far."""


def thinned(commits: CommitRows) -> Thinned:
    """The commits that are looked at."""
    place, time_ms, is_deleted = commits.place, known(commits.time_ms), commits.is_deleted
    next_ms = place.after(time_ms)
    is_end = place.after(known(is_deleted))
    next_deleted = is_end.valid & (is_end.values > 0)
    same_span = next_ms.values // MIN_DISTANCE_MS == commits.time_ms // MIN_DISTANCE_MS
    rows = np.flatnonzero(~is_deleted & ~(next_ms.valid & ~next_deleted & same_span))
    life = begins(known(place.number[rows]), known(place.count_so_far(is_deleted)[rows]))
    return Thinned(rows, Parts(life), next_ms.at(rows, next_deleted[rows]))


def reach_of(commits: CommitRows, few: Thinned, marks: Marks) -> Reach:
    """What is known of the ends of the topics beside each commit that is looked at."""
    rows = few.rows
    return with_ends(commits.topic_part[rows], commits.time_ms[rows], commits.offset.values[rows], marks)


def windowed(commits: CommitRows, few: Thinned, end_then: Column) -> Windows:
    """See Windows."""
    rows, life = few.rows, few.life
    time_ms, offset = known(commits.time_ms[rows]), commits.offset.at(rows)
    least, most, _ = life.within(offset, 1 - WINDOW, 0)
    lag = behind(end_then, offset)
    least_lag, _, lags = life.within(lag, 1 - WINDOW, 0)
    lag_before = life.before(lag)
    shrank = lag.valid & lag_before.valid & (lag.values < lag_before.values)
    _, _, shrinks = life.within(Column(lag.values, shrank), 2 - WINDOW, 0)
    before_ms = life.before(time_ms)
    gap_ms = Column(time_ms.values - before_ms.values, before_ms.valid)
    _, longest_ms, _ = life.within(gap_ms, 2 - WINDOW, 0)
    member = commits.member_id.numbers.at(rows)
    is_run_start = begins(offset) | (life.rows == life.first)
    run, _ = life.latest(is_run_start)
    after = life.after(offset)
    position = life.rows - life.first + 1
    long_ago = np.maximum(life.first, life.rows + 1 - LONG)
    return Windows(
        np.minimum(position, WINDOW),
        time_ms.values[np.maximum(life.first, life.rows + 1 - WINDOW)],
        least,
        most,
        lags,
        least_lag,
        shrinks,
        longest_ms,
        Column((time_ms.values - time_ms.values[long_ago]) // (LONG - 1), position >= LONG),
        life.most_so_far(gap_ms.where(~begins(member))),
        life.after(time_ms).or_else(few.gone_ms),
        life.after(end_then),
        is_run_start,
        ~(after.valid & (after.values == offset.values)),
        time_ms.values[run],
        life.rows - run + 1,
    )
