"""The small text files of a data directory, in Kafka's formats, and what they say of the last stop."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Container, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

import structlog

from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.system.jobs import Job, OffloadedWork

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_NUMBER = re.compile(r"[0-9]{1,19}")

Partition = tuple[str, int]
"""Topic and partition index."""


def encode_uuid(uuid: bytes) -> str:
    """Encode 16 bytes as Kafka does: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def partition_of(directory: str) -> Partition | None:
    """Return the topic and index of a partition's directory; None for any other name."""
    topic, dash, index = directory.rpartition("-")
    if not (dash and topic and _INDEX.fullmatch(index)) or int(index) > MAX_INT32:
        return None  # Kafka never writes "orders-007", which would be a second folder of orders-7
    return topic, int(index)


def decode_uuid(text: str) -> bytes:
    """Return the 16 bytes from which `encode_uuid` made this text. Raises ValueError for any other text."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not the text of a 16-byte id")
    return uuid


def _rows(path: str, data: bytes) -> list[str]:
    """Return the lines after the version and the count."""
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0" or _number(lines[1].strip(), MAX_INT64) != len(lines) - 2:
        raise MalformedCheckpoint(f"{path} is no checkpoint of version 0 with as many rows as it says")
    return lines[2:]


def _number(text: str, maximum: int) -> int:
    """Return a number from 0 to `maximum` in plain digits; -1 for any other text."""
    number = int(text) if _NUMBER.fullmatch(text) else -1
    return number if number <= maximum else -1


def _table(rows: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(rows)), *rows)).encode()


def decode_offsets(path: str, data: bytes) -> dict[Partition, int]:
    """Decode an offset checkpoint: version, count, then lines `topic partition offset`."""
    offsets: dict[Partition, int] = {}
    for row in _rows(path, data):
        words = row.split()
        numbers = [_number(word, maximum) for word, maximum in zip(words[1:], (MAX_INT32, MAX_INT64), strict=False)]
        if len(words) != 3 or -1 in numbers:
            raise MalformedCheckpoint(f"{path} has the row {row!r}, expected: topic partition offset")
        offsets[words[0], numbers[0]] = numbers[1]
    return offsets


def encode_offsets(offsets: Mapping[Partition, int]) -> bytes:
    """Encode an offset checkpoint, in the order of the partitions."""
    return _table([f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items())])


def decode_epochs(path: str, data: bytes) -> list[tuple[int, int]]:
    """Decode a leader epoch checkpoint: version, count, then lines `epoch start-offset`."""
    entries: list[tuple[int, int]] = []
    for row in _rows(path, data):
        words = row.split()
        numbers = [_number(word, maximum) for word, maximum in zip(words, (MAX_INT32, MAX_INT64), strict=False)]
        if len(words) != 2 or -1 in numbers:
            raise MalformedCheckpoint(f"{path} has the row {row!r}, expected: epoch offset")
        entries.append((numbers[0], numbers[1]))
    return entries


def encode_epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    """Encode a leader epoch checkpoint."""
    return _table([f"{epoch} {start}" for epoch, start in entries])


def decode_properties(path: str, data: bytes) -> dict[str, str]:
    """Decode lines `name=value` (or `name: value`). Comments and blank lines are skipped."""
    properties: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        at = min((i for i in (text.find("="), text.find(":")) if i >= 0), default=-1)
        if at < 0:
            raise MalformedCheckpoint(f"{path} has the line {line[:60]!a}, expected: name=value")
        properties[text[:at].strip()] = text[at + 1 :].strip()
    return properties


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode lines `name=value`."""
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def decode_topic_id(path: str, data: bytes) -> bytes:
    """Decode the topic id of a `partition.metadata` file (KIP-516)."""
    properties = decode_properties(path, data)
    try:
        if properties["version"] != "0":
            raise ValueError(properties["version"])
        return decode_uuid(properties["topic_id"])
    except (KeyError, ValueError) as error:
        raise MalformedCheckpoint(f"{path} does not hold version 0 and a topic_id: {error}") from error


def encode_topic_id(topic_id: bytes) -> bytes:
    """Encode a `partition.metadata` file."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}\n".encode()


def encode_clean_shutdown() -> bytes:
    """Encode the file that marks a clean stop (KIP-966). The broker epoch is -1: no controller gave one."""
    return json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode()


class OffsetCheckpointFile:
    """One offset checkpoint. When two writes overlap, the file has the offsets of the later write."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._writing = Lock()
        self._begun = self._written = 0

    def save(self, offsets: Mapping[Partition, int], *, sync: bool = False) -> None:
        """Write the file now. `sync`: wait for the disk. Raises OSError."""
        self._begun += 1
        self._write(self._begun, offsets, sync=sync)

    def saving(self, offsets: Mapping[Partition, int]) -> Job[None]:
        """Write the file in a thread: encoding takes long. Nobody may change `offsets` meanwhile. Raises OSError."""
        self._begun += 1
        yield OffloadedWork(partial(self._write, self._begun, offsets, sync=False))

    def _write(self, number: int, offsets: Mapping[Partition, int], *, sync: bool) -> None:
        with self._writing:
            if number > self._written:
                self._storage.save(self._name, encode_offsets(offsets), sync=sync)
                self._written = number


