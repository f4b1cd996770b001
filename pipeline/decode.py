"""The decoder makes decoded rows of the raw rows of __consumer_offsets. Both are Arrow batches.

numpy decodes the offset commits of a batch, all at once. They have key types 0 and 1, and value versions 0 to 4 or a
tombstone. Nearly every row of a log is an offset commit. `decode_records` reads every other row by `protocol`, record
by record, and reports what is wrong with it. Such a row is another kind of record, a damaged record, or a commit of a
rare form. A rare form has metadata beyond 16 KB, or unknown tagged fields. The numpy code need not explain failures,
but it must read what `protocol` would read. The decoder returns each row that it gets, whatever its kind is.

The key has type int16, group string, topic string, partition int32 (strings: length int16 and UTF-8). The value has
version int16, offset int64, leader epoch int32 (from version 3 on), metadata string, commit timestamp int64. Version 1
also has an expire timestamp int64. In version 4 the metadata has a compact length, and tagged fields stand at the end.
Tag 0 is the topic's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from muster.pipeline.decode_records import Row, decode_record
from muster.pipeline.gather import Binary, Ints, Mask, batch_of, byte_slices, integers, numbers, octets, texts, uuids
from muster.pipeline.schema import DECODED, LOGGED, MALFORMED, OFFSET_COMMIT

MAX_TYPE: Final = 1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
_ID_TAG_SIZE: Final = 19
"""The size of a topic id among the tagged fields: count of tags, tag, size, and 16 bytes."""


def decode_commits(keys: Binary, values: Binary) -> tuple[Mask, dict[str, pa.Array]]:
    """Find the offset commits of the usual form, and read their columns (KEYED and COMMIT of the schema).

    The columns have as many values as the batch has rows. The values in all other rows mean nothing.
    """
    taken, key_type, group, topic, partition = _keys(keys)
    has_value = values.valid
    value = _Values(values, key_type, taken & has_value)
    taken &= ~has_value | value.fits
    decoded: dict[str, pa.Array] = {}
    for name, (start, end) in {"group": group, "topic": topic}.items():
        decoded[name], bad = texts(byte_slices(keys.data, start, end, taken))
        if bad is not None:
            taken &= ~bad
    there = taken & has_value
    decoded["metadata"], bad = texts(byte_slices(values.data, value.metadata_start, value.metadata_end, there))
    if bad is not None:
        taken &= ~bad
        there &= ~bad
    expires = there & (value.expire_timestamp != NO_TIMESTAMP)
    has_epoch = there & (value.leader_epoch != NO_EPOCH)
    return taken, {
        **decoded,
        "key_type": numbers(key_type, pa.int16()),
        "value_version": numbers(value.version, pa.int16(), there),
        "is_tombstone": pa.array(~has_value),
        "partition": numbers(partition, pa.int32()),
        "committed_offset": numbers(value.offset, pa.int64(), there),
        "leader_epoch": numbers(value.leader_epoch, pa.int32(), has_epoch),
        "commit_timestamp_ms": numbers(value.commit_timestamp, pa.int64(), there),
        "expire_timestamp_ms": numbers(value.expire_timestamp, pa.int64(), expires),
        "topic_id": uuids(values.data, value.id_position, there & value.has_id),
    }


def _keys(keys: Binary) -> tuple[Mask, Ints, tuple[Ints, Ints], tuple[Ints, Ints], Ints]:
    """Find the complete keys of offset commits. For each, read type, bounds of group and topic, and partition."""
    data, start, end = keys.data, keys.starts, keys.ends
    key_type = integers(data, start, 2)
    taken = keys.valid & (end - start >= 10) & (key_type >= 0) & (key_type <= MAX_TYPE)
    group_size = integers(data, start + 2, 2)
    group_start = start + 4
    group_end = group_start + group_size
    taken &= (group_size >= 0) & (group_end + 6 <= end)
    topic_at = np.where(taken, group_end, 0)
    topic_size = integers(data, topic_at, 2)
    topic_start = topic_at + 2
    topic_end = topic_start + topic_size
    taken &= (topic_size >= 0) & (topic_end + 4 <= end)
    partition = integers(data, np.where(taken, topic_end, 0), 4)
    return taken, key_type, (group_start, group_end), (topic_start, topic_end), partition


class _Values:
    """The fields of the values of the requested rows. `fits` is true for each row whose fields could be read."""

    def __init__(self, values: Binary, key_type: Ints, asked: Mask) -> None:
        data, start, end = values.data, values.starts, values.ends
        self.version = version = integers(data, start, 2)
        fits = asked & (end - start >= 12) & (version >= 0) & np.where(key_type == 0, version == 0, version <= 4)
        start = np.where(fits, start, 0)
        self.offset = integers(data, start + 2, 8)
        self.leader_epoch = np.where(version >= 3, integers(data, start + 10, 4), NO_EPOCH)
        compact = version == 4
        metadata_at = start + np.where(version >= 3, 14, 10)
        fits &= metadata_at + 2 <= end
        size, self.metadata_start = _metadata(data, metadata_at, compact)
        self.metadata_end = self.metadata_start + size
        fits &= (size >= 0) & (self.metadata_end + 8 <= end)
        timestamp_at = np.where(fits, self.metadata_end, 0)
        self.commit_timestamp = integers(data, timestamp_at, 8)
        after = timestamp_at + 8
        with_expiry = version == 1
        fits &= ~with_expiry | (after + 8 <= end)
        self.expire_timestamp = np.where(with_expiry, integers(data, after, 8), NO_TIMESTAMP)
        self.id_position, self.has_id, tags_fit = _topic_id(values, after, compact & fits)
        self.fits: Mask = fits & (~compact | tags_fit)


def _metadata(data: np.ndarray, at: Ints, compact: Mask) -> tuple[Ints, Ints]:
    """The size and the start of the metadata.

    The length before it is an int16, or a compact length of one or two bytes. A size below 0 means that the metadata is
    not read here.
    """
    size, start = integers(data, at, 2), at + 2
    if not compact.any():
        return size, start
    first = octets(data, at)
    second = octets(data, at + 1)
    one = first < 128
    length = np.where(one, first, np.where(second < 128, (first & 127) | second << 7, 0)) - 1
    return np.where(compact, length, size), np.where(compact & one, at + 1, start)


def _topic_id(values: Binary, at: Ints, compact: Mask) -> tuple[Ints, Mask, Mask]:
    """The position of the topic's id, and whether the id exists. Also whether no other tagged field exists."""
    if not compact.any():
        return at, compact, compact
    at = np.where(compact, at, 0)
    tags = octets(values.data, at)
    none = compact & (at < values.ends) & (tags == 0)
    alone = compact & (at + _ID_TAG_SIZE <= values.ends) & (tags == 1)
    alone &= (octets(values.data, at + 1) == 0) & (octets(values.data, at + 2) == 16)
    position = np.where(alone, at + 3, 0)
    said = (integers(values.data, position, 8) != 0) | (integers(values.data, position + 8, 8) != 0)
    return position, alone & said, none | alone


