"""The states of groups with epochs in the form of classic groups' states. So all make the same tables.

Spark gives the records of each group to `epochs.fold`, in the order of the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.frames import DataFrame, F, from_arrow_type
from muster.pipeline.infer.epoch_image import (
    CLASSIC,
    OF_SHARE_GROUPS,
    PARTITION_METADATA,
    SHARED_STATES,
    Hold,
    Record,
    State,
)
from muster.pipeline.infer.epochs import fold
from muster.pipeline.infer.stream_tasks import OF_STREAMS_GROUPS, as_partitions
from muster.pipeline.schema import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    OFFSET_COMMIT,
    PARTITIONS,
    SHARE_GROUP,
    STREAMS_GROUP,
    columns,
    structs,
)
from muster.pipeline.tables import as_row, by_group, table
from muster.pipeline.tables.schema import MEMBER_FACT, WHO

_PLACE: Final = "topic string, partition int"
OWNER: Final = ("member_id", "instance_id", "client_id")
"""The columns of the owner that a partition had when it was committed."""
_CHANGE: Final = pa.struct(
    columns(
        "before int, members_before int, joined strings, gone gone, resubscribed strings, topics_changed boolean, "
        "has_new_states boolean, is_conversion boolean",
        gone=structs("member member, at_ms long, heard_ms long, away_ms long, owes_ms long", member=MEMBER_FACT),
    )
)
EPOCHS: Final = pa.schema(
    columns(
        "group string, log_partition int, log_offset long, at_ms long, is_tombstone boolean, protocol_type string, "
        "generation int, protocol string, state_timestamp_ms long, members members, owners owners, takes takes, "
        "change change, holds holds",
        members=pa.list_(MEMBER_FACT),
        owners=structs(f"{_PLACE}, from_offset long, member_id string"),
        takes=structs(f"{_PLACE}, at_ms long, paused_ms long"),
        change=_CHANGE,
        holds=structs(f"{_PLACE}, {WHO}, start_ms long, end_ms long, first_generation int, last_generation int"),
    )
)
"""A state of a group with epochs (`epoch_image.State`). Its `protocol_type` is CONSUMER, SHARE or STREAMS.

The column log_offset is the offset of the record of the state's epoch. The epoch began at state_timestamp_ms, and its
rebalance ended at at_ms. `holds` has the holds that ended before. The last row of a group has null in `is_tombstone`:
it is no state, and has the remaining holds.
"""


CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
NOT_REPLAYED: Final = (SHARE, STREAMS)
"""The types of groups that the what-if leaves out."""
_KINDS: Final = (CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP)
_SAME_AS: Final[Mapping[int, int]] = {**OF_SHARE_GROUPS, **OF_STREAMS_GROUPS}
"""The key types of records of share groups and streams groups, and the types with the same meaning."""


def epochs_in(decoded: DataFrame, rows: Mapping[str, int], listed: Callable[[], Mapping[str, str]]) -> DataFrame | None:
    """Rows of EPOCHS of a log that has `rows` rows of each kind. It is None if the log has no group with epochs.

    `listed`: gives the names of topics that the source itself knows. It is called only if the names are needed.
    """
    if not any(rows.get(kind) for kind in _KINDS):
        return None
    return epoch_states(decoded, {**listed(), **topic_names(decoded)})


def topic_names(decoded: DataFrame) -> dict[str, str]:
    """The names of topics by their ids. Runs a job.

    They come from commits, from records of share groups, and (before Kafka 4.1) from records of KIP-848 groups.
    """
    commits = table(decoded, OFFSET_COMMIT).where(F.col("topic_id").isNotNull()).select("topic_id", "topic")
    named = F.from_json("value_json", "topics array<struct<topicId string, topicName string>>")
    groups = table(decoded, CONSUMER_GROUP).where(
        F.col("value_json").isNotNull() & (F.col("key_type") == PARTITION_METADATA)
    )
    listed = groups.select(F.explode(named["topics"]).alias("one")).select("one.topicId", "one.topicName")
    rows = commits.unionAll(listed)
    states = table(decoded, SHARE_GROUP).where(F.col("value_json").isNotNull() & (F.col("key_type") == SHARED_STATES))
    for field in ("initializingTopics", "initializedTopics"):
        shared = F.from_json("value_json", f"{field} array<struct<topicId string, topicName string>>")
        some = states.select(F.explode(shared[field]).alias("one"))
        rows = rows.unionAll(some.select("one.topicId", "one.topicName"))
    return {row[0]: row[1] for row in rows.distinct().collect()}


def epoch_states(decoded: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Rows of EPOCHS, made from the decoded records of a log.

    `names`: the names of topics by their ids. A topic without a name is called by its id.
    """
    wanted = ("group", "log_partition", "log_offset", "log_timestamp_ms", "key_type", "key_json", "value_json")
    records = decoded.where(F.col("kind").isin(*_KINDS)).select(*wanted)
    # the records of a classic group that becomes a KIP-848 group end with a tombstone
    ends = table(decoded, CLASSIC_GROUP).where("is_tombstone").select(*wanted)
    known = dict(names)
    rows = records.unionByName(ends)
    return by_group(rows, "log_offset", lambda group, rows: rows_of_group(group, rows, known), EPOCHS)


