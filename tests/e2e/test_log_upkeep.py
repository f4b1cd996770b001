"""What an operator sees of the log: a damaged partition that is repaired, and compaction while clients commit."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewTopic

from muster.protocol.hashing import group_partition
from tests.e2e.aio import administering, consuming, producing
from tests.e2e.conftest import SERVER, create_topic
from tests.e2e.ledger import eventually
from tests.support import wire
from tests.support.servers import MusterServer, ServerProcess

Start = Callable[..., ServerProcess]
PARTITIONS = 10
COORDINATOR_NOT_AVAILABLE = 15
GROUPS = [f"group-{number}" for number in range(40)]

pytestmark = pytest.mark.skipif(SERVER != "muster", reason="about the server's own files")


def commit(connection: socket.socket, group: str, offset: int) -> int:
    """Commit an offset; the error code."""
    answer = wire.call(connection, wire.offset_commit(group, -1, "", "t", 0, offset))
    return wire.read_topic_errors(answer)[0]


async def committed(server: ServerProcess, group: str) -> int:
    async with administering(server.bootstrap) as admin:
        found = await admin.list_consumer_group_offsets(group)
    return int(found[TopicPartition("t", 0)].offset)


def segments(server: ServerProcess, partition: int) -> list[Path]:
    return sorted((server.workdir / "data" / f"__consumer_offsets-{partition}").glob("*.log"))


def kept(server: ServerProcess) -> int:
    """Bytes of the first partition's log, without the space that was allocated in advance."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in segments(server, 0))


