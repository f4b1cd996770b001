"""When records were logged: by their own times, never by times that clients state in commits.

An impossible time is replaced by the time of the records around it. So one wrong clock does not make a history begin in
1970. A broker logs in the order of time. In each partition, the longest run of records with rising times is trusted. A
  record whose time differs by more than a day from this run is not trusted. At the ends of the log, times of 0 or less,
  in the future, or years off are not trusted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import pyarrow as pa

from muster.pipeline.frames import DataFrame, F, from_arrow_schema
from muster.pipeline.schema import DECODED, columns
from muster.pipeline.tables import keep

DAY_MS: Final = 86_400_000
YEARS_MS: Final = 10 * 365 * DAY_MS
"""If a record is this far from all others of its partition, its time is impossible."""

MAX_DAYS: Final = 50_000
"""At most this many days of partitions are checked one by one: nearly three years of 50 partitions."""

_FEW: Final = 10
"""This many records of a partition, and of each thousand, may have a time in the future. If there are more, the clock
of this machine is wrong.
"""

ODD: Final = pa.schema(columns("log_partition int, log_offset long, was_ms long, sound_ms long"))
"""A record with an impossible time: that time (`was_ms`), and the time of the records around it (`sound_ms`)."""


class Day(NamedTuple):
    """The records of one partition whose times are on one day."""

    partition: int
    first_ms: int
    last_ms: int
    first_offset: int
    last_offset: int


def with_sound_times(decoded: DataFrame, now_ms: int) -> tuple[DataFrame, DataFrame | None]:
    """The decoded rows (DECODED) with possible times, and the changed times (ODD). None: all times are possible."""
    partitions = _suspect(decoded, now_ms)
    if not partitions:
        return decoded, None

    def odd(table: pa.Table) -> pa.Table:
        rows = table.sort_by("log_offset")
        (partition,) = set(table.column("log_partition").to_pylist())
        found = odd_ones(rows.column("log_offset").to_pylist(), rows.column("log_timestamp_ms").to_pylist(), now_ms)
        return pa.Table.from_pylist([dict(zip(ODD.names, (partition, *one), strict=True)) for one in found], schema=ODD)

    times = decoded.select("log_partition", "log_offset", "log_timestamp_ms").where(
        F.col("log_partition").isin(*partitions) & F.col("log_timestamp_ms").isNotNull()
    )
    # the changed rows may be as many as the records, so they stay in Spark. After a count, Spark knows their number
    changed = keep(times.groupBy("log_partition").applyInArrow(odd, from_arrow_schema(ODD)))
    if not changed.count():
        return decoded, None
    rows = decoded.join(changed.drop("was_ms"), ["log_partition", "log_offset"], "left")
    rows = rows.withColumn("log_timestamp_ms", F.coalesce("sound_ms", "log_timestamp_ms"))
    return rows.select(*DECODED.names), changed


def _suspect(decoded: DataFrame, now_ms: int) -> list[int]:
    """The partitions that may have impossible times. If the log has over MAX_DAYS days, these are all partitions."""
    at = F.col("log_timestamp_ms")
    rows = decoded.where(at.isNotNull()).groupBy("log_partition", F.floor(at / DAY_MS).alias("day"))
    counted = rows.agg(F.min(at), F.max(at), F.min("log_offset"), F.max("log_offset")).limit(MAX_DAYS + 1).collect()
    if len(counted) > MAX_DAYS:
        return [row[0] for row in decoded.select("log_partition").distinct().orderBy("log_partition").collect()]
    days: dict[int, list[Day]] = {}
    for partition, _, *rest in sorted(counted):
        days.setdefault(partition, []).append(Day(partition, *rest))
    return sorted(partition for partition, some in days.items() if are_odd(some, now_ms))


def are_odd(days: Sequence[Day], now_ms: int) -> bool:
    """Whether a partition may have impossible times. `days` must be in the order of time."""
    if days[0].first_ms <= 0 or days[-1].last_ms > now_ms + DAY_MS:
        return True
    if any(day.first_ms - before.last_ms > YEARS_MS for before, day in pairwise(days)):
        return True
    done, reached = 0, -1
    for day in days:
        # clocks of brokers differ, so only records that are more than a day older must stand before this day
        while days[done].last_ms < day.first_ms - DAY_MS:
            reached = max(reached, days[done].last_offset)
            done += 1
        if day.first_offset < reached:
            return True
    return False


def odd_ones(offsets: Sequence[int], times: Sequence[int], now_ms: int) -> Iterator[tuple[int, int, int]]:
    """The records of a partition that have an impossible time, in the order of the log.

    Each result has the record's offset, the impossible time, and the time of the last possible record before. If no
    record before is possible, it is the time of the first possible record after.
    """
    latest_ms = _latest_ms(times, now_ms)
    run = _without_far_ends(_longest_run(times, latest_ms), times)
    if not run:
        return
    after = 0
    """The index in the run of the first record that is not before the present one."""
    for place, (offset, time_ms) in enumerate(zip(offsets, times, strict=True)):
        while after < len(run) and run[after] < place:
            after += 1
        low = times[run[after - 1]] if after else None
        high = times[run[after]] if after < len(run) else None
        if time_ms > latest_ms or _cannot_be(time_ms, low, high):
            yield offset, time_ms, low if low is not None else times[run[0]]


def _latest_ms(times: Sequence[int], now_ms: int) -> int:
    """The latest time at which a record can have been logged."""
    latest_ms = now_ms + DAY_MS
    if sum(time_ms > latest_ms for time_ms in times) > max(_FEW, len(times) * _FEW // 1_000):
        return max(times)  # with so many of these records, the clock of this machine is wrong
    return latest_ms


def _cannot_be(time_ms: int, low: int | None, high: int | None) -> bool:
    """Whether a time is impossible between records with the times `low` and `high`. None means no record."""
    if low is None and high is not None and time_ms < high - YEARS_MS:
        return True
    too_early = time_ms <= 0 or (low is not None and time_ms < low - DAY_MS)
    return too_early or (high is not None and time_ms > high + DAY_MS)


def _longest_run(times: Sequence[int], latest_ms: int) -> list[int]:
    """The indexes of the longest run of times that do not fall, are above 0, and are not after `latest_ms`."""
    ends: list[int] = []
    """For runs of 1, 2, … records: the earliest time with which such a run ends."""
    places: list[int] = []
    before: list[int] = [-1] * len(times)
    for place, time_ms in enumerate(times):
        if not 0 < time_ms <= latest_ms:
            continue
        length = bisect_right(ends, time_ms)
        before[place] = places[length - 1] if length else -1
        ends[length : length + 1] = [time_ms]
        places[length : length + 1] = [place]
    run: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]


def _without_far_ends(run: list[int], times: Sequence[int]) -> list[int]:
    """The run without the records at its beginning that are many years before the larger part."""
    for number in range(len(run) // 2, 0, -1):
        if times[run[number]] - times[run[number - 1]] > YEARS_MS:
            return run[number:]
    return run
