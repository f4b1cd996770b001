"""What intercepts the requests of a server's nodes (`api.intercept.InterceptPoint`): only what has something to do.
While nothing is held and no rule is in force, it is what the server was given, mostly nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.api.intercept import Intercept
from muster.coordinator.server import Server
from muster.testcontrol.joins import chained

TakeOver = Callable[[int, Intercept | None], Intercept]
"""(node id, what else intercepts there): what comes before all of it."""


class Interceptors:
    """See the module. Of a server that was started before the first change."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: dict[int, Intercept | None] = {}
        """What the server was given."""
        self._added: list[Intercept] = []
        self._take_over: TakeOver | None = None

    def add(self, intercept: Intercept) -> None:
        """It intercepts on every node from now on; harmless when it does already."""
        if intercept not in self._added:
            self._added.append(intercept)
            self._set()

    def remove(self, intercept: Intercept) -> None:
        """It has nothing to do any more; harmless when it intercepts nothing."""
        if intercept in self._added:
            self._added.remove(intercept)
            self._set()

    def take_over(self, take_over: TakeOver | None) -> None:
        """Put this before all else; None: nothing."""
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
