"""What the first step of an analysis gives: the inputs of the tables. Spark makes it (`stage`), or this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from muster.pipeline.frames import DataFrame, F
from muster.pipeline.schema import KINDS, MALFORMED, OFFSETS_TOPIC, UNKNOWN
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.wanted import ALL, Wanted, is_wanted, pattern_of

_ODD: Final = (MALFORMED, UNKNOWN)
"""The kinds of rows that belong to no group."""


class Staged(NamedTuple):
    """The staged rows of a source."""

    inputs: Inputs
    malformed_events: DataFrame | None
    """The rows of `__group_events` that are no events, as rows of the table `malformed`."""
    rows: Mapping[str, int]
    """The number of rows of the offsets log, by kind."""


def check_found(name: str, decoded: DataFrame, rows: Mapping[str, int], wanted: Wanted, *, has_events: bool) -> None:
    """Check that the source `name` has a group. `rows`: the number of decoded rows, by kind. Raises NoSource."""
    if not has_events and not any(rows.get(kind) for kind in KINDS if kind not in _ODD):
        raise NoSource(_nothing(name, decoded, rows, wanted))


def _nothing(name: str, decoded: DataFrame, rows: Mapping[str, int], wanted: Wanted) -> str:
    """The text of the error for a source without any group."""
    odd = sum(rows.get(kind, 0) for kind in _ODD)
    if wanted != ALL and not odd:
        return f"{name}: the log has nothing that was asked for: {wanted.in_words()}"
    if not odd:
        return (
            f"{name}: {OFFSETS_TOPIC} holds no record of a group: all of it was deleted, compacted away or aborted; "
            "give a log in which groups committed"
        )
    found = decoded.where(F.col("kind").isin(*_ODD)).groupBy("reason").agg(F.count("*").alias("rows"))
    first = found.orderBy(F.desc("rows"), "reason").first()
    why = "" if first is None else f", as in: {first['reason']}"
    return (
        f"{name}: nothing of {OFFSETS_TOPIC} can be read, nothing but damage or other records is there ({odd:,} found"
        f"{why}): is it the log of another topic, or damaged? muster log check DIR looks at a data directory"
    )


def of_time(raw: DataFrame, wanted: Wanted) -> DataFrame:
    """The raw rows of the wanted time. The wanted groups do not matter: these rows belong to no group."""
    rows = raw.withColumn("group", F.lit(None).cast("string"))
    return rows.where(is_wanted(wanted, F.col("timestamp_ms"), of_any_group=F.lit(True))).drop("group")


def parts_within(parts: DataFrame, wanted: Wanted) -> DataFrame:
    """The transactions that began in the wanted time and have one of the wanted groups."""
    rows = parts.withColumn("group", F.lit(None).cast("string"))
    rows = rows.where(is_wanted(wanted, F.col("start_ms"), of_any_group=F.lit(True))).drop("group")
    if not wanted.groups:
        return rows
    pattern = pattern_of(wanted.groups)
    rows = rows.withColumn("groups", F.filter("groups", lambda group: group.rlike(pattern)))
    return rows.where(F.size("groups") > 0)


def present_topics(listed: Callable[[], Mapping[str, str]]) -> Collection[str] | None:
    """The names of the topics that the source knows, by `listed`. None: it has no topic but those of the broker.

    A copy of the offsets log alone does not show which topics exist.
    """
    names = frozenset(listed().values())
    return names if any(not name.startswith("__") for name in names) else None
