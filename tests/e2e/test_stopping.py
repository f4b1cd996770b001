"""How tests stop an aiokafka consumer (tests/support/consumers.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.e2e.aio import Member, consuming, read, send_numbered, shared_out
from tests.e2e.ledger import Ledger
from tests.support.consumers import stopped
from tests.support.servers import ServerProcess


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_consumer_that_has_just_started_can_be_stopped(
    server: ServerProcess, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    await send_numbered(server.bootstrap, topic, 1, 1)
    async with consuming(server.bootstrap, topic) as consumer:
        await read(consumer, 1)
        pending = asyncio.create_task(never())
        consumer._fetcher._pending_tasks.add(pending)
        connections = list(consumer._client._conns.values())
        assert any(one.connected() for one in connections)
    assert pending.cancelled()
    assert not any(one.connected() for one in connections)


@pytest.mark.parametrize("name", ["_heartbeat_task", "_commit_refresh_task"])
async def test_a_stopped_member_leaves_its_group(
    server: ServerProcess, new_topic: Callable[[int], str], group: str, name: str
) -> None:
    topic, ledger = new_topic(1), Ledger()
    first, second = (Member(which, ledger, server.bootstrap, [topic], group) for which in ("a", "b"))
    await first.start()
    await shared_out([first], 1)
    coordinator = first.consumer._coordinator
    getattr(coordinator, name).cancel()
    coordinator._closing.set_result(None)
    await asyncio.wait([coordinator._coordination_task])
    coordinator._closing = asyncio.get_running_loop().create_future()
    setattr(coordinator, name, asyncio.create_task(never()))
    await first.stop()
    await second.start()
    await shared_out([second], 1)
    await second.stop()


async def test_stopping_a_consumer_can_be_cancelled() -> None:
    class Stuck:
        stop = staticmethod(never)

    stopping = asyncio.create_task(stopped(Stuck()))
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    assert stopping.cancelled()
