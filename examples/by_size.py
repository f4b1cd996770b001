"""A strategy of one's own: whoever has the fewest partitions gets the next one.

    strategy("by_size:BySize")        # in an aiokafka consumer

Run `muster serve` first. The script creates its topic, and takes HOST:PORT of another server as its argument.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from muster.assignors.aiokafka import strategy
from muster.assignors.assignor import Assignment, Member, Topic

TOPIC, PARTITIONS = "deliveries-by-size", 8


class BySize:
    """Deals partitions out one by one. Members and topics in the order of their names: all leaders decide the same."""

    name = "by-size"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """Share the partitions of the subscribed topics among the members."""
        shares: Assignment = {member.member_id: {} for member in members}
        sizes = dict.fromkeys(sorted(shares), 0)
        for topic in sorted(topics):
            wanted_by = [member.member_id for member in members if topic in member.topics]
            for partition in range(topics[topic].partitions):
                member = min(wanted_by, key=lambda name: (sizes[name], name))
                shares[member].setdefault(topic, []).append(partition)
                sizes[member] += 1
        return shares


async def create_topic(server: str) -> None:
    """Create the topic if it does not exist."""
    admin = AIOKafkaAdminClient(bootstrap_servers=server)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, replication_factor=1)])
    finally:
        await admin.close()


async def main(server: str) -> None:
    """Show who got what."""
    await create_topic(server)
    consumers = [
        AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=server,
            group_id="couriers-by-size",
            heartbeat_interval_ms=500,
            partition_assignment_strategy=[strategy(f"{__name__}:BySize")],
        )
        for _ in range(2)
    ]
    await asyncio.gather(*[consumer.start() for consumer in consumers])
    try:
        async with asyncio.timeout(60):
            while not all(len(consumer.assignment()) == PARTITIONS / 2 for consumer in consumers):  # noqa: ASYNC110  # no client knows it
                await asyncio.sleep(0.05)
        print("two share", sorted(tp.partition for consumer in consumers for tp in consumer.assignment()))
    finally:
        await asyncio.gather(*[consumer.stop() for consumer in consumers])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
