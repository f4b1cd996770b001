"""Spark's format("muster"): segment files or a live cluster as a Python Data Source, for batches and streams.

The modules `segments` and `cluster` do the work, and do not know Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from muster.pipeline.decode import decode_all
from muster.pipeline.sources.cluster import (
    LogReplaced,
    Offsets,
    Range,
    bounded,
    bounds,
    check_reachable,
    of_partitions,
    read_ranges,
    readable_end,
    share_ranges,
    wanted_bounds,
)
from muster.pipeline.sources.options import DECODED_ROWS, LATEST, BadOption, Options, options_of
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import ALL_ROWS, Share, read_share, share_out


class MusterSource(DataSource):
    """The source behind `spark.read.format("muster")` and `spark.readStream.format("muster")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format in Spark."""
        return "muster"

    def schema(self) -> StructType:
        """The columns of RAW, or of DECODED with the option `rows` = decoded. Only the requested `columns` are in it.

        Raises BadOption.
        """
        options = options_of(self.options)
        return from_arrow_schema(_columns_of(options.schema, options.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query. Raises BadOption."""
        return BatchReader(_narrowed(options_of(self.options), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The reader of a stream, which must be of a live cluster. Raises BadOption."""
        options = _narrowed(options_of(self.options), schema)
        if options.path is not None:
            raise BadOption(f"path={options.path} cannot be streamed: streams come from a cluster (bootstrap.servers)")
        return ClusterStream(options)


def _columns_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names]) if names else schema


def _narrowed(options: Options, row_filter: StructType) -> Options:
    """The options with the columns of a schema.

    It is the schema that the options give, or one that the reader got. Raises BadOption.
    """
    known = {field.name: field.dataType for field in from_arrow_schema(options.schema).fields}
    for field in row_filter.fields:
        if known.get(field.name) != field.dataType:
            there = known[field.name].simpleString() if field.name in known else f"one of {', '.join(known)}"
            raise BadOption(f"the schema has a column {field.name} {field.dataType.simpleString()}: expected {there}")
    return options._replace(columns=() if row_filter.names == options.schema.names else tuple(row_filter.names))


def open_reader(options: Mapping[str, str]) -> DataSourceReader:
    """The reader of a batch query with these options. Raises BadOption."""
    return BatchReader(options_of(options))


class BatchReader(DataSourceReader):
    """Reads segment files, or a live cluster up to the ends that its partitions have when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """One partition of Spark for each share. The shares have about the same size. Raises NoSource, ClusterError."""
        options = self._options
        if options.path is None:
            return [InputPartition(share) for share in _shares_of_cluster(options)]
        return [InputPartition(share) for share in share_out(options.path, options.partitions, options.reading)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a share. Raises ClusterError, and DamagedSegment if damage is an error."""
        return _read(partition, self._options)


def _shares_of_cluster(options: Options) -> list[list[Range]]:
    check_reachable(options.kafka)
    start, end = wanted_bounds(options.kafka, options.reading)
    shares = share_ranges(start, end, options.partitions)
    if not shares and options.reading.row_filter == ALL_ROWS:
        raise NoSource(f"{options.kafka['bootstrap.servers']}: {options.reading.topic} holds nothing that can be read")
    return shares


def _read(partition: InputPartition, options: Options) -> Iterator[pa.RecordBatch]:
    if partition.value is None:
        return iter(())  # without a share, no requested row exists
    if options.path is not None:
        batches = read_share(Share(*partition.value), options.reading)
    else:
        batches = read_ranges(options.kafka, options.reading, [Range(*one) for one in partition.value])
    if options.rows == DECODED_ROWS:
        batches = map(options.reading.row_filter.of_decoded, decode_all(batches))
    return (batch.select(options.columns) for batch in batches) if options.columns else batches


class ClusterStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A live cluster as a stream.

    Spark keeps the position as JSON: the next offset by a partition's number (as text).
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Offsets | None = None
        self._last: Offsets | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """The position at which a new query begins."""
        first, last = self._bounds()
        return _as_json(last if self._options.starting == LATEST else first)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """From now on, do not read beyond the present ends."""
        self._target = self._bounds()[1]

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """A batch has at most as many rows as the option says."""
        return ReadMaxRows(self._options.max_rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """The end of the next batch. Raises LogReplaced if the log ends before rows that were already read."""
        within, read = self._bounds(), _of_json(start)
        self._last = within[1]
        try:
            end = readable_end(self._options.reading.topic, read, within, self._target)
        except LogReplaced as error:
            raise LogReplaced(f"{error}; begin with a new checkpoint") from None
        if isinstance(limit, ReadAllAvailable):
            return _as_json(end)
        return _as_json(bounded(read, end, getattr(limit, "max_rows", self._options.max_rows)))

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802  # Spark's name
        """The end of the log at the last request."""
        return None if self._last is None else _as_json(self._last)

    def _bounds(self) -> tuple[Offsets, Offsets]:
        reading = self._options.reading
        try:
            return of_partitions(reading, *bounds(self._options.kafka, reading))
        except NoSource:
            if not self._options.wait:
                raise
            return {}, {}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Shares of the ranges between two positions."""
        shares = share_ranges(_of_json(start), _of_json(end), self._options.partitions)
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a share. Raises ClusterError."""
        return _read(partition, self._options)


def _as_json(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _of_json(offsets: dict[str, int]) -> Offsets:
    return {int(partition): offset for partition, offset in offsets.items()}
