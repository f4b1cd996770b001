"""A member of a streams group for tests: it sends the heartbeats of one thread of Kafka Streams one by one."""

from __future__ import annotations

from typing import Any

from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.support.muster import Client

PART = "0"
"""The id of the only subtopology."""


class StreamsThread:
    """A member that reads one topic, and keeps a store. Each heartbeat says which tasks it has."""

    def __init__(self, client: Client, group: str, name: str, topic: str) -> None:
        self.client, self.group, self.name, self.topic = client, group, name, topic
        self.epoch = 0
        self.tasks: list[list[int]] = [[], [], []]
        """The numbers of its active, standby and warm-up tasks."""

    async def beat(self, *, keeps: bool = True, behind: dict[int, int] | None = None) -> Any:
        """Join, or stay a member. Without `keeps` it says that it has the tasks of the last answer, and no others.
        `behind`: how many records each task lacks.
        """
        request = StreamsGroupHeartbeatRequest(self.group, self.name, self.epoch)
        if not self.epoch:
            request.rebalance_timeout_ms, request.process_id = 60_000, self.name
            store = [TopicInfo(f"{self.group}-store-changelog")]
            request.topology = Topology(0, [Subtopology(PART, [self.topic], state_changelog_topics=store)])
        if not self.epoch or not keeps:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = (
                [StreamsGroupHeartbeatRequestTaskIds(PART, its)] if its else [] for its in self.tasks
            )
        if behind is not None:
            request.task_offsets = [TaskOffset(PART, one, 10) for one in behind]
            request.task_end_offsets = [TaskOffset(PART, one, 10 + lack) for one, lack in behind.items()]
        answer = await self.client.ask(request)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        for place, rows in enumerate((answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)):
            if rows is not None:
                self.tasks[place] = sorted(number for row in rows for number in row.partitions)
        return answer

    async def settle(self, *others: StreamsThread) -> None:
        """Beat, with these others, until all have what they are to have."""
        threads = (self, *others)
        for _ in range(6):
            for one in threads:
                await one.beat(keeps=False)
