"""Kafka's tools of one broker: each action prints the same words for Muster as for Kafka 4.4.

`test_java_group_tools` has the tools of groups, `test_cluster_tools` those of topics, leaders, reassignments, offsets
and log directories.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.java_tools import NOISE, NOT_COMPARED, Tools, tools
from tests.support.servers import KAFKA_SCRIPTS, KafkaServer, MusterServer, ServerProcess

__all__ = ["tools"]
FEATURES = "org.apache.kafka.tools.FeatureCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
RESETTER = "org.apache.kafka.tools.StreamsResetter"
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
LATENCY = "org.apache.kafka.tools.EndToEndLatency"
SENDER = "org.apache.kafka.tools.VerifiableProducer"
READER = "org.apache.kafka.tools.VerifiableConsumer"
WRITER = "org.apache.kafka.tools.ConsoleProducer"
PRINTER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIER = "org.apache.kafka.tools.ReplicaVerificationTool"
FIGURES = (PRODUCER, CONSUMER, LATENCY, SENDER, READER)
"""Tools that print figures of their own, in a number of lines that depends on the time."""
ALONE = (SENDER, READER, WRITER, PRINTER)
"""Tools that run in JVMs of their own."""
TYPED = "k:one\nl:two\nwithout a key\n"
"""What is typed into them."""
SUBCOMMANDS = (CLUSTER,)
WITH_A_FILE = (TOKENS, QUORUM)
"""Tools that read the properties file."""
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "9",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:9",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9",
}
"""The controller that is to be added to the quorum."""
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
}
UNLIKE = {
    r"(ClusterId: +|Cluster ID: )[\w-]{22}": r"\1ID",
    r"Epoch: \d+": "Epoch: N",
    r"TopicId: [\w-]{22}": "TopicId: ID",
}
"""What differs by nature: ids that were drawn, and how many records the metadata log has."""
NOT_SERVED = ("Feature: eligible.leader.replicas.version", "Feature: streams.version")


def commands() -> Iterator[tuple[str, ...]]:
    """The tools with their arguments. Commands depend on those before."""
    yield TOPICS, "--create", "--topic", "t", "--partitions", "2"
    # ---- features
    yield FEATURES, "describe"
    for more in (
        ("upgrade", "--feature", "group.version=1", "--dry-run"),
        ("upgrade", "--feature", "group.version=2"),
        ("upgrade", "--feature", "no.such=1"),
        ("upgrade", "--metadata", "4.4-IV2"),
        ("upgrade", "--metadata", "9.9"),
        ("upgrade",),
        ("downgrade", "--metadata", "4.2-IV1"),
        ("downgrade", "--unsafe", "--metadata", "4.2-IV1"),
        ("upgrade", "--metadata", "4.2-IV1"),
        ("downgrade", "--feature", "group.version=0", "--dry-run"),
        ("downgrade", "--feature", "group.version=0"),
        ("describe",),
        ("downgrade", "--feature", "group.version=1"),
        ("upgrade", "--feature", "group.version=1"),
        ("disable", "--feature", "transaction.version", "--dry-run"),
        ("disable", "--feature", "transaction.version"),
        ("upgrade", "--feature", "transaction.version=1"),
        ("upgrade", "--feature", "transaction.version=2"),
        ("disable", "--feature", "metadata.version"),
        ("disable", "--feature", "no.such"),
        ("describe",),
        ("version-mapping", "--release-version", "4.2"),
        ("feature-dependencies", "--feature", "group.version=1"),
    ):
        yield FEATURES, *more
    # ---- the quorum and the cluster
    yield QUORUM, "remove-controller", "--controller-id", "9", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ"
    yield QUORUM, "add-controller", "--dry-run"
    yield QUORUM, "add-controller"
    yield CLUSTER, "api-versions"
    yield CLUSTER, "cluster-id"
    yield CLUSTER, "list-endpoints"
    yield CLUSTER, "unregister", "--id", "9"
    # ---- access control entries
    add, remove = (ACLS, "--add"), (ACLS, "--remove", "--force")
    yield ACLS, "--list"
    yield *add, "--allow-principal", "User:a", "--producer", "--topic", "t"
    yield *add, "--allow-principal", "User:a", "--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"
    yield (
        *add,
        "--allow-principal",
        "User:b",
        "--consumer",
        "--topic",
        "t",
        "--group",
        "g",
        "--resource-pattern-type",
        "prefixed",
    )
    yield *add, "--deny-principal", "User:*", "--deny-host", "10.0.0.0/8", "--operation", "All", "--cluster"
    yield (
        *add,
        "--allow-principal",
        "User:c",
        "--allow-host",
        "2001:db8::/32",
        "--operation",
        "Describe",
        "--topic",
        "*",
    )
    yield *add, "--allow-principal", "User:c", "--allow-host", "10.0.0.0/33", "--operation", "Read", "--topic", "t"
    yield *add, "--allow-principal", "c", "--operation", "Read", "--topic", "t"
    yield *add, "--allow-principal", "User:d", "--operation", "Read", "--delegation-token", "token"
    yield *add, "--allow-principal", "User:d", "--operation", "Describe", "--user-principal", "User:e"
    yield ACLS, "--list"
    yield ACLS, "--list", "--topic", "t", "--resource-pattern-type", "match"
    yield ACLS, "--list", "--principal", "User:a"
    yield *remove, "--deny-principal", "User:*", "--deny-host", "10.0.0.0/8", "--operation", "All", "--cluster"
    yield *remove, "--topic", "t"
    yield *remove, "--topic", "none"
    yield ACLS, "--list"
    # ---- metrics of clients
    yield METRICS, "--list"
    yield (
        METRICS,
        "--alter",
        "--name",
        "m",
        "--metrics",
        "org.apache.kafka.consumer",
        "--interval",
        "1000",
        "--match",
        "client_id=a",
    )
    yield METRICS, "--alter", "--name", "bad", "--interval", "1"
    yield METRICS, "--alter", "--name", "bad", "--match", "no_such=a"
    yield METRICS, "--describe", "--name", "m"
    yield METRICS, "--describe"
    yield METRICS, "--list"
    yield METRICS, "--delete", "--name", "m"
    yield METRICS, "--describe", "--name", "m"
    # ---- transactions
    yield TRANSACTIONS, "list"
    yield TRANSACTIONS, "list", "--duration-filter", "1000"
    yield TRANSACTIONS, "describe", "--transactional-id", "none"
    yield TRANSACTIONS, "describe-producers", "--topic", "t", "--partition", "0"
    yield TRANSACTIONS, "forceTerminateTransaction", "--transactional-id", "none"
    yield TRANSACTIONS, "find-hanging", "--broker-id", "1"
    yield TRANSACTIONS, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0"
    # ---- users, quotas, tokens
    yield (
        CONFIGS,
        "--alter",
        "--entity-type",
        "users",
        "--entity-name",
        "u",
        "--add-config",
        "SCRAM-SHA-256=[iterations=8192,password=p]",
    )
    yield CONFIGS, "--describe", "--entity-type", "users", "--entity-name", "u"
    yield CONFIGS, "--alter", "--entity-type", "users", "--entity-name", "u", "--delete-config", "SCRAM-SHA-256"
    yield CONFIGS, "--alter", "--entity-type", "clients", "--entity-default", "--add-config", "producer_byte_rate=1000"
    yield (
        CONFIGS,
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "10.0.0.1",
        "--add-config",
        "connection_creation_rate=5",
    )
    yield CONFIGS, "--describe", "--entity-type", "clients"
    yield CONFIGS, "--describe", "--entity-type", "ips"
    # ---- configs
    for entity, name, good, bad in (
        ("topics", "t", "retention.ms=1000,cleanup.policy=[compact,delete]", "retention.ms=soon"),
        ("topics", "none", "retention.ms=1000", "no.such=1"),
        ("brokers", "1", "message.max.bytes=2000000", "message.max.bytes=-1"),
        ("groups", "g", "consumer.session.timeout.ms=46000", "consumer.session.timeout.ms=1"),
        ("client-metrics", "n", "interval.ms=1000", "interval.ms=1"),
    ):
        of = ("--entity-type", entity, "--entity-name", name)
        yield CONFIGS, "--alter", *of, "--add-config", good
        yield CONFIGS, "--alter", *of, "--add-config", bad
        yield CONFIGS, "--describe", *of
        yield CONFIGS, "--alter", *of, "--delete-config", good.partition("=")[0]
        yield CONFIGS, "--describe", *of
        yield CONFIGS, "--alter", *of, "--delete-config", "no.such"
    yield TOKENS, "--describe"
    yield TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:u"
    yield TOKENS, "--renew", "--renew-time-period", "-1", "--hmac", "eA=="
    yield TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", "eA=="
    # ---- measurements: the test compares only their words
    yield PRODUCER, "--topic", "t", "--num-records", "10", "--record-size", "10", "--throughput", "-1"
    yield CONSUMER, "--topic", "t", "--num-records", "10", "--hide-header"
    yield TOPICS, "--create", "--topic", "one", "--partitions", "1"
    yield LATENCY, "--topic", "one", "--num-records", "3", "--producer-acks", "1", "--record-size", "9"
    yield SENDER, "--topic", "one", "--max-messages", "5"
    read = ("--topic", "one", "--max-messages", "8", "--reset-policy", "earliest", "--group-id")
    yield READER, *read, "verified"
    yield READER, *read, "verified-next", "--group-protocol", "CONSUMER"
    # ---- the console
    yield TOPICS, "--create", "--topic", "typed", "--partitions", "1"
    yield WRITER, "--topic", "typed", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"
    yield WRITER, "--topic", "typed", "--compression-codec", "zstd", "--request-required-acks", "all"
    for more in (
        ("--group", "c"),
        ("--group", "k", "--command-property", "group.protocol=consumer"),
        ("--offset", "1"),
    ):
        shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
        where = ("--partition", "0") if "--offset" in more else ("--from-beginning",)
        yield PRINTER, "--topic", "typed", "--max-messages", "3", *more, *where, *shown
    # ---- Streams' topics and offsets
    yield RESETTER, "--application-id", "a", "--input-topics", "t", "--dry-run"


def printed(tools: Tools, server: ServerProcess, folder: Path, words: tuple[str, ...]) -> str:
    """Run one tool on a server. The text leaves out what always differs, and what the docs list as a difference."""
    first = words[1:2] if words[0] in SUBCOMMANDS else ()
    file = ("--command-config", str(folder / "client.properties")) if words[0] in WITH_A_FILE else ()
    run = alone if words[0] in ALONE else tools
    text = run(words[0], *first, "--bootstrap-server", server.bootstrap, *file, *words[1 + len(first) :])
    text = text.replace(server.bootstrap, "HOST:PORT").replace(server.bootstrap.replace(":", " "), "HOST PORT")
    text = text.replace(server.bootstrap.rpartition(":")[2], "PORT").partition("\nOption  ")[0]
    for pattern, name in UNLIKE.items():
        text = re.sub(pattern, name, text)
    if words[0] in FIGURES:
        text = re.sub(r"\d[\d.:-]*", "N", text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith((*NOISE, *NOT_SERVED))]
    lines = [line for line in lines if line.partition("(")[0].strip() not in NOT_COMPARED]
    # entries and rows are printed in the order of a hash
    return "\n".join([*lines[:1], *sorted(set(lines[1:]) if words[0] in FIGURES else lines[1:])])


def alone(*words: str) -> str:
    """The output of a tool in a JVM of its own, because the exit status is a part of the comparison."""
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", *words]
    done = subprocess.run(command, input=TYPED, capture_output=True, text=True, check=False)
    return f"status {done.returncode}\n{done.stdout}{done.stderr}"


def first_report(server: ServerProcess) -> list[str]:
    """What the verification of replicas prints up to its first report; it never ends by itself."""
    options = ["--broker-list", server.bootstrap, "--topics-include", "one", "--report-interval-ms", "200"]
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", VERIFIER, *options]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(re.sub(r"^\S+ \S+: ", "TIME: ", line.replace(server.bootstrap, "HOST:PORT")))
            if "max lag" in line:
                break
        process.terminate()
    return lines


@pytest.mark.timeout(900)
def test_each_tool_of_a_broker_prints_the_same_for_muster_and_kafka(tools: Tools, tmp_path: Path) -> None:
    controller = {**CONTROLLER, "log.dirs": tmp_path}
    (tmp_path / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in controller.items()))
    ids = "version=1\nnode.id=9\ncluster.id=AAAAAAAAAAAAAAAAAAAAAg\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    (tmp_path / "meta.properties").write_text(ids)
    servers = MusterServer(tmp_path / "muster", PROPERTIES, in_memory=True), KafkaServer(tmp_path / "kafka", PROPERTIES)
    differ = {}
    with ExitStack() as ends:
        for server in servers:
            server.start()
            ends.callback(server.stop)
        for words in commands():
            ours, theirs = (printed(tools, server, tmp_path, words) for server in servers)
            if ours != theirs:
                differ[" ".join(words)] = f"ours:\n{ours}\ntheirs:\n{theirs}\n"
        assert first_report(servers[0]) == first_report(servers[1])
    assert not differ, "\n".join(f"=== {words}\n{texts}" for words, texts in differ.items())
