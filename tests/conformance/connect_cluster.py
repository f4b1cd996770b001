"""A real Kafka Connect cluster for the tests: distributed workers as subprocesses, file connectors, and what each
worker runs.

The coordinator (DescribeGroups) shows what runs where: what workers reported when they joined, and their assignments.
The logs of the workers show what was started and stopped. The REST interface shows the rest.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from muster.assignors.connect.work import Task, from_rows
from muster.protocol.connect import decode_assignment, decode_worker_state
from tests.e2e.ledger import eventually_sync
from tests.support import wire
from tests.support.servers import CONNECT_VERSION, free_port_pair, kafka_jars

GROUP = "connect-cluster"
PATIENCE_S = 90.0
LOGGING = """<Configuration><Appenders>
<Console name="c"><PatternLayout pattern="%d{UNIX_MILLIS} %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="c"/></Root>
<Logger name="org.apache.kafka.connect.runtime" level="INFO"/></Loggers></Configuration>"""


class Seen(NamedTuple):
    """The group as the coordinator knows it at one moment; workers by the ports of their REST interfaces."""

    running: dict[int, set[Task]]
    delay_ms: int
    leader: int


class Worker:
    """One distributed worker, with a port of its own."""

    def __init__(self, workdir: Path, bootstrap: str, **settings: str) -> None:
        self.port = free_port_pair()
        self.url = f"http://127.0.0.1:{self.port}"
        workdir.mkdir(parents=True)
        self.log_path = workdir / "log"
        (workdir / "log4j2.xml").write_text(LOGGING)
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "5",
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
            "heartbeat.interval.ms": "300",
            "session.timeout.ms": "3000",
            "rebalance.timeout.ms": "20000",
            "task.shutdown.graceful.timeout.ms": "2000",
            "connector.client.config.override.policy": "All",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.properties_path = workdir / "worker.properties"
        self.properties_path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the worker; it answers after some seconds."""
        jars = kafka_jars(CONNECT_VERSION)
        logging = f"-Dlog4j2.configurationFile={self.properties_path.with_name('log4j2.xml')}"
        program = ["org.apache.kafka.connect.cli.ConnectDistributed", str(self.properties_path)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", logging, *program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it with SIGKILL: it does not leave the group."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it with SIGTERM, and wait."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def log(self, since: int = 0) -> str:
        """The worker's log from that position on."""
        with self.log_path.open("rb") as log:
            log.seek(since)
            return log.read().decode("utf-8", "replace")

    def log_end(self) -> int:
        """The position of its next log line."""
        return self.log_path.stat().st_size

    def stopped_since(self, since: int) -> list[str]:
        """The connectors and tasks that it stopped since that position of its log."""
        return re.findall(r" Stopping (?:connector|task) (\S+)", self.log(since))

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request to its REST interface. Returns the answer's JSON; None when there is none, or no answer
        yet.
        """
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                data = answer.read()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
        return json.loads(data) if data else None


class Cluster:
    """Some workers on one server."""

    def __init__(self, workdir: Path, address: tuple[str, int], workers: int, **settings: str) -> None:
        self.address = address
        bootstrap = f"{address[0]}:{address[1]}"
        self.workers = [Worker(workdir / f"worker-{number}", bootstrap, **settings) for number in range(workers)]

    def start(self) -> None:
        """Start all workers; return when they are one stable group."""
        for worker in self.workers:
            worker.start()
        self.wait(lambda: len(self.running()) == len(self.workers), "all workers to be in the group")

    def close(self) -> None:
        for worker in self.workers:
            if worker.running:
                worker.stop()

    def wait(self, condition: Any, what: str) -> None:
        """Wait until the condition holds. If it does not hold, show a worker that ended, or the group."""
        try:
            eventually_sync(condition, what, PATIENCE_S)
        except AssertionError as error:
            ends = "\n".join(worker.log()[-1500:] for worker in self.workers)
            raise AssertionError(f"{error}\n{self.seen()}\n{ends}") from None

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Create or change a connector; repeated while the cluster rebalances."""

        def accepted() -> bool:
            asked = next(worker for worker in self.workers if worker.running)
            return asked.ask("PUT", f"/connectors/{name}/config", dict(config)) is not None

        self.wait(accepted, f"{name} to be configured")

    def states(self, name: str) -> dict[str, str]:
        """The states of a connector and its tasks as a worker reports them."""
        asked = next(worker for worker in self.workers if worker.running)
        status = asked.ask("GET", f"/connectors/{name}/status")
        if status is None:
            return {}
        rows = {f"{name}-{task['id']}": task["state"] for task in status["tasks"]}
        return {name: status["connector"]["state"], **rows}

    def seen(self) -> Seen | None:
        """What every worker runs; None while the group rebalances."""
        with socket.create_connection(self.address, timeout=30) as connection:
            answer = wire.call(connection, wire.Request(15, 0, wire.array([wire.string(GROUP)])))
        assert answer.number("i") == 1
        error = answer.number("h")
        answer.string()
        state = answer.string()
        answer.string()
        answer.string()
        if error or state != "Stable":
            return None
        running: dict[int, set[Task]] = {}
        delay_ms = leader = 0
        for _ in range(answer.number("i")):
            for _ in range(3):
                answer.string()
            _, had = decode_worker_state(answer.data())
            _, assignment = decode_assignment(answer.data())
            work = set(from_rows(had.assignment.assigned)) if had.assignment is not None else set()
            work -= set(from_rows(assignment.revoked))
            running[_port(had.url)] = work | set(from_rows(assignment.assigned))
            delay_ms, leader = assignment.delay_ms, _port(assignment.leader_url)
        return Seen(running, delay_ms, leader)

    def running(self) -> dict[int, set[Task]]:
        """What every worker runs, by port; empty while the group rebalances."""
        seen = self.seen()
        return {} if seen is None else seen.running


def _port(url: str) -> int:
    return int(url.strip("/").rpartition(":")[2])


class Feeder:
    """Writes numbers to files as lines and to topics as records, again and again, until it is closed."""

    def __init__(self, bootstrap: str, files: list[Path], topics: list[str], every_s: float = 0.1) -> None:
        self.files, self.topics, self.count = files, topics, 0
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._every_s, self._end = every_s, threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")
        for path in files:
            path.touch()
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(self._every_s):
            for path in self.files:
                with path.open("a") as file:
                    file.write(f"{self.count}\n")
            for topic in self.topics:
                self._producer.produce(topic, str(self.count).encode())
            self._producer.poll(0)
            self.count += 1

    def close(self) -> int:
        """Stop; the number of numbers that were written."""
        self._end.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        return self.count


def in_file(path: Path) -> list[int]:
    """The numbers in a file, up to its last whole line."""
    text = path.read_text() if path.exists() else ""
    return [int(line) for line in text[: text.rfind("\n") + 1].split()]


def in_topic(bootstrap: str, topic: str) -> list[int]:
    """The numbers in a topic of one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        found: list[int] = []
        while len(found) < end:
            found += [int(record.value()) for record in consumer.consume(end - len(found), timeout=30)]
        return found
    finally:
        consumer.close()
