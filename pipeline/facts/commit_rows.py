"""The commits of some partitions of topics, in the order of the log, as columns (numpy): what the tables that go along
the commits of a partition are made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.facts.in_order import (
    Column,
    Ints,
    Mask,
    Parts,
    Texts,
    begins,
    column_of,
    either,
    known,
    mask_of,
    texts_of,
)
from muster.pipeline.facts.placing import owners_at, said_of
from muster.pipeline.facts.topic_ends import Ends
from muster.pipeline.schema import columns

END: Final = 0
"""What a row of ROWS is: an end of a topic, reached at `committed_offset`, since when in `time_ms`;"""
MARK: Final = 1
"""what a record says of the group (state, generation, members), once for each of its partitions that have commits;"""
OWNED: Final = 2
"""who has a partition in a state of the group, from `log_offset` on (in a KIP-848 group it may change meanwhile);"""
COMMIT: Final = 3
"""a commit, or the deletion of an offset."""

PLACED: Final = pa.schema(
    columns(
        "group string, log_partition int, topic string, partition int, log_offset long, time_ms long, "
        "committed_offset long, leader_epoch int, metadata string, is_deleted boolean, generation int, members int, "
        "member_id string, instance_id string, client_id string, stated_ms long, state int, topic_id string, "
        "producer_id long, producer_epoch int"
    )
)
"""A commit with what is known of its group then: the columns of the table `commits`, and some more."""

ROWS: Final = pa.schema(
    [
        *columns("what int"),
        *PLACED,
        *columns("fenced_ms long, known_until_ms long, first_ms long, step_ms long"),
    ]
)
"""A row by its `what`. The last three columns are the same in every row: until when the log tells of anything, and
where the first step of `progress` begins and how long each is (null: there is no commit). The rows of a partition of a
topic stand together: the ends, then those of each group: OWNED, then the others in the order of the log."""

_AT_ONCE: Final = 30_000
"""So many rows are looked at together, or all of a partition of a topic."""


class CommitRows(NamedTuple):
    """The commits. Each is of a `place`: a partition of a group; and of a partition of a topic (`topic_part`)."""

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
    instance_id: Texts
    client_id: Texts
    owner: Texts
    """The instance id, or else the member id."""
    producer_id: Column
    fenced_ms: Column
    topic_id: Texts
    state: Column
    ends: Ends
    known_until_ms: int | None
    first_ms: int | None
    step_ms: int | None
    rows: pa.Table
    """The commits as they came, with the columns of ROWS."""


def rows_by_topic(batches: Iterable[pa.RecordBatch], *, are_placed: bool) -> Iterator[CommitRows]:
    """The commits, those of a partition of a topic together. `are_placed`: they know their group's state already."""
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
            yield _commits(table.slice(0, cut), are_placed)
        rest = table.slice(cut)
        waiting, count = rest.to_batches(), rest.num_rows
    if count:
        yield _commits(pa.Table.from_batches(waiting), are_placed)


def _last_topic(table: pa.Table) -> int:
    """Where the rows of the last partition of a topic begin."""
    last = table.num_rows - 1
    topic, partition = (table.column(name) for name in ("topic", "partition"))
    is_it = pc.and_(pc.equal(topic, topic[last]), pc.equal(partition, partition[last]))
    return int(table.num_rows - pc.sum(is_it).as_py())


_TEXTS: Final = ("group", "topic", "member_id", "instance_id", "client_id", "topic_id")
_NUMBERS: Final = (
    *("what", "log_partition", "partition", "log_offset", "time_ms", "committed_offset", "state", "generation"),
    *("members", "producer_id", "fenced_ms"),
)


def _commits(table: pa.Table, are_placed: bool) -> CommitRows:
    """Rows of ROWS, in their order."""
    texts = {name: texts_of(table.column(name)) for name in _TEXTS}
    numbers = {name: column_of(table.column(name)) for name in _NUMBERS}
    what = numbers["what"].values
    ends, rows = np.flatnonzero(what == END), np.flatnonzero(what == COMMIT)
    # the number of a partition of a topic is the same in the ends and in the commits
    topic_part = Parts(begins(texts["topic"].numbers, numbers["partition"])).number
    if not are_placed:
        _place(topic_part, texts, numbers)
    words = {name: column.at(rows) for name, column in texts.items()}
    values = {name: column.at(rows) for name, column in numbers.items()}
    place = begins(known(topic_part[rows]), words["group"].numbers, values["log_partition"])
    seen = Ends(topic_part[ends], *(numbers[name].values[ends] for name in ("committed_offset", "time_ms")))
    told = table.slice(0, 1).select(["known_until_ms", "first_ms", "step_ms"]).to_pylist()[0]
    commits = table.filter(pa.array(what == COMMIT))
    return CommitRows(
        place=Parts(place),
        topic_part=topic_part[rows],
        group=words["group"],
        topic=words["topic"],
        log_partition=values["log_partition"],
        partition=values["partition"],
        log_offset=values["log_offset"].values,
        time_ms=values["time_ms"].values,
        offset=values["committed_offset"],
        is_deleted=mask_of(commits.column("is_deleted")),
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
        ends=seen,
        known_until_ms=told["known_until_ms"],
        first_ms=told["first_ms"],
        step_ms=told["step_ms"],
        rows=commits,
    )


def _place(topic_part: Ints, texts: dict[str, Texts], numbers: dict[str, Column]) -> None:
    """Tell the commits the state of their groups and who had their partitions."""
    what, group = numbers["what"].values, texts["group"].numbers
    logged = np.flatnonzero((what == MARK) | (what == COMMIT))
    place = Parts(begins(known(topic_part[logged]), group.at(logged), numbers["log_partition"].at(logged)))
    said = ("state", "generation", "members")
    found = said_of(place, what[logged] == MARK, *(numbers[name].at(logged) for name in said))
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
