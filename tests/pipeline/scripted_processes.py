"""Groups of consumers by other client libraries, with one process for each consumer, on a real Kafka. A script lets
them join, leave, die (SIGKILL) and change, and writes down what happened, in the broker's words.
`tests.pipeline.scripted` does so with aiokafka in one process; here more goes wrong at once.

`python -m tests.pipeline.scripted_processes DIR --client NAME... [--seconds N] [--groups N] [--seed N] [--protocol
consumer]`, with the names confluent, java, kafka-python (it has the classic protocol only). The program runs Kafka in
DIR, and leaves Kafka's log there (DIR/data/logs) beside `truth.jsonl`, in the form that `tests.pipeline.scoring` reads.
It takes two cores for some minutes: they can run some 8 groups. Each group has its own client, way to commit, assignor,
session timeout and traffic (lines `group`). Some groups have static members; some are not disturbed. Lines `did` say
what the script did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.pipeline.scripted_epochs import client_ids, epochs_truth
from tests.pipeline.scripted_member import CLIENTS, Settings
from tests.pipeline.scripted_truth import Action, truth
from tests.support.servers import KafkaServer, kafka_jars

PATIENCE_S: Final = 30.0
QUIET_S: Final = 1.5
LIMIT: Final = 5
"""The most members of a group."""
SESSIONS_MS: Final = (6_000, 6_000, 10_000, 15_000)
COMMITS_MS: Final = (500, 1_000, 5_000, 5_000)
COMMITS: Final = ("auto", "auto", "auto", "parting", "now-and-then")
ASSIGNORS: Final = ("range", "roundrobin", "cooperative-sticky", "cooperative-sticky")
TRAFFIC: Final = ("steady", "steady", "steady", "steady", "bursts", "none")
STRATEGIES: Final = {"range": "Range", "roundrobin": "RoundRobin", "cooperative-sticky": "CooperativeSticky"}
REJOIN: Final = ("kafka-python", "java")
"""Clients that can be asked to join again."""

Command = Callable[[Settings], list[str]]
"""Makes the command that runs a member."""


class Process:
    """One consumer process: it may start again and again under the same client id."""

    def __init__(self, group: Group, number: int) -> None:
        self.group, self.client_id = group, f"{group.name}-{number}"
        self.topics = [group.main]
        self.generation, self.assigned, self.leads = 0, 0, False
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._process is not None

    async def start(self) -> None:
        """Start the process; do not wait until it is a member."""
        group, pipe = self.group, asyncio.subprocess.PIPE
        settings = Settings(
            group.client, group.bootstrap, group.name, self.client_id, self.client_id if group.is_static else None,
            self.topics, group.assignor, group.session_ms, group.commit_ms, group.commits, group.protocol,
        )  # fmt: skip
        self.generation, self.assigned, self.leads = 0, 0, False
        self._process = await asyncio.create_subprocess_exec(
            *group.command(settings), stdin=pipe, stdout=pipe, stderr=group.stderr
        )
        self._reader = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            generation, assigned, leads = map(int, line.split())
            if process is self._process:
                self.generation, self.assigned, self.leads = generation, assigned, bool(leads)

    async def stop(self) -> None:
        """End it in order."""
        process = self._take()
        self._write(process, "stop")
        await asyncio.wait_for(process.wait(), 60)

    async def kill(self) -> None:
        """End it as a power cut would: no commit, no LeaveGroup."""
        process = self._take()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to other topics."""
        assert self._process is not None
        self.topics = topics
        self._write(self._process, " ".join(["subscribe", *topics]))

    def rejoin(self) -> None:
        """Join again without a visible reason."""
        assert self._process is not None
        self._write(self._process, "rejoin")

    def _take(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        process, self._process, self.leads = self._process, None, False
        return process

    @staticmethod
    def _write(process: asyncio.subprocess.Process, line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{line}\n".encode())


class Group:
    """One group and its script."""

    def __init__(
        self,
        name: str,
        client: str,
        bootstrap: str,
        seed: int,
        command: Command,
        out: TextIO,
        err: TextIO,
        protocol: str = "classic",
    ):
        self.random = random.Random(f"{seed}:{name}")
        self.protocol = protocol
        self.name, self.client, self.bootstrap, self.command = name, client, bootstrap, command
        self._out, self.stderr = out, err
        choice = self.random.choice
        self.main, self.second = f"{name}-main", f"{name}-second"
        self.partitions = {self.main: self.random.randrange(5, 12), self.second: 4}
        self.session_ms, self.commit_ms = choice(SESSIONS_MS), choice(COMMITS_MS)
        self.commits, self.assignor, self.traffic = choice(COMMITS), choice(ASSIGNORS), choice(TRAFFIC)
        self.is_static = self.random.random() < 0.15
        self.is_steady = self.random.random() < 0.1
        self.processes = [Process(self, number) for number in range(1, LIMIT + 1)]
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.actions: list[Action] = []
        self.ended_ms = 0
        self._write(
            kind="group", name=name, client=client, session_ms=self.session_ms, commit_ms=self.commit_ms,
            commits=self.commits, assignor=self.assignor, traffic=self.traffic, is_static=self.is_static,
            is_steady=self.is_steady,
        )  # fmt: skip

    @property
    def running(self) -> list[Process]:
        """The processes that run."""
        return [one for one in self.processes if one.runs]

    async def run(self, until: float) -> None:
        """Run the script until then (time.monotonic())."""
        for future in self.admin.create_topics([NewTopic(*topic, 1) for topic in self.partitions.items()]).values():
            await asyncio.wrap_future(future)
        feeding = asyncio.create_task(self._feed())
        await asyncio.sleep(3)  # all members must know the topics
        try:
            for process in self.processes[: self.random.randrange(2, 4)]:
                await process.start()
                if self.random.random() < 0.7:
                    await self._settled()
            while time.monotonic() < until:
                await asyncio.sleep(self.random.uniform(1, 3 + 2 * self.session_ms / 1000))
                if not self.is_steady:
                    await self._something()
                    await self._settled()
        finally:
            self.ended_ms = _now_ms()
            feeding.cancel()
            for process in self.running:
                await process.kill()

    async def _feed(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "topic.metadata.refresh.interval.ms": 2_000, "log_level": 2}
        producer = Producer(settings)
        while self.traffic != "none":
            for topic, count in self.partitions.items():
                for partition in range(count):
                    with suppress(KafkaException):  # a partition that it does not know yet
                        producer.produce(topic, b"x" * 20, partition=partition)
            producer.poll(0)
            pauses = self.traffic == "bursts" and self.random.random() < 0.02
            await asyncio.sleep(self.random.uniform(5, 40) if pauses else 0.4)

    async def _something(self) -> None:
        running = self.running
        idle = [one for one in self.processes if not one.runs]
        leader = next((one for one in running if one.leads), None)
        kinds = ["subscribe", "grow"]
        kinds += ["kill", "crash_restart"] if len(running) > 1 else []
        if self.is_static:  # they do not leave
            kinds += ["restart"]
        elif len(running) > 1:
            kinds += ["leave", "leave", "restart", "deploy"]
        kinds += ["kill_two", "stop_all"] if len(running) > 2 else []
        kinds += ["join", "join"] if idle else []
        kinds += ["scale_out"] if len(idle) > 1 else []
        kinds += ["rejoin"] if leader is not None and self.client in REJOIN else []
        kind, one = self.random.choice(kinds), self.random.choice(running)
        self._write(kind="did", group=self.name, what=kind, at=_now_ms(), client_id=one.client_id)
        if kind in ("join", "scale_out"):
            await self._join(self.random.sample(idle, 2 if kind == "scale_out" else 1))
        elif kind in ("kill", "kill_two"):
            await self._kill(self.random.sample(running, 2) if kind == "kill_two" else [one])
        elif kind == "leave":
            await one.stop()
        elif kind == "stop_all":
            await asyncio.gather(*(each.stop() for each in running))
            await asyncio.sleep(self.random.uniform(1, 10))
            await asyncio.gather(*(each.start() for each in running))
        elif kind == "restart":
            await self._restart(one)
        elif kind == "deploy":
            for each in running:
                await self._restart(each)
                await asyncio.sleep(self.random.uniform(0, 10))
        elif kind == "crash_restart":
            await one.kill()
            await asyncio.sleep(self.random.uniform(0.1, self.session_ms / 3000))
            await one.start()
        elif kind == "subscribe":
            self._act("subscription_changed", one)
            one.subscribe([self.main] if len(one.topics) > 1 else [self.main, self.second])
        elif kind == "grow":
            await self._grow()
        elif leader is not None:
            self._act("leader_rejoined", leader)
            leader.rejoin()

    async def _join(self, new: list[Process]) -> None:
        for one in new:
            one.topics = [self.main]
            await one.start()

    async def _kill(self, some: list[Process]) -> None:
        for one in some:
            await one.kill()
            await asyncio.sleep(self.random.choice((0, 0, 2)))
        await asyncio.sleep(self.session_ms / 1000)

    async def _restart(self, one: Process) -> None:
        await one.stop()
        await asyncio.sleep(self.random.choice((0, 0, 1, 4)))
        await one.start()

    async def _grow(self) -> None:
        self._act("partitions_changed", None)
        self.partitions[self.main] += self.random.randrange(1, 3)
        grown = NewPartitions(self.main, self.partitions[self.main])
        for future in self.admin.create_partitions([grown]).values():
            await asyncio.wrap_future(future)
        await asyncio.sleep(3)  # until a member has checked

    async def _settled(self) -> None:
        """Wait until all members are in one generation, and nothing changes for a moment. A hanging member is started
        again.
        """
        deadline = time.monotonic() + PATIENCE_S
        quiet_since, last = time.monotonic(), [(0, 0)]
        while time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            now = [(one.generation, one.assigned) for one in self.running]
            if now != last:
                last, quiet_since = now, time.monotonic()
            generations = {generation for generation, _ in now}
            if len(generations) == 1 and min(generations) > 0 and time.monotonic() - quiet_since > QUIET_S:
                return
        print(f"{self.name} did not settle: {last}", flush=True)
        for one in self.running:
            if one.generation <= 0:
                await one.kill()
                await one.start()

    def _act(self, cause: str, one: Process | None) -> None:
        self.actions.append(Action(_now_ms(), self.name, cause, None if one is None else one.client_id))

    def _write(self, **line: object) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


def _now_ms() -> int:
    return int(time.time() * 1000)


def commands(directory: Path) -> Command:
    """The commands that run the members of each client. The Java member is compiled into `directory`."""
    jars = kafka_jars()
    source = Path(__file__).with_name("ScriptedMember.java")
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", directory, source], check=True)

    def command(settings: Settings) -> list[str]:
        if settings.client == "java":
            return _java(settings, f"{directory}:{jars}/*")
        return [sys.executable, "-m", "tests.pipeline.scripted_member", json.dumps(settings._asdict())]

    return command


def _java(settings: Settings, class_path: str) -> list[str]:
    properties: dict[str, object] = {
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,
        "client.id": settings.client_id,
        "group.protocol": settings.protocol,
        "enable.auto.commit": str(settings.commits == "auto").lower(),
        "auto.commit.interval.ms": settings.commit_ms,
        "auto.offset.reset": "earliest",
        "metadata.max.age.ms": 1_500,
    }
    if settings.protocol == "classic":
        strategy = f"org.apache.kafka.clients.consumer.{STRATEGIES[settings.assignor]}Assignor"
        properties |= {
            "session.timeout.ms": settings.session_ms,
            "heartbeat.interval.ms": settings.heartbeat_ms,
            "partition.assignment.strategy": strategy,
        }
    if settings.instance_id is not None:
        properties["group.instance.id"] = settings.instance_id
    java = ["java", "-Xmx96M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path, "ScriptedMember"]
    pairs = [f"{name}={value}" for name, value in properties.items()]
    return [*java, settings.commits, str(settings.commit_ms), ",".join(settings.topics), *pairs]


async def play(bootstrap: str, options: argparse.Namespace, command: Command) -> list[Group]:
    """Run all groups for a while."""
    until, clients, directory = time.monotonic() + options.seconds, options.client, options.directory
    with (directory / "truth.jsonl").open("w") as out, (directory / "members.log").open("w") as err:
        cast = []
        for number in range(options.groups):
            client = clients[number % len(clients)]
            name = f"{client}-{number}"
            cast.append(Group(name, client, bootstrap, options.seed, command, out, err, options.protocol))
        results = await asyncio.gather(*(group.run(until) for group in cast), return_exceptions=True)
    for group, result in zip(cast, results, strict=True):
        if isinstance(result, BaseException):
            print(f"{group.name} ended early: {result!r}")
    return cast


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--client", nargs="+", choices=(*CLIENTS, "java"), required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic", help="of the groups")
    parser.add_argument("--delay-ms", type=int, default=0, help="group.initial.rebalance.delay.ms")
    options = parser.parse_args()
    options.directory = options.directory.absolute()
    os.environ["LOG_LEVEL"] = "INFO"  # the broker logs why groups rebalance
    quick = {"group.initial.rebalance.delay.ms": str(options.delay_ms), "offsets.topic.num.partitions": "5"}
    server = KafkaServer(options.directory, quick)
    server.start()
    try:
        cast = asyncio.run(play(server.bootstrap, options, commands(options.directory)))
    finally:
        server.stop()
    actions = [action for group in cast for action in group.actions]
    ends = {group.name: group.ended_ms for group in cast}
    log = server.log().splitlines()
    if options.protocol == "consumer":
        lines = epochs_truth(log, client_ids(options.directory / "data" / "logs"), actions, ends)
    else:
        lines = truth(log, actions, ends)
    with (options.directory / "truth.jsonl").open("a", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
