"""The commits of some partitions of topics, in the order of the log, as columns (numpy).

The tables that are made from the sequence of a partition's commits start from these columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.schema import columns
from muster.pipeline.tables.ordered_columns import (
    Column,
    Ints,
    Mask,
    Parts,
    Texts,
    begins,
    column_of,
    either,
    known,
    marks_at,
    mask_of,
    owners_at,
    texts_of,
)
from muster.pipeline.tables.topic_ends import Ends

END: Final = 0
MARK: Final = 1
OWNED: Final = 2
COMMIT: Final = 3
"""The kinds of rows in ROWS (column `what`):

* END: since `time_ms`, and surely since `stated_ms`, the log of a topic's partition reached `committed_offset`;
* MARK: what a record says of the group (state, generation, members), once for each partition with commits;
* OWNED: the owner of a partition in a state of the group, from `log_offset` on. In KIP-848 groups it may change;
* COMMIT: a commit, or the deletion of an offset.
"""

PLACED: Final = pa.schema(
    columns(
        "group string, log_partition int, topic string, partition int, log_offset long, time_ms long, "
        "committed_offset long, leader_epoch int, metadata string, is_deleted boolean, generation int, members int, "
        "member_id string, instance_id string, client_id string, stated_ms long, state int, topic_id string, "
        "producer_id long, producer_epoch int"
    )
)
"""A commit with the state of its group: the columns of the table `commits`, and some others."""

ROWS: Final = pa.schema(
    [
        *columns("what int"),
        *PLACED,
        *columns("fenced_ms long, known_until_ms long, first_ms long, step_ms long"),
    ]
)
"""A row; its kind is in `what`. The last three columns are equal in all rows.

They are the end of the log, the start of the first step of `progress`, and a step's length. They are null if the log
has no commit. The rows of a topic's partition stand together: first the ends, then the rows of each group. The rows of
a group are first OWNED, then the others in the order of the log.
"""

_AT_ONCE: Final = 30_000
"""At least this many rows are handled together, or all rows of a topic's partition."""


class CommitRows(NamedTuple):
    """The commits.

    Each has the number of its group's partition (`place`) and of its topic's partition (`topic_part`).
    """

    place: Parts
    topic_part: Ints
    """The number of the topic's partition, from 0 on. The same partition has the same number in `ends`."""
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
    instance_id: Texts
    client_id: Texts
    owner: Texts
    """The instance id of the owner, or else its member id."""
    producer_id: Column
    fenced_ms: Column
    topic_id: Texts
    state: Column
    leader_epoch: Column
    metadata: Texts
    stated_ms: Column
    producer_epoch: Column
    ends: Ends
    known_until_ms: int | None
    first_ms: int | None
    step_ms: int | None


class _Common(NamedTuple):
    """The values that are equal in all rows."""

    known_until_ms: int | None
    first_ms: int | None
    step_ms: int | None


def rows_by_topic(batches: Iterable[pa.RecordBatch], *, are_placed: bool) -> Iterator[CommitRows]:
    """Yield the commits in pieces. All commits of one partition of a topic are in the same piece.

    `are_placed`: whether the commits already have the state of their group.
    """
    whole: list[pa.RecordBatch] = []
    """Batches with all rows of their topics' partitions."""
    last: list[pa.RecordBatch] = []
    """Batches of the last partition, which may have more rows in the next batch."""
    of_last: tuple[object, object] | None = None
    common: _Common | None = None
    for batch in _pieces(batches):
        if common is None:
            common = _Common(*batch.slice(0, 1).select(_Common._fields).to_pylist()[0].values())
        begin, of = _last_topic(batch)
        coded = _coded(batch)
        if begin or of != of_last:
            whole += (one for one in (*last, coded.slice(0, begin)) if one.num_rows)
            last, of_last = [], of
        last.append(coded.slice(begin))
        if whole and sum(one.num_rows for one in (*whole, *last)) >= _AT_ONCE:
            yield _commits(whole, common, are_placed)
    whole += last
    # these rows are not kept anywhere else once they are yielded
    last.clear()
    if common is not None and whole:
        yield _commits(whole, common, are_placed)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of at most _AT_ONCE rows. Spark may send batches with many more rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, _AT_ONCE):
            yield batch.slice(start, _AT_ONCE)


def _last_topic(batch: pa.RecordBatch) -> tuple[int, tuple[object, object]]:
    """The first row of the last topic's partition in a batch, and which partition that is."""
    topic, partition = (batch.column(name) for name in ("topic", "partition"))
    is_it = pc.and_(pc.equal(topic, topic[-1]), pc.equal(partition, partition[-1]))
    return batch.num_rows - is_it.true_count, (topic[-1].as_py(), partition[-1].as_py())


