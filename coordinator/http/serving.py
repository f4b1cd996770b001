"""Runs a server with its HTTP door beside it."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from muster.coordinator.config import Config
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.api import api
from muster.coordinator.http.door import Door
from muster.coordinator.http.probes import probes
from muster.coordinator.server import THIS_MACHINE, Serve, Server, serve
from muster.coordinator.server.metrics import CONTENT_TYPE, Metric, ServerMetrics, prometheus_text

Collect = Callable[[], Awaitable[Iterable[Metric]]]


def door_of(
    address: DoorAddress, current: Callable[[], Server | None], collect: Collect, more: Sequence[BaseRoute] = ()
) -> Door:
    """The door of a process. `current` returns its server, if there is one now; `more`: further routes."""

    async def metrics(_: Request) -> Response:
        return Response(prometheus_text(await collect()), headers={"Content-Type": CONTENT_TYPE})

    routes = [*probes(current), Route("/metrics", metrics), *more]
    return Door(THIS_MACHINE.clock(), address, routes if address.figures_only else [*routes, *api(current)])


class ServerDoor:
    """A `process.Beside`: the door of one server, whose metrics are collected meanwhile."""

    def __init__(
        self, address: DoorAddress, server: Server, metrics: ServerMetrics, more: Sequence[BaseRoute] = ()
    ) -> None:
        """`metrics`: the server's observer."""
        metrics.server = server
        self._server = server
        self._metrics = metrics
        self.door = door_of(address, lambda: server, metrics.collect, more)

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.door.start()
        self._metrics.watch(self._server.clock.machine)

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the door does not listen."""
        self._metrics.end()
        await self.door.stop()


def serving(address: DoorAddress) -> Serve:
    """The function for `process.run` that serves as usual, with a door beside the server."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        metrics = ServerMetrics()
        server = Server(config, loaded=gc.freeze, observer=metrics, on_group_events=metrics.count_events)
        await serve(config, ready, server, beside=ServerDoor(address, server, metrics))

    return serve_it
