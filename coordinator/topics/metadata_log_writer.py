"""The interface to a metadata log that several nodes write: a change counts only if no other node wrote first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.coordinator.system.jobs import Job
from muster.protocol.message import Message


class Keeper(Protocol):
    """The metadata log of several nodes. Each node may write. (`postgres.shared_metadata_log` is one.)"""

    @property
    def snapshot(self) -> Sequence[bytes]:
        """The state before the log's first record here, as batches; asked for once."""

    def writing(self, records: Sequence[Message]) -> Job[bool]:
        """Add records that were decided on the present state, as one change.

        True: the records count, and this node has taken them in. False: another node has written before; its records
        are taken in, and the caller decides again. Raises `ApiError` when the result is unknown, or the write fails.
        """
