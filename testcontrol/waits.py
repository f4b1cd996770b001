"""Waits for a group: a condition is checked when something has happened to the group, and not before.

These events wake a wait: records in the group's partition of `__consumer_offsets` or `__group_events`, records in named
topics, held joins. The machine's time ends the wait, also while the server's time is frozen. From time to time a wait
checks without an event, because some changes write no record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from muster.coordinator.server import Server
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.partition import Partition
from muster.testcontrol import group_snapshots

LOOK_MS: Final = 100
"""The longest time between two checks without an event."""

T = TypeVar("T")


class TimeIsOver(Exception):
    """The wait ended before its condition was true."""


async def turn() -> None:
    """Let the event loop iterate once."""
    loop = asyncio.get_running_loop()
    turned: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned


async def pause(clock: Clock, ms: int) -> None:
    """Wait for so long by this clock, which is mostly the machine's."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.mono_ms() + ms, lambda: over.set_result(None))
    try:
        await over
    finally:
        timer.cancel()


async def until(
    server: Server,
    group_id: str,
    look_now: Callable[[], T | None],
    timeout_s: float,
    *,
    topics: Callable[[], Iterable[str]] = tuple,
    also: Callable[[Callable[[], object]], Callable[[], object]] | None = None,
) -> T:
    """What `look_now` returns, as soon as it is not None. Raises TimeIsOver, and what `look_now` raises.

    `topics`: the names of topics whose records wake the wait. `also(wake)`: registers another source of events, and
    returns a function that ends it.
    """
    clock = server.clock.machine
    due_ms = clock.mono_ms() + round(timeout_s * 1000)
    while True:
        woken = asyncio.Event()
        watched = list(_watched(server, group_id, topics()))
        for partition in watched:
            partition.wait(woken, lambda _, woken=woken: woken.set())  # type: ignore[misc]  # bound now
        ends = also(woken.set) if also is not None else _nothing
        timer: Timer | None = None
        try:
            found = look_now()
            if found is not None:
                return found
            now_ms = clock.mono_ms()
            if now_ms >= due_ms:
                raise TimeIsOver
            timer = clock.call_at(min(due_ms, now_ms + LOOK_MS), woken.set)
            await woken.wait()
            # events are reported at the end of this iteration of the event loop
            await turn()
        finally:
            ends()
            if timer is not None:
                timer.cancel()
            for partition in watched:
                partition.stop_waiting(woken)


def _watched(server: Server, group_id: str, topics: Iterable[str]) -> Iterable[Partition]:
    if server.routing.ready:
        own = server.topics.open.partition(GROUP_OFFSETS_TOPIC, server.routing.partition(group_id))
        for partition in (own, group_snapshots.history_of(server, group_id)):
            if partition is not None:
                yield partition
    yield from group_snapshots.partitions_of(server, topics)


def _nothing() -> None:
    pass
