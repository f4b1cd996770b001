"""The ends of the topics' logs, as rows of ENDS. Pure.

A row (topic, partition, end_offset, time_ms, surely_ms) says: from time_ms on, the log reached end_offset. The rows of
a partition are its history, and the largest end_offset is the present end. Its time is the time of the newest record,
in a data directory and on a live cluster. Both are asked for earlier ends at the same times. So both give the same
rows, but for surely_ms. These times come from the clocks of producers, which may send records late. Since surely_ms,
the log surely reached end_offset (`sent`). Null means that nobody knows. A live cluster never says it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from muster.pipeline.schema import columns

ENDS: Final = pa.schema(columns("topic string, partition int, end_offset long, time_ms long, surely_ms long"))

Place = tuple[str, int]
"""A topic and a partition."""
Row = tuple[str, int, int, int, int | None]
Between = tuple[int, int]
"""The time of the first commit of all groups, and of the last one."""

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_SIZES: Final = (
    *(_SECOND, 2 * _SECOND, 5 * _SECOND, 10 * _SECOND, 15 * _SECOND, 30 * _SECOND, _MINUTE, 2 * _MINUTE, 5 * _MINUTE),
    *(15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY),
)
"""The possible distances between two times of a history."""
STEPS: Final = 120
"""A history has no more than this many times, and usually more than a third of it."""
LOOKUPS: Final = 20_000
"""If a log has many partitions, its history has fewer times. So no more offsets than these are looked up."""
_FEW_STEPS: Final = 6


_UNKNOWN: Final[Mapping[Place, int]] = {}


class Reach(NamedTuple):
    """The present ends of partitions. Partitions that do not exist, or are not visible, are left out."""

    at_ms: int
    """The time just before the ends were read, by the clock of this machine."""
    ends: Mapping[Place, int]
    since: Mapping[Place, int] = _UNKNOWN
    """Since when a partition has had its end: the time of its newest record.

    A partition is left out if it has no record, or if its time is not known or impossible.
    """

    def of(self, places: Collection[Place]) -> Reach:
        """Only the ends of these partitions."""
        return self._replace(ends={place: end for place, end in self.ends.items() if place in places})


class Lookups(NamedTuple):
    """The questions to a live cluster. An answer leaves out unknown partitions."""

    first: Callable[[Collection[Place]], Mapping[Place, int]]
    """The first offset of partitions."""
    newest: Callable[[Collection[Place]], Mapping[Place, tuple[int, int]]]
    """The offset and the time of the record with the greatest time. Without a record both are -1."""
    at: Callable[[Collection[Place], int], Mapping[Place, int]]
    """The offset of the first record at a time or later. Without such a record it is -1."""


History = dict[int, dict[Place, int]]
"""The offsets that were found at the time of a lookup."""


def ends_of_lookups(
    lookups: Lookups, reach: Reach, between: Between, until_ms: int | None = None, known: History | None = None
) -> pa.Table | None:
    """The rows (ENDS) of the partitions of `reach` on a live cluster. None means that no end is known.

    `between`, `until_ms`: as for `rows_of_ends`. `known`: the offsets of earlier lookups at the same cluster; new ones
    are added.
    """
    if not reach.ends:
        return None
    if until_ms is not None and until_ms > reach.at_ms:
        until_ms = None
    first, newest = lookups.first(reach.ends), lookups.newest(reach.ends)
    reach = reach._replace(since=_since(newest, reach))
    times = history_times(reach, between, until_ms)
    history = {} if known is None else known
    for old in history.keys() - set(times):
        del history[old]
    for then_ms in times:
        found = history.setdefault(then_ms, {})
        asked = [place for place in reach.ends if place not in found]
        # without a record of that time or later, the answer may be another one later
        found |= {place: offset for place, offset in lookups.at(asked, then_ms).items() if offset >= 0}
    rows = [
        (*place, offset, then_ms, None)
        for then_ms in times
        for place, offset in history[then_ms].items()
        if place in reach.ends and is_reached(offset, first.get(place, 0))
    ]
    return rows_of_ends(reach, rows, between, until_ms)


def _since(newest: Mapping[Place, tuple[int, int]], reach: Reach) -> dict[Place, int]:
    return {
        # a record that came after the present ends were read is newer than these
        place: time_ms if offset < reach.ends[place] else reach.at_ms
        for place, (offset, time_ms) in newest.items()
        if offset >= 0 and 0 <= time_ms <= reach.at_ms
    }


def history_times(reach: Reach, between: Between, until_ms: int | None = None) -> list[int]:
    """The times at which earlier ends are looked up.

    They are multiples of their distance, so later questions ask for the same times. `until_ms` is one of them.
    """
    first_ms, last_ms = between
    # the times of records come from producers, whose clocks may be wrong
    newest_ms = max((reach.since[place] for place in reach.ends if place in reach.since), default=last_ms)
    last_ms = max(min(newest_ms, last_ms + _DAY, reach.at_ms), first_ms)
    steps = max(_FEW_STEPS, min(STEPS, LOOKUPS // max(len(reach.ends), 1)))
    size = next((one for one in _SIZES if (last_ms - first_ms) // one < steps - 1), 0)
    size = size or -(-(last_ms - first_ms) // (steps - 1) // _DAY) * _DAY
    times = range(first_ms // size * size, last_ms + 1, size)
    return [*times] if until_ms is None else [*(one for one in times if one < until_ms), until_ms]


def is_reached(offset: int, first: int) -> bool:
    """Whether a log surely had its end at an offset, just before the record there.

    Nobody knows when a log reached its first offset if older records were deleted.
    """
    return offset > first or offset == 0


def rows_of_ends(
    reach: Reach, history: Iterable[Row], between: Between | None, until_ms: int | None = None
) -> pa.Table | None:
    """The rows (ENDS): the present ends, and those of the history that are before them. None: there is no row.

    `history`: rows whose time is that of the lookup. `until_ms`: ends from then on are left out.
    """
    empty_ms = reach.at_ms if between is None else min(between[1], reach.at_ms)
    rows: list[Row] = [(*place, end, reach.since.get(place, empty_ms), None) for place, end in reach.ends.items()]
    # what was found at `until_ms` was there just before
    rows += [(*row[:3], row[3] - (row[3] == until_ms), row[4]) for row in history if row[2] < reach.ends[row[:2]]]
    some = [row for row in rows if until_ms is None or row[3] < until_ms]
    columns = list(zip(*sorted(some, key=lambda row: row[:4]), strict=True))
    if not columns:
        return None
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ENDS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ENDS)
