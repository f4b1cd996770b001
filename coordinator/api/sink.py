"""Where the answers of a connection's requests are sent. Knows no socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.coordinator.api.close_connection import CloseConnection

Answer = bytes | Sequence[bytes | memoryview]
"""A whole frame, in one piece or in several parts. Parts are sent without joining them."""


class Sink(Protocol):
    """The connection, as its requests see it."""

    def answer(self, answer: Answer | None) -> None:
        """Send the frame that answers the present request. None means that the request gets no answer."""

    def part(self, data: bytes) -> None:
        """Send some bytes of the answer before the rest of it, for faults; see `api.intercept`."""

    def fail(self, reason: CloseConnection) -> None:
        """End the connection: the present request cannot be answered."""

    def mute(self, throttle_ms: int) -> None:
        """After an answer: handle no request for so long."""

    def was_read(self) -> None:
        """The bytes of the present large request are not needed any more."""
