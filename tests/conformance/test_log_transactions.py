"""Logs with open, ended and half ended transactions move from a killed Kafka to Muster, and from Muster to Kafka. The
new server continues where the old one stopped.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from muster.coordinator.log.records import batches
from muster.coordinator.log.records.headers import iterate
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from muster.protocol.records import TRANSACTION_STATE
from tests.e2e.aio import administering, consuming
from tests.e2e.conftest import create_topic
from tests.support.muster import Client
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

WIDE = 200
"""Partitions of the half ended transaction: so many that a kill can come between its decision and its last marker."""
OFFSETS, STATE = 5, 7
PROPERTIES = {
    "offsets.topic.num.partitions": str(OFFSETS),
    "transaction.state.log.num.partitions": str(STATE),
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
SHORT_MS, LONG_MS = 10_000, 600_000
PREPARE_COMMIT = 2
"""A TransactionState of the records."""
AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


class Producer:
    """A transactional producer written by hand, as the newest clients are: it can leave a transaction half done."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def start(self, timeout_ms: int = LONG_MS) -> Producer:
        while True:
            answer = await self.client.ask(InitProducerIdRequest(self.name, timeout_ms, -1, -1), 5)
            if answer.error_code not in AGAIN:
                assert answer.error_code == 0
                self.id, self.epoch = answer.producer_id, answer.producer_epoch
                return self
            await asyncio.sleep(0.1)

    async def send(self, topic: str, *partitions: int) -> None:
        ids = await topic_ids(self.client, topic)
        rows = []
        for index in partitions:
            sequence = self.sequences.get((topic, index), 0)
            self.sequences[topic, index] = sequence + 1
            batch = batches.build(
                [(b"k", self.name.encode())],
                timestamp_ms=int(time.time() * 1000),
                producer_id=self.id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            rows.append(PartitionProduceData(index, bytes(batch)))
        request = ProduceRequest(self.name, -1, 30_000, [TopicProduceData("", ids[topic], rows)])
        while True:
            answer = await self.client.ask(request, 13)
            codes = {row.error_code for one in answer.responses for row in one.partition_responses}
            if not codes & set(AGAIN):
                assert codes == {0}
                return
            await asyncio.sleep(0.1)

    async def commit_offset(self, group: str, offset: int) -> None:
        assert (await self.client.ask(AddOffsetsToTxnRequest(self.name, self.id, self.epoch, group), 4)).error_code == 0
        topics = [TxnOffsetCommitRequestTopic("orders", partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
        request = TxnOffsetCommitRequest(self.name, group, self.id, self.epoch, topics=topics)
        answer = await self.client.ask(request, 5)
        assert answer.topics[0].partitions[0].error_code == 0

    async def end(self, *, commit: bool) -> int:
        while True:
            answer = await self.client.ask(EndTxnRequest(self.name, self.id, self.epoch, commit), 5)
            if answer.error_code not in AGAIN:
                break
            await asyncio.sleep(0.1)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(*server.address, limit=1 << 24)
    client = Client(reader, writer, "by-hand")
    for kind, key in ((0, "g"), (1, "t")):
        while True:
            answer = await client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
            if not answer.coordinators[0].error_code:
                break
            await asyncio.sleep(0.1)
    try:
        yield client
    finally:
        writer.close()


async def topic_ids(client: Client, *topics: str) -> dict[str, bytes]:
    answer = await client.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in topics]))
    return {topic.name: topic.topic_id for topic in answer.topics}


async def state_of(client: Client, name: str) -> str:
    answer = await client.ask(DescribeTransactionsRequest([name]))
    return str(answer.transaction_states[0].transaction_state)


async def until(client: Client, name: str, state: str) -> None:
    """Wait until a transactional id is in this state."""
    deadline = time.monotonic() + 30
    while (found := await state_of(client, name)) != state:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.1)


