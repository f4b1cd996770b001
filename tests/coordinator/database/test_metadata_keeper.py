"""What becomes of a change that cannot be written, and what is known before it is decided."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from muster.coordinator.clock import LoopClock
from muster.coordinator.database.metadata_keeper import MetadataKeeper
from muster.coordinator.database.store import StoreAway
from muster.coordinator.slices import Later
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_log import first_records
from muster.coordinator.topics.metadata_state import MetadataState
from muster.simulation.world import World
from tests.coordinator.database.stores import table_store


async def test_whoever_asked_is_told_of_a_fault_too(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = table_store(World(Random(1)))
    keeper = MetadataKeeper(store, LoopClock(asyncio.get_running_loop()), lambda: "writer")
    topics: Any = SimpleNamespace(state=MetadataState())
    keeper.topics = topics

    async def broken(*_: object) -> bool:
        raise RuntimeError("it is broken")

    monkeypatch.setattr(store, "write_metadata", broken)
    job = keeper.writing(first_records(None))
    later = next(job)
    assert isinstance(later, Later)
    while not later.is_there:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
    with pytest.raises(ApiError, match="it is broken"):
        job.send(later.value)


@pytest.mark.parametrize("error", [None, StoreAway("it is away"), RuntimeError("it is broken")])
async def test_what_others_have_decided_is_known_before_a_request_is(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    store: Any = table_store(World(Random(1)))
    keeper = MetadataKeeper(store, LoopClock(asyncio.get_running_loop()), lambda: "writer")
    asked: list[str] = []

    async def follow() -> None:
        asked.append("the others")
        if error is not None:
            raise error

    monkeypatch.setattr(keeper, "follow", follow)
    job = keeper.catching_up()
    later = next(job)
    assert isinstance(later, Later)
    while not later.is_there:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
    with pytest.raises(StopIteration):
        job.send(later.value)  # it goes on in any case: what cannot be written says so
    assert asked == ["the others"]
