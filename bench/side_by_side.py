"""Measures one kind of groups on Muster, and on a real Apache Kafka if Java is there. Prints the medians."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from bench.load.frameload import FrameLoad
from bench.scenarios import Figures, Target
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, kafka_available


class Measured(Protocol):
    """Measures groups of one kind on one server."""

    target: Target

    def prepare(self) -> None:
        """Create what all rounds use."""

    def warm(self) -> None:
        """Let the server work before it is measured: a JVM is slow until it is warm."""

    def figures(self) -> Figures:
        """Run one round, and return its figures."""


def main(program: str, about: str | None, settings: Mapping[str, str], groups: Callable[[Target], Measured]) -> None:
    """Parse the options, and print the medians of several rounds. The servers take turns."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--rounds", type=int, default=3, help="how often each server is measured (default: 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each load runs (default: 2)")
    parser.add_argument("--without-kafka", action="store_true", help="measure Muster alone")
    args = parser.parse_args()
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        workdir = Path(folder)
        frameload = FrameLoad(workdir)
        servers: list[ServerProcess] = [MusterServer(workdir / "muster", settings)]
        if kafka_available() and not args.without_kafka:
            servers.append(KafkaServer(workdir / "kafka", settings))
        measured = []
        try:
            for server in servers:
                server.start()
                one = groups(Target(server, frameload, args.seconds))
                one.prepare()
                one.warm()
                measured.append(one)
            for _ in range(args.rounds):
                for one in measured:
                    for name, value in one.figures().items():
                        samples[name][one.target.server.name].append(value)
        finally:
            for server in servers:
                if server.running:
                    server.stop()
    for name, by_server in samples.items():
        medians = {server: statistics.median(values) for server, values in by_server.items()}
        share = f"  {medians['muster'] / medians['kafka']:.2f} x" if "kafka" in medians else ""
        print(f"{name}: {', '.join(f'{server} {value:.1f}' for server, value in medians.items())}{share}")
