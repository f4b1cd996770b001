"""The transactions in offsets partitions, and the markers in control batches that end them (KIP-98). Without Spark.

`Outcomes` finds which batches count. `parts_of` gives the producer, the groups and the number of offsets of each
transaction, also of aborted and open ones. It reads only the headers of batches, and the keys in batches of
transactions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import fs

from muster.pipeline.gather import Mask, integers
from muster.pipeline.schema import OFFSETS_TOPIC, columns
from muster.pipeline.sources.batches import Batches, headers_of, rows_of
from muster.pipeline.sources.data_folders import find_segments
from muster.pipeline.sources.segment_files import SegmentFile, file_system
from muster.pipeline.sources.segment_reader import Stretch, Walk
from muster.protocol.message import ProtocolError
from muster.protocol.records import OFFSETS

COMMIT: Final = 1


class Outcomes:
    """The markers of each producer, in the order of the log."""

    def __init__(self) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._kinds: dict[int, list[int]] = {}
        self._open: set[int] = set()

    @classmethod
    def of(cls, files: Iterable[Iterable[Stretch]]) -> Outcomes:
        """The outcomes for the first of some files in a row.

        The next files are read as long as a transaction from the first file is open.
        """
        outcomes = cls()
        for index, file in enumerate(files):
            if index and not outcomes._open:
                break
            for stretch in file:
                outcomes._add(headers_of(stretch), opens=index == 0)
                if index and not outcomes._open:
                    break
        return outcomes

    def _add(self, batches: Batches, *, opens: bool) -> None:
        concerned = batches.only(batches.is_control | batches.is_transactional)
        kinds = kinds_of(concerned)
        for offset, producer_id, kind in zip(
            concerned.base_offset.tolist(), concerned.producer_id.tolist(), kinds, strict=True
        ):
            if kind is not None:
                self._offsets.setdefault(producer_id, []).append(offset)
                self._kinds.setdefault(producer_id, []).append(kind)
                self._open.discard(producer_id)
            elif opens:
                self._open.add(producer_id)

    def committed(self, batches: Batches) -> Mask:
        """Which batches count: those outside of transactions, and those of committed transactions."""
        counts = ~batches.is_transactional
        for index in np.flatnonzero(batches.is_transactional):
            producer_id = int(batches.producer_id[index])
            later = bisect_right(self._offsets.get(producer_id, []), int(batches.base_offset[index]))
            kinds = self._kinds.get(producer_id, [])
            counts[index] = later < len(kinds) and kinds[later] == COMMIT
        return counts


def kinds_of(batches: Batches) -> list[int | None]:
    """The kind of marker in each batch. It is None for batches of data, and for markers of another kind."""
    kinds: list[int | None] = [None] * len(batches.position)
    controls = np.flatnonzero(batches.is_control)
    if len(controls):
        rows, _ = rows_of(batches.only(batches.is_control))
        start, end, valid = rows.key
        has_kind = valid & (end - start >= 4)
        kind = integers(rows.data, np.where(has_kind, start + 2, 0), 2)
        for batch in np.flatnonzero(has_kind):
            if kind[batch] in (0, COMMIT):
                kinds[int(controls[rows.batch[batch]])] = int(kind[batch])
    return kinds


PARTS: Final = pa.schema(
    columns(
        "partition int, producer_id long, producer_epoch int, start_ms long, end_ms long, outcome string, "
        "offsets long, groups strings"
    )
)
"""A transaction in one partition: when its first offsets and its marker were logged.

The end and the outcome of an open transaction are null.
"""

Part = dict[str, Any]
_OUTCOMES: Final = {True: "committed", False: "aborted"}


def partitions_of(path: str) -> list[tuple[SegmentFile, ...]]:
    """The segments of each offsets partition that has segments, in the order of the log. Raises NoSource."""
    found: dict[int, list[SegmentFile]] = {}
    for segment in sorted(find_segments(path, OFFSETS_TOPIC)):
        if segment.size:
            found.setdefault(segment.partition, []).append(segment)
    return [tuple(found[partition]) for partition in sorted(found)]


def parts_of(path: str, segments: Sequence[SegmentFile]) -> Iterator[Part]:
    """The transactions in one partition (rows of PARTS). Damage is skipped: the module `segments` reports it."""
    system, _ = file_system(path)
    open_ones: dict[int, Part] = {}
    for segment in segments:
        for batches in _batches(system, segment):
            concerned = batches.only(batches.is_transactional)
            if len(concerned.position):
                yield from _transactions_in(concerned, segment.partition, open_ones)
    yield from open_ones.values()


def _batches(system: fs.FileSystem, segment: SegmentFile) -> Iterator[Batches]:
    try:
        stream = system.open_input_file(segment.path)
    except FileNotFoundError:
        # compaction or retention has removed the file
        return
    with stream:
        size, goes_on = min(stream.size(), segment.size), stream.size() > segment.size
        for stretch in Walk(segment.path, stream, size, segment.base_offset, check_crc=False, goes_on=goes_on):
            yield headers_of(stretch)


def _transactions_in(batches: Batches, partition: int, open_ones: dict[int, Part]) -> Iterator[Part]:
    kinds = kinds_of(batches)
    rows, _ = rows_of(batches)
    starts, ends, valid = rows.key
    first = np.searchsorted(rows.batch, np.arange(len(batches.position) + 1))
    for index, producer_id in enumerate(batches.producer_id.tolist()):
        kind = kinds[index]
        at_ms = int(batches.max_timestamp[index])
        if kind is not None:
            part = open_ones.pop(producer_id, None)
            if part is not None:
                yield part | {"end_ms": at_ms, "outcome": _OUTCOMES[kind == COMMIT]}
        elif not batches.is_control[index]:
            part = open_ones.get(producer_id)
            if part is None:
                part = open_ones[producer_id] = {
                    "partition": partition, "producer_id": producer_id, "start_ms": int(batches.base_timestamp[index]),
                    "producer_epoch": int(batches.producer_epoch[index]), "end_ms": None, "outcome": None,
                    "offsets": 0, "groups": [],
                }  # fmt: skip
            for row in range(first[index], first[index + 1]):
                if valid[row]:
                    _count(part, bytes(rows.data[starts[row] : ends[row]]))


def _count(part: Part, key: bytes) -> None:
    try:
        _, message = OFFSETS.decode_key(key)
    except ProtocolError:
        return
    group = getattr(message, "group", None)
    if group is not None:
        part["offsets"] += 1
        if group not in part["groups"]:
            part["groups"].append(group)
