"""The groups of a recording (`record`): their processes, the actions for scripts, and the truth of these actions."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TextIO
from uuid import NAMESPACE_OID, uuid5

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.pipeline.recording.member import Settings, main
from tests.support.servers import KAFKA_SCRIPTS, kafka_jars

FORKS: Final = multiprocessing.get_context("forkserver")
STRATEGIES: Final = {"range": "Range", "roundrobin": "RoundRobin", "cooperative-sticky": "CooperativeSticky"}
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer"
QUIET_S: Final = 1.5
PATIENCE_S: Final = 90.0
BACK_S: Final = 12.0
"""When the broker is back, members need so long until they are at work again."""


def now_ms() -> int:
    """The time of this machine's clock, in ms."""
    return int(time.time() * 1000)


class Journal:
    """A file with lines of JSON that many threads write."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._lock = out, threading.Lock()
        self.lines: list[dict[str, Any]] = []

    def write(self, **line: object) -> None:
        """Write one line."""
        with self._lock:
            if self._out.closed:  # the last line of a killed process
                return
            self.lines.append(line)
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()


@dataclass
class Stage:
    """The things that all groups share."""

    bootstrap: str
    class_path: str
    programs: Mapping[str, Sequence[str]]
    """The commands of the members by libraries in Go or JavaScript that are needed."""
    journal: Journal
    truth: Journal
    errors: Any
    admin: AdminClient
    quiet: set[str | tuple[str, int]] = field(default_factory=set)
    """Topics, or partitions, that get no records at the moment."""
    late: set[str] = field(default_factory=set)
    """Topics whose records producers keep at the moment, and send later."""
    topics: dict[str, int] = field(default_factory=dict)
    """All topics, with their partitions."""
    load: dict[str | tuple[str, int], int] = field(default_factory=dict)
    """Topics, or partitions, that get this many times as many records as the others at the moment."""
    trickle: dict[str, float] = field(default_factory=dict)
    """Topics whose partitions get records in this share of the seconds only."""
    present: threading.Event = field(default_factory=threading.Event)
    """Whether the broker is there."""
    apart: dict[str, threading.Event] = field(default_factory=dict)
    """Groups whose own coordinator was away: whether it is there."""
    replicas: int = 1
    """How many brokers have each partition."""

    def __post_init__(self) -> None:
        self.present.set()


def compiled(directory: Path) -> str:
    """The class path of the Java member, which is compiled into `directory`."""
    jars = kafka_jars()
    source = Path(__file__).with_name("RecordedMember.java")
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", directory, source], check=True)
    return f"{directory}:{jars}/*"


GO: Final = {"franz-go": "franz", "sarama": "sarama"}
"""The libraries in Go, and the folders of their members."""


KAFKAJS: Final = "kafkajs"
"""The library in JavaScript, and the folder of its member."""
PROGRAMS: Final = (*GO, KAFKAJS)
"""The libraries whose members are programs that are built first."""


def built(directory: Path, client: str) -> list[str]:
    """The command of a member by a library in Go or JavaScript, which is built into `directory`."""
    if client == KAFKAJS:
        folder = directory / KAFKAJS
        shutil.copytree(Path(__file__).with_name(KAFKAJS), folder)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--ignore-scripts"], check=True, cwd=folder)
        return ["node", str(folder / "member.js")]
    program = directory / f"{GO[client]}-member"
    subprocess.run(["go", "build", "-o", program, "."], check=True, cwd=Path(__file__).with_name(GO[client]))
    return [str(program)]


def _pod(name: str, number: int) -> str:
    chance = random.Random(f"{name}:{number}")
    return f"{name}-{number:x}c9d8f6b5-{''.join(chance.choices('bcdfghjklmnpqrstvwxz2456789', k=5))}"


NAMES: Final[Mapping[str, Callable[[str, int], str]]] = {
    "numbers": lambda name, number: f"{name}-{number}",
    "connect": lambda name, number: f"connector-consumer-{name}-{number - 1}",
    "streams": lambda name, number: f"{name}-{uuid5(NAMESPACE_OID, f'{name}:{number}')}-StreamThread-1-consumer",
    "pods": _pod,
}
"""How the members of a group are called: by numbers, as tasks of Kafka Connect, as threads of Streams, or as pods."""


class Process:
    """One consumer process: it may start again and again under the same client id."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage, self.settings = stage, settings
        self.assigned: set[int] | None = None
        """Its partitions; None: it has not got any yet."""
        self.heard = 0.0
        """When its last line came (monotonic)."""
        self._end: Callable[[float | None], Any] | None = None
        self._say: Callable[[str], None] = lambda _line: None
        self.pid = 0

    @property
    def client_id(self) -> str:
        """The client id of the process."""
        return self.settings.client_id

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._end is not None

    def start(self) -> None:
        """Start the process; do not wait until it is a member."""
        assert not self.runs
        self.assigned, self.heard = None, time.monotonic()
        self.note("starts")
        if self.settings.client == "java":
            self._start_java()
        elif self.settings.client in PROGRAMS:
            self._start_program([*self.stage.programs[self.settings.client], json.dumps(self.settings._asdict())])
        else:
            self._start_python()

    def _start_python(self) -> None:
        ours, theirs = FORKS.Pipe()
        process = FORKS.Process(target=main, args=(self.settings._asdict(), theirs), daemon=True)
        process.start()
        theirs.close()
        self.pid = process.pid or 0
        self._say, self._end = ours.send, process.join
        threading.Thread(target=self._listen, args=(ours,), daemon=True).start()

    def _listen(self, wire: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._heard(wire.recv())

    def _start_java(self) -> None:
        settings = self.settings
        properties: dict[str, object] = {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "client.id": settings.client_id,
            "enable.auto.commit": str(settings.commits == "auto").lower(),
            "auto.commit.interval.ms": settings.commit_ms,
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": settings.max_poll_ms,
            "metadata.max.age.ms": settings.metadata_ms,
        }
        if settings.protocol == "consumer":
            properties |= {"group.protocol": "consumer", "group.remote.assignor": settings.assignor}
        else:
            properties |= {
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": settings.heartbeat_ms,
                "partition.assignment.strategy": f"{_ASSIGNORS}.{STRATEGIES[settings.assignor]}Assignor",
            }
        if settings.instance_id is not None:
            properties["group.instance.id"] = settings.instance_id
        java = [
            "java",
            "-Xmx64M",
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            self.stage.class_path,
        ]
        words = [settings.commits, str(settings.commit_ms), str(settings.rewinds), ",".join(settings.topics)]
        words.append(str(settings.rate))
        if settings.at_once is not None:
            properties["max.poll.records"] = settings.at_once
        self._start_program(
            [*java, "RecordedMember", *words, *(f"{name}={value}" for name, value in properties.items())]
        )

    def _start_program(self, command: list[str]) -> None:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stage.errors, text=True
        )
        assert process.stdin is not None
        stdin = process.stdin

        def say(line: str) -> None:
            stdin.write(f"{line}\n")
            stdin.flush()

        self.pid, self._say, self._end = process.pid, say, process.wait
        threading.Thread(target=self._listen_to_lines, args=(process.stdout,), daemon=True).start()

    def _listen_to_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            with suppress(json.JSONDecodeError):
                self._heard(json.loads(line))

    def _heard(self, line: dict[str, Any]) -> None:
        what, partitions = line["what"], set(line.get("partitions", ()))
        if what == "assigned":
            self.assigned = (self.assigned or set()) | partitions
        elif what in ("revoked", "lost"):
            self.assigned = (self.assigned or set()) - partitions
        if what in ("assigned", "revoked", "lost"):
            self.heard = time.monotonic()
        self.stage.journal.write(group=self.settings.group, client_id=self.client_id, **line)

    def note(self, what: str, **more: object) -> None:
        """Write an action on the process to the journal."""
        self.stage.journal.write(
            group=self.settings.group, client_id=self.client_id, at=now_ms(), what=what, by="script", **more
        )

    def send_line(self, line: str) -> None:
        """Send it a line."""
        self.note("told", line=line)
        with suppress(OSError):
            self._say(line)

    def stop(self) -> None:
        """End it in order."""
        self.send_line("stop")
        self._ended()

    def kill(self) -> None:
        """End it as a power cut would: no commit, no LeaveGroup."""
        self.signal(signal.SIGKILL)
        self.note("killed")
        self._ended()

    def _ended(self) -> None:
        end, self._end = self._end, None
        assert end is not None
        try:
            end(30)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Group:
    """One group that a script controls."""

    def __init__(
        self, stage: Stage, name: str, chance: random.Random, topic: str, partitions: int, options: Mapping[str, Any]
    ) -> None:
        self.stage, self.name, self.random, self.topic, self.partitions = stage, name, chance, topic, partitions
        self.options = dict(options)
        self.processes: dict[int, Process] = {}
        stage.truth.write(kind="group", group=name, topic=topic, partitions=partitions, **self.options)

    def name_of(self, number: int) -> str:
        """The client id of one of its processes: all have one, if nobody has given them names."""
        if self.options.get("same_name"):
            return f"{self.name}-app"
        return NAMES[self.options.get("names", "numbers")](self.name, number)

    @property
    def present(self) -> threading.Event:
        """Whether its coordinator is there."""
        return self.stage.apart.get(self.name, self.stage.present)

    def settings(self, number: int, **more: Any) -> Settings:
        """The settings of one of its processes."""
        client_id = self.name_of(number)
        options = {**self.options, **more}
        options.pop("same_name", None)
        options.pop("names", None)
        is_static = options.pop("static", False)
        if options["protocol"] == "consumer":
            options["assignor"] = options.pop("server_assignor", "uniform")
        else:
            options.pop("server_assignor", None)
        topics = options.pop("topics", [self.topic])
        instance = str(options.pop("instance", client_id))
        who = {"group": self.name, "client_id": client_id, "instance_id": instance if is_static else None}
        return Settings(bootstrap=self.stage.bootstrap, topics=topics, **who, **options)

    def start(self, *numbers: int, **more: Any) -> None:
        """Start some processes."""
        for number in numbers:
            self.processes[number] = Process(self.stage, self.settings(number, **more))
            self.processes[number].start()

    def stop(self, *numbers: int) -> None:
        """Stop some processes at once."""
        some = [threading.Thread(target=self.processes[number].stop) for number in numbers]
        for one in some:
            one.start()
        for one in some:
            one.join()

    def kill(self, *numbers: int) -> None:
        """Kill some processes at once."""
        for number in numbers:
            self.processes[number].kill()

    def send_line(self, number: int, line: str) -> None:
        """Send a line to one process."""
        self.processes[number].send_line(line)

    @property
    def running(self) -> list[int]:
        """Which processes run."""
        return [number for number, one in self.processes.items() if one.runs]

    def settle(self) -> None:
        """Wait until the running processes have all partitions, and nothing changes for a moment."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            time.sleep(0.1)
            if not self.present.is_set():
                self.present.wait()
                deadline = time.monotonic() + PATIENCE_S
            some = [self.processes[number] for number in self.running]
            held = sum(len(one.assigned or ()) for one in some)
            quiet = time.monotonic() - max((one.heard for one in some), default=0) > QUIET_S
            if quiet and held >= self.partitions and all(one.assigned is not None for one in some):
                return
        print(f"{self.name} did not settle", flush=True)

    def rest(self, least: float, most: float) -> None:
        """Let the group work for a while."""
        time.sleep(self.random.uniform(least, most))
        if not self.present.is_set():
            self.present.wait()
            time.sleep(self.random.uniform(0, 30))  # nobody acts just when the broker is back

    def work(self, least: float, most: float) -> None:
        """Let the group work until the broker was there for so long: its absence does not count."""
        left = self.random.uniform(least, most)
        while left > 0:
            time.sleep(0.5)
            left -= 0.5
            if not self.present.is_set():
                self.present.wait()
                left += BACK_S

    def until_away(self, most: float) -> bool:
        """Wait until the broker is away, at most for so long. It returns whether the broker is away."""
        deadline = time.monotonic() + most
        while self.present.is_set() and time.monotonic() < deadline:
            time.sleep(0.5)
        return not self.present.is_set()

    def episode(self, what: str, since_ms: int, members: Iterable[int] = (), **more: object) -> None:
        """Write an episode that lasted from then until now to the truth."""
        names = [self.name_of(number) for number in members]
        self._during(since_ms, kind="episode", what=what, members=names, **more)

    def incident(self, what: str, since_ms: int, **more: object) -> None:
        """Write an incident besides rebalances that lasted from then until now to the truth."""
        self._during(since_ms, kind="incident", what=what, **more)

    def _during(self, since_ms: int, **more: object) -> None:
        """The time from then until now."""
        self.stage.truth.write(group=self.name, **{"from": since_ms}, until=now_ms(), **more)

    def drops(self, cause: str, since_ms: int, **more: object) -> None:
        """State the cause of all commits that go back from then until now."""
        self._during(since_ms, kind="drops", cause=cause, **more)

    def stalled(self, partitions: Iterable[int], since_ms: int, how: str) -> None:
        """State that these partitions stood still from then until now."""
        self._during(since_ms, kind="stall", topic=self.topic, partitions=list(partitions), how=how)

    def not_stalled(self, why: str) -> None:
        """State that no partition of this group has ever stood still, whatever it looks like."""
        self.stage.truth.write(kind="no_stall", group=self.name, why=why)

    @property
    def _admin(self) -> AdminClient:
        """What asks the broker to change something, once it is there: librdkafka fails badly if it is not."""
        self.present.wait()
        return self.stage.admin

    def reset(self, to: Mapping[int, int]) -> None:
        """Do what kafka-consumer-groups.sh --reset-offsets does: reset all partitions of an empty group at once."""
        places = [TopicPartition(self.topic, partition, offset) for partition, offset in to.items()]
        wanted = [ConsumerGroupTopicPartitions(self.name, places)]
        self._answered(lambda: self._admin.alter_consumer_group_offsets(wanted)[self.name].result(30))
        reported = [[self.topic, *one] for one in to.items()]
        self.stage.journal.write(group=self.name, at=now_ms(), what="reset", by="tool", places=reported)

    def committed(self) -> dict[int, int]:
        """The committed offsets."""
        places = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        wanted = [ConsumerGroupTopicPartitions(self.name, places)]
        found = self._answered(lambda: self._admin.list_consumer_group_offsets(wanted)[self.name].result(30))
        return {one.partition: one.offset for one in found.topic_partitions}

    @staticmethod
    def _answered(ask: Callable[[], Any]) -> Any:
        """Ask until there is an answer: a broker may load its groups again, or another one may take its place."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask()
            except (KafkaException, TimeoutError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def ends(self) -> dict[int, int]:
        """The ends of the partitions of its topic."""
        asked = {TopicPartition(self.topic, partition): OffsetSpec.latest() for partition in range(self.partitions)}
        return self._answered(
            lambda: {one.partition: done.result(30).offset for one, done in self._admin.list_offsets(asked).items()}
        )  # fmt: skip

    def so_far(self) -> dict[str, int]:
        """How many records were written to its topic, and how many of them it has read."""
        return {"written": sum(self.ends().values()), "read": sum(max(at, 0) for at in self.committed().values())}

    def forget(self) -> None:
        """Do what kafka-consumer-groups.sh --delete-offsets does."""
        jars = f"{KAFKA_SCRIPTS}/kafka-tool.sh"
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        asked = ["--bootstrap-server", self.stage.bootstrap, "--delete-offsets", "--group", self.name]
        subprocess.run([jars, tool, *asked, "--topic", self.topic], check=True, stdout=self.stage.errors)
        self.stage.journal.write(group=self.name, at=now_ms(), what="forgotten", by="tool")

    def configure(self, **properties: object) -> None:
        """Set properties of this group alone."""
        reported = ",".join(f"{name.replace('_', '.')}={value}" for name, value in properties.items())
        tool = [f"{KAFKA_SCRIPTS}/kafka-tool.sh", "org.apache.kafka.tools.ConfigCommand", "--bootstrap-server"]
        entity = ["--entity-type", "groups", "--entity-name", self.name, "--alter", "--add-config", reported]
        subprocess.run([*tool, self.stage.bootstrap, *entity], check=True, stdout=self.stage.errors)

    def grow(self, partitions: int) -> None:
        """Give its topic more partitions."""
        self._admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(30)
        self.partitions = self.stage.topics[self.topic] = partitions
        self.stage.journal.write(group=self.name, at=now_ms(), what="grown", by="tool", partitions=partitions)

    def make_topic_again(self) -> None:
        """Delete its topic, and make a topic of the same name and size."""
        self.stage.quiet.add(self.topic)
        time.sleep(2)  # the producer has sent its records
        self._admin.delete_topics([self.topic])[self.topic].result(30)
        time.sleep(5)
        make_topics(self._admin, {self.topic: self.partitions}, self.stage.replicas)
        self.stage.quiet.discard(self.topic)
        self.stage.journal.write(group=self.name, at=now_ms(), what="recreated", by="tool", topic=self.topic)

    def new_topic(self, name: str, partitions: int) -> None:
        """Create one more topic."""
        make_topics(self._admin, {name: partitions}, self.stage.replicas)
        self.stage.topics[name] = partitions
        self.stage.journal.write(group=self.name, at=now_ms(), what="new_topic", by="tool", topic=name)

    def write(self, writer: Producer, places: Mapping[int, int], *, aborts: bool = False) -> None:
        """Commit offsets in a transaction of a producer that names the group and is no member of it."""
        reported = [TopicPartition(self.topic, *one) for one in places.items()]
        writer.begin_transaction()
        writer.send_offsets_to_transaction(reported, stranger(self.stage.bootstrap, self.name))
        (writer.abort_transaction if aborts else writer.commit_transaction)(30)
        names = [[self.topic, *one] for one in places.items()]
        what = "aborted" if aborts else "written"
        self.stage.journal.write(group=self.name, at=now_ms(), what=what, by="writer", places=names)

    def delete(self) -> None:
        """Delete the group."""
        self._admin.delete_consumer_groups([self.name])[self.name].result(30)
        self.stage.journal.write(group=self.name, at=now_ms(), what="deleted", by="tool")


def make_topics(admin: AdminClient, topics: Mapping[str, int], replicas: int = 1) -> None:
    """Create topics."""
    for future in admin.create_topics([NewTopic(*one, replicas) for one in topics.items()]).values():
        future.result(30)


def stranger(bootstrap: str, group: str) -> Any:
    """The group metadata of a consumer that is no member of a group: no generation, no member id."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 2})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def writing(bootstrap: str, name: str) -> Producer:
    """A transactional producer."""
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2})
    writer.init_transactions(30)
    return writer


def feed(stage: Stage, topics: Mapping[str, int], chance: random.Random, over: threading.Event) -> None:
    """Write some records to each partition every second, until `over` is set."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 50, "log_level": 2})
    kept: list[tuple[str, int, int]] = []
    while not over.wait(1.0):
        at_ms = now_ms()
        for topic, count in list(topics.items()):
            for partition in range(count):
                if topic in stage.quiet or (topic, partition) in stage.quiet:
                    continue
                if chance.random() >= stage.trickle.get(topic, 1):
                    continue
                times = stage.load.get((topic, partition), stage.load.get(topic, 1))
                kept += [(topic, partition, at_ms)] * (chance.randrange(1, 9) * times)
        for topic, partition, time_ms in kept:
            if topic not in stage.late:
                with suppress(KafkaException, BufferError):
                    producer.produce(topic, b"x" * 8, partition=partition, timestamp=time_ms)
        kept = [one for one in kept if one[0] in stage.late]
        producer.poll(0)
    producer.flush(5)
