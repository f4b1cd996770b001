"""The transactions in the offsets partitions of a data directory, without Spark: which producer committed how many
offsets of which groups, and how its marker says that it ended (KIP-98). Aborted and open ones too.

Reads headers, and the keys of batches of transactions; `segments` reads everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import fs

from muster.pipeline.schema import OFFSETS_TOPIC, columns
from muster.pipeline.sources.batches import Batches, headers_of, rows_of
from muster.pipeline.sources.segment_files import SegmentFile, file_system, find_segments
from muster.pipeline.sources.segment_reader import Walk
from muster.pipeline.sources.transactions import COMMIT, kinds_of
from muster.protocol.message import ProtocolError
from muster.protocol.records import OFFSETS

PARTS: Final = pa.schema(
    columns(
        "partition int, producer_id long, producer_epoch int, start_ms long, end_ms long, outcome string, "
        "offsets long, groups strings"
    )
)
"""A transaction in one partition: when its first offsets were logged and when its marker was; open: null, null."""

Part = dict[str, Any]
_OUTCOMES: Final = {True: "committed", False: "aborted"}


def partitions_of(path: str) -> list[tuple[SegmentFile, ...]]:
    """The segments of each offsets partition that has any, in the order of the log. Raises NoSource."""
    found: dict[int, list[SegmentFile]] = {}
    for segment in sorted(find_segments(path, OFFSETS_TOPIC)):
        if segment.size:
            found.setdefault(segment.partition, []).append(segment)
    return [tuple(found[partition]) for partition in sorted(found)]


def parts_of(path: str, segments: Sequence[SegmentFile]) -> Iterator[Part]:
    """The transactions in one partition (rows of PARTS). Damage is passed over: `segments` tells of it."""
    system, _ = file_system(path)
    open_ones: dict[int, Part] = {}
    for segment in segments:
        for batches in _batches(system, segment):
            concerned = batches.only(batches.is_transactional)
            if len(concerned.position):
                yield from _go_on(concerned, segment.partition, open_ones)
    yield from open_ones.values()


def _batches(system: fs.FileSystem, segment: SegmentFile) -> Iterator[Batches]:
    try:
        stream = system.open_input_file(segment.path)
    except FileNotFoundError:
        # compaction or retention
        return
    with stream:
        size, goes_on = min(stream.size(), segment.size), stream.size() > segment.size
        for stretch in Walk(segment.path, stream, size, segment.base_offset, check_crc=False, goes_on=goes_on):
            yield headers_of(stretch)


def _go_on(batches: Batches, partition: int, open_ones: dict[int, Part]) -> Iterator[Part]:
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
