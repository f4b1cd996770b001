"""`python -m bench.streams` measures streams groups (KIP-1071) on Muster, and on a real Apache Kafka if Java is there.

It measures the server's CPU time for a steady heartbeat of 100 members. It also measures the time in which an
application of 100 instances gets its 1,000 tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from bench import measure, side_by_side
from bench.load.consumer_members import ERROR_AT
from bench.load.streams_members import Application
from bench.scenarios import REPEATED, Figures, Target, event_loop_factory, of_load

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

    def warm(self) -> None:
        """Run some rounds that do not count."""
        for _ in range(3):
            self.figures()

    def figures(self) -> Figures:
        """Run one round, and return its figures."""
        return {**self.heartbeats(), **self.settle()}


if __name__ == "__main__":
    side_by_side.main("python -m bench.streams", __doc__, SETTINGS, Groups)
