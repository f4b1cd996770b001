"""What happens to a change that cannot be written, and what a node knows before it decides."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from muster.coordinator.system.clock import LoopClock
from muster.coordinator.system.jobs import PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_log import first_records
from muster.coordinator.topics.metadata_state import MetadataState
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import NO_SNAPSHOT, MetadataRow, Snapshot, StoreAway, StoreRefused
from muster.virtual.world import World
from tests.postgres.stores import passing, table_store


async def test_a_fault_reaches_the_caller_of_a_metadata_write(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = table_store(World(Random(1)))
    shared_log = SharedMetadataLog(store, LoopClock(asyncio.get_running_loop()), lambda: "writer", passing())
    topics: Any = SimpleNamespace(state=MetadataState())
    shared_log.topics = topics

    async def broken(*_: object) -> bool:
        raise RuntimeError("it is broken")

    monkeypatch.setattr(store, "write_metadata", broken)
    job = shared_log.writing(first_records(None))
    later = next(job)
    assert isinstance(later, PendingResult)
    while not later.is_there:  # noqa: ASYNC110  # nothing reports it
        await asyncio.sleep(0)
    with pytest.raises(ApiError, match="it is broken"):
        job.send(later.value)


@pytest.mark.parametrize("error", [None, StoreAway("it is away"), RuntimeError("it is broken")])
async def test_changes_of_other_nodes_are_known_before_a_request_is_handled(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    store: Any = table_store(World(Random(1)))
    shared_log = SharedMetadataLog(store, LoopClock(asyncio.get_running_loop()), lambda: "writer", passing())
    asked: list[str] = []

    async def follow() -> None:
        asked.append("the others")
        if error is not None:
            raise error

    monkeypatch.setattr(shared_log, "follow", follow)
    job = shared_log.catching_up()
    later = next(job)
    assert isinstance(later, PendingResult)
    while not later.is_there:  # noqa: ASYNC110  # nothing reports it
        await asyncio.sleep(0)
    with pytest.raises(StopIteration):
        job.send(later.value)  # the caller continues in any case: a failed write is reported
    assert asked == ["the others"]


def of_rows(*offsets: tuple[int, int]) -> Any:
    """A store with the rows of the metadata log between two offsets."""
    store: Any = table_store(World(Random(1)))
    store.tables.log = {base: MetadataRow(base, after, "w", b"%d" % base) for base, after in offsets}
    return store


async def test_a_starting_node_refuses_a_metadata_log_with_a_gap() -> None:
    whole, torn = of_rows((0, 3), (3, 4), (4, 9)), of_rows((0, 3), (4, 9))
    clock = LoopClock(asyncio.get_running_loop())
    assert [row.base_offset for row in await SharedMetadataLog(whole, clock, lambda: "w", passing()).read()] == [
        0,
        3,
        4,
    ]
    with pytest.raises(StoreRefused, match="a gap at offset 3"):
        await SharedMetadataLog(torn, clock, lambda: "w", passing()).read()
    torn.tables.snapshot = Snapshot(1, 2, 0)  # it begins behind the snapshot, which is not part of it
    with pytest.raises(StoreRefused, match="a gap at offset 2"):
        await SharedMetadataLog(torn, clock, lambda: "w", passing()).read()


async def test_rows_deleted_during_a_read_are_read_from_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = of_rows(*((base, base + 1) for base in range(12)))
    read = store.metadata

    async def shortened(since: int) -> Any:
        rows = await read(since)
        if store.tables.snapshot == NO_SNAPSHOT:
            # another node writes a snapshot, and the rows before its end are removed: also some that come next
            store.tables.snapshot = Snapshot(1, 9, 1)
            store.tables.snapshot_parts[1, 0] = b"the first nine"
            store.tables.log = {base: row for base, row in store.tables.log.items() if base >= 8}
        return rows

    monkeypatch.setattr(store, "metadata", shortened)
    shared_log = SharedMetadataLog(store, LoopClock(asyncio.get_running_loop()), lambda: "w", passing())
    assert [row.base_offset for row in await shared_log.read()] == [9, 10, 11]
    assert (shared_log.snapshot, shared_log.began_at, shared_log.began) == ([b"the first nine"], 9, 12)


@pytest.mark.parametrize(("rows", "taken"), [([(0, 3), (4, 9)], [b"0"]), ([(4, 9)], [])])
async def test_a_node_stops_before_a_gap_in_the_metadata_log(
    rows: list[tuple[int, int]], taken: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_log = SharedMetadataLog(of_rows(*rows), LoopClock(asyncio.get_running_loop()), lambda: "w", passing())
    topics: Any = SimpleNamespace(state=SimpleNamespace(version=0))
    shared_log.topics = topics
    reasons: list[str] = []
    found: list[bytes] = []
    shared_log.lost = reasons.append

    async def take_in(row: MetadataRow) -> None:
        found.append(row.data)
        topics.state.version = row.next_offset

    monkeypatch.setattr(shared_log, "_apply", take_in)
    await shared_log.follow()
    await shared_log.follow()
    assert found == taken
    assert reasons == [f"the metadata log was shortened behind offset {3 * len(taken)}, up to which this node knows it"]
