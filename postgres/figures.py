"""The counters of a node of a cluster, which `metrics` publishes."""

from __future__ import annotations

from typing import Any


class ClusterFigures:
    """The counters of one process, which may register many times. Times are in ms, sizes in bytes."""

    def __init__(self) -> None:
        self.registrations_made = self.registrations_lost = 0
        self.writes = self.writes_retried = self.writes_ms = self.bytes = 0
        """Database writes that count, how many of them were sent more than once, their time, and their bytes."""
        self.away_ms = 0
        """How long the database was unavailable, without a period that still lasts."""
        self.takeovers = self.takeovers_ms = 0
        """Logs that were fetched for a new leadership, and how long that took."""
        self.snapshots = 0
        self.segments_fetched = 0
        """Segments that were fetched for a reader."""
        self.node_session: Any = None
        """The present `node_session.NodeSession`; None when the process is not registered."""