_logger = structlog.get_logger("muster.log")


class LastStop(NamedTuple):
    """What the checkpoints say of one partition's log at the last stop of the server."""

    was_clean: bool
    recovery_point: int = 0
    """All records before this offset were synced."""
    start_offset: int = 0


UNKNOWN = LastStop(was_clean=False)
"""The value for a partition that the checkpoints do not have."""


def load_offsets(storage: Storage, name: str, *, quiet: bool = False) -> dict[Partition, int]:
    """Read an offset checkpoint. {} without a readable file; the error is logged unless `quiet`. Raises OSError."""
    path = f"{storage.root}/{name}"
    data = storage.load(name)
    try:
        return {} if data is None else decode_offsets(path, data)
    except MalformedCheckpoint as error:
        if not quiet:
            _logger.warning("a checkpoint is ignored: it cannot be read", path=path, reason=str(error))
        return {}


class LastStops:
    """The offsets of all logs of a data directory. The server keeps the offsets up to date, and `save` writes them."""

    def __init__(self, storage: Storage, *, quiet: bool = False) -> None:
        self._storage = storage
        self.was_clean = storage.load(CLEAN_SHUTDOWN) is not None
        self._recovery_points = load_offsets(storage, RECOVERY_POINTS, quiet=quiet)
        self._start_offsets = load_offsets(storage, START_OFFSETS, quiet=quiet)
        self._points_file = OffsetCheckpointFile(storage, RECOVERY_POINTS)
        self._starts_file = OffsetCheckpointFile(storage, START_OFFSETS)
        self._forgotten: dict[Partition, int] = {}
        """Deleted partitions that the checkpoint files may still have. Deletions are numbered, for `saving`."""
        self._times = 0

    def of(self, partition: Partition) -> LastStop:
        """Return the `LastStop` of a partition. Without a row in the checkpoint, the stop was not clean."""
        return LastStop(
            was_clean=self.was_clean and partition in self._recovery_points,
            recovery_point=self._recovery_points.get(partition, 0),
            start_offset=self._start_offsets.get(partition, 0),
        )

    def note(self, partition: Partition, recovery_point: int, start_offset: int) -> None:
        """Note the present offsets of a log."""
        self._recovery_points[partition] = recovery_point
        if start_offset > 0:
            self._start_offsets[partition] = start_offset
        else:
            self._start_offsets.pop(partition, None)

    def forget(self, partition: Partition) -> None:
        """Forget a deleted partition. The checkpoint files may still have the partition, see `is_forgotten`."""
        if self._recovery_points.pop(partition, 0) + self._start_offsets.pop(partition, 0) > 0:
            self._times += 1
            self._forgotten[partition] = self._times

    def forget_others(self, topics: Container[str]) -> None:
        """Forget the partitions of other topics: they were deleted before the last stop."""
        for partition in [one for one in self._recovery_points if one[0] not in topics]:
            self.forget(partition)

    def is_forgotten(self, partition: Partition) -> bool:
        """Whether the checkpoint files have offsets of a deleted log: call `save` before a new log is created."""
        return partition in self._forgotten

    def save(self, *, sync: bool = False) -> None:
        """Write recovery points and start offsets. `sync`: wait for the disk. Raises OSError."""
        self._points_file.save(self._recovery_points, sync=sync)
        self._starts_file.save(self._start_offsets, sync=sync)
        self._forgotten.clear()

    def saving(self) -> Job[None]:
        """Write the present offsets in a thread. Raises OSError."""
        times, points, starts = self._times, dict(self._recovery_points), dict(self._start_offsets)
        yield from self._points_file.saving(points)
        yield from self._starts_file.saving(starts)
        self._forgotten = {one: number for one, number in self._forgotten.items() if number > times}


def read_last_stops(storage: Storage) -> dict[Partition, LastStop]:
    """Return the `LastStop` of each partition in the checkpoints. Raises OSError when a checkpoint cannot be read."""
    stops = LastStops(storage, quiet=True)
    return {partition: stops.of(partition) for partition in load_offsets(storage, RECOVERY_POINTS, quiet=True)}


def lower_recovery_point(storage: Storage, partition: Partition, offset: int) -> None:
    """Note that a repair has cut the log at `offset`."""
    points = load_offsets(storage, RECOVERY_POINTS, quiet=True)
    if points.get(partition, 0) > offset:
        points[partition] = offset
        storage.save(RECOVERY_POINTS, encode_offsets(points), sync=True)
