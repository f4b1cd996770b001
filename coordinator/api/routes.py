"""What is known of a kind of request before its body is decoded. This module calls no handler.

All connections share a `Route`: thousands of them use the same few lines of memory.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from muster.coordinator.api.layers import Answer, CloseConnection
from muster.coordinator.api.registry import Handler
from muster.protocol import frames, shapes
from muster.protocol.api import Api, ApiKey
from muster.protocol.message import MalformedMessage, Message

MOST_BYTES: Final = 32 * 1024 * 1024
"""The largest request without records (socket.request.max.bytes limits all). Decoded it takes as many bytes again."""
NO_LIMIT: Final = 1 << 31
"""No request is as large."""
LARGE_BYTES: Final = 256 * 1024
"""The thread decodes a request of more bytes. It also encodes an answer with as many bytes of member metadata."""
RECORDS_LARGE_BYTES: Final = 1024 * 1024
"""The same for a request with records: nearly all of it is records, which are not decoded."""

_KEPT: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Requests whose parts the group keeps."""

GROUP_ANSWERS: Final = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
"""Small requests whose answers may be large."""

ONLY_READS: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)  # fmt: skip
"""Requests that never wait for another one. Large requests of these kinds are decoded and answered one at a time."""

_HEAD_4: Final = Struct(">i4s").pack
_HEAD_5: Final = Struct(">i5s").pack
"""Size and response header."""


COPIED_BELOW: Final = 16 << 10
"""An answer with records of fewer bytes is sent in one piece: copying it costs less than a second piece."""


class Route:
    """All that is known of one (API, version, client id) before the body is decoded, on any connection."""

    __slots__ = (
        "_put_head",
        "_response_header_size",
        "api",
        "carries_records",
        "client_bytes",
        "client_id",
        "decode",
        "encode",
        "flexible",
        "frees_request",
        "handler",
        "head",
        "header_size",
        "large_bytes",
        "lowers",
        "may_be_large",
        "most_bytes",
        "only_reads",
        "version",
    )

    def __init__(
        self, served: Api, version: int, head: bytes, client_bytes: bytes, client_id: str, run: Handler
    ) -> None:
        """`head`: API key and version as in the header. `client_bytes`: the client id as there, with its length."""
        self.api = served
        self.version = version
        self.head = head
        self.client_bytes = client_bytes
        self.client_id = client_id
        self.handler = run
        self.header_size = 8 + len(client_bytes)
        self.flexible = served.request_header_version(version) >= 2
        # a flexible response header ends in an empty set of tagged fields, which is the zero that struct pads with
        flexible_response = served.response_header_version(version)
        self._response_header_size, self._put_head = (5, _HEAD_5) if flexible_response else (4, _HEAD_4)
        raises, self.lowers = shapes.converted(served.key, version)
        self.decode = self._decode_and_raise if raises else served.request_decoder(version)
        """decode(data, body, end, most elements): the request in its newest shape. Raises `wire.REFUSALS`."""
        self.encode = served.response_encoder(version)
        self.frees_request = served.key not in _KEPT
        self.may_be_large = served.key in GROUP_ANSWERS
        self.only_reads = served.key in ONLY_READS
        """See `ONLY_READS`."""
        self.carries_records = served.request_has_parts
        self.large_bytes = RECORDS_LARGE_BYTES if self.carries_records else LARGE_BYTES
        self.most_bytes = NO_LIMIT if self.carries_records else MOST_BYTES

    def _decode_and_raise(self, *where: Any) -> Any:
        return shapes.raise_request(self.api.key, self.version, self.api.request_decoder(self.version)(*where))

    def body_at(self, data: bytes, start: int, end: int) -> int:
        """Where the body of the request in data[start:end] begins. Raises CloseConnection if the header is cut off."""
        body = start + self.header_size
        if self.flexible:
            body = body + 1 if data[body : body + 1] == b"\0" else self._skip_tags(data, body, end)
        if body > end:
            raise CloseConnection("malformed request: RequestHeader: truncated", **self.facts())
        return body

    def _skip_tags(self, data: bytes, body: int, end: int) -> int:
        try:
            return frames.skip_header_tags(data, body, end)
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request: {error}", **self.facts()) from error

    def malformed(self, data: bytes, body: int, end: int) -> CloseConnection:
        """Decode a malformed request again, to report the error and its place."""
        try:
            self.api.decode_request(self.version, data, body, end)
        except MalformedMessage as error:
            return CloseConnection(f"malformed request: {error}", **self.facts())
        raise AssertionError("bytes that were malformed no longer are")

    def lower(self, response: Message) -> Message:
        """Convert a response from the newest shape to this version."""
        lowered: Message = shapes.lower_response(self.api.key, self.version, response)
        return lowered

    def frame(self, response: Message, correlation: bytes) -> Answer:
        """The bytes of a converted answer. Large parts and records are not copied."""
        body = self.encode(response)
        if type(body) is bytes and len(body) < frames.JOIN_BELOW:
            return self._put_head(len(body) + self._response_header_size, correlation) + body
        parts = [body] if isinstance(body, bytes) else body
        size = sum(map(len, parts)) + self._response_header_size
        if size < COPIED_BELOW:
            return b"".join((self._put_head(size, correlation), *parts))
        return frames.joined(self._put_head(size, correlation), parts)

    def around(self, response: Message) -> tuple[bytes, bytes]:
        """The bytes of an answer before and after its correlation id."""
        parts = self.frame(self.lower(response), bytes(4))
        frame = parts if isinstance(parts, bytes) else b"".join(parts)
        return frame[:4], frame[8:]

    def facts(self) -> dict[str, object]:
        """The fields for log lines."""
        return {"api": self.api.name, "version": self.version, "client_id": self.client_id}
