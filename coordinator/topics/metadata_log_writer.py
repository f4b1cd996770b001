"""Who keeps the metadata log where others write it too: what is decided here counts when nobody else was first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.coordinator.system.jobs import Job
from muster.protocol.message import Message


class Keeper(Protocol):
    """The metadata log of several nodes, each of which may write. (`database.metadata_keeper` is one.)"""

    @property
    def snapshot(self) -> Sequence[bytes]:
        """What the metadata log said before it begins here, as batches; asked for once."""

    def writing(self, records: Sequence[Message]) -> Job[bool]:
        """Add records that were decided on the state of now, as one change; True: they count, and this node lives by
        them. False: another node has written before, and what it wrote is known now: decide anew. Raises `ApiError`
        when that cannot be found out, or not done.
        """
