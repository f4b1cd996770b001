"""Where the answers of a connection's requests go. Knows no socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.coordinator.api.close_connection import CloseConnection

Answer = bytes | Sequence[bytes | memoryview]
"""A whole frame: in one piece, or in parts that are sent without joining them."""


class Sink(Protocol):
    """The connection, as its requests know it."""

    def answer(self, answer: Answer | None) -> None:
        """The frame that answers the request at hand; None: no answer is owed."""

    def part(self, data: bytes) -> None:
        """Send some bytes of the answer before the rest of it: for faults, see `api.intercept`."""

    def fail(self, reason: CloseConnection) -> None:
        """The request at hand cannot be answered: end the connection."""

    def mute(self, throttle_ms: int) -> None:
        """After an answer: handle nothing more for so long."""

    def was_read(self) -> None:
        """The bytes of the large request at hand are no longer needed."""
