"""Transaction indexes and snapshots of producers for `muster log dump`, with the fields of Kafka's DumpLogSegments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from muster.coordinator.log.errors import InsaneIndex, MalformedCheckpoint
from muster.coordinator.log.producers import snapshot
from muster.coordinator.log.segments.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from muster.coordinator.log.segments.transaction_index import ENTRY_SIZE, VERSION, decode

Row = dict[str, Any]


def is_of_producers(path: Path) -> bool:
    """Whether a file is one of these by its name."""
    return path.suffix in (TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


def lines(path: Path) -> Iterator[Row]:
    """The rows of the file. Raises ValueError where it cannot be read."""
    data = path.read_bytes()
    try:
        yield from _aborted(data) if path.suffix == TRANSACTION_INDEX_SUFFIX else _producers(path, data)
    except (InsaneIndex, MalformedCheckpoint) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _aborted(data: bytes) -> Iterator[Row]:
    whole = len(data) - len(data) % ENTRY_SIZE
    for aborted in decode(data[:whole]):
        yield {
            "version": VERSION,
            "producerId": aborted.producer_id,
            "firstOffset": aborted.first_offset,
            "lastOffset": aborted.last_offset,
            "lastStableOffset": aborted.last_stable_offset,
        }
    if whole < len(data):
        raise InsaneIndex(f"{len(data) - whole} bytes at its end are no entry")


def _producers(path: Path, data: bytes) -> Iterator[Row]:
    for part in snapshot.decode(str(path), data):
        for producer in part:
            newest = producer.batches[-1] if producer.batches else None
            yield {
                "producerId": producer.producer_id,
                "producerEpoch": producer.epoch,
                "coordinatorEpoch": producer.coordinator_epoch,
                "currentTxnFirstOffset": producer.transaction_start,
                "lastTimestamp": producer.last_timestamp_ms,
                "firstSequence": newest and newest.first_sequence,
                "lastSequence": newest and newest.last_sequence,
                "lastOffset": newest and newest.last_offset,
                "offsetDelta": newest and newest.last_offset - newest.base_offset,
            }
