"""What a prepared request is, and who may have one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.node import Node
from muster.coordinator.api.sink import Answer
from muster.coordinator.security.authorizer import Operation, ResourceType

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


def may_read_group(node: Node, context: RequestContext, group_id: str) -> bool:
    """Whether a request for a group may be prepared: the one before may have been refused. Nothing is asked again
    until the authorizer's answers change (`Authorizer.version`).
    """
    return node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id, log_denied=False)
