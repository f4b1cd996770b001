"""Answers that acknowledge changes of the catalogue: they leave when these are on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.coordinator.api.node import Node, Respond
from muster.coordinator.log import LogOffline
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message


def respond_when_durable(node: Node, respond: Respond, response: Message, rows: Sequence[Any]) -> None:
    """Give `response`, in which `rows` say that something was changed: at once when there are none. When the disk fails
    they say KAFKA_STORAGE_ERROR: the change is in force, and nobody knows whether it would outlive a power cut.
    """
    if not rows:
        respond(response)
        return

    def answer(failure: LogOffline | None) -> None:
        if failure is not None:
            for row in rows:
                row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                if hasattr(row, "error_message"):
                    row.error_message = str(failure)
        respond(response)

    node.topics.when_durable(answer)
