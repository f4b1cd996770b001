"""Kafka's own command line tools: topics, groups, settings, console producer and consumer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.clients import JavaClients
from tests.support.servers import ServerProcess

Tool = Callable[..., str]
NewName = Callable[[str], str]
TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


def test_kafka_topics_works_on_muster(tool: Tool, new_name: NewName) -> None:
    topic = new_name("tool")
    created = tool(TOPICS, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=60000")
    assert f"Created topic {topic}." in created
    assert topic in tool(TOPICS, "--list").split()
    described = tool(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=60000" in described
    assert len([row for row in rows(described) if "Partition:" in row]) == 3
    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool(TOPICS, "--describe", "--topic", topic)
    assert "already exists" in tool(TOPICS, "--create", "--topic", topic, status=1)
    tool(TOPICS, "--delete", "--topic", topic)
    assert topic not in tool(TOPICS, "--list").split()
    assert "does not exist" in tool(TOPICS, "--describe", "--topic", topic, status=1)


def test_console_clients_and_offsets_of_their_group_work(tool: Tool, new_name: NewName, group: str) -> None:
    topic = new_name("console")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    tool(PRODUCER, "--topic", topic, stdin="".join(f"line {number}\n" for number in range(20)))
    consumed = tool(
        CONSUMER,
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        "20",
        "--timeout-ms",
        "20000",
    )
    assert sorted(consumed.splitlines(), key=lambda line: int(line.split()[1])) == [f"line {n}" for n in range(20)]
    ends = [line.split(":") for line in tool(OFFSETS, "--topic", topic).split()]
    assert sum(int(offset) for _, _, offset in ends) == 20
    described = {row[2]: row for row in rows(tool(GROUPS, "--describe", "--group", group)) if row[0] == group}
    assert sum(int(row[3]) for row in described.values()) == 20
    assert {row[5] for row in described.values()} == {"0"}


def test_the_console_consumer_works_with_the_consumer_protocol(tool: Tool, new_name: NewName, group: str) -> None:
    topic = new_name("console")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    tool(PRODUCER, "--topic", topic, stdin="one\ntwo\n")
    protocol = ("--command-property", "group.protocol=consumer")
    last = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")
    assert set(tool(CONSUMER, "--topic", topic, "--group", group, *protocol, *last).split()) == {"one", "two"}
    assert [group, "Consumer", "consumer"] in rows(tool(ALL_GROUPS, "--list"))
    described = [row for row in rows(tool(GROUPS, "--describe", "--group", group)) if row[0] == group]
    assert [row[3:6] for row in described if row[3] != "0"] in ([["1", "1", "0"]] * 2, [["2", "2", "0"]])


def test_kafka_groups_and_consumer_groups_work_on_muster(tool: Tool, new_name: NewName, group: str) -> None:
    topic = new_name("grouped")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "1")
    tool(PRODUCER, "--topic", topic, stdin="one\ntwo\nthree\n")
    tool(
        CONSUMER, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000"
    )
    assert group in tool(GROUPS, "--list").split()
    assert [group, "Empty"] in rows(tool(GROUPS, "--list", "--state"))
    assert [group, "Classic"] in rows(tool(GROUPS, "--list", "--type"))
    assert group in tool(ALL_GROUPS, "--list")
    state = tool(GROUPS, "--describe", "--state", "--group", group)
    assert "Empty" in state
    reset = tool(GROUPS, "--group", group, "--topic", topic, "--reset-offsets", "--to-offset", "1", "--execute")
    assert [group, topic, "0", "1"] in rows(reset)
    again = tool(CONSUMER, "--topic", topic, "--group", group, "--max-messages", "2", "--timeout-ms", "20000")
    assert again.splitlines() == ["two", "three"]
    deleted = tool(GROUPS, "--group", group, "--topic", topic, "--delete-offsets")
    assert "Successful" in deleted
    assert "successful" in tool(GROUPS, "--group", group, "--delete")
    assert group not in tool(GROUPS, "--list").split()
    assert f"Group {group} not found." in tool(GROUPS, "--describe", "--group", group, errors=True)


def test_kafka_configs_works_on_muster(tool: Tool, new_name: NewName) -> None:
    topic = new_name("configured")
    tool(TOPICS, "--create", "--topic", topic, "--config", "cleanup.policy=compact")
    described = tool(CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", topic)
    assert "cleanup.policy=compact" in described
    everything = tool(CONFIGS, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
    assert "segment.bytes=1073741824" in everything
    broker = tool(CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert "group.initial.rebalance.delay.ms=0" in broker
    assert "offsets.topic.num.partitions=10" in broker


@pytest.mark.parametrize(
    ("entity", "config", "source"),
    [
        (("brokers", "--entity-name", "1"), "log.cleaner.backoff.ms=15500", "DYNAMIC_BROKER_CONFIG"),
        (("brokers", "--entity-default"), "log.cleaner.backoff.ms=15600", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        (("groups", "--entity-name", "g"), "consumer.session.timeout.ms=50000", "DYNAMIC_GROUP_CONFIG"),
        (("client-metrics", "--entity-name", "m"), "interval.ms=1000", "DYNAMIC_CLIENT_METRICS_CONFIG"),
        (("broker-loggers", "--entity-name", "1"), "muster.events=ERROR", None),
    ],
)
def test_kafka_configs_changes_settings_of_a_running_server(
    tool: Tool, entity: tuple[str, ...], config: str, source: str | None
) -> None:
    name = config.partition("=")[0]
    tool(CONFIGS, "--alter", "--entity-type", *entity, "--add-config", config)
    described = tool(CONFIGS, "--describe", "--entity-type", *entity)
    synonym = "" if source is None else f"{source}:{config}"
    assert f"{config} sensitive=false synonyms={{{synonym}" in described
    tool(CONFIGS, "--alter", "--entity-type", *entity, "--delete-config", name)
    assert f" {config} " not in tool(CONFIGS, "--describe", "--entity-type", *entity)


def test_kafka_cluster_and_describe_of_a_stable_group_work(
    tool: Tool, server: ServerProcess, new_name: NewName, group: str, start_java: Callable[..., JavaClients]
) -> None:
    topic = new_name("living")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "4")
    java = start_java(server)
    java.consume("alive", group, topic)
    java.shared_out(["alive"], 4)
    members = [
        row for row in rows(tool(GROUPS, "--describe", "--members", "--verbose", "--group", group)) if group in row
    ]
    assert len(members) == 1
    assert "alive" in members[0]
    state = [row for row in rows(tool(GROUPS, "--describe", "--state", "--group", group)) if group in row]
    assert "Stable" in state[0]
    assert "not empty" in tool(GROUPS, "--group", group, "--delete")


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_the_console_producer_works_with_each_compression_codec(tool: Tool, new_name: NewName, codec: str) -> None:
    topic = new_name(codec)
    tool(PRODUCER, "--topic", topic, "--compression-codec", codec, stdin="a\nb\n")
    consumed = tool(CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")
    assert consumed.split() == ["a", "b"]
