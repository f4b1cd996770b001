"""The states of share groups beside Kafka: the same answers and records, and logs that move from one to the other."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from muster.coordinator.log.records import batches
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import delete_share_group_state as delete
from muster.protocol.messages import initialize_share_group_state as initialize
from muster.protocol.messages import read_share_group_state as read
from muster.protocol.messages import read_share_group_state_summary as summary
from muster.protocol.messages import write_share_group_state as write
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.records import SHARE_STATE
from tests.conformance.test_log_transactions import connected, topic_ids, whole
from tests.e2e.conftest import create_topic
from tests.support.muster import Client
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

STATE: Final = "__share_group_state"
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
KAFKAS: Final = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
STEPS: Final = int(os.environ.get("MUSTER_SHARE_STATE_STEPS", "3000"))
AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[KafkaServer, MusterServer]]:
    """One server of each kind, not started."""
    kafka = KafkaServer(tmp_path / "kafka", {**PROPERTIES, **KAFKAS})
    muster = MusterServer(tmp_path / "muster", PROPERTIES)
    yield kafka, muster
    for server in (kafka, muster):
        if server.running:
            server.kill()


# ---- steps


class Step(NamedTuple):
    """A request about one share partition, without the id of its topic."""

    kind: str
    group: str
    partition: int
    values: tuple[Any, ...] = ()


def steps(seed: int, count: int) -> Iterator[Step]:
    """Random requests, mostly valid."""
    random = Random(seed)
    for _ in range(count):
        group, partition = random.choice("gh"), random.choice((-1, 2, *[0, 1] * 6))
        epoch, leader = random.choice((-1, 0, 1, *[2] * 20)), random.choice((-1, 0, 1, 2, *[3] * 25))
        kind = random.choices(("initialize", "read", "write", "summary", "delete"), (8, 20, 70, 10, 1))[0]
        values: tuple[Any, ...] = ()
        if kind == "initialize":
            values = epoch, random.choice((-1, 0, 5))
        elif kind in ("read", "summary"):
            values = (leader,)
        elif kind == "write":
            rows = []
            for _ in range(random.randrange(5)):
                first = random.randrange(60)
                rows.append((first, first + random.randrange(9), random.choice((0, 2, 3, 4)), random.randrange(1, 5)))
            values = epoch, leader, random.choice((-1, -1, random.randrange(60))), random.randrange(-1, 9), rows
        yield Step(kind, group, partition, values)


def request(step: Step, topic_id: bytes) -> Any:
    group, partition, values = step.group, step.partition, step.values
    row: Any
    if step.kind == "initialize":
        row = initialize.PartitionData(partition, *values)
        return initialize.InitializeShareGroupStateRequest(group, [initialize.InitializeStateData(topic_id, [row])])
    if step.kind == "read":
        row = read.PartitionData(partition, *values)
        return read.ReadShareGroupStateRequest(group, [read.ReadStateData(topic_id, [row])])
    if step.kind == "summary":
        row = summary.PartitionData(partition, *values)
        return summary.ReadShareGroupStateSummaryRequest(group, [summary.ReadStateSummaryData(topic_id, [row])])
    if step.kind == "delete":
        row = delete.PartitionData(partition)
        return delete.DeleteShareGroupStateRequest(group, [delete.DeleteStateData(topic_id, [row])])
    epoch, leader, start, done, rows = values
    row = write.PartitionData(partition, epoch, leader, start, done, [write.StateBatch(*one) for one in rows])
    return write.WriteShareGroupStateRequest(group, [write.WriteStateData(topic_id, [row])])


async def ask(client: Client, step: Step, topic_id: bytes) -> str:
    """The row of the answer, as text."""
    while True:
        answer = await client.ask(request(step, topic_id))
        (topic,) = answer.results
        (row,) = topic.partitions
        if row.error_code not in AGAIN:
            return repr(row)
        await asyncio.sleep(0.1)


async def found_coordinator(client: Client, topic_id: bytes) -> None:
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    while True:
        answer = await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{text}:0"]))
        if not answer.coordinators[0].error_code:
            return
        await asyncio.sleep(0.1)


async def play(server: ServerProcess, seed: int, count: int) -> list[str]:
    """Ask everything; the answers in order."""
    async with connected(server) as client:
        topic_id = (await topic_ids(client, "orders"))["orders"]
        await found_coordinator(client, topic_id)
        return [await ask(client, step, topic_id) for step in steps(seed, count)]


# ---- records


def records(logs: Path) -> dict[str, list[str]]:
    """The records of each share partition, in their order, without topic ids and times."""
    found: dict[str, list[str]] = {}
    for folder in sorted(logs.glob(f"{STATE}-*")):
        for path in sorted(folder.glob("*.log")):
            for _, some in batches.read(whole(path)):
                for record in some:
                    kind, key = SHARE_STATE.decode_key(record.key or b"")
                    value: Any = None if record.value is None else SHARE_STATE.decode_value(kind, record.value)[1]
                    key.topic_id = b""
                    if hasattr(value, "create_timestamp"):
                        assert value.write_timestamp >= value.create_timestamp > 0
                        value.create_timestamp = value.write_timestamp = 0
                    found.setdefault(f"{key.group_id}-{key.partition}", []).append(f"{type(key).__name__} {value}")
    return found


def test_random_requests_have_the_same_answers_and_records(servers: tuple[KafkaServer, MusterServer]) -> None:
    seed = int(os.environ.get("MUSTER_SEED", "7"))
    answers, logs = [], []
    for server in servers:
        server.start()
        create_topic(server, "orders", 2)
        answers.append(asyncio.run(play(server, seed, STEPS)))
        server.kill() if server is servers[0] else server.stop()
        data = server.workdir / "data"
        logs.append(records(data / "logs" if server is servers[0] else data))
    for number, step in enumerate(steps(seed, STEPS)):
        assert answers[1][number] == answers[0][number], (seed, number, step)
    assert logs[1] == logs[0]
    assert sum(map(len, logs[0].values())) > STEPS // 4


# ---- logs that move


async def states(server: ServerProcess, topic_id: bytes) -> list[str]:
    """All that a new leader of the partitions reads."""
    found = []
    async with connected(server) as client:
        await found_coordinator(client, topic_id)
        for group in "gh":
            for partition in (0, 1):
                found.append(await ask(client, Step("read", group, partition, (9,)), topic_id))
                found.append(await ask(client, Step("summary", group, partition, (9,)), topic_id))
    return found


async def orders_of(server: ServerProcess) -> bytes:
    async with connected(server) as client:
        return (await topic_ids(client, "orders"))["orders"]


async def written(server: ServerProcess, topic_id: bytes) -> str:
    """One more write by the leader that `states` has announced."""
    async with connected(server) as client:
        await found_coordinator(client, topic_id)
        epoch = 5
        await ask(client, Step("initialize", "g", 0, (epoch, 0)), topic_id)
        await ask(client, Step("read", "g", 0, (9,)), topic_id)
        return await ask(client, Step("write", "g", 0, (epoch, 9, 70, 0, [(70, 75, 2, 1)])), topic_id)


def test_states_move_from_a_killed_kafka_to_muster_and_back(servers: tuple[KafkaServer, MusterServer]) -> None:
    kafka, muster = servers
    logs, data = kafka.workdir / "data" / "logs", muster.workdir / "data"
    kafka.start()
    create_topic(kafka, "orders", 2)
    asyncio.run(play(kafka, 11, 300))
    topic_id = asyncio.run(orders_of(kafka))
    of_kafka = asyncio.run(states(kafka, topic_id))
    kafka.kill()
    for folder in [*logs.glob(f"{STATE}-*"), *logs.glob("orders-*")]:
        shutil.copytree(folder, data / folder.name)
    muster.start()
    assert asyncio.run(orders_of(muster)) == topic_id
    assert asyncio.run(states(muster, topic_id)) == of_kafka
    assert "error_code=0" in asyncio.run(written(muster, topic_id))
    of_muster = asyncio.run(states(muster, topic_id))
    muster.kill()
    for folder in logs.glob(f"{STATE}-*"):
        for path in folder.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (data / folder.name).iterdir():
            if path.name != "partition.metadata":
                shutil.copy(path, folder)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (logs / name).unlink(missing_ok=True)
    kafka.start()
    assert asyncio.run(states(kafka, topic_id)) == of_muster
