"""The table `skips`: commits that moved an offset forward, though no member read the records between. With numpy.

A tool moves offsets of an empty group, as `kafka-consumer-groups --reset-offsets --to-latest` does. A member that is
far behind may go on near the end by itself. Of a member that keeps up, no log shows that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from muster.pipeline.frames import DataFrame, F, Window
from muster.pipeline.schema import columns
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.ordered_columns import NO_MEMBERS, Column, Ints, Mask, begins, behind, known, struct
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.tables.stall_candidates import Thinned
from muster.pipeline.tables.topic_ends import Reach

SKIP = TABLES["skips"]
LEAP: Final = pa.schema([*SKIP, *columns("member_id string, clear int, still int")])
"""A commit of a member that perhaps skipped records. It is a row of the table if it did so in several partitions.

In one of them at least, many steps must show how fast the member reads (`clear` is 1). In two of them, the member must
still be far behind (`still` is 1).
"""
_STEPS = 8
"""This many steps before, in which the member was behind, show how fast it reads."""
_LEAP_STEPS: Final = 4
"""Fewer steps are enough if one commit goes forward in several partitions. A member may read them in turn.

So one of these partitions must have so many steps, and each other one a single step.
"""
_FASTER = 4
"""A step in which offsets went forward so many times faster was no reading."""
_RECORDS = 100
"""A member that seems to skip fewer records may have read them."""
_STILL_S = 20
"""After the step, the member must still be behind by what it reads in this time. Otherwise it may have caught up."""


def skips(walk: DataFrame) -> DataFrame:
    """Rows of the table `skips`, made from rows of `commits.walked`."""
    found = unpacked(walk, "skip", SKIP)
    at_once = Window.partitionBy("group", "member_id", "time_ms")
    clear, still = (F.sum(name).over(at_once) for name in ("clear", "still"))
    leaps = unpacked(walk, "leap", LEAP).withColumn("clear_ones", clear).withColumn("still_ones", still)
    leaps = leaps.where((F.col("clear_ones") > 0) & (F.col("still_ones") > 1))
    # a partition may have both
    every = found.unionByName(leaps.select(*SKIP.names)).distinct()
    return conform(every, "skips")


def skipped(commits: CommitRows) -> pa.StructArray:
    """Rows of the table `skips`. A program that commits again while the group is empty reads by itself, and makes no
    row.
    """
    place, offset, members = commits.place, commits.offset, commits.members
    before, had, next_has = place.before(offset), place.before(members), place.after(members)
    is_empty = members.valid & (members.values == NO_MEMBERS) & ~commits.is_deleted & ~commits.producer_id.valid
    # in a log that begins in mid-life, a group that is empty in a later generation had members before
    is_later = commits.generation.valid & (commits.generation.values > 1)
    is_only = np.where(had.valid, had.values > NO_MEMBERS, is_later)
    is_only &= ~(next_has.valid & (next_has.values == NO_MEMBERS))
    went_on = offset.valid & before.valid & (offset.values > before.values)
    # records below the highest offset so far have been read before
    went_on &= before.values == place.before(place.max_so_far(offset)).values
    rows = np.flatnonzero(is_empty & is_only & went_on)
    return struct(
        SKIP,
        {
            "group": commits.group.at(rows),
            "topic": commits.topic.at(rows),
            "partition": commits.partition.at(rows),
            "time_ms": known(commits.time_ms[rows]),
            "from_offset": before.at(rows),
            "to_offset": offset.at(rows),
            "client_id": [None] * len(rows),
        },
    )


def jumped(commits: CommitRows, few: Thinned, reach: Reach) -> pa.StructArray:
    """Rows of the table `skips` for members that went forward by themselves.

    While a member is behind, it reads as fast as it can. If it once goes forward much faster, it did not read these
    records. After that, it must still be behind, and read as slowly as before.
    """
    # while a member commits one offset again and again, it may read on. So its time since its last step counts
    found = _too_fast(commits, few, reach, is_since_step=True)
    return struct(SKIP, _columns(commits, few, found.rows[(found.steps > _STEPS) & found.is_still]))


def leaped(commits: CommitRows, few: Thinned, reach: Reach) -> pa.StructArray:
    """Rows of LEAP: as `jumped`, but only the time since the member's last commit counts.

    A member that reads its partitions in turn commits one offset again and again meanwhile. If a record fails, a member
    may do so too, and read on. But then it does not go forward in several partitions with one commit.
    """
    found = _too_fast(commits, few, reach, is_since_step=False)
    facts = {
        "member_id": commits.member_id.at(few.rows[found.rows]),
        "clear": known(found.steps > _LEAP_STEPS),
        "still": known(found.is_still),
    }
    return struct(LEAP, {**_columns(commits, few, found.rows), **facts})


class _Fast(NamedTuple):
    """The checked commits that went forward far too fast. Each field has one value for each of them."""

    rows: Ints
    """Their numbers among the checked commits."""
    steps: Ints
    """How many steps so far show how fast the member reads. The step itself is one of them."""
    is_still: Mask
    """Whether the member is still far behind."""


def _too_fast(commits: CommitRows, few: Thinned, reach: Reach, *, is_since_step: bool) -> _Fast:
    rows, life = few.rows, few.life
    time_ms, offset, who = known(commits.time_ms[rows]), commits.offset.at(rows), commits.member_id.numbers.at(rows)
    is_same = ~(begins(who, commits.generation.at(rows)) | (life.rows == life.first)) & who.valid
    read = offset.values - life.before(offset).values
    before, _ = life.latest(begins(offset) | (life.rows == life.first), before=True)
    if not is_since_step:
        before = np.maximum(life.rows - 1, life.first)
    gap_ms = np.maximum(time_ms.values - time_ms.values[before], 1_000)
    unread = behind(reach.end_then, offset)
    was_unread = life.before(unread)
    per_s = Column(np.maximum(read, 0) * 1_000 // gap_ms, is_same & offset.valid)
    is_behind = is_same & unread.valid & was_unread.valid & (read > 0) & (was_unread.values > read)
    is_slow = is_behind & (unread.values > 0)
    is_slow &= life.before(offset).values == life.before(life.max_so_far(offset)).values
    most = life.max_so_far(Column(per_s.values, is_slow)).at(life.last)
    is_most = is_slow & (per_s.values == most.values)
    usual = life.max_so_far(Column(per_s.values, is_slow & ~is_most)).at(life.last)
    after = life.after(per_s)
    is_jump = is_most & usual.valid & (life.count(is_most) == 1)
    steps = life.count_so_far(is_slow)
    is_jump &= (steps > 1) & (per_s.values >= _FASTER * usual.values) & (read >= _RECORDS)
    is_jump &= (unread.values > 0) & after.valid & (after.values <= usual.values)
    found = np.flatnonzero(is_jump)
    return _Fast(found, steps[found], (unread.values >= _STILL_S * usual.values)[found])


def _columns(commits: CommitRows, few: Thinned, found: Ints) -> dict[str, object]:
    """The columns of SKIP for these checked commits."""
    of = few.rows[found]
    return {
        "group": commits.group.at(of),
        "topic": commits.topic.at(of),
        "partition": commits.partition.at(of),
        "time_ms": known(commits.time_ms[of]),
        "from_offset": few.life.before(commits.offset.at(few.rows)).at(found),
        "to_offset": commits.offset.at(of),
        "client_id": commits.client_id.at(of),
    }
