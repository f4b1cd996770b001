"""Random histories of share groups on Kafka 4.4.0 and on a node of Muster.

MUSTER_FREEZE=1 records new histories for `make test`. MUSTER_HISTORIES says how many are compared, and MUSTER_SEED is
the first. A difference counts if it shows each time that the history is played: on a busy machine, Kafka may be
late.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.api.share.histories import (
    BROKEN,
    DISCONNECT,
    GOLDEN,
    PRODUCE,
    Drawing,
    answer_of,
    difference,
    records,
    request,
)
from tests.coordinator.api.share.test_histories import played
from tests.support.muster import Client
from tests.support.servers import KafkaServer

FROZEN = 60
STEPS = 60
SEED = 1
MEMBER = "H" * 22
TRIES = 3
SETTLED_S = 0.25
"""How long Kafka may take until the records of a session that has ended are available again."""
pytestmark = pytest.mark.timeout(4000)


class Kafka:
    """A Kafka, and a share group that reads one topic."""

    def __init__(self, host: str, port: int) -> None:
        self._at = host, port
        self._clients: dict[str, Client] = {}
        self._groups = 0
        self.group, self.topic_id = "", b""

    async def client(self, name: str) -> Client:
        """The connection of a member."""
        if name not in self._clients:
            self._clients[name] = Client(*await asyncio.open_connection(*self._at, limit=1 << 24), "test")
        return self._clients[name]

    async def disconnect(self, name: str) -> None:
        """End the connection of a member."""
        client = self._clients.pop(name, None)
        if client is not None:
            client.writer.close()
            await client.writer.wait_closed()

    async def ask(self, name: str, message: Any, version: int | None = None) -> Any:
        """Ask on the connection of a member."""
        return await (await self.client(name)).ask(message, version)

    async def disconnect_all(self) -> None:
        """End all connections."""
        for name in [*self._clients]:
            await self.disconnect(name)

    async def begin(self, seed: int, drawing: Drawing) -> None:
        """Make the topic and the group, with a member that keeps the group alive."""
        await self.disconnect_all()
        self._groups += 1
        name = f"{seed}-{os.getpid()}-{self._groups}"
        self.group = f"g-{name}"
        topics = [CreatableTopic(f"t-{name}", drawing.partitions, 1)]
        await self.ask("admin", CreateTopicsRequest(topics, 5_000))
        configs = [AlterableConfig(key, 0, value) for key, value in drawing.configs.items()]
        resources = [AlterConfigsResource(32, self.group, configs)]
        (done,) = (await self.ask("admin", IncrementalAlterConfigsRequest(resources))).responses
        assert done.error_code == 0, done.error_message
        while (await self._coordinator()) != 0:  # noqa: ASYNC110  # another process decides
            await asyncio.sleep(0.2)
        asked = MetadataRequest([MetadataRequestTopic(name=f"t-{name}")], False)
        while not (found := (await self.ask("admin", asked)).topics[0]).partitions:  # noqa: ASYNC110  # another process decides
            await asyncio.sleep(0.1)
        self.topic_id = found.topic_id
        await self._join(f"t-{name}", drawing.partitions)
        step = {"do": "fetch", "member": "warm", "rows": range(drawing.partitions), "acks": {}, "forget": []}
        wait = {"max_wait_ms": 600, "min_bytes": 1, "max_bytes": 1_000, "max_records": 1}
        await self.ask("warm", request({**step, "epoch": 0, "fields": wait}, self.group, self.topic_id))

    async def _coordinator(self) -> int:
        found = await self.ask("admin", FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]))
        return int(found.coordinators[0].error_code)

    async def _join(self, topic: str, partitions: int) -> None:
        epoch = 0
        while True:
            names = [topic] if epoch == 0 else None
            answer = await self.ask("admin", ShareGroupHeartbeatRequest(self.group, MEMBER, epoch, None, names))
            if not answer.error_code:
                epoch = answer.member_epoch
                given = answer.assignment.topic_partitions if answer.assignment else ()
                if sum(len(one.partitions) for one in given) == partitions:
                    return
            await asyncio.sleep(0.3)

    async def produce(self, number: int, count: int) -> None:
        """Append one batch."""
        rows = [TopicProduceData("", self.topic_id, [PartitionProduceData(number, records(count))])]
        answer = await self.ask("admin", ProduceRequest(None, -1, 5_000, rows))
        assert answer.responses[0].partition_responses[0].error_code == 0


async def recording(kafka: Kafka, seed: int) -> dict[str, Any]:
    """Draw a history and play it to Kafka."""
    rng = random.Random(seed)
    drawing = Drawing(rng)
    await kafka.begin(seed, drawing)
    steps = [drawing.produce() for _ in range(3)]
    for step in steps:
        await kafka.produce(step["partition"], step["count"])
    for _ in range(STEPS):
        step = drawing.step()
        steps.append(step)
        if step["do"] == PRODUCE:
            await kafka.produce(step["partition"], step["count"])
        elif step["do"] == DISCONNECT:
            await kafka.disconnect(step["member"])
            await asyncio.sleep(SETTLED_S)
        else:
            asked = request(step, kafka.group, kafka.topic_id)
            step["answer"] = answer_of(await kafka.ask(step["member"], asked, step["version"]))
            if step["answer"]["error"] == BROKEN:
                break
            drawing.note(step)
            if step["epoch"] == -1:
                await asyncio.sleep(SETTLED_S)
    found: dict[str, Any] = json.loads(
        json.dumps({"configs": drawing.configs, "partitions": drawing.partitions, "steps": steps})
    )
    return found


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Kafka]:
    """A Kafka whose groups may have short locks."""
    server = KafkaServer(tmp_path / "kafka", {"share.coordinator.state.topic.num.partitions": "3"})
    await asyncio.to_thread(server.start)
    kafka = Kafka(*server.address)
    try:
        yield kafka
    finally:
        await kafka.disconnect_all()
        await asyncio.to_thread(server.stop)


async def test_random_histories_are_answered_alike(tmp_path: Path) -> None:
    frozen = bool(os.environ.get("MUSTER_FREEZE"))
    count = FROZEN if frozen else int(os.environ.get("MUSTER_HISTORIES", "20"))
    first = SEED if frozen else int(os.environ.get("MUSTER_SEED") or random.SystemRandom().randrange(1 << 30))
    histories, differences = [], []
    async with running(tmp_path) as kafka:
        for seed in range(first, first + count):
            for _ in range(TRIES):
                history = await recording(kafka, seed)
                found = difference(history["steps"], played(history))
                if found is None:
                    break
            else:
                differences.append(f"seed {seed}, {found}")
            histories.append(history)
    print(f"{sum(len(history['steps']) for history in histories)} steps from seed {first} on")
    if frozen:
        GOLDEN.write_bytes(gzip.compress(json.dumps(histories, separators=(",", ":")).encode(), mtime=0))
    assert not differences, "\n".join(differences)
