"""Logs records that a load of a shard cannot decode. They stay in the log as they are."""

from __future__ import annotations

import structlog

from muster.protocol.message import MalformedMessage
from muster.protocol.records import UnknownRecord

log = structlog.get_logger("muster.shard")


class Unreadable:
    """The unreadable records of one load."""

    __slots__ = ("_partition", "_told")

    def __init__(self, partition: int) -> None:
        """`partition`: for log lines."""
        self._partition = partition
        self._told: set[tuple[int, int | None]] = set()

    def tell(self, error: UnknownRecord | MalformedMessage) -> None:
        """A record could not be decoded: it is damaged, or of an unknown kind. Each unknown kind is logged once."""
        if not isinstance(error, UnknownRecord):
            log.error("skipped a record that cannot be read", partition=self._partition, error=str(error))
            return
        what = (error.type, error.version)
        if what not in self._told:
            self._told.add(what)
            log.warning("records of an unknown kind are left alone", partition=self._partition, what=str(error))
