"""The table `static_candidates`: members that came back. What a `group.instance.id` (KIP-345) would have spared them is
a question for the what-if, which counts the time in which they are dead too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.facts.returning_members import Stay, pair_returns
from muster.pipeline.facts.schema import conform
from muster.pipeline.schema import columns
from muster.pipeline.tables import by_group

_RETURNS: Final = pa.schema(
    columns(
        "group string, client_id string, host string, gone_member_id string, back_member_id string, absent_ms long, "
        "needed_ms long"
    )
)


def static_candidates(memberships: DataFrame, generations: DataFrame) -> DataFrame:
    """Rows of the table `static_candidates` out of those of two others."""
    found = by_group(_stays(memberships, generations), "start_ms", _returns_of, _RETURNS)
    place = ["group", "client_id", "host"]
    totals = found.groupBy(*place).agg(
        F.count("*").alias("returns"),
        F.percentile("absent_ms", 0.5).cast("bigint").alias("median_absent_ms"),
        F.max("absent_ms").alias("max_absent_ms"),
        F.max("needed_ms").alias("session_timeout_ms_needed"),
    )
    return conform(totals, "static_candidates")


def _stays(memberships: DataFrame, generations: DataFrame) -> DataFrame:
    """The stays of dynamic members at places where there was more than one, with the session timeout of each."""
    at_place = Window.partitionBy("group", "client_id", "host")
    rows = memberships.where(F.col("instance_id").isNull() & F.col("client_id").isNotNull() & F.col("host").isNotNull())
    rows = rows.withColumn("stays", F.count("*").over(at_place)).where("stays > 1")
    members = generations.select("group", F.explode("members").alias("member"))
    # in groups of KIP-848 it is the broker's, and not logged
    known_ms = F.coalesce("member.session_timeout_ms", F.lit(EPOCH_SESSION_MS))
    timeouts = members.groupBy("group", "member.member_id").agg(F.max(known_ms).alias("session_timeout_ms"))
    return rows.join(timeouts, ["group", "member_id"], "left").select("group", *Stay._fields)


def _returns_of(group: str, stays: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The returns of one group."""
    found = pair_returns(Stay(**{name: row[name] for name in Stay._fields}) for row in stays)
    return ({"group": group, **one._asdict()} for one in found)
