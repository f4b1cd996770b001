"""`muster log dump` prints segments, transaction indexes and producer snapshots as JSON lines."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from muster.cli.log.files import OFFSETS_TOPIC, Place, WrongPath, partitions_in, place_of, segment_files
from muster.cli.output import Progress, fail, printing
from muster.cli.output import as_json as line_of
from muster.coordinator.log import BatchError, TruncatedBatch, batches
from muster.coordinator.log.errors import InsaneIndex, MalformedCheckpoint, damage
from muster.coordinator.log.errors import Place as BytePlace
from muster.coordinator.log.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from muster.coordinator.log.producers import snapshot
from muster.coordinator.log.records import headers
from muster.coordinator.log.records.reader import LogRecord
from muster.coordinator.log.segments.transaction_index import ENTRY_SIZE, VERSION, decode
from muster.protocol.as_json import as_json, group_metadata_as_json
from muster.protocol.message import MalformedMessage
from muster.protocol.records import OFFSETS, SHARE_STATE, TRANSACTION_STATE, KeyedRecords, UnknownRecord

Row = dict[str, Any]
CHUNK_BYTES = 1024 * 1024
GROUP_METADATA = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MARKERS = {batches.CONTROL_ABORT: "ABORT", batches.CONTROL_COMMIT: "COMMIT"}
TABLES = {OFFSETS_TOPIC: OFFSETS, "__transaction_state": TRANSACTION_STATE, "__share_group_state": SHARE_STATE}


def lines(path: Path) -> Iterator[Row]:
    """The rows of a transaction index or producer snapshot. Raises ValueError where the file cannot be read."""
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


class Damaged(Exception):
    """A segment is damaged, and cannot be read further. The text names file and position."""


def run_dump(options: argparse.Namespace) -> int:
    """Run `muster log dump`, and return the exit status."""
    return printing("muster log dump", lambda: dump(options.path, batches_only=options.batches))


def dump(path: Path, *, batches_only: bool) -> int:
    """Print the content of `path`, and return the exit status."""
    if path.suffix in (TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX) and path.is_file():
        return _dump_producers(path)
    try:
        files = _files(path)
    except (WrongPath, OSError) as error:
        return fail("muster log dump", error, 2)
    with Progress("reading", sum(file.stat().st_size for _, file in files)) as progress:
        try:
            for place, file in files:
                lines = _batch_lines if batches_only else _record_lines
                for row in lines(place, file, progress):
                    sys.stdout.write(line_of(row) + "\n")
        except Damaged as error:
            sys.stdout.flush()
            return fail("muster log dump", error)
    return 0


def _dump_producers(path: Path) -> int:
    try:
        for row in lines(path):
            sys.stdout.write(line_of(row) + "\n")
    except (ValueError, OSError) as error:
        sys.stdout.flush()
        return fail("muster log dump", error)
    return 0


def _files(path: Path) -> list[tuple[Place | None, Path]]:
    if path.is_file():
        return [(place_of(path.parent), path)]
    places = partitions_in(path)
    if len(places) > 1 or places[0].folder != path:
        places = [place for place in places if place.topic == OFFSETS_TOPIC]
        if not places:
            raise WrongPath(f"{path} has no partition of {OFFSETS_TOPIC}: give the folder of one partition")
    return [(place, file) for place in places for file in segment_files(place.folder)]


def _chunks(file: Path, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each batch in a file. An incomplete last batch, or reserved space behind it, is ignored."""
    with file.open("rb") as stream:
        data, position = b"", 0
        while more := stream.read(CHUNK_BYTES):
            data += more
            at = 0
            while len(data) - at >= headers.MIN_BATCH_SIZE:
                try:
                    header = headers.read_header(data, at)
                    headers.check_shape(header, position + at)
                except TruncatedBatch:
                    break
                except BatchError as error:
                    if not any(data[at : at + headers.HEADER_SIZE]):
                        return  # only zeros: space that was reserved in advance
                    if position + at == 0 and header.size > file.stat().st_size:
                        break  # most likely the file is not a segment
                    raise _damaged(file, position + at, error) from error
                if len(data) - at < header.size:
                    break
                yield position + at, data[at : at + header.size]
                at += header.size
            position += at
            data = data[at:]
            progress.add(len(more))
        if position == 0 and any(data):
            raise Damaged(f"{file} has no whole batch in it: it is no segment of a log, or one that was cut off")


