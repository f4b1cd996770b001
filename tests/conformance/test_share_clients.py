"""Java's KafkaShareConsumer, and Kafka's tools with share consumers, on Muster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.servers import KAFKA_SCRIPTS, ServerProcess

Tool = Callable[..., str]
NewName = Callable[[str], str]
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
QUEUE = Path(__file__).with_name("Queue.java")


@pytest.fixture
def queue(tool: Tool, new_name: NewName, group: str) -> str:
    """A topic with two partitions and 500 records, which the group `group` reads from the start."""
    topic = new_name("queue")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    tool(PRODUCER, "--topic", topic, stdin="".join(f"line {number}\n" for number in range(500)))
    earliest = "share.auto.offset.reset=earliest"
    tool(CONFIGS, "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", earliest)
    return topic


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_three_java_consumers_accept_each_record_once(
    server: ServerProcess, tool: Tool, new_name: NewName, group: str, mode: str
) -> None:
    topic = new_name("queue")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    earliest = "share.auto.offset.reset=earliest"
    tool(CONFIGS, "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", earliest)
    command = [
        KAFKA_SCRIPTS / "kafka-tool.sh",
        QUEUE,
        "--bootstrap-server",
        server.bootstrap,
        topic,
        group,
        "3000",
        mode,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True)
    assert done.stdout.splitlines() == ["3000 accepted, 0 twice"]


def test_the_console_consumer_prints_the_records(tool: Tool, queue: str, group: str) -> None:
    consumed = tool(CONSOLE, "--topic", queue, "--group", group, "--max-messages", "500", "--timeout-ms", "20000")
    assert sorted(consumed.splitlines()) == sorted(f"line {number}" for number in range(500))


def test_the_verifiable_consumer_acknowledges_what_it_consumes(tool: Tool, queue: str, group: str) -> None:
    lines = tool(VERIFIABLE, "--topic", queue, "--group-id", group, "--max-messages", "500").splitlines()
    counts = {"records_consumed": 0, "offsets_acknowledged": 0}
    for line in map(json.loads, lines):
        if line["name"] in counts:
            counts[line["name"]] += line["count"]
    assert counts["records_consumed"] == 500


def test_the_performance_tool_reads_the_records(tool: Tool, queue: str, group: str) -> None:
    printed = tool(PERFORMANCE, "--topic", queue, "--group", group, "--num-records", "500", "--timeout", "20000")
    assert printed.splitlines()[-1].split(", ")[5] == "500"
