"""The ends of the topics' logs beside commits: how far the log reached then, and when it passed the offset.

A row of ends says from when on the log reached at least this end. The ends of a partition are its history, and the
largest offset is the latest known end. For partitions with known ends, commits of other groups are history too: no
group reads records before they exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.pipeline.tables.ordered_columns import LARGEST, Column, Ints, Parts, begins, known, nothing, sorted_rows


class Ends(NamedTuple):
    """Rows of `ends` as arrays: the number of the topic's partition, how far its log reached, and from when on."""

    topic: Ints
    end_offset: Ints
    time_ms: Ints
    surely_ms: Column
    """From when on surely. It is missing if nobody knows whether producers sent these records in time."""


class Reach(NamedTuple):
    """The known ends beside each commit. All fields are missing if no end of the commit's partition is known."""

    end_then: Column
    """How far the log reached, at least, when the commit was made."""
    beyond_ms: Column
    """From when on the log reached beyond the committed offset. It is missing if no such time is known."""
    surely_ms: Column
    """The same, but even if producers sent their records late."""
    not_beyond_ms: Column
    """The last time at which the log surely did not reach beyond the committed offset. It is missing if no such time is
    known.
    """
    end_offset: Column
    """The latest known end of the log."""
    end_ms: Column
    """The earliest time at which the log is known to have had this end."""


class Marks(NamedTuple):
    """The ends of partitions. Each end has another offset, and the offsets rise."""

    topic: Ints
    end_offset: Ints
    time_ms: Ints
    surely_ms: Column
    below_ms: Column
    """The last time at which the end of the log was known to be lower."""


def marks_of(ends: Ends) -> Marks:
    """The distinct ends, sorted by partition and offset, each with the first time at which it was seen."""
    upwards = sorted_rows(ends.topic, ends.end_offset, ends.time_ms)
    topic, end_offset, time_ms = ends.topic[upwards], ends.end_offset[upwards], ends.time_ms[upwards]
    each = Parts(begins(known(topic), known(end_offset)))
    first, last = each.starts, each.last[each.starts] if len(topic) else each.starts
    below = Parts(begins(known(topic[first]))).before(known(time_ms[last]))
    return Marks(topic[first], end_offset[first], time_ms[first], ends.surely_ms.at(upwards).at(first), below)


def latest_of(marks: Marks, topics: int) -> tuple[Column, Column]:
    """The largest known end of each partition, and since when it is known."""
    end_offset, end_ms = nothing(topics), nothing(topics)
    # offsets rise, so the largest end is written last and stays
    for column, values in ((end_offset, marks.end_offset), (end_ms, marks.time_ms)):
        column.values[marks.topic] = values
        column.valid[marks.topic] = True
    return end_offset, end_ms


def with_ends(topic: Ints, time_ms: Ints, offset: Ints, marks: Marks) -> Reach:
    """The known ends beside each of these commits. `topic`: the number of the topic's partition, from 0 on."""
    rows = len(topic)
    if not rows or not len(marks.topic):
        return Reach(*(nothing(rows) for _ in Reach._fields))
    topics = int(max(topic.max(), marks.topic.max())) + 1
    latest, latest_ms = latest_of(marks, topics)
    end_offset, end_ms = latest.at(topic), latest_ms.at(topic)
    both = np.concatenate((marks.topic, topic))
    times = np.concatenate((marks.time_ms, time_ms))
    offsets = np.concatenate((marks.end_offset, offset))
    is_commit = np.arange(len(both)) >= len(marks.topic)
    reached = _reached(both, times, offsets, is_commit)[len(marks.topic) :]
    # a commit beyond the end proves nothing: the log was created again, or somebody set the offset by hand
    proven = Column(times, latest.valid[both] & (offsets <= latest.values[both]))
    surely = Column(
        np.concatenate((marks.surely_ms.values, time_ms)),
        np.concatenate((marks.surely_ms.valid, proven.valid[len(marks.topic) :])),
    )
    (above_ms, surely_ms), next_mark = _above(
        both, offsets, (proven, surely), np.where(is_commit, -1, np.arange(len(both)))
    )
    own = np.arange(len(marks.topic), len(both))
    next_mark = next_mark[len(marks.topic) :]
    return Reach(
        Column(np.minimum(reached, end_offset.values), end_offset.valid),
        above_ms.at(own).where(end_offset.valid),
        surely_ms.at(own).where(end_offset.valid),
        marks.below_ms.at(np.maximum(next_mark, 0), next_mark >= 0),
        end_offset,
        end_ms,
    )


def _reached(topic: Ints, times: Ints, offsets: Ints, is_commit: np.ndarray) -> Ints:
    """The largest offset of the partition so far, in the order of time."""
    in_time = sorted_rows(topic, times, is_commit)
    found = np.empty(len(topic), np.int64)
    found[in_time] = Parts(begins(known(topic[in_time]))).max_so_far(known(offsets[in_time])).values
    return found


def _above(topic: Ints, offsets: Ints, proofs: Sequence[Column], mark: Ints) -> tuple[list[Column], Ints]:
    """The first time that proves a higher offset in the partition, and the lowest mark above (-1: none).

    `proofs`: for each kind of proof, the times of all rows.
    """
    # the largest and the smallest long have no neighbours
    height = np.clip(offsets, 1 - LARGEST, LARGEST - 1)
    downwards = sorted_rows(topic, -height)
    parts = Parts(begins(known(topic[downwards])))
    level = Parts(begins(known(topic[downwards]), known(height[downwards])))
    lowest, is_there = parts.latest(mark[downwards] >= 0)
    # the rows with one offset use the values of all rows with higher offsets
    higher = np.maximum(level.first - 1, 0)
    has_higher = level.first > parts.first
    every, next_mark = [], np.full(len(topic), -1, np.int64)
    for proven in proofs:
        above, found = nothing(len(topic)), parts.min_so_far(proven.at(downwards)).at(higher, has_higher)
        above.values[downwards], above.valid[downwards] = found.values, found.valid
        every.append(above)
    next_mark[downwards] = np.where(has_higher & is_there[higher], mark[downwards][lowest[higher]], -1)
    return every, next_mark