def _damaged(file: Path, position: int, error: BatchError) -> Damaged:
    return Damaged(str(damage(BytePlace(str(file), position), error)))


def _batch_lines(place: Place | None, file: Path, progress: Progress) -> Iterator[Row]:
    for position, batch in _chunks(file, progress):
        header = headers.read_header(batch)
        row: Row = {} if place is None else {"partition": place.number}
        horizon = header.attributes & headers.DELETE_HORIZON != 0
        row |= {
            # a compressed message of an old format is one row, as in Kafka's DumpLogSegments
            "baseOffset": None if header.record_count == headers.UNKNOWN_COUNT else header.base_offset,
            "lastOffset": header.last_offset,
            "count": None if header.record_count == headers.UNKNOWN_COUNT else header.record_count,
            "position": position,
            "size": header.size,
            "magic": header.magic,
            "leaderEpoch": header.leader_epoch,
            "compression": CODECS[header.compression] if header.compression < len(CODECS) else header.compression,
            "timestampType": _timestamp_type(header),
            "baseTimestamp": None if horizon else header.base_timestamp,
            "maxTimestamp": header.max_timestamp,
            "deleteHorizon": header.base_timestamp if horizon else None,
            "baseSequence": header.base_sequence,
        }
        yield row | _facts(header) | {"crcIsRight": headers.check_crc(batch, 0, header)}


def _timestamp_type(header: headers.BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _facts(header: headers.BatchHeader) -> Row:
    return {
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _record_lines(place: Place | None, file: Path, progress: Progress) -> Iterator[Row]:
    table = OFFSETS if place is None else TABLES.get(place.topic)
    show = _raw if table is None else _decoded(table)
    for position, batch in _chunks(file, progress):
        try:
            for header, records in batches.read(batch):
                facts = {"baseOffset": header.base_offset} | _facts(header)
                for record in records:
                    row: Row = {} if place is None else {"partition": place.number}
                    row |= {
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                        "keySize": -1 if record.key is None else len(record.key),
                        "valueSize": -1 if record.value is None else len(record.value),
                        "batch": facts,
                    }
                    if header.is_control:
                        row["marker"] = _marker(record)
                    else:
                        row |= show(record.key, record.value)
                    yield row
        except BatchError as error:
            raise _damaged(file, position, error) from error


def _marker(record: LogRecord) -> Row:
    kind = batches.control_kind(record)
    value = record.value or b""
    epoch = int.from_bytes(value[2:6], "big", signed=True) if len(value) >= 6 else -1
    return {"type": MARKERS.get(kind, str(kind)), "coordinatorEpoch": epoch}


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _raw(key: bytes | None, value: bytes | None) -> Row:
    return {"key": _text(key), "value": _text(value)}


def _decoded(table: KeyedRecords) -> Callable[[bytes | None, bytes | None], Row]:
    def show(key: bytes | None, value: bytes | None) -> Row:
        if key is None:
            return {"key": None, "value": _text(value)}
        try:
            kind, message = table.decode_key(key)
        except (UnknownRecord, MalformedMessage) as error:
            number = int.from_bytes(key[:2], "big", signed=True) if len(key) >= 2 else None
            return {"key": {"type": number, "raw": _text(key)}, "value": _text(value), "unreadable": str(error)}
        row: Row = {"key": {"type": kind, "data": as_json(message, 0)}, "value": None}
        if value is not None:
            try:
                version, message = table.decode_value(kind, value)
            except (UnknownRecord, MalformedMessage) as error:
                return row | {"value": {"raw": _text(value)}, "unreadable": str(error)}
            is_group = table is OFFSETS and kind == GROUP_METADATA
            data = group_metadata_as_json(message, version) if is_group else as_json(message, version)
            row["value"] = {"version": version, "data": data}
        return row

    return show
