"""Offsets partitions move between servers. A Kafka broker's are copied into a Muster data directory, and Muster's into
Kafka's. The new server answers OffsetFetch and DescribeGroups as the old one did.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from muster.coordinator.log import FileStorage, LogConfig, LogManager, LogSettings
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.system.clock import ManualClock
from tests.conformance.test_log_segments import dump
from tests.coordinator.log.support import PendingResult
from tests.e2e.aio import QUICK_CONSUMER, administering, consuming, producing
from tests.e2e.conftest import create_topic
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

PARTITIONS = 5
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.retention.check.interval.ms": "600000",
}
GROUPS = ["simple", "left", "members", "transactions", "never-heard-of"]
NAMES_IN_KAFKA = ("partition.metadata",)
Facts = dict[str, Any]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[KafkaServer, MusterServer]]:
    """One server of each kind, not started."""
    kafka = KafkaServer(tmp_path / "kafka", PROPERTIES)
    muster = MusterServer(tmp_path / "muster", PROPERTIES)
    yield kafka, muster
    for server in (kafka, muster):
        if server.running:
            server.kill()


async def live(server: ServerProcess, *, transactions: bool) -> Facts:
    """Let groups do all kinds of things, and end the server under a group with two members. Returns its last
    answers.
    """
    create_topic(server, "orders", 4)
    at = server.bootstrap
    first = TopicPartition("orders", 0)
    async with consuming(at, group_id="simple") as consumer:
        consumer.assign([TopicPartition("orders", index) for index in range(3)])
        for offset in range(30):
            await consumer.commit({TopicPartition("orders", offset % 3): OffsetAndMetadata(offset, f"méta {offset}")})
    async with consuming(at, "orders", group_id="left") as consumer:
        await asyncio.wait_for(consumer.getmany(timeout_ms=200), 20)
        await consumer.commit({first: 17})
    if transactions:
        await commit_in_transactions(at)
    settings = {**QUICK_CONSUMER, "group_id": "members", "session_timeout_ms": 30_000}
    members = [AIOKafkaConsumer("orders", bootstrap_servers=at, client_id=f"c-{n}", **settings) for n in range(2)]
    for member in members:
        await member.start()
    before = await settled(at)
    server.kill()
    for member in members:
        # ignore what a client reports of a server that has ended: the client cannot leave any more
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await asyncio.wait_for(member.stop(), 2)
    return before


async def commit_in_transactions(bootstrap: str) -> None:
    async with producing(bootstrap, transactional_id="t") as producer:
        for offset, good in ((1, True), (2, True), (3, False)):
            await producer.begin_transaction()
            offsets = {TopicPartition("orders", 0): offset, TopicPartition("orders", offset): offset}
            await producer.send_offsets_to_transaction(offsets, "transactions")
            await (producer.commit_transaction() if good else producer.abort_transaction())


async def settled(bootstrap: str) -> Facts:
    """The server's answers when the group `members` has two members and is stable."""
    while True:
        facts = await ask(bootstrap)
        if facts["members"][:2] == ("Stable", 2):
            return facts
        await asyncio.sleep(0.1)


async def ask(bootstrap: str) -> Facts:
    """The state of each group, its number of members, the rest of its description, and its offsets."""
    facts: Facts = {}
    async with administering(bootstrap) as admin:
        for group in GROUPS:
            (answer,) = await admin.describe_consumer_groups([group])
            _, _, state, protocol_type, protocol, members, *_ = answer.groups[0]
            offsets = await admin.list_consumer_group_offsets(group)
            committed = {(tp.topic, tp.partition): (value.offset, value.metadata) for tp, value in offsets.items()}
            facts[group] = state, len(members), protocol_type, protocol, sorted(members), committed
    return facts


def folders(data: Path) -> list[Path]:
    return sorted(path for path in data.iterdir() if path.name.startswith("__consumer_offsets-"))


def assert_is_worth_comparing(facts: Mapping[str, Any], *, transactions: bool) -> None:
    assert facts["simple"][5] == {("orders", index): (27 + index, f"méta {27 + index}") for index in range(3)}
    assert facts["left"][0] == "Empty"
    assert facts["left"][5][("orders", 0)] == (17, "")
    assert facts["members"][:4] == ("Stable", 2, "consumer", facts["members"][3])
    if transactions:
        found = {partition: offset for (_, partition), (offset, _) in facts["transactions"][5].items()}
        assert found == {0: 2, 1: 1, 2: 2}


def test_muster_reads_the_offsets_partitions_of_kafka(servers: tuple[KafkaServer, MusterServer]) -> None:
    kafka, muster = servers
    kafka.start()
    before = asyncio.run(live(kafka, transactions=True))
    assert_is_worth_comparing(before, transactions=True)
    for folder in folders(kafka.workdir / "data" / "logs"):
        shutil.copytree(folder, muster.workdir / "data" / folder.name)
    muster.start()
    assert asyncio.run(ask(muster.bootstrap)) == before
    # and once more, from its own directory
    muster.kill()
    muster.start()
    assert asyncio.run(ask(muster.bootstrap)) == before
    muster.stop()


@pytest.mark.parametrize("compacted", [False, True], ids=["as written", "compacted"])
def test_kafka_reads_the_offsets_partitions_of_muster(
    servers: tuple[KafkaServer, MusterServer], compacted: bool
) -> None:
    kafka, muster = servers
    muster.start()
    before = asyncio.run(live(muster, transactions=False))
    assert_is_worth_comparing(before, transactions=False)
    # Kafka reads its own metadata log: the topic must be in it, and its id beside the segments
    kafka.start()
    create_topic(kafka, "orders", 4)
    kafka.stop()
    logs = kafka.workdir / "data" / "logs"
    data = muster.workdir / "data"
    if compacted:
        compact(data)
    for folder in folders(logs):
        for path in folder.iterdir():
            if path.name not in NAMES_IN_KAFKA:
                path.unlink()
        for path in (data / folder.name).iterdir():
            if path.name not in NAMES_IN_KAFKA:
                shutil.copy(path, folder)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (logs / name).unlink(missing_ok=True)
    kafka.start()
    assert asyncio.run(ask(kafka.bootstrap)) == before
    kafka.stop()


def compact(data: Path) -> None:
    """Compact all offsets partitions, up to their ends; Kafka's dump tool finds no fault in the rest."""
    manager = LogManager(FileStorage(data), LogSettings())
    manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
    later = PendingResult()
    config = replace(LogConfig(cleanup_policy=("compact",)), min_cleanable_dirty_ratio=0.001)
    cleaner = Cleaner(manager, ManualClock(), later.sync, cpu_share=1.0)
    before = 0
    for index in range(PARTITIONS):
        log = manager.open_log("__consumer_offsets", index, config=config)
        before += log.size_bytes
        log.roll(0)
        cleaner.look()
        later.settle()
    assert sum(log.size_bytes for log in manager.logs()) < before / 2
    manager.close()
    paths = [path for folder in folders(data) for path in sorted(folder.glob("*.log")) if path.stat().st_size]
    text = dump(paths, "--offsets-decoder", "--deep-iteration")
    assert "isvalid: true" in text
    assert "isvalid: false" not in text
    indexes = [path for folder in folders(data) for path in sorted(folder.glob("*index"))]
    assert "Mismatches" not in dump(indexes)
