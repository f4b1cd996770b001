"""What a connection asks of its other side: the API (`api.dispatch`), what counts its requests for quotas, or the gate
before authentication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from muster.coordinator.api.sink import Answer

Wrap = Callable[[Any, Any], Any]
"""Puts something before the requests of a connection, given these and where their answers go."""


class Requests(Protocol):
    """The other side of a connection: what its frames mean."""

    @property
    def is_reading(self) -> bool:
        """The bytes of the request at hand are still needed: `Connection.was_read` says when they are not."""

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Take on the request in data[start:end]: return its answer, or call `Connection.answer` for it once, now or
        later.

        Raises `CloseConnection` when the frame is no request that can be answered.
        """

    def closed(self) -> None:
        """The connection has ended: no request is owed an answer any more."""

    def wrapped(self, wrap: Wrap) -> Requests:
        """What handles the requests of the connection when `wrap(requests, sink)` is put before those of the API."""
