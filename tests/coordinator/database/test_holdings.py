"""Logs that are fetched when leadership comes."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

from muster.coordinator.clock import ManualClock
from muster.coordinator.database.holdings import Holdings
from muster.coordinator.log import MemoryStorage
from muster.coordinator.slices import Slices
from muster.simulation.world import World
from tests.coordinator.database.stores import table_store
from tests.coordinator.database.test_term import ORDERS, append, seated, until


async def test_a_seat_that_is_lost_while_logs_are_fetched() -> None:
    store = table_store(World(Random(1)))
    async with seated(store) as node:
        append(node.open(), b"one")
    topic: Any = SimpleNamespace(
        name="orders", topic_id=ORDERS, leader_epoch=lambda _: 0, partitions=[SimpleNamespace(leader=1)]
    )
    topics: Any = SimpleNamespace(
        state=SimpleNamespace(topics={"orders": topic}, topics_by_id={ORDERS: topic}),
        open=SimpleNamespace(partition=lambda *_: None),
    )
    shipper: Any = SimpleNamespace(has_ended=False)
    clock, arrived = ManualClock(), list[object]()

    async def follow() -> None:
        raise AssertionError("nobody has led it since")

    held = Holdings(
        1, store, MemoryStorage(), shipper, clock, topics, lambda *what: arrived.append(what), follow, Slices(clock)
    )
    held.look()
    await until(lambda: bool(clock._timers))  # a part was written, and others have their turn
    await held.stop()
    clock.advance(0)
    await asyncio.sleep(0)
    assert not arrived
