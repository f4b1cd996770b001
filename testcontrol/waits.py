"""Waiting for a group: a condition is looked at when something has happened to it, and not before.

What wakes a wait: a record in the partition of `__consumer_offsets` or of `__group_events` that the group belongs to,
records in topics that are named, a join that is held. The real time of the machine ends it, also where the server's
time stands still; and now and then it looks without being told, for what no record tells.
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
"""How long a wait goes without looking when nothing is told."""

T = TypeVar("T")


class TimeIsOver(Exception):
    """What was waited for did not come."""


async def turn() -> None:
    """Let the event loop turn once."""
    loop = asyncio.get_running_loop()
    turned: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned


async def pause(clock: Clock, ms: int) -> None:
    """Let so much time pass, by this clock: mostly the machine's."""
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
    """What `look_now` finds, as soon as it is not None. Raises TimeIsOver, and what `look_now` raises.

    `topics`: names of those whose records may matter. `also(wake)`: something else that wakes; returns what ends that.
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
            # what has happened is told at the end of this turn of the loop
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
