"""Runs a server with its HTTP door beside it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route

from muster.coordinator.config import Config
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.api import api
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
from muster.coordinator.system.jobs import Job


def door_of(
    address: DoorAddress, current: Callable[[], Server | None], collect: Collect, more: Sequence[BaseRoute] = ()
) -> Door:
    """The door of a process. `current` returns its server, if there is one now; `more`: further routes."""
    routes = [*probes(current), Route("/metrics", Scrapes(collect).answer), *more]
    return Door(THIS_MACHINE.clock(), address, routes if address.figures_only else [*routes, *api(current)])


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
        self.door = door_of(address, lambda: server, lambda: metrics.collect(of_kafka), more)

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.door.start()
        self._metrics.serves(self._server)
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
