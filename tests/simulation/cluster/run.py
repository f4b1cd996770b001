"""Plays many histories of a cluster, for `make simulate ARGS=--cluster`."""

from __future__ import annotations

from collections import Counter

from tests.simulation import seeds
from tests.simulation.cluster.world import play

CHUNK = 10
"""Histories that are played in one task."""


def play_clusters(first: int, count: int) -> seeds.Played:
    """Play `count` histories."""
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        world = play(seed, standby=seed % 2 == 1)
        counts += Counter(
            {
                "histories": 1,
                "terms": world.terms,
                "moves": world.moves,
                "acknowledged": world.ledger.count,
                "logs that were read to their end": world.checks,
                "segments that were absent": world.absent,
                "aborted transactions": world.aborted,
                "snapshots": world.tables.snapshots,
                "promotions": world.tables.servers - 1,
                "writes that were read and are gone": world.tables.unreplicated,
                "rows of the metadata log that are gone": world.tables.shortened,
            }
        )
        failures += world.faults[:3]
    return seeds.Played(counts, failures)
