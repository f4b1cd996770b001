"""Groups of real aiokafka consumers on a real server. A script lets members join, leave, die and change, and notes what
it did. It makes the logs with which the inference of causes is scored.

`python -m tests.pipeline.scripted DIR [--server kafka|muster] [--seconds N] [--groups N] [--seed N]`: runs the server
in DIR and leaves its log there (DIR/data) beside `truth.jsonl`, in the form that `tests.pipeline.scoring` reads. It
takes two cores for some minutes. Lines `unsure` name generations that the script cannot explain. One action had more
generations than expected, perhaps the last without a record; or the group never settled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from tests.support.consumers import abandoned, stopped
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

PATIENCE_S: Final = 90.0
SESSIONS_MS: Final = (6_000, 6_000, 10_000, 15_000)
COMMITS_MS: Final = (100, 500, 1_000, 5_000, 5_000)
LIMIT: Final = 5
"""The most members of a group."""


class Process:
    """One consumer process: it may start again and again under the same client id."""

    def __init__(self, group: ScriptedGroup, number: int) -> None:
        self.group, self.client_id = group, f"{group.name}-{number}"
        self.topics = [group.main]
        self.leads = False
        self._consumer: AIOKafkaConsumer | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._consumer is not None

    @property
    def generation(self) -> int:
        """The generation of the member; 0: none."""
        coordinator = self._coordinator
        return 0 if coordinator is None or coordinator._rejoin_needed_fut.done() else coordinator.generation

    @property
    def assigned(self) -> set[TopicPartition]:
        """The partitions of the member."""
        return set() if self._consumer is None else set(self._consumer.assignment())

    @property
    def _coordinator(self) -> Any:
        return None if self._consumer is None else self._consumer._coordinator

    async def start(self) -> None:
        """Start the process; do not wait until it is a member."""
        group = self.group
        consumer = AIOKafkaConsumer(
            bootstrap_servers=group.bootstrap,
            group_id=group.name,
            client_id=self.client_id,
            session_timeout_ms=group.session_ms,
            heartbeat_interval_ms=min(3_000, group.session_ms // 3),
            rebalance_timeout_ms=60_000,
            max_poll_interval_ms=3_600_000,
            enable_auto_commit=group.auto_commit,
            auto_commit_interval_ms=group.commit_ms,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1_500,
            fetch_max_wait_ms=2_000,
            partition_assignment_strategy=(group.assignor,),
        )
        await consumer.start()
        consumer.subscribe(self.topics)
        self._consumer, self.leads = consumer, False
        self._notice_leading(consumer._coordinator)
        self._task = None if group.auto_commit else asyncio.create_task(self._commit())

    def _notice_leading(self, coordinator: Any) -> None:
        assign, rejoin = coordinator._perform_assignment, coordinator._do_rejoin_group

        async def perform(*arguments: Any) -> Any:
            self.leads = True
            return await assign(*arguments)

        async def join(*arguments: Any) -> Any:
            self.leads = False
            return await rejoin(*arguments)

        coordinator._perform_assignment, coordinator._do_rejoin_group = perform, join

    async def _commit(self) -> None:
        """Commit by hand, now and then, and not before partitions are given up."""
        while True:
            await asyncio.sleep(self.group.commit_ms / 1000 * random.uniform(0.5, 1.5))
            if not self.assigned:
                continue
            with suppress(KafkaError):
                await self._consumer.commit(dict.fromkeys(self.assigned, 0))

    async def stop(self) -> None:
        """End it in order."""
        consumer = self._take()
        await stopped(consumer)

    async def kill(self) -> None:
        """End it as a power cut would: no commit, no LeaveGroup."""
        consumer = self._take()
        await abandoned(consumer)

    def _take(self) -> AIOKafkaConsumer:
        assert self._consumer is not None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        consumer, self._consumer, self.leads = self._consumer, None, False
        return consumer

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to other topics."""
        assert self._consumer is not None
        self.topics = topics
        self._consumer.subscribe(topics)

    def rejoin(self) -> None:
        """Join again without a visible reason."""
        self._coordinator.request_rejoin()


