"""Where the log of an analysis is, and what is known of it before any work begins. Without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from muster.pipeline.arguments import DELTA, PARQUET
from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.data_folders import find_segments
from muster.pipeline.sources.segment_files import NoSource, file_system, why
from muster.pipeline.sources.segments import READ_COMMITTED, Reading
from muster.pipeline.tables.inputs import EVENTS_TOPIC
from muster.pipeline.tables.share_states import STATE_TOPIC as SHARE_TOPIC
from muster.pipeline.tables.transactions import EVENTS_TOPIC as TRANSACTION_EVENTS_TOPIC
from muster.pipeline.tables.transactions import STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRANSACTION_TOPICS: Final = (STATE_TOPIC, TRANSACTION_EVENTS_TOPIC)


COMPRESSED: Final = 8
"""How many times larger the records of a compressed segment are taken to be."""
_HEAD: Final = 23
"""The bytes of a batch up to its attributes; the three lowest bits of the last byte name the codec."""
_CODEC: Final = 7


class Source(NamedTuple):
    """Where the log is. Exactly one of the fields has a value."""

    path: str | None = None
    """A data directory, a folder with folders of partitions, one such folder, or a table of raw rows (also URLs)."""
    kafka: Mapping[str, str] | None = None
    """The options of the client of a live cluster, with `bootstrap.servers`."""
    rows: DataFrame | None = None
    """Any Kafka rows (see `sources.frame`). Rows of `__group_events` may be among them."""

    def name(self) -> str:
        """The name of the source for people."""
        if self.path is not None:
            return self.path
        return "a DataFrame" if self.kafka is None else self.kafka["bootstrap.servers"]


def check(source: Source) -> None:
    """Check that the source has something to read, before any work begins. Raises NoSource, ClusterError."""
    if source.path is not None:
        kind = table_kind(source.path)
        if kind is None:
            find_segments(source.path, OFFSETS_TOPIC)
        elif kind == PARQUET:
            from muster.pipeline.sources.frame import check_table

            check_table(source.path)
    elif source.kafka is not None:
        from muster.pipeline.sources.cluster import check_reachable

        check_reachable(source.kafka)
        if not has_rows(source.kafka, OFFSETS_TOPIC):
            raise NoSource(
                f"{source.name()}: {OFFSETS_TOPIC} holds no record: no group has committed or joined there yet"
            )


def bytes_of(source: Source) -> int | None:
    """The size of the topics about groups in bytes. None: not known, of a live cluster or a table of rows.

    A segment counts `COMPRESSED` times its size if its first batch is compressed.
    """
    if source.path is None or table_kind(source.path) is not None:
        return None
    return sum(map(_bytes_of, repeat(source.path), (OFFSETS_TOPIC, EVENTS_TOPIC, SHARE_TOPIC, *TRANSACTION_TOPICS)))


def _bytes_of(path: str, topic: str) -> int:
    try:
        system, _ = file_system(path)
        return sum(one.size * _factor(system, one.path) for one in find_segments(path, topic))
    except NoSource:
        return 0


def _factor(system: fs.FileSystem, path: str) -> int:
    with system.open_input_file(path) as file:
        head: bytes = file.read_at(_HEAD, 0)
    is_compressed = len(head) == _HEAD and head[_HEAD - 1] & _CODEC
    return COMPRESSED if is_compressed else 1


def table_kind(path: str) -> str | None:
    """PARQUET or DELTA if the path is a table of such files, otherwise None. Raises NoSource."""
    system, root = file_system(path)
    try:
        info = system.get_file_info(root)
        if info.type == fs.FileType.NotFound:
            raise NoSource(
                f"{path} does not exist: a data directory, copied segments or a table of raw rows was expected"
            )
        if info.type == fs.FileType.File:
            if root.endswith(".parquet"):
                return PARQUET
            raise NoSource(f"{path} is a file: give the folder of its partition, or the data directory")
        names = [entry.base_name for entry in system.get_file_info(fs.FileSelector(root))]
    except (pa.ArrowException, OSError) as error:
        raise NoSource(f"{path} cannot be listed: {why(error)}") from error
    if "_delta_log" in names:
        return DELTA
    return PARQUET if "_SUCCESS" in names or any(name.endswith(".parquet") for name in names) else None


def has_rows(kafka: Mapping[str, str], topic: str) -> bool:
    """Whether a topic of a live cluster has committed records."""
    from muster.pipeline.sources.cluster import bounds

    first, last = bounds(kafka, Reading(topic, READ_COMMITTED, False))
    return any(last[partition] > first[partition] for partition in last)
