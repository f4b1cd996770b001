"""The table `commits`: every offset commit and deletion, with the generation at that place of the log and the member
that owned the partition then. One pass over the commits of each group in the order of the log.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.epoch_states import owners_of
from muster.pipeline.facts.epoch_values import EPOCH
from muster.pipeline.facts.inputs import Inputs, holdings, states
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.schema import TABLES
from muster.pipeline.schema import CONSUMER_GROUP, OFFSET_COMMIT, STREAMS_GROUP
from muster.pipeline.tables import table

_MARK: Final = "state int, generation int, members int"
"""What a record of a group says: which of its classic states it is, the generation, how many members there are."""

_STREAMS_KEY: Final = 17
"""The key type of StreamsGroupMetadata; its `epoch` is the generation of such a group, as with a consumer group."""

_NO_MEMBERS: Final = 0
_LAST_MS: Final = 1 << 53
"""No time is later than this, so that sums of times do not overflow."""


PLACE: Final = ("group", "log_partition", "topic", "partition")
"""What makes up a partition of a group; its commits are in the order of log_offset."""

PRODUCER: Final = ("producer_id", "producer_epoch")
"""The columns of the producer of a commit in a transaction."""


def in_order(placed_rows: DataFrame) -> DataFrame:
    """The same rows, those of a partition in the order of the log: if kept, tables made of it need no further sort."""
    return placed_rows.sortWithinPartitions(*PLACE, "log_offset")


def placed(inputs: Inputs) -> DataFrame:
    """The columns of the table `commits`; `state`: in which state (`inputs.states`) its group was, null: none;
    `topic_id`: of the topic then, null: not told; and the producer that committed it in a transaction, null: it was
    none, or the source does not tell.
    """
    found = table(inputs.decoded, OFFSET_COMMIT).withColumn("mark", F.lit(None).cast(f"struct<{_MARK}>"))
    marks = _state_marks(inputs).unionByName(_epoch_marks(inputs))
    # partition by partition, each with all that is said of its group: a group may have nearly all rows of a log, and
    # would be the work of one task; and so these rows are in the order in which they are kept
    marks = marks.join(found.select(*PLACE).distinct(), ["group", "log_partition"])
    rows = found.unionByName(marks, allowMissingColumns=True)
    by_offset = Window.partitionBy(*PLACE).orderBy("log_offset")
    so_far = by_offset.rowsBetween(Window.unboundedPreceding, 0)
    all_of_it = by_offset.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    rows = rows.select(
        *found.columns,
        F.last("mark", ignorenulls=True).over(so_far).alias("at"),
        F.count("mark").over(all_of_it).alias("marks"),
    ).where(F.col("mark").isNull())
    owners = holdings(inputs).select("group", "state", "topic", "partition", "member_id", "instance_id", "client_id")
    if inputs.odd_times is None:
        rows = rows.withColumn("was_ms", F.lit(None).cast("long"))
    else:
        odd = inputs.odd_times.drop("sound_ms")
        rows = rows.join(odd, ["log_partition", "log_offset"], "left")
    rows = rows.withColumn("state", F.col("at.state")).join(owners, ["group", "state", "topic", "partition"], "left")
    if inputs.epochs is not None:
        rows = owners_of(inputs.epochs, states(inputs), rows)
    known = {
        "time_ms": _time_ms(),
        "stated_ms": _stated_ms(),
        "is_deleted": F.col("is_tombstone"),
        "generation": F.col("at.generation"),
        "members": F.when(F.col("marks") == 0, F.lit(_NO_MEMBERS)).otherwise(F.col("at.members")),
    }
    return rows.select(
        *(known.get(name, F.col(name)).alias(name) for name in TABLES["commits"].names),
        *("state", "topic_id"),
        *(F.when(F.col("is_transactional"), F.col(name)).alias(name) for name in PRODUCER),
    )


def _time_ms() -> Column:
    """When it was logged; if that is not known, the commit's own time, which may be far out."""
    said, logged = F.col("commit_timestamp_ms"), F.col("log_timestamp_ms")
    return F.least(F.when((logged > 0) | said.isNull() | (said <= 0), logged).otherwise(said), F.lit(_LAST_MS))


def _stated_ms() -> Column:
    """The time that the commit gave, if it is more than a day out; otherwise null."""
    said, time_ms = F.col("commit_timestamp_ms"), _time_ms()
    is_out = (said < time_ms - DAY_MS) | (said > time_ms + DAY_MS)
    return F.coalesce("was_ms", F.when(is_out, said))


def _state_marks(inputs: Inputs) -> DataFrame:
    """The states of groups."""
    return _marks(states(inputs), F.col("state"), F.col("generation"), F.size("members"))


def _epoch_marks(inputs: Inputs) -> DataFrame:
    """The epochs of Streams groups (KIP-1071), and of KIP-848 groups without states. They have no number of members."""
    keys = (EPOCH, _STREAMS_KEY) if inputs.epochs is None else (_STREAMS_KEY,)
    rows = inputs.decoded.where(F.col("kind").isin(CONSUMER_GROUP, STREAMS_GROUP) & F.col("key_type").isin(*keys))
    nothing, epoch = F.lit(None), F.get_json_object("value_json", "$.epoch").try_cast("int")
    return _marks(rows, nothing, epoch, nothing)


def _marks(rows: DataFrame, state: Column, generation: Column, members: Column) -> DataFrame:
    """What records say; the end of a group leaves it without generation and without members."""
    gone = F.col("is_tombstone")
    mark = F.struct(state, F.when(~gone, generation), F.when(gone, F.lit(_NO_MEMBERS)).otherwise(members))
    return rows.select("group", "log_partition", "log_offset", mark.cast(f"struct<{_MARK}>").alias("mark"))
