"""What a prepared request is. Holds no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.sink import Answer

NOT_PREPARED: Final = b""
"""Nothing was done: the request is to be handled as any other."""


class PreparedRequest(Protocol):
    """A request whose constant parts are known."""

    size: int
    """Bytes of its frame."""
    was_repeated: bool
    """It has come again since it was prepared."""

    @property
    def error_counts(self) -> Mapping[int, int]:
        """What an observer is told of its answer, unless it is answered through `RequestingConnection.open`."""

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """Look at a frame of `size` bytes in data[start:], and handle it when it is this request again.

        Returns its answer; None when that comes later; or NOT_PREPARED.
        """
