"""The work of Connect workers, in Kafka's orders, and the state that a leader keeps between rebalances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

from muster.assignors.java_order import capacity_of_copy, spread, utf16, walked
from muster.protocol.connect import CONNECTOR, ConnectorTasks
from muster.protocol.hashing import java_string_hash


class Task(NamedTuple):
    """An item that a worker runs: a task of a connector, or the connector itself (number CONNECTOR, -1)."""

    connector: str
    number: int = CONNECTOR

    def __str__(self) -> str:
        return self.connector if self.number == CONNECTOR else f"{self.connector}-{self.number}"


Work = tuple[Task, ...]
"""The work of one worker, in the order of assignment."""


def configured_work(configured: Mapping[str, int]) -> list[Task]:
    """All connectors, then all tasks, in Kafka's order. `configured` has the number of tasks of each connector."""
    names = sorted(configured, key=utf16)
    return [Task(name) for name in names] + [Task(name, number) for name in names for number in range(configured[name])]


def in_order(items: Iterable[Task]) -> list[Task]:
    """Sort connectors, then tasks, by name and number (Kafka keeps connectors and tasks in two TreeSets)."""
    return sorted(items, key=lambda item: (item.number != CONNECTOR, utf16(item.connector), item.number))


def as_hash_sets(work: Sequence[Task]) -> list[Task]:
    """Order connectors, then tasks, as Java iterates over `new HashSet<>(collection)`."""
    connectors = [item for item in work if item.number == CONNECTOR]
    tasks = [item for item in work if item.number != CONNECTOR]
    return [*_as_hash_set(connectors), *_as_hash_set(tasks)]


def _as_hash_set(items: list[Task]) -> Iterator[Task]:
    hashes = [spread(_hash(item)) for item in items]
    return (items[index] for index in walked(hashes, capacity_of_copy(len(items))))


def _hash(item: Task) -> int:
    """The Java hash code of a ConnectorTaskId (a name and a number), or of a connector's name."""
    name = java_string_hash(item.connector)
    return name if item.number == CONNECTOR else 31 * name + item.number


def to_rows(items: Iterable[Task]) -> list[ConnectorTasks]:
    """Encode work as rows of the protocol, one for each connector, in the order of the connectors in `items`."""
    rows: dict[str, list[int]] = {}
    for item in items:
        rows.setdefault(item.connector, []).append(item.number)
    return [ConnectorTasks(connector, numbers) for connector, numbers in rows.items()]


def from_rows(rows: Iterable[ConnectorTasks]) -> Work:
    """Decode rows of the protocol to work. Repeated items are left out."""
    return tuple(dict.fromkeys(Task(row.connector, number) for row in rows for number in row.tasks))


@dataclass(frozen=True, slots=True)
class State:
    """The state of the incremental strategy. A new leader starts with `State()`.

    Times are in milliseconds of the clock of `now_ms`. 0 means that nothing is planned.
    """

    previous: frozenset[Task] = frozenset()
    """The work that was running after the last rebalance, and lost work that was not assigned yet."""
    revoked: frozenset[Task] = frozenset()
    """The work that the last rebalance took away."""
    members: frozenset[str] = frozenset()
    """The workers of the last rebalance."""
    generation: int = -1
    """The generation of the last rebalance that this leader computed."""
    candidates: tuple[str, ...] = ()
    """Workers that have had no work since work was lost. Such a worker may be a former owner that has returned."""
    rebalance_at_ms: int = 0
    """The time at which lost work is assigned again, or work may be taken away again."""
    delay_ms: int = 0
    """The delay until `rebalance_at_ms`, after which workers ask for a rebalance."""
    took_away: bool = False
    """Whether the last rebalance took work away to balance the load."""
    successive: int = 0
    """How many rebalances without interruption wanted to take work away (KIP-851)."""


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """How long to wait before load is balanced again: 40 ** attempts, at most `max_delay_ms` (KIP-851).

    Java's own pow differs from that of the C library in the last bit. In one of ten thousand cases the delay differs by
    1 ms.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    return min(int(40.0 ** min(attempts, log(max_delay_ms) / log(40))), max_delay_ms)
