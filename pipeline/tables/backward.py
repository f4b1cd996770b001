"""Finds commits that are lower than the commit before in their partition, with their circumstances. With numpy.

`regressions` infers the cause of a regression from these circumstances.
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
"""A former owner may commit what it had fetched for this long: twice the default of max.poll.interval.ms."""
_AHEAD: Final = 5
"""After a zombie's commit, the owner's own commit is among this many next commits."""
_RECENT: Final = 5
"""A former owner's late commit is not lower than the lowest of its last commits, which are this many."""
_LIKE: Final = 0.25
"""Two times between commits belong to one regular sequence if they differ by at most this share."""
_LATER: Final = 2.5
"""A commit does not belong to a regular sequence if it comes after more than this many intervals."""

BACK: Final = pa.schema(
    columns(
        "group string, log_partition int, topic string, partition int, log_offset long, time_ms long, generation int, "
        "members int, member_id string, client_id string, owner string, from_offset long, to_offset long, back long, "
        "former_member_id string, former_client_id string, was_recreated boolean, deleted_before boolean, "
        "is_first boolean, is_alone boolean, goes_on_alone boolean, goes_on_empty boolean, returns boolean, "
        "is_of_same_producer boolean, is_of_other_kind boolean, is_of_former_producer boolean, "
        "was_fenced_before boolean, fell_back_and_returned boolean, ran_ahead_before boolean"
    )
)
"""A commit of `to_offset` after a commit of `from_offset`, without counting deletions, and these circumstances:

* `former_*`: the owner of the partition before the present owner;
* `was_recreated`: the topic or its log was deleted and created again;
* `deleted_before`: the offset was deleted between the two commits;
* `is_first`: the commit is the first one of its generation or owner;
* `is_alone`: the group never had members;
* `goes_on_alone`: the program that made the commit continues to commit without a group (null: not known);
* `goes_on_empty`: two more commits follow while the group is still empty;
* `returns`: a later commit is as high as `from_offset` again, in one step;
* `is_of_same_producer`: one producer made both commits, and nobody else committed;
* `is_of_other_kind`: one of the two commits was part of a transaction, and the other was not;
* `is_of_former_producer`: the producer of the commit also committed for the former owner;
* `was_fenced_before`: the producer of the commit before was fenced between the two commits;
* `fell_back_and_returned`: a former owner made the commit;
* `ran_ahead_before`: a former owner made the commit before, and that commit is much too high.
"""


class _Around(NamedTuple):
    """The commits around some regressions: the commit before, and the first commit of the present owner."""

    before: Ints
    takeover: Ints
    has_takeover: Mask
    high: Column
    """The offset of the commit before."""
    to: Column
    two_before: Column
    following: tuple[Column, ...]
    """The offsets of the next commits."""


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
            "is_of_other_kind": commits.producer_id.valid[rows] != commits.producer_id.valid[around.before],
            "is_of_former_producer": _is_of_former_producer(commits, rows, around, before),
            "was_fenced_before": _was_fenced_before(commits, rows, around),
            "fell_back_and_returned": fell,
            "ran_ahead_before": _ran_ahead_before(commits, rows, around),
        },
    )


def _circumstances(commits: CommitRows) -> tuple[Mask, Mask, Column, Mask]:
    """The columns is_first, is_alone, goes_on_alone and goes_on_empty of every commit."""
    place, generation, owner = commits.place, commits.generation, commits.owner.numbers
    generation_before, owner_before = place.before(generation), place.before(owner)
    is_first = ~_same(generation_before, generation)
    # when a member of a KIP-848 group gives a partition up, it commits once more in the new epoch
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
    """Whether the program that made this commit continues to commit, though the group has no members.

    True: the distances between this commit and the next three are about equal. False: no commit follows, or none for
    long. None: not known.
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
    """Whether the topic of the commit before had the same name and another id, or its log is another one.

    The log is another one if the two commits before lie beyond its end, which was reached later. One such commit alone
    may come from a tool.
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
    """The last known end of the log, and since when it is reached at the latest."""
    if not len(ends.topic):
        return nothing(len(topic)), nothing(len(topic))
    upwards = sorted_rows(ends.topic, ends.end_offset, ends.time_ms)
    of = ends.topic[upwards]
    place = np.searchsorted(of, topic, side="right") - 1
    there = (place >= 0) & (of[np.maximum(place, 0)] == topic)
    last = upwards[np.maximum(place, 0)]
    return known(ends.end_offset).at(last, there), known(ends.time_ms).at(last, there)


