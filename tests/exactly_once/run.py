"""One run: an application of one client works, its server and its workers are killed again and again, then the judges
check.
"""

from __future__ import annotations

import contextlib
import queue
import random
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from tests.e2e.conftest import create_topic
from tests.exactly_once.application import judge, shown
from tests.exactly_once.checker import Checker
from tests.support import wire
from tests.support.servers import QUICK, REPOSITORY, NodesServer, ServerProcess

GROUP, INPUT, OUTPUT = "counting", "numbers", "counted"
INPUTS, OUTPUTS = 4, 3
"""Partitions."""
WORKERS = 3
PATIENCE_S = 90.0
SETTINGS = {"transaction.state.log.num.partitions": "5", "offsets.topic.num.partitions": "5"}
"""The server's settings, besides those with which groups settle at once."""
VICTIMS = ("server", "server", "worker", "both", "zombie")
"""A zombie is stopped, and continues when another worker has its name and its transactional id."""
WORKERS_ONLY = ("worker", "zombie")
"""For Kafka 4.3. If it is killed between markers it loses committed records: its coordinator completes the transaction
before the partitions have leaders again.
"""
NODES = ("node", "node", "node", "worker", "zombie")
"""For several brokers in one process: a broker is stopped, killed or paused, or the stopped one returns."""
ENDED = ("Empty", "CompleteCommit", "CompleteAbort")


class Worker:
    """One process of the application; it is started again under its name whenever it has ended."""

    def __init__(self, command: list[str], name: str, log_path: Path, said: Callable[[str, str], None]) -> None:
        self.name = name
        self._command = command
        self._log_path = log_path
        self._said = said
        self._process: subprocess.Popen[str] | None = None
        self._zombies: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        """Start the process."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=REPOSITORY
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._said(self.name, line.strip())
        process.stdout.close()
        process.wait()
        # a worker that ends by itself is started again, and no other worker has its transactional id
        _close(process.stdin)
        if process is self._process:
            self._said(self.name, f"ended {process.returncode}")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def freeze(self) -> None:
        """Stop it where it is; it does not notice."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self._zombies.append(self._process)
        self._process = None

    def thaw(self) -> None:
        """Let a stopped worker continue."""
        for zombie in self._zombies:
            zombie.send_signal(signal.SIGCONT)

    def bury(self) -> None:
        """Kill zombies from which nothing more is expected."""
        while self._zombies:
            _end(self._zombies.pop())

    def end(self) -> None:
        """Let it end in order."""
        if self._process is not None:
            _close(self._process.stdin)

    def wait(self) -> None:
        """Wait until it has ended; it is killed if it does not."""
        if self._process is not None:
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._said(self.name, "failed it does not end")
            self.kill()


