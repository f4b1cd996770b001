"""The verbs on topics, done by the test control of a server. So it does not matter which brokers are up."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from muster.client.kafka_client import KafkaClient
from muster.testcontrol import checks
from muster.testcontrol.topics import NewRecord, Record
from muster.testing.admin_topics import AdminTopics
from muster.testing.controlled_faults import Control

MAX_RECORDS: Final = 1_000
"""The most records in one request to the test control."""
MAX_BYTES: Final = 512 * 1024
"""The most bytes of keys and values in one request. With base64 and names, they stay below the test control's limit."""


class ControlledTopics(AdminTopics):
    """The topics of a server with a test control."""

    def __init__(self, cluster: KafkaClient, control: Control) -> None:
        super().__init__(cluster)
        self._control = control

    def _path(self, name: str, verb: str = "") -> str:
        return f"/v1/topics/{quote(name, safe='')}{verb}"

    def names(self) -> list[str]:
        return sorted(row["name"] for row in self._control.ask("GET", "/v1/topics")["topics"])

    def create(self, name: str, partitions: int | None = None, configs: Mapping[str, object] | None = None) -> None:
        """Create a topic. Returns when it exists."""
        checks.whole_or_none("partitions", partitions, least=1, most=checks.MAX_COUNT)
        body: dict[str, Any] = {"name": name, "configs": checks.properties("configs", configs)}
        if partitions is not None:
            body["partitions"] = partitions
        self._control.ask("POST", "/v1/topics", body)

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions. Returns when they exist."""
        checks.whole("partitions", partitions, least=1, most=checks.MAX_COUNT)
        self._control.ask("POST", self._path(name, "/grow"), {"partitions": partitions})

    def delete(self, name: str) -> None:
        self._control.ask("DELETE", self._path(name))

    def produce(self, name: str, records: Iterable[NewRecord]) -> list[tuple[int, int]]:
        """Append records, if necessary in several requests. A record that is too large for the test control is sent to
        the partition's leader.
        """
        found: list[tuple[int, int]] = []
        for some in _chunks(list(records)):
            if len(some) == 1 and _size(some[0]) > MAX_BYTES:
                found += super().produce(name, some)
                continue
            body = {"records": [_shown(one) for one in some]}
            rows = self._control.ask("POST", self._path(name, "/produce"), body)["records"]
            found += [(row["partition"], row["offset"]) for row in rows]
        return found

    def records(self, name: str, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        checks.whole_or_none("partition", partition, most=checks.MAX_COUNT)
        checks.whole("since", since)
        checks.whole("most", most)
        found: list[Record] = []
        for index in self.end_offsets(name) if partition is None else [partition]:
            offset = since
            while len(found) < most:
                limit = min(most - len(found), MAX_RECORDS)
                query = f"/records?partition={index}&offset={offset}&limit={limit}"
                rows = self._control.ask("GET", self._path(name, query))["records"]
                found += [_record(name, row) for row in rows]
                if not rows:
                    break
                offset = rows[-1]["offset"] + 1
        return found

    def _partitions(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._control.ask("GET", self._path(name))["partitions"]
        return found

    def end_offsets(self, name: str) -> dict[int, int]:
        return {row["partition"]: row["end_offset"] for row in self._partitions(name)}

    def start_offsets(self, name: str) -> dict[int, int]:
        return {row["partition"]: row["start_offset"] for row in self._partitions(name)}


def _size(record: NewRecord) -> int:
    return (
        len(record.value or b"")
        + len(record.key or b"")
        + sum(len(name) + len(of or b"") for name, of in record.headers)
    )


def _chunks(records: list[NewRecord]) -> Iterator[list[NewRecord]]:
    chunk: list[NewRecord] = []
    size = 0
    for record in records:
        own = _size(record)
        if chunk and (len(chunk) == MAX_RECORDS or size + own > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += own
    if chunk:
        yield chunk


def _shown(record: NewRecord) -> dict[str, Any]:
    shown = {
        "value_base64": _base64(record.value),
        "key_base64": _base64(record.key),
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
        "headers_base64": [[name, _base64(value)] for name, value in record.headers],
    }
    return {name: value for name, value in shown.items() if value is not None}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _record(name: str, row: Mapping[str, Any]) -> Record:
    headers = tuple((key, _bytes(value)) for key, value in row["headers_base64"])
    places = row["partition"], row["offset"], row["timestamp_ms"]
    return Record(name, *places, _bytes(row["key_base64"]), _bytes(row["value_base64"]), headers)
