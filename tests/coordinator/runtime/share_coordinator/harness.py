"""The share coordinators of the nodes of a process, over logs in memory."""

from __future__ import annotations

from typing import Any

from muster.coordinator.log import MemoryStorage, Storage
from muster.coordinator.runtime.routing import LeaderShards
from muster.coordinator.runtime.share_coordinator.share_states import Place, ShareStates
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.core import ShareStateSettings
from muster.coordinator.share_state.persister import InitializeState, ReadState, ReadSummary, StateKey, WriteState
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import JobQueue, at_once
from muster.coordinator.topics.cluster_image import Leader
from tests.coordinator.topics.support import make_topics

PARTITIONS = 3
ROWS = [Row(0, 4, 2, 1), Row(7, 7, 0, 2)]


class SharesHarness:
    """Share coordinators with a topic `t` of two partitions. The same storage again means a restart."""

    def __init__(self, storage: Storage | None = None, nodes: int = 1, **settings: int) -> None:
        self.storage = storage or MemoryStorage()
        self.clock = ManualClock()
        self.topics = make_topics(
            self.storage, self.clock, share_coordinator_state_topic_num_partitions=PARTITIONS
        )  # fmt: skip
        at_once(self.topics.ensuring("t", 2))
        self.topics.publish()
        self.key = StateKey("g", self.topics.by_name["t"].topic_id, 1)
        self.leaders = [Leader(1, 0)] * PARTITIONS
        self.nodes: dict[int, ShareStates] = {}
        shards = LeaderShards(lambda: self.leaders, {1: self._shards(1), 2: self._shards(2)}, 1) if nodes > 1 else None
        for node_id in range(1, nodes + 1):
            self.nodes[node_id] = ShareStates(
                self.topics,
                self.clock,
                JobQueue(self.clock),
                lambda: (ShareStateSettings(**settings), 0),
                Place(node_id, lambda: self.leaders, shards),
            )
            self.nodes[node_id].start(100)
        self.states = self.nodes[1]

    def _shards(self, node_id: int) -> Any:
        return lambda: self.nodes[node_id].routing.shards if node_id in self.nodes else ()

    def restarted(self) -> SharesHarness:
        """The process after a clean stop and a start."""
        self.states.stop()
        self.topics.logs.close(clean=True)
        return SharesHarness(self.storage)

    def ask(self, what: Any, request: Any) -> Any:
        """The answer of a method of the persister; None while there is none."""
        answers: list[Any] = []
        what(request, answers.append)
        self.clock.advance(0)
        return answers[0] if answers else None

    def initialize(self, start: int = 0, state_epoch: int = 1, key: StateKey | None = None) -> Any:
        return self.ask(self.states.initialize, InitializeState(key or self.key, state_epoch, start))

    def write(self, *rows: Row, start: int = 0, done: int = 0, leader_epoch: int = 0) -> Any:
        return self.ask(self.states.write, WriteState(self.key, 1, leader_epoch, start, done, rows))

    def read(self, leader_epoch: int = 0, states: ShareStates | None = None) -> Any:
        return self.ask((states or self.states).read, ReadState(self.key, leader_epoch))

    def summary(self) -> Any:
        return self.ask(self.states.read_summary, ReadSummary(self.key))
