"""The figures of a node of a cluster, for monitoring (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.coordinator.server import Server
from muster.coordinator.server.metrics import COUNTER, GAUGE, Metric, MetricsServer, ServerMetrics, single
from muster.coordinator.system.clock import Clock
from muster.postgres.figures import ClusterFigures
from muster.postgres.node_session import Term


class ClusterMetrics(MetricsServer):
    """The metrics server of a process. It answers as long as the process runs, also while it is not registered."""

    def __init__(self, clock: Clock, host: str, port: int) -> None:
        super().__init__(clock, host, port, self._of_both)
        self._clock = clock
        self._of_server = ServerMetrics()
        self.of_cluster = ClusterFigures()

    def open_server(self, *given: Any, **named: Any) -> Server:
        """The server of the next node session."""
        return Server(*given, observer=self._of_server, on_group_events=self._of_server.count_events, **named)

    async def _of_both(self) -> list[Metric]:
        term: Term | None = self.of_cluster.term
        self._of_server.server = None if term is None else term.server
        return [*await self._of_server.collect(), *_metrics(self.of_cluster, self._clock.mono_ms())]

    async def start(self) -> None:
        """See `MetricsServer`."""
        await super().start()
        self._of_server.watch(self._clock)

    async def stop(self) -> None:
        """See `MetricsServer`."""
        self._of_server.end()
        await super().stop()


def _metrics(of: ClusterFigures, now_ms: int) -> Iterator[Metric]:
    """The present figures, by the monotonic clock."""
    yield single("muster_cluster_seats_taken_total", COUNTER, "How often this process took a seat.",
                 of.seats_taken)  # fmt: skip
    yield single("muster_cluster_seats_lost_total", COUNTER, "How often it lost it.", of.seats_lost)
    yield single("muster_cluster_turns_total", COUNTER, "Turns that the database has.", of.turns)
    yield single("muster_cluster_turns_retried_total", COUNTER, "Those that were sent more than once.",
                 of.turns_retried)  # fmt: skip
    yield single("muster_cluster_turn_seconds_total", COUNTER, "How long turns took, added up.",
                 of.turns_ms / 1000)  # fmt: skip
    yield single("muster_cluster_bytes_total", COUNTER, "Bytes of batches that turns brought.", of.bytes)
    yield single("muster_cluster_takeovers_total", COUNTER, "Partitions whose log came with leadership.",
                 of.takeovers)  # fmt: skip
    yield single("muster_cluster_takeover_seconds_total", COUNTER, "How long these took to come, added up.",
                 of.takeovers_ms / 1000)  # fmt: skip
    yield single("muster_cluster_snapshots_total", COUNTER, "Snapshots of the metadata log that were written here.",
                 of.snapshots)  # fmt: skip
    yield single("muster_cluster_segments_brought_total", COUNTER,
                 "Older segments of topics that were asked for, and read from the database.",
                 of.segments_brought)  # fmt: skip
    term: Term | None = of.term
    away_ms = 0 if term is None else term.shipper.away_for_ms
    yield single("muster_cluster_database_away_seconds_total", COUNTER, "How long turns found the database away.",
                 (of.away_ms + away_ms) / 1000)  # fmt: skip
    yield single("muster_cluster_database_away", GAUGE, "1: the database is away for the turn that is due.",
                 int(away_ms > 0))  # fmt: skip
    yield single("muster_cluster_seat_held", GAUGE, "1: this process holds a seat, and serves.",
                 int(term is not None))  # fmt: skip
    if term is not None:
        yield from _of_term(term, now_ms)


def _of_term(term: Term, now_ms: int) -> Iterator[Metric]:
    shipper, membership = term.shipper, term.membership
    yield single("muster_cluster_node_id", GAUGE, "The id of the seat.", shipper.node_id)
    yield single("muster_cluster_epoch", GAUGE, "The epoch of the seat.", shipper.epoch)
    yield single("muster_cluster_lease_seconds", GAUGE, "What is left of the lease, by this node's clock.",
                 (shipper.lease.ends_ms - now_ms) / 1000)  # fmt: skip
    yield single("muster_cluster_bytes_waiting", GAUGE, "Bytes in the copy that no turn has taken yet.",
                 shipper.waiting_bytes)  # fmt: skip
    yield single("muster_cluster_partitions_coming", GAUGE, "Partitions that are led here, and cannot be served yet.",
                 membership.led_partitions.missing)  # fmt: skip
    yield single("muster_cluster_metadata_offset", GAUGE, "The end of the metadata log that this node lives by.",
                 membership.keeper.known)  # fmt: skip
    yield single("muster_cluster_metadata_age_seconds", GAUGE, "How long ago this node last read on in it.",
                 max(now_ms - membership.keeper.followed_ms, 0) / 1000)  # fmt: skip
    yield single("muster_cluster_nodes", GAUGE, "Nodes that live, as the metadata log says.", membership.live_count)
