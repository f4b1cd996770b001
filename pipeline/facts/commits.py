"""The table `commits`: every offset commit and every deletion of one, with the generation its group was in by the log
and the member that owned the partition then. One pass over the commits in the order of the log, group by group; a group
may have any number of them, what does not fit into memory is spilled by Spark.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.inputs import Inputs, holdings, states
from muster.pipeline.facts.schema import conform
from muster.pipeline.schema import CONSUMER_GROUP, OFFSET_COMMIT, STREAMS_GROUP
from muster.pipeline.tables import table

_MARK: Final = "state int, generation int, members int"
"""What a record of a group says: which of its classic states it is, the generation, how many members there are."""

_EPOCH_KEYS: Final = (3, 17)
"""Key types of ConsumerGroupMetadata and StreamsGroupMetadata: their `epoch` is the generation of such a group."""

_NO_MEMBERS: Final = 0


def commits(inputs: Inputs) -> DataFrame:
    """Rows of the table `commits`."""
    found = table(inputs.decoded, OFFSET_COMMIT).withColumn("mark", F.lit(None).cast(f"struct<{_MARK}>"))
    marks = _classic_marks(inputs).unionByName(_epoch_marks(inputs.decoded))
    rows = found.unionByName(marks, allowMissingColumns=True)
    in_order = Window.partitionBy("group", "log_partition").orderBy("log_offset")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    all_of_it = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    rows = rows.select(
        *found.columns,
        F.last("mark", ignorenulls=True).over(so_far).alias("at"),
        F.count("mark").over(all_of_it).alias("marks"),
    ).where(F.col("mark").isNull())
    owners = holdings(inputs).select(
        "group", F.col("state").alias("held_in"), "topic", "partition", "member_id", "instance_id", "client_id"
    )
    rows = rows.withColumn("held_in", F.col("at.state"))
    rows = rows.join(owners, ["group", "held_in", "topic", "partition"], "left")
    return conform(
        rows.select(
            "*",
            F.coalesce("commit_timestamp_ms", "log_timestamp_ms").alias("time_ms"),
            F.col("is_tombstone").alias("is_deleted"),
            F.col("at.generation").alias("generation"),
            F.when(F.col("marks") == 0, F.lit(_NO_MEMBERS)).otherwise(F.col("at.members")).alias("members"),
        ),
        "commits",
    )


def _classic_marks(inputs: Inputs) -> DataFrame:
    """The records of classic groups; the end of such a group leaves it without generation and without members."""
    gone = F.col("is_tombstone")
    mark = F.struct(
        F.col("state").alias("state"),
        F.when(~gone, F.col("generation")).alias("generation"),
        F.when(gone, F.lit(_NO_MEMBERS)).otherwise(F.size("members")).alias("members"),
    )
    return states(inputs).select("group", "log_partition", "log_offset", mark.cast(f"struct<{_MARK}>").alias("mark"))


def _epoch_marks(decoded: DataFrame) -> DataFrame:
    """The epochs of groups of the newer protocols (KIP-848, KIP-1071); how many members they have is not in them."""
    gone = F.col("is_tombstone")
    mark = F.struct(
        F.lit(None).alias("state"),
        F.when(~gone, F.get_json_object("value_json", "$.epoch").cast("int")).alias("generation"),
        F.when(gone, F.lit(_NO_MEMBERS)).alias("members"),
    )
    rows = decoded.where(F.col("kind").isin(CONSUMER_GROUP, STREAMS_GROUP) & F.col("key_type").isin(*_EPOCH_KEYS))
    return rows.select("group", "log_partition", "log_offset", mark.cast(f"struct<{_MARK}>").alias("mark"))
