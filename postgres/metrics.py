"""The figures of a node of a cluster, for monitoring (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from muster.coordinator.config import Config
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.serving import door_of
from muster.coordinator.http.watch import Watch, of_kafka
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.server import Server
from muster.coordinator.server.exposition import COUNTER, GAUGE, Lines, Metric, single
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.cluster_image import DOOR, Endpoint
from muster.postgres.figures import ClusterFigures
from muster.postgres.node_session import NodeSession


class ClusterMetrics:
    """The metrics of a process, and its HTTP door. The door answers also while the process is not registered."""

    def __init__(self, config: Config, clock: Clock, address: DoorAddress) -> None:
        self._clock = clock
        self._address = address
        self._of_server = ServerMetrics()
        self.of_cluster = ClusterFigures()
        self._watch = Watch(config, clock, self._of_server, self._server, self._of_both)
        self.door = door_of(address, self._server, self._watch.collect, self._watch.alerts)

    def doors(self, host: str) -> dict[str, Endpoint]:
        """The door as an endpoint for other nodes' consoles, once it listens. `host`: its name if it listens at all
        interfaces. A door without a console has none.
        """
        if self._address.figures_only:
            return {}
        bound, scheme = self.door.http, "http" if self._address.tls is None else "https"
        return {f"{DOOR}{scheme}": Endpoint(host if bound.host in WILDCARDS else bound.host, bound.port)}

    def open_server(self, *given: Any, **named: Any) -> Server:
        """The server of the next node session."""
        of_server = self._of_server
        return Server(*given, observer=of_server, on_group_events=of_server.count_events,
                      figures=of_server.coordinator.shards, **named)  # fmt: skip

    def _server(self) -> Server | None:
        session: NodeSession | None = self.of_cluster.node_session
        return None if session is None else session.server

    async def _of_both(self) -> list[Metric | Lines]:
        self._of_server.serves(self._server())
        server = self._server()
        ends = {} if server is None else await server.ends_elsewhere()
        return [
            *await self._of_server.collect(partial(of_kafka, elsewhere=ends)),
            *_metrics(self.of_cluster, self._clock.mono_ms()),
        ]

    async def start(self) -> None:
        await self.door.start()
        await self._watch.start()

    async def stop(self) -> None:
        await self._watch.stop()
        await self.door.stop()


OLD_NAMES: Final[Mapping[str, str]] = {
    "muster_cluster_registrations_total": "muster_cluster_seats_taken_total",
    "muster_cluster_registrations_lost_total": "muster_cluster_seats_lost_total",
    "muster_cluster_writes_total": "muster_cluster_turns_total",
    "muster_cluster_writes_retried_total": "muster_cluster_turns_retried_total",
    "muster_cluster_write_seconds_total": "muster_cluster_turn_seconds_total",
    "muster_cluster_segments_fetched_total": "muster_cluster_segments_brought_total",
    "muster_cluster_registered": "muster_cluster_seat_held",
    "muster_cluster_partitions_loading": "muster_cluster_partitions_coming",
}
"""Metrics are exported under their old names, too, for one release (docs/changes.md)."""


def _metrics(of: ClusterFigures, now_ms: int) -> Iterator[Metric]:
    for metric in _figures(of, now_ms):
        yield metric
        if metric.name in OLD_NAMES:
            yield replace(metric, name=OLD_NAMES[metric.name], about=f"The old name of {metric.name}.")


def _figures(of: ClusterFigures, now_ms: int) -> Iterator[Metric]:
    yield single("muster_cluster_registrations_total", COUNTER, "How often this process has registered.",
                 of.registrations_made)  # fmt: skip
    yield single("muster_cluster_registrations_lost_total", COUNTER, "How often it lost its registration.",
                 of.registrations_lost)  # fmt: skip
    yield single("muster_cluster_writes_total", COUNTER, "Database writes that the database has.", of.writes)
    yield single("muster_cluster_writes_retried_total", COUNTER, "Database writes that were sent more than once.",
                 of.writes_retried)  # fmt: skip
    yield single("muster_cluster_write_seconds_total", COUNTER, "How long database writes took, added up.",
                 of.writes_ms / 1000)  # fmt: skip
    yield single("muster_cluster_bytes_total", COUNTER, "Bytes of batches in database writes.", of.bytes)
    yield single("muster_cluster_takeovers_total", COUNTER, "Partitions whose log was loaded for a new leadership.",
                 of.takeovers)  # fmt: skip
    yield single("muster_cluster_takeover_seconds_total", COUNTER, "How long these logs took to load, added up.",
                 of.takeovers_ms / 1000)  # fmt: skip
    yield single("muster_cluster_snapshots_total", COUNTER, "Snapshots of the metadata log that were written here.",
                 of.snapshots)  # fmt: skip
    yield single("muster_cluster_segments_fetched_total", COUNTER,
                 "Older segments of topics that were fetched from the database for a reader.",
                 of.segments_fetched)  # fmt: skip
    session: NodeSession | None = of.node_session
    away_ms = 0 if session is None else session.writer.away_for_ms
    yield single("muster_cluster_database_away_seconds_total", COUNTER,
                 "How long database writes could not reach the database.", (of.away_ms + away_ms) / 1000)  # fmt: skip
    yield single("muster_cluster_database_away", GAUGE, "1: a database write waits for the unavailable database.",
                 int(away_ms > 0))  # fmt: skip
    yield single("muster_cluster_registered", GAUGE, "1: this process is registered, and serves.",
                 int(session is not None))  # fmt: skip
    if session is not None:
        yield from _of_session(session, now_ms)


def _of_session(session: NodeSession, now_ms: int) -> Iterator[Metric]:
    writer, membership = session.writer, session.membership
    yield single("muster_cluster_node_id", GAUGE, "The id of the node.", writer.node_id)
    yield single("muster_cluster_epoch", GAUGE, "The node epoch.", writer.epoch)
    yield single("muster_cluster_lease_seconds", GAUGE, "The remaining time of the lease, by this node's clock.",
                 (writer.lease.ends_ms - now_ms) / 1000)  # fmt: skip
    yield single("muster_cluster_bytes_waiting", GAUGE, "Bytes in the local replica that no database write has yet.",
                 writer.pending.waiting_bytes)  # fmt: skip
    yield single("muster_cluster_partitions_loading", GAUGE,
                 "Partitions that are led here, and cannot be served yet.",
                 membership.led_partitions.missing)  # fmt: skip
    yield single("muster_cluster_metadata_offset", GAUGE, "The end of the metadata log that this node has applied.",
                 membership.shared_log.known)  # fmt: skip
    yield single("muster_cluster_metadata_age_seconds", GAUGE,
                 "How long ago this node last asked for new records of the metadata log.",
                 max(now_ms - membership.shared_log.followed_ms, 0) / 1000)  # fmt: skip
    yield single("muster_cluster_nodes", GAUGE, "Live nodes, by the metadata log.", membership.live_count)
