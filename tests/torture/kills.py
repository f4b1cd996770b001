"""A server is killed again and again while clients commit; after each start the test asks what it remembers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from muster.client.event_reader import Events
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.consumers import stopped
from tests.support.servers import ServerProcess
from tests.support.tcp_world import TcpWorld
from tests.torture.clients import NOT_NOW, Churner, Committer, connected
from tests.torture.ledger import Ledger, Place

TOPIC: Final = "work"
GROUP: Final = "shared"
CONSUMERS: Final = 3
PARTITIONS: Final = 6
LONG_MS: Final = 7 * 86_400_000
MAX_ACKS: Final = 400
"""The most acknowledgements between two kills."""


class Killing:
    """One run. `seed` decides when the kills come, as far as processes allow it."""

    def __init__(self, server: ServerProcess, seed: int, on_kill: Callable[[int], None] = lambda number: None) -> None:
        self.server = server
        self.ledger = Ledger()
        self._random = random.Random(seed)
        self._on_kill = on_kill
        self._up = asyncio.Event()
        self._left = 0
        self._enough = asyncio.Event()
        self._world = TcpWorld(server.address, up=self._up.wait)
        self.committers = [
            *(self._committer(f"alone-{n}", is_member=False) for n in range(4)),
            *(self._committer(f"member-{n}", is_member=True) for n in range(6)),
            *(self._committer(f"static-{n}", is_member=True, instance=f"i-{n}") for n in range(3)),
        ]
        self.churner = Churner(self._world)
        self.consumers = [
            _Consumer(server.bootstrap, self.ledger, f"c{n}", self._acknowledged) for n in range(CONSUMERS)
        ]

    def _committer(self, group: str, **how: Any) -> Committer:
        return Committer(self._world, self.ledger, group, TOPIC, on_ack=self._acknowledged, **how)

    def _acknowledged(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._enough.set()

    async def run(self, kills: int) -> list[str]:
        """Kill the server `kills` times; the violations, as sentences."""
        self._up.set()
        for script in (*self.committers, self.churner):
            script.start()
        tasks: list[asyncio.Task[None]] = []
        try:
            await asyncio.gather(*(one.start() for one in self.consumers))
            await asyncio.gather(*(one.settled(self.consumers) for one in self.consumers))
            await self._world.until(lambda: all(one.is_at_work for one in self.committers))
            members = await self._members()
            tasks = [asyncio.create_task(one.run()) for one in self.consumers]
            rebalances = [one.rebalances for one in self.consumers]
            for number in range(kills):
                await self._kill(number, members)
                if self.ledger.faults:
                    break
            if [one.rebalances for one in self.consumers] != rebalances:
                self.ledger.faults.append("consumers that were stable had to rebalance")
        finally:
            self._world.close()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(stopped(one.consumer) for one in self.consumers))
        failed = [one for one in ended if not isinstance(one, asyncio.CancelledError)]
        self.ledger.faults += map(repr, [*failed, *self._world.failures])
        await asyncio.to_thread(self._read_history)
        return self.ledger.faults

    def _read_history(self) -> None:
        """Check that every generation that a client was answered is in `__group_events`."""
        host, port = self.server.address
        with KafkaClient(Address(host, port)) as cluster:
            events = Events(cluster)
            ends = events.ends()
            position = dict.fromkeys(ends, 0)
            seen: dict[str, set[int]] = {}
            while any(position[partition] < end for partition, end in ends.items()):
                for value in events.fetch(position, 0):
                    if value["kind"] == "rebalance_completed":
                        seen.setdefault(value["group"], set()).add(value["generation"])
            for group, generations in self.churner.reported.items():
                lost = set(generations) - seen.get(group, set())
                if lost:
                    self.ledger.faults.append(f"{group}: the history lacks the generations {sorted(lost)}")

    async def _kill(self, number: int, members: dict[str, set[str]]) -> None:
        self._left = self._random.randrange(1, MAX_ACKS)
        self._enough.clear()
        await self._enough.wait()
        self._up.clear()
        await asyncio.to_thread(self.server.kill)
        acknowledged = dict(self.ledger.acknowledged)
        await asyncio.to_thread(self.server.start)
        self._up.set()
        self.ledger.judge(acknowledged, await self._offsets())
        now = await self._members()
        for group, ids in members.items():
            if now[group] != ids:
                self.ledger.faults.append(f"{group}: its members were {sorted(ids)} and are {sorted(now[group])}")
        self._on_kill(number + 1)

    @property
    def _groups(self) -> list[str]:
        return [GROUP, *(one.place.group for one in self.committers)]

    async def _offsets(self) -> dict[Place, int]:
        found: dict[Place, int] = {}
        async with connected(self.server.address, "judge") as client:
            asked = self._groups
            while asked:
                rows = [OffsetFetchRequestGroup(group, None, -1, None) for group in asked]
                answer = await client.ask(OffsetFetchRequest(groups=rows), 9)
                asked = [row.group_id for row in answer.groups if row.error_code in NOT_NOW]
                for row in answer.groups:
                    for topic in row.topics:
                        for one in topic.partitions:
                            place = Place(row.group_id, topic.name, one.partition_index)
                            found[place] = one.committed_offset
        return found

    async def _members(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        async with connected(self.server.address, "judge") as client:
            asked = self._groups
            while asked:
                answer = await client.ask(DescribeGroupsRequest(asked))
                asked = [row.group_id for row in answer.groups if row.error_code in NOT_NOW]
                for row in answer.groups:
                    if row.error_code == ErrorCode.NONE and row.members and row.group_state != "Stable":
                        self.ledger.faults.append(f"{row.group_id} was Stable and is {row.group_state}")
                    found[row.group_id] = {one.member_id for one in row.members}
        return found


class _Consumer(ConsumerRebalanceListener):
    """An aiokafka consumer that commits its partitions again and again."""

    def __init__(self, bootstrap: str, ledger: Ledger, name: str, on_ack: Callable[[], None]) -> None:
        self.ledger = ledger
        self.rebalances = 0
        self.mine: set[TopicPartition] = set()
        self._on_ack = on_ack
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=GROUP, client_id=name, enable_auto_commit=False,
            heartbeat_interval_ms=100, session_timeout_ms=60_000, rebalance_timeout_ms=60_000, retry_backoff_ms=20,
            request_timeout_ms=30_000,
            max_poll_interval_ms=LONG_MS,  # once settled it only commits
        )  # fmt: skip

    async def start(self) -> None:
        await self.consumer.start()
        self.consumer.subscribe([TOPIC], listener=self)

    async def settled(self, group: list[_Consumer]) -> None:
        """Wait until all partitions have an owner."""
        while sum(len(one.mine) for one in group) != PARTITIONS or not all(one.mine for one in group):
            await self.consumer.getmany(timeout_ms=50)

    async def run(self) -> None:
        while True:
            if not self.mine:
                self.ledger.faults.append("a consumer that was stable has no partitions any more")
                return
            for partition in sorted(self.mine):
                place = Place(GROUP, partition.topic, partition.partition)
                number = self.ledger.attempt(place)
                try:
                    await self.consumer.commit({partition: number})
                except KafkaError as error:
                    if not error.retriable:
                        self.ledger.faults.append(f"{place}: a commit of a stable consumer: {error!r}")
                        return
                    continue
                self.ledger.acknowledge(place, number)
                self._on_ack()

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.mine = set()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.rebalances += 1
        self.mine = set(assigned)
