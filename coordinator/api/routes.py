"""What is known of a kind of request before its body is read. Reads no bytes and calls no handler.

A `Route` is shared by all connections: thousands of them touch the same few lines of memory. A `ConnectionRoute` is a
route on one connection.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.prepared.commit import PREPARERS, PreparedRequest
from muster.coordinator.api.registry import Handler
from muster.protocol import shapes
from muster.protocol.api import Api, ApiKey
from muster.protocol.message import Message

_MOST_WAITED: Final = 1_024
"""See `ConnectionRoute`."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of a request without records, besides the limit for all (socket.request.max.bytes): as many bytes again are taken by
what is read of it, and by the answer that repeats its names.
"""
RECORDS_LARGE_BYTES: Final = 1024 * 1024
"""Up to which size a request with records is read at once: nearly all of it is records, which are not looked into."""
NO_LIMIT: Final = 1 << 31
"""No request is as large."""

_KEPT: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Requests of which the group keeps parts."""

_HEAD_4: Final = Struct(">i4s").pack
_HEAD_5: Final = Struct(">i5s").pack
"""Size and response header."""


@lru_cache(maxsize=1_024)
def _size_bytes(size: int) -> bytes:
    """The same bytes for thousands of answers that are as long."""
    return size.to_bytes(4, "big")


class Route:
    """All that is known of one kind of request, whichever connection it comes on, before its body is read."""

    __slots__ = (
        "_often",
        "api",
        "client_bytes",
        "client_id",
        "decode",
        "encode",
        "flexible",
        "handler",
        "head",
        "head_size",
        "header_size",
        "large_bytes",
        "lets_go",
        "lowers",
        "most_bytes",
        "put_head",
        "raises",
        "repeats",
        "version",
    )

    def __init__(
        self, served: Api, version: int, head: bytes, client_bytes: bytes, client_id: str, run: Handler
    ) -> None:
        """`head`: API key and version as in the header; `client_bytes`: so the client id, with its length."""
        self.api = served
        self.version = version
        self.head = head
        self.client_bytes = client_bytes
        self.client_id = client_id
        self.handler = run
        self.header_size = 8 + len(client_bytes)
        self.flexible = served.request_header_version(version) >= 2
        # a flexible response header ends in an empty set of tagged fields, the zero that struct pads with
        self.head_size, self.put_head = (5, _HEAD_5) if served.response_header_version(version) else (4, _HEAD_4)
        self.decode = served.request_decoder(version)
        self.encode = served.response_encoder(version)
        self.lets_go = served.key not in _KEPT
        carries_records = served.request_has_parts
        self.large_bytes = RECORDS_LARGE_BYTES if carries_records else 0
        self.most_bytes = NO_LIMIT if carries_records else MOST_BYTES
        self._often: tuple[bytes, bytes] | None = None
        self.repeats = run in PREPARERS
        self.raises, self.lowers = shapes.converted(served.key, version)

    def around(self, response: Message) -> tuple[bytes, bytes]:
        """The bytes of an answer before and after its correlation id."""
        body = self.api.encode_response(self.version, shapes.lower_response(self.api.key, self.version, response))
        frame = self.put_head(len(body) + self.head_size, bytes(4)) + body
        return _size_bytes(len(frame) - 4), frame[8:]

    def around_often(self, response: Message) -> tuple[bytes, bytes]:
        """`around` an answer that is the same object each time: thousands of connections share these bytes."""
        if self._often is None:
            self._often = self.around(response)
        return self._often

    def facts(self) -> dict[str, object]:
        """For log lines."""
        return {"api": self.api.name, "version": self.version, "client_id": self.client_id}


class ConnectionRoute:
    """A route on one connection, with what was made ready there of the last request.

    A request is made ready when the next one is as long; each that was never met again doubles the number of equal
    lengths that it takes, so that clients of whom none is like the last cost next to nothing.
    """

    __slots__ = ("context", "prepared", "route", "size", "wait", "waited")

    def __init__(self, route: Route, context: RequestContext) -> None:
        self.route = route
        self.context = context
        self.prepared: PreparedRequest | None = None
        self.size = 0
        self.wait, self.waited = 1, 0

    def note(self, size: int) -> bool:
        """A request of `size` bytes was handled: whether to make it ready."""
        if size != self.size:
            self.size, self.waited = size, 0
            return False
        self.waited += 1
        if self.waited < self.wait:
            return False
        met = self.prepared is not None and self.prepared.met
        self.wait = 1 if met else min(self.wait * 2, _MOST_WAITED)
        self.waited = 0
        return True
