"""One kind of request on one connection: the cached request, and when to prepare one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.membership import handle_heartbeat
from muster.coordinator.api.groups.offset_commit import handle_offset_commit
from muster.coordinator.api.node import Node
from muster.coordinator.api.prepared.commit import prepare_commit
from muster.coordinator.api.prepared.heartbeat import prepare_heartbeat
from muster.coordinator.api.prepared.request import PreparedRequest
from muster.coordinator.api.registry import Handler
from muster.coordinator.api.routes import Route
from muster.protocol.api import ApiKey

MOST_BYTES: Final = 16 * 1024
"""Longer requests are not cached: names and metadata may have 32 KB each."""
_MOST_AWAITED: Final = 1_024
"""See `ConnectionRoute`."""

_PREPARERS: Final[Mapping[Handler, Callable[[Node, Route, RequestContext, bytes, int], PreparedRequest | None]]] = {
    handle_heartbeat: prepare_heartbeat,
    handle_offset_commit: prepare_commit,
}
"""By handler: prepare(node, route, context, frame, body). `frame` is without its size; `body` is where the request's
body begins in it.
"""
_SELDOM: Final[Mapping[int, str]] = {ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_heartbeat:prepare_consumer_heartbeat"}
"""Further ones, by API: module and function. They are imported at the first repeated request of that API."""


def _preparer(route: Route) -> Callable[..., PreparedRequest | None]:
    found = _PREPARERS.get(route.handler)
    if found is None:
        module, _, name = _SELDOM[route.api.key].partition(":")
        found = getattr(import_module(f"{__package__}.{module}"), name)
    return found


class ConnectionRoute:
    """A route on one connection.

    A request is prepared when the one before had the same length. Each prepared request that was not repeated doubles
    the number of equal lengths before the next preparation. So clients that never repeat themselves cost next to
    nothing.
    """

    __slots__ = ("_awaited", "_equal", "_size", "context", "prepared", "prepares", "route")

    def __init__(self, route: Route, context: RequestContext, *, prepares: bool) -> None:
        """`prepares`: whether repeated requests may be cached at all."""
        self.route = route
        self.context = context
        self.prepares = prepares and (route.handler in _PREPARERS or route.api.key in _SELDOM)
        self.prepared: PreparedRequest | None = None
        self._size = 0
        self._awaited, self._equal = 1, 0

    def handled(self, node: Node, data: bytes, start: int, body: int, end: int) -> PreparedRequest | None:
        """The request in data[start:end] was handled as any other. Returns the cached request to compare the next one
        with.
        """
        if end - start != self._size:
            self._size, self._equal = end - start, 0
            return self.prepared
        self._equal += 1
        if self._equal < self._awaited:
            return self.prepared
        was_repeated = self.prepared is not None and self.prepared.was_repeated
        self._awaited = 1 if was_repeated else min(self._awaited * 2, _MOST_AWAITED)
        self._equal = 0
        self.prepared = self._prepare(node, data[start:end], body - start)
        return self.prepared

    def _prepare(self, node: Node, frame: bytes, body: int) -> PreparedRequest | None:
        """The cached request, or None when the request cannot be cached."""
        if len(frame) > MOST_BYTES:
            return None
        try:
            return _preparer(self.route)(node, self.route, self.context, frame, body)
        except ValueError:
            # the form is unusual: other runs of numbers, or bytes that the encoder does not write
            return None
