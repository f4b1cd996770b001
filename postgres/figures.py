"""What a node of a cluster counts for who watches it: `metrics` tells it."""

from __future__ import annotations

from typing import Any


class ClusterFigures:
    """Of one process: it may take its seat many times. Times in ms, sizes in bytes."""

    def __init__(self) -> None:
        self.seats_taken = self.seats_lost = 0
        self.turns = self.turns_retried = self.turns_ms = self.bytes = 0
        """Turns that count, those of them that were sent more than once, how long they took, and what they brought."""
        self.away_ms = 0
        """How long the database was away, without the time that it is now."""
        self.takeovers = self.takeovers_ms = 0
        """Logs that came when leadership did, and how long that took."""
        self.snapshots = 0
        self.segments_brought = 0
        """Segments that were asked for, and came."""
        self.term: Any = None
        """The present `term.Term`; None: there is no seat."""
