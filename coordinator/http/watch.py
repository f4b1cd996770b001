"""What watches the server of a process: its metrics, its alerts, and the push of both to a collector."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from muster.coordinator.alerts.reporting import TOKEN_OF_WEBHOOKS, checked
from muster.coordinator.alerts.watching import GroupAlerts
from muster.coordinator.config import Config
from muster.coordinator.http.address import read_token
from muster.coordinator.http.kafka_metrics import kafka_metrics
from muster.coordinator.http.oldest_unread import GreatestLags
from muster.coordinator.http.otlp_push import OtlpPush, push_of
from muster.coordinator.http.server_rows import group_rows, topic_rows
from muster.coordinator.server.exposition import Lines, Metric
from muster.coordinator.server.group_figures import MetricsSettings
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.server.server import Server
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job


def of_kafka(
    server: Server, elsewhere: Mapping[str, Mapping[int, tuple[int, int]]] = MappingProxyType({})
) -> Job[list[Metric | Lines]]:
    """The metrics of a server under names that dashboards of Kafka read, and the oldest unread records.

    `elsewhere`: start and end of logs that other processes lead, for the lag.
    """
    image, lags = server.node.cluster, GreatestLags()
    found = yield from kafka_metrics(
        image.cluster_id, len(image.brokers), topic_rows(server), group_rows(server), lags.note, elsewhere
    )
    most = server.config.settings(MetricsSettings).muster_metrics_groups
    return [*found, *(yield from lags.metrics(server, most))]


class Watch:
    """See the module. It begins with `start`, and ends with `stop`."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        metrics: ServerMetrics,
        current: Callable[[], Server | None],
        collect: Callable[[], Awaitable[Sequence[Metric | Lines]]] | None = None,
    ) -> None:
        """`clock`: the machine's. `metrics`: the observer of all servers that `current` returns. `collect` returns the
        metrics without those of alerts; None: those of `metrics`. Raises ConfigError.
        """
        self._clock = clock
        self._metrics = metrics
        self._current = current
        self._collect = collect or self._of_server
        token = read_token(checked(config).muster_alerts_token_file, TOKEN_OF_WEBHOOKS)
        self.alerts = GroupAlerts.of(config, clock, token)
        metrics.subscribe(self.alerts.take)
        push = push_of(os.environ)
        self._push = None if push is None else OtlpPush(push, clock, self.collect, str(config.node_id))

    async def _of_server(self) -> list[Metric | Lines]:
        return await self._metrics.collect(of_kafka)

    async def collect(self) -> list[Metric | Lines]:
        """All present metrics."""
        return [*await self._collect(), *self.alerts.reports.metrics()]

    async def start(self) -> None:
        """Begin: the server has started, or is not there yet."""
        self._metrics.serves(self._current())
        self._metrics.watch(self._clock)
        self.alerts.watch(self._clock, self._current)
        if self._push is not None:
            self._push.start()

    async def stop(self) -> None:
        """End. The call has no effect if nothing has begun."""
        self._metrics.end()
        self.alerts.stop()
        if self._push is not None:
            self._push.stop()
