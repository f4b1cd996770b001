"""Kafka's command line tools, many of them in one JVM."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import KAFKA_SCRIPTS, kafka_jars

HERE = Path(__file__).parent
NOT_COMPARED = {"GetTelemetrySubscriptions", "PushTelemetry"}
"""APIs that only one of both serves: a Kafka without a receiver has no telemetry."""
NOISE = ("\tat ", "Tools$Ended")
"""How a line begins that says where in the tool an error was, or how the tool ended."""


class Tools:
    """The tools of one JVM. `class_path` has Kafka's jars and Tools.java, compiled."""

    def __init__(self, class_path: str) -> None:
        quiet = f"-Dlog4j2.configurationFile={KAFKA_SCRIPTS / 'log4j2-quiet.xml'}"
        self._process = subprocess.Popen(
            ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", quiet, "-cp", class_path, "Tools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, *words: str) -> str:
        """The output of the tool, after a line with its exit status. `words`: the class of the tool, and its
        arguments.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(("\t".join(words) + "\n").encode())
        self._process.stdin.flush()
        status, count = self._process.stdout.readline().split()
        return f"status {status.decode()}\n{self._process.stdout.read(int(count)).decode()}"

    def close(self) -> None:
        """End the JVM."""
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """The tools, which exist while the tests of a module run."""
    jars = kafka_jars()
    classes = tmp_path_factory.mktemp("tools")
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, HERE / "Tools.java"], check=True)
    made = Tools(f"{classes}:{jars}/*")
    yield made
    made.close()
