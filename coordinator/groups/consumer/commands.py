"""The commands of consumer groups besides plain requests, and the work that is done outside the core."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

from muster.assignors.assignor import Assignment, Member, Topic
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer.group import topics_of
from muster.coordinator.groups.consumer.member import NOTHING, Description, Resolved, TargetAssignment
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.message import Message


@dataclass(slots=True, eq=False, repr=False)
class ConsumerHeartbeatCommand(Command):
    """A ConsumerGroupHeartbeat."""

    _: KW_ONLY
    drawn_id: str = ""
    """A fresh UUID, for a sender that has no member id yet."""
    pattern_error: str | None = None
    """RE2's message about an invalid regular expression."""
    version: int = 1
    prepared: Any = None
    """The data of a large classic group that this heartbeat upgrades (`migration`); None when nothing was read."""


@dataclass(slots=True, eq=False, repr=False)
class AssignmentWanted(Message):
    """A target assignment that this assignor is to compute. It leaves the core as replies do, when all is durable. It
    describes the group in values that do not change. The assignor's input is made of them in its thread.
    """

    group_id: str
    epoch: int
    assignor: str
    descriptions: Sequence[tuple[str, Description]]
    """The members in the order in which Kafka iterates over them."""
    names: Collection[str]
    """The names of the subscribed topics."""
    image: TopicsImage
    targets: Mapping[str, TargetAssignment]
    """The targets in force."""
    resolved: Mapping[str, Resolved]
    """The topics that patterns matched."""
    waiting: list[Command]
    """Heartbeats of members without an epoch, which wait for the targets."""
    since_ms: int
    """When the group's first targets were requested for the first time (monotonic)."""
    is_general: bool = field(default=False, kw_only=True)
    """Whether "uniform" is to use the algorithm for differing subscriptions."""
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
            known: dict[tuple[int, str | None], tuple[str, ...]] = {}
            made = self._members = [
                self._member(member_id, description, known) for member_id, description in self.descriptions
            ]
        return made

    def _member(
        self, member_id: str, description: Description, known: dict[tuple[int, str | None], tuple[str, ...]]
    ) -> Member:
        """`known`: the names that were made for another member with the same names and the same pattern."""
        by_id, key = self.image.by_id, (id(description.topics), description.pattern)
        topics = known.get(key)
        if topics is None:
            topics = known[key] = tuple(topics_of(description, self.resolved))
        owned = {
            topic.name: partitions
            for topic_id, partitions in self.targets.get(member_id, NOTHING)
            if (topic := by_id.get(topic_id)) is not None
        }
        return Member(member_id, topics, owned, -1, description.instance_id, description.rack_id)

    def assign(self, assignor: Any) -> Assignment:
        """Let the assignor compute the target assignment."""
        way = assignor.assign_generally if self.is_general else assignor.assign
        made: Assignment = way(self.members, self.topics)
        return made


@dataclass(slots=True, eq=False, repr=False)
class AnswersDue(Message):
    """Waiting members whose answers are due in later iterations of the event loop. It returns as a command."""

    group_id: str
    waiting: list[Command]
    count: int


@dataclass(slots=True, eq=False, repr=False)
class UpgradeWanted(Message):
    """A large classic group that a thread is to read, by the pure `read`, before this heartbeat upgrades it."""

    command: ConsumerHeartbeatCommand
    read: Callable[[], Any]


class UpgradePrepared(NamedTuple):
    """The command with the result of an UpgradeWanted: the heartbeat is to be answered now, with these data."""

    command: ConsumerHeartbeatCommand
    prepared: Any


class AssignmentComputed(NamedTuple):
    """The command with the result of an AssignmentWanted. `assignment` is None when the assignor failed."""

    wanted: AssignmentWanted
    assignment: Assignment | None
    prepared_target: Any = None


@dataclass(slots=True, eq=False, repr=False)
class TopicsWanted(Message):
    """The request to find the topics that these regular expressions match, as far as the client may see them."""

    group_id: str
    client: Client
    patterns: Sequence[str]
    image: TopicsImage


class TopicsFound(NamedTuple):
    """The command with the result of a TopicsWanted: names by pattern. None when the search failed."""

    wanted: TopicsWanted
    topics: Mapping[str, Sequence[str]] | None


class Helpers(NamedTuple):
    """The functions that do such work outside the core. In the output they stand in place of `Respond` functions."""

    compute: Callable[[Message], object]
    search: Callable[[Message], object]
    later: Callable[[Message], object] | None = None
    """Gives the core the same object in the next iteration of the event loop. None: all work is done at once."""
    read: Callable[[Message], object] | None = None
    """Reads a large classic group. None: the group is read at once."""


class Downgrade(NamedTuple):
    """How a consumer group becomes a classic group, when only classic members stay (`migration`)."""

    is_allowed: Callable[..., bool]
    """(step, group, the members that leave, how many join): whether the group becomes a classic group."""
    after_leave: Callable[..., None]
    """(step, group, the members that leave): remove these members, and begin a rebalance of the others."""
    after_join: Callable[..., None]
    """(step, group, `Joined`): a classic member has replaced the last member of the other protocol."""


class Joined(NamedTuple):
    """The classic member that joined, the member that it replaces, and the old group, whose epoch is the generation."""

    member_id: str
    replaced_id: str
    member_ids: Sequence[str]
    epoch: int
    is_stale: bool
    """Whether the targets in force are older than the subscriptions."""
