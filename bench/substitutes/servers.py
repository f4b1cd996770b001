"""The servers that are compared. Each is a process that prints its address."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.servers import REPOSITORY, KafkaServer, ServerError, ServerProcess, kafka_jars

HERE = Path(__file__).parent
TESTCONTAINERS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""The properties that Testcontainers sets for Kafka."""


class Substitute(ServerProcess):
    """A server that prints its address."""

    before_bytes = 0
    """The memory of the process before a server started in it."""
    before_cpu_s = 0.0
    inner_s: float | None = None
    """How long the server took to start within a test's process; None: the server is a process."""

    @classmethod
    def prepare(cls) -> None:
        """Compile what the server needs, before the measure."""

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        if not line:
            raise ServerError(f"{self.name} did not start\n{self.log_tail()}")
        return self.heard(line)

    def heard(self, line: str) -> str:
        """The address in the printed line."""
        return line


class MusterProcess(Substitute):
    name = "Muster, a process"

    def command(self) -> Sequence[str | Path]:
        options = ["--in-memory", "--listen", "127.0.0.1:0", "--override", "group.initial.rebalance.delay.ms=0"]
        return [Path(sys.prefix) / "bin" / "muster", "serve", *options]

    def heard(self, line: str) -> str:
        return line.rpartition(" ")[2]


class _Held(Substitute):
    kind = ""
    expected_exit_status = 0
    cwd = REPOSITORY

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "bench.substitutes.holder", self.kind]

    def heard(self, line: str) -> str:
        facts = json.loads(line)
        self.inner_s, self.before_bytes, self.before_cpu_s = facts["seconds"], facts["bytes"], facts["cpu_s"]
        return str(facts["bootstrap"])


class MusterThread(_Held):
    name = "Muster, a thread of the test"
    kind = "thread"


class Mock(_Held):
    name = "librdkafka's mock"
    kind = "mock"


@cache
def kfake_program() -> Path:
    """The compiled program. It is compiled once, before any measure."""
    program = Path(tempfile.gettempdir(), f"muster-bench-kfake-{os.getpid()}")
    atexit.register(program.unlink, missing_ok=True)
    subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "kfake", check=True)
    return program


class Kfake(Substitute):
    name = "kfake"

    @classmethod
    def prepare(cls) -> None:
        kfake_program()

    def command(self) -> Sequence[str | Path]:
        return [kfake_program()]


@cache
def _embedded_classes() -> str:
    """The class path of the program with an embedded broker, which is compiled once."""
    place = Path(tempfile.gettempdir(), f"muster-bench-embedded-{os.getpid()}")
    jars = place / "jars"
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    quiet = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={jars}"]
    subprocess.run(quiet, cwd=HERE / "embedded", check=True, stdout=subprocess.DEVNULL)
    path = f"{place}:{jars.read_text()}"
    subprocess.run(["javac", "-cp", path, "-d", place, HERE / "embedded" / "Embedded.java"], check=True)
    return path


class Embedded(Substitute):
    name = "embedded Kafka 4.2 (spring-kafka-test)"
    start_timeout_s = 90.0

    @classmethod
    def prepare(cls) -> None:
        _embedded_classes()

    def command(self) -> Sequence[str | Path]:
        return ["java", f"-Djava.io.tmpdir={self.workdir}", "-cp", _embedded_classes(), "Embedded"]

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        for line in process.stdout:
            word, _, address = line.decode().strip().partition(" ")
            if word == "embedded":
                return address
        raise ServerError(f"{self.name} did not start\n{self.log_tail()}")


class Kafka(KafkaServer):
    name = "Kafka 4.3 (KRaft)"
    before_bytes = 0
    before_cpu_s = 0.0
    inner_s: float | None = None

    @classmethod
    def prepare(cls) -> None:
        """Download the jars before the measure."""
        kafka_jars()


SERVERS: tuple[type[Substitute] | type[Kafka], ...] = (MusterProcess, MusterThread, Mock, Kfake, Embedded, Kafka)
