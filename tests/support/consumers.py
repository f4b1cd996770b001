"""Stops of aiokafka consumers in any state."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import GroupCoordinator


async def stopped(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer completely. aiokafka 0.14 awaits its cancelled tasks, and expects that each ends quietly. A task
    that had not begun raises CancelledError out of `stop()`, and the rest of the stop is not done.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        stopping = asyncio.current_task()
        if stopping is not None and stopping.cancelling():
            raise
        await abandoned(consumer, leave=True)


async def abandoned(consumer: AIOKafkaConsumer, *, leave: bool = False) -> None:
    """Cancel all tasks of a consumer and close its connections, without a commit. It sends a LeaveGroup only with
    `leave`.
    """
    coordinator, fetcher = consumer._coordinator, consumer._fetcher
    consumer._closed = True
    tasks = [fetcher._fetch_task, *fetcher._pending_tasks]
    if isinstance(coordinator, GroupCoordinator):
        tasks += [coordinator._coordination_task, coordinator._heartbeat_task, coordinator._commit_refresh_task]
    while left := [one for one in tasks if one is not None and not one.done()]:
        for one in left:
            # one cancellation is not enough: the fetching task may take it for that of a task that it awaits
            one.cancel()
        await asyncio.sleep(0)
    if leave and isinstance(coordinator, GroupCoordinator):
        await coordinator._maybe_leave_group()
    await consumer._client.close()
