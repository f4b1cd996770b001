"""Reads fields at computed positions of one buffer, for all rows at once (numpy and Arrow).

This module knows no format. Positions are int64 arrays. The caller makes sure that the positions are in the buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Octets = NDArray[np.uint8]

PAD: Final = 32
"""The number of zeros that are added to a small buffer. So a field can be read before it is known to exist."""

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_TYPES: Final = {2: ">i2", 4: ">i4", 8: ">i8"}


class Binary:
    """A binary column as one buffer, with the start and the end of each row. A null row is empty."""

    __slots__ = ("data", "ends", "starts", "valid")

    def __init__(self, column: pa.Array) -> None:
        if column.type != pa.binary():
            column = column.cast(pa.binary())
        rows = len(column)
        _, offsets, data = column.buffers()
        if offsets is None or rows == 0:
            bounds: Ints = np.zeros(rows + 1, np.int64)
        else:
            bounds = np.frombuffer(offsets, np.int32, rows + 1, column.offset * 4).astype(np.int64)
        held: Octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
        self.data = held if len(held) >= PAD else np.concatenate((held, np.zeros(PAD, np.uint8)))
        self.starts, self.ends = bounds[:-1], bounds[1:]
        self.valid: Mask
        if column.null_count:
            self.valid = np.asarray(column.is_valid())
            self.ends = np.where(self.valid, self.ends, self.starts)
        else:
            self.valid = np.ones(rows, np.bool_)


def integers(data: Octets, positions: Ints, width: int) -> Ints:
    """Big-endian signed integers of 2, 4 or 8 bytes. A position too near the end of the buffer reads the last bytes."""
    # an integer begins at every byte: one array over the same memory
    everywhere: Ints = np.ndarray((len(data) - width + 1,), _TYPES[width], data, 0, (1,))
    return everywhere[np.minimum(positions, len(data) - width)].astype(np.int64)


def octets(data: Octets, positions: Ints) -> Ints:
    """Single bytes, unsigned. A position past the end of the buffer reads the last byte."""
    return data.take(positions, mode="clip").astype(np.int64)


def varints(data: Octets, positions: Ints) -> tuple[Ints, Ints]:
    """Zigzag varints, and the position after each of them.

    After a varint of more than ten bytes that position is far outside the buffer.
    """
    last = octets(data, positions)
    value = last & 127
    after = positions + 1
    going = np.flatnonzero(last >= 128)
    shift = 7
    while len(going):
        if shift > 63:
            after[going] = np.iinfo(np.int64).max // 4
            break
        more = octets(data, after[going])
        value[going] |= (more & 127) << shift
        after[going] += 1
        going = going[more >= 128]
        shift += 7
    return (value >> 1 & np.int64(0x7FFFFFFFFFFFFFFF)) ^ -(value & 1), after


def byte_slices(data: Octets, starts: Ints, ends: Ints, valid: Mask) -> pa.Array:
    """A binary column of data[start:end] for each row, null where not `valid`.

    Valid rows follow each other in the order of the rows. No byte is read in Python. The rows and the gaps between them
    make one Arrow array over the buffer, and Arrow takes every second element.
    """
    rows = len(starts)
    bounds = np.empty(2 * rows + 1, np.int64)
    bounds[0:-1:2] = np.where(valid, starts, 0)
    bounds[1::2] = np.where(valid, ends, 0)
    bounds[-1] = 0
    bounds = np.maximum.accumulate(bounds)
    laid = pa.Array.from_buffers(
        pa.binary(), 2 * rows, [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    )
    wanted: Any = np.arange(0, 2 * rows, 2)
    return laid.take(pa.array(wanted) if valid.all() else pa.array(wanted, mask=~valid))


def texts(column: pa.Array) -> tuple[pa.Array, Mask | None]:
    """A binary column as strings, and a mask.

    Rows that are not valid UTF-8 are null, and the mask is true for them. The mask is None if all rows are valid.
    """
    try:
        return column.cast(pa.string()), None
    except pa.ArrowInvalid:
        bad = np.fromiter((not _is_utf8(row) for row in column.to_pylist()), np.bool_, len(column))
        good = pa.array(
            [None if wrong else row for wrong, row in zip(bad, column.to_pylist(), strict=True)], pa.binary()
        )
        return good.cast(pa.string()), bad


def _is_utf8(row: bytes | None) -> bool:
    try:
        (row or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def uuids(data: Octets, positions: Ints, valid: Mask) -> pa.Array:
    """The 16 bytes at each position in Kafka's text form (URL-safe base64, 22 letters); null where not `valid`."""
    inside = np.clip(np.where(valid, positions, 0), 0, len(data) - 16)
    ids = np.ascontiguousarray(sliding_window_view(data, 16)[inside]).view(np.uint64)
    # few topics have many commits: each id becomes text once, unless two ids have the same hash
    mixed = ids[:, 0] * _MIX ^ ids[:, 1]
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if (ids[first][which] != ids).any():
        first = which = np.arange(len(inside))
    found = _as_text(sliding_window_view(data, 16)[inside[first]])
    return found.take(pa.array(which) if valid.all() else pa.array(which, mask=~valid))


def _as_text(ids: Octets) -> pa.Array:
    """Kafka's text form of each row of 16 bytes."""
    rows = len(ids)
    padded = np.zeros((rows, 18), np.uint8)
    padded[:, :16] = ids
    three = padded.reshape(rows, 6, 3).astype(np.uint32)
    joined = three[:, :, 0] << 16 | three[:, :, 1] << 8 | three[:, :, 2]
    letters = np.empty((rows, 6, 4), np.uint8)
    for place, shift in enumerate((18, 12, 6, 0)):
        letters[:, :, place] = _ALPHABET[joined >> shift & 63]
    text = np.ascontiguousarray(letters.reshape(rows, 24)[:, :22])
    bounds = np.arange(0, 22 * (rows + 1), 22, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(bounds), pa.py_buffer(text)])


def numbers(values: Ints, kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """An integer column that is null where not `valid`."""
    narrow = values.astype(kind.to_pandas_dtype())
    return pa.array(narrow, kind) if valid is None or valid.all() else pa.array(narrow, kind, mask=~valid)


def batch_of(schema: pa.Schema, rows: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch with all columns of a schema: those in `columns`, and null for the others."""
    arrays = [columns[one.name] if one.name in columns else pa.nulls(rows, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
