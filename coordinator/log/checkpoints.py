"""The small text files of a data directory, under Kafka's names and in Kafka's formats. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence

from muster.coordinator.log.errors import MalformedCheckpoint

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
        return None  # Kafka never writes "orders-007": it would be another folder of orders-7
    return topic, int(index)


def decode_uuid(text: str) -> bytes:
    """Decode the 16 bytes of `encode_uuid`. Raises ValueError for any other text."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not the text of a 16-byte id")
    return uuid


def _rows(path: str, data: bytes) -> list[str]:
    """Return the lines after the version and the count; both are checked."""
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0" or _number(lines[1].strip(), MAX_INT64) != len(lines) - 2:
        raise MalformedCheckpoint(f"{path} is no checkpoint of version 0 with as many rows as it says")
    return lines[2:]


def _number(text: str, most: int) -> int:
    """Return a number from 0 to `most` in plain digits; -1 for any other text."""
    number = int(text) if _NUMBER.fullmatch(text) else -1
    return number if number <= most else -1


def _table(rows: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(rows)), *rows)).encode()


def decode_offsets(path: str, data: bytes) -> dict[Partition, int]:
    """Decode an offset checkpoint: version, count, then lines `topic partition offset`."""
    offsets: dict[Partition, int] = {}
    for row in _rows(path, data):
        words = row.split()
        numbers = [_number(word, most) for word, most in zip(words[1:], (MAX_INT32, MAX_INT64), strict=False)]
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
        numbers = [_number(word, most) for word, most in zip(words, (MAX_INT32, MAX_INT64), strict=False)]
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
    """Encode the file that marks a clean stop (KIP-966). No controller gave the broker epoch."""
    return json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode()
