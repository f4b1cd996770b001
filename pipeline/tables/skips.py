"""The table `skips`: commits that moved an offset forward, though no member read the records between. With numpy.

A tool moves offsets of an empty group, as `kafka-consumer-groups --reset-offsets --to-latest` does. A member that is
far behind may go on near the end by itself. Of a member that keeps up, no log shows that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from muster.pipeline.frames import DataFrame, F, Window
from muster.pipeline.schema import columns
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.ordered_columns import NO_MEMBERS, Column, Ints, begins, behind, known, struct
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.tables.stall_candidates import Thinned
from muster.pipeline.tables.topic_ends import Reach

SKIP = TABLES["skips"]
LEAP: Final = pa.schema([*SKIP, *columns("member_id string")])
"""A commit of a member that perhaps skipped records. It is a row of the table if it did so in several partitions."""
_STEPS = 8
"""This many steps before, in which the member was behind, show how fast it reads."""
_LEAP_STEPS: Final = 4
"""In each partition, fewer steps are enough if one commit goes forward in several."""
_FASTER = 4
"""A step in which offsets went forward so many times faster was no reading."""
_RECORDS = 100
"""A member that seems to skip fewer records may have read them."""
_STILL_S = 20
"""After the step, the member must still be behind by what it reads in this time. Otherwise it may have caught up."""


def skips(walk: DataFrame) -> DataFrame:
    """Rows of the table `skips`, made from rows of `commits.walked`."""
    found = unpacked(walk, "skip", SKIP)
    places = F.count(F.lit(1)).over(Window.partitionBy("group", "member_id", "time_ms"))
    leaps = unpacked(walk, "leap", LEAP).withColumn("places", places).where(F.col("places") > 1)
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
    is_only = had.valid & (had.values > NO_MEMBERS) & ~(next_has.valid & (next_has.values == NO_MEMBERS))
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
    return struct(SKIP, _too_fast(commits, few, reach, is_since_step=True)[1])


def leaped(commits: CommitRows, few: Thinned, reach: Reach) -> pa.StructArray:
    """Rows of LEAP: as `jumped`, but only the time since the member's last commit counts.

    A member that reads its partitions in turn commits one offset again and again meanwhile. If a record fails, a member
    may do so too, and read on. But then it does not go forward in several partitions with one commit.
    """
    found, facts = _too_fast(commits, few, reach, is_since_step=False)
    return struct(LEAP, {**facts, "member_id": commits.member_id.at(found)})


def _too_fast(
    commits: CommitRows, few: Thinned, reach: Reach, *, is_since_step: bool
) -> tuple[Ints, dict[str, object]]:
    """The numbers of commits that went forward too fast, and the columns of SKIP."""
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
    is_jump &= life.count_so_far(is_slow) > (_STEPS if is_since_step else _LEAP_STEPS)
    is_jump &= (per_s.values >= _FASTER * usual.values) & (read >= _RECORDS)
    is_jump &= (unread.values >= _STILL_S * usual.values) & after.valid & (after.values <= usual.values)
    found = np.flatnonzero(is_jump)
    of = rows[found]
    return of, {
        "group": commits.group.at(of),
        "topic": commits.topic.at(of),
        "partition": commits.partition.at(of),
        "time_ms": time_ms.at(found),
        "from_offset": life.before(offset).at(found),
        "to_offset": offset.at(found),
        "client_id": commits.client_id.at(of),
    }
