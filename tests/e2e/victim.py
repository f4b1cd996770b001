"""A group member that tests kill: `python -m tests.e2e.victim BOOTSTRAP TOPIC GROUP [name=value ...]`.

It prints `assigned N` for each assignment. Its session times out after a second of silence, unless a setting of its
consumer differs (`session_timeout_ms=10000`, `group_instance_id=...`).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from tests.e2e.aio import QUICK_CONSUMER
from tests.support.consumers import stopped
from tests.support.servers import REPOSITORY


class _Tell(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        print("assigned", len(assigned), flush=True)


async def main(bootstrap: str, topic: str, group: str, *more: str) -> None:
    """Consume until the process is ended."""
    settings: dict[str, Any] = {**QUICK_CONSUMER, "session_timeout_ms": 1000, "client_id": "victim"}
    for name, value in (pair.split("=", 1) for pair in more):
        settings[name] = int(value) if value.isdigit() else value
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **settings)
    await consumer.start()
    consumer.subscribe([topic], listener=_Tell())
    try:
        async for _ in consumer:
            pass
    finally:
        await stopped(consumer)


@asynccontextmanager
async def victim(bootstrap: str, topic: str, group: str, *more: str) -> AsyncIterator[Process]:
    """A process with a member that has its first assignment. The process is killed at the end if it still runs."""
    command = [sys.executable, "-m", __name__, bootstrap, topic, group, *more]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=REPOSITORY)
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        assert line.startswith(b"assigned"), line
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
