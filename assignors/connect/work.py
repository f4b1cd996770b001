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
    """One item that a worker runs: a task of a connector, or with number CONNECTOR (-1) the connector itself."""

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
    """Connectors, then tasks, each by name and number (Kafka keeps them in two TreeSets)."""
    return sorted(items, key=lambda item: (item.number != CONNECTOR, utf16(item.connector), item.number))


def as_hash_sets(work: Sequence[Task]) -> list[Task]:
    """Connectors, then tasks, each in the order of `new HashSet<>(collection)`."""
    connectors = [item for item in work if item.number == CONNECTOR]
    tasks = [item for item in work if item.number != CONNECTOR]
    return [*_as_hash_set(connectors), *_as_hash_set(tasks)]


def _as_hash_set(items: list[Task]) -> Iterator[Task]:
    hashes = [spread(_hash(item)) for item in items]
    return (items[index] for index in walked(hashes, capacity_of_copy(len(items))))


def _hash(item: Task) -> int:
    """The hash of a record of a string and an int (ConnectorTaskId), or of a connector's name."""
    name = java_string_hash(item.connector)
    return name if item.number == CONNECTOR else 31 * name + item.number


def to_rows(items: Iterable[Task]) -> list[ConnectorTasks]:
    """Work in the form of the protocol: a row for each connector, in the order of first appearance."""
    rows: dict[str, list[int]] = {}
    for item in items:
        rows.setdefault(item.connector, []).append(item.number)
    return [ConnectorTasks(connector, numbers) for connector, numbers in rows.items()]


def from_rows(rows: Iterable[ConnectorTasks]) -> Work:
    """The work in rows of the protocol, without repetitions."""
    return tuple(dict.fromkeys(Task(row.connector, number) for row in rows for number in row.tasks))


@dataclass(frozen=True, slots=True)
class State:
    """The state of the incremental strategy. A new leader starts with `State()`.

    Times are in milliseconds of the clock of `now_ms`. 0 means that nothing is planned.
    """

    previous: frozenset[Task] = frozenset()
    """The work that was running after the last rebalance, and the work that was lost before it."""
    revoked: frozenset[Task] = frozenset()
    """The work that the last rebalance took away."""
    members: frozenset[str] = frozenset()
    """The workers of the last rebalance."""
    generation: int = -1
    """The generation of the last rebalance that this leader computed."""
    candidates: tuple[str, ...] = ()
    """Workers without work since something was lost. They may be the former owners that have returned."""
    rebalance_at_ms: int = 0
    """When lost work is to be assigned anew, or work may be taken away again."""
    delay_ms: int = 0
    """How long until then. Workers ask for a rebalance after this delay."""
    took_away: bool = False
    """Whether the last rebalance took something away to balance the load."""
    successive: int = 0
    """How many rebalances in a row wanted to take work away (KIP-851)."""


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """How long to wait before load is balanced again: 40 ** attempts, at most `max_delay_ms` (KIP-851).

    Java's own pow differs from the C library's in the last bit. For one bound in ten thousand that is 1 ms.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    return min(int(40.0 ** min(attempts, log(max_delay_ms) / log(40))), max_delay_ms)
