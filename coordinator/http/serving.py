"""Runs a server with its HTTP door beside it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route

from muster.coordinator.alerts.watching import TOKEN_OF_WEBHOOKS, GroupAlerts, checked
from muster.coordinator.config import Config
from muster.coordinator.http.address import DoorAddress, read_token
from muster.coordinator.http.api import api
from muster.coordinator.http.console.routes import Console
from muster.coordinator.http.console.server_source import ServerSource
from muster.coordinator.http.door import Door
from muster.coordinator.http.kafka_metrics import kafka_metrics
from muster.coordinator.http.oldest_unread import GreatestLags
from muster.coordinator.http.probes import probes
from muster.coordinator.http.scrape import Collect, Scrapes
from muster.coordinator.http.server_rows import group_rows, topic_rows
from muster.coordinator.server import THIS_MACHINE, Serve, Server, serve
from muster.coordinator.server.exposition import Lines, Metric
from muster.coordinator.server.group_figures import MetricsSettings
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job


def door_of(
    address: DoorAddress,
    current: Callable[[], Server | None],
    collect: Collect,
    alerts: GroupAlerts,
    more: Sequence[BaseRoute] = (),
) -> Door:
    """The door of a process. `current` returns its server, if there is one now; `more`: further routes."""
    routes = [*probes(current), Route("/metrics", Scrapes(collect).answer), *more]
    clock = THIS_MACHINE.clock()
    if address.figures_only:
        return Door(clock, address, routes)
    console = Console(ServerSource(current), clock, lambda group: [one.to_json() for one in alerts.book.open(group)])
    return Door(clock, address, [*routes, *api(current, alerts), *console.routes()], console)


def alerts_of(config: Config, clock: Clock) -> GroupAlerts:
    """The alerts of a process. Raises ConfigError."""
    return GroupAlerts.of(config, clock, read_token(checked(config).muster_alerts_token_file, TOKEN_OF_WEBHOOKS))


def of_kafka(server: Server) -> Job[list[Metric | Lines]]:
    """The metrics of a server under names that dashboards of Kafka read, and the oldest unread records."""
    image, lags = server.node.cluster, GreatestLags()
    found = yield from kafka_metrics(
        image.cluster_id, len(image.brokers), topic_rows(server), group_rows(server), lags.note
    )
    most = server.config.settings(MetricsSettings).muster_metrics_groups
    return [*found, (yield from lags.metric(server, most))]


class ServerDoor:
    """A `process.Beside`: the door of one server, whose metrics are collected meanwhile."""

    def __init__(
        self, address: DoorAddress, server: Server, metrics: ServerMetrics, more: Sequence[BaseRoute] = ()
    ) -> None:
        """`metrics`: the server's observer."""
        self._server = server
        self._metrics = metrics
        self._clock = THIS_MACHINE.clock()
        self.alerts = alerts_of(server.config, self._clock)
        metrics.subscribe(self.alerts.take)
        self.door = door_of(address, lambda: server, self._collect, self.alerts, more)

    async def _collect(self) -> list[Metric | Lines]:
        return [*await self._metrics.collect(of_kafka), *self.alerts.metrics()]

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.door.start()
        self._metrics.serves(self._server)
        self._metrics.watch(self._server.clock.machine)
        self.alerts.watch(self._clock, lambda: self._server)

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the door does not listen."""
        self._metrics.end()
        self.alerts.stop()
        await self.door.stop()


class AlertsAlone:
    """A `process.Beside`: the alerts of a server without a door, which only its log and webhooks get."""

    def __init__(self, server: Server, alerts: GroupAlerts) -> None:
        self._server = server
        self._alerts = alerts

    async def start(self) -> None:
        """Begin to look at the groups."""
        self._alerts.watch(self._server.clock.machine, lambda: self._server)

    async def stop(self) -> None:
        """Look no more."""
        self._alerts.stop()


async def serve_with_alerts(config: Config, ready: Callable[[str, int], None]) -> None:
    """Serve as usual, and call webhooks, without a door."""
    alerts = alerts_of(config, THIS_MACHINE.clock())
    server = Server(config, loaded=gc.freeze, on_group_events=alerts.take)
    await serve(config, ready, server, beside=AlertsAlone(server, alerts))


def serving(address: DoorAddress) -> Serve:
    """The function for `process.run` that serves as usual, with a door beside the server."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        metrics = ServerMetrics()
        server = Server(config, loaded=gc.freeze, observer=metrics, on_group_events=metrics.count_events)
        await serve(config, ready, server, beside=ServerDoor(address, server, metrics))

    return serve_it
