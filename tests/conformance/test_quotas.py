"""Quotas of clients on a real Kafka: the answers that the unit tests hold Muster to, and how long clients wait."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from muster.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.coordinator.api.quotas import exchanges
from tests.coordinator.api.quotas.exchanges import EXCHANGES, kafkas, told
from tests.support.muster import Client
from tests.support.servers import KAFKA_SCRIPTS, KafkaServer, MusterServer

CONFIGS = "kafka.admin.ConfigCommand"


async def ask_all(address: tuple[str, int]) -> list[Any]:
    """The answer to each exchange. A real broker learns of a change a moment later than it is acknowledged."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    client = Client(reader, writer, "test")
    found, has_changed = [], False
    for exchange in EXCHANGES:
        is_question = isinstance(exchange.request, DescribeClientQuotasRequest)
        if is_question and has_changed:
            await asyncio.sleep(1)
        has_changed = not is_question
        found.append(told(await client.ask(exchange.request, exchange.version)))
    writer.close()
    return found


def test_what_kafka_answers(tmp_path: Path) -> None:
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


def test_kafkas_own_tool_on_muster(tmp_path: Path) -> None:
    """What a user types: quotas of users, client ids, pairs and addresses, set, told and taken away."""
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
            "Quota configs for the default IP are connection_creation_rate=10.0"
        ]
        configs("--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate", *alice)
        assert configs("--describe", "--entity-type", "users") == []
    finally:
        server.stop()


def test_rates_and_credits_of_kafkas_classes() -> None:
    """The figures that the unit tests compare with are what Kafka's classes say."""
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", Path(__file__).with_name("Rates.java")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    known = Path(__file__).parents[1] / "coordinator" / "quotas" / "java-rates.json"
    assert json.loads(done.stdout) == json.loads(known.read_text())
