"""Asks each new process, as clients do, for everything that earlier processes have promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.log import batches
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.metadata import MetadataRequest
from muster.simulation.actor import Actor, Script
from muster.simulation.consumer import fetch_of, offsets_of
from tests.simulation.at_rest import unrest
from tests.simulation.scenario import PARTITIONS, TOPIC
from tests.torture.ledger import Place
from tests.torture.node.actors import SETTING, TOPIC_KIND

if TYPE_CHECKING:
    from tests.torture.node.world import World

NOT_NOW: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
LOOKS: Final = 400
"""How often it asks again, every 100 ms, before something counts as lost."""


class Judge(Actor):
    """The judge of one process. `done` when it has checked everything."""

    def __init__(self, world: World, *, was_cut: bool) -> None:
        super().__init__(world, "judge")
        self.done = False
        self._was_cut = was_cut
        node: Any = world
        self._node = node
        self._offsets = dict(node.offsets.acknowledged)
        self._records = {partition: dict(numbers) for partition, numbers in node.records.acknowledged.items()}
        self._topics = dict(node.topics.sure)

    def live(self) -> Script:
        yield from self._judge_offsets()
        for partition in range(PARTITIONS):
            yield from self._judge_records(partition)
        yield from self._judge_topics()
        self.done = True
        self._node.judged()

    def _judge_offsets(self) -> Script:
        found: dict[Place, int] = {}
        for group in dict.fromkeys(place.group for place in self._node.offsets.attempted):
            for _ in range(LOOKS):
                response = yield fetch_of(group, None)
                if response is not None and response.groups[0].error_code not in NOT_NOW:
                    break
                yield 100
            else:
                if not any(name.startswith(GROUP_OFFSETS_TOPIC) for name in self._node.excused):
                    self._node.fault(f"the group {group} is away for good")
                return
            for topic, offsets in offsets_of(response).items():
                found.update({Place(group, topic, partition): offset for partition, offset in offsets.items()})
        self._node.offsets.judge(self._offsets, found)

    def _judge_records(self, partition: int) -> Script:
        found: list[int] = []
        offset = 0
        for _ in range(LOOKS):
            row = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            response = yield FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[row])])
            if response is None or (error := response.responses[0].partitions[0].error_code) in NOT_NOW:
                yield 100
                continue
            if error:
                self._node.fault(f"partition {partition} cannot be read from {offset}: {error_name(error)}")
                return
            data = bytes(response.responses[0].partitions[0].records or b"")
            records = [record for _, some in batches.read(data) for record in some]
            if not records:
                break
            found += [int(record.value or b"0") for record in records if record.offset >= offset]
            offset = records[-1].offset + 1
        else:
            if f"{TOPIC}-{partition}" not in self._node.excused:
                self._node.fault(f"partition {partition} is away for good")
            return
        promised = self._records.get(partition, {})
        for fault in self._node.records.judge(partition, promised, found, was_cut=self._was_cut):
            self._node.fault(fault)

    def _judge_topics(self) -> Script:
        response = yield MetadataRequest(None)
        while response is None:
            yield 100
            response = yield MetadataRequest(None)
        found = {
            topic.name: (len(topic.partitions), sum(one.error_code != 0 for one in topic.partitions))
            for topic in response.topics
        }
        for fault in self._node.topics.judge(self._topics, found):
            self._node.fault(fault)
        for name in [name for name in self._node.topics.settings if name in found]:
            response = yield DescribeConfigsRequest([DescribeConfigsResource(TOPIC_KIND, name, [SETTING])])
            if response is None or response.results[0].error_code:
                continue
            value = response.results[0].configs[0].value
            possible = self._node.topics.settings[name]
            # of several changes without an answer the first may never have come: then the value is as before
            if value not in possible and not (len(possible) > 1 or name not in self._node.topics.sure):
                self._node.fault(f"{SETTING} of {name} is {value}, and was set to one of {sorted(possible)}")


class Inspector(Actor):
    """Checks, when no faults happen, whether each group has settled with its living members."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "inspector")
        self.problem = "nobody has looked yet"
        self._node: Any = world

    def live(self) -> Script:
        while True:
            self.problem = yield from self._look()
            if not self.problem:
                return
            yield 1_000

    def _look(self) -> Any:
        living = self._node.chaos.living()
        for group in dict.fromkeys(one.group_id for one in living):
            response = yield DescribeGroupsRequest([group])
            if response is None:
                return "no answer"
            wrong = unrest(response.groups[0], self._node.chaos.living())
            if wrong:
                return f"{group} {wrong}"
        return ""
