"""The interceptors of the requests of a server's nodes (`api.intercept.InterceptPoint`): only those that have work.
While no join is held and no rule is in force, a node has its original interceptor, mostly none.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.api.intercept import Intercept
from muster.coordinator.server import Server
from muster.testcontrol.joins import chained

TakeOver = Callable[[int, Intercept | None], Intercept]
"""Makes the first interceptor of a node, from the node id and the next interceptor there."""


class Interceptors:
    """See the module. The server must have started before the first change."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: dict[int, Intercept | None] = {}
        """The interceptors that the server was given."""
        self._added: list[Intercept] = []
        self._take_over: TakeOver | None = None

    def add(self, intercept: Intercept) -> None:
        """Let it intercept on every node from now on; has no effect if it does."""
        if intercept not in self._added:
            self._added.append(intercept)
            self._set()

    def remove(self, intercept: Intercept) -> None:
        """Let it intercept no more; has no effect if it does not intercept."""
        if intercept in self._added:
            self._added.remove(intercept)
            self._set()

    def take_over(self, take_over: TakeOver | None) -> None:
        """Put this before all other interceptors. None removes it."""
        self._take_over = take_over
        self._set()

    def _set(self) -> None:
        for node_id, point in self._server.intercept_points.items():
            found = self._own.setdefault(node_id, point.intercept)
            for one in self._added:
                found = one if found is None else chained(one, found)
            if self._take_over is not None:
                found = self._take_over(node_id, found)
            point.intercept = found
