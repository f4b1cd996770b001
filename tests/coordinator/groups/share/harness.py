"""A core with share groups for tests: short calls for heartbeats, and the records as short texts."""

from __future__ import annotations

from typing import Any

from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicsChanged, TopicsImage
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.share.commands import StatesCreated, StatesDeleted, StatesUnwanted, StatesWanted
from muster.coordinator.groups.share.group import ShareGroup, share_group
from muster.coordinator.state_machine.interface import Record
from muster.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.groups.consumer.harness import IDS, NAMES, topics
from tests.coordinator.groups.harness import START, EpochGroupHarness

__all__ = ["IDS", "START", "ShareGroupHarness", "given", "text", "topics"]


class ShareGroupHarness(EpochGroupHarness):
    """A `GroupHarness` for share groups. With `helped`, `wanted` has the changes of states that the core asks for."""

    def __init__(self, *, helped: bool = False, image: TopicsImage | None = None, **settings: Any) -> None:
        settings.setdefault("group_share_assignment_interval_ms", 0)
        super().__init__(**settings)
        self.wanted: list[Any] = []
        self.helped = helped
        image = image or topics(t=3, u=1)
        self.core = self._core(image)
        self.collect(self.core.loaded(self.now))

    def _core(self, image: TopicsImage) -> GroupCore:
        helpers = Helpers(_nobody, _nobody, None, None, self.wanted.append) if self.helped else None
        return GroupCore(self.settings, image, helpers=helpers)

    def collect(self, output: Any) -> Any:
        for respond, response in output.replies:
            if isinstance(response, StatesWanted | StatesUnwanted):
                respond(response)
        output.replies = [one for one in output.replies if not isinstance(one[1], StatesWanted | StatesUnwanted)]
        return super().collect(output)

    def heartbeat(
        self,
        member: str,
        epoch: int | None = None,
        *names: str,
        rack: str | None = None,
        group: str = "g",
        client: str = "c",
    ) -> Any:
        """Send a heartbeat, by default in the member's epoch."""
        if epoch is None:
            epoch = self.shares(group).members[member].position.epoch
        return self.send(ShareGroupHeartbeatRequest(group, member, epoch, rack, list(names) or None), client)

    def notify(self, what: TopicsChanged | StatesCreated | StatesDeleted) -> None:
        """Give the core a result, or new topics."""
        self.collect(self.core.handle(what, self.now, self.max_bytes))
        self.settle()

    def create(self, *failures: tuple[str, int]) -> None:
        """Answer the oldest request for new states."""
        wanted = self.wanted.pop(0)
        self.notify(StatesCreated(wanted, {(IDS[name], number): (15, "why") for name, number in failures}))

    def delete(self, *failures: tuple[str, int], group: str = "g") -> None:
        """Answer the oldest request to delete states."""
        wanted = self.wanted.pop(0)
        its = {(IDS[name], number): (15, "why") for name, number in failures}
        self.notify(StatesDeleted(wanted, {group: its}))

    def shares(self, group: str = "g") -> ShareGroup:
        found = share_group(self.core.state, group)
        assert found is not None
        return found

    def shown(self, record: Record) -> str:
        return text(record)


def _nobody(_: object) -> None:
    raise AssertionError("a share group asks for nothing else")


def given(response: Any) -> str | None:
    """The assignment of a response, such as "t0+1 u0". None if the response has no assignment."""
    return None if response.assignment is None else _rows(response.assignment.topic_partitions)


def _rows(rows: Any) -> str:
    return " ".join(f"{NAMES[row.topic_id]}{'+'.join(map(str, row.partitions))}" for row in rows)


def text(record: Record) -> str:
    """A record in short: its type, whose it is, and its value."""
    key, value = record.key, record.value
    kind = type(key).__name__.removeprefix("ShareGroup").removesuffix("Key")
    whose = getattr(key, "member_id", "")
    head = f"{kind} {whose}".strip()
    if value is None:
        return f"{head} -"
    fields: Any = value
    made = {
        "MemberMetadata": lambda: ",".join(fields.subscribed_topic_names),
        "Metadata": lambda: str(fields.epoch),
        "TargetAssignmentMember": lambda: _rows(fields.topic_partitions),
        "TargetAssignmentMetadata": lambda: (
            f"{fields.assignment_epoch}{'' if fields.assignment_timestamp else ' never'}"
        ),
        "CurrentMemberAssignment": lambda: (
            f"{fields.previous_member_epoch}>{fields.member_epoch} {_rows(fields.assigned_partitions)}"
        ),
        "StatePartitionMetadata": lambda: (
            f"({_rows(fields.initializing_topics)}) ({_rows(fields.initialized_topics)}) "
            f"({' '.join(one.topic_name for one in fields.deleting_topics)})"
        ),
    }
    return f"{head} {made[kind]()}".strip()
