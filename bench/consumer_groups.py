"""`python -m bench.consumer_groups` measures consumer groups (KIP-848) on Muster, and on a real Apache Kafka 4.4.

Kafka needs Java. `bench.run` measures the same figures.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Mapping
from typing import Final

from bench import measure, side_by_side
from bench.load.consumer_members import ERROR_AT, Crowd
from bench.scenarios import REPEATED, Figures, Target, event_loop_factory, of_load
from tests.support.servers import REPOSITORY

SETTINGS: Final[Mapping[str, str]] = {
    "group.consumer.session.timeout.ms": "1800000",
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
"""Members do not time out between rounds. They send heartbeats often, so that pauses do not hide the server's work."""
SMALL: Final = {"consumer-small": 100}
LARGE: Final = {f"consumer-large-{number}": 1_000 for number in range(10)}
"""Topics, each with its number of partitions. Apache Kafka creates only some thousands of partitions at a time."""
MEMBERS, MEMBERS_EACH, CHANGES = 1_000, 10, 3
SETTLE: Final = "consumer group: 1,000 members on 10,000 partitions settle"
MORE: Final = "consumer group: one member more among 1,000, its target is known"
LESS: Final = "consumer group: one member less among 1,000, targets are known"


class Groups:
    """Measures consumer groups on one server."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rounds = 0
        self.steady: dict[int, list[bytes]] = {}
        self._runner = asyncio.Runner(loop_factory=event_loop_factory())

    def crowd(self, topics: Mapping[str, int]) -> Crowd:
        """Make clients that subscribe to these topics."""
        pid = self.target.server.pid
        return Crowd(*self.target.server.address, lambda: measure.cpu_s(pid), topics)

    def prepare(self) -> None:
        """Create the topics and the members for the steady heartbeats."""
        for topic, partitions in {**SMALL, **LARGE}.items():
            self.target.create_topic(topic, partitions)
        for connections in (100, 1000):
            groups = [f"steady-{connections}-{number:02}" for number in range(connections // MEMBERS_EACH)]

            async def settle(groups: list[str] = groups) -> list[bytes]:
                crowd = self.crowd(SMALL)
                await crowd.join(groups, MEMBERS_EACH)
                frames = crowd.steady_frames()
                crowd.close()
                return frames

            self.steady[connections] = self._runner.run(settle())

    def heartbeats(self, connections: int) -> Figures:
        """Measure heartbeats of members in stable groups. Each connection has one unanswered request."""
        load = self.target.load(self.steady[connections], connections=connections, error_at=ERROR_AT)
        return of_load(f"consumer group heartbeat, {REPEATED}, {connections} connections", load)

    def large(self) -> Figures:
        """Measure how long a large group takes to become stable; then add and remove a member in turn."""
        self.rounds += 1
        return self._runner.run(self._large(f"large-{self.rounds}"))

    async def _large(self, group: str) -> Figures:
        crowd = self.crowd(LARGE)
        settled = await crowd.join([group], MEMBERS)
        port, epoch = self.target.server.address[1], crowd.members[group][0].epoch
        words = [str(port), str(self.target.server.pid), group, str(epoch), str(CHANGES), *LARGE]
        joining = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.load.joining_members", *words, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await joining.communicate()
        changes = json.loads(output)
        crowd.close()
        return {
            f"{SETTLE}, CPU ms": settled.server_cpu_s * 1000,
            f"{SETTLE}, wall ms": settled.wall_s * 1000,
            **_medians(MORE, changes["more"]),
            **_medians(LESS, changes["less"]),
        }

    def warm(self) -> None:
        """Send heartbeats before the first round."""
        for connections in (100, 1000):
            self.heartbeats(connections)

    def figures(self) -> Figures:
        """Run one round, and return its figures."""
        return {**self.heartbeats(100), **self.heartbeats(1000), **self.large()}


def _medians(name: str, changes: list[tuple[float, float]]) -> Figures:
    wall_ms, cpu_ms = zip(*changes, strict=True)
    return {f"{name}, CPU ms": statistics.median(cpu_ms), f"{name}, wall ms": statistics.median(wall_ms)}


if __name__ == "__main__":
    side_by_side.main("python -m bench.consumer_groups", __doc__, SETTINGS, Groups)
