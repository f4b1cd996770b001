"""Starts brokers on free ports of this machine: Apache Kafka of each release, or any other process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATCHES = {"3.9": "3.9.2", "4.0": "4.0.2", "4.1": "4.1.2", "4.2": "4.2.2", "4.3": "4.3.1", "4.4": "4.4.0"}
"""The newest patch of each release of Kafka that the registry of Maven has."""
READY_S = 120.0
"""How long a broker may take until it takes connections."""
STOPPED_S = 30.0
LAST_WORDS = 2_000
"""How many characters of its log an error has."""


def free_port(several: int = 1) -> int:
    """A port that is free, as are those that follow it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if all(is_free(port + place) for place in range(several)):
            return port


def is_free(port: int) -> bool:
    """Whether nobody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@contextlib.contextmanager
def process(
    command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A process that listens on the port; it is stopped afterwards. It keeps an open standard input until then."""
    with log.open("wb") as out:
        started = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=out, stderr=out, env={**os.environ, **(environment or {})}
        )
        try:
            end = time.monotonic() + READY_S
            while is_free(port):
                if started.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{command[0]} did not start: {log.read_text(errors='replace')[-LAST_WORDS:]}")
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            started.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.communicate(timeout=STOPPED_S)
            started.kill()
            started.wait()


def kafka(version: str, folder: Path, settings: Mapping[str, str]) -> contextlib.AbstractContextManager[str]:
    """A node of Apache Kafka with these settings, in a folder. The value is its address."""
    port = free_port(2)
    script = str(ROOT / "tests" / "kafka" / "run-kafka.sh")
    pairs = [f"{name}={value}" for name, value in settings.items()]
    environment = {"KAFKA_VERSION": version, "HEAP": "768M"}
    return process([script, str(port), str(folder / "data"), *pairs], port, folder / "log", environment)
