"""Logs that brokers before 0.11 wrote: their topics are served to today's clients, and their groups have their
offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from aiokafka import TopicPartition
from confluent_kafka import TopicPartition as ConfluentPartition

from muster.protocol.hashing import group_partition
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS
from tests.e2e.aio import administering, consuming, producing
from tests.e2e.conftest import SERVER, create_topic
from tests.e2e.sync_clients import confluent_consumer, confluent_read
from tests.e2e.test_log_upkeep import muster, segments
from tests.support.old_formats import GOLDEN, GZIP, LZ4, SEGMENT, SNAPPY, Row, messages, rows_of
from tests.support.servers import ServerProcess

Start = Callable[..., ServerProcess]
PARTITIONS = 3
GROUPS = [f"group-{number}" for number in range(12)]

pytestmark = pytest.mark.skipif(SERVER != "muster", reason="about the server's own files")


def put(server: ServerProcess, name: str, data: bytes) -> bytes:
    """Make `data` the only segment of a partition, as a user who copies a folder does; returns its bytes."""
    folder = server.workdir / "data" / name
    folder.mkdir(exist_ok=True)
    for path in [*folder.glob("0*"), *folder.glob("leader-epoch-checkpoint")]:
        path.unlink()
    (folder / "00000000000000000000.log").write_bytes(data)
    return data


def commits(partition: int) -> bytes:
    """What a broker of 0.10 kept of these groups: each committed 1, then 2, then its number."""
    mine = [group for group in GROUPS if group_partition(group, PARTITIONS) == partition]
    rows: list[Row] = []
    for group in mine:
        for offset in (1, 2, 100 + GROUPS.index(group)):
            key = OFFSETS.encode_key(OffsetCommitKey(group, "old", 0))
            value = OFFSETS.encode_value(OffsetCommitValue(offset, metadata="as it was", commit_timestamp=7), 1)
            rows.append(Row(len(rows), 1_450_000_000_000, key, value))
    half = len(rows) // 2
    return messages(0, rows[:half], (0, GZIP, LZ4)[partition]) + messages(1, rows[half:], SNAPPY if partition else 0)


@pytest.mark.parametrize("stop", ["clean", "killed"])
async def test_offsets_partitions_of_an_old_broker_are_loaded(start_server: Start, stop: str) -> None:
    server = start_server({"offsets.topic.num.partitions": str(PARTITIONS)})
    create_topic(server, "old", 1)
    if stop == "clean":
        server.stop()
    else:
        server.kill()
    logs = [put(server, f"__consumer_offsets-{index}", commits(index)) for index in range(PARTITIONS)]
    for _ in range(2):
        assert muster(server, "check").returncode == 0
        server.start()
        async with administering(server.bootstrap) as admin:
            for number, group in enumerate(GROUPS):
                found = (await admin.list_consumer_group_offsets(group))[TopicPartition("old", 0)]
                assert (found.offset, found.metadata) == (100 + number, "as it was")
        with confluent_consumer(server.bootstrap, group_id=GROUPS[3]) as consumer:
            (mine,) = consumer.committed([ConfluentPartition("old", 0)], timeout=60)
            assert mine.offset == 103
        server.stop()
        for index, data in enumerate(logs):
            (path,) = segments(server, index)
            assert path.read_bytes()[: len(data)] == data


async def test_a_topic_of_an_old_broker_is_served_and_continues_in_new_batches(start_server: Start) -> None:
    server = start_server()
    create_topic(server, "old", 1)
    create_topic(server, "older", 1)
    server.stop()
    data = put(server, "old-0", SEGMENT.read_bytes())
    # aiokafka reads a whole answer in the format of its first batch, from Kafka too
    rows = rows_of(1, 0, 40)
    put(server, "older-0", messages(1, rows[:20], GZIP) + messages(1, rows[20:29]) + messages(1, rows[29:], LZ4))
    server.start()
    async with producing(server.bootstrap) as producer:
        assert (await producer.send_and_wait("old", b"new", partition=0)).offset == 359
    expected = [json.loads(line) for line in (GOLDEN / "expected.jsonl").read_text().splitlines()]
    with confluent_consumer(server.bootstrap, group_id="g") as consumer:
        consumer.assign([ConfluentPartition("old", 0, 0)])
        found = confluent_read(consumer, len(expected) + 1)
        assert [(one.offset(), one.timestamp()[1]) for one in found[:-1]] == [
            (line["offset"], max(line["timestamp"], 0)) for line in expected
        ]
        texts = [[None if part is None else part.decode() for part in (one.key(), one.value())] for one in found]
        assert texts[:-1] == [[line["key"], line["value"]] for line in expected]
        assert texts[-1] == [None, "new"]
        (at,) = consumer.offsets_for_times([ConfluentPartition("old", 0, 1_450_000_008_001)], timeout=60)
        assert at.offset == 73
    async with consuming(server.bootstrap, "older") as consumer:
        got = [await consumer.getone() for _ in range(40)]
        assert [(one.offset, one.key, one.value) for one in got] == [(row.offset, row.key, row.value) for row in rows]
        assert [one.timestamp for one in got] == [row.timestamp for row in rows]
    server.stop()
    assert (server.workdir / "data" / "old-0" / "00000000000000000000.log").read_bytes()[: len(data)] == data


async def test_a_log_in_an_unreadable_format_stays_offline_and_unchanged(start_server: Start) -> None:
    server = start_server()
    create_topic(server, "later", 1)
    create_topic(server, "orders", 1)
    async with producing(server.bootstrap) as producer:
        await producer.send_and_wait("later", b"x" * 50, partition=0)
    server.kill()
    path = server.workdir / "data" / "later-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes().rstrip(b"\0")) + b"\0"
    data[16] = 3
    path.write_bytes(data)
    checked = muster(server, "check")
    assert checked.returncode == 1
    assert f"{path} at byte 0: magic 3, only 0, 1 and 2 are known" in checked.stdout
    assert "repair" not in checked.stdout
    repaired = muster(server, "repair", "--partition", "later-0")
    assert (repaired.returncode, "nothing was changed" in repaired.stderr) == (1, True)
    server.start()
    assert f"move {path.parent.resolve()} away, or to a server that can read it" in server.log()
    async with producing(server.bootstrap) as producer:
        await producer.send_and_wait("orders", b"served", partition=0)
    server.stop()
    assert path.read_bytes() == data
