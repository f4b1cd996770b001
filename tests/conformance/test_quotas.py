"""Quotas of clients on a real Kafka: the unit tests expect the same answers and waiting times of Muster."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from muster.coordinator.log import batches
from muster.protocol.message import Message
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest
from muster.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.coordinator.api.quotas import exchanges
from tests.coordinator.api.quotas.exchanges import EXCHANGES, alter, change, kafkas, values_of
from tests.support.muster import Client
from tests.support.servers import KAFKA_SCRIPTS, KafkaServer, MusterServer

CONFIGS = "org.apache.kafka.tools.ConfigCommand"


async def ask_all(address: tuple[str, int]) -> list[Any]:
    """The answer to each exchange. A real broker applies a change a moment after the change is acknowledged."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    client = Client(reader, writer, "test")
    found, has_changed = [], False
    for exchange in EXCHANGES:
        is_question = isinstance(exchange.request, DescribeClientQuotasRequest)
        if is_question and has_changed:
            await asyncio.sleep(1)
        has_changed = not is_question
        found.append(values_of(await client.ask(exchange.request, exchange.version)))
    writer.close()
    await writer.wait_closed()
    return found


def test_quota_requests_are_answered_by_kafka_as_recorded(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    server.start()
    try:
        answers = asyncio.run(ask_all(server.address))
    finally:
        server.stop()
    if os.environ.get("MUSTER_FREEZE"):
        rows = ",\n".join(json.dumps(answer) for answer in answers)
        Path(exchanges.__file__).with_name("kafka.json").write_text(f"[\n{rows}\n]\n")
    for exchange, answer, known in zip(EXCHANGES, answers, kafkas(), strict=True):
        assert answer == known, exchange.name


def test_kafka_configs_changes_quotas_on_muster(tmp_path: Path) -> None:
    """The commands of a user: quotas of users, client ids, pairs and addresses are set, described and removed."""
    server = MusterServer(tmp_path, in_memory=True)
    server.start()
    try:

        def configs(*arguments: str) -> list[str]:
            command = [KAFKA_SCRIPTS / "kafka-tool.sh", CONFIGS, "--bootstrap-server", server.bootstrap, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            return [line.strip() for line in done.stdout.splitlines() if line.strip()]

        alice = "--entity-type", "users", "--entity-name", "alice"
        configs("--alter", "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048", *alice)
        pair = *alice, "--entity-type", "clients", "--entity-default"
        configs("--alter", "--add-config", "request_percentage=150", *pair)
        configs("--alter", "--add-config", "connection_creation_rate=10", "--entity-type", "ips", "--entity-default")
        assert configs("--describe", "--entity-type", "users") == [
            "Quota configs for user-principal 'alice' are consumer_byte_rate=2048.0, producer_byte_rate=1024.0"
        ]
        assert configs("--describe", *pair) == [
            "Quota configs for user-principal 'alice', the default client-id are request_percentage=150.0"
        ]
        assert configs("--describe", "--entity-type", "ips") == [
            "Quota configs for the default ip are connection_creation_rate=10.0"
        ]
        configs("--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate", *alice)
        assert configs("--describe", "--entity-type", "users") == []
    finally:
        server.stop()


def test_the_recorded_rates_and_credits_are_kafkas() -> None:
    """Kafka's classes give the figures with which the unit tests compare."""
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", Path(__file__).with_name("Rates.java")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    known = Path(__file__).parents[1] / "coordinator" / "quotas" / "java-rates.json"
    assert json.loads(done.stdout) == json.loads(known.read_text())


def produce(size: int) -> ProduceRequest:
    batch = bytes(batches.build([(None, b"x" * size)], timestamp_ms=0))
    return ProduceRequest(None, 1, 5000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])


def fetch(offset: int) -> FetchRequest:
    rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    topics = [FetchTopic("t", partitions=rows)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)


def create(name: str, count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, count, 1)], 10_000)


def delete(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)


USES: list[tuple[str, tuple[tuple[str, str | None], ...], str, float, list[tuple[Message, int]]]] = [
    ("writer", (("client-id", "writer"),), "producer_byte_rate", 10_000.0,
     [(produce(size), 9) for size in (50_000, 60_000, 20_000, 1_000, 100)]),
    ("reader", (("user", "ANONYMOUS"), ("client-id", None)), "consumer_byte_rate", 20_000.0,
     [(fetch(offset), 12) for offset in (0, 1, 0, 1, 0)]),
    ("maker", (("client-id", "maker"),), "controller_mutation_rate", 1.0,
     [(create("a", 8), 7), (create("b", 8), 7), (create("c", 3), 7), (create("c", 3), 5), (delete("c"), 5),
      (delete("a"), 4)]),
    ("slow", (("client-id", "slow"),), "request_percentage", 0.0001, [(MetadataRequest([]), 9)] * 3),
]  # fmt: skip
"""Client id; entity, quota and value; requests with their versions."""


async def throttle_times(address: tuple[str, int]) -> list[int]:
    """How long each of the uses must wait; the next use comes after that time."""

    async def open_client(client_id: str) -> Client:
        return Client(*(await asyncio.open_connection(*address, limit=1 << 24)), client_id)

    admin = await open_client("admin")
    assert (await admin.ask(create("t", 1), 7)).topics[0].error_code == 0
    await asyncio.sleep(1)
    found = []
    for client_id, entity, key, value, requests in USES:
        assert (await admin.ask(alter(change(entity, (key, value))))).entries[0].error_code == 0
        await asyncio.sleep(1)
        client = await open_client(client_id)
        for request, version in requests:
            found.append((await client.ask(request, version)).throttle_time_ms)
        await admin.ask(alter(change(entity, (key, None))))
        client.writer.close()
        await client.writer.wait_closed()
    admin.writer.close()
    await admin.writer.wait_closed()
    return found


def test_throttle_times_of_muster_equal_kafkas(tmp_path: Path) -> None:
    found = []
    for server in (KafkaServer(tmp_path / "kafka"), MusterServer(tmp_path / "muster", in_memory=True)):
        server.start()
        try:
            found.append(asyncio.run(throttle_times(server.address)))
        finally:
            server.stop()
    kafkas_times, ours = found
    assert len(ours) == sum(len(uses) for *_, uses in USES)
    for kafka_ms, our_ms in zip(kafkas_times, ours, strict=True):
        # the requests come some milliseconds sooner or later
        assert abs(kafka_ms - our_ms) <= max(0.1 * kafka_ms, 200), (kafkas_times, ours)
    assert sum(time_ms > 0 for time_ms in kafkas_times) > 8
    print(f"Kafka: {kafkas_times}\nMuster: {ours}")
