"""The decoder: raw rows of __consumer_offsets in, decoded rows out, both as Arrow.

`decode_commits` reads offset commits with numpy, `decode_records` reads all else record by record. Each row that comes
in comes out, of whatever kind it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from muster.pipeline.decode_commits import decode_commits
from muster.pipeline.decode_records import Row, decode_record
from muster.pipeline.gather import Binary, Mask, batch_of
from muster.pipeline.schema import DECODED, LOGGED, MALFORMED, OFFSET_COMMIT

_RAW_NAMES = {"log_partition": "partition", "log_offset": "offset", "log_timestamp_ms": "timestamp_ms"}


def decode_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode batch by batch: what `mapInArrow` asks for."""
    for batch in batches:
        yield from decode(batch)


def decode(raw: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Decode a batch of `schema.RAW` (the columns from `producer_id` on may be missing) into up to two of
    `schema.DECODED`: first the commits that were read all at once, then the rest. Each is in the order of `raw`.

    Raises KeyError when a column is missing.
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
