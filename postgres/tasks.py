"""How the tasks of a node wait and end. Tasks wait by the node's clock, which in the simulation is not the loop's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from muster.coordinator.system.clock import Clock


async def pause(clock: Clock, after_ms: int = 0) -> None:
    """Wait for a time; 0: until the next iteration of the event loop. The caller may be cancelled meanwhile."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def go_on() -> None:
        if not over.done():
            over.set_result(None)

    if after_ms:
        clock.call_at(clock.mono_ms() + after_ms, go_on)
    else:
        clock.call_soon(go_on)
    await over


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel all `tasks`, and wait until they have ended. Tasks may remove themselves from `tasks` meanwhile."""
    some = list(tasks)
    for task in some:
        task.cancel()
    if some:
        await asyncio.wait(some)
