"""The interceptors of the requests of a server's nodes (`api.exchange.InterceptPoint`): only those that have work.
While no request is held and no rule is in force, a node has its original interceptor, mostly none.

Held joins and held acknowledgements are such interceptors. Their requests wait here until a test releases them. A
classic member joins by JoinGroup, a member of the newer protocols by its first heartbeat, in epoch 0. A held request
was read and is not handled yet. The connection answers nothing meanwhile, as with a slow broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import Intercept, Run
from muster.coordinator.api.node import Respond
from muster.coordinator.server import Server
from muster.protocol.api import ApiKey
from muster.protocol.message import Message

JOINING_EPOCH: Final = 0
"""The epoch in which a member of the newer protocols joins."""
_JOINS: Final = frozenset((ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT))
_ACKNOWLEDGEMENTS: Final = frozenset((ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE))


class HeldRequests:
    """See the module. `intercept`: the interceptor for the server while a group is held. `when_holding` is called on
    each change, with whether any group is held.
    """

    def __init__(self, apis: Collection[int], is_meant: Callable[[Any], bool]) -> None:
        """`is_meant(request)`: whether a request of these APIs is held."""
        self.intercept = Intercept(self._request, self._wants)
        self.when_holding: Callable[[bool], object] = lambda _: None
        self._apis = apis
        self._is_meant = is_meant
        self._held: dict[str, list[Callable[[], object]]] = {}
        self._changed: list[Callable[[], object]] = []

    def hold(self, group_id: str) -> None:
        """Hold the requests of this group from now on; has no effect if they are held."""
        self._held.setdefault(group_id, [])
        self.when_holding(True)

    def release(self, group_id: str) -> int:
        """Handle requests of this group again: first the held ones, in their order. Returns the number of these."""
        waiting = self._held.pop(group_id, [])
        self.when_holding(bool(self._held))
        for proceed in waiting:
            proceed()
        return len(waiting)

    def release_all(self) -> None:
        """Release all groups."""
        for group_id in list(self._held):
            self.release(group_id)

    def holds(self, group_id: str) -> bool:
        """Whether requests of this group are held."""
        return group_id in self._held

    def waiting(self, group_id: str) -> int:
        """How many requests of this group are held now."""
        return len(self._held.get(group_id, ()))

    def when_changed(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back each time another request is held. The returned function ends the calls."""
        self._changed.append(callback)
        return lambda: self._changed.remove(callback)

    def _wants(self, context: RequestContext) -> bool:
        return bool(self._held) and context.api_key in self._apis

    def _request(self, context: RequestContext, request: Message, exchange: Any, run: Run) -> None:
        proceed = partial(run, exchange)
        waiting = self._held.get(getattr(request, "group_id", None) or "")
        if waiting is None or not self._is_meant(request):
            proceed()
            return
        waiting.append(proceed)
        # a closed connection has no request that waits
        context.channel.on_close(lambda: waiting.remove(proceed) if proceed in waiting else None)
        for callback in list(self._changed):
            callback()


def held_joins() -> HeldRequests:
    """Hold the requests of members that join."""
    return HeldRequests(_JOINS, lambda request: getattr(request, "member_epoch", JOINING_EPOCH) == JOINING_EPOCH)


def held_acknowledgements() -> HeldRequests:
    """Hold the requests with acknowledgements of records: ShareAcknowledge, and some ShareFetch."""
    return HeldRequests(_ACKNOWLEDGEMENTS, _has_acknowledgements)


def _has_acknowledgements(request: Any) -> bool:
    return any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions)


def chained(first: Intercept, then: Intercept) -> Intercept:
    """Two interceptors as one interceptor. A request passes `first`, and then `then` if `first` lets it pass; an answer
    passes them in the opposite order. Each interceptor sees only the requests that it wants.
    """

    def request(context: RequestContext, message: Message, exchange: Any, run: Run) -> None:
        def go_on(respond: Respond) -> None:
            if then.wants(context):
                then.request(context, message, respond, run)
            else:
                run(respond)

        if first.wants(context):
            first.request(context, message, exchange, go_on)
        else:
            go_on(exchange)

    return Intercept(request, lambda context: first.wants(context) or then.wants(context))


class Interceptors:
    """See the module. The server must have started before the first change."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: dict[int, Intercept | None] = {}
        """The interceptors that the server was given."""
        self._added: list[Intercept] = []
        self._make_first: Callable[[int], Intercept] | None = None
        self._watching: list[Intercept] = []

    def add(self, intercept: Intercept) -> None:
        """Let `intercept` act on every node from now on; has no effect if it does already."""
        if intercept not in self._added:
            self._added.append(intercept)
            self._set()

    def remove(self, intercept: Intercept) -> None:
        """Let `intercept` act no more; has no effect if it does not act."""
        if intercept in self._added:
            self._added.remove(intercept)
            self._set()

    def set_active(self, intercept: Intercept, holds: bool) -> None:
        """Let `intercept` act, or act no more."""
        if holds:
            self.add(intercept)
        else:
            self.remove(intercept)

    def set_first(self, make: Callable[[int], Intercept] | None) -> None:
        """Put an interceptor before all others of each node: `make` makes it for a node id. None removes the first."""
        self._make_first = make
        self._set()

    def watch(self, intercept: Intercept) -> None:
        """Put an interceptor before all others, from now on: it sees each request as sent, and what the client gets."""
        self._watching.append(intercept)
        self._set()

    def _set(self) -> None:
        for node_id, point in self._server.intercept_points.items():
            intercept = self._own.setdefault(node_id, point.intercept)
            first = [] if self._make_first is None else [self._make_first(node_id)]
            for outer in (*self._added, *first, *self._watching):
                intercept = outer if intercept is None else chained(outer, intercept)
            point.use(intercept)
