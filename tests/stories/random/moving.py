"""Leaders and coordinators move during histories, in the same way on all servers: by reassignment, as operators do
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from muster.protocol.message import Message
from muster.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from muster.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.muster import Client

INTERNAL = ("__consumer_offsets", "__transaction_state")
PATIENCE_S = 20.0


class Mover:
    """Moves one partition of a coordinator at a time. `moves`: how many moves happened on all servers."""

    def __init__(self, bootstraps: Sequence[str], seed: int) -> None:
        self._servers = list(bootstraps)
        self._random = Random(seed)
        self.moves = 0

    async def run(self, every_s: float) -> None:
        """Move partitions until it is cancelled."""
        while True:
            await asyncio.sleep(every_s)
            topic = self._random.choice(INTERNAL)
            place, step = self._random.random(), self._random.choice((1, 2))
            if all(await asyncio.gather(*(move(server, topic, place, step) for server in self._servers))):
                self.moves += 1


async def move(bootstrap: str, topic: str, place: float, step: int) -> bool:
    """Let the broker `step` places further lead the partition at that part of the topic; whether this happened."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.TimeoutError):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            return await asyncio.wait_for(_move(Client(reader, writer, "mover"), topic, place, step), PATIENCE_S)
        finally:
            writer.close()
    return False


async def _move(client: Client, topic: str, place: float, step: int) -> bool:
    async def asked(request: Message) -> Any:
        return await client.ask(request, None)

    async def leaders() -> tuple[list[int], list[Any]]:
        found = await asked(MetadataRequest([MetadataRequestTopic(name=topic)]))
        ids = sorted(row.node_id for row in found.brokers)
        return ids, sorted(found.topics[0].partitions, key=lambda row: row.partition_index)

    ids, rows = await leaders()
    if not rows:
        return False
    row = rows[int(place * len(rows))]
    if row.leader_id not in ids:
        return False
    index, at = row.partition_index, ids.index(row.leader_id) + step
    wanted = [ids[(at + n) % len(ids)] for n in range(len(row.replica_nodes))]
    partition = ReassignablePartition(index, wanted)
    answer = await asked(AlterPartitionReassignmentsRequest(5_000, topics=[ReassignableTopic(topic, [partition])]))
    if answer.error_code or answer.responses[0].partitions[0].error_code:
        return False
    while rows[index].leader_id != wanted[0]:
        await asyncio.sleep(0.1)
        await asked(ElectLeadersRequest(0, [TopicPartitions(topic, [index])], 5_000))
        _, rows = await leaders()
    return True
