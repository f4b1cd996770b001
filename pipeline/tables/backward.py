"""Commits that are lower than the commit before them in their partition, with their circumstances. With numpy.

`regressions` judges the cause of a regression by these circumstances.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from muster.pipeline.schema import columns
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.ordered_columns import (
    Column,
    Ints,
    Mask,
    Parts,
    known,
    minus,
    nothing,
    sorted_rows,
    struct,
)
from muster.pipeline.tables.topic_ends import Ends

ZOMBIE_MS: Final = 600_000
"""So long a former owner may continue with what it had fetched: twice the default of max.poll.interval.ms."""
_AHEAD: Final = 5
"""Within so many commits after a zombie's commit the owner answers with one of its own."""
_RECENT: Final = 5
"""A former owner's late commit is not lower than so many of its last ones."""
_LIKE: Final = 0.25
"""Two times between commits that differ by at most this share belong to one regular sequence."""
_LATER: Final = 2.5
"""A commit after more than so many intervals does not belong to the sequence."""

BACK: Final = pa.schema(
    columns(
        "group string, log_partition int, topic string, partition int, log_offset long, time_ms long, generation int, "
        "members int, member_id string, client_id string, owner string, from_offset long, to_offset long, back long, "
        "former_member_id string, former_client_id string, was_recreated boolean, deleted_before boolean, "
        "is_first boolean, is_alone boolean, goes_on_alone boolean, goes_on_empty boolean, returns boolean, "
        "is_of_same_producer boolean, is_of_former_producer boolean, was_fenced_before boolean, "
        "fell_back_and_returned boolean, ran_ahead_before boolean"
    )
)
"""A commit of `to_offset` after one of `from_offset` (deletions are skipped), and these circumstances:

* `former_*`: the owner of the partition before the present owner;
* `was_recreated`: the topic was deleted and created again, or its log was;
* `deleted_before`: the offset was deleted between the two commits;
* `is_first`: it is the first commit of its generation or owner;
* `is_alone`: its group never had members;
* `goes_on_alone`: the program that made it continues (null: not known);
* `goes_on_empty`: two more commits follow while the group is still empty;
* `returns`: a later commit returns up in one step;
* `is_of_same_producer`: nobody else committed;
* `is_of_former_producer`: the producer committed for the former owner;
* `was_fenced_before`: the commit before is of a producer that was fenced then;
* `fell_back_and_returned`: a former owner made it;
* `ran_ahead_before`: a former owner made the commit before, a spike.
"""


class _Around(NamedTuple):
    """The state before some commits: the last commit, and the present owner's first."""

    before: Ints
    takeover: Ints
    has_takeover: Mask
    high: Column
    """The offset of the last commit before."""
    to: Column
    two_before: Column
    following: tuple[Column, ...]
    """The offsets of the commits after it."""


