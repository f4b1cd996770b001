"""Where the answers of a connection's requests go. Knows no socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from muster.coordinator.api.close_connection import CloseConnection

Answer = bytes | Sequence[bytes | memoryview]
"""A whole frame: in one piece, or in parts that are sent without joining them."""


class Sink(Protocol):
    """Where answers go: the connection."""

    def answer(self, answer: Answer | None) -> None:
        """The frame that answers the request at hand; None: no answer is owed."""

    def fail(self, reason: CloseConnection) -> None:
        """The request at hand cannot be answered: end the connection."""

    def was_read(self) -> None:
        """The bytes of a large request at hand are of no more use."""


class Nobody:
    """The sink of a connection that has ended."""

    def answer(self, answer: Answer | None) -> None:
        """Nobody waits for it."""

    def fail(self, reason: CloseConnection) -> None:
        """It has ended already."""

    def was_read(self) -> None:
        """It holds nothing."""


NOBODY: Final = Nobody()
