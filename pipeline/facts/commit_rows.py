"""The commits of some partitions of topics, in the order of the log, as columns (numpy): what the tables that go along
the commits of a partition are made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.facts.in_order import Column, Ints, Mask, Parts, Texts, begins, column_of, mask_of, texts_of
from muster.pipeline.facts.topic_ends import Ends
from muster.pipeline.schema import columns

ROWS: Final = pa.schema(
    columns(
        "topic string, partition int, group string, log_partition int, log_offset long, time_ms long, "
        "committed_offset long, is_deleted boolean, generation int, members int, member_id string, client_id string, "
        "owner string, producer_id long, fenced_ms long, topic_id string, state int, end_offset long, "
        "known_until_ms long, first_ms long, step_ms long"
    )
)
"""A commit; or, without a group, an end of a topic: `end_offset`, and since when in `time_ms`. The last three are the
same in every row: until when the log tells of anything, and where the first step of `progress` begins and how long each
is (null: there is no commit). The rows of a partition of a topic stand together: the ends, then the commits of each
group in the order of the log."""

_TEXTS: Final = ("group", "topic", "member_id", "client_id", "owner", "topic_id")
_NUMBERS: Final = (
    *("log_partition", "partition", "log_offset", "time_ms", "committed_offset", "generation", "members"),
    *("producer_id", "fenced_ms", "state"),
)
_AT_ONCE: Final = 100_000
"""So many rows are looked at together, or all of a partition of a topic."""


class CommitRows(NamedTuple):
    """See ROWS. Each commit is of a `place`: a partition of a group; and of a partition of a topic (`topic_part`)."""

    place: Parts
    topic_part: Ints
    """From 0 on, the same as in `ends`."""
    group: Texts
    topic: Texts
    log_partition: Column
    partition: Column
    log_offset: Ints
    time_ms: Ints
    offset: Column
    is_deleted: Mask
    generation: Column
    members: Column
    member_id: Texts
    client_id: Texts
    owner: Texts
    producer_id: Column
    fenced_ms: Column
    topic_id: Texts
    state: Column
    ends: Ends
    known_until_ms: int | None
    first_ms: int | None
    step_ms: int | None


def rows_by_topic(batches: Iterable[pa.RecordBatch]) -> Iterator[CommitRows]:
    """The commits, those of a partition of a topic together."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count < _AT_ONCE:
            continue
        table = pa.Table.from_batches(waiting)
        cut = _last_topic(table)
        if cut:
            yield commit_rows(table.slice(0, cut))
        rest = table.slice(cut)
        waiting, count = rest.to_batches(), rest.num_rows
    if count:
        yield commit_rows(pa.Table.from_batches(waiting))


def _last_topic(table: pa.Table) -> int:
    """Where the rows of the last partition of a topic begin."""
    last = table.num_rows - 1
    topic, partition = (table.column(name) for name in ("topic", "partition"))
    is_it = pc.and_(pc.equal(topic, topic[last]), pc.equal(partition, partition[last]))
    return int(table.num_rows - pc.sum(is_it).as_py())


def commit_rows(table: pa.Table) -> CommitRows:
    """Rows of ROWS, in their order."""
    topic, partition = texts_of(table.column("topic")), column_of(table.column("partition"))
    # the number of a partition of a topic is the same in the ends and in the commits
    topics = Parts(begins(topic.numbers, partition)).number
    is_end: Any = np.asarray(pc.is_null(table.column("group")))
    ends, commits = table.filter(pa.array(is_end)), table.filter(pa.array(~is_end))
    texts = {name: texts_of(commits.column(name)) for name in _TEXTS}
    numbers = {name: column_of(commits.column(name)) for name in _NUMBERS}
    place = begins(texts["topic"].numbers, numbers["partition"], texts["group"].numbers, numbers["log_partition"])
    return CommitRows(
        place=Parts(place),
        topic_part=topics[~is_end],
        group=texts["group"],
        topic=texts["topic"],
        log_partition=numbers["log_partition"],
        partition=numbers["partition"],
        log_offset=numbers["log_offset"].values,
        time_ms=numbers["time_ms"].values,
        offset=numbers["committed_offset"],
        is_deleted=mask_of(commits.column("is_deleted")),
        generation=numbers["generation"],
        members=numbers["members"],
        member_id=texts["member_id"],
        client_id=texts["client_id"],
        owner=texts["owner"],
        producer_id=numbers["producer_id"],
        fenced_ms=numbers["fenced_ms"],
        topic_id=texts["topic_id"],
        state=numbers["state"],
        ends=Ends(topics[is_end], *(column_of(ends.column(name)).values for name in ("end_offset", "time_ms"))),
        known_until_ms=table.column("known_until_ms")[0].as_py(),
        first_ms=table.column("first_ms")[0].as_py(),
        step_ms=table.column("step_ms")[0].as_py(),
    )