def backward(commits: CommitRows) -> pa.StructArray:
    """Rows of BACK."""
    place, offset, live = commits.place, commits.offset, ~commits.is_deleted
    before, has_before = place.latest(live, before=True)
    rows = np.flatnonzero(live & has_before & (offset.values < offset.values[before]))
    owner = commits.owner.numbers
    owner_before, has_owner_before = place.latest(live & owner.valid, before=True)
    is_takeover = live & owner.valid & has_owner_before & (owner.values != owner.values[owner_before])
    takeover, has_takeover = place.latest(is_takeover)
    around = _Around(
        before[rows],
        takeover[rows],
        has_takeover[rows],
        offset.at(before[rows]),
        offset.at(rows),
        place.before(offset, 2).at(rows),
        tuple(place.after(offset, step).at(rows) for step in range(1, _AHEAD + 1)),
    )
    of_former = owner_before[around.takeover]
    least_before, _, _ = place.within(offset, -_RECENT, -1)
    back = minus(around.high, around.to)
    step_up = _step_back_up(around)
    fell = _fell_back(commits, around, least_before, before, step_up)
    is_first, alone, goes_on_alone, goes_on_empty = _circumstances(commits)
    deleted_before = place.before(known(commits.is_deleted))
    return struct(
        BACK,
        {
            "group": commits.group.at(rows),
            "log_partition": commits.log_partition.at(rows),
            "topic": commits.topic.at(rows),
            "partition": commits.partition.at(rows),
            "log_offset": known(commits.log_offset[rows]),
            "time_ms": known(commits.time_ms[rows]),
            "generation": commits.generation.at(rows),
            "members": commits.members.at(rows),
            "member_id": commits.member_id.at(rows),
            "client_id": commits.client_id.at(rows),
            "owner": commits.owner.at(rows),
            "from_offset": around.high,
            "to_offset": around.to,
            "back": back,
            "former_member_id": commits.member_id.at(of_former, around.has_takeover),
            "former_client_id": commits.client_id.at(of_former, around.has_takeover),
            "was_recreated": _was_recreated(commits, rows, around),
            "deleted_before": (deleted_before.filled(0) > 0)[rows],
            "is_first": is_first[rows],
            "is_alone": alone[rows],
            "goes_on_alone": pa.array(goes_on_alone.values[rows] > 0, mask=~goes_on_alone.valid[rows]),
            "goes_on_empty": goes_on_empty[rows],
            "returns": fell | (step_up.valid & (step_up.values > back.values / 2)),
            "is_of_same_producer": _is_of_same_producer(commits, rows, around),
            "is_of_former_producer": _is_of_former_producer(commits, rows, around, before),
            "was_fenced_before": _was_fenced_before(commits, rows, around),
            "fell_back_and_returned": fell,
            "ran_ahead_before": _ran_ahead_before(commits, rows, around),
        },
    )


def _circumstances(commits: CommitRows) -> tuple[Mask, Mask, Column, Mask]:
    """is_first, is_alone, goes_on_alone and goes_on_empty of every commit."""
    place, generation, owner = commits.place, commits.generation, commits.owner.numbers
    generation_before, owner_before = place.before(generation), place.before(owner)
    is_first = ~_same(generation_before, generation)
    # in a KIP-848 group a member that gives a partition up commits it once more in the new epoch
    is_first |= owner_before.valid & owner.valid & (owner_before.values != owner.values)
    empty = commits.members.valid & (commits.members.values == 0)
    alone = empty & ~generation.valid
    goes_on_empty = np.ones(len(empty), np.bool_)
    for step in (1, 2):
        then = place.after(known(empty), step)
        goes_on_empty &= then.valid & (then.values > 0) & _same(place.after(generation, step), generation)
    return is_first, alone, _goes_on_alone(place, known(commits.time_ms), empty & ~commits.is_deleted), goes_on_empty


def _same(one: Column, other: Column) -> Mask:
    """Whether two values are equal, or both are missing."""
    found: Mask = (one.valid == other.valid) & (~one.valid | (one.values == other.values))
    return found


def _goes_on_alone(place: Parts, time_ms: Column, no_members: Mask) -> Column:
    """Whether the program that made this commit continues, though the group has no members.

    True: the next three commits of the partition are as far apart as this one and the next. False: no commit follows,
    or none for long. None: not known.
    """
    times = [time_ms, *(place.after(time_ms.where(no_members), step) for step in (1, 2, 3))]
    first, second, third = (
        Column(later.values - earlier.values, later.valid & earlier.valid) for earlier, later in pairwise(times)
    )
    is_beat = first.valid & second.valid & third.valid
    longest = np.maximum(np.maximum(first.values, second.values), third.values)
    least = np.minimum(np.minimum(first.values, second.values), third.values)
    is_beat &= longest - least <= _LIKE * longest
    usual = np.where(third.valid & (third.values > second.values), third.values, second.values)
    is_late = first.valid & second.valid & (first.values > _LATER * usual)
    stops = ~times[1].valid | is_late
    return Column((is_beat & ~stops).astype(np.int64), stops | is_beat)


