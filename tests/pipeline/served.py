"""A live server that holds the records of a data directory, and the tables of its log."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from muster.pipeline.explain.inputs import Log, inputs_of
from muster.pipeline.frames import in_this_process, rows_of_frame
from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.cluster import bounds, read_ranges, share_ranges
from muster.pipeline.sources.ends import Between, Place
from muster.pipeline.sources.live_topics import ends_of_cluster, names_of_cluster, reach_of_cluster
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import Reading
from muster.pipeline.tables.build import build
from muster.pipeline.tables.schema import TABLES
from tests.e2e.ledger import eventually_sync
from tests.support.servers import MusterServer

PARTITIONS: Final = {"offsets.topic.num.partitions": "5"}
"""As in the recordings. An archive lacks the partitions without a record."""

PRODUCER: Final = ("producer_id", "producer_epoch", "is_transactional")
"""The columns of raw rows that only segment files have."""

Rows = dict[str, list[str]]
"""The rows of each table as texts, in one order."""


@contextmanager
def served(log: Path, workdir: Path) -> Iterator[str]:
    """The address of a server that holds a copy of the log. Its time stands still, so no member is removed."""
    shutil.copytree(log, workdir / "data", ignore=shutil.ignore_patterns("*.timeindex", "*.jsonl"))
    still = ["--control", "127.0.0.1:0", "--virtual-time"]
    server = MusterServer(workdir, PARTITIONS, arguments=still)
    server.start()
    try:
        places = {_place_of(folder.name) for folder in log.iterdir() if folder.is_dir()}
        # clients see what a server found in its folders as soon as it is on the disk, each partition by itself
        eventually_sync(lambda: _has_ends(server.bootstrap, places))
        yield server.bootstrap
    finally:
        server.stop()


def _place_of(folder: str) -> tuple[str, int]:
    topic, _, partition = folder.rpartition("-")
    return topic, int(partition)


def _has_ends(bootstrap: str, places: Collection[tuple[str, int]]) -> bool:
    client = {"bootstrap.servers": bootstrap}
    known = reach_of_cluster(client).ends
    if any(not known.get(place) for place in places if not place[0].startswith("__")):
        return False
    _, last = bounds(client, Reading())
    return all(last[partition] for topic, partition in places if topic == OFFSETS_TOPIC)


def log_of_cluster(client: Mapping[str, str]) -> Log:
    """The log of a live cluster, as the pipeline reads it."""

    def raw(topic: str) -> Iterator[pa.RecordBatch]:
        try:
            first, last = bounds(client, Reading(topic))
        except NoSource:
            return
        for share in share_ranges(first, last, 1):
            yield from read_ranges(client, Reading(topic), share)

    reach = reach_of_cluster(client)

    def ends(between: Between, places: Collection[Place], until_ms: int | None) -> pa.Table | None:
        return ends_of_cluster(client, reach.of(places), between, until_ms=until_ms)

    return Log(raw, ends, lambda: names_of_cluster(client))


def as_clients_see(log: Log, cluster: Log) -> Log:
    """A log of a data directory with what a live cluster shows to clients.

    That cluster does not show batches: records that a producer sent late seem to have come at their own times. It does
    not show either which producer wrote a commit, or whether the commit was in a transaction.
    """

    def raw(topic: str) -> Iterator[pa.RecordBatch]:
        for rows in log.raw(topic):
            hidden = {name: pa.nulls(len(rows), rows.schema.field(name).type) for name in PRODUCER}
            columns = [hidden.get(name, rows.column(name)) for name in rows.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    return log._replace(raw=raw, ends=cluster.ends, parts=cluster.parts)


def reached(log: Log) -> dict[tuple[str, int, int], int]:
    """How far the log of each partition reached at each time: topic, partition, time."""
    with in_this_process():
        ends = inputs_of(log).ends
        assert ends is not None
        rows = sorted(rows_of_frame(ends), key=lambda row: row["end_offset"])
    return {(row["topic"], row["partition"], row["time_ms"]): row["end_offset"] for row in rows}


def tables_of(log: Log) -> Rows:
    """All tables of a log, made in this process."""
    with in_this_process():
        made = build(inputs_of(log))
        return {name: rows_of(rows.toArrow().cast(TABLES[name])) for name, rows in made.items()}


def rows_of(table: pa.Table) -> list[str]:
    """The rows of a table in one order. Sums of fractions depend on the order of the rows, so they are rounded."""
    rounded = (json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())
    return sorted(re.sub(r"\d+\.\d{7,}", lambda one: f"{float(one[0]):.6f}", row) for row in rounded)
