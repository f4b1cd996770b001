"""The protocol that Connect workers embed in JoinGroup metadata and SyncGroup assignments (protocol type "connect").

Version 0 is the eager protocol (Kafka's ConnectProtocol). Versions 1 and 2 are the incremental cooperative protocol of
KIP-415 and KIP-507 (IncrementalCooperativeConnectProtocol). Both have the same layout. In version 2, workers sign the
requests that they send to each other. The bytes start with the version (int16). As on Kafka, a higher version is read
as version 2, and bytes after the message are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from muster.protocol.message import MalformedMessage, Message, UnrepresentableField

PROTOCOL_TYPE: Final = "connect"
NAMES: Final = {0: "default", 1: "compatible", 2: "sessioned"}
"""The protocol name that goes with each version in JoinGroup."""
CONNECTOR: Final = -1
"""The task number that stands for the connector itself."""

_int16, _int32, _int64 = Struct(">h"), Struct(">i"), Struct(">q")


class ConnectorTasks(Message):
    """Tasks of one connector. The number CONNECTOR (-1) among them stands for the connector itself."""

    __slots__ = ("connector", "tasks")

    def __init__(self, connector: str = "", tasks: Sequence[int] = ()) -> None:
        self.connector = connector
        self.tasks = tasks


class ConnectAssignment(Message):
    """A worker's assignment: Kafka's ExtendedAssignment, or Assignment in version 0, without the last three fields.

    `error` is 0, or 1 when the workers' configurations differ. `offset` is the leader's position in the config topic.
    `delay_ms` is the time until lost tasks are assigned again.
    """

    __slots__ = ("assigned", "delay_ms", "error", "leader", "leader_url", "offset", "revoked")

    def __init__(
        self,
        error: int = 0,
        leader: str = "",
        leader_url: str = "",
        offset: int = -1,
        assigned: Sequence[ConnectorTasks] = (),
        revoked: Sequence[ConnectorTasks] = (),
        delay_ms: int = 0,
    ) -> None:
        self.error = error
        self.leader = leader
        self.leader_url = leader_url
        self.offset = offset
        self.assigned = assigned
        self.revoked = revoked
        self.delay_ms = delay_ms


class ConnectWorkerState(Message):
    """A worker's metadata in JoinGroup: URL, offset in the config topic and, from version 1 on, present assignment."""

    __slots__ = ("assignment", "offset", "url")

    def __init__(self, url: str = "", offset: int = -1, assignment: ConnectAssignment | None = None) -> None:
        self.url = url
        self.offset = offset
        self.assignment = assignment


def decode_worker_state(data: bytes) -> tuple[int, ConnectWorkerState]:
    """Decode a worker's metadata: the version in its bytes, and the state. Raises MalformedMessage."""
    reader = _Reader(data, "ConnectWorkerState")
    version = reader.version()
    state = ConnectWorkerState(reader.string("url"), reader.number(8, "offset"))
    if version > 0:
        nested = reader.bytes_or_none("assignment")
        if nested is not None:
            _, state.assignment = decode_assignment(nested)
    return version, state


def decode_assignment(data: bytes) -> tuple[int, ConnectAssignment]:
    """Decode an assignment: the version in its bytes, and the assignment. Raises MalformedMessage."""
    reader = _Reader(data, "ConnectAssignment")
    version = reader.version()
    assignment = ConnectAssignment(
        reader.number(2, "error"),
        reader.string("leader"),
        reader.string("leader_url"),
        reader.number(8, "offset"),
        reader.connectors("assigned", null=version > 0),
    )
    if version > 0:
        assignment.revoked = reader.connectors("revoked", null=True)
        assignment.delay_ms = reader.number(4, "delay_ms")
    return version, assignment


def encode_worker_state(state: ConnectWorkerState, version: int) -> bytes:
    """Encode a worker's metadata. Raises UnrepresentableField."""
    _check(version, "ConnectWorkerState")
    start = _int16.pack(version) + _string(state.url) + _int64.pack(state.offset)
    if version == 0:
        if state.assignment is not None:
            raise UnrepresentableField("ConnectWorkerState.assignment")
        return start
    if state.assignment is None:
        return start + _int32.pack(-1)
    nested = encode_assignment(state.assignment, version)
    return start + _int32.pack(len(nested)) + nested


def encode_assignment(assignment: ConnectAssignment, version: int) -> bytes:
    """Encode an assignment. Raises UnrepresentableField."""
    _check(version, "ConnectAssignment")
    start = b"".join(
        (
            _int16.pack(version),
            _int16.pack(assignment.error),
            _string(assignment.leader),
            _string(assignment.leader_url),
            _int64.pack(assignment.offset),
        )
    )
    if version == 0:
        if assignment.revoked or assignment.delay_ms:
            raise UnrepresentableField("ConnectAssignment.revoked or delay_ms")
        return start + _connectors(assignment.assigned)
    assigned = _connectors(assignment.assigned)
    return start + assigned + _connectors(assignment.revoked) + _int32.pack(assignment.delay_ms)


def _check(version: int, name: str) -> None:
    if version not in NAMES:
        raise UnrepresentableField(name, f"has no version {version}")


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise UnrepresentableField("a string", f"of {len(data)} bytes is longer than {0x7FFF}")
    return _int16.pack(len(data)) + data


def _connectors(rows: Sequence[ConnectorTasks]) -> bytes:
    out = [_int32.pack(len(rows))]
    for row in rows:
        out += (_string(row.connector), _int32.pack(len(row.tasks)), *map(_int32.pack, row.tasks))
    return b"".join(out)


class _Reader:
    """Reads the fields of one message, one after the other."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name, self._position = data, name, 0

    def _take(self, size: int, field: str) -> bytes:
        left = len(self._data) - self._position
        if size > left:
            raise self._malformed(field, f"truncated: {size} bytes needed, {left} left")
        self._position += size
        return self._data[self._position - size : self._position]

    def _malformed(self, field: str, reason: str) -> MalformedMessage:
        return MalformedMessage(f"{self._name}.{field}", reason)

    def version(self) -> int:
        version = self.number(2, "version")
        if version < 0:
            raise self._malformed("version", f"is {version}, which is negative")
        return version

    def number(self, size: int, field: str) -> int:
        return int.from_bytes(self._take(size, field), "big", signed=True)

    def string(self, field: str) -> str:
        size = self.number(2, field)
        if size < 0:
            raise self._malformed(field, "is null" if size == -1 else f"negative length {size}")
        try:
            return self._take(size, field).decode()
        except UnicodeDecodeError as error:
            raise self._malformed(field, f"not UTF-8: {error.reason} at byte {error.start}") from None

    def bytes_or_none(self, field: str) -> bytes | None:
        size = self.number(4, field)
        if size == -1:
            return None
        if size < 0:
            raise self._malformed(field, f"negative length {size}")
        return self._take(size, field)

    def connectors(self, field: str, null: bool) -> list[ConnectorTasks]:
        count = self._count(field, 6, null)
        rows = []
        for i in range(count):
            connector = self.string(f"{field}[{i}].connector")
            tasks = self._count(f"{field}[{i}].tasks", 4, False)
            rows.append(ConnectorTasks(connector, [self.number(4, f"{field}[{i}].tasks") for _ in range(tasks)]))
        return rows

    def _count(self, field: str, least: int, null: bool) -> int:
        """Read the number of elements of an array. An element takes at least `least` bytes."""
        count = self.number(4, field)
        if count == -1 and null:
            return 0
        left = len(self._data) - self._position
        if count < 0 or count * least > left:
            raise self._malformed(field, f"{count} elements cannot fit in the {left} bytes left")
        return count
