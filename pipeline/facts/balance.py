"""The table `balance`: how even each generation's assignment is, and how much of the one before it kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.assignors.measures import Owned, skew, stickiness
from muster.pipeline.facts.schema import TABLES
from muster.pipeline.tables import batches_of, rows_of

_SHARE: Final = ("member_id", "instance_id", "assigned")


def balance(generations: DataFrame) -> DataFrame:
    """Rows of the table `balance`: one for each row of `generations` that has members of consumers."""
    shares = F.transform("members", lambda one: F.struct(*(one[name].alias(name) for name in _SHARE)))
    in_order = Window.partitionBy("group").orderBy("start_ms", "generation")
    rows = generations.select("group", "generation", "start_ms", shares.alias("shares"))
    rows = rows.withColumn("before", F.lag("shares").over(in_order))
    rows = rows.where(F.exists("shares", lambda one: one["assigned"].isNotNull()))
    schema = TABLES["balance"]
    return rows.mapInArrow(
        lambda batches: batches_of(map(measure, rows_of(batches)), schema), from_arrow_schema(schema)
    )


def measure(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `balance` of a generation: `shares` and `before` are lists of members, or None."""
    owned = _owned(row["shares"])
    even = skew(owned)
    return {
        "group": row["group"],
        "generation": row["generation"],
        "start_ms": row["start_ms"],
        "members": len(owned),
        "partitions": sum(len(partitions) for topics in owned.values() for partitions in topics.values()),
        "least": even.least,
        "most": even.most,
        "skew": even.coefficient,
        "stickiness": stickiness(_owned(row["before"]), owned) if row["before"] else None,
    }


def _owned(shares: Iterable[Mapping[str, Any]]) -> Owned:
    """A static member goes by its instance id, as it comes back under another member id."""
    return {
        share["instance_id"] or share["member_id"]: {
            topic["topic"]: topic["partitions"] for topic in share["assigned"] or ()
        }
        for share in shares
    }
