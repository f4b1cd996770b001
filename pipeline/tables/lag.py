"""The tables `lag` and `progress`: how far each group is behind now, and how it read over time.

`progress` has at most sixty steps. It has a `lag` at a time only if the end of the topic at that time is known. If two
ends were seen at most eight steps apart, the end between lies on a straight line between them. The end is also known
between two equal ends, and after the last end.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from muster.pipeline.frames import Column as SparkColumn
from muster.pipeline.frames import DataFrame, F
from muster.pipeline.schema import columns
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.ordered_columns import (
    Column,
    Ints,
    Parts,
    begins,
    behind,
    known,
    minus,
    nothing,
    sorted_rows,
    struct,
)
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.tables.topic_ends import Ends, Marks, with_ends
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND

LAST: Final = TABLES["lag"]


def lag(walk: DataFrame) -> DataFrame:
    """Rows of the table `lag`, made from rows of `commits.walked`."""
    return conform(unpacked(walk, "last", LAST), "lag")


def lasts(commits: CommitRows, marks: Marks) -> pa.StructArray:
    """Rows of the table `lag`, made from the last commit of each partition. Those with deleted offsets have no row."""
    rows = commits.place.last[commits.place.starts]
    rows = rows[~commits.is_deleted[rows]]
    offset, time_ms = commits.offset.at(rows), commits.time_ms[rows]
    reach = with_ends(commits.topic_part[rows], time_ms, offset.values, marks)
    behind_by = behind(reach.end_offset, offset)
    since, until = reach.beyond_ms.where(reach.not_beyond_ms.valid), reach.end_ms
    is_level = behind_by.valid & (behind_by.values == 0)
    behind_ms = Column(np.where(is_level, 0, until.values - since.values), is_level | (since.valid & until.valid))
    return struct(
        LAST,
        {
            "group": commits.group.at(rows),
            "topic": commits.topic.at(rows),
            "partition": commits.partition.at(rows),
            "committed_offset": offset,
            "committed_ms": known(time_ms),
            "end_offset": reach.end_offset,
            "end_ms": reach.end_ms,
            "lag": behind_by,
            "behind_ms": behind_ms,
            "client_id": commits.client_id.at(rows),
        },
    )


STEPS: Final = 60
"""The largest number of steps from the first commit of all groups to the end of the log."""
SIZES: Final = (
    *(5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY),
)
"""The possible lengths of a step."""
_NEAR: Final = 8
"""If two ends were seen at most this many steps apart, the ends between them are known."""
STEP: Final = pa.schema(
    columns(
        "group string, start_ms long, until_ms long, commits long, records long, written long, lag long, "
        "is_lacking boolean, is_unwritten boolean"
    )
)
"""The progress of a group in one step, for one partition.

