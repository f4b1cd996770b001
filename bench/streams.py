"""`python -m bench.streams` measures streams groups (KIP-1071) on Muster, and on a real Apache Kafka if Java is there.

It measures the server's CPU time for a steady heartbeat of 100 members. It also measures the time in which an
application of 100 instances gets its 1,000 tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench import measure
from bench.load.consumer_members import ERROR_AT
from bench.load.frameload import FrameLoad
from bench.load.streams_members import Application
from bench.scenarios import REPEATED, Figures, Target, event_loop_factory, of_load
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, kafka_available

SETTINGS: Final[Mapping[str, str]] = {
    "group.streams.session.timeout.ms": "1800000",
    "group.streams.max.session.timeout.ms": "1800000",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "1000",
}
"""Members do not time out between rounds. They send heartbeats often, so that pauses do not hide the server's work."""
INSTANCES: Final = 100
TOPICS: Final = {"streams-small": 100, "streams-large": 1_000}
"""Topics, each with its number of partitions."""
SETTLE: Final = "streams group: 100 instances with 1,000 tasks settle"


class Groups:
    """Measures streams groups on one server."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rounds = 0
        self.steady: list[bytes] = []
        self._runner = asyncio.Runner(loop_factory=event_loop_factory())

    def _application(self, group: str, topic: str) -> Application:
        pid = self.target.server.pid
        return Application(*self.target.server.address, lambda: measure.cpu_s(pid), group, topic, TOPICS[topic])

    def prepare(self) -> None:
        """Create the topics and the members for the steady heartbeats."""
        for topic, partitions in TOPICS.items():
            self.target.create_topic(topic, partitions)

        async def settle() -> list[bytes]:
            application = self._application("steady", "streams-small")
            await application.join(INSTANCES)
            frames = application.steady_frames()
            application.close()
            return frames

        self.steady = self._runner.run(settle())

    def heartbeats(self) -> Figures:
        """Measure heartbeats of members of a stable group. Each connection has one unanswered request."""
        load = self.target.load(self.steady, connections=INSTANCES, error_at=ERROR_AT)
        return of_load(f"streams group heartbeat, {REPEATED}, {INSTANCES} connections", load)

    def settle(self) -> Figures:
        """Measure how long a large application takes to become stable."""
        self.rounds += 1

        async def settled() -> Figures:
            application = self._application(f"large-{self.rounds}", "streams-large")
            took = await application.join(INSTANCES)
            application.close()
            return {f"{SETTLE}, CPU ms": took.server_cpu_s * 1000, f"{SETTLE}, wall ms": took.wall_s * 1000}

        return self._runner.run(settled())


def main() -> None:
    """Print the medians of several rounds. The servers take turns."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each server is measured (default: 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each load runs (default: 2)")
    parser.add_argument("--without-kafka", action="store_true", help="measure Muster alone")
    args = parser.parse_args()
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        workdir = Path(folder)
        frameload = FrameLoad(workdir)
        servers: list[ServerProcess] = [MusterServer(workdir / "muster", SETTINGS)]
        if kafka_available() and not args.without_kafka:
            servers.append(KafkaServer(workdir / "kafka", SETTINGS))
        measured = []
        try:
            for server in servers:
                server.start()
                groups = Groups(Target(server, frameload, args.seconds))
                groups.prepare()
                for _ in range(3):  # a JVM is slow until it is warm
                    groups.heartbeats()
                    groups.settle()
                measured.append(groups)
            for _ in range(args.rounds):
                for groups in measured:
                    for name, value in {**groups.heartbeats(), **groups.settle()}.items():
                        samples[name][groups.target.server.name].append(value)
        finally:
            for server in servers:
                if server.running:
                    server.stop()
    for name, by_server in samples.items():
        medians = {server: statistics.median(values) for server, values in by_server.items()}
        share = f"  {medians['muster'] / medians['kafka']:.2f} x" if "kafka" in medians else ""
        print(f"{name}: {', '.join(f'{server} {value:.1f}' for server, value in medians.items())}{share}")


if __name__ == "__main__":
    main()
