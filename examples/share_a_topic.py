"""Three consumers share a topic of eight partitions; one leaves, and the others take its share.

Run `muster serve` first. The script creates its topic, and takes HOST:PORT of another server as its argument.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

TOPIC, PARTITIONS = "deliveries", 8


async def create_topic(server: str) -> None:
    """Create the topic if it does not exist."""
    admin = AIOKafkaAdminClient(bootstrap_servers=server)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, replication_factor=1)])
    finally:
        await admin.close()


async def until(ready: Callable[[], bool]) -> None:
    """Wait for the group to come to rest."""
    async with asyncio.timeout(60):
        while not ready():  # noqa: ASYNC110  # three clients know a part each; none of them reports that the group rests
            await asyncio.sleep(0.05)


def shares(consumers: dict[str, AIOKafkaConsumer]) -> dict[str, list[int]]:
    """Name -> partitions."""
    return {name: sorted(tp.partition for tp in consumer.assignment()) for name, consumer in consumers.items()}


def shared_evenly(consumers: dict[str, AIOKafkaConsumer]) -> bool:
    """Whether every partition has one owner and nobody has two more than another."""
    partitions = next(iter(consumers.values())).partitions_for_topic(TOPIC) or set()
    owned = [len(share) for share in shares(consumers).values()]
    return len(partitions) == sum(owned) and max(owned) - min(owned) <= 1


async def main(server: str) -> None:
    """Show the shares before and after one leaves."""
    await create_topic(server)
    consumers = {
        name: AIOKafkaConsumer(
            TOPIC, bootstrap_servers=server, group_id="couriers", client_id=name, heartbeat_interval_ms=500
        )
        for name in ("ann", "bob", "cid")
    }
    starts: list[Awaitable[None]] = [consumer.start() for consumer in consumers.values()]
    await asyncio.gather(*starts)
    try:
        await until(lambda: shared_evenly(consumers))
        print("three:", shares(consumers))
        await consumers.pop("cid").stop()
        await until(lambda: shared_evenly(consumers))
        print("two:", shares(consumers))
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers.values()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