`is_lacking`, `is_unwritten`: the value of the lag, or of the written records, is not known in this step. But the
partition's end was seen at another time.
"""


def progress(walk: DataFrame) -> DataFrame:
    """Rows of the table `progress`, made from rows of `commits.walked`."""
    rows = unpacked(walk, "step", STEP)
    # a partition whose end was never seen is ignored. If an end is not known in this step, the sum is not known
    totals = rows.groupBy("group", "start_ms", "until_ms").agg(
        F.sum("commits").alias("commits"),
        # a tool may have set offsets as large as a long can be
        F.try_sum("records").alias("records"),
        F.when(~F.bool_or("is_unwritten"), F.try_sum("written")).alias("written"),
        F.when(~F.bool_or("is_lacking"), F.try_sum("lag")).alias("lag"),
    )
    return conform(totals, "progress")


def step_ms(first_ms: SparkColumn, known_ms: SparkColumn) -> SparkColumn:
    """The length of a step, if the first commit was at `first_ms` and the log ends at `known_ms`."""
    span = known_ms - first_ms
    largest = F.ceil(span / STEPS / DAY).cast("long") * DAY
    return F.coalesce(*(F.when(span < one * (STEPS - 1), F.lit(one)) for one in SIZES), largest).cast("long")


def steps(commits: CommitRows) -> pa.StructArray | None:
    """Rows of STEP for each partition of a group, from its first commit on. None: the commits give no step."""
    first_ms, size, until = commits.first_ms, commits.step_ms, commits.known_until_ms
    if first_ms is None or size is None or until is None or not len(commits.time_ms):
        return None
    step = np.maximum((commits.time_ms - first_ms) // size, 0)
    order = sorted_rows(commits.place.number, step)
    each = Parts(begins(known(commits.place.number[order]), known(step[order])))
    first, last = order[each.starts], order[each.last[each.starts]]
    place = Parts(begins(known(commits.place.number[first])))
    start = step[first] * size + first_ms
    # a deletion has no offset
    offset = commits.offset.at(last)
    read = minus(offset, place.before(offset).or_else(commits.offset.at(first)))
    records = np.maximum(read.filled(0), 0)
    count = np.add.reduceat((~commits.is_deleted[order]).astype(np.int64), each.starts)
    # until the partition's next row, the steps in between have no commit
    following = place.after(known(start)).or_else(known(np.full(len(start), until + size)))
    held = np.maximum(start, following.values - size)
    more = (held - start) // size + 1
    of = np.repeat(np.arange(len(start)), more)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(more) - more, more)
    at_ms = start[of] + nth * size
    kept = (at_ms < until) | (nth == 0)
    of, nth, at_ms = of[kept], nth[kept], at_ms[kept]
    until_ms = np.maximum(np.minimum(at_ms + size, until), at_ms)
    offset = offset.at(of)
    topic = commits.topic_part[first][of]
    end, is_known = _ends_at(commits.ends, topic, until_ms, size)
    lag = behind(end, offset)
    written = behind(end, Parts(begins(known(place.number[of]))).before(end))
    is_first = nth == 0
    return struct(
        STEP,
        {
            "group": commits.group.at(first[of]),
            "start_ms": known(at_ms),
            "until_ms": known(until_ms),
            "commits": known(np.where(is_first, count[of], 0)),
            "records": known(np.where(is_first, records[of], 0)),
            "written": written,
            "lag": lag,
            "is_lacking": is_known & offset.valid & ~lag.valid,
            "is_unwritten": is_known & ~written.valid,
        },
    )


def _ends_at(ends: Ends, topic: Ints, at_ms: Ints, size: int) -> tuple[Column, np.ndarray]:
    """How far each topic's partition reached at a time, and whether its end was ever seen."""
    if not len(ends.topic):
        return nothing(len(topic)), np.zeros(len(topic), np.bool_)
    order = sorted_rows(ends.topic, ends.time_ms, ends.end_offset)
    of, seen_end, seen_ms = ends.topic[order], ends.end_offset[order], ends.time_ms[order]
    # if several ends have one time, the largest counts
    last = np.append((of[1:] != of[:-1]) | (seen_ms[1:] != seen_ms[:-1]), True)
    of, seen_ms, seen_end = of[last], seen_ms[last], seen_end[last]
    # for each time, the last end before it: ends and times are sorted together
    both = sorted_rows(np.concatenate((of, topic)), np.concatenate((seen_ms, at_ms)),
                       np.concatenate((np.zeros(len(of), np.int64), np.ones(len(topic), np.int64))))  # fmt: skip
    counted = np.cumsum(both < len(of))
    place = np.empty(len(both), np.int64)
    place[both] = counted - 1
    before = place[len(of) :]
    after = np.minimum(before + 1, len(of) - 1)
    has_before = (before >= 0) & (of[np.maximum(before, 0)] == topic)
    has_after = (before + 1 < len(of)) & (of[after] == topic)
    low = known(seen_end).at(np.maximum(before, 0), has_before)
    high = known(seen_end).at(after, has_after)
    low_ms, high_ms = seen_ms[np.maximum(before, 0)], seen_ms[after]
    gap = np.maximum(high_ms - low_ms, 1)
    grown = np.floor(minus(high, low).values * ((at_ms - low_ms) / gap))
    is_near = has_before & has_after & (gap <= _NEAR * size)
    still = has_before & (~has_after | (high.values == low.values))
    between = low.values + np.where(is_near & ~still, grown, 0).astype(np.int64)
    found = Column(np.where(still, low.values, between), still | is_near)
    return found, np.isin(topic, of)
