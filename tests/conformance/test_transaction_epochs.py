"""What producers are answered when all epochs of a producer id are used: Kafka and Muster answer the same.

A transactional id gets each of the 32,767 epochs, some thousands a second. Then the tests try all that a client may do
next.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.conform.player import readiness, tcp
from muster.conform.player.batches import Batch
from muster.conform.player.connection import Connection, codes
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

LAST = 32_766
"""The last epoch that a producer gets; the one above is for the marker that ends its transaction."""
NOT_YET = frozenset({14, 15, 16, 19, 51})
SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
Heard = list[tuple[Any, ...]]


class Producer:
    """A producer of a transactional id of its own, on a connection of its own. `heard`: all answers that it got."""

    def __init__(self, connection: Connection, name: str, topic: str) -> None:
        self.connection, self.name, self.topic = connection, name, topic
        self.id, self.epoch = -1, -1
        self.ids: dict[int, str] = {-1: "none"}
        self.heard: Heard = []

    async def ask(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Ask again while the answer is that it is too early."""
        while True:
            answer = await self.connection.ask(api, version, body)
            if NOT_YET.isdisjoint(codes(answer)):
                return answer
            await asyncio.sleep(0.01)

    def note(self, what: str, answer: dict[str, Any]) -> None:
        reported = answer["ErrorCode"], self.ids.setdefault(answer["ProducerId"], f"id {len(self.ids)}")
        self.heard.append((what, *reported, answer["ProducerEpoch"]))

    async def init(self, *, own: bool, note: str = "") -> None:
        """Send InitProducerId, with the present id and epoch (KIP-360) or as a new producer."""
        identity = {"ProducerId": self.id, "ProducerEpoch": self.epoch} if own else {}
        asked = {"TransactionalId": self.name, "TransactionTimeoutMs": 60_000, **identity}
        answer = await self.ask("InitProducerId", 5, asked)
        if note:
            self.note(note, answer)
        if not answer["ErrorCode"]:
            self.id, self.epoch = answer["ProducerId"], answer["ProducerEpoch"]
            self.ids.setdefault(self.id, f"id {len(self.ids)}")

    async def up_to(self, epoch: int) -> None:
        """Use up the epochs before."""
        await self.init(own=False)
        while self.epoch < epoch:
            await self.init(own=True)

    async def write(self, version: int) -> None:
        """One record in the transaction."""
        if version < 12:
            topics = [{"Name": self.topic, "Partitions": [0]}]
            asked = {
                "V3AndBelowTransactionalId": self.name, "V3AndBelowProducerId": self.id,
                "V3AndBelowProducerEpoch": self.epoch, "V3AndBelowTopics": topics,
            }  # fmt: skip
            added = await self.ask("AddPartitionsToTxn", 3, asked)
            self.heard.append(("added", *codes(added)))
        batch = Batch(["x"], (self.id, self.epoch), 0, is_transactional=True)
        rows = [{"Name": self.topic, "PartitionData": [{"Index": 0, "Records": batch}]}]
        body = {"TransactionalId": self.name, "Acks": -1, "TimeoutMs": 10_000, "TopicData": rows}
        tcp.stamp(body, 1_700_000_000_000)
        self.heard.append(("written", *codes(await self.ask("Produce", version, body))))

    async def end(self, version: int, *, commit: bool, take: bool = True, note: str = "end") -> None:
        """Send EndTxn. `take`: the producer continues with the epoch of the answer."""
        asked = {
            "TransactionalId": self.name, "ProducerId": self.id, "ProducerEpoch": self.epoch, "Committed": commit,
        }  # fmt: skip
        answer = await self.ask("EndTxn", version, asked)
        self.note(note, answer)
        if take and answer["ProducerId"] != -1:
            self.id, self.epoch = answer["ProducerId"], answer["ProducerEpoch"]

    async def look(self) -> None:
        """Note the state of its transaction, once it no longer changes."""
        while True:
            found = await self.ask("DescribeTransactions", 0, {"TransactionalIds": [self.name]})
            if tcp.is_at_rest(found):
                break
            await asyncio.sleep(0.02)
        (one,) = found["TransactionStates"]
        self.note(one["TransactionState"], one)


async def by_own_request(one: Producer) -> None:
    await one.up_to(LAST - 1)
    for _ in range(4):
        await one.init(own=True, note="init")
        await one.look()


async def by_takeovers(one: Producer) -> None:
    await one.up_to(LAST - 1)
    for _ in range(4):
        await one.init(own=False, note="init")
        await one.look()


async def by_ends_of_new_clients(one: Producer) -> None:
    await one.up_to(LAST - 2)
    for number in range(5):
        await one.write(12)
        await one.end(5, commit=number % 2 == 0, take=False)
        await one.look()
        await one.end(5, commit=number % 2 == 0, note="end again")


async def by_ends_of_nothing(one: Producer) -> None:
    await one.up_to(LAST - 2)
    for _ in range(5):
        await one.end(5, commit=False)
        await one.look()


async def by_takeovers_of_open_transactions(one: Producer) -> None:
    await one.up_to(LAST - 2)
    for _ in range(4):
        await one.write(11)
        zombie = Producer(one.connection, one.name, one.topic)
        zombie.id, zombie.epoch, zombie.ids, zombie.heard = one.id, one.epoch, one.ids, one.heard
        await one.init(own=False, note="init")
        await one.look()
        await zombie.end(4, commit=True, note="zombie's end")


WAYS: list[Callable[[Producer], Awaitable[None]]] = [
    by_own_request, by_takeovers, by_ends_of_new_clients, by_ends_of_nothing, by_takeovers_of_open_transactions,
]  # fmt: skip


async def heard_from(address: tuple[str, int]) -> list[Heard]:
    """The answers that the producers of one server got. All producers run at the same time."""
    runner = await Connection.to(*address)
    while not await readiness.transactions_ready(runner):
        await runner.ask("FindCoordinator", 4, {"KeyType": 1, "CoordinatorKeys": ["ready"]})
        await asyncio.sleep(0.1)
    suffix = secrets.token_hex(4)
    topics = [f"{way.__name__}-{suffix}" for way in WAYS]
    await readiness.create_topics(runner, {}, dict.fromkeys(topics, 1))
    producers = [Producer(await Connection.to(*address), topic, topic) for topic in topics]
    await asyncio.gather(*(way(one) for way, one in zip(WAYS, producers, strict=True)))
    for one in producers:
        await one.connection.close()
    await runner.close()
    return [one.heard for one in producers]


@pytest.mark.timeout(580)
def test_a_producer_with_exhausted_epochs_is_answered_as_by_kafka(tmp_path: Path) -> None:
    heard = []
    servers: list[ServerProcess] = [
        KafkaServer(tmp_path / "kafka", SETTINGS),
        MusterServer(tmp_path / "muster", SETTINGS, in_memory=True, arguments=["--log-level", "warning"]),
    ]
    for server in servers:
        server.start()
        try:
            heard.append(asyncio.run(heard_from(server.address)))
        finally:
            server.kill()
    for way, theirs, ours in zip(WAYS, *heard, strict=True):
        assert ours == theirs, way.__name__
        assert "id 2" in [word for line in theirs for word in line], "a new producer id was given"
