"""What stands in the doors of a server's nodes (`api.intercept.Door`): only what has something to do. While nothing is
held and no rule is in force they are as the server was given them, mostly shut.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.api.intercept import Intercept
from muster.coordinator.rehearsal.joins import chained
from muster.coordinator.server import Server

TakeOver = Callable[[int, Intercept | None], Intercept]
"""(node id, what else stands in its door): what stands before all of it."""


class Doors:
    """See the module. Of a server that was started before the first change."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: dict[int, Intercept | None] = {}
        """What the server was given."""
        self._open: list[Intercept] = []
        self._take_over: TakeOver | None = None

    def open(self, intercept: Intercept) -> None:
        """It stands in every door from now on; harmless when it does already."""
        if intercept not in self._open:
            self._open.append(intercept)
            self._set()

    def shut(self, intercept: Intercept) -> None:
        """It has nothing to do any more; harmless when it stands nowhere."""
        if intercept in self._open:
            self._open.remove(intercept)
            self._set()

    def take_over(self, take_over: TakeOver | None) -> None:
        """Put this before all else; None: nothing."""
        self._take_over = take_over
        self._set()

    def _set(self) -> None:
        for node_id, door in self._server.doors.items():
            found = self._own.setdefault(node_id, door.intercept)
            for one in self._open:
                found = one if found is None else chained(one, found)
            if self._take_over is not None:
                found = self._take_over(node_id, found)
            door.intercept = found