def rows_of_group(group: str, rows: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rows of EPOCHS of one group, made from its decoded records in the order of the log."""
    for protocol_type, some in groupby(rows, lambda row: _type_of(row["key_type"])):
        # a group id may be used again for a group of another type
        yield from _rows_of_type(group, some, names, protocol_type)


def _type_of(key_type: int) -> str:
    if key_type in OF_SHARE_GROUPS:
        return SHARE
    return STREAMS if key_type in OF_STREAMS_GROUPS else CONSUMER


def _rows_of_type(
    group: str, rows: Iterable[Mapping[str, Any]], names: Mapping[str, str], protocol_type: str
) -> Iterator[dict[str, Any]]:
    holds: list[dict[str, Any]] = []
    place: dict[str, Any] = {"group": group, "protocol_type": protocol_type}

    def records() -> Iterator[Record]:
        for row in rows:
            place["log_partition"] = row["log_partition"]
            yield record_of(row)

    of_group = as_partitions(records()) if protocol_type == STREAMS else records()
    for one in fold(of_group, names, is_shared=protocol_type == SHARE):
        if isinstance(one, State):
            yield {**place, **_state(one), "holds": holds}
            holds = []
        else:
            holds.append(_hold(one))
    if holds:
        yield {**place, "holds": holds}


def record_of(row: Mapping[str, Any]) -> Record:
    """A decoded record in the form that `epochs.fold` reads."""
    if row["key_type"] == CLASSIC:
        return Record(row["log_offset"], row["log_timestamp_ms"], CLASSIC, "", None)
    key = json.loads(row["key_json"])
    value = None if row["value_json"] is None else json.loads(row["value_json"])
    what = key.get("memberId") or key.get("regularExpression") or ""
    kind = _SAME_AS.get(row["key_type"], row["key_type"])
    return Record(row["log_offset"], row["log_timestamp_ms"], kind, what, value)


def _state(one: State) -> dict[str, Any]:
    return {
        "log_offset": one.offset,
        "at_ms": one.at_ms,
        "is_tombstone": one.epoch is None,
        "generation": one.epoch,
        "protocol": one.assignor,
        "state_timestamp_ms": one.began_ms,
        "members": as_row(one.members),
        "owners": [
            {"topic": topic, "partition": partition, "from_offset": offset, "member_id": who}
            for topic, partition, offset, who in one.owners
        ],
        "takes": as_row(one.takes),
        "change": as_row(one.change),
    }


def _hold(one: Hold) -> dict[str, Any]:
    who = {name: getattr(one.member, name) for name in ("member_id", "instance_id", "client_id", "host")}
    return {
        "topic": one.topic,
        "partition": one.partition,
        **who,
        "start_ms": one.start_ms,
        "end_ms": one.end_ms,
        "first_generation": one.first_epoch,
        "last_generation": one.last_epoch,
    }


def states_of(epochs: DataFrame) -> DataFrame:
    """The columns of `inputs.states`, without the number of the state."""
    nobody, no_shares = F.lit(None).cast("string"), F.lit(None).cast(from_arrow_type(PARTITIONS))
    members = F.transform(
        "members",
        lambda one: F.struct(
            *(one[field.name].alias(field.name) for field in MEMBER_FACT),
            no_shares.alias("owned"),
            F.lit(None).cast("long").alias("metadata"),
        ),
    )
    return epochs.where(F.col("is_tombstone").isNotNull()).select(
        *("group", "log_partition", "log_offset", "at_ms", "is_tombstone", "generation"),
        F.when(~F.col("is_tombstone"), F.col("protocol_type")).alias("protocol_type"),
        "protocol",
        nobody.alias("leader"),
        "state_timestamp_ms",
        members.alias("members"),
    )


def holds_of(epochs: DataFrame) -> DataFrame:
    """The partitions that each member had, from when to when: the columns of the table `ownership`."""
    return epochs.select("group", F.explode("holds").alias("one")).select("group", "one.*")


def takes_of(epochs: DataFrame) -> DataFrame:
    """Partitions that got a new owner: group, log_offset (of the epoch), topic, partition, taken_ms, paused_ms."""
    rows = epochs.select("group", "log_offset", F.explode("takes").alias("one"))
    # a member may have got the partition twice in one epoch
    return rows.groupBy("group", "log_offset", "one.topic", "one.partition").agg(
        F.max("one.at_ms").alias("taken_ms"), F.sum("one.paused_ms").alias("paused_ms")
    )


def owners_of(epochs: DataFrame, states: DataFrame) -> DataFrame:
    """The owners of each partition in an epoch: group, state, topic, partition, log_offset, and OWNER.

    The member is the owner from this offset of the log on; 0 means from the beginning of the epoch.
    """
    numbers = states.where("is_epoch").select("group", "log_offset", "state")
    rows = epochs.join(numbers, ["group", "log_offset"])
    who = F.map_from_entries(
        F.transform("members", lambda one: F.struct(one.member_id, F.struct(*(one[name] for name in OWNER[1:]))))
    )
    each = rows.select("group", "state", F.explode("owners").alias("one"), who.alias("who"))
    return each.select(
        *("group", "state", "one.topic", "one.partition", "one.member_id"),
        F.col("one.from_offset").alias("log_offset"),
        *(F.col("who")[F.col("one.member_id")][name].alias(name) for name in OWNER[1:]),
    )
