"""Kafka's tools of clusters on three brokers: Muster's, in one process and over a database, beside Kafka's, word by
word.

Kafka's own tools run each command on both, and their outputs are compared. Names replace what always differs (ports,
random ids, times, sizes on the disk).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from muster.protocol.hashing import group_partition
from tests.conformance.java_tools import NOISE, NOT_COMPARED, Tools, tools
from tests.support.cluster_nodes import ClusterNodes
from tests.support.postgres import own_database
from tests.support.servers import KafkaCluster, NodesServer

__all__ = ["tools"]
TOPICS = "org.apache.kafka.tools.TopicCommand"
ELECTIONS = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENTS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
DIRECTORIES = "org.apache.kafka.tools.LogDirsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
SUBCOMMANDS = (CLUSTER,)
"""Tools whose first argument is a command."""
RACKS = ("a", "b", "b")
PROPERTIES = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.leader.rebalance.enable": "false",
}
PARTITION = group_partition("readers", 6)
"""The partition of the group's coordinator."""
ONLY = {"1": [1], "3": [3, 2]}
"""The replicas of that partition."""
NOW_MS = int(time.time() * 1000)
PATIENCE_S = 90.0


class Stage:
    """Three brokers, and the output of the tools on them."""

    def __init__(self, server: Any, tools: Tools) -> None:
        self.server, self._tools = server, tools
        self.admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0}, logger=None)

    def __call__(self, *words: str) -> str:
        first = words[1:2] if words[0] in SUBCOMMANDS else ()
        rest = words[1 + len(first) :]
        text = self._tools(words[0], *first, "--bootstrap-server", self.server.bootstrap, *rest)
        for number, (host, port) in enumerate(self.server.addresses, 1):
            text = re.sub(rf"{host}[ :]{port}\b", f"HOST-{number}", text)
        text = text.partition("\nOption  ")[0]  # a wrong command, and then the correct one
        for pattern, name in UNLIKE.items():
            text = re.sub(pattern, name, text)
        if words[0] in SHORTER:
            text = SHORTER[words[0]](text)
        lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith(NOISE)]
        return "\n".join(line for line in lines if not line.endswith(" for partitions"))  # of the server's own topics

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Ask again and again. A question that fails counts as not yet true."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                if is_so():
                    return
            except confluent_kafka.KafkaException:
                pass
            assert time.monotonic() < end, f"it never came true on {self.server.name}: {what}"
            time.sleep(0.1)


UNLIKE = {
    r"(TopicId: |ClusterId: +|Cluster ID: )[\w-]{22}": r"\1ID",
    r"Isr: (\S+)": lambda found: "Isr: " + ",".join(sorted(found[1].split(","))),
    r"/\S*?/(kafka/data/logs-\d|muster/data|muster/node-\d/data)\b": "DIRECTORY",
    r'"log_dirs":\[.*?\]': "DIRECTORIES",
    r"(partitions? )([\w.-]+-\d+(?:, [\w.-]+-\d+)*)$": lambda found: found[1] + _named_only(found[2]),
}
"""What always differs, or differs as the docs say. Kafka lists the first in-sync replicas first; the server's own
topics have other replicas.
"""


def _named_only(partitions: str) -> str:
    return ", ".join(sorted(one for one in partitions.split(", ") if not one.startswith("__")))


def _served(text: str) -> str:
    """The APIs that both serve; Kafka prints brokers in the order of a hash."""
    brokers = re.split(r"^(?=HOST)", text, flags=re.MULTILINE)
    lines = "".join(sorted(brokers)).splitlines()
    return "\n".join(line for line in lines if line.partition("(")[0].strip() not in NOT_COMPARED)


def _quorum(text: str) -> str:
    """The output without the leader of the metadata log, its length and its lag. Of each broker's row only its
    existence counts.
    """
    if "NodeId" in text:
        rows = sorted(line.split() for line in text.splitlines()[2:])
        return "\n".join([text.splitlines()[1], *(" ".join(row[:2]) for row in rows)])
    return "\n".join(line for line in text.splitlines() if not line.startswith(OF_THE_QUORUM))


def _features(text: str) -> str:
    """The features that both have."""
    text = re.sub(r"Epoch: \d+", "Epoch", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith(OF_NOTHING_HERE))


