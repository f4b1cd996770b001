"""Three consumers share a topic of eight partitions; one leaves, and the others take its share.

Run `muster serve --topic orders:8` first; takes HOST:PORT of another server as its argument.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer

PARTITIONS = 8


async def until(ready: Callable[[], bool]) -> None:
    """Wait for the group to come to rest."""
    while not ready():  # noqa: ASYNC110  # three clients know a part each; none of them tells that the group is at rest
        await asyncio.sleep(0.05)


def shares(consumers: dict[str, AIOKafkaConsumer]) -> dict[str, list[int]]:
    """Name -> partitions."""
    return {name: sorted(tp.partition for tp in consumer.assignment()) for name, consumer in consumers.items()}


def shared_evenly(consumers: dict[str, AIOKafkaConsumer]) -> bool:
    """Whether every partition has one owner and nobody has two more than another."""
    owned = [len(partitions) for partitions in shares(consumers).values()]
    return sum(owned) == PARTITIONS and max(owned) - min(owned) <= 1


async def main(server: str) -> None:
    """Show the shares before and after one leaves."""
    consumers = {
        name: AIOKafkaConsumer("orders", bootstrap_servers=server, group_id="kitchen", heartbeat_interval_ms=500)
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
