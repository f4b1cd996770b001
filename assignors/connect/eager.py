"""Connect's eager strategy (protocol "default"; Kafka's EagerAssignor): everything is assigned anew, in turn.

Guarantees: each connector and task has exactly one worker; the loads of workers differ by at most one; the same input
gives the same answer. Everything stops during a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle

from muster.assignors.connect.work import Task, Work, configured_work
from muster.assignors.java_order import utf16


def assign(workers: Iterable[str], configured: Mapping[str, int]) -> dict[str, Work]:
    """Give each worker (by member id) its connectors and tasks.

    `configured` has the number of tasks of each connector. All connectors are dealt out first, then all tasks: a
    connector is lighter than a task, and dealing them out together would give one worker all connectors where each
    has one task. Raises ValueError without workers.
    """
    names = sorted(workers, key=utf16)
    if not names:
        raise ValueError("nobody to assign to: a group has at least one worker")
    work: dict[str, list[Task]] = {name: [] for name in names}
    for name, item in zip(cycle(names), configured_work(configured), strict=False):
        work[name].append(item)
    return {name: tuple(items) for name, items in work.items()}
