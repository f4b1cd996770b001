"""Brokers that keep states of share partitions, on the node as on Kafka: what was acknowledged stays so.

Each keeper moves the start offset of its share partition by one, again and again. The least offset that a later process
may show is the acknowledged one.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages import initialize_share_group_state as initialize
from muster.protocol.messages import read_share_group_state as read
from muster.protocol.messages import write_share_group_state as write
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.simulation.actor import Actor, Script
from tests.simulation.scenario import TOPIC
from tests.torture.ledger import Ledger, Place
from tests.torture.node.judge import LOOKS, NOT_NOW

if TYPE_CHECKING:
    from tests.torture.node.world import World

STATE_TOPIC: Final = "__share_group_state"
SHARE: Final = 2
"""The key type of FindCoordinator."""
EPOCH: Final = 1


class ShareStates:
    """The share partitions of the keepers. `ledger` has the start offset of each."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.topic_id = b""
        self.leader_epoch = 0
        self.created: set[Place] = set()
        """The states whose creation was acknowledged."""

    def next_leader_epoch(self) -> int:
        """The epoch of the next leader of a partition: each judge is a leader, after which the keeper is again one."""
        self.leader_epoch += 1
        return self.leader_epoch

    def finding(self, place: Place) -> Any:
        """Ask for the topic's id, and for the coordinator; this creates its topic."""
        if not self.topic_id:
            answer = yield MetadataRequest([MetadataRequestTopic(name=TOPIC)])
            if answer is not None and not answer.topics[0].error_code:
                self.topic_id = answer.topics[0].topic_id
        if self.topic_id:
            key = f"{place.group}:{base64.urlsafe_b64encode(self.topic_id).rstrip(b'=').decode()}:{place.partition}"
            yield FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])

    def reading(self, place: Place) -> Any:
        """Read a state as a new leader of the partition. The result is the row of the answer, or None."""
        row = read.PartitionData(place.partition, self.next_leader_epoch())
        topics = [read.ReadStateData(self.topic_id, [row])]
        answer = yield read.ReadShareGroupStateRequest(place.group, topics)
        return None if answer is None else answer.results[0].partitions[0]


class Keeper(Actor):
    """The leader of one share partition."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"keeper-{number}")
        self.place = Place(self.name, TOPIC, 0)

    def live(self) -> Script:
        world: Any = self.world
        states: ShareStates = world.share_states
        while True:
            yield 1 + int(world.random() * 300)
            if self.place not in states.created:
                yield from states.finding(self.place)
                if states.topic_id and (yield from self._create(states)):
                    states.created.add(self.place)
            elif not world.judging:  # the judge leads the partition meanwhile
                found: Any = yield from states.reading(self.place)
                epoch = states.leader_epoch
                while found is not None and not found.error_code and (yield from self._write(states, epoch)):
                    yield 1 + int(world.random() * 300)

    def _create(self, states: ShareStates) -> Any:
        row = initialize.PartitionData(0, EPOCH, 0)
        topics = [initialize.InitializeStateData(states.topic_id, [row])]
        answer = yield initialize.InitializeShareGroupStateRequest(self.place.group, topics)
        return answer is not None and not answer.results[0].partitions[0].error_code

    def _write(self, states: ShareStates, leader_epoch: int) -> Any:
        number = states.ledger.attempt(self.place)
        rows = [write.StateBatch(number, number + 2, 0, 1 + number % 5), write.StateBatch(number + 1, number + 1, 2, 6)]
        row = write.PartitionData(0, EPOCH, leader_epoch, number, 1, rows)
        answer = yield write.WriteShareGroupStateRequest(
            self.place.group, [write.WriteStateData(states.topic_id, [row])]
        )
        if answer is None or answer.results[0].partitions[0].error_code:
            return False
        states.ledger.acknowledge(self.place, number)
        return True


class StateJudge(Actor):
    """Asks a new process for all states. `done` when it has checked them."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "judge of states")
        node: Any = world
        self._node = node
        self._acknowledged = dict(node.share_states.ledger.acknowledged)
        self.done = False

    def live(self) -> Script:
        states: ShareStates = self._node.share_states
        found: dict[Place, int] = {}
        for place in self._acknowledged:
            for _ in range(LOOKS):
                row: Any = yield from states.reading(place)
                if row is not None and row.error_code not in (*NOT_NOW, ErrorCode.FENCED_LEADER_EPOCH):
                    break
                yield 100
            else:
                if not any(name.startswith(STATE_TOPIC) for name in self._node.excused):
                    self._node.fault(f"the state of {place} is away for good")
                return
            if row.error_code:
                self._node.fault(f"the state of {place} cannot be read: {row}")
            elif any(one.last_offset < row.start_offset for one in row.state_batches):
                self._node.fault(f"the state of {place} has old rows: {row}")
            else:
                found[place] = row.start_offset
        states.ledger.judge(self._acknowledged, found)
        for fault in states.ledger.faults:
            self._node.fault(fault)
        self.done = True