async def committed_values(server: ServerProcess, topic: str, partitions: int) -> dict[int, list[str]]:
    """What a reader of committed records gets, up to the last stable offset."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    found: dict[int, list[str]] = {index: [] for index in range(partitions)}
    async with consuming(server.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        quiet = 0
        while quiet < 3:
            got = await consumer.getmany(timeout_ms=300)
            quiet = 0 if got else quiet + 1
            for place, records in got.items():
                found[place.partition] += [record.value.decode() for record in records]
    return found


async def offset_of(server: ServerProcess, group: str) -> int | None:
    async with administering(server.bootstrap) as admin:
        found = await admin.list_consumer_group_offsets(group)
    return next((value.offset for value in found.values()), None)


# ---- files on the disk


def folders(logs: Path) -> list[Path]:
    names = ("orders-", "wide-", "__consumer_offsets-", "__transaction_state-")
    return sorted(path for path in logs.iterdir() if path.name.startswith(names))


def newest_state(logs: Path, name: str) -> int:
    """The state in the newest record of a transactional id."""
    found = -1
    for path in sorted((logs / f"__transaction_state-{group_partition(name, STATE)}").glob("*.log")):
        for _, records in batches.read(whole(path)):
            for record in records:
                if TRANSACTION_STATE.decode_key(record.key or b"")[1].transactional_id == name and record.value:
                    found = TRANSACTION_STATE.decode_value(0, record.value)[1].transaction_status
    return found


def whole(path: Path) -> bytes:
    """The written part of a segment, which may be larger."""
    data, at = path.read_bytes(), 0
    while len(data) - at > 12 and (size := struct.unpack_from(">i", data, at + 8)[0]) > 0:
        if at + 12 + size > len(data):
            break
        at += 12 + size
    return data[:at]


def markers(logs: Path, topic: str, partitions: int, producer_id: int) -> list[int]:
    """How many markers of a producer each partition has."""
    counts = []
    for index in range(partitions):
        data = b"".join(whole(path) for path in sorted((logs / f"{topic}-{index}").glob("*.log")))
        counts.append(sum(one.is_control and one.producer_id == producer_id for _, one in iterate(data)))
    return counts


def cut_last_batch(folder: Path) -> None:
    """Cut the last batch, as if the server had been killed before it wrote the batch; other files that know the batch
    are removed too.
    """
    (path,) = folder.glob("*.log")
    data = whole(path)
    last = [at for at, _ in iterate(data)][-1]
    path.write_bytes(data[:last])
    for other in folder.iterdir():
        if other.suffix in (".index", ".timeindex", ".snapshot", ".txnindex"):
            other.unlink()


# ---- logs of a Kafka


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[KafkaServer, MusterServer]]:
    """One server of each kind, not started."""
    kafka = KafkaServer(tmp_path / "kafka", PROPERTIES)
    muster = MusterServer(tmp_path / "muster", PROPERTIES)
    yield kafka, muster
    for server in (kafka, muster):
        if server.running:
            server.kill()


async def transactions_in_each_state(server: ServerProcess) -> dict[str, Producer]:
    """Transactions in each state; the last one is decided when the server is killed."""
    create_topic(server, "orders", 1)
    create_topic(server, "wide", WIDE)
    async with connected(server) as client:
        made = {}
        for name, timeout_ms in (("done", LONG_MS), ("undone", LONG_MS), ("open", LONG_MS), ("slow", SHORT_MS)):
            made[name] = await Producer(client, name).start(timeout_ms)
        for number, name in enumerate(made, 1):
            await made[name].send("orders", 0)
            await made[name].commit_offset(f"group-{name}", number)
        assert await made["done"].end(commit=True) == 0
        assert await made["undone"].end(commit=False) == 0
        half = made["half"] = await Producer(client, "half").start()
        for start in range(0, WIDE, 50):
            await half.send("wide", *range(start, start + 50))
        await half.commit_offset("group-half", 7)
        return made


async def killed_while_it_commits(server: ServerProcess, logs: Path, half: Producer) -> None:
    """End the transaction, and kill the server as soon as its decision is in the log."""
    path = next((logs / f"__transaction_state-{group_partition('half', STATE)}").glob("*.log"))
    async with connected(server) as client:
        half.client = client
        before = len(whole(path))
        client.send(EndTxnRequest("half", half.id, half.epoch, True), 5)
        await client.writer.drain()
        while len(whole(path)) == before:
            pass
        server.kill()


async def goes_on(server: ServerProcess, made: dict[str, Producer]) -> None:
    """The server has taken over another server's log: decided transactions are ended, and open ones continue."""
    async with connected(server) as client:
        for producer in made.values():
            producer.client = client
        await until(client, "half", "CompleteCommit")
        assert await state_of(client, "open") == "Ongoing"
        assert await offset_of(server, "group-half") == 7
        assert await committed_values(server, "wide", WIDE) == {index: ["half"] for index in range(WIDE)}
        await made["open"].send("orders", 0)
        assert await made["open"].end(commit=True) == 0
        await until(client, "slow", "CompleteAbort")
        assert await committed_values(server, "orders", 1) == {0: ["done", "open", "open"]}
        assert [await offset_of(server, f"group-{name}") for name in ("done", "undone", "open", "slow")] == [
            1, None, 3, None,
        ]  # fmt: skip
        assert await made["slow"].end(commit=True) == ErrorCode.INVALID_TXN_STATE


