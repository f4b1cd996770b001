"""The work of each worker while the incremental strategy decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from muster.assignors.connect.work import Task
from muster.assignors.java_order import utf16
from muster.protocol.connect import CONNECTOR


class Load:
    """One worker and what it will run; connectors and tasks apart, each in the order in which they came."""

    __slots__ = ("connectors", "name", "tasks")

    def __init__(self, name: str, work: Iterable[Task]) -> None:
        self.name = name
        self.connectors: dict[Task, None] = {}
        self.tasks: dict[Task, None] = {}
        for item in work:
            self.add(item)

    def kind(self, connectors: bool) -> dict[Task, None]:
        """Its connectors, or its tasks."""
        return self.connectors if connectors else self.tasks

    def add(self, item: Task) -> None:
        """Give it something to run."""
        self.kind(item.number == CONNECTOR)[item] = None

    def remove(self, items: Iterable[Task]) -> None:
        """Take from it what it has of these."""
        for item in items:
            self.kind(item.number == CONNECTOR).pop(item, None)

    def __iter__(self) -> Iterator[Task]:
        yield from self.connectors
        yield from self.tasks

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)


def deal(loads: list[Load], items: Sequence[Task], *, connectors: bool) -> None:
    """Give out connectors or tasks, in turn, to the workers with least; at equal load in the order of their names."""
    loads.sort(key=lambda load: (len(load.kind(connectors)), utf16(load.name)))
    left = iter(items)
    item = next(left, None)
    while item is not None:
        level = len(loads[0].kind(connectors))
        more = (i for i, load in enumerate(loads) if len(load.kind(connectors)) > level)
        for load in loads[: next(more, len(loads))]:
            load.add(item)
            item = next(left, None)
            if item is None:
                return


def deal_round(loads: Sequence[Load], items: Iterable[Task]) -> None:
    """Give out to these in turn, whatever they have already; connectors and tasks both begin with the first."""
    turn = {True: 0, False: 0}
    for item in items:
        connector = item.number == CONNECTOR
        loads[turn[connector] % len(loads)].add(item)
        turn[connector] += 1


def overloads(loads: Sequence[Load], total: int, *, connectors: bool) -> dict[str, list[Task]]:
    """What must be taken from each worker for even shares of `total`; the first may keep one more (KIP-851)."""
    least, extras = divmod(total, len(loads))
    sizes = [len(load.kind(connectors)) for load in loads]
    if sizes.count(least + 1) == extras and sizes.count(least) + extras == len(loads):
        return {}
    taken: dict[str, list[Task]] = {}
    for load, size in zip(loads, sizes, strict=True):
        if size <= least:
            continue
        bound = least
        if extras:
            extras -= 1
            bound += 1
        if size > bound:
            taken[load.name] = list(load.kind(connectors))[: size - bound]
    return taken


def repeated(works: Iterable[Collection[Task]]) -> set[Task]:
    """What more than one worker runs."""
    seen: set[Task] = set()
    twice: set[Task] = set()
    for work in works:
        twice.update(item for item in work if item in seen)
        seen.update(work)
    return twice