def _directories(text: str) -> str:
    """The partitions in any directory: over a database only the leader of a partition has a replica."""
    found = sorted(set(re.findall(r'{"partition":[^}]*}', text)))
    return "\n".join([*(line for line in text.splitlines() if not line.startswith("{")), *found])


SHORTER: dict[str, Callable[[str], str]] = {
    VERSIONS: _served, QUORUM: _quorum, FEATURES: _features, DIRECTORIES: _directories,
}  # fmt: skip
OF_THE_QUORUM = ("LeaderId:", "LeaderEpoch:", "HighWatermark:", "MaxFollowerLag", "CurrentVoters:", "CurrentObservers:")
OF_NOTHING_HERE = tuple(f"Feature: {name}.version" for name in ("eligible.leader.replicas", "share", "streams"))


def commands(folder: Path) -> Iterator[tuple[str, ...]]:
    def file(name: str, content: Any) -> str:
        path = folder / name
        path.write_text(json.dumps(content))
        return str(path)

    # ---- topics whose replicas are named
    create = (TOPICS, "--create", "--topic")
    yield *create, "named", "--replica-assignment", "1:2,2:3,3:1"
    yield TOPICS, "--describe", "--topic", "named"
    yield *create, "twice", "--replica-assignment", "1:1"
    yield *create, "strange", "--replica-assignment", "9:1"
    yield *create, "uneven", "--replica-assignment", "1:2,3"
    yield *create, "both", "--replica-assignment", "1:2", "--partitions", "3"
    yield *create, "many", "--replication-factor", "4"
    yield *create, "none", "--replication-factor", "0"
    yield TOPICS, "--alter", "--topic", "named", "--partitions", "4", "--replica-assignment", "1:2,2:3,3:1,2:1"
    yield TOPICS, "--alter", "--topic", "named", "--partitions", "5", "--replica-assignment", "1:2,2:3,3:1,2:1,9:1"
    yield TOPICS, "--alter", "--topic", "named", "--partitions", "5", "--replica-assignment", "1:2,2:3,3:1,2:1,3"
    yield TOPICS, "--alter", "--topic", "named", "--partitions", "2"
    yield TOPICS, "--describe", "--topic", "named"
    for what in ("--under-replicated-partitions", "--unavailable-partitions", "--at-min-isr-partitions",
                 "--under-min-isr-partitions"):  # fmt: skip
        yield TOPICS, "--describe", "--topic", "named", what
    yield TOPICS, "--describe", "--topics-with-overrides", "--exclude-internal"
    yield TOPICS, "--list", "--exclude-internal"
    # ---- the cluster
    yield CLUSTER, "cluster-id"
    yield CLUSTER, "list-endpoints"
    yield CLUSTER, "list-endpoints", "--include-fenced-brokers"
    yield CLUSTER, "unregister", "--id", "9"
    yield QUORUM, "describe", "--status"
    yield QUORUM, "describe", "--replication"
    yield QUORUM, "describe", "--replication", "--human-readable"
    yield FEATURES, "describe"
    yield (VERSIONS,)
    yield DIRECTORIES, "--describe", "--topic-list", "named"
    yield DIRECTORIES, "--describe", "--broker-list", "9"
    # ---- elections
    for kind in ("preferred", "unclean"):
        yield ELECTIONS, "--election-type", kind, "--topic", "named", "--partition", "0"
        yield ELECTIONS, "--election-type", kind, "--topic", "named", "--partition", "9"
        yield ELECTIONS, "--election-type", kind, "--topic", "no-such", "--partition", "0"
        yield ELECTIONS, "--election-type", kind, "--all-topic-partitions"
    # ---- reassignments
    topics = file("topics.json", {"topics": [{"topic": "named"}], "version": 1})
    yield REASSIGNMENTS, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "9"
    moves = {"version": 1, "partitions": [{"topic": "named", "partition": 0, "replicas": [2, 1]},
                                          {"topic": "named", "partition": 1, "replicas": [3, 1]}]}  # fmt: skip
    plan = file("plan.json", moves)
    yield REASSIGNMENTS, "--list"
    yield REASSIGNMENTS, "--verify", "--reassignment-json-file", plan
    yield REASSIGNMENTS, "--cancel", "--reassignment-json-file", plan
    yield REASSIGNMENTS, "--execute", "--reassignment-json-file", plan
    yield ("wait for reassignments",)
    yield REASSIGNMENTS, "--verify", "--reassignment-json-file", plan
    yield REASSIGNMENTS, "--verify", "--reassignment-json-file", plan, "--preserve-throttles"
    yield REASSIGNMENTS, "--list"
    yield TOPICS, "--describe", "--topic", "named"
    yield (
        ELECTIONS,
        "--election-type",
        "preferred",
        "--path-to-json-file",
        file("elect.json", {"partitions": [{"topic": "named", "partition": 0}, {"topic": "named", "partition": 1}]}),
    )
    yield TOPICS, "--describe", "--topic", "named"
    for number, replicas in enumerate(([9, 1], [1, 1], [])):
        wrong = file(f"wrong-{number}.json", {"version": 1, "partitions": [
            {"topic": "named", "partition": 0, "replicas": replicas}]})  # fmt: skip
        yield REASSIGNMENTS, "--execute", "--reassignment-json-file", wrong
    missing = file("missing.json", {"version": 1, "partitions": [
        {"topic": "no-such", "partition": 0, "replicas": [1]},
        {"topic": "named", "partition": 7, "replicas": [1]}]})  # fmt: skip
    yield REASSIGNMENTS, "--execute", "--reassignment-json-file", missing
    yield REASSIGNMENTS, "--verify", "--reassignment-json-file", missing
    yield REASSIGNMENTS, "--cancel", "--reassignment-json-file", missing
    yield REASSIGNMENTS, "--execute", "--reassignment-json-file", plan, "--throttle", "1000000"
    yield ("wait for reassignments",)
    yield CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "named"
    yield CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "2"
    yield REASSIGNMENTS, "--verify", "--reassignment-json-file", plan
    yield CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "named"
    yield CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "2"
    # ---- records
    yield ("produce",)
    for how in ((), ("--time", "earliest"), ("--time", "max-timestamp"), ("--time", "latest", "--partitions", "0,2"),
                ("--topic-partitions", "named:1-3"), ("--time", "latest-tiered"), ("--time", "earliest-local"),
                ("--exclude-internal-topics",)):  # fmt: skip
        yield OFFSETS, *(() if "--topic-partitions" in how else ("--topic", "named")), *how
    yield DELETE_RECORDS, "--offset-json-file", file("delete.json", {"version": 1, "partitions": [
        {"topic": "named", "partition": 0, "offset": 3}, {"topic": "named", "partition": 1, "offset": -1},
        {"topic": "named", "partition": 2, "offset": 99}]})  # fmt: skip
    yield OFFSETS, "--topic", "named", "--time", "earliest"
    # ---- a group whose coordinator moves
    yield ("commit",)
    yield GROUPS, "--describe", "--group", "readers", "--offsets"
    for leader in ("1", "3"):
        yield "coordinator", leader, file("offsets.json", {"version": 1, "partitions": [
            {"topic": "__consumer_offsets", "partition": PARTITION, "replicas": ONLY[leader]}]})  # fmt: skip
        for what in ("--offsets", "--members"):
            yield GROUPS, "--describe", "--group", "readers", what
        yield "coordinated by", leader
        for what in ("--offsets", "--state", "--members"):
            yield GROUPS, "--describe", "--group", "readers", what
    yield GROUPS, "--list", "--state"
    yield CONFIGS, "--describe", "--entity-type", "brokers", "--entity-default"
    # ---- a broker stops
    yield ("stop", "3")
    yield TOPICS, "--describe", "--topic", "named"
    for what in ("--under-replicated-partitions", "--unavailable-partitions", "--at-min-isr-partitions",
                 "--under-min-isr-partitions"):  # fmt: skip
        yield TOPICS, "--describe", "--topic", "named", what
    yield CLUSTER, "list-endpoints"
    yield CLUSTER, "list-endpoints", "--include-fenced-brokers"
    yield QUORUM, "describe", "--status"
    yield DIRECTORIES, "--describe", "--topic-list", "named"
    yield ELECTIONS, "--election-type", "preferred", "--topic", "named", "--partition", "1"
    yield ELECTIONS, "--election-type", "unclean", "--topic", "named", "--partition", "1"
    yield *create, "late", "--replica-assignment", "3:1"
    yield TOPICS, "--describe", "--topic", "late"
    yield *create, "later", "--replication-factor", "3"
    for what in ("--offsets", "--state", "--members"):
        yield GROUPS, "--describe", "--group", "readers", what
    yield OFFSETS, "--topic", "named"
    away = file("away.json", {"version": 1, "partitions": [{"topic": "named", "partition": 3, "replicas": [3, 2]}]})
    yield REASSIGNMENTS, "--execute", "--reassignment-json-file", away
    yield REASSIGNMENTS, "--list"
    yield TOPICS, "--describe", "--topic", "named"
    yield CLUSTER, "unregister", "--id", "3"
    yield CLUSTER, "list-endpoints", "--include-fenced-brokers"
    yield CLUSTER, "unregister", "--id", "3"
    yield TOPICS, "--describe", "--topic", "named"
    # ---- and returns
    yield ("start", "3")
    yield CLUSTER, "list-endpoints", "--include-fenced-brokers"
    yield TOPICS, "--describe", "--topic", "named"
    yield ELECTIONS, "--election-type", "preferred", "--all-topic-partitions"
    yield TOPICS, "--describe", "--topic", "named"
    yield TOPICS, "--delete", "--topic", "named"
    yield TOPICS, "--list", "--exclude-internal"


