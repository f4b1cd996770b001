"""What a cached request is, and which requests may be cached."""

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
    """Size of its frame in bytes."""
    was_repeated: bool
    """Whether it has arrived again since it was prepared."""

    @property
    def error_counts(self) -> Mapping[int, int]:
        """The error counts of its answer for an observer, unless `RequestingConnection.open` answers it."""

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """Compare a frame of `size` bytes in data[start:], and handle it if it is this request again.

        Returns its answer, None when the answer follows later, or NOT_PREPARED.
        """


def may_read_group(node: Node, context: RequestContext, group_id: str) -> bool:
    """Whether a request for a group may be cached: the last one may have been refused. The authorizer is not asked
    again until its answers change (`Authorizer.version`).
    """
    return node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id, log_denied=False)