def test_muster_resumes_the_transactions_of_a_killed_kafka(servers: tuple[KafkaServer, MusterServer]) -> None:
    kafka, muster = servers
    logs = kafka.workdir / "data" / "logs"
    kafka.start()
    made = asyncio.run(transactions_in_each_state(kafka))
    asyncio.run(killed_while_it_commits(kafka, logs, made["half"]))
    assert newest_state(logs, "half") == PREPARE_COMMIT
    assert sum(markers(logs, "wide", WIDE, made["half"].id)) < WIDE
    data = muster.workdir / "data"
    for folder in folders(logs):
        shutil.copytree(folder, data / folder.name)
    muster.start()
    asyncio.run(goes_on(muster, made))
    assert asyncio.run(next_producer_id(muster)) > max(producer.id for producer in made.values())
    muster.stop()
    assert set(markers(data, "wide", WIDE, made["half"].id)) <= {1, 2}  # a second marker has no effect


# ---- logs of a Muster


def test_kafka_resumes_the_transactions_of_a_killed_muster(servers: tuple[KafkaServer, MusterServer]) -> None:
    kafka, muster = servers
    muster.start()
    made = asyncio.run(transactions_in_each_state(muster))
    asyncio.run(commit(muster, made["half"]))
    muster.kill()
    data = muster.workdir / "data"
    # as if the server had been killed when half of the markers were written
    for index in range(0, WIDE, 2):
        cut_last_batch(data / f"wide-{index}")
    cut_last_batch(data / f"__transaction_state-{group_partition('half', STATE)}")
    cut_last_batch(data / f"__consumer_offsets-{group_partition('group-half', OFFSETS)}")
    assert newest_state(data, "half") == PREPARE_COMMIT
    # Kafka reads its own metadata log: the topics must be in it, and their ids beside the segments
    kafka.start()
    create_topic(kafka, "orders", 1)
    create_topic(kafka, "wide", WIDE)
    asyncio.run(ask_for_the_coordinators(kafka))
    kafka.stop()
    logs = kafka.workdir / "data" / "logs"
    for folder in folders(logs):
        for path in folder.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (data / folder.name).iterdir():
            if path.name != "partition.metadata":
                shutil.copy(path, folder)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (logs / name).unlink(missing_ok=True)
    kafka.start()
    asyncio.run(goes_on(kafka, made))
    kafka.stop()
    assert set(markers(logs, "wide", WIDE, made["half"].id)) <= {1, 2}


async def next_producer_id(server: ServerProcess) -> int:
    async with connected(server) as client:
        return (await Producer(client, "fresh").start()).id


async def commit(server: ServerProcess, producer: Producer) -> None:
    async with connected(server) as client:
        producer.client = client
        assert await producer.end(commit=True) == 0
        await until(client, producer.name, "CompleteCommit")


async def ask_for_the_coordinators(server: ServerProcess) -> None:
    async with connected(server):
        pass
