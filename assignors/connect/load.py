"""The work of each worker while the incremental strategy decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from muster.assignors.connect.work import Task
from muster.assignors.java_order import utf16
from muster.protocol.connect import CONNECTOR


class Load:
    """One worker and the work that it will run. Connectors and tasks are separate, each in the order of assignment."""

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
        """Give the worker something to run."""
        self.kind(item.number == CONNECTOR)[item] = None

    def remove(self, items: Iterable[Task]) -> None:
        """Take these items from the worker, if it has them."""
        for item in items:
            self.kind(item.number == CONNECTOR).pop(item, None)

    def __iter__(self) -> Iterator[Task]:
        yield from self.connectors
        yield from self.tasks

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)


def deal(loads: list[Load], items: Sequence[Task], *, connectors: bool) -> None:
    """Distribute connectors or tasks, one by one, to the workers with least work. At equal load their names decide."""
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
    """Distribute items to these workers one by one, whatever their load. Connectors and tasks both begin with the
    first.
    """
    turn = {True: 0, False: 0}
    for item in items:
        connector = item.number == CONNECTOR
        loads[turn[connector] % len(loads)].add(item)
        turn[connector] += 1


def overloads(loads: Sequence[Load], total: int, *, connectors: bool) -> dict[str, list[Task]]:
    """The work to take from each worker for even shares of `total`. The first workers may keep one more (KIP-851)."""
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
    """The items that more than one worker runs."""
    seen: set[Task] = set()
    twice: set[Task] = set()
    for work in works:
        twice.update(item for item in work if item in seen)
        seen.update(work)
    return twice
