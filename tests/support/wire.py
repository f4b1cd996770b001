"""Kafka's requests and answers made by hand, for tests and loads that must not use the product. All are in old,
non-flexible versions. A request is `(api key, version, body)`; `frame` makes its bytes, `Reader` parses an answer,
`call` does one exchange on a socket.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

CLIENT_ID = b"load"


class Request(NamedTuple):
    """One request before it is framed."""

    api_key: int
    version: int
    body: bytes


def string(value: str | None) -> bytes:
    """A (nullable) string: int16 length and UTF-8."""
    if value is None:
        return struct.pack(">h", -1)
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def data(value: bytes) -> bytes:
    """Bytes: int32 length and the bytes."""
    return struct.pack(">i", len(value)) + value


def array(items: Iterable[bytes]) -> bytes:
    """An array: int32 count and the items."""
    rows = list(items)
    return struct.pack(">i", len(rows)) + b"".join(rows)


def frame(request: Request, correlation_id: int = 1) -> bytes:
    """The request with its header (version 1) and its size before it."""
    payload = (
        struct.pack(">hhih", request.api_key, request.version, correlation_id, len(CLIENT_ID))
        + CLIENT_ID
        + request.body
    )
    return struct.pack(">i", len(payload)) + payload


class Reader:
    """Parses an answer of a non-flexible version. Null strings and bytes are returned as empty ones."""

    def __init__(self, payload: bytes, position: int = 0) -> None:
        self.payload, self.position = payload, position

    def number(self, code: str) -> int:
        """One number, by its `struct` letter: b h i q."""
        value: int = struct.unpack_from(">" + code, self.payload, self.position)[0]
        self.position += struct.calcsize(">" + code)
        return value

    def take(self, count: int) -> bytes:
        """The next `count` bytes (none when negative)."""
        value = self.payload[self.position : self.position + max(count, 0)]
        self.position += max(count, 0)
        return value

    def string(self) -> str:
        """A (nullable) string."""
        return self.take(self.number("h")).decode()

    def data(self) -> bytes:
        """(Nullable) bytes."""
        return self.take(self.number("i"))

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return len(self.payload) - self.position


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    """Read `count` bytes of a blocking socket. Raises EOFError when the other side closes before."""
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the server closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive(connection: socket.socket) -> Reader:
    """The next answer, positioned behind its correlation id."""
    (size,) = struct.unpack(">i", receive_exactly(connection, 4))
    return Reader(receive_exactly(connection, size), 4)


def call(connection: socket.socket, request: Request, correlation_id: int = 1) -> Reader:
    """Send one request, wait for its answer."""
    connection.sendall(frame(request, correlation_id))
    return receive(connection)


# the requests, each in an old version whose form needs no explanation


def api_versions(version: int = 0) -> Request:
    """ApiVersions."""
    return Request(18, version, b"")


def create_topic(topic: str, partitions: int) -> Request:
    """CreateTopics v2 of one topic."""
    return Request(
        19, 2, array([string(topic) + struct.pack(">ihii", partitions, 1, 0, 0)]) + struct.pack(">i?", 10000, False)
    )


def delete_topic(topic: str) -> Request:
    """DeleteTopics v1 of one topic."""
    return Request(20, 1, array([string(topic)]) + struct.pack(">i", 10000))


def find_coordinator(group: str) -> Request:
    """FindCoordinator v1 of a group."""
    return Request(10, 1, string(group) + b"\0")


def join_group(
    group: str,
    member: str,
    *,
    session_timeout_ms: int = 30000,
    rebalance_timeout_ms: int = 60000,
    instance: str | None = None,
    protocol: str = "range",
    metadata: bytes = b"",
) -> Request:
    """JoinGroup v5 with protocol type `consumer` and one protocol."""
    return Request(
        11,
        5,
        string(group)
        + struct.pack(">ii", session_timeout_ms, rebalance_timeout_ms)
        + string(member)
        + string(instance)
        + string("consumer")
        + array([string(protocol) + data(metadata)]),
    )


def sync_group(group: str, generation: int, member: str, assignments: Sequence[tuple[str, bytes]] = ()) -> Request:
    """SyncGroup v3."""
    rows = (string(name) + data(assignment) for name, assignment in assignments)
    return Request(14, 3, string(group) + struct.pack(">i", generation) + string(member) + string(None) + array(rows))


def heartbeat(group: str, generation: int, member: str) -> Request:
    """Heartbeat v3."""
    return Request(12, 3, string(group) + struct.pack(">i", generation) + string(member) + string(None))


def leave_group(group: str, member: str) -> Request:
    """LeaveGroup v1."""
    return Request(13, 1, string(group) + string(member))


def offset_commit(group: str, generation: int, member: str, topic: str, partition: int, offset: int) -> Request:
    """OffsetCommit v7 of one partition."""
    row = struct.pack(">iqi", partition, offset, -1) + string("")
    topics = array([string(topic) + array([row])])
    return Request(8, 7, string(group) + struct.pack(">i", generation) + string(member) + string(None) + topics)


def fetch(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    read_committed: bool = False,
) -> Request:
    """Fetch v10 of one partition, outside any fetch session."""
    row = struct.pack(">iiqqi", partition, -1, offset, -1, max_bytes)
    head = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, max_bytes, read_committed, 0, -1)
    return Request(1, 10, head + array([string(topic) + array([row])]) + array([]))


def list_offsets(topic: str, partition: int, timestamp_ms: int = -1) -> Request:
    """ListOffsets v1 of one partition (-1: the end, -2: the start)."""
    row = struct.pack(">iq", partition, timestamp_ms)
    return Request(2, 1, struct.pack(">i", -1) + array([string(topic) + array([row])]))


def produce(topic: str, partition: int, batch: bytes, *, acks: int = -1) -> Request:
    """Produce v7 of one record batch."""
    rows = array([string(topic) + array([struct.pack(">i", partition) + data(batch)])])
    return Request(0, 7, string(None) + struct.pack(">hi", acks, 10000) + rows)


def init_producer_id() -> Request:
    """InitProducerId v1 without a transactional id."""
    return Request(22, 1, string(None) + struct.pack(">i", 60000))


class JoinAnswer(NamedTuple):
    """A JoinGroup v5 answer."""

    error_code: int
    generation: int
    leader: str
    member: str
    members: list[str]


def read_join_group(answer: Reader) -> JoinAnswer:
    """Parse a JoinGroup v5 answer."""
    answer.number("i")
    error_code, generation = answer.number("h"), answer.number("i")
    answer.string()
    leader, member, members = answer.string(), answer.string(), []
    for _ in range(answer.number("i")):
        members.append(answer.string())
        answer.string()
        answer.data()
    return JoinAnswer(error_code, generation, leader, member, members)


def read_error(answer: Reader) -> int:
    """The error code of an answer that begins with throttle time and error code: Heartbeat, SyncGroup, LeaveGroup and
    FindCoordinator.
    """
    answer.number("i")
    return answer.number("h")


def read_topic_errors(answer: Reader) -> list[int]:
    """The error codes of an OffsetCommit v3-7 answer, row by row."""
    answer.number("i")
    codes = []
    for _ in range(answer.number("i")):
        answer.string()
        for _ in range(answer.number("i")):
            answer.number("i")
            codes.append(answer.number("h"))
    return codes


def read_list_offsets_error(answer: Reader) -> int:
    """The error code of a ListOffsets v1 answer of one partition."""
    answer.number("i")
    answer.string()
    answer.number("q")
    return answer.number("h")


def list_transactions() -> Request:
    """ListTransactions v0 of all transactions. The version is flexible: the tagged fields of the header come before
    the body.
    """
    return Request(66, 0, b"\0" + b"\1" + b"\1" + b"\0")


def read_transactions(answer: Reader) -> dict[str, str]:
    """The states by transactional id, of a ListTransactions v0 answer. Raises EOFError until the server can answer."""
    answer.take(1)
    answer.number("i")
    if answer.number("h"):
        raise EOFError("the transactions are not loaded yet")
    for _ in range(answer.number("b") - 1):
        answer.take(answer.number("b") - 1)
    states = {}
    rows, shift, more = 0, 0, 1
    while more:  # more than 126 rows take two bytes
        byte = answer.number("B")
        rows, more, shift = rows | (byte & 0x7F) << shift, byte >> 7, shift + 7
    for _ in range(rows - 1):
        name = answer.take(answer.number("b") - 1).decode()
        answer.number("q")
        states[name] = answer.take(answer.number("b") - 1).decode()
        answer.take(1)
    return states


def coordinator_is_ready(connection: socket.socket, group: str) -> bool:
    """Whether the coordinator of `group` is found and serves the group. Kafka first answers NOT_COORDINATOR or
    COORDINATOR_LOAD_IN_PROGRESS.
    """
    if read_error(call(connection, find_coordinator(group))) != 0:
        return False
    answer = call(connection, leave_group(group, "nobody"))
    return read_error(answer) not in (14, 15, 16)
