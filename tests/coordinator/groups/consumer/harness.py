"""A core with consumer groups for tests: short calls for heartbeats, and the records as short texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.consumer.commands import (
    AssignmentComputed,
    AssignmentWanted,
    ConsumerHeartbeatCommand,
    TopicsFound,
    TopicsWanted,
)
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import ConsumerMember
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client, Record
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.coordinator.groups.harness import START, TOPICS, GroupHarness

T, U = b"T" * 16, b"U" * 16
NAMES = {T: "t", U: "u"}
IDS = {"t": T, "u": U}
Owned = Mapping[str, Sequence[int]]


def topics(**counts: int) -> TopicsImage:
    """An image of topics with these partition counts; its version is always new."""
    topics.version += 1
    made = {
        name: TopicImage(name, IDS.get(name, name.encode().ljust(16, b"\0")), count) for name, count in counts.items()
    }
    return TopicsImage(made, topics.version)


topics.version = 1


class ConsumerGroupHarness(GroupHarness):
    """A `GroupHarness` for consumer groups. With `helped`, `offloaded` has the work that the core gives away."""

    def __init__(self, *, helped: bool = False, **settings: Any) -> None:
        settings.setdefault("group_consumer_assignment_interval_ms", 0)
        super().__init__(**settings)
        self.offloaded: list[Any] = []
        if helped:
            helpers = Helpers(self.offloaded.append, self.offloaded.append)
            self.core = GroupCore(self.settings, TOPICS, helpers=helpers)
            self.core.loaded(self.now)

    def collect(self, output: Any) -> Any:
        for respond, response in output.replies:
            if isinstance(response, AssignmentWanted | TopicsWanted):
                respond(response)
        output.replies = [one for one in output.replies if not isinstance(one[1], AssignmentWanted | TopicsWanted)]
        return super().collect(output)

    def heartbeat(
        self,
        member: str,
        epoch: int | None = None,
        *,
        names: Sequence[str] | None = None,
        owned: Owned | None = None,
        timeout: int = -1,
        instance: str | None = None,
        pattern: str | None = None,
        assignor: str | None = None,
        rack: str | None = None,
        group: str = "g",
        client: str = "c",
        error: str | None = None,
        version: int = 1,
    ) -> Any:
        """Send a heartbeat, by default in the member's epoch. The result is None while it has no answer."""
        if epoch is None:
            epoch = self.member(member, group).position.epoch
        rows = None
        if owned is not None:
            rows = [ConsumerGroupHeartbeatRequestTopicPartitions(IDS[name], list(its)) for name, its in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group, member, epoch, instance, rack, timeout, names, pattern, assignor, rows
        )
        self.asked += 1
        command = ConsumerHeartbeatCommand(
            request,
            self.asked,
            Client(client, "/10.0.0.1"),
            drawn_id=f"drawn{self.asked}",
            pattern_error=error,
            version=version,
        )
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        self.settle()
        return self.reply(self.asked)

    def first_heartbeat(self, member: str, *names: str, **more: Any) -> Any:
        """Send the heartbeat with which a member joins."""
        given = list(names) if names or "pattern" not in more else None
        return self.heartbeat(member, 0, names=given, owned={}, timeout=more.pop("timeout", 5_000), **more)

    def notify(self, what: AssignmentComputed | TopicsFound | TopicsChanged) -> None:
        """Give the core a result of offloaded work, or new topics."""
        self.collect(self.core.handle(what, self.now, self.max_bytes))
        self.settle()

    def consumers(self, group: str = "g") -> ConsumerGroup:
        found = consumer_group(self.core.state, group)
        assert found is not None
        return found

    def member(self, member: str, group: str = "g") -> ConsumerMember:
        return self.consumers(group).members[member]

    def written(self) -> list[str]:
        """The records since the last call, as texts."""
        made, self.records[:] = [text(one) for one in self.records], []
        return made

    def replayed(self, records: Sequence[Record]) -> ConsumerGroup:
        """The group of another core that is made of records."""
        core = GroupCore(self.settings, self.core.state.image)
        core.replay([(one.key, one.value) for one in records], START)
        found = consumer_group(core.state, "g")
        assert found is not None
        return found


def given(response: Any) -> str | None:
    """The assignment of a response, such as "t0+1 u0". None if the response has no assignment."""
    if response.assignment is None:
        return None
    return " ".join(
        f"{NAMES[row.topic_id]}{'+'.join(map(str, row.partitions))}" for row in response.assignment.topic_partitions
    )


def text(record: Record) -> str:
    """A record in short: its type, its member, and what is in it ("-" for a tombstone)."""
    key, value = record.key, record.value
    name = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    who = getattr(key, "member_id", getattr(key, "regular_expression", ""))
    if value is None:
        what = "-"
    elif name == "Metadata":
        what = str(value.epoch)
    elif name == "TargetAssignmentMetadata":
        what = str(value.assignment_epoch)
    elif name == "TargetAssignmentMember":
        what = _rows(value.topic_partitions)
    elif name == "CurrentMemberAssignment":
        at: Any = value
        what = f"{at.member_epoch}<{at.previous_member_epoch} {at.state} {_rows(at.assigned_partitions)}"
        what += f" -{_rows(at.partitions_pending_revocation)}" if at.partitions_pending_revocation else ""
    elif name == "RegularExpression":
        what = "+".join(value.topics)
    else:
        what = ""
    return f"{name} {who} {what}".replace("  ", " ").strip()


def _rows(rows: Any) -> str:
    return " ".join(f"{NAMES[row.topic_id]}{'+'.join(map(str, row.partitions))}" for row in rows)
