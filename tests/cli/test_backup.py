"""A backup is what the server had at one moment, also while it serves; a restored directory serves it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from muster.cli import main
from muster.cli.backup import command, copying
from muster.cli.backup.copying import Replaced, copy_directory, segments_of
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.server.metrics import ServerMetrics
from tests.coordinator.http.doors import ask
from tests.e2e.aio import consuming
from tests.e2e.ledger import PATIENCE_S, eventually
from tests.testcontrol.server import bootstrap, controlled

CAPS = pytest.CaptureFixture[str]


async def produce(servers: str, stop: asyncio.Event) -> int:
    """Read nothing, and write records and offsets in transactions: the offset of g is the number of records."""
    count = 0
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t", linger_ms=0) as producer:
        while not stop.is_set() or not count:
            async with producer.transaction():
                await producer.send("orders", b"x", partition=0)
                count += 1
                place = TopicPartition("orders", 0)
                await producer.send_offsets_to_transaction({place: OffsetAndMetadata(count, "")}, "g")
    return count


async def test_a_backup_of_a_serving_server_is_of_one_moment(tmp_path: Path, capsys: CAPS) -> None:
    data, kept, again = tmp_path / "data", tmp_path / "kept", tmp_path / "again"
    async with controlled(data_dir=data, nodes=2) as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), found.server, ServerMetrics())
        await beside.start()
        http = f"127.0.0.1:{beside.door.http.port}"
        ends = (await ask(beside.door, "/api/v1/ends"))[1]["ends"]
        assert {"orders-0", "orders-1", "__cluster_metadata-0"} <= ends.keys()
        stop = asyncio.Event()
        producing = asyncio.create_task(produce(bootstrap(found), stop))
        await eventually(lambda: found.groups.describe("g").offsets != {})
        words = ["backup", str(kept), "--data-dir", str(data), "--http", http]
        assert await asyncio.to_thread(main, words) == 0
        stop.set()
        written = await producing
        await beside.stop()
    assert "checked" in capsys.readouterr().out
    note = json.loads((kept / command.NOTE).read_text())
    assert note["partitions"] == len(list(kept.glob("*-*/partition.metadata")))
    assert await asyncio.to_thread(main, ["restore", str(kept), "--data-dir", str(again)]) == 0
    assert main(["log", "check", str(again)]) == 0
    async with controlled(data_dir=again, nodes=2) as found:
        async with consuming(bootstrap(found), "orders", group_id="reader", auto_offset_reset="earliest",
                             isolation_level="read_committed") as consumer:  # fmt: skip
            await found.groups.wait_stable("reader", members=1, partitions="orders")
            read = 0
            async with asyncio.timeout(PATIENCE_S):
                # A record and its offset are both there, or neither. The server may still end a prepared transaction.
                while read != found.groups.describe("g").offsets.get("orders", {}).get(0, 0) or not read:
                    read += len([one for some in (await consumer.getmany(timeout_ms=200)).values() for one in some])
        assert 0 < read <= written


async def test_without_a_server_all_is_copied_and_the_directory_is_locked(tmp_path: Path, capsys: CAPS) -> None:
    data, kept, again = (tmp_path / name for name in ("data", "kept", "again"))
    async with controlled(data_dir=data) as found:
        async with consuming(bootstrap(found), "orders", group_id="g") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await consumer.commit({TopicPartition("orders", 0): 0})
        assert await asyncio.to_thread(main, ["backup", str(kept), "--data-dir", str(data)]) == 1
        assert "a server works on" in capsys.readouterr().err
    assert main(["backup", str(kept), "--data-dir", str(data)]) == 0
    assert main(["backup", str(kept), "--data-dir", str(data)]) == 2
    assert main(["restore", str(kept), "--data-dir", str(again)]) == 0
    assert main(["restore", str(kept), "--data-dir", str(again)]) == 2
    assert main(["log", "check", str(again)]) == 0
    async with controlled(data_dir=again) as found:
        assert found.groups.describe("g").offsets == {"orders": {0: 0}}


def segment(folder: Path, base: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020d}.log"
    path.write_bytes(b"")
    return path


def test_a_segment_that_is_replaced_meanwhile_makes_no_copy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    first, second = segment(source / "t-0", 0), segment(source / "t-0", 10)
    before = segments_of(source)
    assert copy_directory(source, tmp_path / "1", {("t", 0): 20}, before) == {("t", 0): 0}
    first.rename(source / "t-0" / "old")
    segment(source / "t-0", 0)
    with pytest.raises(Replaced, match=r"t-0/0*\.log"):
        copy_directory(source, tmp_path / "2", {("t", 0): 20}, before)
    before = segments_of(source)
    second.unlink()
    with pytest.raises(Replaced, match=r"t-0/0*10\.log"):
        copy_directory(source, tmp_path / "3", {("t", 0): 20}, before)
    (source / "t-0" / f"{0:020d}.log").unlink()
    segment(source / "t-0", 30)  # retention has removed the earlier ones
    assert copy_directory(source, tmp_path / "4", {("t", 0): 20}, before) == {("t", 0): 0}
    with pytest.raises(Replaced, match="u-0"):
        copy_directory(source, tmp_path / "5", {("u", 0): 1}, {})


def test_what_is_always_replaced_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def always(*_: Any) -> Any:
        tries.append(1)
        raise Replaced("t-0")

    monkeypatch.setattr(command, "copy_directory", always)
    with pytest.raises(OSError, match="t-0 was replaced"):
        command._copied_while_served(tmp_path, tmp_path / "x", dict)
    assert len(tries) == command.TRIES


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["backup", "kept"], "is no data directory"),
        (["restore", "kept"], "is no complete backup"),
    ],
)
def test_wrong_folders_are_refused(words: list[str], why: str, tmp_path: Path, capsys: CAPS) -> None:
    words = [words[0], str(tmp_path / words[1]), "--data-dir", str(tmp_path / "data")]
    assert main(words) == 2
    assert why in capsys.readouterr().err


def test_a_door_that_does_not_answer_is_an_error(tmp_path: Path, capsys: CAPS) -> None:
    (tmp_path / "meta.properties").write_text("")
    words = ["backup", str(tmp_path / "x"), "--data-dir", str(tmp_path), "--http"]
    assert main([*words, "127.0.0.1:1"]) == 1
    assert "/api/v1/ends does not answer: Connection refused; give the HTTP door of the" in capsys.readouterr().err
    assert main([*words, "ftp://127.0.0.1:1"]) == 2
    assert main([*words, "127.0.0.1:1", "--http-ca", str(tmp_path / "none")]) == 2
    assert "--http-ca" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert copying.segments_of(tmp_path) == {}
