"""The table `commits`: every offset commit and deletion, with the generation at that place of the log and the member
that owned the partition then. `commit_walk` puts the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.facts.commit_rows import COMMIT, MARK, OWNED, PLACED, unpacked_rows
from muster.pipeline.facts.epoch_states import OWNER, owners_of
from muster.pipeline.facts.epoch_values import EPOCH
from muster.pipeline.facts.inputs import Inputs, holdings, states
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.placing import NO_MEMBERS
from muster.pipeline.schema import CONSUMER_GROUP, OFFSET_COMMIT, STREAMS_GROUP
from muster.pipeline.tables import table

_STREAMS_KEY: Final = 17
"""The key type of StreamsGroupMetadata; its `epoch` is the generation of such a group, as with a consumer group."""

_LAST_MS: Final = 1 << 53
"""No time is later than this, so that sums of times do not overflow."""


PLACE: Final = ("group", "log_partition", "topic", "partition")
"""What makes up a partition of a group; its commits are in the order of log_offset."""

PRODUCER: Final = ("producer_id", "producer_epoch")
"""The columns of the producer of a commit in a transaction."""


def unplaced(inputs: Inputs) -> DataFrame:
    """What the walk takes, with the columns of `commit_rows.ROWS` as far as they are told: the commits (COMMIT), what
    is said of their groups (MARK, once for each partition with commits), and who had which partition in a state of its
    group (OWNED, of any `log_partition`).
    """
    commits = logged(inputs)
    # partition by partition, each with all that is said of its group: a group may have nearly all rows of a log, and
    # would be the work of one task
    places = table(inputs.decoded, OFFSET_COMMIT).select(*PLACE).distinct()
    marks = _state_marks(inputs).unionByName(_epoch_marks(inputs)).join(places, ["group", "log_partition"])
    owners = holdings(inputs).select("group", "state", "topic", "partition", *OWNER, F.lit(0).alias("log_offset"))
    if inputs.epochs is not None:
        owners = owners.unionByName(owners_of(inputs.epochs, states(inputs)))
    rows = commits.withColumn("what", F.lit(COMMIT))
    for what, some in ((MARK, marks), (OWNED, owners)):
        rows = rows.unionByName(some.withColumn("what", F.lit(what)), allowMissingColumns=True)
    return rows


def placed(walk: DataFrame) -> DataFrame:
    """The columns of the table `commits`; `state`: in which state (`inputs.states`) its group was, null: none;
    `topic_id`: of the topic then, null: not told; and the producer that committed it in a transaction, null: it was
    none, or the source does not tell. `walk`: rows of `commit_walk.walk_of`.
    """
    return walk.where("commits is not null").select("commits").mapInArrow(_unpacked, from_arrow_schema(PLACED))


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from unpacked_rows(one.as_py() for one in batch.column("commits"))


def logged(inputs: Inputs) -> DataFrame:
    """The commits, each with the time at which it was logged."""
    rows = table(inputs.decoded, OFFSET_COMMIT)
    if inputs.odd_times is None:
        rows = rows.withColumn("was_ms", F.lit(None).cast("long"))
    else:
        rows = rows.join(inputs.odd_times.drop("sound_ms"), ["log_partition", "log_offset"], "left")
    return rows.select(
        *(*PLACE, "log_offset", "committed_offset", "leader_epoch", "metadata", "topic_id"),
        _time_ms().alias("time_ms"),
        _stated_ms().alias("stated_ms"),
        F.col("is_tombstone").alias("is_deleted"),
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
    return rows.select(
        *("group", "log_partition", "log_offset"),
        state.cast("int").alias("state"),
        F.when(~gone, generation).cast("int").alias("generation"),
        F.when(gone, F.lit(NO_MEMBERS)).otherwise(members).cast("int").alias("members"),
    )
