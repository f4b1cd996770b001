"""A client's requests as bytes, and the answers out of bytes: one request at a time, as scripts ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.protocol import frames
from muster.protocol.api import Api, api_named
from muster.protocol.message import Message

OLDER: Final[Mapping[str, int]] = {"OffsetCommit": 9, "OffsetFetch": 9, "Produce": 9, "Fetch": 12}
"""Versions that name topics by name."""


class Broken(ValueError):
    """The server's bytes are no answer to what was asked."""


class Exchange:
    """One connection's. `asked`: the request that waits for its answer."""

    def __init__(self, client_id: str, versions: Mapping[str, int] = OLDER) -> None:
        """`versions`: of requests that are not to be sent in the newest one, by name."""
        self.asked: Message | None = None
        self._client_id = client_id
        self._versions = versions
        self._api: Api
        self._version = self._correlation = 0
        self._buffer = b""

    def ask(self, request: Message) -> bytes:
        """What to send."""
        served = self._api = api_named(type(request).__name__.removesuffix("Request"))
        self._version = self._versions.get(served.name, served.max_version)
        self._correlation += 1
        self.asked = request
        return frames.request_frame(served, self._version, self._correlation, request, self._client_id)

    def received(self, data: bytes) -> Iterator[tuple[Message, Any]]:
        """The answer, with what was asked, when all of it has come. Raises Broken."""
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            asked, self.asked = self.asked, None
            if asked is None:
                raise Broken(f"an answer to nothing: {frame[:20]!r}")
            correlation, body = frames.decode_response_header(self._api, self._version, frame, 0, len(frame))
            if correlation != self._correlation:
                raise Broken(f"asked {self._correlation}, and got the answer to {correlation}")
            yield asked, self._api.decode_response(self._version, frame, body)
