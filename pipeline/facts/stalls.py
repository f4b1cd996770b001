"""The table `stalls`: how each partition's commits went on, by the rules of LinkedIn's Burrow
(docs/pipeline-tables.md), over a window that slides over the whole history.

If the ends of the topics are not known, only REWIND is checked, and `lag_known` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.findings import FINDING, read
from muster.pipeline.facts.schema import TABLES, conform
from muster.pipeline.facts.stall_looks import CAME_ON, INTERVAL, STANDING
from muster.pipeline.facts.standing import Times, stalls_of
from muster.pipeline.tables import by_group

_OWNED: Final = "struct<topic: string, partition: int, start_ms: bigint, end_ms: bigint>"


def stalls(walk: DataFrame, owned: DataFrame | None = None) -> DataFrame:
    """Rows of the table `stalls` out of those of `commit_walk.walked`. `owned`: the table `ownership`; None: whoever
    committed last has the partition still.
    """
    rows = walk.where(F.col("found").isin("interval", "standing", "came_on"))
    rows = rows.select(*FINDING.names, F.lit(None).cast(_OWNED).alias("owned"))
    if owned is not None:
        had = F.struct("topic", "partition", "start_ms", "end_ms").cast(_OWNED)
        rows = rows.unionByName(owned.select("group", had.alias("owned")), allowMissingColumns=True)
    is_known = owned is not None

    def tell(_: str, some: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        return _of_group(some, is_known)

    return conform(by_group(rows, "group", tell, TABLES["stalls"]), "stalls")


def _of_group(rows: Iterable[dict[str, Any]], is_known: bool) -> Iterator[dict[str, Any]]:
    intervals: list[dict[str, Any]] = []
    standing: list[dict[str, Any]] = []
    came_on: dict[str | None, list[int]] = {}
    owned: dict[tuple[str, int], list[Times]] = {}
    for row in rows:
        if row["found"] == "interval":
            intervals.append(read(row, INTERVAL))
        elif row["found"] == "standing":
            standing.append(read(row, STANDING))
        elif row["found"] == "came_on":
            one = read(row, CAME_ON)
            came_on.setdefault(one["member_id"], []).extend(one["times_ms"])
        else:
            one = row["owned"]
            owned.setdefault((one["topic"], one["partition"]), []).append((one["start_ms"], one["end_ms"]))
    in_order = {member: sorted(times) for member, times in came_on.items()}
    return stalls_of(intervals, standing, in_order, owned if is_known else None)
