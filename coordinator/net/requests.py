"""The side of a connection that handles its frames. It is the API (`api.dispatch`), the counting for quotas, or the
gate before authentication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from muster.coordinator.api.sink import Answer

Wrap = Callable[[Any, Any], Any]
"""Wraps the requests of a connection. The arguments are these requests and the sink of their answers."""


class Requests(Protocol):
    """What handles the frames of a connection."""

    @property
    def is_reading(self) -> bool:
        """Whether the bytes of the present request are still needed. `Connection.was_read` reports their release."""

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Handle the request in data[start:end]: return its answer, or call `Connection.answer` for it once, now or
        later.

        Raises `CloseConnection` when the frame is not a request that can be answered.
        """

    def closed(self) -> None:
        """The connection has ended: no request needs an answer any more."""

    def wrapped(self, wrap: Wrap) -> Requests:
        """The handler of the connection's requests after `wrap(requests, sink)` was put before those of the API."""
