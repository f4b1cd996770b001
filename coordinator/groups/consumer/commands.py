"""Commands of consumer groups that are not requests of the protocol, and requests for work outside the core."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

from muster.assignors.assignor import Assignment, Member, Topic
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.kafka_order import TargetRows
from muster.coordinator.groups.consumer.group import topics_of
from muster.coordinator.groups.consumer.member import NOTHING, Description, Resolved, TargetAssignment
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.message import Message


@dataclass(slots=True, eq=False, repr=False)
class ConsumerHeartbeatCommand(Command):
    """A ConsumerGroupHeartbeat."""

    _: KW_ONLY
    drawn_id: str = ""
    """A fresh UUID, for a sender without a member id."""
    pattern_error: str | None = None
    """RE2's error message if the request's regular expression is invalid."""
    version: int = 1
    prepared: Any = None
    """The data of a large classic group that this heartbeat upgrades (`migration`); None when no data was read."""


@dataclass(slots=True, eq=False, repr=False)
class AssignmentWanted(Message):
    """The request to compute a target assignment. The request leaves the core like a reply, when the log is durable.
    The request's values never change, so a thread can make the assignor's input of them.
    """

    group_id: str
    epoch: int
    assignor: str
    descriptions: Sequence[tuple[str, Description]]
    """The members in Kafka's order of iteration."""
    names: Collection[str]
    """The names of the subscribed topics."""
    image: TopicsImage
    targets: Mapping[str, TargetAssignment]
    """The targets in force."""
    orders: Mapping[str, TargetRows]
    """Targets in the order in which Kafka has them, where they are not in the order of `targets`."""
    resolved: Mapping[str, Resolved]
    """The topics that patterns matched."""
    waiting: list[Command]
    """Heartbeats of members without an epoch, which wait for the targets."""
    since_ms: int
    """When first targets were requested for the group, before any repetition (monotonic ms)."""
    is_general: bool = field(default=False, kw_only=True)
    """Whether "uniform" is to use Kafka's algorithm for members with different subscriptions."""
    are_equal: bool = field(default=False, kw_only=True)
    """Whether all members name the same topics and have the same pattern."""
    equal: Any = field(default=None, kw_only=True)
    """The group's last equal shares (`prepared_target.EqualTargets`). None when the group has none."""
    _members: list[Member] | None = field(default=None, init=False)
    _topics: dict[str, Topic] | None = field(default=None, init=False)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The existing topics, by name, for the assignor."""
        made = self._topics
        if made is None:
            by_name = self.image.by_name
            made = self._topics = {
                name: Topic(topic.partitions, (), topic.topic_id)
                for name in self.names
                if (topic := by_name.get(name)) is not None
            }
        return made

    @property
    def members(self) -> Sequence[Member]:
        """The members, for the assignor."""
        made = self._members
        if made is None:
            by_id, targets = self.image.by_id, self.targets
            known: dict[tuple[int, str | None], tuple[str, ...]] = {}
            made = self._members = []
            for member_id, description in self.descriptions:
                key = id(description.topics), description.pattern
                topics = known.get(key)
                if topics is None:  # for the first member with these names and this pattern
                    topics = known[key] = self.subscription(description)
                owned = {
                    # A topic that was deleted takes room in Kafka's table of the target.
                    topic.name if (topic := by_id.get(topic_id)) is not None else f"?{topic_id.hex()}": partitions
                    for topic_id, partitions in self.orders.get(member_id) or targets.get(member_id, NOTHING)
                }
                made.append(Member(member_id, topics, owned, -1, description.instance_id, description.rack_id))
        return made

    def subscription(self, description: Description) -> tuple[str, ...]:
        """The names of all topics that a member with this description subscribes to, in ascending order."""
        names = topics_of(description, self.resolved)
        return names if isinstance(names, tuple) else tuple(sorted(names))

    def assign(self, assignor: Any) -> Assignment:
        """Let the assignor compute the target assignment."""
        way = assignor.assign_generally if self.is_general else assignor.assign
        made: Assignment = way(self.members, self.topics)
        return made


@dataclass(slots=True, eq=False, repr=False)
class AnswersDue(Message):
    """Waiting members to be answered in a later iteration of the event loop. The core gets this object as a command."""

    group_id: str
    waiting: list[Command]
    count: int


@dataclass(slots=True, eq=False, repr=False)
class UpgradeWanted(Message):
    """The request to read a large classic group in a thread, by `read`, before this heartbeat upgrades the group."""

    command: ConsumerHeartbeatCommand
    read: Callable[[], Any]


class UpgradePrepared(NamedTuple):
    """The command with the result of an UpgradeWanted. The core then answers the heartbeat with these data."""

    command: ConsumerHeartbeatCommand
    prepared: Any


class AssignmentComputed(NamedTuple):
    """The command with the result of an AssignmentWanted. `prepared_target` is None when the assignor failed."""

    wanted: AssignmentWanted
    prepared_target: Any


@dataclass(slots=True, eq=False, repr=False)
class TopicsWanted(Message):
    """The request to find the topics that these regular expressions match, among those that the client may see."""

    group_id: str
    client: Client
    patterns: Sequence[str]
    image: TopicsImage


class TopicsFound(NamedTuple):
    """The command with the result of a TopicsWanted: topic names by pattern. None when the search failed."""

    wanted: TopicsWanted
    topics: Mapping[str, Sequence[str]] | None


class Downgrade(NamedTuple):
    """The functions that make a consumer group a classic group, when only classic members stay (`migration`)."""

    is_allowed: Callable[..., bool]
    """(step, group, members that leave, number of members that join): whether the group becomes a classic group."""
    after_leave: Callable[..., None]
    """(step, group, members that leave): remove these members, and begin a rebalance of the other members."""
    after_join: Callable[..., None]
    """(step, group, `Joined`): make the group classic, after a classic member has replaced the last consumer member."""


class Joined(NamedTuple):
    """A classic member that has replaced the last consumer member, and the old group, whose epoch is the generation."""

    member_id: str
    replaced_id: str
    member_ids: Sequence[str]
    epoch: int
    is_stale: bool
    """Whether the targets in force are older than the subscriptions."""
