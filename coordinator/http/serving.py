"""Runs a server with its HTTP door beside it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import BaseRoute, Route

from muster.coordinator.alerts.watching import GroupAlerts
from muster.coordinator.config import Config
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.api import api
from muster.coordinator.http.console.routes import Console
from muster.coordinator.http.console.server_source import ServerSource
from muster.coordinator.http.door import Door
from muster.coordinator.http.probes import probes
from muster.coordinator.http.scrape import Collect, Keep, Scrapes
from muster.coordinator.http.sight import seen_lines
from muster.coordinator.http.users import DoorUsers
from muster.coordinator.http.watch import Watch
from muster.coordinator.server import THIS_MACHINE, Serve, Server, serve
from muster.coordinator.server.metrics import ServerMetrics


def door_of(
    address: DoorAddress,
    current: Callable[[], Server | None],
    collect: Collect,
    alerts: GroupAlerts,
    more: Sequence[BaseRoute] = (),
) -> Door:
    """The door of a process. `current` returns its server, if there is one now; `more`: further routes."""

    def keeps(scope: Any) -> Keep | None:
        server = current()
        return None if server is None else seen_lines(server, scope)

    routes = [*probes(current), Route("/metrics", Scrapes(collect, keeps).answer), *more]
    clock = THIS_MACHINE.clock()
    if address.figures_only:
        return Door(clock, address, routes)
    console = Console(
        ServerSource(current),
        clock,
        lambda group: [one.to_json() for one in alerts.book.open(group)],
        has_control=any(isinstance(one, Route) and one.path.startswith("/v1/") for one in more),
    )
    return Door(clock, address, [*routes, *api(current, alerts), *console.routes()], console, DoorUsers(current))


class ServerDoor:
    """A `process.Beside`: the door of one server, whose metrics are collected meanwhile."""

    def __init__(
        self, address: DoorAddress, server: Server, metrics: ServerMetrics, more: Sequence[BaseRoute] = ()
    ) -> None:
        """`metrics`: the server's observer."""
        self._watch = Watch(server.config, THIS_MACHINE.clock(), metrics, lambda: server)
        self.door = door_of(address, lambda: server, self._watch.collect, self._watch.alerts, more)

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.door.start()
        await self._watch.start()

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the door does not listen."""
        await self._watch.stop()
        await self.door.stop()


def measured(config: Config) -> tuple[Server, ServerMetrics]:
    """A server with an observer of its requests."""
    metrics = ServerMetrics()
    server = Server(
        config,
        loaded=gc.freeze,
        observer=metrics,
        on_group_events=metrics.count_events,
        figures=metrics.coordinator.shards,
    )
    return server, metrics


async def serve_without_door(config: Config, ready: Callable[[str, int], None]) -> None:
    """Serve as usual, call webhooks, and push metrics to a collector."""
    server, metrics = measured(config)
    await serve(config, ready, server, beside=Watch(config, THIS_MACHINE.clock(), metrics, lambda: server))


def serving(address: DoorAddress) -> Serve:
    """The function for `process.run` that serves as usual, with a door beside the server."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        server, metrics = measured(config)
        await serve(config, ready, server, beside=ServerDoor(address, server, metrics))

    return serve_it