def _was_recreated(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """The topic of the commit before had the same name and another id; or its log is another one.

    It is another log if the commit before lies beyond the end of the log, which reached this end later. One such commit
    alone may be a tool's.
    """
    topic_id = commits.topic_id.numbers
    now, then = topic_id.at(rows), topic_id.at(around.before)
    is_other = now.valid & then.valid & (now.values != then.values)
    reach, reach_ms = _reached(commits.ends, commits.topic_part[rows])
    is_beyond = around.two_before.valid & reach.valid
    is_beyond &= np.minimum(around.high.values, around.two_before.values) > reach.values
    found: Mask = is_other | (is_beyond & (reach_ms.values > commits.time_ms[around.before]))
    return found


def _reached(ends: Ends, topic: Ints) -> tuple[Column, Column]:
    """How far the log reaches in the end, and since when at the latest."""
    if not len(ends.topic):
        return nothing(len(topic)), nothing(len(topic))
    upwards = sorted_rows(ends.topic, ends.end_offset, ends.time_ms)
    of = ends.topic[upwards]
    place = np.searchsorted(of, topic, side="right") - 1
    there = (place >= 0) & (of[np.maximum(place, 0)] == topic)
    last = upwards[np.maximum(place, 0)]
    return known(ends.end_offset).at(last, there), known(ends.time_ms).at(last, there)


def _is_of_same_producer(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """The commit before this one is of the same producer, and no newer producer has its id.

    So nobody else committed.
    """
    now, then = commits.producer_id.at(rows), commits.producer_id.at(around.before)
    found: Mask = now.valid & then.valid & (now.values == then.values) & ~commits.fenced_ms.valid[around.before]
    return found


def _is_of_former_producer(commits: CommitRows, rows: Ints, around: _Around, before: Ints) -> Mask:
    """The producer of this commit committed for the former owner; another producer committed since."""
    now, then = commits.producer_id.at(rows), commits.producer_id.at(around.before)
    former = commits.producer_id.at(before[around.takeover], around.has_takeover)
    found: Mask = now.valid & then.valid & former.valid & (now.values == former.values) & (now.values != then.values)
    return found & (commits.log_offset[around.takeover] < commits.log_offset[rows])


def _was_fenced_before(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """A newer producer fenced the producer of the commit before this one.

    This commit is the new producer's, which continues from its own position.
    """
    fenced = commits.fenced_ms.at(around.before)
    is_between = fenced.valid & (fenced.values >= commits.time_ms[around.before])
    is_between &= fenced.values <= commits.time_ms[rows]
    return is_between & _goes_on_from_below(around)


def _fell_back(commits: CommitRows, around: _Around, least_before: Column, before: Ints, step_up: Column) -> Mask:
    """A former owner made this commit.

    It lies between that owner's last commits and the new owner's, nearer to the former owner's. The new owner returns
    to its position in one step. A member that seeks back by a little may look the same.
    """
    to, high = around.to, around.high
    former = commits.offset.at(before[around.takeover], around.has_takeover)
    least = least_before.at(around.takeover, around.has_takeover)
    down, rest = minus(to, former), minus(high, to)
    is_near = former.valid & least.valid & (to.values >= least.values) & (down.values <= rest.values)
    found: Mask = is_near & step_up.valid & (step_up.values > rest.values / 2)
    return found


def _step_back_up(around: _Around) -> Column:
    """The size of the step with which a later commit reaches the height from which this one fell.

    It is none if no commit does.
    """
    heights = (around.to, *around.following)
    found = nothing(len(around.before))
    for lower, upper in zip(reversed(heights[:-1]), reversed(heights[1:]), strict=True):
        is_up, step = upper.valid & (upper.values >= around.high.values), minus(upper, lower)
        found = Column(np.where(is_up, step.values, found.values), np.where(is_up, step.valid, found.valid))
    return found


def _ran_ahead_before(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """A former owner made the commit before this one, a spike.

    This commit is the new owner's, which continues from its own position.
    """
    takeover = around.takeover
    soon = commits.time_ms[around.before] - commits.time_ms[takeover] <= ZOMBIE_MS
    is_later = around.has_takeover & (commits.log_offset[takeover] < commits.log_offset[rows])
    is_spike = minus(around.to, around.two_before).values <= minus(around.high, around.to).values
    return is_later & soon & is_spike & _goes_on_from_below(around)


def _goes_on_from_below(around: _Around) -> Mask:
    """This commit is not below the last but one, and the next commit is not below this one."""
    to, base, after = around.to, around.two_before, around.following[0]
    found: Mask = base.valid & (to.values >= base.values) & (~after.valid | (after.values >= to.values))
    return found
