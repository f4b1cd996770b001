"""A server is killed again and again while confluent-kafka's consumers of both protocols commit in one group.
Acknowledged commits survive, no member is removed, and none has to rebalance.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.servers import ServerProcess
from tests.torture.clients import NOT_NOW, connected
from tests.torture.ledger import Ledger, Place

GROUP: Final = "mixed"
TOPIC: Final = "work"
PARTITIONS: Final = 6
SETTINGS: Final = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
"""Settings with which such groups settle soon."""
PROTOCOLS: Final = ("consumer", "consumer", "classic")
MAX_ACKS: Final = 150
"""The most acknowledgements between two kills."""
SETTLED_WITHIN_S: Final = 60.0
Members = dict[str, tuple[int, tuple[int, ...]]]
"""Member id -> its epoch and its partitions."""


class Mixed:
    """One run. `seed` decides when the kills come, as far as processes allow it."""

    def __init__(self, server: ServerProcess, seed: int, on_kill: Callable[[int], None] = lambda number: None) -> None:
        self.server = server
        self.ledger = Ledger()
        self.lock = threading.Lock()
        self._random = random.Random(seed)
        self._on_kill = on_kill
        self.stop = threading.Event()
        self.members = [_Member(self, f"{protocol}-{n}", protocol) for n, protocol in enumerate(PROTOCOLS)]

    def run(self, kills: int) -> list[str]:
        """Kill the server `kills` times; the violations, as sentences."""
        for one in self.members:
            one.start()
        try:
            if not self._settled():
                return [f"the group did not come to rest: {[one.mine for one in self.members]}", *self.ledger.faults]
            rebalances = [one.rebalances for one in self.members]
            before = asyncio.run(self._described())
            for one in self.members:
                one.may_commit.set()
            for number in range(kills):
                self._kill(before)
                self._on_kill(number + 1)
                if self.ledger.faults:
                    break
            if [one.rebalances for one in self.members] != rebalances:
                self.ledger.faults.append("members that were stable had to rebalance")
        finally:
            self.stop.set()
            for one in self.members:
                one.may_commit.set()
                one.join()
        return self.ledger.faults

    def _settled(self) -> bool:
        """Whether all partitions have an owner, and no member has another target."""
        end_s = time.monotonic() + SETTLED_WITHIN_S
        calm = 0
        while time.monotonic() < end_s and calm < 20:
            mine = [one.mine for one in self.members]
            calm = calm + 1 if all(mine) and sum(map(len, mine)) == PARTITIONS else 0
            time.sleep(0.1)
        return calm >= 20

    def _kill(self, before: Members) -> None:
        wanted = self.ledger.acknowledgements + self._random.randrange(1, MAX_ACKS)
        while self.ledger.acknowledgements < wanted and not self.ledger.faults:
            time.sleep(0.002)
        self.server.kill()
        with self.lock:
            acknowledged = dict(self.ledger.acknowledged)
        self.server.start()
        found = asyncio.run(self._offsets())
        with self.lock:
            self.ledger.judge(acknowledged, found)
        now = asyncio.run(self._described())
        if now != before:
            self.ledger.faults.append(f"the members were {before} and are {now}")

    async def _offsets(self) -> dict[Place, int]:
        async with connected(self.server.address, "judge") as client:
            while True:
                answer = await client.ask(
                    OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, None, -1, None)]), 9
                )
                (row,) = answer.groups
                if row.error_code not in NOT_NOW:
                    return {
                        Place(GROUP, topic.name, one.partition_index): one.committed_offset
                        for topic in row.topics
                        for one in topic.partitions
                    }
                await asyncio.sleep(0.02)

    async def _described(self) -> Members:
        async with connected(self.server.address, "judge") as client:
            while True:
                (row,) = (await client.ask(ConsumerGroupDescribeRequest([GROUP]))).groups
                if row.error_code in NOT_NOW:
                    await asyncio.sleep(0.02)
                    continue
                if row.error_code or row.group_state != "Stable":
                    self.ledger.faults.append(f"the group is {row.group_state or row.error_message}")
                return {
                    one.member_id: (
                        one.member_epoch,
                        tuple(sorted(p for topic in one.assignment.topic_partitions for p in topic.partitions)),
                    )
                    for one in row.members
                }


class _Member(threading.Thread):
    """One consumer, in a thread of its own: it commits its partitions again and again."""

    def __init__(self, run: Mixed, name: str, protocol: str) -> None:
        super().__init__(name=name, daemon=True)
        self._run = run
        self.mine: list[int] = []
        self.rebalances = 0
        self.may_commit = threading.Event()
        settings = {
            "bootstrap.servers": run.server.bootstrap,
            "group.id": GROUP,
            "client.id": name,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "max.poll.interval.ms": 86_400_000,
            "log_level": 0,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 60_000, "partition.assignment.strategy": "range"}
        self._consumer = Consumer(settings)

    def run(self) -> None:
        consumer = self._consumer
        consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        try:
            while not self._run.stop.is_set():
                consumer.poll(0.02)
                if self.may_commit.is_set():
                    for partition in list(self.mine):
                        self._commit(partition)
        finally:
            consumer.close()

    def _commit(self, partition: int) -> None:
        ledger, place = self._run.ledger, Place(GROUP, TOPIC, partition)
        with self._run.lock:
            number = ledger.attempt(place)
        try:
            self._consumer.commit(offsets=[TopicPartition(TOPIC, partition, number)], asynchronous=False)
        except KafkaException as failed:
            error = failed.args[0]
            if not (error.retriable() or self._run.stop.is_set() or error.name() in ON_THE_WAY):
                ledger.faults.append(f"{place}: a commit of a stable member: {error!r}")
            return
        with self._run.lock:
            ledger.acknowledge(place, number)

    def _assigned(self, _: object, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.mine = sorted({*self.mine, *(one.partition for one in partitions)})
        if self._run.stop.is_set():
            return

    def _revoked(self, _: object, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.mine = sorted(set(self.mine) - {one.partition for one in partitions})


ON_THE_WAY: Final = ("_TRANSPORT", "_TIMED_OUT", "_WAIT_COORD", "_ALL_BROKERS_DOWN", "_TIMED_OUT_QUEUE", "_RETRY")
"""Names of the client's own errors: the server was not there."""
