"""The table `silences`: the times without a sign of life of any group, or of a part of the groups.

Other tables subtract these times from durations. `episodes.silence` and `episodes.silent_part` have the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.episodes.silence import Silence, with_losses
from muster.pipeline.episodes.silence import silences as silences_of
from muster.pipeline.episodes.silent_part import silent_parts
from muster.pipeline.frames import DataFrame, F, from_arrow_schema, from_arrow_type
from muster.pipeline.schema import structs
from muster.pipeline.tables import as_row, batches_of, rows_of
from muster.pipeline.tables.commit_activity import SEEN
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.schema import SILENCE, TABLES


def silences(walk: DataFrame, stays: DataFrame, others: DataFrame | None = None) -> DataFrame:
    """Rows of the table `silences`. `walk`: rows of `commits.walked`. `stays`: rows of `memberships.stays`.

    `others`: rows OTHER_COMMIT; None: all groups are wanted.
    """
    rows = unpacked(walk, "seen", SEEN).select("group", "until_ms", "times_ms")
    known = stays.where("start_ms is not null")
    joins = known.select("group", F.array("start_ms").alias("times_ms"), "start_ms", "end_ms")
    rows = rows.unionByName(joins, allowMissingColumns=True)
    if others is not None:
        committed = others.select("group", F.array("log_timestamp_ms").alias("times_ms"))
        rows = rows.unionByName(committed, allowMissingColumns=True)
    # now all rows of a group are together, and the groups are read one after the other
    in_order = rows.repartition(1).sortWithinPartitions("group")
    return in_order.mapInArrow(_silences, from_arrow_schema(TABLES["silences"]))


def _silences(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    ends = [0]
    signs = []
    stays = []
    names = []
    for name, rows in groupby(rows_of(batches), itemgetter("group")):
        names.append(name)
        signs.append(times := list[int]())
        stays.append(mine := list[tuple[int, int | None]]())
        for row in rows:
            times += row["times_ms"]
            ends.append(row["until_ms"] or 0)
            if row["start_ms"] is not None:
                mine.append((row["start_ms"], row["end_ms"]))
    whole = with_losses(silences_of(signs, max(ends)), stays)
    found = [as_row(one) | {"only": None} for one in whole]
    found += [
        as_row(part.silence) | {"only": [names[number] for number in part.only]}
        for part in silent_parts(signs, stays, whole, max(ends))
    ]
    return batches_of(found, TABLES["silences"])


_SILENCES: Final = structs(SILENCE)


def with_silences(rows: DataFrame, silences: DataFrame) -> DataFrame:
    """The rows, each with the column `silences`: those of all groups, and those of its own group.

    `silences`: the table `silences`.
    """
    one = F.struct(*_SILENCES.value_type.names)
    whole = of_all(silences).agg(F.collect_list(one).alias("of_all"))
    of_group = of_some(silences).groupBy("group").agg(F.collect_list(one).alias("of_group"))
    known = rows.crossJoin(F.broadcast(whole)).join(F.broadcast(of_group), "group", "left")
    none = F.array().cast(from_arrow_type(_SILENCES))
    both = F.flatten(F.array("of_all", F.coalesce("of_group", none)))
    return known.withColumn("silences", both).drop("of_all", "of_group")


def of_all(silences: DataFrame) -> DataFrame:
    """The silences of all groups."""
    return silences.where(F.col("only").isNull())


def of_some(silences: DataFrame) -> DataFrame:
    """The silences of a part of the groups, one row for each of these groups."""
    some = silences.where(F.col("only").isNotNull())
    return some.select(F.explode("only").alias("group"), *_SILENCES.value_type.names)


def silences_in(row: Mapping[str, Any]) -> list[Silence]:
    """The silences of a row of `with_silences`, in the order of time."""
    return sorted(Silence(**one) for one in row.get("silences") or ())