class Run:
    """`seed` decides who is killed and after how many transactions, as far as processes let it."""

    def __init__(
        self,
        server: ServerProcess,
        command: list[str],
        workdir: Path,
        *,
        seed: int,
        kills: int,
        workers: int = WORKERS,
        records_per_kill: int = 200,
        transactions_per_kill: int = 15,
        victims: Sequence[str] = VICTIMS,
        on_kill: Callable[[int, str], None] = lambda number, who: None,
    ) -> None:
        self.server = server
        self.kills = kills
        self.records = 0
        """The number of input records so far."""
        self._portion = records_per_kill
        self._feeder = Producer(
            {"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        )
        self.said: Counter[str] = Counter()
        """How often each word came."""
        self.failures: list[str] = []
        """Lines of clients that could not continue."""
        self.summary = ""
        self._random = random.Random(seed)
        self._most = transactions_per_kill
        self._victims = victims
        self._on_kill = on_kill
        self._heard: queue.Queue[tuple[str, str]] = queue.Queue()
        workdir.mkdir(parents=True, exist_ok=True)
        words = [server.bootstrap, GROUP, INPUT, OUTPUT, str(OUTPUTS)]
        names = [f"w{number}" for number in range(workers)]
        self._workers = {
            name: Worker(
                [*command, *words, name, *(["static"] if name == "w0" else [])],
                name,
                workdir / f"{name}.log",
                lambda who, line: self._heard.put((who, line)),
            )
            for name in names
        }

    def run(self) -> list[str]:
        """Run; the violations, as sentences."""
        if not isinstance(self.server, NodesServer):  # that was given its topics
            create_topic(self.server, INPUT, INPUTS)
            create_topic(self.server, OUTPUT, OUTPUTS)
        try:
            for worker in self._workers.values():
                worker.start()
            for number in range(self.kills):
                self._feed()  # enough for all the transactions that are waited for
                self._hear(self._committed, self._random.randint(1, self._most))
                time.sleep(self._random.random() * 0.02)
                self._on_kill(number + 1, self._kill())
                self._drain()
            if isinstance(self.server, NodesServer):
                _return_all(self.server)
            self._feed()
            for worker in self._workers.values():
                worker.thaw()
            self._hear(self._is_done, 1)
            for worker in self._workers.values():
                worker.end()
            for worker in self._workers.values():
                worker.wait()
        except TimeoutError as error:
            return [str(error)]
        finally:
            for worker in self._workers.values():
                worker.kill()
                worker.bury()
        return self._judged()

    def _feed(self) -> None:
        first, self.records = self.records, self.records + self._portion
        for number in range(first, self.records):
            self._feeder.produce(INPUT, str(number), partition=number % INPUTS)
        assert self._feeder.flush(60) == 0

    def _drain(self) -> None:
        """Read all lines that were written so far."""
        while not self._heard.empty():
            self._committed()

    def _kill(self) -> str:
        """Kill the server, or a worker, or both; returns the name of the victim."""
        who = self._random.choice(self._victims)
        for worker in self._workers.values():
            worker.thaw()
        if who == "node":
            return self._change_nodes()
        if who != "server":
            victim = self._workers[self._random.choice(sorted(self._workers))]
            if who == "zombie":
                victim.freeze()
            else:
                victim.kill()
            if who != "both":
                victim.start()
                return f"{who} {victim.name}"
        self.server.kill()
        if who == "both":
            victim.start()
        self.server.start()
        return who

    def _change_nodes(self) -> str:
        assert isinstance(self.server, NodesServer)
        if _return_all(self.server):
            return "return"
        verb = self._random.choice(("stop", "kill", "pause"))
        node = self._random.choice((1, 2, 3))
        self.server.nodes(verb, node)
        if verb == "pause":  # for so long that other brokers lead by then, or not
            time.sleep(self._random.random())
            self.server.nodes("resume", node)
        return verb

    def _committed(self) -> bool:
        """Read one line; whether it reports a committed transaction."""
        try:
            who, line = self._heard.get(timeout=1)
        except queue.Empty:
            return False
        word = line.split()[0] if line else ""
        self.said[word] += 1
        if word in ("failed", "fenced"):
            self.failures.append(f"{who} {line}")
        elif word == "ended":
            self.failures.append(f"{who} {line}")
            self._workers[who].start()  # as a supervisor of an application does
        return word == "committed"

    def _hear(self, condition: Callable[[], bool], times: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while times:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"nothing goes on for {PATIENCE_S:.0f} s; said was {self.said}, {self.failures[-5:]}"
                )
            if condition():
                times -= 1
                deadline = time.monotonic() + PATIENCE_S

    def _is_done(self) -> bool:
        """Whether all input is committed."""
        self._drain()
        rows = [TopicPartition(INPUT, number) for number in range(INPUTS)]
        consumer = Consumer({"bootstrap.servers": self.server.bootstrap, "group.id": GROUP, "log_level": 0})
        try:
            return sum(max(row.offset, 0) for row in consumer.committed(rows, timeout=10)) >= self.records
        except KafkaException:
            return False
        finally:
            consumer.close()

    def _judged(self) -> list[str]:
        open_ = open_transactions(self.server)
        deadline = time.monotonic() + PATIENCE_S  # what a worker left is aborted in time
        while open_:
            if time.monotonic() > deadline:
                return [f"these transactions do not end: {open_}"]
            time.sleep(0.02)
            open_ = open_transactions(self.server)
        seen = self._read_committed()
        self.server.stop()
        checker = Checker(data_dir(self.server))
        faults = checker.faults + judge(checker, GROUP, INPUT, OUTPUT)
        expected = shown(checker, OUTPUT)
        if seen != expected:
            more, less = seen.keys() - expected.keys(), expected.keys() - seen.keys()
            faults.append(f"shown to read_committed and not committed: {more}; committed and not shown: {less}")
        aborted = sum(len(one.aborted) for one in checker.partitions.values())
        self.summary = (
            f"{self.records} records counted in {len(checker.decisions)} transactions, {aborted} aborted in "
            f"partitions, {checker.markers_without_effect} markers without effect; said {dict(self.said)}"
        )
        return faults

    def _read_committed(self) -> dict[tuple[int, int], bytes]:
        """The output as a consumer with read_committed gets it."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.server.bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(OUTPUT, number, OFFSET_BEGINNING) for number in range(OUTPUTS)])
        seen: dict[tuple[int, int], bytes] = {}
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < OUTPUTS and time.monotonic() < deadline:
            for message in consumer.consume(1000, 1):
                if message.error() is None:
                    seen[message.partition(), message.offset()] = message.value()
                else:
                    ended.add(message.partition())
        consumer.close()
        return seen


def nodes_server(workdir: Path) -> NodesServer:
    """Three brokers that soon notice a dead one."""
    topics = ["--topic", f"{INPUT}:{INPUTS}", "--topic", f"{OUTPUT}:{OUTPUTS}"]
    return NodesServer(workdir, {**QUICK, **SETTINGS, "broker.session.timeout.ms": "300"}, arguments=topics)


def _return_all(server: NodesServer) -> bool:
    """Return all brokers; whether one was away."""
    away = [row for row in server.nodes("list") if row["state"] != "up"]
    for row in away:
        server.nodes("return", row["node"])
    return bool(away)


def open_transactions(server: ServerProcess) -> dict[str, str]:
    """The states of the transactions that have no Complete... yet. Raises OSError or EOFError while the server cannot
    answer.
    """
    states: dict[str, str] = {}
    for address in server.addresses:
        with socket.create_connection(address, timeout=30) as connection:
            states |= wire.read_transactions(wire.call(connection, wire.list_transactions()))
    return {name: state for name, state in states.items() if state not in ENDED}


def data_dir(server: ServerProcess) -> Path:
    """Where a server keeps its partitions."""
    return server.workdir / "data" / ("logs" if server.name == "kafka" else "")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    _close(process.stdin)


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.close()
