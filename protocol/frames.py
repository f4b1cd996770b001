"""Splits and builds frames: their size of 4 bytes, and the headers of requests and responses. Does no input or output.

Frames have no knowledge of what messages mean. Other modules decide which versions a server offers.
"""

from __future__ import annotations

import io
from struct import Struct
from typing import NamedTuple

from muster.protocol import wire
from muster.protocol.api import Api, all_apis
from muster.protocol.message import MalformedMessage, Message, ProtocolError
from muster.protocol.wire import REFUSALS, Parts, fold

Frame = tuple[bytes, int, int]
"""A buffer, and the positions in the buffer where a frame's content (without the size) starts and ends."""

JOIN_BELOW = 65536
"""A response with fewer bytes is joined with its header to one part. For a larger response, a copy costs more than a
second part.
"""

_size = Struct(">i").unpack_from
_header = Struct(">hhih").unpack_from
_put_size_and_id = Struct(">ii").pack
_put_flexible = Struct(">iib").pack
_put_request = Struct(">ihhih").pack


class RequestHeader(NamedTuple):
    """Kafka's RequestHeader, before each request (version 1; version 2 adds tagged fields, which are skipped)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class UnknownRequest(ProtocolError):
    """A request with an unknown API or version. Its header can be read: `header`."""

    def __init__(self, header: RequestHeader, text: str) -> None:
        super().__init__(text)
        self.header = header


class UnknownApiKey(UnknownRequest):
    """The codec has no API with this key."""


class UnknownApiVersion(UnknownRequest):
    """The API does not have this version. The answer to such an ApiVersions is UNSUPPORTED_VERSION in version 0."""


# The header version of every (API, version): key << 16 | version -> 1 or 2. A negative key or version gives a negative
# number, which is not in the table.
_HEADER_VERSIONS = {
    a.key << 16 | version: a.request_header_version(version)
    for a in all_apis()
    for version in range(a.min_version, a.max_version + 1)
}
_NAMES = {a.key: a for a in all_apis()}


def decode_request_header(data: bytes, start: int, end: int) -> tuple[RequestHeader, int]:
    """Decode a request's header. Returns the header, and the position of the body.

    Raises MalformedMessage, and UnknownApiKey or UnknownApiVersion with the header.
    """
    if end - start < 10:
        raise MalformedMessage("RequestHeader", f"truncated: at least 10 bytes needed, {end - start} left")
    key, version, correlation_id, size = _header(data, start)
    p = start + 10
    if size >= 0:
        start = p
        p += size
        if p > end:
            raise MalformedMessage("RequestHeader.client_id", f"truncated: {size} bytes needed, {end - start} left")
        try:
            client_id: str | None = data[start:p].decode()
        except UnicodeDecodeError:
            raise MalformedMessage("RequestHeader.client_id", "not UTF-8") from None
    elif size == -1:
        client_id = None
    else:
        raise MalformedMessage("RequestHeader.client_id", f"negative length {size}")
    header = RequestHeader(key, version, correlation_id, client_id)
    header_version = _HEADER_VERSIONS.get(key << 16 | version)
    if header_version == 1:
        return header, p
    if header_version is None:
        raise _unknown(header)
    if p < end and data[p] == 0:
        return header, p + 1
    return header, skip_header_tags(data, p, end)


def skip_header_tags(data: bytes, p: int, end: int) -> int:
    """Return the position after the tagged fields of a header. Raises MalformedMessage."""
    try:
        p = wire.skip_tags(data, p, end)
    except REFUSALS:
        raise MalformedMessage("RequestHeader.<tagged fields>", "cannot be read") from None
    if p > end:
        raise MalformedMessage("RequestHeader.<tagged fields>", "truncated")
    return p


def _unknown(header: RequestHeader) -> UnknownRequest:
    known = _NAMES.get(header.api_key)
    if known is None:
        return UnknownApiKey(header, f"unknown API key {header.api_key}")
    return UnknownApiVersion(
        header,
        f"{known.name} has no version {header.api_version} (known: {known.min_version} to {known.max_version})",
    )


def response_frame(api: Api, version: int, correlation_id: int, message: Message) -> Parts:
    """Encode a whole response with size and header. It has as few parts as possible, but large parts are not copied.

    Raises UnrepresentableField and UnsupportedVersion.
    """
    head = 5 if version >= api.first_flexible_response_header else 4
    if api.response_has_parts:
        parts = api.encode_response_parts(version, message)
        return joined(_start(sum(map(len, parts)) + head, head, correlation_id), parts)
    body = api.encode_response(version, message)
    size = len(body) + head
    start = _start(size, head, correlation_id)
    return [start + body] if size < JOIN_BELOW else [start, body]


def _start(size: int, head: int, correlation_id: int) -> bytes:
    """The size and the header of a response. A header of 5 bytes ends with an empty set of tagged fields."""
    return _put_size_and_id(size, correlation_id) if head == 4 else _put_flexible(size, correlation_id, 0)


def joined(start: bytes, parts: Parts) -> Parts:
    """Return a frame of `start` and the parts. Small neighbouring parts are joined; large parts stay as they are."""
    out: Parts = []
    fold(out, [start, *parts])
    return out


def request_frame(api: Api, version: int, correlation_id: int, message: Message, client_id: str | None = None) -> bytes:
    """Encode a whole request, with size and header, as a client sends it."""
    name = b"" if client_id is None else client_id.encode()
    body = api.encode_request(version, message)
    tags = b"\0" if api.request_header_version(version) == 2 else b""
    size = 10 + len(name) + len(tags) + len(body)
    length = -1 if client_id is None else len(name)
    return _put_request(size, api.key, version, correlation_id, length) + name + tags + body


def decode_response_header(api: Api, version: int, data: bytes, start: int, end: int) -> tuple[int, int]:
    """Decode a response's header: the correlation id, and the position of the body. Raises MalformedMessage."""
    if end - start < 4:
        raise MalformedMessage("ResponseHeader", f"truncated: at least 4 bytes needed, {end - start} left")
    p = start + 4
    if api.response_header_version(version):
        p = skip_header_tags(data, p, end)
    return _size(data, start)[0], p


