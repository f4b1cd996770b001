"""Requests that change topics or configs. They are acknowledged when the change is durable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.coordinator.api.node import Node
from muster.coordinator.log import LogOffline
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode

_ROWS_AT_ONCE: Final = 500


def timed_out(timeout_ms: int) -> bool:
    """Whether the timeout has passed when the request arrives. Changes are made at once: only 0 or less has."""
    return timeout_ms <= 0


def until_durable(node: Node, rows: Sequence[Any]) -> Job[None]:
    """Wait until the changes that `rows` of an answer report are durable. A row with an error reports no change.

    When the disk fails, each row of a change gets KAFKA_STORAGE_ERROR. The change is in force, but a power cut might
    undo it.
    """
    changed = yield from _without_error(rows)
    if not changed:
        return
    later = PendingResult()
    node.topics.when_durable(later)
    failure: LogOffline | None = yield later
    if failure is None:
        return
    for row in changed:
        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        if hasattr(row, "error_message"):
            row.error_message = str(failure)
        yield None


def _without_error(rows: Sequence[Any]) -> Job[list[Any]]:
    changed: list[Any] = []
    for number, row in enumerate(rows, 1):
        if not row.error_code:
            changed.append(row)
        if not number % _ROWS_AT_ONCE:
            yield None
    return changed
