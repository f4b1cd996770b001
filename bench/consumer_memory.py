"""`python -m bench.consumer_memory` measures the memory of a member of a stable consumer group, by how much the process
grows. Members join as clients do, by heartbeats that are decoded from bytes. All that a group keeps counts: members,
target assignments, owners of partitions, deadlines. `bench.memory` measures classic members.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from bench.memory import Samples, resident_bytes
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client, Now
from muster.protocol.api import api_named
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.support.servers import REPOSITORY

GROUPS: Final = 20
MEMBERS: Final = 1_000
CLIENTS: Final = 500
"""The number of client ids, and of client addresses."""
VERSION: Final = 1
ALONE: Final = "consumer group: memory of a member with one partition, one of 1,000, bytes"
LARGE: Final = "consumer group: memory of a member with ten partitions, one of 1,000, bytes"
MAX_BYTES: Final = 1_000_000
INTERVAL_MS: Final = 1_000
BEGIN: Final = Now(1_000, 1_700_000_000_000)
_API: Final = api_named("ConsumerGroupHeartbeat")


class Live:
    """A state machine with groups whose members have reached their target assignments."""

    def __init__(self, partitions: int) -> None:
        self.image = TopicsImage({"orders": TopicImage("orders", bytes(range(16)), partitions)}, 1)
        settings = GroupSettings(group_consumer_assignment_interval_ms=INTERVAL_MS, group_consumer_max_size=MEMBERS)
        self.core = GroupCore(settings, self.image)
        self.core.loaded(BEGIN)
        self.now = BEGIN
        self._random = Random(7)

    def join(self, group_id: str) -> None:
        """Let `MEMBERS` members join a group, until all have reached their target assignments."""
        self._pass()
        clients = [
            Client(f"client-{one % CLIENTS}", f"/10.0.{one % CLIENTS // 250}.{one % 250}") for one in range(MEMBERS)
        ]
        members = [(str(uuid.UUID(int=self._random.getrandbits(128), version=4)), one) for one in clients]
        for member_id, client in members:
            self._beat(group_id, member_id, 0, client, owned=())
        self._pass()
        group = self.core.state.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        for _ in range(3):
            for member_id, client in members:
                at = group.members[member_id].position
                self._beat(group_id, member_id, at.epoch, client, owned=at.assigned)
        assert group.state == "Stable", group.state
        assert sum(map(len, group.owners.values())) == self.image.by_name["orders"].partitions
        assert len(group.members) == MEMBERS

    def _pass(self) -> None:
        self.now = Now(self.now.mono_ms + INTERVAL_MS, self.now.wall_ms + INTERVAL_MS)

    def _beat(self, group_id: str, member_id: str, epoch: int, client: Client, *, owned: Sequence[Any]) -> None:
        rows = [ConsumerGroupHeartbeatRequestTopicPartitions(row[0], list(row[1])) for row in owned]
        names, timeout_ms = (None, -1) if epoch else (["orders"], 300_000)
        said = ConsumerGroupHeartbeatRequest(
            group_id, member_id, epoch, None, None, timeout_ms, names, None, None, rows
        )
        request = _API.decode_request(VERSION, _API.encode_request(VERSION, said))
        command = ConsumerHeartbeatCommand(request, _not_called, client, version=VERSION)
        self.core.handle(command, self.now, MAX_BYTES)


def _not_called(_: object) -> None:
    raise AssertionError("the core calls nobody")


def live_bytes(partitions: int) -> float:
    """The bytes of memory for each member of stable groups."""
    live = Live(partitions)
    live.join("first")  # this group makes what exists only once, and leaves freed memory behind
    before = resident_bytes()
    for number in range(GROUPS):
        live.join(f"group-{number}")
    return (resident_bytes() - before) / (GROUPS * MEMBERS)


MEASURES: Final[Mapping[str, Callable[[], float]]] = {
    ALONE: lambda: live_bytes(MEMBERS),
    LARGE: lambda: live_bytes(10 * MEMBERS),
}


def figures(samples: Samples) -> None:
    """Measure each figure in a process of its own, because memory that another measure has freed would be used
    again.
    """
    for name in MEASURES:
        done = subprocess.run(
            [sys.executable, "-m", "bench.consumer_memory", name], cwd=REPOSITORY, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        samples[name]["muster"].append(json.loads(done.stdout))


def main() -> None:
    """Print one figure by its name (as JSON), or all figures."""
    if len(sys.argv) > 1:
        print(json.dumps(MEASURES[sys.argv[1]]()))
        return
    samples: Samples = defaultdict(lambda: defaultdict(list))
    figures(samples)
    for name, by_server in samples.items():
        print(f"{name}: {by_server['muster'][0]:.0f}")


if __name__ == "__main__":
    main()
