"""Connect's incremental cooperative strategy (KIP-415, KIP-851; Kafka's IncrementalCooperativeAssignor).

A worker is guaranteed to keep its work unless the work was deleted, runs twice or must move for balance. Moved work is
stopped in one rebalance and started in the next, so nothing runs twice. The work of a worker that left stays unassigned
for `scheduled.rebalance.max.delay.ms`. If the worker returns before that, it gets its work again, and nothing else
moves. `assign` is a pure function: the leader keeps the state for the next rebalance.

`Load` is the work of one worker while the strategy decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from muster.assignors.connect.work import State, Task, Work, as_hash_sets, backoff_ms, configured_work, in_order
from muster.assignors.java_order import string_order, utf16
from muster.protocol.connect import CONNECTOR


class Load:
    """A worker and the work that it will run. Connectors and tasks are separate, each in the order of assignment."""

    __slots__ = ("connectors", "name", "tasks")

    def __init__(self, name: str, work: Iterable[Task]) -> None:
        self.name = name
        self.connectors: dict[Task, None] = {}
        self.tasks: dict[Task, None] = {}
        for item in work:
            self.add(item)

    def kind(self, connectors: bool) -> dict[Task, None]:
        """The worker's connectors, or its tasks."""
        return self.connectors if connectors else self.tasks

    def add(self, item: Task) -> None:
        """Give the worker a connector or a task to run."""
        self.kind(item.number == CONNECTOR)[item] = None

    def remove(self, items: Iterable[Task]) -> None:
        """Take these connectors and tasks from the worker, if the worker has them."""
        for item in items:
            self.kind(item.number == CONNECTOR).pop(item, None)

    def __iter__(self) -> Iterator[Task]:
        yield from self.connectors
        yield from self.tasks

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)


def deal(loads: list[Load], items: Sequence[Task], *, connectors: bool) -> None:
    """Distribute connectors or tasks, each to the worker with the fewest. Of two equal workers, the names decide."""
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
    """Distribute items to workers in turn, without regard to the load."""
    turn = {True: 0, False: 0}
    for item in items:
        connector = item.number == CONNECTOR
        loads[turn[connector] % len(loads)].add(item)
        turn[connector] += 1


def overloads(loads: Sequence[Load], total: int, *, connectors: bool) -> dict[str, list[Task]]:
    """The work to take from each worker for even shares of `total`.

    The first workers may keep one more (KIP-851).
    """
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


class Change(NamedTuple):
    """The result of a rebalance for one worker."""

    assigned: Work
    """The work to start."""
    revoked: Work
    """The work to stop. After that, the worker joins again."""
    running: Work
    """All work that the worker runs after it has stopped `revoked` and started `assigned`."""


class Round(NamedTuple):
    """The result of one rebalance."""

    changes: dict[str, Change]
    delay_ms: int
    """After this time, the workers ask for the next rebalance. 0: no further rebalance is needed."""
    state: State
    """The state for the next rebalance."""


def assign(
    state: State,
    now_ms: int,
    workers: Mapping[str, Sequence[Task]],
    configured: Mapping[str, int],
    *,
    max_delay_ms: int = 300_000,
    generation: int,
    completed_generation: int,
) -> Round:
    """Decide one rebalance. Raises ValueError without workers.

    `workers`: the work that each worker (by member id) reports. `configured`: the number of tasks of each connector.
    `max_delay_ms`: `scheduled.rebalance.max.delay.ms`. `generation`: the present generation of the group.
    `completed_generation`: the last generation in which the leader got its own assignment. If it is not the generation
    of `state`, workers may have missed the assignment. Then the history in `state` is not used.
    """
    if not workers:
        raise ValueError("nobody to assign to: a group has at least one worker")
    held = {name: dict.fromkeys(workers[name]) for name in string_order(workers)}
    everything = configured_work(configured)
    previous = state.previous if state.generation == completed_generation else frozenset()
    found = _found(held, everything, previous, state.revoked)

    revoked = {name: _to_stop(tuple(work), found) for name, work in held.items()}
    loads = [Load(name, work) for name, work in held.items()]
    for load in loads:
        load.remove(revoked[load.name])

    state, given_up = _lost(state, now_ms, found.lost, loads, max_delay_ms)
    state = _balance(state, now_ms, everything, loads, revoked, max_delay_ms)
    for connectors in (True, False):
        new = [item for item in found.created + given_up if (item.number == CONNECTOR) == connectors]
        deal(loads, new, connectors=connectors)

    stopped = frozenset(item for items in revoked.values() for item in items)
    running = frozenset(item for load in loads for item in load)
    state = replace(
        state,
        previous=(running - stopped) | frozenset(found.lost),
        revoked=stopped,
        members=frozenset(held),
        generation=generation,
    )
    return Round(_changes(loads, held, revoked, found.deleted), state.delay_ms, state)


