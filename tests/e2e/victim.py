"""A group member that is there to be killed: `python -m tests.e2e.victim BOOTSTRAP TOPIC GROUP`.

Prints `assigned N` for each assignment. Its session times out after a second of silence.
"""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from tests.e2e.aio import QUICK_CONSUMER


class _Tell(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        print("assigned", len(assigned), flush=True)


async def main(bootstrap: str, topic: str, group: str) -> None:
    settings = {**QUICK_CONSUMER, "session_timeout_ms": 1000}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **settings)
    await consumer.start()
    consumer.subscribe([topic], listener=_Tell())
    try:
        async for _ in consumer:
            pass
    finally:
        await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
