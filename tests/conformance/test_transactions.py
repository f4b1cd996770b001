"""Transactions with Kafka's own client, the newest one and one from before transaction.version 2. Kafka's command line
tools read the segments afterwards.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.test_log_segments import dump
from tests.e2e.conftest import create_topic, new_server
from tests.e2e.ledger import eventually_sync
from tests.exactly_once.by_hand import Producer
from tests.exactly_once.checker import Checker
from tests.exactly_once.clients import old_jars
from tests.exactly_once.run import SETTINGS, data_dir, open_transactions
from tests.support.servers import KAFKA_SCRIPTS, QUICK, ServerProcess, kafka_jars

HERE = Path(__file__).parent
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
Tool = Callable[..., str]

ABORTED = re.compile(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)")

STATES = {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}
TOLD = """\
open: Ongoing 2 partitions, 1 producer
committed before the end: none
shown before the end: []
committed: 7, CompleteCommit, 0 producers
aborted: 7, CompleteAbort
the zombie sends: InvalidProducerEpochException
the zombie sends offsets: InvalidProducerEpochException
the zombie commits: InvalidProducerEpochException
the zombie aborts: ProducerFencedException
the fenced one commits: ProducerFencedException
aborted by an operator: 0 producers, coordinator: Ongoing
the slow one sends: InvalidProducerEpochException
the slow one commits: InvalidProducerEpochException
"""
NOW = """\
the slow one aborts: ok
the slow one begins anew: ok
listed: 2
shown: [kept, of the heir, slow, and anew]
written: 8
"""
BEFORE = """\
the slow one aborts: ProducerFencedException
the slow one begins anew: ProducerFencedException
listed: 2
shown: [kept, of the heir]
written: 7
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that soon aborts transactions that are open for too long."""
    properties = {**QUICK, **SETTINGS, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    server = new_server(tmp_path_factory.mktemp("server"), properties)
    server.start()
    yield server
    if server.running:
        server.stop()


BY_OPERATOR: set[str] = set()
"""Topics in which an operator aborted a transaction: its coordinator did not decide that."""


def run_java(class_path: str, classes: Path, *arguments: str) -> str:
    """Run Transactions.java with these jars; return its output."""
    source = HERE / "Transactions.java"
    subprocess.run(["javac", "-nowarn", "-Xlint:none", "-cp", class_path, "-d", classes, source], check=True)
    quiet = f"-Dlog4j2.configurationFile={KAFKA_SCRIPTS / 'log4j2-quiet.xml'}"
    command = ["java", "-Xmx128M", quiet, "-cp", f"{classes}:{class_path}", "Transactions", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("version", ["4.4", "3.7"])
def test_the_errors_of_kafkas_transactional_client_are_as_recorded(
    server: ServerProcess, new_name: Tool, tmp_path: Path, version: str
) -> None:
    topic, group = new_name("topic"), new_name("group")
    create_topic(server, topic, 1)
    BY_OPERATOR.add(topic)
    class_path = f"{kafka_jars() if version == '4.4' else old_jars(tmp_path)}/*"
    said = run_java(class_path, tmp_path / "classes", server.bootstrap, topic, group)
    assert said == TOLD + (NOW if version == "4.4" else BEFORE)


async def _nothing() -> None:
    """Do nothing: this server is not killed."""


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


async def test_kafka_transactions_lists_and_describes_transactions_and_producers(
    server: ServerProcess, tool: Tool, new_name: Tool
) -> None:
    topic, group, names = new_name("topic"), new_name("group"), [new_name("id") for _ in range(3)]
    create_topic(server, topic, 2)
    producers = [Producer(server.address, name, 2, _nothing) for name in names]
    for number, producer in enumerate(producers):
        await producer.init()
        await producer.write(topic, 0, b"%d" % number)
        await producer.offset(group, topic, 0, number)
    await producers[0].end(True)
    await producers[1].end(False)
    eventually_sync(lambda: names[2:] == [one for one in open_transactions(server) if one in names], "two ends")

    listed = {row[0]: row for row in rows(tool(TRANSACTIONS, "list"))[1:]}
    assert [listed[name][3] for name in names] == ["CompleteCommit", "CompleteAbort", "Ongoing"]
    assert [
        row[0] for row in rows(tool(TRANSACTIONS, "list", "--transactional-id-pattern", f"{names[0]}.*"))[1:]
    ] == names[:1]
    assert names[2] not in tool(TRANSACTIONS, "list", "--duration-filter", "600000")

    header, row = rows(tool(TRANSACTIONS, "describe", "--transactional-id", names[2]))
    reported = dict(zip(header, row, strict=False))
    assert (reported["TransactionalId"], reported["TransactionState"], reported["TransactionTimeoutMs"]) == (
        names[2],
        "Ongoing",
        "60000",
    )
    assert f"{topic}-0" in row[-1]
    assert "__consumer_offsets" in row[-1]

    producer_row = next(
        row
        for row in rows(tool(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0"))
        if row[0] == listed[names[2]][2]
    )
    header = rows(tool(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0"))[0]
    reported = dict(zip(header, producer_row, strict=False))
    assert reported["CurrentTransactionStartOffset"] == "2"
    await producers[2].end(True)
    for producer in producers:
        await producer.close()
    assert "transaction.version" in tool(FEATURES, "describe")


async def test_a_hanging_transaction_is_found_and_aborted(
    start_server: Callable[..., ServerProcess], new_name: Tool
) -> None:
    server = start_server({"transaction.partition.verification.enable": "false"})
    topic = new_name("topic")
    create_topic(server, topic, 1)

    def run(*arguments: str) -> list[list[str]]:
        command = [KAFKA_SCRIPTS / "kafka-tool.sh", TRANSACTIONS, "--bootstrap-server", server.bootstrap, *arguments]
        return rows(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)

    hanging = Producer(server.address, new_name("id"), 1, _nothing, adds_partitions=False)
    await hanging.init()
    await hanging.write(topic, 0, b"of no transaction")
    await hanging.close()
    find = ["find-hanging", "--topic", topic, "--partition", "0", "--max-transaction-timeout", "0"]
    header, row = await asyncio.to_thread(run, *find)
    found = dict(zip(header, row, strict=True))
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (topic, "0", "0")
    await asyncio.to_thread(run, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert len(await asyncio.to_thread(run, *find)) == 1


def test_kafkas_transactional_copier_and_verifiable_clients_work(
    server: ServerProcess, tool: Tool, new_name: Tool
) -> None:
    source, target, group = new_name("source"), new_name("target"), new_name("group")
    create_topic(server, source, 1)
    create_topic(server, target, 1)
    produced = tool(VERIFIABLE_PRODUCER, "--topic", source, "--max-messages", "200")
    assert sum(json.loads(line)["name"] == "producer_send_success" for line in produced.splitlines()) == 200
    copied = subprocess.run(
        [KAFKA_SCRIPTS / "kafka-tool.sh", COPIER, "--broker-list", server.bootstrap,
         "--transactional-id", new_name("copier"),
         "--consumer-group", group, "--input-topic", source, "--input-partition", "0", "--output-topic", target,
         "--transaction-size", "20", "--max-messages", "200", "--enable-random-aborts"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert copied.returncode == 0, f"{copied.stdout}\n{copied.stderr}"
    assert json.loads(copied.stdout.splitlines()[-1])["remaining"] == 0
    described = next(row for row in rows(tool(GROUPS, "--describe", "--group", group)) if row[0] == group)
    assert described[3:6] == ["200", "200", "0"]
    consumed = tool(
        VERIFIABLE_CONSUMER, "--topic", target, "--group-id", f"{group}-v", "--max-messages", "200", "--verbose",
        "--reset-policy", "earliest", stdin="",
    )  # fmt: skip
    values = [json.loads(line) for line in consumed.splitlines()]
    assert sum(value["name"] == "record_data" for value in values) >= 200


def test_kafkas_tools_read_the_transactions_in_our_segments(server: ServerProcess, tmp_path: Path) -> None:
    """This must be the last test of the file, because it stops the server."""
    eventually_sync(lambda: set(open_transactions(server).values()) <= {"Ongoing"}, "what has been decided to end")
    server.stop()
    data = data_dir(server)
    checker = Checker(data)
    decided = sum(len(one.markers) for one in checker.partitions.values())
    assert decided

    logs = sorted(data.glob("__transaction_state-*/*.log"))
    text = dump(logs, "--transaction-log-decoder", "--print-data-log")
    assert text.count("isvalid: true") == text.count("baseOffset:")
    assert set(re.findall('"transactionStatus":"([A-Za-z]+)"', text)) == STATES

    text = dump(sorted(data.glob("__consumer_offsets-*/*.log")), "--offsets-decoder", "--print-data-log")
    marks = sum(
        len(found) for place, one in checker.partitions.items() if place.topic == "__consumer_offsets"
        for found in one.markers.values()
    )  # fmt: skip
    assert text.count("endTxnMarker") == marks > 0

    found = []
    for path in sorted(data.glob("*-*/*.txnindex")):
        if path.stat().st_size:
            found += ABORTED.findall(dump([path]))
    expected = sorted(one for partition in checker.partitions.values() for one in partition.aborted)
    assert sorted(tuple(map(int, row)) for row in found) == expected
    snapshots = [path for path in sorted(data.glob("*-*/*.snapshot")) if not path.parent.name.startswith("__cluster")]
    assert snapshots
    text = dump(snapshots)
    assert "producerId:" in text
    assert [fault for fault in checker.faults if fault.rpartition("-0: ")[0] not in BY_OPERATOR] == []