_RAW_NAMES = {"log_partition": "partition", "log_offset": "offset", "log_timestamp_ms": "timestamp_ms"}


def decode_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode one batch after the other, for Spark's `mapInArrow`."""
    for batch in batches:
        yield from decode(batch)


def decode(raw: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Decode a batch of `schema.RAW` into up to two batches of `schema.DECODED`.

    The first batch has the commits that numpy read, and the second all other rows. Both are in the order of `raw`. The
    columns from `producer_id` on may be missing. Raises KeyError if another column is missing.
    """
    if raw.num_rows == 0:
        return []
    keys, values = raw.column("key"), raw.column("value")
    undamaged = _undamaged(raw)
    taken, columns = decode_commits(Binary(keys), Binary(values))
    taken &= undamaged
    logged = {name: _logged(raw, name, kind) for name, kind in LOGGED}
    found: list[pa.RecordBatch] = []
    count = int(np.count_nonzero(taken))
    if count:
        kind = pa.repeat(pa.scalar(OFFSET_COMMIT), raw.num_rows)
        commits = batch_of(DECODED, raw.num_rows, {"kind": kind, **logged, **columns})
        found.append(commits if count == raw.num_rows else commits.filter(pa.array(taken)))
    if count < raw.num_rows:
        rest = pa.array(np.flatnonzero(~taken))
        rows = _rows(raw, rest)
        decoded = pa.RecordBatch.from_pylist(rows, pa.schema([f for f in DECODED if f.name not in logged]))
        whole = {name: decoded.column(name) for name in decoded.schema.names}
        whole |= {name: column.take(rest) for name, column in logged.items()}
        found.append(batch_of(DECODED, len(rest), whole))
    return found


def _undamaged(raw: pa.RecordBatch) -> Mask:
    if "damage" not in raw.schema.names or raw.column("damage").null_count == raw.num_rows:
        return np.ones(raw.num_rows, np.bool_)
    return np.asarray(raw.column("damage").is_null())


def _logged(raw: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    source = _RAW_NAMES.get(name, name)
    if source not in raw.schema.names and name not in _RAW_NAMES:
        return pa.nulls(raw.num_rows, kind)
    column = raw.column(source)
    return column if column.type == kind else column.cast(kind)


def _rows(raw: pa.RecordBatch, wanted: pa.Array) -> list[Row]:
    keys = raw.column("key").take(wanted).to_pylist()
    values = raw.column("value").take(wanted).to_pylist()
    if "damage" not in raw.schema.names:
        return [decode_record(key, value) for key, value in zip(keys, values, strict=True)]
    damages = raw.column("damage").take(wanted).to_pylist()
    return [
        decode_record(key, value) if damage is None else {"kind": MALFORMED, "reason": damage, "raw_value": value}
        for key, value, damage in zip(keys, values, damages, strict=True)
    ]
