"""The world of a sample: topics, and a shard with log and journal for each partition of __consumer_offsets.

The parts are put together as in the server. Requests go straight to the shards, without a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.history.journal import Journal
from muster.coordinator.log import FileStorage, LogManager, LogSettings, UnifiedLog, batches
from muster.coordinator.log.storage.lock import LOCK_FILE
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shards import group_shards
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.state_machine.interface import Client, Command, Now
from muster.coordinator.system.jobs import at_once
from muster.coordinator.system.uuids import draw_uuid, draw_uuid_text
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC, GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.topics import Topics
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.virtual import world

FIRST_OFFSETS = 1_000_000
"""Topics existed before the sample begins, so their partitions start at offsets below this."""


class Traffic:
    """The producers of one topic. Each partition grows evenly from its first offset, at its own rate."""

    def __init__(self, name: str, partitions: int, records_per_s: int, start_ms: int, random: Random) -> None:
        """`records_per_s`: the rate of an average partition; 0: nobody ever produces records.

        `start_ms`: the wall time at which the sample starts.
        """
        self.name = name
        self.records_per_s = records_per_s
        self._random = random
        self._first: list[int] = []
        self._since_ms: list[int] = []
        self._rates: list[int] = []
        self.grow(partitions, start_ms, is_new=False)

    def grow(self, partitions: int, wall_ms: int, *, is_new: bool = True) -> None:
        """Set the number of partitions. Added partitions begin at offset 0 if the topic `is_new`."""
        while len(self._first) < partitions:
            self._first.append(0 if is_new else self._random.randrange(1_000, FIRST_OFFSETS))
            self._since_ms.append(wall_ms)
            self._rates.append(self.records_per_s * self._random.randrange(500, 1_500))

    @property
    def partitions(self) -> int:
        return len(self._first)

    def end(self, partition: int, wall_ms: int) -> int:
        """The end offset of a partition at a wall time."""
        elapsed_ms = max(wall_ms - self._since_ms[partition], 0)
        return self._first[partition] + elapsed_ms * self._rates[partition] // 1_000_000

    def position(self, partition: int) -> tuple[int, int, int]:
        """The values from which `end` is computed.

        They are the first offset, the start of growth (wall ms), and the records per 1,000,000 ms.
        """
        return self._first[partition], self._since_ms[partition], self._rates[partition]

    def facts(self) -> dict[str, Sequence[int]]:
        """The same values for all partitions, in the form of the truth."""
        return {"first": self._first, "since": self._since_ms, "records_per_1000_s": self._rates}


NODE_ID: Final = 1
"""The node id, which is the default of `muster serve`."""
LAST_RECORD: Final = b"the last record that the sample's producers sent"
_MONO_MS: Final = 1_000_000
AT_ONCE: Final = ShardSettings(group_coordinator_append_linger_ms=0)
"""Settings with which no record waits for others before it is appended."""

Respond = Callable[[Message], object]


class World(world.World):
    """The world of a sample."""

    def __init__(self, directory: Path, *, seed: int, start_ms: int, partitions: int, settings: GroupSettings) -> None:
        """`partitions`: the number of partitions of __consumer_offsets. `start_ms`: the wall time of the start.

        Raises the errors of `LogManager.open`.
        """
        super().__init__(Random(f"{seed}:ids"), ms=_MONO_MS, wall_ms=start_ms - _MONO_MS)
        self.clock = world.VirtualClock(self)
        self.start_ms = start_ms
        self.settings = settings
        self.records = 0
        """The number of offsets that were committed so far."""
        self.traffic: dict[str, Traffic] = {}
        self._seed = seed
        self._when_rebalancing: dict[str, Callable[[], object]] = {}
        self._storage = FileStorage(directory)
        self._logs = LogManager(self._storage, LogSettings())
        identity = self._logs.open(cluster_id=None, node_id=NODE_ID, draw_uuid=self._draw_uuid)
        # no answer waits for the disk, because everything is synced at the end
        topics = TopicSettings(offsets_topic_num_partitions=partitions, muster_offsets_durability="os")
        self.topics = Topics(topics, self.clock, self._logs, identity, TopicConfigs(), self._draw_uuid)
        self.topics.load()
        for name in (GROUP_OFFSETS_TOPIC, GROUP_EVENTS_TOPIC):
            at_once(self.topics.ensuring(name))
        self._journals: list[Journal] = []
        shards = group_shards(self.topics, self.clock, settings, AT_ONCE, self._observe)
        self.routing = Routing(shards)
        for shard in shards:
            for _ in shard.runtime.start():
                pass
            self.topics.subscribe(shard.topics_changed)

    def _draw_uuid(self) -> bytes:
        return draw_uuid(self.rng.randbytes)

    def _observe(self, index: int) -> SampleObserver:
        journal = Journal(index, partial(self.topics.open.open_log, GROUP_EVENTS_TOPIC, index), self.clock)
        self._journals.append(journal)
        return SampleObserver(journal, self._when_rebalancing)

    def _log(self, topic: str, index: int) -> UnifiedLog:
        return self.topics.by_name[topic].existing(index).log

    # ---- requests

    def when_rebalancing(self, group_id: str, call: Callable[[], object]) -> None:
        self._when_rebalancing[group_id] = call

    def send(self, actor: Any, request: Message) -> None:
        """Send a request to the shard at once. The answer arrives after the actor's latency."""
        turn = actor.turn
        self.submit(
            actor.group_id, request, lambda answer: self.later(actor.latency_ms, lambda _: actor.take(turn, answer)),
            actor.client,
        )  # fmt: skip

    def ask(self, group_id: str, request: Message, client: Client) -> Any:
        """Send a request that the group's coordinator answers at once."""
        answers: list[Any] = []
        self.submit(group_id, request, answers.append, client)
        return answers[0]

    def submit(self, group_id: str, request: Message, respond: Respond, client: Client) -> None:
        """Send a request to the group's coordinator. `respond` gets the answer, perhaps at once."""
        if type(request) is JoinGroupRequest:
            drawn = draw_uuid_text(self.rng.randbytes)
            command: Command = JoinCommand(request, respond, client, drawn, True, True)
        else:
            command = Command(request, respond, client)
        self.routing.shard(group_id).runtime.submit(command)

    def beat(self, request: HeartbeatRequest, client: Client) -> Any:
        """Send a heartbeat. Its answer comes at once, because nothing waits for the disk here."""
        return self.routing.shard(request.group_id).heartbeat(request, _ignore, client)

    # ---- topics

    def create_topic(self, name: str, partitions: int, records_per_s: int) -> None:
        at_once(self.topics.creating(NewTopic(name, self._draw_uuid(), partitions, 1)))
        random = Random(f"{self._seed}:{name}")
        self.traffic[name] = Traffic(name, partitions, records_per_s, self.wall_ms, random)

    def grow_topic(self, name: str, partitions: int) -> None:
        at_once(self.topics.growing(name, partitions, None))
        self.traffic[name].grow(partitions, self.wall_ms)

    def partition_counts(self, names: Sequence[str]) -> dict[str, int]:
        """The numbers of partitions of the topics that exist."""
        by_name = self.topics.image.by_name
        return {name: by_name[name].partitions for name in names if name in by_name}

    # ---- the end

    def close(self) -> None:
        """Leave the directory as a clean stop does, with all members still in their groups."""
        for journal in self._journals:
            journal.close()
        for name, traffic in self.traffic.items():
            for index in range(traffic.partitions):
                end = traffic.end(index, self.wall_ms)
                if end:
                    self._reach(self._log(name, index), end)
        self._logs.close()
        # this file holds the number of this process, and would be different in each run
        self._storage.remove(LOCK_FILE)

    def _reach(self, log: UnifiedLog, end: int) -> None:
        """Give a data partition its end offset by one record there, as if retention had removed all others."""
        batch = batches.build([(None, LAST_RECORD)], timestamp_ms=self.wall_ms, base_offset=end - 1, leader_epoch=0)
        log.append_as_is(batch, wall_ms=self.wall_ms)
        log.delete_records_before(end - 1)

    def abandon(self) -> None:
        """Close the directory without a clean stop."""
        self._logs.close(clean=False)


def _ignore(_: Message) -> None:
    """Ignore an answer that comes later."""


class SampleObserver:
    """The observer of a shard. It writes the journal, and calls the group's callback when a group rebalances."""

    def __init__(self, journal: Journal, when_rebalancing: Mapping[str, Callable[[], object]]) -> None:
        self._journal = journal
        self._when_rebalancing = when_rebalancing
        self.loaded = journal.loaded
        self.flush = journal.flush

    def report(self, happened: Sequence[Event], now: Now) -> None:
        self._journal.report(happened, now)
        for event in happened:
            if event.kind == events.REBALANCE_STARTED and event.group_id in self._when_rebalancing:
                self._when_rebalancing[event.group_id]()
