"""A core with streams groups for tests: short calls for heartbeats, and the records as short texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupConfigured
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.streams import target
from muster.coordinator.groups.streams.group import StreamsGroup, streams_group
from muster.coordinator.groups.streams.heartbeat import HeartbeatCommand
from muster.coordinator.groups.streams.target import TasksComputed, TasksWanted
from muster.coordinator.state_machine.interface import Client, Record
from muster.protocol.messages.streams_group_heartbeat import KeyValue as Tag
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestTaskIds,
    TaskOffset,
    Topology,
)
from tests.coordinator.groups.consumer.harness import topics
from tests.coordinator.groups.harness import START, EpochGroupHarness
from tests.coordinator.groups.streams.topologies import sent

__all__ = ["START", "StreamsGroupHarness", "given", "topics"]

Tasks = str
"""0/1+2,1/0: partitions 1 and 2 of subtopology 0, and 0 of 1; "": no tasks."""

PLAIN = "0:t"
"""A topology that reads one topic."""


class StreamsGroupHarness(EpochGroupHarness):
    """A `GroupHarness` for streams groups, without delays of assignments. With `helped`, `offloaded` has the requests
    for targets that the core gives away.
    """

    def __init__(self, *, image: TopicsImage | None = None, helped: bool = False, **settings: Any) -> None:
        settings.setdefault("group_streams_assignment_interval_ms", 0)
        settings.setdefault("group_streams_initial_rebalance_delay_ms", 0)
        super().__init__(**settings)
        self.missing: Mapping[str, Any] = {}
        self.offloaded: list[TasksWanted] = []
        if helped:
            helpers = Helpers(self.offloaded.append, self.offloaded.append)
            self.core = GroupCore(self.settings, self.core.state.image, helpers=helpers)
            self.core.loaded(self.now)
        self.change_topics(image or topics(t=3, u=2))

    def heartbeat(
        self,
        member: str,
        epoch: int | None = None,
        topology: str | Topology | None = None,
        *,
        version: int = 1,
        **more: Any,
    ) -> Any:
        """Send a heartbeat, by default in the member's epoch and with its tasks."""
        if epoch is None:
            epoch = self.streams().members[member].position.epoch
        if isinstance(topology, str):
            topology = sent(topology)
        kinds = [more.pop(kind, "" if epoch == 0 else None) for kind in ("active", "standby", "warmup")]
        if epoch == 0:
            more = {"rebalance_timeout_ms": 10_000, "process_id": member, **more}
        if "endpoint" in more:
            host, _, port = more.pop("endpoint").partition(":")
            more["user_endpoint"] = StreamsGroupHeartbeatRequestEndpoint(host, int(port))
        if "tags" in more:
            more["client_tags"] = [Tag(*one) for one in more.pop("tags").items()]
        for name in ("task_offsets", "task_end_offsets"):
            if name in more:
                more[name] = [TaskOffset(*one) for one in more[name]]
        request = StreamsGroupHeartbeatRequest(
            "g", member, epoch, topology=topology, active_tasks=_rows(kinds[0]), standby_tasks=_rows(kinds[1]),
            warmup_tasks=_rows(kinds[2]),
        )  # fmt: skip
        for name, value in more.items():
            setattr(request, name, value)
        self.asked += 1
        command = HeartbeatCommand(request, self.asked, Client("c", "/h"), version)
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        self.settle()
        self.missing = command.missing
        return self.reply(self.asked)

    def collect(self, output: Any) -> Any:
        for respond, response in output.replies:
            if isinstance(response, TasksWanted):
                respond(response)
        output.replies = [one for one in output.replies if not isinstance(one[1], TasksWanted)]
        return super().collect(output)

    def compute(self) -> TasksComputed:
        """The result of the first request that the core gave away."""
        return target.computed(self.offloaded.pop(0))

    def notify(self, what: TasksComputed | GroupConfigured) -> None:
        """Give the core a result, or a group's configuration."""
        self.collect(self.core.handle(what, self.now, self.max_bytes))

    def change_topics(self, image: TopicsImage) -> None:
        """Give the core these topics."""
        self.collect(self.core.handle(TopicsChanged(image), self.now, self.max_bytes))

    def streams(self) -> StreamsGroup:
        found = streams_group(self.core.state, "g")
        assert found is not None
        return found

    def shown(self, record: Record) -> str:
        return text(record)


def given(response: Any) -> str | None:
    """The tasks of a response, such as "0/1+2 standby 0/0". None if the response has no tasks."""
    if response.active_tasks is None:
        return None
    kinds = (("", response.active_tasks), ("standby", response.standby_tasks), ("warmup", response.warmup_tasks))
    return " ".join(f"{kind} {_shown(rows)}".strip() for kind, rows in kinds if rows)


def _shown(rows: Any) -> str:
    return ",".join(f"{row.subtopology_id}/{'+'.join(map(str, row.partitions))}" for row in rows)


def _rows(tasks: Tasks | None) -> list[StreamsGroupHeartbeatRequestTaskIds] | None:
    if tasks is None:
        return None
    rows = [one.partition("/") for one in tasks.split(",")] if tasks else []
    return [StreamsGroupHeartbeatRequestTaskIds(name, [int(one) for one in its.split("+")]) for name, _, its in rows]


def text(record: Record) -> str:
    """A record in short: its type, whose it is, and its value."""
    key, value = record.key, record.value
    kind = type(key).__name__.removeprefix("StreamsGroup").removesuffix("Key")
    head = f"{kind} {getattr(key, 'member_id', '')}".strip()
    if value is None:
        return f"{head} -"
    its: Any = value
    if kind == "Metadata":
        return f"{head} {its.epoch} topology {its.validated_topology_epoch}"
    if kind == "Topology":
        return f"{head} {its.epoch}"
    if kind == "TargetAssignmentMember":
        return f"{head} {_shown(its.active_tasks)}".strip()
    if kind == "TargetAssignmentMetadata":
        return f"{head} {its.assignment_epoch}{'' if its.assignment_timestamp else ' never'}"
    if kind == "CurrentMemberAssignment":
        states = {1: "", 2: " unrevoked", 3: " unreleased"}
        epochs = f"{its.previous_member_epoch}>{its.member_epoch}"
        return f"{head} {epochs} {_shown(its.active_tasks)}{states[its.state]}".strip()
    return head


def statuses(answer: Any) -> list[int]:
    return [one.status_code for one in answer.status]
