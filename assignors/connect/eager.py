"""Connect's eager strategy (protocol "default"; Kafka's EagerAssignor): everything is assigned anew, one by one.

It guarantees that each connector and task has exactly one worker. The loads of workers differ by at most one. The same
input gives the same answer. Everything stops during a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle

from muster.assignors.connect.work import Task, Work, configured_work
from muster.assignors.java_order import utf16


def assign(workers: Iterable[str], configured: Mapping[str, int]) -> dict[str, Work]:
    """Give each worker (by member id) its connectors and tasks. Raises ValueError without workers.

    `configured` has the number of tasks of each connector. All connectors are distributed first, then all tasks. A
    connector is lighter than a task. If both were distributed together, and each connector had one task, one worker
    would get all connectors.
    """
    names = sorted(workers, key=utf16)
    if not names:
        raise ValueError("nobody to assign to: a group has at least one worker")
    work: dict[str, list[Task]] = {name: [] for name in names}
    for name, item in zip(cycle(names), configured_work(configured), strict=False):
        work[name].append(item)
    return {name: tuple(items) for name, items in work.items()}