def _is_of_same_producer(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """Whether the same producer made the commit before this one, and no newer producer has its id.

    If so, nobody else committed.
    """
    now, then = commits.producer_id.at(rows), commits.producer_id.at(around.before)
    found: Mask = now.valid & then.valid & (now.values == then.values) & ~commits.fenced_ms.valid[around.before]
    return found


def _is_of_former_producer(commits: CommitRows, rows: Ints, around: _Around, before: Ints) -> Mask:
    """Whether the producer of this commit also committed for the former owner, and another producer committed since."""
    now, then = commits.producer_id.at(rows), commits.producer_id.at(around.before)
    former = commits.producer_id.at(before[around.takeover], around.has_takeover)
    found: Mask = now.valid & then.valid & former.valid & (now.values == former.values) & (now.values != then.values)
    return found & (commits.log_offset[around.takeover] < commits.log_offset[rows])


def _was_fenced_before(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """Whether a newer producer fenced the producer of the commit before this one.

    Then the new producer made this commit, and continues from its own position.
    """
    fenced = commits.fenced_ms.at(around.before)
    is_between = fenced.valid & (fenced.values >= commits.time_ms[around.before])
    is_between &= fenced.values <= commits.time_ms[rows]
    return is_between & _goes_on_from_below(around)


def _fell_back(commits: CommitRows, around: _Around, least_before: Column, before: Ints, step_up: Column) -> Mask:
    """Whether a former owner made this commit.

    The commit lies between the former owner's last commits and the new owner's, nearer to the former owner's. The new
    owner returns to its position in one step. A member that seeks back by a little may look the same.
    """
    to, high = around.to, around.high
    former = commits.offset.at(before[around.takeover], around.has_takeover)
    least = least_before.at(around.takeover, around.has_takeover)
    down, rest = minus(to, former), minus(high, to)
    is_near = former.valid & least.valid & (to.values >= least.values) & (down.values <= rest.values)
    found: Mask = is_near & step_up.valid & (step_up.values > rest.values / 2)
    return found


def _step_back_up(around: _Around) -> Column:
    """The size of the step with which a later commit is as high as the commit before this one again.

    It is missing if no later commit is that high.
    """
    heights = (around.to, *around.following)
    found = nothing(len(around.before))
    for lower, upper in zip(reversed(heights[:-1]), reversed(heights[1:]), strict=True):
        is_up, step = upper.valid & (upper.values >= around.high.values), minus(upper, lower)
        found = Column(np.where(is_up, step.values, found.values), np.where(is_up, step.valid, found.valid))
    return found


def _ran_ahead_before(commits: CommitRows, rows: Ints, around: _Around) -> Mask:
    """Whether a former owner made the commit before this one, and that commit is much too high.

    Then the new owner made this commit, and continues from its own position.
    """
    takeover = around.takeover
    soon = commits.time_ms[around.before] - commits.time_ms[takeover] <= ZOMBIE_MS
    is_later = around.has_takeover & (commits.log_offset[takeover] < commits.log_offset[rows])
    is_spike = minus(around.to, around.two_before).values <= minus(around.high, around.to).values
    return is_later & soon & is_spike & _goes_on_from_below(around)


def _goes_on_from_below(around: _Around) -> Mask:
    """Whether this commit is not below the last commit but one, and the next commit is not below this one."""
    to, base, after = around.to, around.two_before, around.following[0]
    found: Mask = base.valid & (to.values >= base.values) & (~after.valid | (after.values >= to.values))
    return found
