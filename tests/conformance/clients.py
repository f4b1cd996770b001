"""Runs programs with producers and consumers of a client library: starts, stops and watches them.

Clients.java uses Kafka's own library. consumers/main.go, beside the exactly-once worker of franz-go, has the same
commands.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.ledger import Ledger, eventually_sync
from tests.support.servers import KAFKA_SCRIPTS


class Clients:
    """One process; its consumers have names."""

    def __init__(self, command: Sequence[str | Path], log_path: Path) -> None:
        self.ledger = Ledger()
        self.assignments: defaultdict[str, set[int]] = defaultdict(set)
        """The partitions that each consumer has at present (of the one topic it reads)."""
        self.rebalances: defaultdict[str, list[str]] = defaultdict(list)
        """The calls of each consumer's listener, such as "assigned 1 2", "revoked 3" or "lost 4"."""
        self.answers: list[str] = []
        """`produced N`, `stopped NAME`, in the order they came."""
        self.failures: list[str] = []
        self.log_path = log_path
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, name="clients")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, *words = line.split()
            if kind == "record":
                name, topic, partition, offset = words
                self.ledger.add(name, topic, int(partition), int(offset))
            elif kind in ("assigned", "revoked", "lost"):
                name, *partitions = words
                numbers = {int(partition) for partition in partitions}
                self.rebalances[name].append(" ".join([kind, *map(str, sorted(numbers))]))
                held = self.assignments[name]
                self.assignments[name] = held | numbers if kind == "assigned" else held - numbers
            elif kind == "failed":
                self.failures.append(line.strip())
            else:
                self.answers.append(line.strip())

    def tell(self, *words: str) -> None:
        """Write one command (see Clients.java)."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def consume(self, name: str, group: str, topic: str, **settings: str) -> None:
        """Start a consumer; settings have "_" where Kafka's properties have "."."""
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        self.tell("consume", name, group, topic, *pairs)

    def stop(self, name: str, *how: str) -> None:
        """Close a consumer as an application would; return when it has been closed."""
        self.tell("stop", name, *how)
        self.wait(lambda: f"stopped {name}" in self.answers, f"{name} to stop")
        self.answers.remove(f"stopped {name}")

    def produce(self, topic: str, first: int, count: int, **settings: str) -> None:
        """Produce records whose keys and values are their numbers; return when all are acknowledged."""
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        self.tell("produce", topic, str(first), str(count), *pairs)
        self.wait(lambda: f"produced {count}" in self.answers, f"{count} records to be acknowledged")
        self.answers.remove(f"produced {count}")

    def shared_out(self, names: list[str], partitions: int) -> None:
        """Wait until these consumers have all partitions between them."""

        def settled() -> bool:
            held = [self.assignments[name] for name in names]
            return len(set().union(*held)) == partitions == sum(map(len, held)) and all(held)

        self.wait(settled, f"{partitions} partitions to be shared out to {names}")

    def wait(self, condition: object, what: str) -> None:
        def or_failed() -> bool:
            assert not self.failures, self.failures
            assert self._process.poll() is None, self.log_path.read_text()
            return bool(condition())

        eventually_sync(or_failed, what, 60)

    def kill(self) -> None:
        """Kill the process with SIGKILL: no consumer leaves its group."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the program; its consumers close."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # the process was killed
                self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


class JavaClients(Clients):
    """Runs Clients.java."""

    def __init__(self, class_path: str, bootstrap: str, log_path: Path) -> None:
        # otherwise stdout would have the log too
        quiet = f"-Dlog4j2.configurationFile={KAFKA_SCRIPTS / 'log4j2-quiet.xml'}"
        java = ["java", "-Xmx192M", "-XX:TieredStopAtLevel=1", quiet, "-cp", class_path, "Clients", bootstrap]
        super().__init__(java, log_path)
