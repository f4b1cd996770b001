"""Plays many histories of whole nodes, for `make torture` and `make simulate ARGS=--nodes`."""

from __future__ import annotations

from collections import Counter

from tests.simulation import seeds
from tests.torture.node.history import History, described

CHUNK = 20
"""Histories that are played in one task."""


def play_brokers(first: int, count: int) -> seeds.Played:
    """Play histories with three brokers in the process."""
    return play_nodes(first, count, brokers=True)


def play_nodes(first: int, count: int, *, brokers: bool = False) -> seeds.Played:
    """Play `count` histories. A single history is printed in full."""
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        history = History(seed, brokers=brokers)
        history.run()
        ledger = history.world.transactions.ledger
        counts += Counter(
            histories=1, processes=history.world.processes, answers=history.world.answers,
            transactions=len(ledger.transactions),
        )  # fmt: skip
        counts["changes of brokers"] += getattr(history.world, "changes", 0)
        if history.failure is not None:
            failures.append(described(history, in_full=count == 1))
    return seeds.Played(counts, failures)