class InvalidFrameSize(ProtocolError):
    """A frame announces a size that is negative or above the limit. Nothing after this size can be read.

    `size`: the announced size. `frames`: the whole frames before this one in the same call of `feed`.
    """

    def __init__(self, size: int, limit: int, frames: list[Frame]) -> None:
        what = "is negative" if size < 0 else f"is larger than {limit}"
        super().__init__(f"frame size {size} {what}")
        self.size = size
        self.frames = frames


class FrameSplitter:
    """Cuts a stream of bytes into frames. A frame that is whole within one chunk is not copied.

    `limit`: the largest accepted size, in bytes (Kafka's socket.request.max.bytes), which may be changed at any time.
    After InvalidFrameSize the splitter must not be used.
    """

    __slots__ = ("_have", "_held", "_need", "limit")

    def __init__(self, limit: int = 104_857_600) -> None:
        self.limit = limit
        # the buffer grows in place and passes bytes on without a copy, so a large frame is in memory once
        self._held: io.BytesIO | None = None
        self._have = 0
        self._need = 0

    @property
    def buffered(self) -> int:
        """The number of buffered bytes, which belong to a frame that is not whole yet."""
        return self._have

    @property
    def awaited(self) -> int:
        """The size of the incomplete frame, with 4 bytes for the size itself; 0 while it is unknown."""
        return self._need if self._have >= 4 else 0

    def clear(self) -> None:
        """Drop the buffered bytes, because their frame will not become whole."""
        self._held = None
        self._have = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Add the next chunk of the stream. Returns the frames that are whole now, in order.

        Raises InvalidFrameSize as soon as the size is known, before the content arrives.
        """
        held = self._held
        if held is not None:
            held.write(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = held.getvalue()
            self.clear()
        frames: list[Frame] = []
        p, n = 0, len(data)
        while n - p >= 4:
            size: int = _size(data, p)[0]
            if not 0 <= size <= self.limit:
                raise InvalidFrameSize(size, self.limit, frames)
            end = p + 4 + size
            if end > n:
                self._hold(data, p, 4 + size)
                return frames
            frames.append((data, p + 4, end))
            p = end
        if p < n:
            self._hold(data, p, 4)
        return frames

    def _hold(self, data: bytes, p: int, need: int) -> None:
        self._held = held = io.BytesIO()
        held.write(memoryview(data)[p:])
        self._have = len(data) - p
        self._need = need
