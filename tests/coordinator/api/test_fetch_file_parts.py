"""Fetches of large records, which a server takes from the page cache; and the same where it reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.api.exchange import Intercept
from muster.coordinator.api.records.fetch_rows import without_parts
from muster.coordinator.log import FilePart, FileStorage
from muster.coordinator.log.storage import files, mapped
from muster.coordinator.log.storage.mapped import Windows
from muster.coordinator.server import Server
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tests.coordinator.topics.support import batch, produce
from tests.support.muster import connected, running

VALUES = [bytes((number,)) * 150_000 for number in range(3)]
PARTITIONS = 2


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    made = Windows()
    monkeypatch.setattr(files, "WINDOWS", made)
    monkeypatch.setattr(files, "is_cached", lambda *_: True)
    return made


@pytest.fixture
async def server(tmp_path: Path, windows: Windows) -> AsyncIterator[Server]:
    async with running(data_dir=tmp_path / "data", topics=[f"t:{PARTITIONS}"]) as made:
        fill(made)
        yield made
    assert len(windows) == 0, "windows are closed with their files"


def fill(server: Server) -> None:
    for index in range(PARTITIONS):
        partition = server.node.topics.open.partition("t", index)
        assert partition is not None
        for value in VALUES:
            produce(partition, batch(value), server.node.clock.now())


def request(server: Server, **changes: Any) -> FetchRequest:
    topic = server.node.topics.by_name["t"]
    rows = [FetchPartition(index, partition_max_bytes=400_000) for index in range(PARTITIONS)]
    return FetchRequest(
        **{"max_bytes": 1 << 20, "topics": [FetchTopic(topic_id=topic.topic_id, partitions=rows)], **changes}
    )


def records(response: FetchResponse) -> list[bytes | memoryview | None]:
    return [row.records for topic in response.responses for row in topic.partitions]


def stored(server: Server) -> list[bytes]:
    partitions = [server.node.topics.open.partition("t", index) for index in range(PARTITIONS)]
    return [one.read(0, 400_000, True, one.log.end_offset) for one in partitions if one is not None]


async def answer(server: Server, **changes: Any) -> list[bytes | memoryview | None]:
    async with connected(server) as client:
        return records(await client.ask(request(server, **changes)))


async def test_an_answer_of_several_partitions_has_the_bytes_of_the_files(server: Server, windows: Windows) -> None:
    assert await answer(server) == stored(server)
    assert len(windows) == PARTITIONS


async def test_readers_of_committed_records_get_them_too(server: Server, windows: Windows) -> None:
    assert await answer(server, isolation_level=1) == stored(server)
    assert await answer(server, isolation_level=1) == stored(server), "now the producers are loaded"
    assert len(windows) == PARTITIONS


async def test_a_fetch_that_waits_for_more_reads_its_records_again(server: Server) -> None:
    assert await answer(server, min_bytes=1 << 20, max_wait_ms=1) == stored(server)


async def test_records_on_the_disk_are_read(server: Server, windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "is_cached", lambda *_: False)
    assert await answer(server) == stored(server)
    assert len(windows) == 0


async def test_rows_behind_many_bytes_are_read_by_a_job(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.coordinator.api.records.fetch.PLAIN_BYTES", 100)
    assert await answer(server) == stored(server)


async def test_requests_in_one_packet_are_answered_in_order(server: Server) -> None:
    async with connected(server) as client:
        asked = [client.send(request(server)) for _ in range(5)]
        answers = [records(await client.receive(one)) for one in asked]
    assert answers == [stored(server)] * 5


async def test_an_interceptor_sees_bytes(tmp_path: Path, windows: Windows) -> None:
    seen: list[Any] = []

    def look(_: object, __: object, exchange: Any, run: Callable[[Any], object]) -> None:
        def respond(response: Any) -> None:
            seen.extend(records(response) if isinstance(response, FetchResponse) else ())
            exchange(response)

        run(respond)

    async with running(data_dir=tmp_path / "data", topics=[f"t:{PARTITIONS}"], intercept=Intercept(look)) as server:
        fill(server)
        assert await answer(server) == seen == stored(server)
    assert len(windows) == 0


async def test_records_that_cannot_be_copied_are_left_out(tmp_path: Path) -> None:
    file = FileStorage(tmp_path).file("records")
    data = PartitionData()
    data.records = FilePart(memoryview(b"absent"), file, 0)  # type: ignore[assignment]  # as a Fetch sets it
    without_parts(data)
    assert data.records == b""


def test_the_size_of_windows_is_limited() -> None:
    assert mapped.MOST_WINDOWS * (mapped.WINDOW_BYTES + mapped.MOST_BYTES) == 80 << 20