def muster(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert isinstance(server, MusterServer)
    data = str(server.workdir / "data")
    command = [server.executable, "log", arguments[0], data, *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def groups(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert isinstance(server, MusterServer)
    command = [server.executable, "groups", *arguments, "--bootstrap-server", server.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def test_nothing_is_appended_to_a_log_that_was_cut_after_a_clean_stop(start_server: Start) -> None:
    server = start_server()
    create_topic(server, "orders", 1)
    async with producing(server.bootstrap) as producer:
        for number in range(3):
            await producer.send_and_wait("orders", b"%d" % number, partition=0)
    server.stop()
    path = server.workdir / "data" / "orders-0" / "00000000000000000000.log"
    cut = path.read_bytes()[:-17]
    path.write_bytes(cut)
    for _ in range(2):  # the output is the same after each further clean stop
        checked = muster(server, "check")
        assert (checked.returncode, f"{path} at byte" in checked.stdout) == (1, True)
        server.start()
        assert "muster log repair" in server.log()
        server.stop()
        assert path.read_bytes() == cut
    repaired = muster(server, "repair", "--partition", "orders-0")
    assert (repaired.returncode, "lost: offsets 2 to 2" in repaired.stdout) == (0, True)
    server.start()
    async with producing(server.bootstrap) as producer:
        assert (await producer.send_and_wait("orders", b"new", partition=0)).offset == 2
    async with consuming(server.bootstrap, "orders", auto_offset_reset="earliest") as consumer:
        assert [(await consumer.getone()).value for _ in range(3)] == [b"0", b"1", b"new"]


@pytest.mark.parametrize("stop", ["clean", "killed"])
async def test_a_damaged_partition_is_offline_until_it_is_repaired(start_server: Start, stop: str) -> None:
    server = start_server()
    create_topic(server, "t", 1)
    with socket.create_connection(server.address, timeout=60) as connection:
        for round_number in range(3):
            for group in GROUPS:
                assert commit(connection, group, round_number) == 0
        hurt = group_partition(GROUPS[0], PARTITIONS)
        refused = muster(server, "repair", "--partition", str(hurt))
        assert refused.returncode == 1
        assert f"is in use by process {server.pid}" in refused.stderr
    if stop == "clean":
        server.stop()
    else:
        server.kill()
    (path,) = segments(server, hurt)
    data = bytearray(path.read_bytes())
    data[90] ^= 1  # the damage is in the first batch
    path.write_bytes(data)
    server.start()
    with socket.create_connection(server.address, timeout=60) as connection:
        for group in GROUPS:
            is_hurt = group_partition(group, PARTITIONS) == hurt
            assert commit(connection, group, 3) == (COORDINATOR_NOT_AVAILABLE if is_hurt else 0)
    repair = f"muster log repair {server.workdir / 'data'} --partition __consumer_offsets-{hurt}"
    assert repair in server.log()
    listed = groups(server, "list")
    assert {line.split()[0] for line in listed.stdout.splitlines()[1:]} == {
        group for group in GROUPS if group_partition(group, PARTITIONS) != hurt
    }
    assert (listed.returncode, listed.stderr.count("\n")) == (1, 1)
    assert f"partition {hurt} of __consumer_offsets is offline" in listed.stderr
    none = groups(server, "list", "--state", "Dead")
    assert (none.returncode, none.stdout) == (1, "no groups of that kind can be seen: not all partitions are online\n")
    for output in (listed, groups(server, "describe", GROUPS[0]), groups(server, "offsets", GROUPS[0])):
        assert (output.returncode, repair in output.stderr) == (1, True)
        assert f"{path} is damaged at byte 0" in output.stderr
    server.stop()
    assert muster(server, "check").returncode == 1
    repaired = muster(server, "repair", "--partition", str(hurt))
    assert repaired.returncode == 0
    assert "lost: offsets 0 to 0" in repaired.stdout
    assert muster(server, "check").returncode == 0
    server.start()
    for group in GROUPS[:5]:
        # later commits of the same group were whole
        assert await committed(server, group) == (2 if group_partition(group, PARTITIONS) == hurt else 3)


@pytest.mark.parametrize("in_memory", [False, True], ids=["on disk", "in memory"])
async def test_compaction_works_while_clients_commit(start_server: Start, in_memory: bool) -> None:
    settings: dict[str, Any] = {
        "offsets.topic.num.partitions": "1",
        # segments are rolled and compacted for their age
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.max.compaction.lag.ms": "100",
    }
    server = start_server(settings, in_memory=in_memory)
    create_topic(server, "t", 1)
    last: dict[str, int] = {}
    with socket.create_connection(server.address, timeout=60) as connection:
        for number in range(6000):
            group = GROUPS[number % 7 if number > 100 else number % 40]
            assert commit(connection, group, number) == 0
            last[group] = number
    await eventually(lambda: "compacted" in server.log(), "a compaction")
    if not in_memory:
        written = 6000 * 120
        await eventually(lambda: kept(server) < written / 4, "less to keep")
        server.kill()
        server.start()
        assert muster(server, "check").returncode == 0
    for group in (*GROUPS[:8], GROUPS[39]):
        assert await committed(server, group) == last[group]


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
async def test_a_compacted_topic_keeps_the_newest_record_of_each_key(start_server: Start, policy: str) -> None:
    server = start_server({"log.cleaner.backoff.ms": "20", "log.cleaner.min.cleanable.ratio": "0.01"})
    configs = {"cleanup.policy": policy, "segment.ms": "100", "delete.retention.ms": "0"}
    async with administering(server.bootstrap) as admin:
        await admin.create_topics([NewTopic("states", 1, 1, topic_configs=configs)])
    async with producing(server.bootstrap, linger_ms=5) as producer:
        number = 0

        async def compacted() -> bool:
            nonlocal number
            for _ in range(200):  # wait as long as needed: segments are rolled and compacted for their age
                number += 1
                await producer.send_and_wait("states", b"%d" % number, key=b"key-%d" % (number % 5))
            return "compacted" in server.log()

        while not await compacted():
            pass
        await producer.send_and_wait("states", None, key=b"key-0")
        last = await producer.send_and_wait("states", b"end", key=b"end")
    newest: dict[bytes, bytes | None] = {}
    count = 0
    async with consuming(server.bootstrap, "states") as consumer:
        async for record in consumer:
            count += 1
            newest[record.key] = record.value
            if record.offset == last.offset:
                break
    assert count < number
    kept = {b"key-%d" % (at % 5): b"%d" % at for at in range(number - 4, number + 1)}
    assert newest == {**kept, b"key-0": None, b"end": b"end"}
