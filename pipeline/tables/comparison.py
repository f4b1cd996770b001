"""The table `comparison`: each group before and after a change, by its episodes in two spans or two analyses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from muster.pipeline.arguments import BadArgument
from muster.pipeline.episodes.comparison import (
    CHANCE,
    LIKELY,
    SIGNIFICANT,
    Episode,
    chance,
    happenings,
    judgement,
    span,
)
from muster.pipeline.frames import Column, DataFrame, F
from muster.pipeline.tables import by_group, keep
from muster.pipeline.tables.commits import OF_TIMES, walked
from muster.pipeline.tables.episodes import episodes_and_verdicts
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.wording import moment

_SIDES: Final = ("before", "after")
_RESULT: Final = pa.schema([field for field in TABLES["comparison"] if field.name != "is_significant"])


class Side(NamedTuple):
    """One of the two sides: rows of the table `episodes`; and group, first_ms, last_ms of the table `verdicts`.

    The length of an episode counts only from first_ms to last_ms.
    """

    episodes: DataFrame
    seen: DataFrame


def comparison(before: Side, after: Side) -> DataFrame:
    """Rows of the table `comparison`, for every group on at least one side."""
    rows = None
    for number, side in enumerate((before, after)):
        some = side.seen.select(
            "group",
            F.lit(number).alias("side"),
            (F.col("last_ms") - F.col("first_ms")).alias("observed_ms"),
            *(F.lit(None).cast(kind).alias(name) for name, kind in _EPISODE.items()),
        )
        some = some.unionByName(
            side.episodes.join(side.seen.select("group", "first_ms", "last_ms"), "group", "left").select(
                "group",
                F.lit(number).alias("side"),
                F.lit(None).cast("long").alias("observed_ms"),
                *("kind", "rebalances", "cost_ms", _lasted().alias("lasted_ms")),
            )
        )
        rows = some if rows is None else rows.unionByName(some)
    assert rows is not None
    made = keep(by_group(rows, "side", _compare, _RESULT))
    is_tested = F.col("judgement") == CHANCE
    limit = made.agg((F.lit(LIKELY) / F.greatest(F.count_if(is_tested), F.lit(1))).alias("limit"))
    judged = made.crossJoin(F.broadcast(limit)).withColumn("is_significant", is_tested & (F.col("p") < F.col("limit")))
    judged = judged.withColumn("judgement", F.when(F.col("is_significant"), SIGNIFICANT).otherwise(F.col("judgement")))
    return conform(judged, "comparison")


_EPISODE: Final = {"kind": "string", "rebalances": "int", "cost_ms": "long", "lasted_ms": "long"}


def _lasted() -> Column:
    within = F.least("until_ms", "last_ms") - F.greatest("from_ms", "first_ms")
    return F.greatest(within, F.lit(0)).cast("long")


def split(tables: dict[str, DataFrame], at_ms: int) -> tuple[Side, Side]:
    """The tables of one analysis as two spans, before and after `at_ms`.

    An episode that lasts over this time is on both sides.
    """
    sides = []
    made = keep(walked(tables["commits"], None, wanted=(OF_TIMES,)))
    for number in (0, 1):
        # the episodes are found in the whole log, so that each has one kind on both sides
        found = episodes_and_verdicts(
            tables["rebalances"],
            tables["memberships"],
            tables["generations"],
            made,
            tables["flapping"],
            tables["silences"],
            part=(at_ms, None) if number else (None, at_ms),
        )["episodes"]
        # a static restart without a rebalance at this time is on both sides
        started = F.col("from_ms") < at_ms if number == 0 else F.col("until_ms") >= at_ms
        end = F.least("last_ms", F.lit(at_ms)) if number == 0 else F.col("last_ms")
        begin = F.col("first_ms") if number == 0 else F.greatest("first_ms", F.lit(at_ms))
        seen = tables["verdicts"].select("group", begin.alias("first_ms"), end.alias("last_ms"))
        sides.append(Side(found.where(started), seen.where("last_ms > first_ms")))
    return sides[0], sides[1]


def _compare(group: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    observed = [0, 0]
    episodes: tuple[list[Episode], list[Episode]] = [], []
    for row in rows:
        if row["kind"] is None:
            observed[row["side"]] = row["observed_ms"] or 0
        else:
            episodes[row["side"]].append(Episode(row["kind"], row["rebalances"], row["cost_ms"], row["lasted_ms"] or 0))
    before, after = (span(observed[number], episodes[number]) for number in (0, 1))
    judged: dict[str, Any] = {"group": group, "p": chance(before, after), "judgement": judgement(before, after)}
    for side, one, count in zip(_SIDES, (before, after), happenings(before, after), strict=True):
        judged |= {
            f"hours_{side}": one.observed_ms / 3_600_000,
            f"rebalances_{side}": one.rebalances,
            f"happenings_{side}": count,
            f"cost_ms_{side}": one.cost_ms,
            f"episodes_{side}": list(one.kinds),
        }
    yield judged


NEEDED: Final = ("episodes", "verdicts")
"""The tables of an earlier analysis that a comparison reads: the fields of a Side."""


def check_time(at_ms: int, decoded: DataFrame) -> None:
    """Check that the log has records before and after a time. Raises BadArgument."""
    found = decoded.agg(F.min("log_timestamp_ms"), F.max("log_timestamp_ms")).first()
    if found is None or found[0] is None:
        return  # an empty log is reported by another check
    first_ms, last_ms = int(found[0]), int(found[1])
    if not first_ms < at_ms <= last_ms:
        raise BadArgument(
            f"--compare {moment(at_ms)} (UTC): a time between {moment(first_ms)} and {moment(last_ms)} was expected, "
            "which is the time of the log"
        )


def sides(tables: dict[str, DataFrame], compare: Side | int) -> tuple[Side, Side]:
    """The side before and the side after."""
    if isinstance(compare, int):
        return split(tables, compare)
    return compare, Side(tables["episodes"], tables["verdicts"])


def overlap_ms(before: Side, after: Side) -> int:
    """The length of the time that both sides cover."""
    one, other = _span(before), _span(after)
    if one is None or other is None:
        return 0
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def _span(side: Side) -> tuple[int, int] | None:
    found = side.seen.agg(F.min("first_ms"), F.max("last_ms")).first()
    return None if found is None or found[0] is None else (int(found[0]), int(found[1]))