class _Found(NamedTuple):
    """The work that workers run, compared with the last assignment and with the configuration."""

    deleted: frozenset[Task]
    """Work that is no longer configured."""
    twice: set[Task]
    """Work that more than one worker runs."""
    lost: list[Task]
    """Work that was assigned, but that no worker runs."""
    created: list[Task]
    """Work that is configured, but was not assigned before."""


def _found(
    held: Mapping[str, dict[Task, None]], everything: list[Task], previous: frozenset[Task], revoked: frozenset[Task]
) -> _Found:
    active = frozenset(item for work in held.values() for item in work)
    if revoked & active:  # a worker may have missed the request to stop this work
        previous = active
    deleted = previous - frozenset(everything)
    created = [item for item in everything if item not in previous and item not in active]
    return _Found(deleted, repeated(held.values()), in_order(previous - active - deleted), created)


def _changes(
    loads: list[Load],
    held: Mapping[str, dict[Task, None]],
    revoked: Mapping[str, list[Task]],
    deleted: frozenset[Task],
) -> dict[str, Change]:
    changes = {}
    for load in loads:
        assigned = tuple(item for item in load if item not in held[load.name] or item in deleted)
        changes[load.name] = Change(assigned, tuple(revoked[load.name]), tuple(load))
    return changes


def _to_stop(work: Work, found: _Found) -> list[Task]:
    """The work that a worker must stop: deleted work, and work of several workers, which the next round assigns."""
    if found.deleted.isdisjoint(work) and found.twice.isdisjoint(work):
        return []
    items = as_hash_sets(work)
    stop = [item for item in items if item in found.deleted] + [item for item in items if item in found.twice]
    return list(dict.fromkeys(stop))


def _lost(
    state: State, now_ms: int, lost: list[Task], loads: list[Load], max_delay_ms: int
) -> tuple[State, list[Task]]:
    """Decide about lost work: wait for its workers, or give it to workers that have perhaps returned.

    The second result is the lost work that is to be assigned now, as if it were new.
    """
    if not lost and not state.took_away:
        return _no_delay(state), []
    nobody_left = state.rebalance_at_ms <= 0 and state.members <= {load.name for load in loads}
    if nobody_left or max_delay_ms == 0:  # in the first case, a worker has missed the last assignment
        return state, lost
    if 0 < state.rebalance_at_ms <= now_ms:
        return _after_the_delay(state, lost, loads)
    return _wait(state, now_ms, loads, max_delay_ms), []


def _after_the_delay(state: State, lost: list[Task], loads: list[Load]) -> tuple[State, list[Task]]:
    by_name = {load.name: load for load in loads}
    returned = [by_name[name] for name in state.candidates if name in by_name]
    if returned:
        deal_round(returned, lost)
    return replace(_no_delay(state), took_away=False), [] if returned else lost


def _wait(state: State, now_ms: int, loads: list[Load], max_delay_ms: int) -> State:
    idle = string_order([load.name for load in loads if not load])
    planned = state.rebalance_at_ms - now_ms
    delay_ms = min(planned, max_delay_ms) if planned > 0 else max_delay_ms
    return replace(
        state,
        candidates=tuple(dict.fromkeys((*state.candidates, *idle))),
        delay_ms=delay_ms,
        rebalance_at_ms=now_ms + delay_ms,
    )


def _no_delay(state: State) -> State:
    return replace(state, candidates=(), rebalance_at_ms=0, delay_ms=0)


def _balance(
    state: State,
    now_ms: int,
    everything: list[Task],
    loads: list[Load],
    revoked: dict[str, list[Task]],
    max_delay_ms: int,
) -> State:
    """Take work from workers with too much, unless a delay runs or the last rebalance took work away (KIP-851)."""
    if state.delay_ms:
        return replace(state, took_away=False)
    surplus = _surplus(everything, loads)
    if not surplus:
        return replace(state, took_away=False, successive=0) if state.took_away else state
    if state.took_away:
        successive = state.successive + 1
        delay_ms = backoff_ms(successive, max_delay_ms)
        state = replace(state, successive=successive, delay_ms=delay_ms)
        if delay_ms:
            return replace(state, rebalance_at_ms=now_ms + delay_ms)
    for load in loads:
        load.remove(surplus.get(load.name, ()))
        revoked[load.name] += surplus.get(load.name, ())
    return replace(state, took_away=True)


def _surplus(everything: list[Task], loads: list[Load]) -> dict[str, list[Task]]:
    """The work to take from each worker (connectors, then tasks) for an even load."""
    if not everything or not any(loads):
        return {}
    connectors = sum(item.number == CONNECTOR for item in everything)
    taken = overloads(loads, connectors, connectors=True)
    for name, tasks in overloads(loads, len(everything) - connectors, connectors=False).items():
        taken[name] = taken.get(name, []) + tasks
    return taken
