"""Requests that change topics or configs: they are acknowledged when the change is on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.coordinator.api.node import Node
from muster.coordinator.log import LogOffline
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode


def timed_out(timeout_ms: int) -> bool:
    """Has the time passed already when the request arrives? Every row of it is then REQUEST_TIMED_OUT.

    Changes are made at once here; only a client that leaves no time at all (0 or less) can be too late, as on Kafka.
    """
    return timeout_ms <= 0


def until_durable(node: Node, rows: Sequence[Any]) -> Job[None]:
    """Wait until what `rows` of an answer say is durable: not at all when there are none. When the disk fails they say
    KAFKA_STORAGE_ERROR: the change is in force, but a power cut might undo it.
    """
    if not rows:
        return
    later = PendingResult()
    node.topics.when_durable(later)
    failure: LogOffline | None = yield later
    if failure is None:
        return
    for row in rows:
        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        if hasattr(row, "error_message"):
            row.error_message = str(failure)
        yield None
