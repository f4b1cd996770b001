"""The table `silences`: the times without a sign of life of any group.

Other tables subtract these times from durations. `episodes.silence` has the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from muster.pipeline.episodes.silence import silences as silences_of
from muster.pipeline.episodes.silence import with_losses
from muster.pipeline.frames import DataFrame, F, from_arrow_schema
from muster.pipeline.tables import as_row, batches_of, rows_of
from muster.pipeline.tables.commit_activity import SEEN
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.schema import TABLES


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
    for _, rows in groupby(rows_of(batches), itemgetter("group")):
        signs.append(times := list[int]())
        stays.append(mine := list[tuple[int, int | None]]())
        for row in rows:
            times += row["times_ms"]
            ends.append(row["until_ms"] or 0)
            if row["start_ms"] is not None:
                mine.append((row["start_ms"], row["end_ms"]))
    found = with_losses(silences_of(signs, max(ends)), stays)
    return batches_of(map(as_row, found), TABLES["silences"])


def listed(silences: DataFrame) -> DataFrame:
    """One row with the column `silences`: a list of all silences."""
    return silences.agg(F.collect_list(F.struct(*silences.columns)).alias("silences"))