def _coordinator(stage: Stage) -> int:
    found = stage.admin.list_topics("__consumer_offsets", timeout=10).topics["__consumer_offsets"]
    return int(found.partitions[PARTITION].leader)


def _in_sync(stage: Stage) -> bool:
    rows = stage.admin.list_topics("named", timeout=10).topics["named"].partitions.values()
    return all(sorted(row.isrs) == sorted(row.replicas) for row in rows)


def acts(stage: Stage, what: str, *words: str) -> None:
    """Do what no tool can do."""
    if what == "wait for reassignments":
        stage.until(
            "no reassignment is under way", lambda: "No partition reassignments found" in stage(REASSIGNMENTS, "--list")
        )
    elif what == "produce":
        producer = confluent_kafka.Producer({"bootstrap.servers": stage.server.bootstrap, "log_level": 0}, logger=None)
        for number in range(20):
            producer.produce("named", b"v", partition=number % 4, timestamp=NOW_MS + number)
        assert producer.flush(PATIENCE_S) == 0
    elif what == "commit":
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": stage.server.bootstrap, "group.id": "readers", "log_level": 0}, logger=None
        )
        rows = [confluent_kafka.TopicPartition("named", number, number + 1) for number in range(4)]
        consumer.commit(offsets=rows, asynchronous=False)
        consumer.close()
    elif what in ("stop", "start"):
        (node,) = map(int, words)
        (stage.server.stop_node if what == "stop" else stage.server.start_node)(node)
        stage.until(
            f"{what} {node}", lambda: (node in stage.admin.list_topics(timeout=10).brokers) == (what == "start")
        )
        if what == "start":
            stage.until("all are in sync", lambda: _in_sync(stage))
    elif what == "coordinated by":
        stage.until("the coordinator has moved", lambda: _coordinator(stage) == int(words[0]))
        acts(stage, "wait for reassignments")
    elif what == "coordinator":
        # the next request is sent while the group moves
        output = stage(REASSIGNMENTS, "--execute", "--additional", "--reassignment-json-file", words[1])
        assert "Successfully started partition reassignment" in output, output


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["nodes", "cluster"])
def test_each_cluster_tool_prints_the_same_for_muster_and_kafka(
    kind: str, tools: Tools, postgres: str, tmp_path: Path
) -> None:
    with ExitStack() as ends:
        kafka = KafkaCluster(tmp_path / "kafka", PROPERTIES, racks=RACKS)
        kafka.start()
        ends.callback(kafka.kill)
        muster: Any
        if kind == "nodes":
            muster = NodesServer(tmp_path / "muster", {**PROPERTIES, "muster.nodes.racks": ",".join(RACKS)})
        else:
            muster = ClusterNodes(
                tmp_path / "muster", PROPERTIES, ends.enter_context(own_database(postgres)), racks=RACKS
            )
        muster.start()
        ends.callback(muster.kill)
        stages = Stage(muster, tools), Stage(kafka, tools)
        differ = {}
        for words in commands(tmp_path):
            if not words[0].startswith(("org.", "kafka.")):
                for stage in stages:
                    acts(stage, *words)
                continue
            ours, theirs = (stage(*words) for stage in stages)
            if ours != theirs:
                differ[" ".join(words)] = f"ours:\n{ours}\ntheirs:\n{theirs}\n"
    assert not differ, "\n".join(f"=== {words}\n{texts}" for words, texts in differ.items())
