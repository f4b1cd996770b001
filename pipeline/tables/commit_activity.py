"""When commits were made: by which groups, and by which members in which state. Made with numpy from the commits."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from muster.pipeline.episodes.silence import STEP_MS
from muster.pipeline.episodes.thresholds import SILENCE_MS
from muster.pipeline.frames import DataFrame, F
from muster.pipeline.schema import columns
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.ordered_columns import Column, Ints, Parts, begins, known, sorted_rows, struct

ACTIVE: Final = pa.schema(
    columns(
        "group string, state int, member_id string, commits long, first_ms long, last_ms long, gap_ms long, "
        "max_gap_ms long, last_gap_ms long"
    )
)
"""The commits of a member for a partition in a state of the group.

`gap_ms` is the mean time between two commits, `max_gap_ms` the longest time, and `last_gap_ms` the time before the last
commit.
"""


def activity(walk: DataFrame) -> DataFrame:
    """For each state of a group the activity of its members: group, state, activity.

    `activity` is a list of member_id, commits, first_ms, last_ms, gap_ms, max_gap_ms, last_gap_ms. The gaps of a member
    are those of the partition where they are smallest. `walk`: rows of `commits.walked`. The log does not say which
    member commits: the owner of the partition counts as this member.
    """
    members = (
        unpacked(walk, "active", ACTIVE)
        .groupBy("group", "state", "member_id")
        .agg(
            F.sum("commits").alias("commits"),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            F.min("gap_ms").alias("gap_ms"),
            F.min("max_gap_ms").alias("max_gap_ms"),
            F.max_by("last_gap_ms", "last_ms").alias("last_gap_ms"),
        )
    )
    row = F.struct("member_id", "commits", "first_ms", "last_ms", "gap_ms", "max_gap_ms", "last_gap_ms")
    return members.groupBy("group", "state").agg(F.collect_list(row).alias("activity"))


def active(commits: CommitRows) -> pa.StructArray:
    """Rows of ACTIVE."""
    member = commits.member_id.numbers
    rows = _own(commits, np.flatnonzero(member.valid & commits.state.valid & ~commits.is_deleted))
    place, state, time_ms = commits.place.number[rows], commits.state.at(rows), commits.time_ms[rows]
    near = Parts(begins(known(place)))
    before, before_state = near.before(known(time_ms)), near.before(state)
    gap = Column(time_ms - before.values, before.valid & (before_state.values == state.values))
    order = sorted_rows(place, state.values, member.values[rows])
    of, gap, time_ms = rows[order], gap.at(order), time_ms[order]
    each = Parts(begins(known(place[order]), state.at(order), member.at(of)))
    starts = each.starts
    if not len(starts):
        return struct(ACTIVE, dict.fromkeys((one.name for one in ACTIVE), known([])) | {
            "group": commits.group.at(rows), "member_id": commits.member_id.at(rows)})  # fmt: skip
    gaps = np.add.reduceat(gap.valid.astype(np.int64), starts)
    has_gap = gaps > 0
    total = np.add.reduceat(np.where(gap.valid, gap.values, 0), starts)
    ends = each.last[starts]
    return struct(
        ACTIVE,
        {
            "group": commits.group.at(of[starts]),
            "state": commits.state.at(of[starts]),
            "member_id": commits.member_id.at(of[starts]),
            "commits": known(ends - starts + 1),
            "first_ms": known(np.minimum.reduceat(time_ms, starts)),
            "last_ms": known(np.maximum.reduceat(time_ms, starts)),
            "gap_ms": Column(np.trunc(total / np.maximum(gaps, 1)).astype(np.int64), has_gap),
            "max_gap_ms": Column(np.maximum.reduceat(gap.filled(np.iinfo(np.int64).min), starts), has_gap),
            "last_gap_ms": gap.at(ends),
        },
    )


def _own(commits: CommitRows, rows: Ints) -> Ints:
    """The rows without transactions of programs that are no members.

    In one state of the group, the owner of a partition commits in transactions or without. So if both occur, the
    transactions are not its own.
    """
    place, state = commits.place.number[rows], commits.state.at(rows)
    order = sorted_rows(place, state.values)
    part = Parts(begins(known(place[order]), state.at(order)))
    if not len(rows):
        return rows
    in_transaction = commits.producer_id.valid[rows][order]
    has_plain = np.logical_or.reduceat(~in_transaction, part.starts)[part.number]
    kept: Ints = rows[np.sort(order[~(in_transaction & has_plain)])]
    return kept


SEEN: Final = pa.schema(
    [*columns("group string, first_ms long, last_ms long, until_ms long"), ("times_ms", pa.list_(pa.int64()))]
)
"""The first and the last time at which a group committed, or at which its offsets were deleted.

Also the first commit in each step of STEP_MS, and each commit after which SILENCE_MS without a commit follow. A group
may have several rows. `until_ms`: the end of the log.
"""
HEARD: Final = pa.schema(columns("group string, member_id string, generation int, heard_ms long"))
"""The last commit of a member in a generation, or one of its last commits. A member may have several rows."""


def seen(commits: CommitRows) -> pa.StructArray:
    """Rows of SEEN."""
    order = sorted_rows(commits.group.numbers.values, commits.time_ms)
    group, time_ms = commits.group.at(order), commits.time_ms[order]
    each = Parts(begins(group.numbers))
    alive = np.flatnonzero(~commits.is_deleted[order])
    of, at_ms = each.number[alive], time_ms[alive]
    is_last = np.append((of[1:] != of[:-1]) | (at_ms[1:] - at_ms[:-1] >= SILENCE_MS), True)[: len(alive)]
    kept = alive[begins(known(of), known(at_ms // STEP_MS)) | is_last]
    bounds = np.append(np.searchsorted(kept, each.starts), len(kept)).astype(np.int32)
    times = pa.ListArray.from_arrays(pa.array(bounds), pa.array(time_ms[kept]))
    starts = each.starts
    until = pa.array([commits.known_until_ms] * len(starts), pa.int64())
    arrays = [group.at(starts).array(), pa.array(time_ms[starts]), pa.array(time_ms[each.last[starts]]), until, times]
    return pa.StructArray.from_arrays(arrays, fields=list(SEEN))


def heard(commits: CommitRows) -> pa.StructArray:
    """Rows of HEARD."""
    member, generation = commits.member_id, commits.generation
    rows = np.flatnonzero(member.numbers.valid & ~commits.is_deleted)
    keys = (commits.group.numbers.values[rows], member.numbers.values[rows], generation.filled(-1)[rows])
    order = rows[sorted_rows(*keys, commits.time_ms[rows])]
    each = Parts(begins(commits.group.numbers.at(order), member.numbers.at(order), generation.at(order)))
    last = order[each.last[each.starts]] if len(order) else order
    return struct(
        HEARD,
        {
            "group": commits.group.at(last),
            "member_id": member.at(last),
            "generation": generation.at(last),
            "heard_ms": known(commits.time_ms[last]),
        },
    )