def _coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The needed columns. Each text is stored once, and a row has the text's number.

    A topic's partition may have millions of rows. The result is a copy, because a batch from Spark is one piece of
    memory with all its texts.
    """
    every, arrays = pa.array(np.arange(batch.num_rows)), {}
    for name in (*_TEXTS, *_NUMBERS, "is_deleted"):
        column = batch.column(name)
        arrays[name] = column.dictionary_encode() if pa.types.is_string(column.type) else column.take(every)
    return pa.RecordBatch.from_pydict(arrays)


_TEXTS: Final = ("group", "topic", "member_id", "instance_id", "client_id", "topic_id", "metadata")
_NUMBERS: Final = (
    *("what", "log_partition", "partition", "log_offset", "time_ms", "committed_offset", "state", "generation"),
    *("members", "producer_id", "fenced_ms", "leader_epoch", "stated_ms", "producer_epoch"),
)


def _commits(batches: list[pa.RecordBatch], common: _Common, are_placed: bool) -> CommitRows:
    """Makes commits of coded batches with rows of ROWS in their order. The batches are removed from their list.

    Each column gets its final form before the next column. So a large table is not in memory twice.
    """
    table = pa.Table.from_batches(batches).unify_dictionaries()
    batches.clear()
    texts: dict[str, Texts] = {}
    numbers: dict[str, Column] = {}
    for name in (*_TEXTS, *_NUMBERS):
        if name in _TEXTS:
            texts[name] = texts_of(table.column(name))
        else:
            numbers[name] = column_of(table.column(name))
        table = table.drop_columns(name)
    what = numbers["what"].values
    ends, rows = np.flatnonzero(what == END), np.flatnonzero(what == COMMIT)
    is_deleted = mask_of(table.column("is_deleted"))[rows]
    del table
    # a topic's partition has the same number in the ends and in the commits
    topic_part = Parts(begins(texts["topic"].numbers, numbers["partition"])).number
    if not are_placed:
        _place(topic_part, texts, numbers)
    offset, time_ms = numbers["committed_offset"].values[ends], numbers["time_ms"].values[ends]
    seen = Ends(topic_part[ends], offset, time_ms, numbers["stated_ms"].at(ends))
    words = {name: texts.pop(name).at(rows) for name in _TEXTS}
    values = {name: numbers.pop(name).at(rows) for name in _NUMBERS}
    topic_part = topic_part[rows]
    place = begins(known(topic_part), words["group"].numbers, values["log_partition"])
    return CommitRows(
        place=Parts(place),
        topic_part=topic_part,
        group=words["group"],
        topic=words["topic"],
        log_partition=values["log_partition"],
        partition=values["partition"],
        log_offset=values["log_offset"].values,
        time_ms=values["time_ms"].values,
        offset=values["committed_offset"],
        is_deleted=is_deleted,
        generation=values["generation"],
        members=values["members"],
        member_id=words["member_id"],
        instance_id=words["instance_id"],
        client_id=words["client_id"],
        owner=either(words["instance_id"], words["member_id"]),
        producer_id=values["producer_id"],
        fenced_ms=values["fenced_ms"],
        topic_id=words["topic_id"],
        state=values["state"],
        leader_epoch=values["leader_epoch"],
        metadata=words["metadata"],
        stated_ms=values["stated_ms"],
        producer_epoch=values["producer_epoch"],
        ends=seen,
        known_until_ms=common.known_until_ms,
        first_ms=common.first_ms,
        step_ms=common.step_ms,
    )


def _place(topic_part: Ints, texts: dict[str, Texts], numbers: dict[str, Column]) -> None:
    """Give the commits the state of their groups and the owners of their partitions."""
    what, group = numbers["what"].values, texts["group"].numbers
    logged = np.flatnonzero((what == MARK) | (what == COMMIT))
    place = Parts(begins(known(topic_part[logged]), group.at(logged), numbers["log_partition"].at(logged)))
    said = ("state", "generation", "members")
    found = marks_at(place, what[logged] == MARK, *(numbers[name].at(logged) for name in said))
    for name, column in zip(said, found, strict=True):
        values, valid = numbers[name].values.copy(), numbers[name].valid.copy()
        values[logged], valid[logged] = column.values, column.valid
        numbers[name] = Column(values, valid)
    those = np.flatnonzero((what == OWNED) | (what == COMMIT))
    state = numbers["state"].filled(-1)
    keys = [column[those] for column in (topic_part, group.values, state)]
    owner, there = owners_at(keys, numbers["log_offset"].values[those], what[those] == OWNED)
    row, has_owner = np.zeros(len(what), np.int64), np.zeros(len(what), np.bool_)
    row[those], has_owner[those] = those[owner], there
    for name in ("member_id", "instance_id", "client_id"):
        texts[name] = texts[name].at(row, has_owner)


def packed_rows(commits: CommitRows) -> Iterator[bytes]:
    """The commits as rows of PLACED. Some thousand rows are packed into one value.

    So Spark need not handle single rows before a job reads the table `commits`. To keep a million rows costs more than
    to make them.
    """
    count = len(commits.time_ms)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for start in range(0, count, _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, count))
        arrays = {}
        for one in PLACED:
            value = commits.offset if one.name == "committed_offset" else getattr(commits, one.name)
            if isinstance(value, Texts):
                arrays[one.name] = _as_written(value.at(rows))
            elif isinstance(value, Column):
                arrays[one.name] = value.at(rows).array(one.type)
            else:
                arrays[one.name] = pa.array(value[rows], one.type)
        batch = pa.RecordBatch.from_pydict(arrays)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def _as_written(texts: Texts) -> pa.Array:
    """The texts as numbers, unless there are more texts than rows. Else the texts of all other rows would be sent."""
    coded = len(texts.words) <= len(texts.numbers.values)
    numbers = pa.array(texts.numbers.values, mask=~texts.numbers.valid)
    return pa.DictionaryArray.from_arrays(numbers, texts.words) if coded else texts.words.take(numbers)


def unpacked_rows(values: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows of PLACED from values of `packed_rows`."""
    for value in values:
        for batch in pa.ipc.open_stream(value):
            arrays = [batch.column(one.name).cast(one.type) for one in PLACED]
            yield pa.RecordBatch.from_arrays(arrays, schema=PLACED)
