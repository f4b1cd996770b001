"""The clients of the node beside the consumers of `tests.simulation`. Each success of theirs is noted, so that a later
server can be asked for it. One client sends bytes that are no requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.log import batches
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.simulation.actor import Actor, Script
from muster.virtual.wires import Wire
from tests.simulation.scenario import TOPIC

if TYPE_CHECKING:
    from tests.torture.node.world import World

TOPIC_KIND: Final = 2
SETTING: Final = "retention.ms"
MAX_TOPICS: Final = 4
"""The most topics that an administrator has at a time."""


class Producer(Actor):
    """Writes increasing numbers, each once, to one partition."""

    def __init__(self, world: World, partition: int) -> None:
        super().__init__(world, f"producer-{partition}")
        self.partition = partition

    def live(self) -> Script:
        world: Any = self.world
        while True:
            yield 1 + int(world.random() * 400)
            number = world.records.attempt(self.partition)
            data = batches.build([(None, b"%d" % number)], timestamp_ms=world.wall_ms)
            rows = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(self.partition, bytes(data))])]
            response = yield ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=rows)
            if response is not None:
                row = response.responses[0].partition_responses[0]
                if row.error_code == ErrorCode.NONE:
                    world.records.acknowledge(self.partition, number)


class Administrator(Actor):
    """Creates topics, changes a setting of them, and deletes them."""

    def live(self) -> Script:
        world: Any = self.world
        made = 0
        while True:
            yield 1 + int(world.random() * 1_500)
            if world.judging:
                continue  # what the judge has seen counts when it has seen the rest
            chance = world.random()
            names = world.topics.present()
            if chance < 0.4 and len(names) < MAX_TOPICS:
                made += 1
                name, partitions = f"{self.name}-{made}", 1 + int(world.random() * 3)
                world.topics.creating(name, partitions)
                response = yield CreateTopicsRequest([CreatableTopic(name, partitions, -1)])
                if response is not None:
                    world.topics.created(name, response.topics[0].error_code)
            elif chance < 0.7 and names:
                name, value = names[int(world.random() * len(names))], str(1_000_000 + int(world.random() * 1_000_000))
                world.topics.setting(name, value)
                change = AlterableConfig(SETTING, 0, value)
                response = yield IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_KIND, name, [change])])
                if response is not None:
                    world.topics.was_set(name, value, response.responses[0].error_code)
            elif names:
                name = names[int(world.random() * len(names))]
                world.topics.deleting(name)
                response = yield DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1_000)
                if response is not None:
                    world.topics.deleted(name, response.responses[0].error_code)


class Rogue:
    """Connects and sends bytes that are no request, or half of one; never reads."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._wires: list[Any] = []

    def tick(self) -> None:
        """Send some such bytes."""
        world = self.world
        self._wires = [wire for wire in self._wires if wire.open]
        if len(self._wires) > 3 or (self._wires and world.random() < 0.3):
            self._wires.pop(0).cut()
            return
        if world.process is not None and world.process.accepts:
            wire = Wire(world.process, self, 50)
            self._wires.append(wire)
            wire.send(self._bytes())

    def _bytes(self) -> bytes:
        world, chance = self.world, self.world.random()
        noise = world.rng.randbytes(1 + int(world.random() * 60))
        if chance < 0.2:
            return noise
        if chance < 0.4:
            return len(noise).to_bytes(4, "big") + noise
        if chance < 0.6:  # the beginning of a large request
            return (50_000_000).to_bytes(4, "big") + noise
        key = world.rng.randrange(70)
        head = key.to_bytes(2, "big") + world.rng.randrange(12).to_bytes(2, "big") + b"\0\0\0\1\0\3bad"
        return (len(head) + len(noise)).to_bytes(4, "big") + head + noise

    def received(self, wire: Any, data: bytes) -> None:
        """Ignore the bytes."""

    def hung_up(self, wire: Any) -> None:
        """Ignore it."""
