"""Records the logs of streams groups again: `python -m tests.pipeline.streams.record`. It needs Java and Maven.

The same heartbeats drive groups on a real Kafka 4.4 and on Muster, each for most of a minute. A thread of an instance
is a member; the part of its name before `-` is the instance.
"""

from __future__ import annotations

import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from muster.client.connection import VERSIONS
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from muster.protocol.api import ApiKey
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
)
from tests.coordinator.groups.streams.topologies import sent
from tests.e2e.conftest import create_topic
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

HERE: Final = Path(__file__).parent
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "5",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "5000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
COUNT: Final = "0:lines>count-words-repartition 1:<count-words-repartition%count-store-changelog"
BEAT_S: Final = 0.5
KINDS: Final = ("active_tasks", "standby_tasks", "warmup_tasks")


class Member:
    """A thread of an instance, which has at once the tasks that it is given."""

    def __init__(self, client: KafkaClient, group: str, name: str, topology: str) -> None:
        self.client, self.group, self.name, self.topology = client, group, name, topology
        self.epoch = 0
        self.tasks: list[Any] = [[], [], []]

    def beat(self, epoch: int | None = None, *, shutdown: bool = False) -> Any:
        """Send a heartbeat."""
        epoch = self.epoch if epoch is None else epoch
        request = StreamsGroupHeartbeatRequest(
            self.group, self.name, epoch, topology=None if epoch else sent(self.topology), active_tasks=self.tasks[0],
            standby_tasks=self.tasks[1], warmup_tasks=self.tasks[2], shutdown_application=shutdown,
        )  # fmt: skip
        if not epoch:
            request.rebalance_timeout_ms, request.process_id = 10_000, self.name.partition("-")[0]
        _, answer = self.client.ask_coordinator(
            self.group, ApiKey.STREAMS_GROUP_HEARTBEAT, request, lambda one: [one.error_code]
        )
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = [
                [
                    StreamsGroupHeartbeatRequestTaskIds(row.subtopology_id, row.partitions)
                    for row in getattr(answer, kind)
                ]
                for kind in KINDS
            ]
        return answer


def happenings(server: ServerProcess, client: KafkaClient) -> Iterator[list[Member]]:
    """What happens, beat by beat: the members that send heartbeats.

    * count: two instances, the first one with two threads; the second one leaves, returns, and dies
    * waits: its source topic does not exist
    * late: its source topic is created after a while
    * ends: an instance has an error, and asks all others to end
    """
    one, two = (Member(client, "count", name, COUNT) for name in ("p-1", "p-2"))
    other, waits = Member(client, "count", "q-1", COUNT), Member(client, "waits", "w-1", "0:nope%waits-store-changelog")
    late, ends = (
        Member(client, "late", "l-1", "0:soon"),
        [Member(client, "ends", name, "0:lines") for name in ("e-1", "f-1")],
    )
    for _ in range(10):
        yield [one, waits, late, *ends]
    create_topic(server, "soon", 2)
    for _ in range(14):
        yield [one, two, other, waits, late, *ends]
    ends[0].beat(shutdown=True)
    for member in ends:
        member.beat(-1)
    other.beat(-1)
    other.epoch, other.tasks = 0, [[], [], []]
    for _ in range(8):
        yield [one, two, waits, late]
    for _ in range(12):
        yield [one, two, other, waits, late]
    for _ in range(26):
        yield [one, two, waits, late]


def record(name: str, server: ServerProcess, logs: Path) -> None:
    """Drive the groups on a server, and keep its log."""
    server.start()
    create_topic(server, "lines", 3)
    with KafkaClient([Address(*one) for one in server.addresses]) as client:
        for members in happenings(server, client):
            began = time.monotonic()
            for member in members:
                member.beat()
            time.sleep(max(BEAT_S - (time.monotonic() - began), 0))
    server.stop()
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as kept:
        for file in sorted([*logs.glob("*/*.log"), *logs.glob("*/partition.metadata")]):
            is_wanted = file.stat().st_size or not file.parent.name.startswith("__")
            if is_wanted and not file.parent.name.startswith("__cluster_metadata"):
                kept.add(file, file.relative_to(logs), filter=_nobody)


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def main() -> None:
    """Record both logs."""
    VERSIONS[ApiKey.STREAMS_GROUP_HEARTBEAT] = 1, 1  # no command sends it
    with tempfile.TemporaryDirectory() as folder:
        kafka, muster = Path(folder) / "kafka", Path(folder) / "muster"
        record("muster", MusterServer(muster, PROPERTIES), muster / "data")
        record("kafka", KafkaServer(kafka, PROPERTIES), kafka / "data" / "logs")


if __name__ == "__main__":
    main()
