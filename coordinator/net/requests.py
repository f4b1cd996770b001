"""The other side of a connection, as it knows it: what frames mean. Holds no behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Answer = bytes | Sequence[bytes | memoryview]
"""A whole frame: in one piece, or in parts that are sent without joining them."""


class Requests(Protocol):
    """The other side of a connection: what its frames mean."""

    @property
    def current(self) -> object | None:
        """The request that is not answered yet."""

    @property
    def is_reading(self) -> bool:
        """The bytes of the request at hand are still needed: `Connection.was_read` says when they are not."""

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Take on the request in data[start:end]: return its answer, or call `Connection.answer` for it once, now or
        later.

        Raises `CloseConnection` when the frame is no request that can be answered.
        """

    def closed(self) -> None:
        """The connection has ended: whatever is parked for it is owed no longer."""