class ScriptedGroup:
    """One group and its script."""

    def __init__(self, name: str, bootstrap: str, admin: AIOKafkaAdminClient, seed: int, truth: TextIO) -> None:
        self.random = random.Random(f"{seed}:{name}")
        self.name, self.bootstrap, self.admin, self._truth = name, bootstrap, admin, truth
        self.main, self.second = f"{name}-main", f"{name}-second"
        self.partitions = {self.main: self.random.randrange(5, 12), self.second: 4}
        self.session_ms = self.random.choice(SESSIONS_MS)
        self.commit_ms = self.random.choice(COMMITS_MS)
        self.auto_commit = self.random.random() < 0.7
        self.assignor = self.random.choice((RangePartitionAssignor, RoundRobinPartitionAssignor))
        self.processes = [Process(self, number) for number in range(1, LIMIT + 1)]
        self.generation = 0
        self._trigger: Process | None = None

    @property
    def running(self) -> list[Process]:
        """The processes that run."""
        return [one for one in self.processes if one.runs]

    async def run(self, until: float) -> None:
        """Run the script until then (time.monotonic())."""
        topics = [NewTopic(topic, count, 1) for topic, count in self.partitions.items()]
        await self.admin.create_topics(topics)
        for process in self.processes[: self.random.randrange(2, 4)]:
            await self._do("member_joined", process, process.start)
        try:
            while time.monotonic() < until:
                await asyncio.sleep(self.random.uniform(2, 2 + 2 * self.session_ms / 1000))
                await self._something()
        except TimeoutError as error:
            print(error)
        self._write(kind="unsure", group=self.name, first=self.generation + 1, last=None)
        for process in self.running:
            await process.kill()

    async def _something(self) -> None:
        running = self.running
        idle = [one for one in self.processes if not one.runs]
        leader = next((one for one in running if one.leads), None)
        kinds = ["leave", "kill", "restart", "crash_restart"] if len(running) > 1 else []
        kinds += ["join", "join"] if idle else []
        kinds += ["subscribe", "grow"] + (["rejoin"] if leader is not None else [])
        kind, one = self.random.choice(kinds), self.random.choice(running)
        if kind == "join":
            new = self.random.choice(idle)
            new.topics = [self.main]
            await self._do("member_joined", new, new.start)
        elif kind == "leave":
            await self._do("member_left", one, one.stop)
        elif kind == "kill":
            await self._do("session_expired", one, one.kill)
        elif kind == "restart":
            await self._restart(one)
        elif kind == "crash_restart":
            await one.kill()
            await asyncio.sleep(self.random.uniform(0.1, self.session_ms / 3000))
            await self._do("member_joined", one, one.start)
        elif kind == "subscribe":
            await self._do("subscription_changed", one, self._subscribe)
        elif kind == "grow":
            await self._do("partitions_changed", leader, self._grow)
        elif leader is not None:
            await self._do("leader_rejoined", leader, self._rejoin)

    async def _subscribe(self) -> None:
        one = self._trigger
        assert one is not None
        one.subscribe([self.main] if len(one.topics) > 1 else [self.main, self.second])

    async def _grow(self) -> None:
        self.partitions[self.main] += self.random.randrange(1, 3)
        await self.admin.create_partitions({self.main: NewPartitions(self.partitions[self.main])})

    async def _rejoin(self) -> None:
        assert self._trigger is not None
        self._trigger.rejoin()

    async def _restart(self, one: Process) -> None:
        """Stop and start a process at once: one rebalance or two."""
        acted, before = _now_ms(), self.generation
        await one.stop()
        await one.start()
        await self._settled(before)
        if self.generation > before + 1:
            self._tell(before + 1, "member_left", one, acted)
            self._tell(before + 2, "member_joined", one, acted)
            self._account(before + 3)
        else:
            self._tell(before + 1, "member_left", one, acted)

    async def _do(self, cause: str, trigger: Process | None, act: Callable[[], Awaitable[None]]) -> None:
        self._trigger = trigger
        acted, before = _now_ms(), self.generation
        await act()
        await self._settled(before)
        if self.generation == before + 1:
            self._tell(before + 1, cause, trigger, acted)
        self._account(before + 2)

    async def _settled(self, before: int) -> None:
        """Wait until all members are in one new generation and have their share."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            running = self.running
            generations = {one.generation for one in running}
            wanted = sum(self.partitions[topic] for topic in {topic for one in running for topic in one.topics})
            if (
                len(generations) == 1
                and max(generations) > before
                and sum(len(one.assigned) for one in running) == wanted
            ):
                await asyncio.sleep(0.5)
                if {one.generation for one in running} == generations:
                    self.generation = max(generations)
                    return
        raise TimeoutError(f"{self.name} did not settle: {[(one.generation, len(one.assigned)) for one in running]}")

    def _account(self, first: int) -> None:
        if self.generation >= first:
            self._write(kind="unsure", group=self.name, first=first - 1, last=self.generation)

    def _tell(self, generation: int, cause: str, one: Process | None, acted: int) -> None:
        trigger = None if one is None else {"client_id": one.client_id}
        self._write(
            kind="rebalance", group=self.name, generation=generation, cause=cause, trigger=trigger, acted=acted,
            settled=_now_ms(),
        )  # fmt: skip

    def _write(self, **line: object) -> None:
        self._truth.write(json.dumps(line) + "\n")
        self._truth.flush()


def _now_ms() -> int:
    return int(time.time() * 1000)


async def play(bootstrap: str, groups: int, seconds: float, seed: int, truth: TextIO) -> None:
    """Run all groups for a while."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        until = time.monotonic() + seconds
        cast = [ScriptedGroup(f"g{number}", bootstrap, admin, seed, truth) for number in range(groups)]
        for result in await asyncio.gather(*(group.run(until) for group in cast), return_exceptions=True):
            if isinstance(result, BaseException):
                print(f"a group ended early: {result!r}")
    finally:
        await admin.close()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--server", choices=("kafka", "muster"), default="kafka")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    quick = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
    server: ServerProcess
    if options.server == "kafka":
        server = KafkaServer(options.directory, quick)
    else:
        server = MusterServer(options.directory, quick)
    server.start()
    try:
        with (options.directory / "truth.jsonl").open("w", encoding="utf-8") as truth:
            asyncio.run(play(server.bootstrap, options.groups, options.seconds, options.seed, truth))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
